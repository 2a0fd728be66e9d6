//! A set of items of one partition, by resource id.
//!
//! Resource ids are given out one after another, so those of a partition lie densely in a few
//! places. The set is a bitmap cut into pieces of 65 536 ids, of which only those exist that hold
//! one: at most a bit per item of the partition and 8 KB per place, however the ids come in.

use std::collections::BTreeMap;

const PIECE_BITS: u32 = 16;
const WORDS: usize = 1 << (PIECE_BITS - 6);

#[derive(Clone, Debug, Default)]
pub(in crate::query) struct RidSet {
    pieces: BTreeMap<u64, Box<Piece>>,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    words: [u64; WORDS],
}

impl RidSet {
    pub(in crate::query) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how much memory it takes.
    pub(in crate::query) fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<Piece>()
    }

    pub(super) fn insert(&mut self, rid: u64) {
        let piece = self.pieces.entry(rid >> PIECE_BITS);
        let piece = piece.or_insert_with(|| Box::new(Piece { words: [0; WORDS] }));
        let (word, bit) = place(rid);
        if let Some(word) = piece.words.get_mut(word) {
            self.len += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(super) fn contains(&self, rid: u64) -> bool {
        let (word, bit) = place(rid);
        self.pieces
            .get(&(rid >> PIECE_BITS))
            .and_then(|piece| piece.words.get(word))
            .is_some_and(|word| word & bit != 0)
    }

    /// Keeps what is in the other set too.
    pub(super) fn intersect(&mut self, other: &RidSet) {
        self.len = 0;
        self.pieces.retain(|at, piece| {
            let Some(others) = other.pieces.get(at) else { return false };
            let mut left = 0;
            for (word, with) in piece.words.iter_mut().zip(&others.words) {
                *word &= with;
                left += u64::from(word.count_ones());
            }
            self.len += left;
            left > 0
        });
    }

    /// Takes in what the other set has.
    pub(super) fn union(&mut self, other: RidSet) {
        for (at, theirs) in other.pieces {
            match self.pieces.get_mut(&at) {
                None => {
                    self.len += theirs.len();
                    self.pieces.insert(at, theirs);
                }
                Some(piece) => {
                    self.len -= piece.len();
                    for (word, with) in piece.words.iter_mut().zip(&theirs.words) {
                        *word |= with;
                    }
                    self.len += piece.len();
                }
            }
        }
    }

    /// All ids from the least, or from the one given.
    pub(super) fn iter_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let pieces = self.pieces.range(first >> PIECE_BITS..);
        pieces.flat_map(|(at, piece)| piece.ids(*at)).filter(move |rid| *rid >= first)
    }

    /// All ids from the greatest, or from the one given, down.
    pub(super) fn iter_down_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let pieces = self.pieces.range(..=first >> PIECE_BITS).rev();
        let down = pieces.flat_map(|(at, piece)| piece.ids(*at).rev());
        down.filter(move |rid| *rid <= first)
    }
}

impl Piece {
    fn len(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn ids(&self, at: u64) -> impl DoubleEndedIterator<Item = u64> {
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
    fn sample(seed: u64) -> BTreeSet<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            state >> 33
        };
        (0..2_000).map(|_| ((next() % 3) << 40) | (next() % 150_000)).collect()
    }

    #[test]
    fn the_set_agrees_with_a_tree_of_numbers() {
        for seed in 1..20 {
            let (a, b) = (sample(seed), sample(seed + 100));
            let (mut both, mut any): (RidSet, RidSet) =
                (a.iter().copied().collect(), a.iter().copied().collect());
            both.intersect(&b.iter().copied().collect());
            any.union(b.iter().copied().collect());
            assert!(both.iter_from(0).eq(a.intersection(&b).copied()));
            assert!(any.iter_from(0).eq(a.union(&b).copied()));
            assert_eq!(both.len(), a.intersection(&b).count() as u64);
            assert_eq!(any.len(), a.union(&b).count() as u64);
            let middle = a.iter().nth(900).copied().unwrap();
            assert!(any.iter_from(middle).eq(a.union(&b).copied().filter(|rid| *rid >= middle)));
            let mut down: Vec<u64> = a.union(&b).copied().filter(|rid| *rid <= middle).collect();
            down.reverse();
            assert!(any.iter_down_from(middle).eq(down));
            assert!(b.iter().all(|rid| any.contains(*rid)));
            assert!(!any.contains(1 << 50));
        }
    }
}
