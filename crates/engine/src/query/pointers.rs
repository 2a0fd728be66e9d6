//! The keys of items that were found by resource id lately.
//!
//! An entry of an index ends in a rid. The item's key is found by a second read of the store, which
//! costs as much as the item itself. Neither a rid nor a key ever passes to another item while one
//! of the two is in use, so the way from one to the other holds at every LSN at which an index
//! knows the rid: it can be remembered until there is no room for it. Whoever follows it looks
//! whether the item at its end has the rid.
//!
//! Ways are kept in two generations. When the young one is full it becomes the old one, whose ways
//! are forgotten; a way that is used in between moves back to the young.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use partita_storage::PartitionId;

/// What a way takes besides its key.
const OVERHEAD_BYTES: usize = 64;

type Ways = HashMap<(PartitionId, u64), Box<[u8]>>;

/// The ways of a database, up to a number of bytes.
#[derive(Debug, Default)]
pub(super) struct Pointers(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: Ways,
    young_bytes: usize,
    old: Ways,
}

impl Pointers {
    /// The keys of these items, where they are known.
    pub(super) fn get(
        &self,
        partition: PartitionId,
        rids: &[u64],
        bytes_max: usize,
    ) -> Vec<Option<Vec<u8>>> {
        let mut ways = self.lock();
        rids.iter().map(|rid| ways.get((partition, *rid), bytes_max)).collect()
    }

    /// Remembers the keys of items.
    pub(super) fn put<'k>(
        &self,
        partition: PartitionId,
        found: impl IntoIterator<Item = (u64, &'k [u8])>,
        bytes_max: usize,
    ) {
        let mut ways = self.lock();
        for (rid, key) in found {
            ways.put((partition, rid), key.into(), bytes_max);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get(&mut self, rid: (PartitionId, u64), bytes_max: usize) -> Option<Vec<u8>> {
        if let Some(key) = self.young.get(&rid) {
            return Some(key.to_vec());
        }
        let key = self.old.remove(&rid)?;
        let found = key.to_vec();
        self.put(rid, key, bytes_max);
        Some(found)
    }

    fn put(&mut self, rid: (PartitionId, u64), key: Box<[u8]>, bytes_max: usize) {
        self.young_bytes += key.len() + OVERHEAD_BYTES;
        self.young.insert(rid, key);
        if self.young_bytes > bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 20_000;
    const HERE: PartitionId = PartitionId(1);

    fn keys(rids: std::ops::Range<u64>) -> Vec<(u64, Vec<u8>)> {
        rids.map(|rid| (rid, rid.to_be_bytes().to_vec())).collect()
    }

    fn put(pointers: &Pointers, rids: std::ops::Range<u64>) {
        let found = keys(rids);
        pointers.put(HERE, found.iter().map(|(rid, key)| (*rid, key.as_slice())), BYTES_MAX);
    }

    #[test]
    fn a_way_leads_to_its_key_in_its_partition_only() {
        let pointers = Pointers::default();
        put(&pointers, 5..7);
        let found = pointers.get(HERE, &[4, 5, 6], BYTES_MAX);
        let key = |rid: u64| Some(rid.to_be_bytes().to_vec());
        assert_eq!(found, [None, key(5), key(6)]);
        assert_eq!(pointers.get(PartitionId(2), &[5], BYTES_MAX), [None]);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let pointers = Pointers::default();
        put(&pointers, 0..1);
        for at in 1..2_000 {
            put(&pointers, at..at + 1);
            assert!(pointers.get(HERE, &[0], BYTES_MAX)[0].is_some(), "{at}");
        }
        assert_eq!(pointers.get(HERE, &[1], BYTES_MAX), [None]);
        let ways = pointers.lock();
        let most = BYTES_MAX / (OVERHEAD_BYTES + size_of::<u64>());
        assert!(ways.young.len() + ways.old.len() <= most);
    }
}
