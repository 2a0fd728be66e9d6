//! What `/metrics` tells of each partition: the engine's numbers in the gateway's words.

use partita_engine::{Database, MoveKind, PartitionMetrics};
use partita_gateway::{Sample, Series, SeriesKind};

/// A metric of partitions: name, help, kind, and how to read it.
type Column = (&'static str, &'static str, SeriesKind, fn(&PartitionMetrics) -> Option<f64>);

const COLUMNS: [Column; 8] = [
    ("partition_storage_bytes", "Bytes of the partition's items", SeriesKind::Gauge, |found| {
        Some(found.figures.bytes as f64)
    }),
    ("partition_items", "Items in the partition", SeriesKind::Gauge, |found| {
        Some(found.figures.items as f64)
    }),
    (
        "partition_throughput_provisioned",
        "Request units per second that the partition may use; absent: unlimited",
        SeriesKind::Gauge,
        |found| found.figures.provisioned_ru,
    ),
    ("partition_request_units", "Request units used", SeriesKind::Counter, |found| {
        Some(found.figures.consumed_ru)
    }),
    ("partition_requests", "Requests served", SeriesKind::Counter, |found| {
        Some(found.figures.requests as f64)
    }),
    ("partition_throttled", "Requests turned away (429)", SeriesKind::Counter, |found| {
        Some(found.figures.throttled as f64)
    }),
    ("partition_split_state", "0 online, 1 splitting, 2 merging", SeriesKind::Gauge, |found| {
        Some(found.moving.as_ref().map_or(0.0, |moving| match moving.kind {
            MoveKind::Split => 1.0,
            MoveKind::Merge => 2.0,
        }))
    }),
    (
        "partition_split_copied_ratio",
        "Items that the split or merge under way has copied, of all",
        SeriesKind::Gauge,
        |found| found.moving.as_ref().map(|moving| moving.copied),
    ),
];

/// One sample for each partition of each container, labelled with their names and its range id.
pub(crate) fn of_partitions(database: &Database) -> Vec<Series> {
    let partitions = database.partition_metrics();
    let series = |&(name, help, kind, read): &Column| {
        let sample = |found: &PartitionMetrics| {
            let labels = vec![
                ("database", found.database.clone()),
                ("container", found.container.clone()),
                ("range", found.range_id.to_string()),
            ];
            Some(Sample { labels, value: read(found)? })
        };
        Series { name, help, kind, samples: partitions.iter().filter_map(sample).collect() }
    };
    COLUMNS.iter().map(series).collect()
}
