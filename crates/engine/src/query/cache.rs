//! The result cache: what queries found in a partition, for the next query that asks the same.
//!
//! Filters come again: a tenant, a state, a kind. So the items that a range of an index has are
//! kept, as a bitmap, and so are the columns that sums and groups are made of, the first places of
//! an order, and how many items a partition has. All of them are entries of one cache with one
//! budget of bytes. An entry is named by its partition, its type and its range of keys; it holds
//! the LSN at which it was found and is good for no other. A partition that is written to all the
//! time gains nothing by this, and loses little: callers keep only what took a while to find, and
//! an entry of a new LSN takes the place of the old one.
//!
//! A fixed share of the budget is for *pointers*, the keys of items by resource id, which have a
//! structure of their own (`index/pointers.rs`).

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::hash::{Hash, Hasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use partita_model::{Lsn, Result};
use partita_storage::{KeyRange, PartitionId};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};

use crate::index::{Pointers, RidSet};

/// What an entry takes besides its value and its key.
const OVERHEAD_BYTES: usize = 256;
/// One byte of the budget in so many is for pointers.
const POINTERS_SHARE: usize = 6;
/// No entry may take more than this part of the budget, or it would push out most others.
const ENTRY_SHARE: usize = 4;
/// About how many entries there are; the cache sizes its memory of evicted ones by it.
const ENTRIES: usize = 1_000;
/// The LSN of what is true at every LSN.
const EVERY_LSN: Lsn = Lsn(0);
/// The range of what is about all of a partition.
const WHOLE: KeyRange = KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };

/// What the cache can hold. The type is part of an entry's name.
pub(super) trait Cached: Any + Send + Sync {
    /// The memory it takes, about, beyond a few words.
    fn bytes(&self) -> usize {
        0
    }

    /// How many entries of the index were looked at to find it.
    fn entries(&self) -> u64 {
        0
    }
}

/// The items that a range of an index has.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) rids: RidSet,
    /// An item may have several entries.
    pub(super) entries: u64,
    /// False: a value was cut, so its item has to be looked at.
    pub(super) sure: bool,
}

impl Cached for Known {
    fn bytes(&self) -> usize {
        self.rids.bytes()
    }

    fn entries(&self) -> u64 {
        self.entries
    }
}

/// How many items a partition has.
struct ItemCount(i64);

impl Cached for ItemCount {}

/// The index of a partition has all of its items; it cannot lose one.
struct IndexIsComplete;

impl Cached for IndexIsComplete {}

/// What a database remembers for its queries, up to a number of bytes.
pub(crate) struct ResultCache {
    entries: Cache<Name<KeyRange>, Entry, Weights>,
    entry_bytes_max: usize,
    pub(super) pointers: Pointers,
}

/// The range is borrowed in questions and owned in the cache.
#[derive(PartialEq, Eq)]
struct Name<R> {
    partition: PartitionId,
    kind: TypeId,
    range: R,
}

/// By the parts that tell most entries apart: every query hashes several names for each partition.
impl<R: Borrow<KeyRange>> Hash for Name<R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let range = self.range.borrow();
        state.write_u64(self.partition.0);
        for bound in [&range.start, &range.end] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                state.write(key);
            }
        }
    }
}

impl Equivalent<Name<KeyRange>> for Name<&KeyRange> {
    fn equivalent(&self, name: &Name<KeyRange>) -> bool {
        self.partition == name.partition && self.kind == name.kind && *self.range == name.range
    }
}

#[derive(Clone)]
struct Entry {
    lsn: Lsn,
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

#[derive(Clone)]
struct Weights;

impl Weighter<Name<KeyRange>, Entry> for Weights {
    fn weight(&self, _: &Name<KeyRange>, entry: &Entry) -> u64 {
        entry.bytes as u64
    }
}

impl ResultCache {
    pub(crate) fn new(bytes_max: usize) -> ResultCache {
        let pointer_bytes_max = bytes_max / POINTERS_SHARE;
        let entry_bytes = bytes_max - pointer_bytes_max;
        // One shard: the budget is divided among shards, and columns are large.
        let options = OptionsBuilder::new()
            .shards(1)
            .weight_capacity(entry_bytes as u64)
            .estimated_items_capacity(ENTRIES)
            .build()
            .expect("both numbers are given");
        let (hashes, lifecycle) = (RandomState::new(), DefaultLifecycle::default());
        ResultCache {
            entries: Cache::with_options(options, Weights, hashes, lifecycle),
            entry_bytes_max: entry_bytes / ENTRY_SHARE,
            pointers: Pointers::new(pointer_bytes_max),
        }
    }

    /// What was found in a range of a partition at an LSN.
    pub(super) fn get<T: Cached>(
        &self,
        (partition, lsn): (PartitionId, Lsn),
        range: &KeyRange,
    ) -> Option<Arc<T>> {
        let name = Name { partition, kind: TypeId::of::<T>(), range };
        let entry = self.entries.get(&name).filter(|entry| entry.lsn == lsn)?;
        entry.value.downcast().ok()
    }

    pub(super) fn put<T: Cached>(
        &self,
        (partition, lsn): (PartitionId, Lsn),
        range: &KeyRange,
        value: Arc<T>,
    ) {
        let key_bytes = bound_bytes(&range.start) + bound_bytes(&range.end);
        let bytes = value.bytes() + key_bytes + OVERHEAD_BYTES;
        if bytes <= self.entry_bytes_max {
            let name = Name { partition, kind: TypeId::of::<T>(), range: range.clone() };
            self.entries.insert(name, Entry { lsn, value, bytes });
        }
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        self.entries.clear();
        self.pointers.forget();
    }

    /// How many items a partition has at an LSN: every query asks for that first.
    pub(super) fn items(
        &self,
        at: (PartitionId, Lsn),
        count: impl FnOnce() -> Result<i64>,
    ) -> Result<i64> {
        if let Some(count) = self.get::<ItemCount>(at, &WHOLE) {
            return Ok(count.0);
        }
        let items = count()?;
        self.put(at, &WHOLE, Arc::new(ItemCount(items)));
        Ok(items)
    }

    /// Has the index of a partition all of its items?
    pub(super) fn is_complete(
        &self,
        partition: PartitionId,
        find: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let at = (partition, EVERY_LSN);
        if self.get::<IndexIsComplete>(at, &WHOLE).is_some() {
            return Ok(true);
        }
        let is_complete = find()?;
        if is_complete {
            self.put(at, &WHOLE, Arc::new(IndexIsComplete));
        }
        Ok(is_complete)
    }
}

fn bound_bytes(bound: &Bound<Vec<u8>>) -> usize {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len(),
        Bound::Unbounded => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 200_000;
    const HERE: PartitionId = PartitionId(1);

    fn range(of: u8) -> KeyRange {
        KeyRange { start: Bound::Included(vec![of]), end: Bound::Excluded(vec![of + 1]) }
    }

    fn put(cache: &ResultCache, at: (PartitionId, Lsn), range: &KeyRange, items: u64) {
        let known = Known { rids: (0..items).collect(), entries: items, sure: true };
        cache.put(at, range, Arc::new(known));
    }

    /// How many items the cache knows of.
    fn items(cache: &ResultCache, at: (PartitionId, Lsn), range: &KeyRange) -> Option<u64> {
        cache.get::<Known>(at, range).map(|known| known.rids.len())
    }

    #[test]
    fn an_entry_is_good_for_its_partition_lsn_type_and_range_only() {
        let cache = ResultCache::new(BYTES_MAX);
        put(&cache, (HERE, Lsn(5)), &range(7), 1_000);
        assert_eq!(items(&cache, (HERE, Lsn(5)), &range(7)), Some(1_000));
        assert_eq!(items(&cache, (HERE, Lsn(6)), &range(7)), None);
        assert_eq!(items(&cache, (HERE, Lsn(4)), &range(7)), None);
        assert_eq!(items(&cache, (PartitionId(2), Lsn(5)), &range(7)), None);
        assert_eq!(items(&cache, (HERE, Lsn(5)), &range(8)), None);
        assert!(cache.get::<ItemCount>((HERE, Lsn(5)), &range(7)).is_none());
        put(&cache, (HERE, Lsn(6)), &range(7), 2_000);
        assert_eq!(items(&cache, (HERE, Lsn(6)), &range(7)), Some(2_000));
        assert_eq!(items(&cache, (HERE, Lsn(5)), &range(7)), None);
    }

    #[test]
    fn what_is_forgotten_is_found_anew_and_remembered_again() {
        let cache = ResultCache::new(BYTES_MAX);
        let at = (HERE, Lsn(5));
        put(&cache, at, &range(7), 1_000);
        cache.pointers.put(HERE, [(3, b"key".as_slice())]);
        cache.forget();
        assert_eq!(items(&cache, at, &range(7)), None);
        assert_eq!(cache.pointers.get(HERE, &[3]).keys, [None]);
        put(&cache, at, &range(7), 1_000);
        cache.pointers.put(HERE, [(3, b"key".as_slice())]);
        assert_eq!(items(&cache, at, &range(7)), Some(1_000));
        assert_eq!(cache.pointers.get(HERE, &[3]).keys, [Some(b"key".to_vec())]);
    }

    #[test]
    fn items_are_counted_once_for_each_lsn() {
        let cache = ResultCache::new(BYTES_MAX);
        let other = PartitionId(2);
        for (partition, lsn, found, told) in
            [(HERE, 5, 10, 10), (HERE, 5, 11, 10), (other, 5, 12, 12), (HERE, 6, 13, 13)]
        {
            assert_eq!(cache.items((partition, Lsn(lsn)), || Ok(found)), Ok(told));
        }
    }

    #[test]
    fn an_index_that_is_complete_stays_so_and_one_that_is_not_is_looked_at_again() {
        let cache = ResultCache::new(BYTES_MAX);
        for (found, told) in [(false, false), (true, true), (false, true)] {
            assert_eq!(cache.is_complete(HERE, || Ok(found)), Ok(told));
        }
    }

    #[test]
    fn the_entries_that_are_used_stay_when_there_are_too_many() {
        let cache = ResultCache::new(BYTES_MAX);
        let at = (HERE, Lsn(1));
        for of in 0..200 {
            put(&cache, at, &range(of), 1_000);
            assert!(items(&cache, at, &range(0)).is_some(), "{of}");
            assert!(items(&cache, at, &range(of)).is_some(), "{of}");
            assert!(cache.entries.weight() <= (BYTES_MAX - BYTES_MAX / POINTERS_SHARE) as u64);
        }
        assert!((0..200).any(|of| items(&cache, at, &range(of)).is_none()));
        put(&cache, at, &range(201), 10_000_000);
        assert_eq!(items(&cache, at, &range(201)), None, "it is larger than its share");
        assert!(items(&cache, at, &range(0)).is_some());
    }
}
