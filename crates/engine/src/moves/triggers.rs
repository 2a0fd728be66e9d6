//! What asks for a split on its own account: more throughput than the partitions can give, and a
//! partition that holds more than one may.
//!
//! A look at both is taken when something was given throughput, when a partition has grown by a
//! good part of what it may hold, and after every move, since one split may not be enough. It reads
//! the catalog and a counter for each partition that grew, so it is cheap.
//!
//! All that is needed is planned at once, and a partition is divided into as many pieces as it
//! takes, up to eight: data is copied once, and clients that follow a range to its children do not
//! find these divided again (some cannot follow that).
//!
//! For size, that is every partition that holds too much. For throughput it is the partitions that
//! have most to do or to hold: each gets pieces by its share of the request units that were asked
//! for lately and by its share of the bytes.

use std::sync::Arc;

use partita_model::{Error, ErrorKind, Result};

use super::choose::{self, Evenly};
use super::{Moves, lock};
use crate::catalog::{Container, Partition};
use crate::core::Core;
use crate::keys::{Total, stored_total};
use crate::live::LivePartition;

/// A partition is looked at when it has grown by one part of this many of what it may hold.
const LOOKS_PER_PARTITION: u64 = 32;

/// A partition that holds less than this, or less than one part of so many of what it may, is as
/// good as empty: its bytes say nothing about where those to come will be.
const NEARLY_EMPTY_BYTES: u64 = 1 << 20;
const NEARLY_EMPTY_PART: u64 = 100;

/// Request units per second, of all partitions of a container, below which it is as good as idle.
const NEARLY_IDLE_RU: f64 = 1.0;

/// Weights are shares in millionths.
const WEIGHT_OF_ALL: f64 = 1e6;

/// A partition is divided into so many pieces at most in one move: each of them reads the source's
/// feed, and brings over what came last while writers wait. What is missing then, the next look
/// finds.
const PIECES_MAX: u32 = 8;

/// A partition that was looked at.
struct SizedPartition<'a> {
    /// What it holds.
    bytes: u64,
    partition: &'a Partition,
    live: &'a LivePartition,
}

/// How many partitions a container needs for its own throughput.
pub(super) fn partitions_needed(core: &Core, container: &Container) -> usize {
    let catalog = core.catalog.current();
    let offer = catalog.offer_of(&container.rid.to_string());
    let offer = offer.filter(|offer| catalog.limits(offer));
    let provisioned = offer.map_or(0, |offer| offer.throughput.provisioned());
    let needed = provisioned.div_ceil(core.settings.partitions.ru_max.max(1));
    usize::try_from(needed).unwrap_or(usize::MAX).max(1)
}

impl Moves {
    /// Notes that so many bytes were written to a partition.
    pub(crate) fn note_growth(&self, partition: &LivePartition, bytes: u64) {
        if partition.growth.add(bytes, self.bytes_worth_a_look()) {
            self.ask_for_a_look();
            self.core.doorbell.ring();
        }
    }

    /// Has a container fewer partitions than its throughput needs? That passes.
    pub(crate) fn awaits_partitions(&self, container: &Container) -> bool {
        container.partitions.len() < partitions_needed(&self.core, container)
            && can_be_hashed(container)
    }

    fn bytes_worth_a_look(&self) -> u64 {
        (self.core.settings.partitions.bytes_max / LOOKS_PER_PARTITION).max(1)
    }

    /// Begins the splits that are due. One that cannot begin is told. If that is not its own fault
    /// it is looked at again, though nothing may be written to it any more.
    pub(super) async fn plan_due_moves(&self) {
        let containers: Vec<Arc<Container>> =
            self.core.catalog.current().all_containers().map(Arc::clone).collect();
        for container in containers.iter().filter(|container| container.moves.is_empty()) {
            if let Err(error) = self.plan_due_move(container).await {
                tracing::warn!(%error, container = container.alt_link(), "cannot split");
                if error.kind != ErrorKind::BadRequest {
                    self.ask_for_a_look();
                }
            }
        }
    }

    async fn plan_due_move(&self, container: &Arc<Container>) -> Result<()> {
        let mut sizes: Vec<SizedPartition<'_>> = Vec::new();
        let for_throughput = self.awaits_partitions(container);
        for (partition, live) in container.served() {
            if !live.growth.is_due(self.bytes_worth_a_look()) && !for_throughput {
                continue;
            }
            sizes.push(SizedPartition { bytes: self.look_at(live)?, partition, live });
        }
        if for_throughput {
            return self.split_for_throughput(container, &sizes).await;
        }
        let bytes_max = self.core.settings.partitions.bytes_max;
        for too_large in sizes.iter().filter(|sized| sized.bytes > bytes_max) {
            self.split_for_storage(container, too_large).await?;
        }
        Ok(())
    }

    /// Reads how much a partition holds. One that holds too much stays due until it is split or
    /// turns out to be indivisible, since something may come in between.
    fn look_at(&self, partition: &LivePartition) -> Result<u64> {
        partition.growth.begin_look();
        let snapshot = self.core.store.snapshot(partition.id).map_err(Error::from);
        let bytes = snapshot.and_then(|view| stored_total(&*view, Total::Bytes));
        if !bytes.as_ref().is_ok_and(|bytes| *bytes <= self.core.settings.partitions.bytes_max) {
            partition.growth.forget();
        }
        bytes
    }

    /// More throughput needs more partitions whatever is in them.
    async fn split_for_throughput(
        &self,
        container: &Arc<Container>,
        sizes: &[SizedPartition<'_>],
    ) -> Result<()> {
        let counts = pieces_of(&self.weights(sizes), partitions_needed(&self.core, container));
        let divided = sizes.iter().zip(counts).filter(|(_, count)| *count > 1);
        for (SizedPartition { bytes, partition, .. }, count) in divided {
            let is_nearly_empty = *bytes < self.nearly_empty_bytes();
            let at = if is_nearly_empty { Evenly::Hashes } else { Evenly::Bytes };
            let view = self.core.store.snapshot(partition.id)?;
            let ranges = choose::pieces(container, partition, &*view, at, count)?;
            drop(view);
            self.plan(container, &[*partition], ranges).await?;
        }
        Ok(())
    }

    /// How much each partition has to do and to hold. Where there is nearly nothing yet, all are
    /// alike.
    fn weights(&self, sizes: &[SizedPartition<'_>]) -> Vec<u64> {
        let now = self.core.clock.monotonic_nanos();
        let demands = sizes.iter().map(|sized| sized.live.meter.demand_last_minute(now));
        let demands = shares(demands.collect(), NEARLY_IDLE_RU);
        let bytes = sizes.iter().map(|sized| sized.bytes as f64);
        let bytes = shares(bytes.collect(), self.nearly_empty_bytes() as f64);
        let both = demands.iter().zip(bytes).map(|(demand, bytes)| demand + bytes);
        let weights: Vec<u64> = both.map(|share| (share * WEIGHT_OF_ALL) as u64).collect();
        if weights.iter().all(|weight| *weight == 0) { vec![1; sizes.len()] } else { weights }
    }

    fn nearly_empty_bytes(&self) -> u64 {
        NEARLY_EMPTY_BYTES.min(self.core.settings.partitions.bytes_max / NEARLY_EMPTY_PART)
    }

    async fn split_for_storage(
        &self,
        container: &Arc<Container>,
        SizedPartition { partition, live, .. }: &SizedPartition<'_>,
    ) -> Result<()> {
        let view = self.core.store.snapshot(partition.id)?;
        let bytes_max = self.core.settings.partitions.bytes_max;
        let ranges = choose::fitting_pieces(container, partition, &*view, bytes_max, PIECES_MAX);
        drop(view);
        match ranges {
            Ok(ranges) => self.plan(container, &[partition], ranges).await.map(|_| ()),
            Err(error) if error.kind == ErrorKind::BadRequest => {
                live.growth.end_look();
                if lock(&self.indivisible).insert(partition.id) {
                    let container = container.alt_link();
                    tracing::warn!(container, "a partition is over its size: {error}");
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// The share of each in the sum of all; nothing if that is less than `least`.
fn shares(values: Vec<f64>, least: f64) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let share = |value: f64| if sum > 0.0 && sum >= least { value / sum } else { 0.0 };
    values.into_iter().map(share).collect()
}

/// Into how many pieces each partition is divided, by its weight, for there to be enough of them,
/// or as many as one move may make.
fn pieces_of(weights: &[u64], needed: usize) -> Vec<u32> {
    let mut counts = vec![1_u32; weights.len()];
    for _ in weights.len()..needed {
        // Whose pieces are heaviest gets another; the first of equals.
        let heavier = |one: usize, other: usize| {
            let product = |a: usize, b: usize| u128::from(weights[a]) * u128::from(counts[b]);
            product(other, one) > product(one, other)
        };
        let heaviest = (0..counts.len()).reduce(|a, b| if heavier(a, b) { b } else { a });
        if let Some(count) = heaviest.and_then(|at| counts.get_mut(at)) {
            *count += 1;
        }
    }
    counts.into_iter().map(|count| count.min(PIECES_MAX)).collect()
}

/// A container without a partition key has one logical partition, and Range keys have no hash.
fn can_be_hashed(container: &Container) -> bool {
    let definition = &container.definition.partition_key;
    !definition.is_keyless() && definition.kind != partita_model::KeyKind::Range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_are_divided_most() {
        assert_eq!(pieces_of(&[1], 5), [5]);
        assert_eq!(pieces_of(&[1, 1], 5), [3, 2]);
        assert_eq!(pieces_of(&[90, 10, 0], 6), [4, 1, 1]);
        assert_eq!(pieces_of(&[0, 0], 3), [2, 1]);
        assert_eq!(pieces_of(&[7, 7, 7], 2), [1, 1, 1]);
        assert_eq!(pieces_of(&[1, 1], 100), [PIECES_MAX, PIECES_MAX]);
    }
}
