//! A set of items of one partition, by resource id.
//!
//! A few ids are a sorted list. Resource ids are given out one after another, so those of a
//! partition lie densely in a few places: more of them are a bitmap, cut into pieces of 65 536 ids,
//! of which only those exist that hold one. That is at most a bit per item of the partition and
//! 8 KB per place, however the ids come in. Copies of a set share its pieces until one changes
//! them: queries cache sets, and most who ask for one only read it.

use std::collections::BTreeMap;
use std::sync::Arc;

const PIECE_BITS: u32 = 16;
const WORDS: usize = 1 << (PIECE_BITS - 6);
/// So many are a list. To put an id into the middle of it still costs less than to clear a piece.
const FEW_MAX: usize = 128;

/// Either all ids are in the list, or all are in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct RidSet {
    few: Vec<u64>,
    pieces: BTreeMap<u64, Arc<RidChunk>>,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RidChunk {
    words: [u64; WORDS],
}

impl RidSet {
    pub(crate) const fn new() -> RidSet {
        RidSet { few: Vec::new(), pieces: BTreeMap::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<RidChunk>() + self.few.len() * size_of::<u64>()
    }

    pub(crate) fn insert(&mut self, rid: u64) {
        if !self.pieces.is_empty() {
            return self.insert_into_piece(rid);
        }
        if self.few.last().is_none_or(|last| *last < rid) {
            self.few.push(rid);
        } else if let Err(at) = self.few.binary_search(&rid) {
            self.few.insert(at, rid);
        }
        self.len = self.few.len() as u64;
        if self.few.len() > FEW_MAX {
            self.len = 0;
            std::mem::take(&mut self.few).into_iter().for_each(|rid| self.insert_into_piece(rid));
        }
    }

    fn insert_into_piece(&mut self, rid: u64) {
        let piece = self.pieces.entry(rid >> PIECE_BITS);
        let piece = piece.or_insert_with(|| Arc::new(RidChunk { words: [0; WORDS] }));
        let (word, bit) = place(rid);
        if let Some(word) = Arc::make_mut(piece).words.get_mut(word) {
            self.len += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(crate) fn contains(&self, rid: u64) -> bool {
        if self.pieces.is_empty() {
            return self.few.binary_search(&rid).is_ok();
        }
        let (word, bit) = place(rid);
        self.pieces
            .get(&(rid >> PIECE_BITS))
            .and_then(|piece| piece.words.get(word))
            .is_some_and(|word| word & bit != 0)
    }

    /// Keeps what is in the other set too.
    pub(crate) fn intersect(&mut self, other: &RidSet) {
        if self.pieces.is_empty() || other.pieces.is_empty() {
            let (few, many) =
                if self.pieces.is_empty() { (&*self, other) } else { (other, &*self) };
            *self = few.few.iter().copied().filter(|rid| many.contains(*rid)).collect();
            return;
        }
        self.len = 0;
        self.pieces.retain(|at, piece| {
            let Some(others) = other.pieces.get(at) else { return false };
            let pairs = piece.words.iter().zip(&others.words);
            let left: u64 = pairs.map(|(word, with)| u64::from((word & with).count_ones())).sum();
            self.len += left;
            if left > 0 {
                let words = Arc::make_mut(piece).words.iter_mut();
                words.zip(&others.words).for_each(|(word, with)| *word &= with);
            }
            left > 0
        });
    }

    /// Takes out what is in the other set.
    pub(crate) fn subtract(&mut self, other: &RidSet) {
        if !other.is_empty() {
            *self = self.iter_from(0).filter(|rid| !other.contains(*rid)).collect();
        }
    }

    /// Takes in what the other set has.
    pub(crate) fn union(&mut self, mut other: RidSet) {
        // A list goes into pieces, never pieces into a list.
        if (self.pieces.len(), self.len) < (other.pieces.len(), other.len) {
            std::mem::swap(self, &mut other);
        }
        other.few.into_iter().for_each(|rid| self.insert(rid));
        for (at, theirs) in other.pieces {
            match self.pieces.get_mut(&at) {
                None => {
                    self.len += theirs.len();
                    self.pieces.insert(at, theirs);
                }
                Some(piece) => {
                    self.len -= piece.len();
                    let words = Arc::make_mut(piece).words.iter_mut();
                    words.zip(&theirs.words).for_each(|(word, with)| *word |= with);
                    self.len += piece.len();
                }
            }
        }
    }

    /// All ids from the least, or from the one given.
    pub(crate) fn iter_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let pieces = self.pieces.range(first >> PIECE_BITS..);
        let pieces = pieces.flat_map(|(at, piece)| piece.ids(*at));
        self.few.iter().copied().chain(pieces).filter(move |rid| *rid >= first)
    }
}

impl RidChunk {
    fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn ids(&self, at: u64) -> impl Iterator<Item = u64> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(move |(index, word)| {
            let base = at << PIECE_BITS | (index as u64) << 6;
            (0..64_u64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| base | bit)
        })
    }
}

impl FromIterator<u64> for RidSet {
    fn from_iter<I: IntoIterator<Item = u64>>(rids: I) -> RidSet {
        let mut set = RidSet::default();
        rids.into_iter().for_each(|rid| set.insert(rid));
        set
    }
}

/// The word and the bit of an id within its piece.
fn place(rid: u64) -> (usize, u64) {
    let within = rid & ((1 << PIECE_BITS) - 1);
    ((within >> 6) as usize, 1 << (within & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Ids that fall together and apart, the same for the same seed.
    fn sample(seed: u64, count: u64) -> BTreeSet<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            state >> 33
        };
        (0..count).map(|_| ((next() % 3) << 40) | (next() % 150_000)).collect()
    }

    #[test]
    fn the_set_agrees_with_a_tree_of_numbers() {
        let counts = [0, 1, 100, 2_000];
        let sizes = counts.into_iter().flat_map(|a| counts.map(|b| (a, b)));
        for (seed, (a, b)) in (1..=48).zip(sizes.cycle()) {
            let (mut a, b) = (sample(seed, a), sample(seed + 100, b));
            // So that they have something in common, whatever their sizes.
            a.extend(b.iter().step_by(3));
            let (mut both, mut any): (RidSet, RidSet) =
                (a.iter().copied().collect(), a.iter().copied().collect());
            both.intersect(&b.iter().copied().collect());
            any.union(b.iter().copied().collect());
            assert!(both.iter_from(0).eq(a.intersection(&b).copied()));
            assert!(any.iter_from(0).eq(a.union(&b).copied()));
            let mut rest: RidSet = a.iter().copied().collect();
            rest.subtract(&b.iter().copied().collect());
            assert!(rest.iter_from(0).eq(a.difference(&b).copied()));
            assert_eq!(rest.len(), a.difference(&b).count() as u64);
            assert_eq!(both.len(), a.intersection(&b).count() as u64);
            assert_eq!(any.len(), a.union(&b).count() as u64);
            let middle = a.iter().nth(a.len() / 2).copied().unwrap_or(1 << 40);
            assert!(any.iter_from(middle).eq(a.union(&b).copied().filter(|rid| *rid >= middle)));
            assert!(b.iter().all(|rid| any.contains(*rid)));
            assert!(!any.contains(1 << 50));
        }
    }

    #[test]
    fn a_copy_shares_nothing_that_changes() {
        let whole: RidSet = (0..200_000).collect();
        let mut more = whole.clone();
        more.insert(200_001);
        let mut less = whole.clone();
        less.intersect(&(100..150_000).collect());
        let mut both = whole.clone();
        both.union((150_000..300_000).collect());
        assert!(whole.iter_from(0).eq(0..200_000));
        assert!(more.iter_from(199_999).eq([199_999, 200_001]));
        assert!(less.iter_from(0).eq(100..150_000));
        assert!(both.iter_from(0).eq(0..300_000));
        assert_eq!((whole.len(), less.len(), both.len()), (200_000, 149_900, 300_000));
    }

    #[test]
    fn pieces_of_which_little_is_left_take_in_a_list() {
        let mut left: RidSet = (0..2_000).collect();
        left.intersect(&(1_990..4_000).collect());
        let mut few: RidSet = (3_000..3_100).collect();
        few.union(left.clone());
        left.union((3_000..3_100).collect());
        for set in [left, few] {
            assert!(set.iter_from(0).eq((1_990..2_000).chain(3_000..3_100)));
            assert_eq!(set.len(), 110);
            assert!(set.contains(1_995) && set.contains(3_050) && !set.contains(2_500));
        }
    }
}
