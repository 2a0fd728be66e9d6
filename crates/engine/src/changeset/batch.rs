//! All that changes with an item, as one batch.
//!
//! The item itself, its index entries (only those that differ), the way to it by resource id, its
//! unique keys, the feed's record, and the counters of its logical and physical partition. They
//! commit together, so a crash leaves all of it or nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use partita_model::{
    Document, Epk, Error, IndexingPolicy, KeyPart, Lsn, MemoryBudget, PartitionKey, Raw, Result,
    UniqueKey, Usage, keycode,
};
use partita_storage::{Batch, Entry, Snapshot, Space};

use super::{Effects, ItemPlace, StoredItem};
use crate::catalog::Container;
use crate::feed::{self, Kind, Versions};
use crate::index::{self, Entries, UNKNOWN_SHAPE};
use crate::keys::{self, ItemKey, Total};
use crate::live::{LivePartition, RidClaim};
use crate::memory;
use crate::record::ItemRecord;

/// The way of an item from what is stored to what shall be.
#[derive(Clone, Copy)]
pub(crate) struct Transition<'a> {
    /// Where the item is.
    pub(crate) from: &'a ItemPlace,
    /// Where it will be: the same place, or that of another id under the same partition key.
    pub(crate) to: &'a ItemPlace,
    /// The stored version, also an expired one.
    pub(crate) old: Option<&'a StoredItem>,
    /// None: the item goes.
    pub(crate) new: Option<&'a ItemRecord>,
    /// Does the feed keep all versions of the container's items?
    pub(crate) keeps_all: bool,
    /// What the new version's index entries are limited by.
    pub(crate) memory: Option<&'a MemoryBudget>,
}

/// What a batch amounts to, for its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Versions of the item that come or go.
    pub(crate) versions: u64,
    pub(crate) bytes: u64,
    pub(crate) index_entries: u64,
    /// By how many bytes the logical partition grows or shrinks.
    pub(crate) grown: i64,
}

impl Counts {
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            writes: self.versions,
            written_bytes: self.bytes,
            index_entries_written: self.index_entries,
            ..Usage::default()
        }
    }
}

/// The batch of a transition.
pub(crate) fn build(
    way: Transition<'_>,
    view: &dyn Snapshot,
    now_seconds: u64,
) -> Result<(Batch, Counts)> {
    // In the order of spaces, and nearly in that of keys: the store sorts a batch, which is little
    // work then.
    let mut batch = Batch { frees: way.new.is_none(), ..Batch::new() };
    let mut counts = Counts::default();
    way.expect(&mut batch);
    way.put_item(&mut batch);
    way.change_entries(&mut batch, view, &mut counts)?;
    way.change_rid(&mut batch);
    way.change_uniques(&mut batch, view, now_seconds)?;
    way.log(&mut batch, now_seconds);
    way.count(&mut batch, &mut counts);
    Ok((batch, counts))
}

impl Transition<'_> {
    /// Whether the item gets another key.
    fn moves(&self) -> bool {
        self.from.item_key != self.to.item_key
    }

    fn old_record(&self) -> Option<&ItemRecord> {
        self.old.map(|current| &current.record)
    }

    fn expect(&self, batch: &mut Batch) {
        let key = self.from.item_key.clone();
        match self.old {
            Some(current) => batch.expect_unchanged(Space::Items, key, current.lsn),
            None => batch.expect_absent(Space::Items, key),
        }
        if self.moves() {
            batch.expect_absent(Space::Items, self.to.item_key.clone());
        }
    }

    fn put_item(&self, batch: &mut Batch) {
        if let Some(record) = self.new {
            batch.put(Space::Items, self.to.item_key.clone(), record.encode());
        }
        if self.new.is_none() || self.moves() {
            batch.delete(Space::Items, self.from.item_key.clone());
        }
    }

    /// Adds to the counters.
    fn count(&self, batch: &mut Batch, counts: &mut Counts) {
        let (mut items, mut bytes) = (0_i64, 0_i64);
        if let Some(record) = self.old_record() {
            items -= 1;
            bytes -= size(self.from, record);
            counts.versions += 1;
            counts.bytes += record.body.len() as u64;
        }
        if let Some(record) = self.new {
            items += 1;
            bytes += size(self.to, record);
            counts.versions += 1;
            counts.bytes += record.body.len() as u64;
        }
        counts.grown = bytes;
        let head = keys::head(&self.to.epk, &self.to.key);
        batch.add(Space::Meta, head, keys::head_delta(items, bytes));
        batch.add(Space::Meta, keys::total(Total::Items), items);
        batch.add(Space::Meta, keys::total(Total::Bytes), bytes);
        let is_left_out = |record: &ItemRecord| i64::from(record.is_left_out());
        let excluded = self.new.map_or(0, is_left_out) - self.old_record().map_or(0, is_left_out);
        if excluded != 0 {
            batch.add(Space::Meta, keys::total(Total::Excluded), excluded);
        }
    }

    /// Changes the index entries that differ. They lead to the item by its rid, so an item that
    /// only moves keeps them.
    fn change_entries(
        &self,
        batch: &mut Batch,
        view: &dyn Snapshot,
        counts: &mut Counts,
    ) -> Result<()> {
        // What is there must be removed, whatever memory there is by now.
        let before = entries(&self.from.container, self.old_record(), None)?;
        let after = entries(&self.to.container, self.new, self.memory)?;
        if let (Some(shape), Some(record)) = (after.shape, self.new)
            && before.shape != after.shape
        {
            let place = (&*self.to.container, &**self.to.live());
            describe_shape(place, record, shape, view, batch)?;
        }
        counts.index_entries += exchange(batch, before.keys, after.keys);
        Ok(())
    }

    fn change_rid(&self, batch: &mut Batch) {
        let before = self.old_record().map(|record| record.rid);
        let after = self.new.map(|record| record.rid);
        if before == after && !self.moves() {
            return;
        }
        if let Some(rid) = before.filter(|_| before != after) {
            batch.delete(Space::Index, keys::rid(rid));
        }
        if let Some(rid) = after {
            batch.put(Space::Index, keys::rid(rid), self.to.item_key.clone());
        }
    }

    fn change_uniques(&self, batch: &mut Batch, view: &dyn Snapshot, now: u64) -> Result<()> {
        let place = self.to;
        if place.container.definition.unique_keys.is_empty() {
            return Ok(());
        }
        let guards = |record| unique_keys(&place.container, &place.epk, &place.key, record);
        let before = guards(self.old_record())?;
        let after = guards(self.new)?;
        for key in before.iter().filter(|key| !after.contains(key)) {
            // An expired item's claim may have passed to another item already.
            if let Some(claim) = view.get(Space::Index, key)?
                && claim.value == self.from.item_key
            {
                batch.expect_unchanged(Space::Index, key.clone(), claim.lsn);
                batch.delete(Space::Index, key.clone());
            }
        }
        for key in after {
            match view.get(Space::Index, &key)? {
                None => batch.expect_absent(Space::Index, key.clone()),
                Some(claim) if claim.value == self.from.item_key && !self.moves() => {
                    // Was its time over, another item may take the claim at this moment, and
                    // leaves the item itself as it is.
                    batch.expect_unchanged(Space::Index, key, claim.lsn);
                    continue;
                }
                Some(claim) => {
                    if claim.value != self.from.item_key {
                        // The owner may be written anew meanwhile, and keeps its claim by that.
                        let expired = abandoned(place, view, &claim.value, now)?;
                        let owner_lsn = expired.ok_or_else(taken)?;
                        batch.expect_unchanged(Space::Items, claim.value.to_vec(), owner_lsn);
                    }
                    batch.expect_unchanged(Space::Index, key.clone(), claim.lsn);
                }
            }
            batch.put(Space::Index, key, place.item_key.clone());
        }
        Ok(())
    }

    fn log(&self, batch: &mut Batch, now_seconds: u64) {
        let now = u32::try_from(now_seconds).unwrap_or(u32::MAX);
        let ts = Some(self.new.map_or(now, |record| record.ts));
        let keeps_all = self.keeps_all;
        let mut position = 0;
        let mut log =
            |kind, place: &ItemPlace, old: Option<&StoredItem>, new: Option<&ItemRecord>| {
                let expired = kind == Kind::Delete && old.is_some_and(|current| !current.live);
                let versions = keeps_all.then(|| versions(old, new, expired));
                let item_key = &place.item_key;
                let change = feed::Change { kind, ts, expired, item_key, versions };
                batch.log(feed::ordinal(position), change.encode());
                position += 1;
            };
        match (self.old, self.new) {
            (Some(old), Some(new)) if old.live && !self.moves() => {
                log(Kind::Replace, self.to, Some(old), Some(new));
            }
            (Some(old), Some(new)) => {
                // That an expired item ended is told to those who follow all versions.
                if old.live || keeps_all {
                    log(Kind::Delete, self.from, Some(old), None);
                }
                log(Kind::Create, self.to, None, Some(new));
            }
            (None, Some(new)) => log(Kind::Create, self.to, None, Some(new)),
            (old, None) => log(Kind::Delete, self.from, old, None),
        }
    }
}

/// What the feed keeps of an item where it keeps all versions: what it was is told only of items
/// that somebody deleted.
fn versions<'a>(
    old: Option<&'a StoredItem>,
    new: Option<&'a ItemRecord>,
    expired: bool,
) -> Versions<'a> {
    let deleted = old.filter(|_| new.is_none() && !expired);
    Versions {
        current: new.map(|record| &record.body[..]),
        previous_lsn: old.map(|current| current.record.changed_at(current.lsn)),
        previous: deleted.map(|current| &current.record.body[..]),
    }
}

/// The batch that removes an item which has outlived its time, and what that does to the partition.
pub(crate) fn removal_of_expired(
    container: &Arc<Container>,
    view: &dyn Snapshot,
    stored: &Entry,
    record: ItemRecord,
    (now_seconds, keeps_all): (u64, bool),
) -> Result<(Batch, Effects)> {
    let components = container.definition.partition_key.paths.len();
    let key = keys::parse_item(&stored.key, components)
        .ok_or_else(|| Error::corrupt("the key of an expired item is damaged"))?;
    let place = ItemPlace::new(Arc::clone(container), key.key, key.id);
    let old = StoredItem { record, lsn: stored.record.lsn, live: false };
    let way = Transition {
        from: &place,
        to: &place,
        old: Some(&old),
        new: None,
        keeps_all,
        memory: None,
    };
    let (batch, counts) = build(way, view, now_seconds)?;
    Ok((batch, Effects::new(&counts, RidClaim::default())))
}

fn taken() -> Error {
    Error::conflict(
        "Unique index constraint violation. Another item of this partition key has the same values \
         under a unique key",
    )
}

/// What an item counts for.
fn size(place: &ItemPlace, record: &ItemRecord) -> i64 {
    i64::try_from(place.item_key.len() + record.body.len()).unwrap_or(i64::MAX)
}

/// The index entries of a version.
pub(super) fn entries(
    container: &Container,
    record: Option<&ItemRecord>,
    memory: Option<&MemoryBudget>,
) -> Result<Entries> {
    let Some(record) = record.filter(|record| record.indexed) else {
        return Ok(Entries::default());
    };
    let policy = policy_of(container, record)?;
    let text = container.indexed_text(record.policy_version, record.text()?)?;
    // The store holds as much again until they are in its buffers.
    let bytes_max = memory.map_or(usize::MAX, |memory| memory.one_bytes_max() / 2);
    let entries = index::entries(&text, record.rid, policy, container.terms, bytes_max);
    entries.ok_or_else(|| match memory {
        Some(memory) => memory.too_much(memory::ENTRIES),
        None => Error::internal("index entries without a limit are beyond it"),
    })
}

/// The policy that a version's entries were made under.
pub(super) fn policy_of<'c>(
    container: &'c Container,
    record: &ItemRecord,
) -> Result<&'c IndexingPolicy> {
    container.policy(record.policy_version).ok_or_else(|| {
        Error::corrupt(format!(
            "an item was indexed by the unknown policy {}",
            record.policy_version
        ))
    })
}

/// The dictionary's record of a version's shape.
pub(super) fn dictionary(container: &Container, record: &ItemRecord) -> Result<Vec<u8>> {
    let policy = policy_of(container, record)?;
    let text = container.indexed_text(record.policy_version, record.text()?)?;
    Ok(index::dictionary(&text, policy, container.terms))
}

/// About how many writes a batch has beside entries of the index.
const OTHER_WRITES: usize = 8;

/// Deletes and puts what differs between two sorted lists of keys; how many entries that are which
/// have a price.
fn exchange(batch: &mut Batch, before: Vec<Bytes>, after: Vec<Bytes>) -> u64 {
    batch.writes.reserve(after.len() + OTHER_WRITES);
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    let mut priced = 0;
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(old), Some(new)) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return priced,
        };
        let goes = before.next_if(|_| order.is_le());
        let comes = after.next_if(|_| order.is_ge());
        let changed = if order.is_lt() { &goes } else { &comes };
        priced += u64::from(order.is_ne() && changed.as_ref().is_some_and(|key| has_price(key)));
        match (goes, comes) {
            (Some(key), None) => batch.delete(Space::Index, key),
            (None, Some(key)) => batch.put(Space::Index, key, Bytes::new()),
            (_, _) => {}
        }
    }
}

/// Shapes are the index's own bookkeeping.
fn has_price(key: &[u8]) -> bool {
    !keys::is_shape_entry(key)
}

/// Puts a shape into the partition's dictionary unless it is there.
fn describe_shape(
    (container, live): (&Container, &LivePartition),
    record: &ItemRecord,
    shape: u64,
    view: &dyn Snapshot,
    batch: &mut Batch,
) -> Result<()> {
    let known = &live.shapes;
    if shape == UNKNOWN_SHAPE || known.contains(shape) {
        return Ok(());
    }
    match view.get(Space::Index, &keys::shape(shape))? {
        // What a transaction put there itself is not in the store yet.
        Some(stored) if stored.lsn <= view.lsn() => known.insert(shape),
        Some(_) => {}
        None => {
            let paths = dictionary(container, record)?;
            batch.put(Space::Index, keys::shape(shape), paths);
        }
    }
    Ok(())
}

/// The batch that brings an item from a former policy to the present one: its record's header and
/// the index entries that differ, nothing else.
pub(crate) fn brought_over(
    container: &Container,
    live: &LivePartition,
    view: &dyn Snapshot,
    (stored, old): (&Entry, &ItemRecord),
) -> Result<Batch> {
    let new = ItemRecord {
        indexed: true,
        policy_version: container.policies.current,
        changed: Some(old.changed_at(stored.record.lsn)),
        ..old.clone()
    };
    let mut batch = Batch::new();
    batch.expect_unchanged(Space::Items, stored.key.to_vec(), stored.record.lsn);
    batch.put(Space::Items, stored.key.to_vec(), new.encode());
    let (before, after) =
        (entries(container, Some(old), None)?, entries(container, Some(&new), None)?);
    if let Some(shape) = after.shape.filter(|shape| before.shape != Some(*shape)) {
        describe_shape((container, live), &new, shape, view, &mut batch)?;
    }
    exchange(&mut batch, before.keys, after.keys);
    if old.is_left_out() {
        batch.add(Space::Meta, keys::total(Total::Excluded), -1);
    }
    Ok(batch)
}

/// All that an item has in the index space: what a check compares.
pub(crate) struct Derived {
    /// Entries of the index, which have no value.
    pub(crate) entries: Vec<Bytes>,
    /// Keys whose value is the item's key.
    pub(crate) pointers: Vec<Vec<u8>>,
    /// The item's shape and the dictionary's record of it.
    pub(crate) shape: Option<(u64, Vec<u8>)>,
}

pub(crate) fn derived(
    container: &Container,
    key: &ItemKey,
    record: &ItemRecord,
) -> Result<Derived> {
    let Entries { keys: entries, shape } = entries(container, Some(record), None)?;
    let mut pointers = vec![keys::rid(record.rid)];
    pointers.extend(unique_keys(container, &key.epk, &key.key, Some(record))?);
    let shape = match shape.filter(|shape| *shape != UNKNOWN_SHAPE) {
        Some(shape) => {
            let paths = dictionary(container, record)?;
            Some((shape, paths))
        }
        None => None,
    };
    Ok(Derived { entries, pointers, shape })
}

/// The LSN of the item that claims a unique key, if that has outlived its time.
fn abandoned(
    place: &ItemPlace,
    view: &dyn Snapshot,
    owner: &[u8],
    now_seconds: u64,
) -> Result<Option<Lsn>> {
    let Some(stored) = view.get(Space::Items, owner)? else {
        return Err(Error::corrupt("a unique key is claimed by an item that is not there"));
    };
    let record = ItemRecord::decode(&stored.value)?;
    let expired = record.expired(place.container.definition.default_ttl, now_seconds);
    Ok(expired.then_some(stored.lsn))
}

/// The keys that guard a version's unique values, one per constraint.
pub(super) fn unique_keys(
    container: &Container,
    epk: &Epk,
    key: &PartitionKey,
    record: Option<&ItemRecord>,
) -> Result<Vec<Vec<u8>>> {
    let Some(record) = record else { return Ok(Vec::new()) };
    let document = Document::new(record.text()?);
    let constraints = container.definition.unique_keys.iter().enumerate();
    let guard = |(n, constraint): (usize, &UniqueKey)| {
        let mut values = Vec::new();
        for path in &constraint.paths {
            put_unique_value(&mut values, document.get(path));
        }
        keys::unique(n, epk, key, &values)
    };
    Ok(constraints.map(guard).collect())
}

/// Marks a value that is no scalar; the scalars' own tags are lower.
const COMPOUND: u8 = 0x0B;

fn put_unique_value(out: &mut Vec<u8>, value: Option<Raw<'_>>) {
    match value.map(|raw| (raw, raw.scalar())) {
        None => keycode::put_key_part(out, &KeyPart::Undefined),
        Some((_, Some(scalar))) => keycode::put_scalar(out, &scalar),
        Some((raw, None)) => {
            out.push(COMPOUND);
            keycode::put_str(out, raw.text());
        }
    }
}
