//! Where to divide a partition.
//!
//! A logical partition stays whole, so a boundary lies between two EPKs. The heads of logical
//! partitions tell how much each holds, in EPK order: walking over them finds the boundary that
//! leaves about half of the bytes on each side, or another portion. Of hierarchical keys it is
//! better to keep what shares its first level together, as long as both sides get what they should,
//! up to a tenth of the smaller one: halves have 45 to 55 % of the bytes.

use std::ops::ControlFlow;

use partita_model::{Epk, EpkRange, Error, KeyKind, Portion, Result};
use partita_storage::{Direction, Snapshot, Space, counter};

use crate::catalog::{Container, Partition};
use crate::keys;
use crate::op::SplitAt;

/// One level of a hierarchical key in an EPK.
const LEVEL_BYTES: usize = 16;

/// The first EPK of the second half.
pub(super) fn boundary(
    container: &Container,
    partition: &Partition,
    view: &dyn Snapshot,
    at: &SplitAt,
) -> Result<Epk> {
    let definition = &container.definition.partition_key;
    let stored = Stored::read(view, &partition.epks)?;
    if stored.first.is_some() && stored.first == stored.last {
        return Err(indivisible(partition));
    }
    match at {
        SplitAt::Epk(epk) => given(&partition.epks, definition.unpadded(epk.clone())),
        SplitAt::Storage if stored.first.is_some() => {
            by_storage(container, &partition.epks, &stored, view, Portion::HALF)
        }
        SplitAt::Midpoint | SplitAt::Storage => {
            by_hash(container, partition, &partition.epks, Portion::HALF)
        }
    }
}

/// The ranges of so many pieces of a partition, in order. What cannot be divided by what is stored,
/// since there is nothing or one logical partition, is divided by hashes.
pub(super) fn pieces(
    container: &Container,
    partition: &Partition,
    view: &dyn Snapshot,
    at: Evenly,
    count: u32,
) -> Result<Vec<EpkRange>> {
    let mut done = Vec::new();
    let mut left = vec![(partition.epks.clone(), count)];
    while let Some((epks, count)) = left.pop() {
        if count < 2 {
            done.push(epks);
            continue;
        }
        let portion = Portion { left: count / 2, of: count };
        let stored = match at {
            Evenly::Bytes => Some(Stored::read(view, &epks)?),
            Evenly::Hashes => None,
        };
        let boundary = match stored.filter(|stored| stored.first != stored.last) {
            Some(stored) => by_storage(container, &epks, &stored, view, portion)?,
            None => by_hash(container, partition, &epks, portion)?,
        };
        let EpkRange { min, max } = epks;
        left.push((EpkRange::new(boundary.clone(), max), count - portion.left));
        left.push((EpkRange::new(min, boundary), portion.left));
    }
    Ok(done)
}

/// The ranges of as many pieces of a partition as it takes for each to be well below what a
/// partition may hold, in order; no more than `pieces_max`. A logical partition that is larger than
/// that becomes a piece of its own.
pub(super) fn fitting_pieces(
    container: &Container,
    partition: &Partition,
    view: &dyn Snapshot,
    bytes_max: u64,
    pieces_max: u32,
) -> Result<Vec<EpkRange>> {
    let mut done = Vec::new();
    let mut left = vec![(partition.epks.clone(), pieces_max)];
    while let Some((epks, pieces_max)) = left.pop() {
        let stored = Stored::read(view, &epks)?;
        let count = pieces_needed(stored.bytes, bytes_max).min(pieces_max);
        if count < 2 || stored.first == stored.last {
            done.push(epks);
            continue;
        }
        let portion = Portion { left: count / 2, of: count };
        let boundary = by_storage(container, &epks, &stored, view, portion)?;
        // What is not needed of the limit is for the side that turns out larger than planned.
        let pieces_left = pieces_max * portion.left / portion.of;
        let EpkRange { min, max } = epks;
        left.push((EpkRange::new(boundary.clone(), max), pieces_max - pieces_left));
        left.push((EpkRange::new(min, boundary), pieces_left));
    }
    match done.len() {
        0 | 1 => Err(indivisible(partition)),
        _ => Ok(done),
    }
}

/// Pieces are made to be three quarters full: they shall not be divided again soon. One that came
/// out up to four fifths full, because keys are not to be divided, is left as it is.
fn pieces_needed(bytes: i64, bytes_max: u64) -> u32 {
    let (bytes, bytes_max) = (u128::try_from(bytes).unwrap_or(0), u128::from(bytes_max.max(1)));
    if bytes * 5 <= bytes_max * 4 {
        return 1;
    }
    u32::try_from((bytes * 4).div_ceil(bytes_max * 3)).unwrap_or(u32::MAX).max(2)
}

/// What pieces get equal shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evenly {
    Bytes,
    Hashes,
}

/// The point that leaves a portion of the hashes on its left, whatever is stored.
fn by_hash(
    container: &Container,
    partition: &Partition,
    epks: &EpkRange,
    portion: Portion,
) -> Result<Epk> {
    let point = container.definition.partition_key.dividing_point(epks, portion);
    point.ok_or_else(|| {
        Error::bad_request(format!(
            "The partition key range '{}' has no midpoint: its keys {epks} are not hashed, or are \
             one hash. Split it by storage or at a given EPK",
            partition.range_id
        ))
    })
}

fn given(epks: &EpkRange, epk: Epk) -> Result<Epk> {
    if epks.min < epk && epk < epks.max {
        Ok(epk)
    } else {
        Err(Error::bad_request(format!(
            "A partition cannot be split at {epk}: that must lie within {epks}, without its ends"
        )))
    }
}

fn indivisible(partition: &Partition) -> Error {
    Error::bad_request(format!(
        "The partition key range '{}' cannot be split: all of its items have one partition key, and \
         a logical partition is never divided",
        partition.range_id
    ))
}

/// What a range of EPKs holds, over all.
struct Stored {
    bytes: i64,
    /// The EPKs of the first and the last logical partition that have items.
    first: Option<Epk>,
    last: Option<Epk>,
}

impl Stored {
    fn read(view: &dyn Snapshot, epks: &EpkRange) -> Result<Stored> {
        let mut stored = Stored { bytes: 0, first: None, last: None };
        for_each_head(view, epks, &mut |epk, bytes| {
            stored.bytes += bytes;
            if stored.first.is_none() {
                stored.first = Some(epk.clone());
            }
            stored.last = Some(epk);
        })?;
        Ok(stored)
    }
}

/// The best boundary at one level of keys.
#[derive(Clone, Debug)]
struct Best {
    /// All bytes, and what of them should be on the left.
    total: i64,
    portion: Portion,
    /// Bytes on its left, and the first EPK on its right.
    found: Option<(i64, Epk)>,
}

impl Best {
    /// How far from where it should be a boundary with these bytes on its left is, in parts of a
    /// byte.
    fn distance(&self, left: i64) -> i64 {
        (i64::from(self.portion.of) * left - i64::from(self.portion.left) * self.total).abs()
    }

    fn offer(&mut self, left: i64, epk: impl FnOnce() -> Epk) {
        if self.found.as_ref().is_none_or(|(best, _)| self.distance(left) < self.distance(*best)) {
            self.found = Some((left, epk()));
        }
    }

    /// Is it off by no more than a tenth of what the smaller side should have?
    fn is_fair(&self) -> bool {
        let Portion { left, of } = self.portion;
        let smaller = i64::from(left.min(of - left));
        let is_near = |bytes: i64| 10 * self.distance(bytes) <= smaller * self.total;
        self.found.as_ref().is_some_and(|(bytes, _)| is_near(*bytes))
    }
}

/// The boundary that leaves about a portion of the bytes on its left. There are two logical
/// partitions at least.
fn by_storage(
    container: &Container,
    epks: &EpkRange,
    stored: &Stored,
    view: &dyn Snapshot,
    portion: Portion,
) -> Result<Epk> {
    let definition = &container.definition.partition_key;
    let levels = if definition.kind == KeyKind::MultiHash { definition.paths.len() } else { 1 };
    // The last one is for boundaries between any two EPKs.
    let mut best = vec![Best { total: stored.bytes, portion, found: None }; levels];
    let mut before: Option<Epk> = None;
    let mut left = 0;
    for_each_head(view, epks, &mut |epk, bytes| {
        if let Some(before) = before.as_ref().filter(|before| **before != epk) {
            for (level, best) in (1..).zip(&mut best) {
                let part = if level == levels { usize::MAX } else { level * LEVEL_BYTES };
                if beginning(before, part) != beginning(&epk, part) {
                    let bound = || Epk::from_bytes(beginning(&epk, part).to_vec());
                    best.offer(left, bound);
                }
            }
        }
        left += bytes;
        before = Some(epk);
    })?;
    let fair = best.iter().find(|best| best.is_fair());
    let chosen = fair.or(best.last()).and_then(|best| best.found.clone());
    chosen.map(|(_, epk)| epk).ok_or_else(|| Error::internal("a boundary went astray"))
}

fn beginning(epk: &Epk, bytes: usize) -> &[u8] {
    let all = epk.as_bytes();
    all.get(..bytes).unwrap_or(all)
}

/// Shows the EPK and the bytes of every logical partition in a range that has items.
fn for_each_head(view: &dyn Snapshot, epks: &EpkRange, f: &mut dyn FnMut(Epk, i64)) -> Result<()> {
    let mut failed = None;
    view.walk(Space::Meta, &keys::heads_in(epks), Direction::Forward, &mut |key, value| {
        let (Some(epk), Ok(count)) = (keys::epk_of_head(key), counter(value)) else {
            failed = Some(Error::corrupt("the head of a logical partition is damaged"));
            return ControlFlow::Break(());
        };
        let (items, bytes) = keys::head_parts(count);
        if items > 0 {
            f(epk, bytes);
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_to_be_three_quarters_full() {
        let needed = [0, 80, 81, 100, 150, 151, 400, 800].map(|bytes| pieces_needed(bytes, 100));
        assert_eq!(needed, [1, 1, 2, 2, 2, 3, 6, 11]);
    }
}
