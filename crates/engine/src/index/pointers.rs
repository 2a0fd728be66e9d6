//! Pointers: the keys of items by resource id, remembered.
//!
//! They are good at every LSN: neither a rid nor a key ever passes to another item while one of the
//! two is in use, and whoever follows a pointer looks whether the item at its end has the rid. An
//! equality query follows hundreds of them at once: under one read lock that costs a few
//! nanoseconds each, as entries of the queries' result cache it would be a lock, a strong hash and
//! a reference count each.
//!
//! Rids are given one after the other, and so the pointers of neighbours lie together in the store.
//! They are kept in *pieces* of neighbours, too: where a few of a piece were looked for in vain,
//! all of it is read, which takes no longer than to look for a few more. Pieces are kept in two
//! generations. When the young one is full it becomes the old one, whose pieces are forgotten; a
//! piece that is used in between moves back to the young.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use partita_storage::{KeyRange, PartitionId};

use crate::keys;

/// The rids of a piece.
const PIECE: u64 = 512;
/// A piece in which so many pointers were looked for in vain is read.
const MISSES_MAX: u32 = 4;
/// The most pieces that are read at a time: each takes about a tenth of a millisecond.
const READ_MAX: usize = 4;
/// What a piece takes besides its keys.
const PIECE_BYTES: usize = 128 + PIECE as usize * size_of::<KeySpan>();

/// The pointers of a database, up to a number of bytes.
pub(crate) struct Pointers(RwLock<Generations>);

/// What is known of some items.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownKeys {
    /// The keys, where they are known.
    pub(crate) keys: Vec<Option<Vec<u8>>>,
    /// Pieces that are worth reading.
    pub(crate) unread: Vec<u64>,
}

#[derive(Default)]
struct Generations {
    young: PointerPieces,
    young_bytes: usize,
    old: PointerPieces,
    bytes_max: usize,
}

type PointerPieces = HashMap<(PartitionId, u64), PointerPiece, BuildHasherDefault<NumberHasher>>;

/// Keys of items, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(at)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map_while(|at| self.get(at))
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for KeyList {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> KeyList {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key.as_ref()));
        list
    }
}

/// Spreads numbers that are given one after the other. Nobody outside chooses them, so it need not
/// withstand anybody.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        /// Odd, its bits in no order: the golden ratio in 64 bits.
        const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}

/// The pointers of neighbouring rids.
struct PointerPiece {
    places: Box<[KeySpan]>,
    /// The keys, one after the other.
    keys: Vec<u8>,
    misses: u32,
}

/// Where a key is; those that are not known have no length.
#[derive(Clone, Copy, Default)]
struct KeySpan {
    start: u32,
    length: u16,
}

/// Where the store has the pointers of a piece.
pub(crate) fn piece_range(piece: u64) -> KeyRange {
    let first = piece.saturating_mul(PIECE);
    KeyRange {
        start: Bound::Included(keys::rid(first)),
        end: match first.checked_add(PIECE) {
            Some(next) => Bound::Excluded(keys::rid(next)),
            None => keys::all_rids().end,
        },
    }
}

impl Pointers {
    pub(crate) fn new(bytes_max: usize) -> Pointers {
        Pointers(RwLock::new(Generations { bytes_max, ..Generations::default() }))
    }

    /// The keys of these items, if all of them are in the young generation.
    pub(crate) fn all(&self, partition: PartitionId, rids: &[u64]) -> Option<KeyList> {
        let all = self.read();
        rids.iter().map(|rid| all.young_key(partition, *rid)).collect()
    }

    /// The keys of these items, where they are known.
    pub(crate) fn get(&self, partition: PartitionId, rids: &[u64]) -> KnownKeys {
        // Most are found while other threads may read, too.
        let mut keys: Vec<_> = {
            let all = self.read();
            rids.iter().map(|rid| all.young_key(partition, *rid).map(<[u8]>::to_vec)).collect()
        };
        let mut unread = Vec::new();
        let mut all = self.lock();
        for (rid, key) in rids.iter().zip(&mut keys).filter(|(_, key)| key.is_none()) {
            let number = rid / PIECE;
            let piece = all.piece((partition, number));
            *key = piece.get(*rid).map(<[u8]>::to_vec);
            if key.is_none() {
                piece.misses += 1;
                if piece.misses >= MISSES_MAX && unread.len() < READ_MAX {
                    piece.misses = 0;
                    unread.push(number);
                }
            }
        }
        KnownKeys { keys, unread }
    }

    /// Remembers the keys of items.
    pub(crate) fn put<'k>(
        &self,
        partition: PartitionId,
        found: impl IntoIterator<Item = (u64, &'k [u8])>,
    ) {
        let mut all = self.lock();
        for (rid, key) in found {
            let grown = all.piece((partition, rid / PIECE)).put(rid, key);
            all.young_bytes += grown;
        }
        all.rotate();
    }

    pub(crate) fn forget(&self) {
        let mut all = self.lock();
        let bytes_max = all.bytes_max;
        let before =
            std::mem::replace(&mut *all, Generations { bytes_max, ..Generations::default() });
        drop(all);
        // Nobody waits while it is freed.
        drop(before);
    }

    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Generations> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn young_key(&self, partition: PartitionId, rid: u64) -> Option<&[u8]> {
        self.young.get(&(partition, rid / PIECE))?.get(rid)
    }

    /// A piece, from now on a young one.
    fn piece(&mut self, at: (PartitionId, u64)) -> &mut PointerPiece {
        if !self.young.contains_key(&at) {
            self.rotate();
        }
        let Generations { young, young_bytes, old, .. } = self;
        young.entry(at).or_insert_with(|| {
            let piece = old.remove(&at).unwrap_or_else(PointerPiece::new);
            *young_bytes += PIECE_BYTES + piece.keys.capacity();
            piece
        })
    }

    fn rotate(&mut self) {
        if self.young_bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

impl PointerPiece {
    fn new() -> PointerPiece {
        let places = vec![KeySpan::default(); PIECE as usize].into_boxed_slice();
        PointerPiece { places, keys: Vec::new(), misses: 0 }
    }

    fn get(&self, rid: u64) -> Option<&[u8]> {
        let KeySpan { start, length } = *self.places.get((rid % PIECE) as usize)?;
        let (start, length) = (start as usize, usize::from(length));
        self.keys.get(start..start + length).filter(|key| !key.is_empty())
    }

    /// How many bytes it takes more. A key that is too long to be kept is not.
    fn put(&mut self, rid: u64, key: &[u8]) -> usize {
        let before = self.keys.capacity();
        let start = u32::try_from(self.keys.len());
        if let (Some(place), Ok(start), Ok(length)) =
            (self.places.get_mut((rid % PIECE) as usize), start, u16::try_from(key.len()))
            && place.length == 0
        {
            *place = KeySpan { start, length };
            self.keys.extend_from_slice(key);
        }
        self.keys.capacity() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PartitionId = PartitionId(1);
    const POINTER_BYTES_MAX: usize = 64 * PIECE_BYTES;

    fn pointers() -> Pointers {
        Pointers::new(POINTER_BYTES_MAX)
    }

    fn key(rid: u64) -> Vec<u8> {
        format!("the key of {rid}").into_bytes()
    }

    fn put_keys(pointers: &Pointers, rids: impl Iterator<Item = u64>) {
        let found: Vec<_> = rids.map(|rid| (rid, key(rid))).collect();
        pointers.put(HERE, found.iter().map(|(rid, key)| (*rid, key.as_slice())));
    }

    fn keys_of(pointers: &Pointers, rids: &[u64]) -> Vec<Option<Vec<u8>>> {
        pointers.get(HERE, rids).keys
    }

    #[test]
    fn a_pointer_leads_to_its_key_in_its_partition_only() {
        let pointers = pointers();
        put_keys(&pointers, [5, 6, PIECE + 5, u64::MAX].into_iter());
        let found = keys_of(&pointers, &[4, 5, 6, PIECE + 5, PIECE + 6, u64::MAX]);
        let known = |rid: u64| Some(key(rid));
        assert_eq!(found, [None, known(5), known(6), known(PIECE + 5), None, known(u64::MAX)]);
        let elsewhere = pointers.get(PartitionId(2), &[5]);
        assert_eq!(elsewhere, KnownKeys { keys: vec![None], unread: Vec::new() });
    }

    #[test]
    fn all_pointers_are_told_together_or_none_is() {
        let pointers = pointers();
        put_keys(&pointers, [5, PIECE + 5].into_iter());
        let known = pointers.all(HERE, &[PIECE + 5, 5, 5]).unwrap();
        let keys = [key(PIECE + 5), key(5), key(5)];
        assert!(known.iter().eq(keys.iter().map(Vec::as_slice)));
        assert_eq!((known.get(2), known.get(3)), (Some(&keys[2][..]), None));
        assert_eq!(pointers.all(HERE, &[5, 6]), None);
        assert_eq!(pointers.all(PartitionId(2), &[5]), None);
        assert_eq!(pointers.all(HERE, &[]), Some(KeyList::default()));
    }

    #[test]
    fn a_piece_in_which_much_is_not_known_is_worth_reading() {
        let pointers = pointers();
        let unread = |rids: &[u64]| pointers.get(HERE, rids).unread;
        assert_eq!(unread(&[3, 4, 5]), []);
        assert_eq!(unread(&[6, 7, PIECE]), [0]);
        assert_eq!(unread(&[6, PIECE + 1, PIECE + 2, PIECE + 3]), [1]);
        let all: Vec<u64> = (0..100).flat_map(|piece| [piece * PIECE; 4]).collect();
        assert_eq!(unread(&all).len(), READ_MAX, "not all at once");
    }

    #[test]
    fn a_piece_is_read_from_its_first_pointer_to_its_last() {
        for (piece, inside, outside) in [(0, 0, PIECE), (3, 4 * PIECE - 1, 4 * PIECE)] {
            assert!(piece_range(piece).contains(&keys::rid(inside)));
            assert!(!piece_range(piece).contains(&keys::rid(outside)));
        }
        assert!(piece_range(u64::MAX / PIECE).contains(&keys::rid(u64::MAX)));
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let pointers = pointers();
        put_keys(&pointers, 0..1);
        for at in 1..1_000 {
            put_keys(&pointers, [at * PIECE].into_iter());
            assert!(keys_of(&pointers, &[0])[0].is_some(), "{at}");
        }
        assert_eq!(keys_of(&pointers, &[PIECE]), [None]);
        let all = pointers.lock();
        assert!(all.young.len() + all.old.len() <= POINTER_BYTES_MAX / PIECE_BYTES + 1);
    }
}
