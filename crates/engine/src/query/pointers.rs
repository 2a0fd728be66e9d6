//! The keys of items, by resource id.
//!
//! An entry of an index ends in a rid. The item's key is found by a second read of the store, which
//! costs as much as the item itself. Neither a rid nor a key ever passes to another item while one
//! of the two is in use, so the way from one to the other holds at every LSN at which an index
//! knows the rid: it can be remembered until there is no room for it. Whoever follows it looks
//! whether the item at its end has the rid.
//!
//! Rids are given one after the other, and so the ways of neighbours lie together in the store.
//! They are kept in *pieces* of neighbours, too: where a few of a piece were looked for in vain,
//! all of it is read, which takes no longer than to look for a few more.
//!
//! Pieces are kept in two generations. When the young one is full it becomes the old one, whose
//! pieces are forgotten; a piece that is used in between moves back to the young. Most ways are
//! found in the young one, where threads of one query look at the same time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use partita_storage::{KeyRange, PartitionId};

use crate::keys;

/// The rids of a piece.
const PIECE: u64 = 512;
/// A piece in which so many ways were looked for in vain is read.
const MISSES_MAX: u32 = 4;
/// So many pieces are read at a time: each takes about a tenth of a millisecond.
const READ_MAX: usize = 4;
/// What a piece takes besides its keys.
const OVERHEAD_BYTES: usize = 128 + PIECE as usize * size_of::<Place>();

/// The ways of a database, up to a number of bytes.
#[derive(Debug, Default)]
pub(super) struct Pointers(RwLock<Generations>);

/// What is known of some items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ways {
    /// The keys, where they are known.
    pub(super) keys: Vec<Option<Vec<u8>>>,
    /// Pieces that are worth reading.
    pub(super) unread: Vec<u64>,
}

#[derive(Debug, Default)]
struct Generations {
    young: Pieces,
    young_bytes: usize,
    old: Pieces,
}

type Pieces = HashMap<(PartitionId, u64), Piece, BuildHasherDefault<NumberHasher>>;

/// Keys of items, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(at)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
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
struct NumberHasher(u64);

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

/// The ways of neighbouring rids.
#[derive(Debug)]
struct Piece {
    places: Box<[Place]>,
    /// The keys, one after the other.
    keys: Vec<u8>,
    misses: u32,
}

/// Where a key is; those that are not known have no length.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u32,
    length: u16,
}

/// The way entries of a piece.
pub(super) fn range_of(piece: u64) -> KeyRange {
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
    /// The keys of these items, if all of them are in the young generation.
    pub(super) fn all(&self, partition: PartitionId, rids: &[u64]) -> Option<KeyList> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key_of = |rid: &u64| all.young.get(&(partition, rid / PIECE))?.get(*rid);
        rids.iter().map(key_of).collect()
    }

    /// The keys of these items, where they are known.
    pub(super) fn get(&self, partition: PartitionId, rids: &[u64], bytes_max: usize) -> Ways {
        let mut ways = Ways { keys: self.young(partition, rids), unread: Vec::new() };
        if ways.keys.iter().all(Option::is_some) {
            return ways;
        }
        let mut all = self.lock();
        for (rid, key) in rids.iter().zip(&mut ways.keys).filter(|(_, key)| key.is_none()) {
            let number = rid / PIECE;
            let piece = all.piece((partition, number), bytes_max);
            *key = piece.get(*rid).map(<[u8]>::to_vec);
            if key.is_none() {
                piece.misses += 1;
                if piece.misses >= MISSES_MAX && ways.unread.len() < READ_MAX {
                    piece.misses = 0;
                    ways.unread.push(number);
                }
            }
        }
        ways
    }

    /// The keys of these items that are in the young generation.
    fn young(&self, partition: PartitionId, rids: &[u64]) -> Vec<Option<Vec<u8>>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key_of = |rid: &u64| {
            let piece = all.young.get(&(partition, rid / PIECE))?;
            piece.get(*rid).map(<[u8]>::to_vec)
        };
        rids.iter().map(key_of).collect()
    }

    /// Remembers the keys of items.
    pub(super) fn put<'k>(
        &self,
        partition: PartitionId,
        found: impl IntoIterator<Item = (u64, &'k [u8])>,
        bytes_max: usize,
    ) {
        let mut all = self.lock();
        for (rid, key) in found {
            let grown = all.piece((partition, rid / PIECE), bytes_max).put(rid, key);
            all.young_bytes += grown;
        }
        all.rotate(bytes_max);
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Generations> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    /// A piece, from now on a young one.
    fn piece(&mut self, at: (PartitionId, u64), bytes_max: usize) -> &mut Piece {
        if !self.young.contains_key(&at) {
            self.rotate(bytes_max);
        }
        let Generations { young, young_bytes, old } = self;
        young.entry(at).or_insert_with(|| {
            let piece = old.remove(&at).unwrap_or_else(Piece::new);
            *young_bytes += OVERHEAD_BYTES + piece.keys.capacity();
            piece
        })
    }

    fn rotate(&mut self, bytes_max: usize) {
        if self.young_bytes > bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

impl Piece {
    fn new() -> Piece {
        let places = vec![Place::default(); PIECE as usize].into_boxed_slice();
        Piece { places, keys: Vec::new(), misses: 0 }
    }

    fn get(&self, rid: u64) -> Option<&[u8]> {
        let Place { start, length } = *self.places.get((rid % PIECE) as usize)?;
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
            *place = Place { start, length };
            self.keys.extend_from_slice(key);
        }
        self.keys.capacity() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 64 * OVERHEAD_BYTES;
    const HERE: PartitionId = PartitionId(1);

    fn key(rid: u64) -> Vec<u8> {
        format!("the key of {rid}").into_bytes()
    }

    fn put(pointers: &Pointers, rids: impl Iterator<Item = u64>) {
        let found: Vec<_> = rids.map(|rid| (rid, key(rid))).collect();
        pointers.put(HERE, found.iter().map(|(rid, key)| (*rid, key.as_slice())), BYTES_MAX);
    }

    fn get(pointers: &Pointers, rids: &[u64]) -> Vec<Option<Vec<u8>>> {
        pointers.get(HERE, rids, BYTES_MAX).keys
    }

    #[test]
    fn a_way_leads_to_its_key_in_its_partition_only() {
        let pointers = Pointers::default();
        put(&pointers, [5, 6, PIECE + 5, u64::MAX].into_iter());
        let found = get(&pointers, &[4, 5, 6, PIECE + 5, PIECE + 6, u64::MAX]);
        let known = |rid: u64| Some(key(rid));
        assert_eq!(found, [None, known(5), known(6), known(PIECE + 5), None, known(u64::MAX)]);
        let elsewhere = pointers.get(PartitionId(2), &[5], BYTES_MAX);
        assert_eq!(elsewhere, Ways { keys: vec![None], unread: Vec::new() });
    }

    #[test]
    fn all_ways_are_told_together_or_none_is() {
        let pointers = Pointers::default();
        put(&pointers, [5, PIECE + 5].into_iter());
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
        let pointers = Pointers::default();
        let unread = |rids: &[u64]| pointers.get(HERE, rids, BYTES_MAX).unread;
        assert_eq!(unread(&[3, 4, 5]), []);
        assert_eq!(unread(&[6, 7, PIECE]), [0]);
        assert_eq!(unread(&[6, PIECE + 1, PIECE + 2, PIECE + 3]), [1]);
        let all: Vec<u64> = (0..100).flat_map(|piece| [piece * PIECE; 4]).collect();
        assert_eq!(unread(&all).len(), READ_MAX, "not all at once");
    }

    #[test]
    fn a_piece_is_read_from_its_first_way_to_its_last() {
        for (piece, inside, outside) in [(0, 0, PIECE), (3, 4 * PIECE - 1, 4 * PIECE)] {
            assert!(range_of(piece).contains(&keys::rid(inside)));
            assert!(!range_of(piece).contains(&keys::rid(outside)));
        }
        assert!(range_of(u64::MAX / PIECE).contains(&keys::rid(u64::MAX)));
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let pointers = Pointers::default();
        put(&pointers, 0..1);
        for at in 1..1_000 {
            put(&pointers, [at * PIECE].into_iter());
            assert!(get(&pointers, &[0])[0].is_some(), "{at}");
        }
        assert_eq!(get(&pointers, &[PIECE]), [None]);
        let all = pointers.lock();
        assert!(all.young.len() + all.old.len() <= BYTES_MAX / OVERHEAD_BYTES + 1);
    }
}
