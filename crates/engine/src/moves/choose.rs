//! Where to divide a partition.
//!
//! A logical partition stays whole, so a boundary lies between two EPKs. The heads of logical
//! partitions tell how much each holds, in EPK order: walking over them finds the boundary that
//! leaves about half of the bytes on each side. Of hierarchical keys it is better to keep what
//! shares its first level together, as long as both sides get a fair share.

use std::ops::ControlFlow;

use partita_model::{Epk, EpkRange, Error, KeyKind, Result};
use partita_storage::{Direction, Snapshot, Space, counter};

use crate::catalog::{Container, Partition};
use crate::keys;
use crate::op::SplitAt;

/// One level of a hierarchical key in an EPK.
const LEVEL_BYTES: usize = 16;

/// The least share of a side, as one part of this many, for a boundary between upper levels.
const FAIR_SHARE: i64 = 4;

/// The first EPK of the second half.
pub(super) fn boundary(
    container: &Container,
    partition: &Partition,
    view: &dyn Snapshot,
    at: &SplitAt,
) -> Result<Epk> {
    let definition = &container.definition.partition_key;
    let stored = Stored::read(view)?;
    if stored.first.is_some() && stored.first == stored.last {
        return Err(indivisible(partition));
    }
    match at {
        SplitAt::Epk(epk) => given(&partition.epks, definition.unpadded(epk.clone())),
        SplitAt::Storage if stored.first.is_some() => by_storage(container, &stored, view),
        SplitAt::Midpoint | SplitAt::Storage => midpoint(container, partition),
    }
}

/// The middle of the hash range, whatever is stored.
pub(super) fn midpoint(container: &Container, partition: &Partition) -> Result<Epk> {
    let middle = container.definition.partition_key.midpoint(&partition.epks);
    middle.ok_or_else(|| {
        Error::bad_request(format!(
            "The partition key range '{}' has no midpoint: its keys {} are not hashed, or are one \
             hash. Split it by storage or at a given EPK",
            partition.range_id, partition.epks
        ))
    })
}

fn given(epks: &EpkRange, epk: Epk) -> Result<Epk> {
    match epks.min < epk && epk < epks.max {
        true => Ok(epk),
        false => Err(Error::bad_request(format!(
            "A partition cannot be split at {epk}: that must lie within {epks}, without its ends"
        ))),
    }
}

fn indivisible(partition: &Partition) -> Error {
    Error::bad_request(format!(
        "The partition key range '{}' cannot be split: all of its items have one partition key, and \
         a logical partition is never divided",
        partition.range_id
    ))
}

/// What a partition holds, over all.
struct Stored {
    bytes: i64,
    /// The EPKs of the first and the last logical partition that have items.
    first: Option<Epk>,
    last: Option<Epk>,
}

impl Stored {
    fn read(view: &dyn Snapshot) -> Result<Stored> {
        let mut stored = Stored { bytes: 0, first: None, last: None };
        for_each_head(view, &mut |epk, bytes| {
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
#[derive(Clone, Debug, Default)]
struct Best {
    /// Bytes on its left, and the first EPK on its right.
    found: Option<(i64, Epk)>,
}

impl Best {
    fn offer(&mut self, left: i64, total: i64, epk: impl FnOnce() -> Epk) {
        let off_centre = |left: i64| (2 * left - total).abs();
        if self.found.as_ref().is_none_or(|(best, _)| off_centre(left) < off_centre(*best)) {
            self.found = Some((left, epk()));
        }
    }

    fn is_fair(&self, total: i64) -> bool {
        let fair = |part: i64| part * FAIR_SHARE >= total;
        self.found.as_ref().is_some_and(|(left, _)| fair(*left) && fair(total - left))
    }
}

fn by_storage(container: &Container, stored: &Stored, view: &dyn Snapshot) -> Result<Epk> {
    let definition = &container.definition.partition_key;
    let levels = if definition.kind == KeyKind::MultiHash { definition.paths.len() } else { 1 };
    // The last one is for boundaries between any two EPKs.
    let mut best = vec![Best::default(); levels];
    let mut before: Option<Epk> = None;
    let mut left = 0;
    for_each_head(view, &mut |epk, bytes| {
        if let Some(before) = before.as_ref().filter(|before| **before != epk) {
            for (level, best) in (1..).zip(&mut best) {
                let part = if level == levels { usize::MAX } else { level * LEVEL_BYTES };
                if beginning(before, part) != beginning(&epk, part) {
                    let bound = || Epk::from_bytes(beginning(&epk, part).to_vec());
                    best.offer(left, stored.bytes, bound);
                }
            }
        }
        left += bytes;
        before = Some(epk);
    })?;
    let fair = best.iter().find(|best| best.is_fair(stored.bytes));
    let chosen = fair.or(best.last()).and_then(|best| best.found.clone());
    chosen.map(|(_, epk)| epk).ok_or_else(|| Error::internal("a boundary went astray"))
}

fn beginning(epk: &Epk, bytes: usize) -> &[u8] {
    let all = epk.as_bytes();
    all.get(..bytes).unwrap_or(all)
}

/// Shows the EPK and the bytes of every logical partition that has items.
fn for_each_head(view: &dyn Snapshot, f: &mut dyn FnMut(Epk, i64)) -> Result<()> {
    let mut failed = None;
    view.walk(Space::Meta, &keys::all_heads(), Direction::Forward, &mut |key, value| {
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
