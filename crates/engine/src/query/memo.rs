//! Sets of items that were found lately.
//!
//! Filters come again: a tenant, a state, a kind. The set of items that a range of the index has is
//! kept, as a bitmap, and whoever asks for the same range of the same partition gets it without
//! walking along the entries. A set is good for the LSN at which it was found and for no other: a
//! partition that is written to all the time gains nothing by this, and loses little, for only sets
//! that took a while are kept.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partita_model::Lsn;
use partita_storage::{KeyRange, PartitionId};

use super::leaf::RidSet;
use super::pointers::Pointers;

/// What a set takes besides its bitmap and its key.
const OVERHEAD_BYTES: usize = 256;

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
    sets: Mutex<Sets>,
    pub(super) pointers: Pointers,
}

#[derive(Debug, Default)]
struct Sets {
    sets: HashMap<Key, Slot>,
    bytes: usize,
    /// Counts the uses.
    now: u64,
}

#[derive(Debug)]
struct Slot {
    lsn: Lsn,
    known: Arc<Known>,
    bytes: usize,
    used: u64,
}

impl Memo {
    /// What a range of a partition has at an LSN, if that is known.
    pub(super) fn get(&self, at: (PartitionId, Lsn), range: &KeyRange) -> Option<Arc<Known>> {
        let (partition, lsn) = at;
        let mut sets = self.lock();
        sets.now += 1;
        let now = sets.now;
        let slot = sets.sets.get_mut(&(partition, range.start.clone(), range.end.clone()))?;
        slot.used = now;
        (slot.lsn == lsn).then(|| Arc::clone(&slot.known))
    }

    /// Keeps a set.
    pub(super) fn put(
        &self,
        at: (PartitionId, Lsn),
        range: &KeyRange,
        known: &Known,
        bytes_max: usize,
    ) {
        let (partition, lsn) = at;
        let key = (partition, range.start.clone(), range.end.clone());
        let key_bytes = bound_bytes(&key.1) + bound_bytes(&key.2);
        let bytes = known.rids.bytes() + key_bytes + OVERHEAD_BYTES;
        let mut sets = self.lock();
        let used = sets.now;
        sets.bytes += bytes;
        let slot = Slot { lsn, known: Arc::new(known.clone()), bytes, used };
        if let Some(before) = sets.sets.insert(key, slot) {
            sets.bytes -= before.bytes;
        }
        if sets.bytes > bytes_max {
            sets.shrink(bytes_max / 2);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sets {
    /// Lets go of those that were not used for longest.
    fn shrink(&mut self, bytes_max: usize) {
        let mut by_use: Vec<(u64, usize)> =
            self.sets.values().map(|slot| (slot.used, slot.bytes)).collect();
        by_use.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = 0;
        let fits = by_use.iter().take_while(|(_, bytes)| {
            kept += bytes;
            kept <= bytes_max
        });
        let oldest = fits.last().map_or(u64::MAX, |(used, _)| *used);
        self.sets.retain(|_, slot| slot.used >= oldest);
        self.bytes = self.sets.values().map(|slot| slot.bytes).sum();
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

    #[test]
    fn a_set_is_known_for_its_partition_lsn_and_range_only() {
        let memo = Memo::default();
        let (one, other) = (PartitionId(1), PartitionId(2));
        memo.put((one, Lsn(5)), &range(7), &known(1_000), BYTES_MAX);
        assert_eq!(memo.get((one, Lsn(5)), &range(7)).unwrap().rids.len(), 1_000);
        assert!(memo.get((one, Lsn(6)), &range(7)).is_none());
        assert!(memo.get((one, Lsn(4)), &range(7)).is_none());
        assert!(memo.get((other, Lsn(5)), &range(7)).is_none());
        assert!(memo.get((one, Lsn(5)), &range(8)).is_none());
        memo.put((one, Lsn(6)), &range(7), &known(2_000), BYTES_MAX);
        assert_eq!(memo.get((one, Lsn(6)), &range(7)).unwrap().rids.len(), 2_000);
        assert!(memo.get((one, Lsn(5)), &range(7)).is_none());
    }

    #[test]
    fn the_sets_that_are_used_stay_when_there_are_too_many() {
        let memo = Memo::default();
        let at = (PartitionId(1), Lsn(1));
        for of in 0..200 {
            memo.put(at, &range(of), &known(1_000), BYTES_MAX);
            assert!(memo.get(at, &range(0)).is_some(), "{of}");
            assert!(memo.get(at, &range(of)).is_some(), "{of}");
            assert!(memo.lock().bytes <= BYTES_MAX);
        }
        assert!(memo.get(at, &range(1)).is_none());
    }
}
