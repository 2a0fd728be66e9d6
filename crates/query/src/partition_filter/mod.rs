//! Which partition keys a query can find anything under.
//!
//! The WHERE clause of a query often names the partition key: `c.pk = 'x'`, `c.tenant IN (…)`. Then
//! only those logical partitions need to be asked. The answer is a superset: an item that the query
//! finds always has one of the keys, an item with one of the keys need not be found.
//!
//! `condition` reads the clause, `place` and `region` calculate with sets of keys. Query plans
//! print the same sets as ranges.

pub(crate) mod condition;
pub(crate) mod key_set;
pub(crate) mod region;

use crate::ir::Query;
use condition::regions;
use key_set::{Interval, KeySet};
use partita_model::{EpkRange, KeyKind, KeyPart, PartitionKeyDefinition, PartitionKeyHeader};
use region::{Region, Regions, extended};

/// More keys than this are not listed one by one: a shorter prefix, or everything, is.
const KEYS_MAX: usize = 32_768;

/// Where a query has to look.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionFilter {
    /// Everywhere.
    All,
    /// Nowhere: nothing can match.
    Nothing,
    /// Under these keys, in the order of their ranges, none inside another.
    Keys(Vec<KeyFilter>),
}

/// A partition key, or the beginning of a hierarchical one.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFilter {
    /// The components that are known.
    pub parts: Vec<KeyPart>,
    /// Where they lead. Other keys may lead there too: see [`partita_model::Epk`].
    pub range: EpkRange,
}

/// Where the query has to look among items whose key is so defined.
pub(crate) fn partition_filter(query: &Query, key: &PartitionKeyDefinition) -> PartitionFilter {
    match query.sources.as_slice() {
        [] => PartitionFilter::All,
        _ => filter(&regions(query.filter.as_ref(), key), key),
    }
}

fn filter(regions: &Regions, key: &PartitionKeyDefinition) -> PartitionFilter {
    let Regions::These(regions) = regions else { return PartitionFilter::All };
    if regions.is_empty() {
        return PartitionFilter::Nothing;
    }
    let Some(keys) = listed(regions, key) else { return PartitionFilter::All };
    let mut filters: Vec<KeyFilter> = keys
        .into_iter()
        .flat_map(with_both_zeros)
        // A key that is too long for an item is a key without items.
        .filter_map(|parts| {
            let range = key.range_of(&PartitionKeyHeader(parts.clone())).ok()?;
            Some(KeyFilter { parts, range })
        })
        .collect();
    filters.sort_by(|a, b| {
        let lengths = a.parts.len().cmp(&b.parts.len());
        a.range.min.cmp(&b.range.min).then(lengths)
    });
    without_repeats(&mut filters);
    if filters.is_empty() { PartitionFilter::Nothing } else { PartitionFilter::Keys(filters) }
}

/// The keys in all regions, unless there are too many, or some region says too little.
pub(crate) fn listed(
    regions: &[Region],
    key: &PartitionKeyDefinition,
) -> Option<Vec<Vec<KeyPart>>> {
    let mut keys = Vec::new();
    for region in regions {
        let room = KEYS_MAX.saturating_sub(keys.len());
        keys.extend(keys_of(region, key, room)?);
    }
    Some(keys)
}

/// The keys in one region: the longest beginnings of which there are not too many.
fn keys_of(
    region: &Region,
    key: &PartitionKeyDefinition,
    room: usize,
) -> Option<Vec<Vec<KeyPart>>> {
    let known: Vec<Vec<KeyPart>> =
        region.iter().map_while(|places| parts(places.as_ref()?)).collect();
    let mut keys: Vec<Vec<KeyPart>> = vec![Vec::new()];
    let mut length = 0;
    for choices in &known {
        if keys.len().saturating_mul(choices.len()) > room {
            break;
        }
        keys = extended(&keys, choices);
        length += 1;
    }
    let enough = match key.kind {
        KeyKind::MultiHash => length > 0,
        KeyKind::Hash | KeyKind::Range => length > 0 && length == key.paths.len(),
    };
    enough.then_some(keys)
}

/// The places as values, if they are all single values.
fn parts(places: &KeySet) -> Option<Vec<KeyPart>> {
    let part = |interval: &Interval| interval.low.place.part().filter(|_| interval.is_point());
    places.intervals().iter().map(part).collect()
}

/// Zero and minus zero are equal, but as keys they lead to different places.
fn with_both_zeros(parts: Vec<KeyPart>) -> Vec<Vec<KeyPart>> {
    let mut keys = vec![Vec::with_capacity(parts.len())];
    for part in parts {
        if part == KeyPart::Number(0.0) {
            let negative = keys.clone().into_iter().map(|mut key: Vec<KeyPart>| {
                key.push(KeyPart::Number(-0.0));
                key
            });
            let negative: Vec<Vec<KeyPart>> = negative.collect();
            keys.iter_mut().for_each(|key| key.push(KeyPart::Number(0.0)));
            keys.extend(negative);
        } else {
            keys.iter_mut().for_each(|key| key.push(part.clone()));
        }
    }
    keys
}

/// Drops keys that are named twice or lie under a beginning that is named too.
fn without_repeats(filters: &mut Vec<KeyFilter>) {
    let mut kept: Vec<KeyFilter> = Vec::with_capacity(filters.len());
    for filter in filters.drain(..) {
        // Keys that share a range are neighbours, and few: only a weak hash has any.
        let covers = |other: &&KeyFilter| other.range.contains(&filter.range.min);
        let mut near = kept.iter().rev().take_while(covers);
        if !near.any(|other| filter.parts.starts_with(&other.parts)) {
            kept.push(filter);
        }
    }
    *filters = kept;
}

#[cfg(test)]
mod tests;
