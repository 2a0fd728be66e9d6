//! What can be told about partitions: for people who watch them, and for programs that do.
//!
//! A description reads a few counters of each partition. Only the question for the largest logical
//! partitions walks over anything, and only when it is asked (`largest.rs`).

mod alerts;
mod largest;
mod metrics;

use std::sync::Arc;

use partita_model::{PartitionKeyHeader, Result};
use partita_storage::{Snapshot, Space, counter};

pub use self::alerts::{Alert, AlertKind, Watch};
pub use self::metrics::PartitionMetrics;

use self::largest::Largest;
use crate::catalog::{Container, Partition};
use crate::context::Work;
use crate::core::Core;
use crate::keys::{self, Total, stored_total};
use crate::live::LivePartition;
use crate::op::{
    ContainerPath, HotPartition, KeyLocation, LogicalPartition, MoveKind, Moving, Outcome,
    PartitionDescription, PartitionFigures, PartitionReport,
};
use crate::throughput::HotKey;

/// The hottest are at hand and cost nothing: so many are always told.
const HOTTEST_MIN: usize = 10;

/// More logical partitions than this are not listed.
const TOP_MAX: usize = 1_000;

/// Tells about partitions.
pub(crate) struct Reports {
    core: Arc<Core>,
}

impl Reports {
    pub(crate) fn new(core: Arc<Core>) -> Reports {
        Reports { core }
    }

    /// Everything about the partitions of a container. With a `top` of 0 nothing is walked over.
    pub(crate) fn describe_partitions(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        top: usize,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.core.item_container(work, path)?.container;
        let mut largest = Largest::new(top.min(TOP_MAX), &*self.core.clock);
        let mut partitions = Vec::with_capacity(container.partitions.len());
        for (partition, live) in container.served() {
            let view = self.core.store.snapshot(partition.id)?;
            let mut described = self.describe((partition, live), &*view)?;
            described.moving = self.moving(&container, partition.range_id);
            if described.figures.provisioned_ru.is_none() {
                described.figures.provisioned_ru = self.shown_ru(&container);
            }
            if top > 0 && largest.complete {
                let components = container.definition.partition_key.paths.len();
                described.logical_partitions = largest.walk(&*view, partition, components)?;
            }
            partitions.push(described);
        }
        Ok(Outcome::PartitionReport(Box::new(PartitionReport {
            partitions,
            largest_complete: largest.complete,
            largest: largest.into_sorted(),
            hottest: self.hottest(&container, top.clamp(HOTTEST_MIN, TOP_MAX)),
            logical_bytes_max: self.core.logical_bytes_max(&container),
            bytes_max: self.core.settings.partitions.bytes_max,
        })))
    }

    /// A partition's share of a throughput that is shown and limits nothing.
    fn shown_ru(&self, container: &Container) -> Option<f64> {
        let catalog = self.core.catalog.current();
        let offer = catalog.offer_for(container)?;
        Some(f64::from(offer.throughput.provisioned()) / container.partitions.len().max(1) as f64)
    }

    fn describe(
        &self,
        (partition, live): (&Partition, &LivePartition),
        view: &dyn Snapshot,
    ) -> Result<PartitionDescription> {
        Ok(PartitionDescription {
            range_id: partition.range_id,
            epks: partition.epks.clone(),
            parents: partition.parents.clone(),
            figures: self.figures(live, view)?,
            moving: None,
            logical_partitions: None,
        })
    }

    fn figures(&self, live: &LivePartition, view: &dyn Snapshot) -> Result<PartitionFigures> {
        let (meter, now) = (&live.meter, self.core.clock.monotonic_nanos());
        Ok(PartitionFigures {
            items: stored_total(view, Total::Items)?,
            bytes: stored_total(view, Total::Bytes)?,
            provisioned_ru: meter.provisioned_ru(),
            consumed_ru: meter.consumed_ru(),
            ru_per_second: meter.ru_last_minute(now),
            ru_peak: meter.ru_peak(now),
            requests: meter.requests(),
            throttled: meter.throttled(),
        })
    }

    /// The logical partitions of a container that cost most lately.
    fn hottest(&self, container: &Container, top: usize) -> Vec<HotPartition> {
        let now = self.core.clock.monotonic_nanos();
        let mut hottest = Vec::new();
        for live in container.serving() {
            let range_id = live.range_id;
            let keys = live.meter.hot_keys(now, usize::MAX).into_iter();
            hottest.extend(keys.map(|HotKey { epk, key, ru }| HotPartition {
                key,
                epk,
                range_id,
                ru,
                share: 0.0,
            }));
        }
        // What keys in the lists have is all there is: a key that takes another's place takes its
        // count.
        let all: f64 = hottest.iter().map(|hot| hot.ru).sum();
        hottest.iter_mut().for_each(|hot| hot.share = hot.ru / all.max(1.0));
        hottest.sort_by(|a, b| b.ru.total_cmp(&a.ru).then_with(|| a.epk.cmp(&b.epk)));
        hottest.truncate(top);
        hottest
    }

    /// The split or merge that a partition is a source of, and how far it is.
    fn moving(&self, container: &Container, range_id: u32) -> Option<Moving> {
        let found = container.moves.iter().find(|known| known.sources.contains(&range_id))?;
        let items = |partition: &Partition| {
            // A partition that just went away has nothing left to copy.
            let view = self.core.store.snapshot(partition.id).ok()?;
            stored_total(&*view, Total::Items).ok().map(|items| items as f64)
        };
        let is_source = |known: &&Partition| found.sources.contains(&known.range_id);
        let here: f64 = container.partitions.iter().filter(is_source).filter_map(items).sum();
        let there: f64 = found.targets.iter().filter_map(items).sum();
        Some(Moving {
            kind: if found.is_merge() { MoveKind::Merge } else { MoveKind::Split },
            targets: found.targets.iter().map(|target| target.range_id).collect(),
            copied: if here > 0.0 { (there / here).min(1.0) } else { 1.0 },
        })
    }

    /// Where a partition key, or the beginning of one, leads.
    pub(crate) fn locate_key(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        key: PartitionKeyHeader,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let container = self.core.item_container(work, path)?.container;
        let definition = &container.definition.partition_key;
        let key = match (key.0.as_slice(), definition.system_key) {
            // Clients name the key of containers without one like this.
            ([], true) => PartitionKeyHeader::from(definition.resolve(&key)?),
            _ => key,
        };
        let epks = definition.range_of(&key)?;
        let homes = container.partitions.iter().filter(|known| known.epks.overlaps(&epks));
        let partitions = homes.map(|known| (known.range_id, known.epks.clone())).collect();
        let is_full = key.0.len() == definition.paths.len();
        let stored = if is_full { Some(self.stored_under(&container, &key)?) } else { None };
        Ok(Outcome::KeyLocation(Box::new(KeyLocation { key, epks, partitions, stored })))
    }

    /// What a logical partition holds.
    fn stored_under(
        &self,
        container: &Container,
        header: &PartitionKeyHeader,
    ) -> Result<LogicalPartition> {
        let definition = &container.definition.partition_key;
        let key = definition.resolve(header)?;
        let epk = definition.epk(&key);
        let partition = &container.partitions[container.partition_index(&epk)];
        let view = self.core.store.snapshot(partition.id)?;
        let (items, bytes) = keys::head_parts(count(&*view, &keys::head(&epk, &key))?);
        let (items, bytes) = (size(items), size(bytes));
        Ok(LogicalPartition { key, epk, range_id: partition.range_id, items, bytes })
    }
}

fn count(view: &dyn Snapshot, key: &[u8]) -> Result<i64> {
    let record = view.get(Space::Meta, key)?;
    Ok(record.map_or(Ok(0), |record| counter(&record.value))?)
}

fn size(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
