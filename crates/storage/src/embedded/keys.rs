//! How partitions share the keyspaces, and what the store itself keeps beside them.
//!
//! ```text
//! partition (8 bytes big-endian) · key            → LSN · value      in the space's keyspace
//! FF…FF · 'g'                                      → group number     meta, every lane
//! FF…FF · 'l' · partition                          → LSN              meta, the partition's lane
//! FF…FF · 'p' · partition                          → starting LSN     meta, lane 0
//! FF…FF · 'd' · partition                          → (nothing)        meta, lane 0
//! FF…FF · 'i' · group number                       → index entries    pending, every lane
//! ```
//!
//! The last partition id is the store's own, so that no user key can meet these.

use std::ops::Bound;

use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{KeyRange, PartitionId, Result};

/// The bytes of a partition id in front of every key.
pub(super) const PREFIX_BYTES: usize = 8;

/// The id under which the store keeps its own records.
pub(super) const SYSTEM: PartitionId = PartitionId::RESERVED;

/// What the store keeps about partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// The LSN a partition has reached.
    Lsn,
    /// A partition that was made, and the LSN it started from.
    Made,
    /// A partition that was dropped.
    Dropped,
}

impl Family {
    fn tag(self) -> u8 {
        match self {
            Family::Lsn => b'l',
            Family::Made => b'p',
            Family::Dropped => b'd',
        }
    }

    pub(super) fn key(self, partition: PartitionId) -> Vec<u8> {
        let mut key = self.prefix();
        key.extend_from_slice(&partition.0.to_be_bytes());
        key
    }

    pub(super) fn prefix(self) -> Vec<u8> {
        let mut key = SYSTEM.0.to_be_bytes().to_vec();
        key.push(self.tag());
        key
    }

    /// The partition in a key of this family.
    pub(super) fn partition(self, key: &[u8]) -> Result<PartitionId> {
        let tail = key.strip_prefix(self.prefix().as_slice());
        let id = tail.and_then(|tail| tail.try_into().ok()).map(u64::from_be_bytes);
        id.map(PartitionId)
            .ok_or_else(|| StorageError::Corrupt(format!("a record of {self:?} has a wrong key")))
    }
}

/// The key of the lane's group number.
pub(super) fn group_key() -> Vec<u8> {
    let mut key = SYSTEM.0.to_be_bytes().to_vec();
    key.push(b'g');
    key
}

/// The key of a group's changes of the index that are not sorted in yet.
pub(super) fn pending_key(group: u64) -> Vec<u8> {
    let mut key = SYSTEM.0.to_be_bytes().to_vec();
    key.push(b'i');
    key.extend_from_slice(&group.to_be_bytes());
    key
}

/// The group in such a key.
pub(super) fn pending_number(key: &[u8]) -> Result<u64> {
    number(key.get(PREFIX_BYTES + 1..).unwrap_or_default())
}

/// Reads a number the store wrote for itself.
pub(super) fn number(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map(u64::from_be_bytes);
    bytes.map_err(|_| StorageError::Corrupt("a number of the store has a wrong length".to_owned()))
}

/// The partition a stored key belongs to.
pub(super) fn partition_of(key: &[u8]) -> Option<PartitionId> {
    key.first_chunk::<PREFIX_BYTES>().map(|id| PartitionId(u64::from_be_bytes(*id)))
}

pub(super) fn prefix(partition: PartitionId) -> [u8; PREFIX_BYTES] {
    partition.0.to_be_bytes()
}

/// The stored key of a partition's key.
pub(super) fn stored_key(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(PREFIX_BYTES + key.len());
    stored.extend_from_slice(&prefix(partition));
    stored.extend_from_slice(key);
    stored
}

/// The stored range of a partition's range.
pub(super) fn stored_range(partition: PartitionId, range: &KeyRange) -> KeyRange {
    let within = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| stored_key(partition, key));
    let start = match within(&range.start) {
        Bound::Unbounded => Bound::Included(prefix(partition).to_vec()),
        bound => bound,
    };
    let end = match within(&range.end) {
        Bound::Unbounded => KeyRange::prefix(&prefix(partition)).end,
        bound => bound,
    };
    KeyRange { start, end }
}

/// A starting LSN and an LSN are stored alike.
pub(super) fn lsn_value(lsn: Lsn) -> [u8; 8] {
    lsn.0.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_range_stays_within_its_partition() {
        let range = stored_range(PartitionId(5), &KeyRange::all());
        assert_eq!(range.start, Bound::Included(5u64.to_be_bytes().to_vec()));
        assert_eq!(range.end, Bound::Excluded(b"\0\0\0\0\0\0\0\x06".to_vec()));
    }

    #[test]
    fn the_last_user_partition_ends_before_the_stores_own_records() {
        let range = stored_range(PartitionId(u64::MAX - 1), &KeyRange::all());
        assert_eq!(range.end, Bound::Excluded(u64::MAX.to_be_bytes().to_vec()));
    }

    #[test]
    fn a_family_finds_its_partition_again_and_refuses_other_keys() {
        let key = Family::Made.key(PartitionId(9));
        assert_eq!(Family::Made.partition(&key), Ok(PartitionId(9)));
        assert!(Family::Dropped.partition(&key).is_err());
        assert!(Family::Made.partition(&key[..12]).is_err());
    }
}
