//! Sets of items, columns and places that were found lately.
//!
//! Filters come again: a tenant, a state, a kind. The set of items that a range of the index has is
//! kept, as a bitmap, and whoever asks for the same range of the same partition gets it without
//! walking along the entries. So do sums and groups: the columns that they are made of are kept,
//! too, and so are the first places of orders. All are good for the LSN at which they were found
//! and for no other: a partition that is written to all the time gains nothing by this, and loses
//! little, for only what took a while is kept.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partita_model::{Lsn, Result};
use partita_storage::{KeyRange, PartitionId};

use super::leaf::{Column, FirstPlaces, Others, RidSet};
use super::pointers::Pointers;

/// What is kept takes this besides itself and its key.
const OVERHEAD_BYTES: usize = 256;
/// Partitions whose items are counted. Beyond that the counting begins anew.
const COUNTS_MAX: usize = 4_096;

/// What a range of the index had.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) rids: RidSet,
    /// An item may have several entries.
    pub(super) entries: u64,
    /// False: a value was cut, so its item has to be looked at.
    pub(super) sure: bool,
}

type Key = (PartitionId, Bound<Vec<u8>>, Bound<Vec<u8>>);

/// What a database remembers for its queries, each part up to a number of bytes.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    pub(super) sets: Kept<Known>,
    pub(super) columns: Kept<Column>,
    pub(super) others: Kept<Others>,
    pub(super) places: Kept<FirstPlaces>,
    /// How many items partitions have, each at an LSN.
    counts: Mutex<HashMap<PartitionId, (Lsn, i64)>>,
    /// Partitions whose index has all items; it cannot lose one.
    complete: Mutex<HashSet<PartitionId>>,
    pub(super) pointers: Pointers,
}

impl Memo {
    /// How many items a partition has at an LSN: every query asks for that first.
    pub(super) fn items(
        &self,
        (partition, lsn): (PartitionId, Lsn),
        count: impl FnOnce() -> Result<i64>,
    ) -> Result<i64> {
        let known = || self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match known().get(&partition) {
            Some((at, items)) if *at == lsn => return Ok(*items),
            Some(_) | None => {}
        }
        let items = count()?;
        let mut known = known();
        if known.len() >= COUNTS_MAX && !known.contains_key(&partition) {
            known.clear();
        }
        known.insert(partition, (lsn, items));
        Ok(items)
    }
}

impl Memo {
    /// Has the index of a partition all of its items?
    pub(super) fn is_complete(
        &self,
        partition: PartitionId,
        find: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let known = || self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&partition) {
            return Ok(true);
        }
        let is_complete = find()?;
        if is_complete {
            let mut known = known();
            if known.len() >= COUNTS_MAX {
                known.clear();
            }
            known.insert(partition);
        }
        Ok(is_complete)
    }
}

/// What was found in ranges of indexes, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Kept<T>(Mutex<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    slots: HashMap<Key, Slot<T>>,
    bytes: usize,
    /// Counts the uses.
    now: u64,
}

#[derive(Debug)]
struct Slot<T> {
    lsn: Lsn,
    known: Arc<T>,
    bytes: usize,
    used: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(Mutex::new(Slots { slots: HashMap::new(), bytes: 0, now: 0 }))
    }
}

impl<T> Kept<T> {
    /// What a range of a partition has at an LSN, if that is known.
    pub(super) fn get(&self, at: (PartitionId, Lsn), range: &KeyRange) -> Option<Arc<T>> {
        let (partition, lsn) = at;
        let mut kept = self.lock();
        kept.now += 1;
        let now = kept.now;
        let slot = kept.slots.get_mut(&(partition, range.start.clone(), range.end.clone()))?;
        slot.used = now;
        (slot.lsn == lsn).then(|| Arc::clone(&slot.known))
    }

    /// Keeps what was found, which takes so many bytes. Nothing is kept that would take the place
    /// of most others.
    pub(super) fn put(
        &self,
        at: (PartitionId, Lsn),
        range: &KeyRange,
        known: Arc<T>,
        bytes: usize,
        bytes_max: usize,
    ) {
        let (partition, lsn) = at;
        let key = (partition, range.start.clone(), range.end.clone());
        let key_bytes = bound_bytes(&key.1) + bound_bytes(&key.2);
        let bytes = bytes + key_bytes + OVERHEAD_BYTES;
        if bytes > bytes_max / 4 {
            return;
        }
        let mut kept = self.lock();
        let used = kept.now;
        kept.bytes += bytes;
        let slot = Slot { lsn, known, bytes, used };
        if let Some(before) = kept.slots.insert(key, slot) {
            kept.bytes -= before.bytes;
        }
        if kept.bytes > bytes_max {
            kept.shrink(bytes_max / 2);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Slots<T> {
    /// Lets go of those that were not used for longest.
    fn shrink(&mut self, bytes_max: usize) {
        let mut by_use: Vec<(u64, usize)> =
            self.slots.values().map(|slot| (slot.used, slot.bytes)).collect();
        by_use.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = 0;
        let fits = by_use.iter().take_while(|(_, bytes)| {
            kept += bytes;
            kept <= bytes_max
        });
        let oldest = fits.last().map_or(u64::MAX, |(used, _)| *used);
        self.slots.retain(|_, slot| slot.used >= oldest);
        self.bytes = self.slots.values().map(|slot| slot.bytes).sum();
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

    fn range(of: u8) -> KeyRange {
        KeyRange { start: Bound::Included(vec![of]), end: Bound::Excluded(vec![of + 1]) }
    }

    fn known(items: u64) -> Known {
        Known { rids: (0..items).collect(), entries: items, sure: true }
    }

    fn put(memo: &Kept<Known>, at: (PartitionId, Lsn), range: &KeyRange, items: u64) {
        let known = known(items);
        let bytes = known.rids.bytes();
        memo.put(at, range, Arc::new(known), bytes, BYTES_MAX);
    }

    #[test]
    fn a_set_is_known_for_its_partition_lsn_and_range_only() {
        let memo = Kept::default();
        let (one, other) = (PartitionId(1), PartitionId(2));
        put(&memo, (one, Lsn(5)), &range(7), 1_000);
        assert_eq!(memo.get((one, Lsn(5)), &range(7)).unwrap().rids.len(), 1_000);
        assert!(memo.get((one, Lsn(6)), &range(7)).is_none());
        assert!(memo.get((one, Lsn(4)), &range(7)).is_none());
        assert!(memo.get((other, Lsn(5)), &range(7)).is_none());
        assert!(memo.get((one, Lsn(5)), &range(8)).is_none());
        put(&memo, (one, Lsn(6)), &range(7), 2_000);
        assert_eq!(memo.get((one, Lsn(6)), &range(7)).unwrap().rids.len(), 2_000);
        assert!(memo.get((one, Lsn(5)), &range(7)).is_none());
    }

    #[test]
    fn items_are_counted_once_for_each_lsn() {
        let memo = Memo::default();
        let (one, other) = (PartitionId(1), PartitionId(2));
        for (partition, lsn, found, told) in
            [(one, 5, 10, 10), (one, 5, 11, 10), (other, 5, 12, 12), (one, 6, 13, 13)]
        {
            assert_eq!(memo.items((partition, Lsn(lsn)), || Ok(found)), Ok(told));
        }
        for partition in 10..20_000 {
            memo.items((PartitionId(partition), Lsn(1)), || Ok(1)).unwrap();
        }
        assert!(memo.counts.lock().unwrap().len() <= COUNTS_MAX);
    }

    #[test]
    fn the_sets_that_are_used_stay_when_there_are_too_many() {
        let memo = Kept::default();
        let at = (PartitionId(1), Lsn(1));
        for of in 0..200 {
            put(&memo, at, &range(of), 1_000);
            assert!(memo.get(at, &range(0)).is_some(), "{of}");
            assert!(memo.get(at, &range(of)).is_some(), "{of}");
            assert!(memo.lock().bytes <= BYTES_MAX);
        }
        assert!(memo.get(at, &range(1)).is_none());
    }
}
