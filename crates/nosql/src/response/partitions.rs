//! What this wire tells about a container beside its definition: its partition key ranges, the
//! sizes of its partitions, and what it may hold.

use partita_engine::{Container, Move, Partition, PartitionStatistics, RangesSeen};
use partita_model::{Object, RangeRid, Value};

/// What a container may hold, sizes in KB: the most of one item, and no limit on the whole that a
/// client could run into (logical partitions and the disk have theirs).
pub(super) const QUOTA: &str =
    "documentSize=2048;documentsSize=1073741824;documentsCount=-1;collectionSize=1073741824;";

/// The ranges in EPK order, or those that are news: a client that puts the pages of the
/// feed together must not get one twice. Each has an equal share of the throughput.
pub(super) fn ranges(container: &Container, since: Option<RangesSeen>, etag: &str) -> Vec<Value> {
    let share = 1.0 / container.partitions.len().max(1) as f64;
    let stamps = Stamps { etag, ts: container.ts, share };
    let is_news =
        |partition: &&Partition| since.is_none_or(|since| since.is_news(container, partition));
    let news = container.partitions.iter().filter(is_news);
    news.map(|partition| range(container, partition, &stamps)).collect()
}

struct Stamps<'a> {
    etag: &'a str,
    ts: u64,
    share: f64,
}

fn range(owner: &Container, partition: &Partition, stamps: &Stamps<'_>) -> Value {
    let container = owner.rid;
    let moves = |under_way: &Move| under_way.sources.contains(&partition.range_id);
    let status = if owner.moves.iter().any(moves) { "splitting" } else { "online" };
    let rid = RangeRid { container, range: u64::from(partition.range_id) };
    let parents: Vec<Value> =
        partition.parents.iter().map(|parent| Value::from(parent.to_string())).collect();
    Object::new()
        .with("_rid", rid.to_string())
        .with("id", partition.range_id.to_string())
        .with("_etag", stamps.etag)
        .with("minInclusive", partition.epks.min.to_string())
        .with("maxExclusive", partition.epks.max.to_string())
        .with("ridPrefix", partition.range_id)
        .with("_self", format!("dbs/{}/colls/{container}/pkranges/{rid}/", container.database))
        .with("throughputFraction", stamps.share)
        .with("status", status)
        .with("parents", parents)
        .with("ownedArchivalPKRangeIds", Vec::new())
        .with("_ts", number(stamps.ts))
        .into()
}

/// Sizes per partition, for `x-ms-documentdb-populatepartitionstatistics`.
pub(super) fn statistics(partitions: &[PartitionStatistics]) -> Vec<Value> {
    let row = |partition: &PartitionStatistics| {
        Value::from(
            Object::new()
                .with("id", partition.range_id.to_string())
                .with("sizeInKB", number(kilobytes(partition.bytes)))
                .with("documentCount", number(partition.items))
                .with("sampledDistinctPartitionKeyCount", 0i64)
                .with("partitionKeys", Vec::new()),
        )
    };
    partitions.iter().map(row).collect()
}

/// What the container holds, in the form of [`QUOTA`].
pub(super) fn usage(partitions: &[PartitionStatistics]) -> String {
    let bytes: u64 = partitions.iter().map(|partition| partition.bytes).sum();
    let items: u64 = partitions.iter().map(|partition| partition.items).sum();
    let size = kilobytes(bytes);
    format!("documentSize=0;documentsSize={size};documentsCount={items};collectionSize={size};")
}

fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

fn number(value: u64) -> Value {
    Value::from(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_the_partitions() {
        let partition = |range_id, items, bytes| PartitionStatistics { range_id, items, bytes };
        assert_eq!(
            usage(&[partition(0, 2, 1024), partition(1, 3, 1)]),
            "documentSize=0;documentsSize=2;documentsCount=5;collectionSize=2;"
        );
        let rows = statistics(&[partition(4, 2, 1025)]);
        assert_eq!(rows[0].get("id").and_then(Value::as_str), Some("4"));
        assert_eq!(rows[0].get("sizeInKB").and_then(Value::as_i64), Some(2));
    }
}
