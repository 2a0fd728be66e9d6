//! What somebody should be told before it hurts: a disk or a logical partition that is nearly full,
//! and a partition that turns many requests away.
//!
//! Whoever calls [`Database::watch`] now and then keeps the [`Watch`] in between. An alert is
//! raised once when a threshold is passed, and again only after things had become clearly better:
//! each has a second, lower threshold for that.

use std::collections::{HashMap, HashSet};

use partita_model::{ContainerRid, PartitionKeyHeader};
use partita_storage::{DiskLevel, PartitionId};

use super::Reports;
use crate::catalog::{Catalog, Container};
use crate::live::LivePartition;

/// A logical partition is reported from this share of its limit on …
const LARGE: f64 = 0.8;

/// … and may be again after it fell below this one.
const LARGE_NO_MORE: f64 = 0.7;

/// A partition is reported when this share of its requests was turned away …
const THROTTLED: f64 = 0.01;

/// … and may be again after a time with less than this.
const THROTTLED_NO_MORE: f64 = 0.005;

/// The time over which requests are counted.
const WINDOW_NANOS: u64 = 60_000_000_000;

/// Fewer requests than this in that time say nothing.
const REQUESTS_MIN: u64 = 100;

/// Something that somebody should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    pub kind: AlertKind,
    /// The database's name. Of what is about all databases, names are empty.
    pub database: String,
    /// The container's name.
    pub container: String,
    pub range_id: u32,
    /// The partition key as a JSON array, if it is about one logical partition.
    pub key: Option<String>,
    /// Of the limit, or of the requests.
    pub share: f64,
    /// What happened and what can be done, in words.
    pub message: String,
}

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertKind {
    /// A logical partition is nearly as large as it may be.
    LogicalPartitionSize,
    /// A partition turns requests away.
    Throttling,
    /// The disk is nearly full, or so full that writes are refused.
    Disk,
}

impl AlertKind {
    /// A word for metrics and messages.
    pub fn word(self) -> &'static str {
        match self {
            AlertKind::LogicalPartitionSize => "logical_partition_size",
            AlertKind::Throttling => "throttling",
            AlertKind::Disk => "disk",
        }
    }

    /// Whether it is about a partition, not about the whole server.
    pub fn is_of_partition(self) -> bool {
        self != AlertKind::Disk
    }
}

/// What was seen at the last look.
#[derive(Debug, Default)]
pub struct Watch {
    /// Logical partitions that were reported.
    large: HashSet<(ContainerRid, String)>,
    partitions: HashMap<PartitionId, RequestWindow>,
    /// How full the disk was.
    disk: DiskLevel,
}

/// A partition's counters when its window began.
#[derive(Clone, Copy, Debug)]
struct RequestWindow {
    began_nanos: u64,
    requests: u64,
    throttled: u64,
    reported: bool,
}

impl Reports {
    /// Looks at all partitions, from memory as far as possible. Answers what is new since the last
    /// look.
    pub(crate) fn watch(&self, watch: &mut Watch) -> Vec<Alert> {
        let catalog = self.core.catalog.current();
        let mut alerts: Vec<Alert> = self.watch_disk(watch).into_iter().collect();
        for container in catalog.all_containers() {
            for partition in container.serving() {
                alerts.extend(self.watch_throttling(watch, container, partition));
                self.watch_sizes(watch, container, partition, &mut alerts);
            }
        }
        self.forget(watch, &catalog);
        alerts
    }

    /// Raised when the disk gets worse by a level. It was told in the log when it got better.
    fn watch_disk(&self, watch: &mut Watch) -> Option<Alert> {
        let disk = self.core.store.disk()?;
        let before = std::mem::replace(&mut watch.disk, disk.level);
        if disk.level <= before {
            return None;
        }
        let what = match disk.level {
            DiskLevel::Roomy | DiskLevel::High => {
                "is getting full: when no more than the reserve is left, new writes will be \
                 refused (507)"
            }
            DiskLevel::Full => "is full: new writes are refused (507), reads and deletes go on",
            DiskLevel::Exhausted => "is full: writes and deletes are refused (507), reads go on",
        };
        let message = format!(
            "the disk of the data directory {} {what}. {} of {} bytes are free and {} are held in \
             reserve: delete data, remove other files, or make the disk larger",
            disk.directory, disk.free_bytes, disk.total_bytes, disk.held_bytes
        );
        Some(Alert {
            kind: AlertKind::Disk,
            database: String::new(),
            container: String::new(),
            range_id: 0,
            key: None,
            share: disk.used_share(),
            message,
        })
    }

    fn watch_throttling(
        &self,
        watch: &mut Watch,
        container: &Container,
        partition: &LivePartition,
    ) -> Option<Alert> {
        let now = self.core.clock.monotonic_nanos();
        let meter = &partition.meter;
        let (served, refused) = (meter.requests(), meter.throttled());
        let begin = |reported| RequestWindow {
            began_nanos: now,
            requests: served,
            throttled: refused,
            reported,
        };
        let seen = watch.partitions.entry(partition.id).or_insert_with(|| RequestWindow {
            began_nanos: now,
            requests: 0,
            throttled: 0,
            reported: false,
        });
        if now.saturating_sub(seen.began_nanos) < WINDOW_NANOS {
            return None;
        }
        let throttled = refused.saturating_sub(seen.throttled);
        let asked = served.saturating_sub(seen.requests) + throttled;
        let share = throttled as f64 / asked.max(1) as f64;
        let was_reported = seen.reported;
        let is_bad = asked >= REQUESTS_MIN && share > THROTTLED;
        *seen = begin(is_bad || (was_reported && share >= THROTTLED_NO_MORE));
        if was_reported || !is_bad {
            return None;
        }
        let message = format!(
            "partition {} of {} turned away {throttled} of {asked} requests (429) within a minute: \
             raise the throughput, or spread the requests over more partition keys",
            partition.range_id,
            name(container)
        );
        Some(alert(AlertKind::Throttling, container, partition, None, (share, message)))
    }

    fn watch_sizes(
        &self,
        watch: &mut Watch,
        container: &Container,
        partition: &LivePartition,
        alerts: &mut Vec<Alert>,
    ) {
        let bytes_max = self.core.logical_bytes_max(container).max(1);
        for large in partition.meter.large_keys() {
            let known = (container.rid, large.key.clone());
            // What the meter noted may have been deleted since.
            let Some(share) = self.share_of_limit(container, &large.key) else { continue };
            if share < LARGE || !watch.large.insert(known) {
                continue;
            }
            let message = format!(
                "the partition key {} of {} holds {:.0} % of the {bytes_max} bytes that a logical \
                 partition may: writes to it will be refused (403) when it is full; delete items, \
                 or choose a partition key with more values",
                large.key,
                name(container),
                share * 100.0
            );
            let (kind, key) = (AlertKind::LogicalPartitionSize, Some(large.key));
            alerts.push(alert(kind, container, partition, key, (share, message)));
        }
    }

    /// How full a logical partition is; None if that cannot be read now.
    fn share_of_limit(&self, container: &Container, key: &str) -> Option<f64> {
        let header = PartitionKeyHeader::parse(key).ok()?;
        let stored = self.stored_under(container, &header).ok()?;
        Some(stored.bytes as f64 / self.core.logical_bytes_max(container).max(1) as f64)
    }

    /// Forgets what is gone, and what has become clearly better.
    fn forget(&self, watch: &mut Watch, catalog: &Catalog) {
        let containers: HashMap<ContainerRid, &Container> =
            catalog.all_containers().map(|container| (container.rid, &**container)).collect();
        watch.large.retain(|(rid, key)| {
            let container = containers.get(rid);
            container
                .and_then(|container| self.share_of_limit(container, key))
                .is_some_and(|share| share >= LARGE_NO_MORE)
        });
        let partitions = containers.values().flat_map(|container| &container.partitions);
        let there: HashSet<PartitionId> = partitions.map(|partition| partition.id).collect();
        watch.partitions.retain(|id, _| there.contains(id));
    }
}

fn alert(
    kind: AlertKind,
    container: &Container,
    partition: &LivePartition,
    key: Option<String>,
    (share, message): (f64, String),
) -> Alert {
    Alert {
        kind,
        database: container.database.name.clone(),
        container: container.definition.name.clone(),
        range_id: partition.range_id,
        key,
        share,
        message,
    }
}

fn name(container: &Container) -> String {
    format!("{}/{}", container.database.name, container.definition.name)
}
