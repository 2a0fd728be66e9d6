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
//!
//! The partitions that were asked pay for a page, each for what it did.

use std::sync::Arc;

use partita_model::{EpkRange, Error, ErrorKind, PartitionKey, Result, Usage};
use partita_query::{Facts, PartitionFilter, PlanRequest, Query, plan};

use super::cursor::Unit;
use super::{Area, Job, Queries};
use crate::catalog::{Container, Partition};
use crate::context::{Spent, Work};
use crate::core::Share;
use crate::op::{QueryReport, QueryRequest, Scope, Serving};
use crate::pricing;

/// Ranges that a filter names within one partition and that are asked for one by one. If there are
/// more, the query looks at all from the first to the last.
const RANGES_PER_PARTITION_MAX: usize = 64;

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

impl Job<'_> {
    /// Admits the request to all partitions that it will ask.
    pub(super) fn admit_all(&self, work: &mut Work<'_>, units: &[Unit]) -> Result<()> {
        for unit in units {
            self.queries.core.admit_once(work, self.container.live(unit.partition))?;
        }
        Ok(())
    }

    /// Admits the request to the partitions of as many of these units as possible; how many those
    /// are. It is an error if the first one cannot be asked.
    pub(super) fn admit_first(&self, work: &mut Work<'_>, units: &[Unit]) -> Result<usize> {
        for at in 0..units.len() {
            match self.admit_all(work, units.get(at..=at).unwrap_or_default()) {
                Err(error) if at == 0 => return Err(error),
                Err(_) => return Ok(at),
                Ok(()) => {}
            }
        }
        Ok(units.len())
    }

    /// Charges the partitions. What the page costs in itself is for the first one.
    pub(super) fn charge(&self, work: &Work<'_>, report: &QueryReport) {
        let consistency = self.queries.core.consistency(work.context);
        let mut shares: Vec<Share<'_>> = Vec::new();
        for leaf in &report.leaves {
            let usage = Usage { queries: u64::from(shares.is_empty()), ..leaf.usage() };
            let weight = pricing::charge(&usage, consistency).0;
            let is_same = |share: &&mut Share<'_>| share.partition.range_id == leaf.range_id;
            match shares.iter_mut().find(is_same) {
                Some(share) => share.weight += weight,
                None => {
                    let asked = self.container.live_range(leaf.range_id);
                    shares.extend(asked.map(|live| Share { partition: live, weight }));
                }
            }
        }
        if shares.is_empty() {
            // Nobody had to be asked: it is for the one that the reply names.
            let first = self.first().map(|first| self.container.live_of(first));
            shares.extend(first.map(|live| Share { partition: live, weight: 1.0 }));
        }
        let definition = &self.container.definition.partition_key;
        let is_whole = self.only.len() == definition.paths.len();
        let key = is_whole.then(|| PartitionKey(self.only.clone()));
        let key = key.map(|key| (definition.epk(&key), key));
        let key = key.as_ref().map(|(epk, key)| (epk, key));
        self.queries.core.charge_shares(work, report.charge, &shares, key);
    }

    /// The first partition of the area that the request names.
    pub(super) fn first(&self) -> Option<&Partition> {
        self.container.partitions.iter().find(|partition| partition.epks.overlaps(&self.area))
    }
}

impl Queries {
    /// A query that failed after it had begun costs what was done for it in each partition until
    /// then; what it costs in itself is for the one that was asked first. One that was not admitted
    /// costs nothing.
    pub(super) fn charge_failed(&self, work: &mut Work<'_>, error: &Error) {
        if matches!(error.kind, ErrorKind::Throttled { .. }) {
            work.usage = Usage::default();
            return;
        }
        let Some(container) = &work.container else { return };
        let container = Arc::clone(container);
        let consistency = self.core.consistency(work.context);
        let asked = work.admitted.first();
        let asked = container.serving().find(|live| asked == Some(&live.id));
        let weight = pricing::charge(&work.usage, consistency).0;
        let mut shares: Vec<Share<'_>> =
            asked.map(|live| Share { partition: live, weight }).into_iter().collect();
        let spent = work.tally.as_ref().map(|tally| tally.spent()).unwrap_or_default();
        for Spent { range_id, usage, .. } in &spent {
            work.usage += usage;
            let weight = pricing::charge(usage, consistency).0;
            match shares.iter_mut().find(|share| share.partition.range_id == *range_id) {
                Some(share) => share.weight += weight,
                None => {
                    let asked = container.live_range(*range_id);
                    shares.extend(asked.map(|live| Share { partition: live, weight }));
                }
            }
        }
        if !shares.is_empty() {
            let charge = pricing::charge(&work.usage, consistency);
            self.core.charge_shares(work, charge, &shares, None);
        }
    }
}
