//! Which partitions a query has to ask, and whether the server may answer it whole.
//!
//! A request names a part of the container: a partition key, a range, all of it. The filter of the
//! query may name partition keys as well, and what it excludes need not be asked. What is left is
//! cut along the partitions into units of work, one for each, in EPK order.
//!
//! The service answers a query whole when the request names a part of the container that lies in
//! one partition, and rows of several partitions one partition after the other. It does not merge:
//! an ORDER BY, an aggregate and the like over several partitions, or over a whole container,
//! however many it has, go back to the client with a plan of how to merge what the single
//! partitions answer. It decides by what the request names. Only where the request names nothing
//! and the filter pins one partition key it answers as well, for clients that cannot merge; but an
//! aggregate other than COUNT stays with the client, as some clients make another result of it.

use partita_model::{EpkRange, Error, KeyPart, PartitionKeyHeader, Result};
use partita_query::{Facts, PartitionFilter, PlanRequest, Query, plan};

use super::cursor::Unit;
use crate::catalog::Container;
use crate::item::scope_epks;
use crate::op::{QueryRequest, Scope, Serving};

/// Ranges that a filter names within one partition and that are asked for one by one. If there are
/// more, the query looks at all from the first to the last.
const RANGES_PER_PARTITION_MAX: usize = 64;

/// The part of a container that a query is about.
pub(crate) struct Area {
    pub(crate) range: EpkRange,
    /// The partition key, or the beginning of one, that all items must have.
    pub(crate) only: Vec<KeyPart>,
}

/// The part that the request names.
pub(crate) fn area(container: &Container, scope: &Scope) -> Result<Area> {
    let Scope::PartitionKey(header) = scope else {
        return Ok(Area { range: scope_epks(container, scope)?, only: Vec::new() });
    };
    let definition = &container.definition.partition_key;
    // Clients without partition keys name the key of containers without one like this.
    let only = match header.0.as_slice() {
        [] if definition.system_key => vec![KeyPart::Undefined],
        parts => parts.to_vec(),
    };
    Ok(Area { range: definition.range_of(&PartitionKeyHeader(only.clone()))?, only })
}

/// The units of work of a query over an area.
pub(super) fn units(
    container: &Container,
    asked: &EpkRange,
    filter: &PartitionFilter,
) -> Vec<Unit> {
    let mut units = Vec::new();
    for (partition, known) in container.partitions.iter().enumerate() {
        let Some(part) = known.epks.intersect(asked) else { continue };
        let is_whole = part == known.epks;
        let ranges = match filter {
            PartitionFilter::All => vec![part],
            PartitionFilter::Nothing => Vec::new(),
            PartitionFilter::Keys(keys) => {
                coalesced(keys.iter().filter_map(|key| key.range.intersect(&part)).collect())
            }
        };
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { continue };
        let range = EpkRange { min: first.min.clone(), max: last.max.clone() };
        units.push(Unit { partition, range, parts: ranges, is_whole, start: None });
    }
    units
}

/// Ranges in order; those that touch become one, and too many become one.
fn coalesced(ranges: Vec<EpkRange>) -> Vec<EpkRange> {
    let mut joined: Vec<EpkRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.min <= last.max => last.max = range.max.max(last.max.clone()),
            Some(_) | None => joined.push(range),
        }
    }
    match (joined.first(), joined.last()) {
        (Some(first), Some(last)) if joined.len() > RANGES_PER_PARTITION_MAX => {
            vec![EpkRange { min: first.min.clone(), max: last.max.clone() }]
        }
        _ => joined,
    }
}

/// Refuses what the request does not allow, or what the service would not answer.
pub(super) fn check(
    container: &Container,
    request: &QueryRequest,
    query: &Query,
    area: &Area,
    filter: &PartitionFilter,
) -> Result<()> {
    let facts = query.facts();
    if !facts.has_from {
        return Ok(());
    }
    let definition = &container.definition.partition_key;
    let whole = match &request.scope {
        Scope::All => true,
        Scope::PartitionKey(header) => header.0.is_empty() && !definition.system_key,
        Scope::Range { .. } | Scope::Epks(_) => false,
    };
    let pinned = is_pinned(filter, definition.paths.len());
    if whole && !request.cross_partition && !definition.system_key && !pinned {
        return Err(Error::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        ));
    }
    let partitions = container.partitions.iter().filter(|p| p.epks.overlaps(&area.range)).count();
    // Clients without partition keys know no plans.
    let is_one = partitions <= 1 && (!whole || definition.system_key)
        || pinned && request.scope == Scope::All && (!facts.is_grouped || facts.only_counts);
    if request.serving == Serving::Global || is_one || !must_merge(facts) {
        return Ok(());
    }
    let plan = plan(&PlanRequest {
        text: &request.text,
        parameters: &request.parameters,
        partition_key: definition,
        features: None,
        has_logical_partition_key: false,
        vector: container.definition.vector_embeddings.as_ref(),
        geospatial: container.definition.geospatial,
    })?;
    Err(Error::not_served_directly(plan.to_value().to_json()))
}

/// Does the filter leave the items of one partition key?
fn is_pinned(filter: &PartitionFilter, paths: usize) -> bool {
    match filter {
        PartitionFilter::Keys(keys) => {
            matches!(keys.as_slice(), [key] if key.parts.len() == paths)
        }
        PartitionFilter::All | PartitionFilter::Nothing => false,
    }
}

/// Is the result over several partitions more than their results one after the other?
fn must_merge(facts: &Facts) -> bool {
    facts.is_grouped
        || facts.distinct
        || facts.ordered
        || facts.top.is_some()
        || facts.offset_limit.is_some()
}
