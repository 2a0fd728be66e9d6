//! From a document to its index entries, and back from an entry to what it says. Pure, but for
//! `left_out.rs`, which asks a view whether an index has all items. Beside it stand sets of
//! resource ids (`rid_set.rs`) and the memory of the keys behind them (`pointers.rs`).
//!
//! The index of a partition has three families of entries (`keys/`), each with an empty value and
//! the item's rid at the end of its key. Whoever has a rid finds the item by `02 rid → item key`,
//! so an item that moves to another key rewrites that one record and no entry.
//!
//! - A **term** (`terms.rs`) is a path and a value at it: one entry per distinct scalar, empty
//!   array and empty object of the item. It answers comparisons with one path.
//! - A **composite** (`composite.rs`) is the values at several paths, side by side and each in its
//!   own direction: one entry per composite index and item. It answers sorting by several paths.
//! - A **shape** (`shape.rs`) is the set of an item's paths: one entry per item, and a dictionary
//!   that says which paths a shape has. It answers whether a path exists.
//!
//! ```text
//! path   each step: 01 name | 02 for "any element of an array"; end 04, or 00 in containers of old
//!        (see Terms); or, if that is too long, 05 or 03 and 16 bytes of hash
//! value  sort key: undefined 00 · null 01 · false 02 · true 03 · number 05 + double · string 08 +
//!        text in UTF-16 order · array 0B · object 0C
//! ```
//!
//! Values are in the order in which queries compare and sort them, so a range of values is a range
//! of entries. Strings are cut where they get too long for a key, always at the same number of
//! bytes, and a cut string carries a mark ([`is_cut`]). The order of entries holds all the same,
//! but strings that differ only behind the cut are equal to it: **whoever meets a cut value has to
//! look at the item.**
//!
//! Which paths have entries is the container's indexing policy, and an item's entries are always
//! those of the policy that its record names. A write compares the entries of the old and the new
//! version and changes only what differs. What may be asked of the index is [`ServedPolicy`].

mod composite;
mod computed;
mod left_out;
mod pointers;
mod rid_set;
mod served;
mod shape;
mod terms;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::Bytes;
use partita_model::{
    Document, IndexStep, IndexingMode, IndexingPolicy, Node, Step, UNINDEXED_NAMES,
};
use partita_model::{keycode, murmur3_128};

pub(crate) use composite::{columns_of, composite_id};
pub(crate) use computed::IndexedComputed;
pub(crate) use left_out::has_all_items;
pub(crate) use pointers::{KeyList, NumberHasher, Pointers, piece_range};
pub(crate) use rid_set::RidSet;
pub use served::ServedPolicy;
pub(crate) use shape::{DEPTH_MAX as SHAPE_DEPTH_MAX, Kind, Shape, UNKNOWN_SHAPE, dictionary};
pub(crate) use terms::Terms;

pub(crate) use crate::entry_value::{
    ARRAY, COLUMN_STRING_BYTES_MAX, EntryValue, fit, is_cut, put_column, string_bytes_max,
};
use crate::entry_value::{PATH_HASHED, PATH_HASHED_LONG, STEP_END_LONG};
use crate::keys;
use crate::memory::CHANGE_BYTES;

const STEP_MEMBER: u8 = 0x01;
const STEP_ELEMENT: u8 = 0x02;
const STEP_END: u8 = 0x04;

/// A longer path is replaced by its hash: names have no limit of their own, keys have.
const PATH_BYTES_MAX: usize = 1_024;

/// The index entries of one version of an item.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    /// Whole keys of the index space, sorted, each once.
    pub(crate) keys: Vec<Bytes>,
    /// The shape that one of the keys names.
    pub(crate) shape: Option<u64>,
}

/// The entries of a document, as it is stored, under a policy. None if they take more memory than
/// this: an item of 2 MB may have hundreds of thousands of values at a path of a kilobyte.
pub(crate) fn entries(
    text: &str,
    rid: u64,
    policy: &IndexingPolicy,
    terms: Terms,
    bytes_max: usize,
) -> Option<Entries> {
    if policy.mode() == IndexingMode::None {
        return Some(Entries::default());
    }
    let document = Document::new(text);
    let mut keys = KeyBuffer::new(text.len(), bytes_max);
    let mut shape = shape::Gather::default();
    let mut path = Vec::with_capacity(64);
    document.visit(&mut |place, node| {
        if place.is_empty() || !indexes(policy, place) {
            return;
        }
        path.clear();
        put_path(&mut path, place.iter().map(of_step), terms);
        if let Node::Leaf(leaf) = &node {
            keys.push(|out| terms::put_key(out, &path, leaf, rid));
        }
        shape.meet(place, &mut path, &node);
    });
    let shape = shape.id();
    keys.push(|out| out.extend_from_slice(&keys::shape_entry(shape, rid)));
    composite::put_keys(&mut keys, document, rid, policy);
    let is_whole = keys.has_room();
    is_whole.then(|| Entries { keys: keys.into_sorted(), shape: Some(shape) })
}

/// Keys one behind the other: a document has dozens, and a place in memory for each would cost more
/// than the keys.
struct KeyBuffer {
    bytes: Vec<u8>,
    keys: Vec<Range<usize>>,
    /// With more, no further ones are added.
    bytes_max: usize,
}

impl KeyBuffer {
    /// For a document of this length. Its values are in its keys, and paths take about as much as
    /// names and punctuation do.
    fn new(text_bytes: usize, bytes_max: usize) -> KeyBuffer {
        let bytes = Vec::with_capacity(text_bytes * 3 / 2);
        KeyBuffer { bytes, keys: Vec::with_capacity(32), bytes_max }
    }

    fn has_room(&self) -> bool {
        self.bytes.len() + self.keys.len() * CHANGE_BYTES <= self.bytes_max
    }

    /// Adds what `put` appends.
    fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room() {
            return;
        }
        let start = self.bytes.len();
        put(&mut self.bytes);
        self.keys.push(start..self.bytes.len());
    }

    /// The keys in their order, each once.
    fn into_sorted(self) -> Vec<Bytes> {
        let KeyBuffer { bytes, mut keys, .. } = self;
        let key = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        keys.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        keys.dedup_by(|a, b| key(a) == key(b));
        let bytes = Bytes::from(bytes);
        keys.into_iter().map(|range| bytes.slice(range)).collect()
    }
}

/// Is the value at this place of an item indexed?
fn indexes(policy: &IndexingPolicy, place: &[Step<'_>]) -> bool {
    let has_entries = match place.first() {
        Some(Step::Member(name)) if name.starts_with('_') => {
            !UNINDEXED_NAMES.contains(&name.as_ref())
        }
        Some(Step::Member(_) | Step::Element) | None => true,
    };
    has_entries && policy.indexes(place)
}

/// An encoded path with its end: what all terms of the path begin with, and how shapes name it.
pub(crate) fn path_prefix(path: &[IndexStep], terms: Terms) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_path(&mut out, path.iter().map(of_index_step), terms);
    out
}

/// Appends a path to an empty buffer; None is a step to any element.
fn put_path<'a>(out: &mut Vec<u8>, steps: impl Iterator<Item = Option<&'a str>>, terms: Terms) {
    for step in steps {
        match step {
            Some(name) => {
                out.push(STEP_MEMBER);
                keycode::put_str(out, name);
            }
            None => out.push(STEP_ELEMENT),
        }
    }
    let (end, hashed) = match terms {
        Terms::Long => (STEP_END_LONG, PATH_HASHED_LONG),
        Terms::Short => (STEP_END, PATH_HASHED),
    };
    out.push(end);
    if out.len() > PATH_BYTES_MAX {
        let hash = murmur3_128(out);
        out.clear();
        out.push(hashed);
        out.extend_from_slice(&hash.to_be_bytes());
    }
}

fn of_step<'a>(step: &'a Step<'_>) -> Option<&'a str> {
    match step {
        Step::Member(name) => Some(name),
        Step::Element => None,
    }
}

fn of_index_step(step: &IndexStep) -> Option<&str> {
    match step {
        IndexStep::Member(name) => Some(name),
        IndexStep::Element => None,
    }
}

/// Where an encoded path ends.
fn path_len(bytes: &[u8]) -> Option<usize> {
    if matches!(bytes.first(), Some(&(PATH_HASHED | PATH_HASHED_LONG))) {
        return Some(17).filter(|end| bytes.len() >= *end);
    }
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        match *rest.first()? {
            STEP_END | STEP_END_LONG => return Some(at + 1),
            STEP_ELEMENT => at += 1,
            STEP_MEMBER => {
                let mut name = keycode::Reader::new(rest.get(1..)?);
                name.bytes()?;
                at = bytes.len() - name.rest().len();
            }
            _ => return None,
        }
    }
}
