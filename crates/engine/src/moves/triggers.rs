//! What asks for a split on its own account: more throughput than the partitions can give, and a
//! partition that holds more than one may.
//!
//! A look at both is taken when something was given throughput, when a partition has grown by a
//! good part of what it may hold, and after every move, since one split may not be enough. It reads
//! the catalog and a counter for each partition that grew, so it is cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use partita_model::{ErrorKind, Result};

use super::choose;
use crate::catalog::{Container, Partition};
use crate::database::Database;
use crate::keys::Total;
use crate::op::SplitAt;
use crate::totals::total;
use crate::wait::block_on;

/// A partition is looked at when it has grown by one part of this many of what it may hold.
const LOOKS_PER_PARTITION: u64 = 32;

/// A partition that holds less than one part of this many of what it may is as good as empty: where
/// its bytes halve says nothing about where those to come will.
const NEARLY_EMPTY: u64 = 100;

/// How much was written to a partition since it was looked at.
#[derive(Debug)]
pub(crate) struct Growth(AtomicU64);

impl Growth {
    /// Of a partition that was never looked at.
    pub(crate) fn unknown() -> Growth {
        Growth(AtomicU64::new(u64::MAX))
    }

    /// Adds to it; true if that makes it worth a look.
    fn add(&self, bytes: u64, enough: u64) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_add(bytes), Ordering::Relaxed);
        before < enough && before.saturating_add(bytes) >= enough
    }

    fn is_at_least(&self, enough: u64) -> bool {
        self.0.load(Ordering::Relaxed) >= enough
    }

    /// The partition was looked at, and nothing is to be done.
    fn settle(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// How many partitions a container needs for its own throughput.
pub(super) fn partitions_needed(database: &Database, container: &Container) -> usize {
    let catalog = database.catalog.current();
    let offer = catalog.offer_of(&container.rid.to_string());
    let provisioned = offer.map_or(0, |offer| offer.throughput.provisioned());
    let needed = provisioned.div_ceil(database.settings.partitions.ru_max.max(1));
    usize::try_from(needed).unwrap_or(usize::MAX).max(1)
}

impl Database {
    /// Notes that so many bytes were written to a partition.
    pub(crate) fn note_growth(&self, partition: &Partition, bytes: u64) {
        if partition.growth.add(bytes, self.bytes_worth_a_look()) {
            self.moves.ask_for_a_look();
            self.jobs.ring();
        }
    }

    /// Has a container fewer partitions than its throughput needs? That passes.
    pub(crate) fn awaits_partitions(&self, container: &Container) -> bool {
        container.partitions.len() < partitions_needed(self, container) && can_be_hashed(container)
    }

    fn bytes_worth_a_look(&self) -> u64 {
        (self.settings.partitions.bytes_max / LOOKS_PER_PARTITION).max(1)
    }

    /// Begins the splits that are due. One that cannot begin is told, once.
    pub(super) fn plan_due_moves(&self) {
        let containers: Vec<Arc<Container>> =
            self.catalog.current().all_containers().map(Arc::clone).collect();
        for container in containers.iter().filter(|container| container.moves.is_empty()) {
            if let Err(error) = self.plan_due_move(container) {
                tracing::warn!(%error, container = container.alt_link(), "cannot split");
            }
        }
    }

    fn plan_due_move(&self, container: &Arc<Container>) -> Result<()> {
        let mut largest: Option<(u64, &Partition)> = None;
        let for_throughput = self.awaits_partitions(container);
        for partition in &container.partitions {
            if !partition.growth.is_at_least(self.bytes_worth_a_look()) && !for_throughput {
                continue;
            }
            let bytes = total(&*self.store.snapshot(partition.id)?, Total::Bytes)?;
            if bytes <= self.settings.partitions.bytes_max {
                partition.growth.settle();
            }
            if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                largest = Some((bytes, partition));
            }
        }
        match largest {
            Some((bytes, partition)) if for_throughput => {
                let nearly_empty = bytes < self.settings.partitions.bytes_max / NEARLY_EMPTY;
                let at = if nearly_empty { SplitAt::Midpoint } else { SplitAt::Storage };
                self.split_for_throughput(container, partition, &at)
            }
            Some((bytes, partition)) if bytes > self.settings.partitions.bytes_max => {
                self.split_for_storage(container, partition)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// More throughput needs more partitions whatever is in them.
    fn split_for_throughput(
        &self,
        container: &Arc<Container>,
        partition: &Partition,
        at: &SplitAt,
    ) -> Result<()> {
        let view = self.store.snapshot(partition.id)?;
        let boundary = match choose::boundary(container, partition, &*view, at) {
            Err(error) if error.kind == ErrorKind::BadRequest => {
                choose::midpoint(container, partition)?
            }
            chosen => chosen?,
        };
        drop(view);
        block_on(self.plan_split(container, partition, boundary)).map(|_| ())
    }

    fn split_for_storage(&self, container: &Arc<Container>, partition: &Partition) -> Result<()> {
        let view = self.store.snapshot(partition.id)?;
        let boundary = choose::boundary(container, partition, &*view, &SplitAt::Storage);
        drop(view);
        match boundary {
            Ok(boundary) => block_on(self.plan_split(container, partition, boundary)).map(|_| ()),
            Err(error) if error.kind == ErrorKind::BadRequest => {
                partition.growth.settle();
                if self.moves.indivisible().insert(partition.id) {
                    let container = container.alt_link();
                    tracing::warn!(container, "a partition is over its size: {error}");
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// A container without a partition key has one logical partition, and Range keys have no hash.
fn can_be_hashed(container: &Container) -> bool {
    let definition = &container.definition.partition_key;
    !definition.system_key && definition.kind != partita_model::KeyKind::Range
}
