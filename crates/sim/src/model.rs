//! What must be true: a plain map for each container, brought up to date by every commit.
//!
//! The store tells which operation a commit belongs to. What the operation does is computed here
//! anew, on the state that the commits before it left; what the engine answers must be the same. So
//! the model is at every moment what all readers must see at that moment, also of operations whose
//! clients never heard of their end.

use std::collections::BTreeMap;

use crate::kind::{Doc, Kind};

/// An item as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub n: u64,
    pub u: u64,
    pub c: u64,
    pub log: Vec<u64>,
    /// When it was written, in Unix seconds.
    pub ts: u64,
    pub ttl: Option<i32>,
    pub etag: String,
    /// The commit that changed it last.
    pub lsn: u64,
    /// Commits of all containers until then.
    pub stamp: u64,
}

/// The items of a logical partition, also expired ones.
pub type Items = BTreeMap<u8, Item>;

/// What one operation on one item wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    Create(Doc),
    Upsert(Doc, Option<String>),
    /// The item of this id, which may get another one.
    Replace(u8, Doc, Option<String>),
    /// Sets `n`, counts `c` up and adds to `log`.
    Patch {
        id: u8,
        n: u64,
        u: Option<u64>,
    },
    Delete(u8, Option<String>),
    Read(u8),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    Item(Item),
    Deleted,
    NotFound,
    Conflict,
    Precondition,
    /// Another operation of the same batch failed.
    Dependency,
}

impl Done {
    pub fn is_failure(&self) -> bool {
        !matches!(self, Done::Item(_) | Done::Deleted)
    }
}

/// When something happens.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    pub seconds: u64,
    pub lsn: u64,
    pub stamp: u64,
    /// The ETags of what a commit stored, by id.
    pub etags: BTreeMap<u8, String>,
}

/// Is an item alive?
pub fn lives(kind: Kind, item: &Item, seconds: u64) -> bool {
    let Some(default) = kind.default_ttl() else { return true };
    match item.ttl {
        Some(ttl) if ttl < 0 => true,
        Some(ttl) => item.ts + u64::from(ttl.unsigned_abs()) > seconds,
        None => item.ts + default > seconds,
    }
}

/// Does one operation.
pub fn apply(kind: Kind, items: &mut Items, want: &Want, at: &Moment) -> Done {
    let live = |items: &Items, id: u8| {
        items.get(&id).filter(|item| lives(kind, item, at.seconds)).cloned()
    };
    match want {
        Want::Read(id) => live(items, *id).map_or(Done::NotFound, Done::Item),
        Want::Create(doc) => match live(items, doc.id) {
            Some(_) => Done::Conflict,
            None => put(kind, items, doc.id, new_item(doc, at), at),
        },
        Want::Upsert(doc, etag) => match live(items, doc.id) {
            Some(item) if !fits(&item, etag.as_ref()) => Done::Precondition,
            Some(_) | None => put(kind, items, doc.id, new_item(doc, at), at),
        },
        Want::Replace(id, doc, etag) => match live(items, *id) {
            None => Done::NotFound,
            Some(item) if !fits(&item, etag.as_ref()) => Done::Precondition,
            Some(_) if doc.id != *id && items.contains_key(&doc.id) => Done::Conflict,
            Some(_) => {
                let before = items.clone();
                if doc.id != *id {
                    items.remove(id);
                }
                let done = put(kind, items, doc.id, new_item(doc, at), at);
                if done.is_failure() {
                    *items = before;
                }
                done
            }
        },
        Want::Patch { id, n, u } => match live(items, *id) {
            None => Done::NotFound,
            Some(mut item) => {
                (item.n, item.u, item.c) = (*n, u.unwrap_or(item.u), item.c + 1);
                item.log.push(*n);
                stamp(&mut item, *id, at);
                put(kind, items, *id, item, at)
            }
        },
        Want::Delete(id, etag) => match live(items, *id) {
            None => Done::NotFound,
            Some(item) if !fits(&item, etag.as_ref()) => Done::Precondition,
            Some(_) => {
                items.remove(id);
                Done::Deleted
            }
        },
    }
}

/// Does all of them, or none.
pub fn apply_all(kind: Kind, items: &mut Items, wants: &[Want], at: &Moment) -> Vec<Done> {
    let mut copy = items.clone();
    let mut all = Vec::new();
    for (place, want) in wants.iter().enumerate() {
        let done = apply(kind, &mut copy, want, at);
        if done.is_failure() {
            let mut undone = vec![Done::Dependency; wants.len()];
            undone[place] = done;
            return undone;
        }
        all.push(done);
    }
    *items = copy;
    all
}

fn fits(item: &Item, etag: Option<&String>) -> bool {
    etag.is_none_or(|etag| item.etag == *etag)
}

fn new_item(doc: &Doc, at: &Moment) -> Item {
    let mut item = Item {
        n: doc.n,
        u: doc.u,
        c: 0,
        log: vec![doc.n],
        ts: 0,
        ttl: doc.ttl,
        etag: String::new(),
        lsn: 0,
        stamp: 0,
    };
    stamp(&mut item, doc.id, at);
    item
}

fn stamp(item: &mut Item, id: u8, at: &Moment) {
    (item.ts, item.lsn, item.stamp) = (at.seconds, at.lsn, at.stamp);
    item.etag = at.etags.get(&id).cloned().unwrap_or_default();
}

/// Puts an item unless another living one has its unique value.
fn put(kind: Kind, items: &mut Items, id: u8, item: Item, at: &Moment) -> Done {
    let is_taken = kind.is_unique()
        && items.iter().any(|(other, there)| {
            *other != id && there.u == item.u && lives(kind, there, at.seconds)
        });
    if is_taken {
        return Done::Conflict;
    }
    items.insert(id, item.clone());
    Done::Item(item)
}
