//! The largest logical partitions of a container, found by looking at the head of each.
//!
//! Heads are counters of a few bytes, so this reads little of the data; still there may be millions
//! of them. The walk keeps the `top` largest and nothing else, and ends when its time is over: the
//! report then says that it is not complete.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use partita_model::{Clock, Error, Result};
use partita_storage::{Direction, Snapshot, Space, counter};

use crate::catalog::Partition;
use crate::keys;
use crate::op::LogicalPartition;

/// A walk over all logical partitions may take so long.
const WALK_NANOS_MAX: u64 = 5_000_000_000;

/// The clock is asked once in so many heads.
const HEADS_PER_LOOK: u64 = 1_024;

/// The largest logical partitions seen so far.
pub(super) struct Largest<'a> {
    top: usize,
    kept: BinaryHeap<Reverse<BySize>>,
    clock: &'a dyn Clock,
    ends_nanos: u64,
    pub(super) complete: bool,
}

/// Ordered by bytes; equal ones by EPK, so that the same data gives the same report.
#[derive(PartialEq)]
struct BySize(LogicalPartition);

impl Eq for BySize {}

impl Ord for BySize {
    fn cmp(&self, other: &BySize) -> Ordering {
        self.0.bytes.cmp(&other.0.bytes).then_with(|| other.0.epk.cmp(&self.0.epk))
    }
}

impl PartialOrd for BySize {
    fn partial_cmp(&self, other: &BySize) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Largest<'a> {
    pub(super) fn new(top: usize, clock: &'a dyn Clock) -> Largest<'a> {
        let ends_nanos = clock.monotonic_nanos().saturating_add(WALK_NANOS_MAX);
        Largest { top, kept: BinaryHeap::new(), clock, ends_nanos, complete: true }
    }

    /// Looks at a partition's heads. Answers how many logical partitions have items in it, if all
    /// were seen.
    pub(super) fn walk(
        &mut self,
        view: &dyn Snapshot,
        partition: &Partition,
        components: usize,
    ) -> Result<Option<u64>> {
        let (mut seen, mut occupied) = (0_u64, 0_u64);
        let mut failed = None;
        view.walk(Space::Meta, &keys::all_heads(), Direction::Forward, &mut |key, value| {
            seen += 1;
            if seen.is_multiple_of(HEADS_PER_LOOK) && self.clock.monotonic_nanos() > self.ends_nanos
            {
                self.complete = false;
                return ControlFlow::Break(());
            }
            match head(key, value, partition.range_id, components) {
                Ok(logical) if logical.items > 0 => {
                    occupied += 1;
                    self.consider(logical);
                    ControlFlow::Continue(())
                }
                Ok(_) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(self.complete.then_some(occupied)),
        }
    }

    fn consider(&mut self, logical: LogicalPartition) {
        self.kept.push(Reverse(BySize(logical)));
        if self.kept.len() > self.top {
            self.kept.pop();
        }
    }

    /// The largest first.
    pub(super) fn into_sorted(self) -> Vec<LogicalPartition> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(BySize(logical))| logical).collect()
    }
}

fn head(key: &[u8], value: &[u8], range_id: u32, components: usize) -> Result<LogicalPartition> {
    let (epk, key) = keys::parse_head(key, components)
        .ok_or_else(|| Error::corrupt("the head of a logical partition has a damaged key"))?;
    let (items, bytes) = keys::head_parts(counter(value)?);
    let size = |count: i64| u64::try_from(count).unwrap_or(0);
    Ok(LogicalPartition { key, epk, range_id, items: size(items), bytes: size(bytes) })
}
