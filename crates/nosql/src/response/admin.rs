//! The answers of the admin API, as JSON.

use partita_engine::{
    Container, HotPartition, KeyLocation, LogicalPartition, MoveKind, PartitionDescription,
    PartitionFigures, PartitionReport, RecentQuery,
};
use partita_model::{Object, Value};

/// A description of a container's partitions.
pub(super) fn partitions(report: &PartitionReport, container: Option<&Container>) -> String {
    let limits = Object::new()
        .with("partitionStorageBytes", number(report.bytes_max))
        .with("logicalPartitionStorageBytes", number(report.logical_bytes_max));
    let logical = |found: &LogicalPartition| logical(found, report.logical_bytes_max);
    let body = about(container)
        .with("partitions", report.partitions.iter().map(partition).collect::<Vec<_>>())
        .with("largest", report.largest.iter().map(logical).collect::<Vec<_>>())
        .with("largestComplete", report.largest_complete)
        .with("hottest", report.hottest.iter().map(hot).collect::<Vec<_>>())
        .with("limits", limits);
    Value::from(body).to_json()
}

/// Where a key lives.
pub(super) fn location(location: &KeyLocation, container: Option<&Container>) -> String {
    let homes = location.partitions.iter().map(|(id, epks)| {
        Value::from(
            Object::new()
                .with("id", id.to_string())
                .with("minInclusive", epks.min.to_string())
                .with("maxExclusive", epks.max.to_string()),
        )
    });
    let described = about(container)
        .with("key", key(&location.key.to_header_json()))
        .with("epk", location.epks.min.to_string())
        .with("minInclusive", location.epks.min.to_string())
        .with("maxExclusive", location.epks.max.to_string())
        .with("partitions", homes.collect::<Vec<_>>());
    let body = match &location.stored {
        None => described,
        Some(stored) => {
            described.with("items", number(stored.items)).with("storageBytes", number(stored.bytes))
        }
    };
    Value::from(body).to_json()
}

/// A split or merge that begins.
pub(super) fn planned(parents: &[u32], children: &[u32]) -> String {
    let body = Object::new().with("parents", ids(parents)).with("children", ids(children));
    Value::from(body).to_json()
}

/// Queries that were asked lately.
pub(super) fn queries(queries: &[RecentQuery], container: Option<&Container>) -> String {
    let query = |found: &RecentQuery| {
        let parameters = found.parameters.iter().map(|(name, kind)| {
            Value::from(Object::new().with("name", name.as_str()).with("type", kind.as_str()))
        });
        Value::from(
            Object::new()
                .with("query", found.text.as_str())
                .with("parameters", parameters.collect::<Vec<_>>())
                .with("keyParts", number(found.key_parts as u64))
                .with("count", number(found.count)),
        )
    };
    let body = about(container).with("queries", queries.iter().map(query).collect::<Vec<_>>());
    Value::from(body).to_json()
}

/// An operation on a container always tells which; the type does not know it.
fn about(container: Option<&Container>) -> Object {
    let Some(container) = container else { return Object::new() };
    Object::new()
        .with("database", container.database.name.as_str())
        .with("container", container.definition.name.as_str())
        .with("partitionKey", container.definition.partition_key.to_value())
}

fn partition(found: &PartitionDescription) -> Value {
    let (status, moving) = match &found.moving {
        None => ("online", Value::Null),
        Some(moving) => {
            let status = match moving.kind {
                MoveKind::Split => "splitting",
                MoveKind::Merge => "merging",
            };
            let into = Object::new().with("into", ids(&moving.targets));
            (status, Value::from(into.with("copied", moving.copied)))
        }
    };
    Object::new()
        .with("id", found.range_id.to_string())
        .with("minInclusive", found.epks.min.to_string())
        .with("maxExclusive", found.epks.max.to_string())
        .with("parents", ids(&found.parents))
        .with("status", status)
        .with("move", moving)
        .with("items", number(found.figures.items))
        .with("storageBytes", number(found.figures.bytes))
        .with("throughput", throughput(&found.figures))
        .with("logicalPartitions", found.logical_partitions.map_or(Value::Null, number))
        .into()
}

fn throughput(figures: &PartitionFigures) -> Value {
    Object::new()
        .with("provisioned", figures.provisioned_ru.map_or(Value::Null, Value::from))
        .with("perSecond", figures.ru_per_second)
        .with("peakSecond", figures.ru_peak)
        .with("consumed", figures.consumed_ru)
        .with("requests", number(figures.requests))
        .with("throttled", number(figures.throttled))
        .with("throttledShare", figures.throttled_share())
        .into()
}

fn hot(found: &HotPartition) -> Value {
    Object::new()
        .with("key", key(&found.key))
        .with("epk", found.epk.to_string())
        .with("partition", found.range_id.to_string())
        .with("requestUnits", found.ru)
        .with("shareOfContainer", found.share)
        .into()
}

fn logical(found: &LogicalPartition, bytes_max: u64) -> Value {
    Object::new()
        .with("key", key(&found.key.to_header_json()))
        .with("epk", found.epk.to_string())
        .with("partition", found.range_id.to_string())
        .with("items", number(found.items))
        .with("storageBytes", number(found.bytes))
        .with("shareOfLimit", found.bytes as f64 / bytes_max.max(1) as f64)
        .into()
}

fn ids(ids: &[u32]) -> Vec<Value> {
    ids.iter().map(|id| Value::from(id.to_string())).collect()
}

/// A partition key, which prints itself as JSON.
fn key(json: &str) -> Value {
    Value::parse(json.as_bytes()).unwrap_or(Value::Null)
}

fn number(value: u64) -> Value {
    Value::from(i64::try_from(value).unwrap_or(i64::MAX))
}
