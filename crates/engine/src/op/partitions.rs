//! What is told about a container's physical partitions, and where a key lives.

use partita_model::{Epk, EpkRange, Epoch, PartitionKey, PartitionKeyHeader};

use crate::catalog::{Container, Partition};

/// How far a client knows the ranges of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangesSeen {
    /// It knows those that served in this epoch.
    pub epoch: Epoch,
    /// It knows of the moves whose targets have range ids up to this one; None if moves are no news
    /// before they are done.
    pub announced: Option<u32>,
}

impl RangesSeen {
    /// Has this partition come since, or has its status changed?
    pub fn is_news(&self, container: &Container, partition: &Partition) -> bool {
        let began = partition.since > self.epoch;
        let moves = || {
            let Some(announced) = self.announced else { return false };
            let mut moves = container.moves.iter().filter(|under_way| {
                under_way.targets.iter().any(|target| target.range_id > announced)
            });
            moves.any(|under_way| under_way.sources.contains(&partition.range_id))
        };
        began || moves()
    }
}

/// A container's partitions: what they hold, and which logical partitions stand out.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionReport {
    /// In EPK order.
    pub partitions: Vec<PartitionDescription>,
    /// The largest logical partitions, the largest first.
    pub largest: Vec<LogicalPartition>,
    /// All logical partitions were looked at. If not, there may be larger ones than `largest`.
    pub largest_complete: bool,
    /// The logical partitions that cost most lately, the most expensive first.
    pub hottest: Vec<HotPartition>,
    /// How much a logical partition may hold.
    pub logical_bytes_max: u64,
    /// How much a physical partition may hold before it is split.
    pub bytes_max: u64,
}

/// One physical partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionDescription {
    pub range_id: u32,
    pub epks: EpkRange,
    /// All ancestors by split, oldest first.
    pub parents: Vec<u32>,
    pub figures: PartitionFigures,
    /// The split or merge that it is a source of.
    pub moving: Option<Moving>,
    /// None if they were not counted, or not to the end.
    pub logical_partitions: Option<u64>,
}

/// What a partition holds and does, in numbers that are at hand at any time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionFigures {
    pub items: u64,
    /// Bytes of its items.
    pub bytes: u64,
    /// Its share of the provisioned throughput, in request units per second; None: it has none. One
    /// that nobody asked for is told where partitions are described, and limits nothing.
    pub provisioned_ru: Option<f64>,
    /// Request units used since the process began.
    pub consumed_ru: f64,
    /// Request units per second, over the last minute.
    pub ru_per_second: f64,
    /// Request units of the busiest second of the last minute.
    pub ru_peak: f64,
    /// Requests served since the process began.
    pub requests: u64,
    /// Requests turned away (429) since the process began.
    pub throttled: u64,
}

impl PartitionFigures {
    /// The share of requests that were turned away.
    pub fn throttled_share(&self) -> f64 {
        self.throttled as f64 / (self.requests + self.throttled).max(1) as f64
    }
}

/// A split or merge under way, as one of its sources sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Moving {
    pub kind: MoveKind,
    /// Range ids of the partitions that will stand in its place.
    pub targets: Vec<u32>,
    /// How much of the sources' items is in the targets, from 0 to 1.
    pub copied: f64,
}

/// What becomes of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// One becomes several.
    Split,
    /// Several become one.
    Merge,
}

/// All items with one partition key.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalPartition {
    pub key: PartitionKey,
    pub epk: Epk,
    /// The physical partition that it lives in.
    pub range_id: u32,
    pub items: u64,
    pub bytes: u64,
}

/// A logical partition that costs much.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPartition {
    /// The partition key as a JSON array.
    pub key: String,
    pub epk: Epk,
    /// The physical partition that it lives in.
    pub range_id: u32,
    /// Request units of the last minutes, older ones counted less.
    pub ru: f64,
    /// Its share of what the whole container used in that time.
    pub share: f64,
}

/// A query that was asked lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentQuery {
    pub text: String,
    /// The parameters' names and the types of their values, which are not kept.
    pub parameters: Vec<(String, String)>,
    /// How many components of the partition key the request named beside the text.
    pub key_parts: usize,
    /// How often it was asked, lately.
    pub count: u64,
}

/// Where a partition key leads.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyLocation {
    /// The key as it was asked for.
    pub key: PartitionKeyHeader,
    /// The EPKs that it stands for: one for a full key, many for the beginning of a hierarchical
    /// one.
    pub epks: EpkRange,
    /// The partitions that hold them, in EPK order.
    pub partitions: Vec<(u32, EpkRange)>,
    /// What is stored under a full key; None for the beginning of one.
    pub stored: Option<LogicalPartition>,
}
