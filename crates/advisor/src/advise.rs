//! What is looked at, in which order, and the ranking of it.
//!
//! All paths alone; then hierarchies of two and three of the most promising, from the broad to the
//! narrow: a component that splits the one before it further. Everything is bounded: paths, items,
//! hierarchies.

use partita_model::{
    HashVersion, KeyKind, KeyPart, KeyWriting, PartitionKeyDefinition, PartitionKeyHeader,
    PropertyPath, limits,
};

use crate::paths::{Column, Items, MISSING, NULL};
use crate::profile::{Profile, Weights, profile};
use crate::queries::{AskedQuery, routing};
use crate::sample::Sample;
use crate::score::{HotKey, Measures, Seen, score};

/// Paths that hierarchies are made of.
const COMPONENTS_MAX: usize = 8;

/// A component of a hierarchy may be missing in this share of the items.
const COMPONENT_MISSING_MAX: f64 = 0.1;

/// Nearly every item has its own value if there are this many values for each item.
const ALONE_VALUES_PER_ITEM: f64 = 0.9;

/// A tail takes the new items if a value has this many of them.
const TAIL_ITEMS_PER_VALUE: f64 = 5.0;

/// Values rise with time if this share of all steps is upward.
const RISING_SHARE: f64 = 0.9;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    pub seen: Seen,
    /// The best first.
    pub candidates: Vec<Candidate>,
}

/// A possible partition key.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As a definition names them, outermost first.
    pub paths: Vec<String>,
    /// 0 to 100.
    pub score: f64,
    /// Is it the key that the container has?
    pub present: bool,
    pub measures: Measures,
    /// In words, the good ones first.
    pub reasons: Vec<String>,
}

/// Ranks what could be the partition key of these items. `present` and `hot` are about the key that
/// the container has, where there is one.
pub fn advise(
    sample: &Sample,
    queries: &[AskedQuery],
    present: Option<&PartitionKeyDefinition>,
    hot: &[HotKey],
) -> Advice {
    let texts = sample.items();
    let items = Items::new(&texts);
    let seen =
        Seen { items: sample.items_seen(), bytes: sample.bytes_seen(), sampled: texts.len() };
    let weights = Weights {
        bytes: items.documents.iter().map(|item| item.text().len() as f64).collect(),
        requests: present.and_then(|key| requests(&items, key, hot)),
        items_seen: seen.items,
    };
    let survey = Survey { items: &items, queries, weights: &weights, seen };
    let present: Vec<PropertyPath> = present.map_or_else(Vec::new, |key| key.paths.clone());
    Advice { seen, candidates: survey.candidates(&present) }
}

/// The definition of a key with these paths.
pub(crate) fn definition(paths: &[PropertyPath]) -> PartitionKeyDefinition {
    let kind = if paths.len() == 1 { KeyKind::Hash } else { KeyKind::MultiHash };
    let version = HashVersion::V2;
    PartitionKeyDefinition {
        paths: paths.to_vec(),
        kind,
        version,
        system_key: false,
        written: KeyWriting::default(),
    }
}

/// The share of requests of each item: what a hot key got is divided among its items in the sample,
/// the rest among all others. None if nothing is known of requests.
fn requests(items: &Items<'_>, key: &PartitionKeyDefinition, hot: &[HotKey]) -> Option<Vec<f64>> {
    if hot.is_empty() || items.documents.is_empty() {
        return None;
    }
    let keys: Vec<_> = items.documents.iter().map(|item| key.extract(*item)).collect();
    let mut shares: Vec<Option<f64>> = vec![None; keys.len()];
    let mut rest = 1.0_f64;
    for hot in hot {
        let of_key: Vec<usize> = (0..keys.len())
            .filter(|at| keys.get(*at).is_some_and(|key| key.0 == hot.parts))
            .collect();
        rest -= hot.share;
        for at in &of_key {
            if let Some(share) = shares.get_mut(*at) {
                *share = Some(hot.share / of_key.len() as f64);
            }
        }
    }
    let others = shares.iter().filter(|share| share.is_none()).count().max(1) as f64;
    Some(shares.into_iter().map(|share| share.unwrap_or(rest.max(0.0) / others)).collect())
}

struct Survey<'a> {
    items: &'a Items<'a>,
    queries: &'a [AskedQuery],
    weights: &'a Weights,
    seen: Seen,
}

impl Survey<'_> {
    fn candidates(&self, present: &[PropertyPath]) -> Vec<Candidate> {
        if self.items.documents.is_empty() {
            return Vec::new();
        }
        let mut columns = self.items.columns();
        for path in present {
            if !columns.iter().any(|column| column.path.segments() == path.segments()) {
                columns.push(self.items.column(path.clone()));
            }
        }
        let is_present = |key: &[&Column]| {
            key.len() == present.len()
                && key.iter().zip(present).all(|(a, b)| a.path.segments() == b.segments())
        };
        let mut all: Vec<Candidate> = Vec::new();
        for column in &columns {
            all.push(self.candidate(&[column], is_present(&[column])));
        }
        let mut keys = hierarchies(&self.components(&columns, &all));
        let own: Vec<&Column> = present
            .iter()
            .filter_map(|path| columns.iter().find(|c| c.path.segments() == path.segments()))
            .collect();
        if own.len() > 1 && !keys.iter().any(|key| is_present(key)) {
            keys.push(own);
        }
        all.extend(keys.iter().map(|key| self.candidate(key, is_present(key))));
        all.sort_by(|a, b| {
            let fewer = a.paths.len().cmp(&b.paths.len());
            b.score.total_cmp(&a.score).then(fewer).then_with(|| a.paths.cmp(&b.paths))
        });
        all
    }

    /// The paths that hierarchies are made of, from the broad to the narrow.
    fn components<'c>(
        &self,
        columns: &'c [Column],
        singles: &[Candidate],
    ) -> Vec<(usize, &'c Column)> {
        let mut useful: Vec<(&Candidate, &Column)> = singles
            .iter()
            .zip(columns)
            .filter(|(candidate, _)| {
                let measures = &candidate.measures;
                measures.distinct > 1
                    && measures.missing_share <= COMPONENT_MISSING_MAX
                    && !(measures.time || measures.tail || measures.text)
                    && !(measures.fractions || measures.too_long)
            })
            .collect();
        useful.sort_by(|(a, one), (b, two)| {
            let by_score = b.score.total_cmp(&a.score);
            by_score.then_with(|| one.path.text().cmp(two.path.text()))
        });
        useful.truncate(COMPONENTS_MAX);
        let mut components: Vec<(usize, &Column)> = useful
            .into_iter()
            .map(|(candidate, column)| (candidate.measures.distinct, column))
            .collect();
        components.sort_by(|(a, one), (b, two)| {
            a.cmp(b).then_with(|| one.path.text().cmp(two.path.text()))
        });
        components
    }

    fn candidate(&self, key: &[&Column], present: bool) -> Candidate {
        let found = profile(key, self.weights);
        let paths: Vec<PropertyPath> = key.iter().map(|column| column.path.clone()).collect();
        let measures = self.measures(key, &paths, found);
        let (score, reasons) = score(&measures, key.len(), self.seen);
        let paths = paths.iter().map(|path| path.text().to_owned()).collect();
        Candidate { paths, score, present, measures, reasons }
    }

    fn measures(&self, key: &[&Column], paths: &[PropertyPath], found: Profile) -> Measures {
        let items = self.items.documents.len().max(1) as f64;
        let per_value = items / found.distinct.max(1) as f64;
        let rising = |column: &&Column| {
            column.pairs > 10 && column.rises as f64 >= RISING_SHARE * column.pairs as f64
        };
        let mostly = |count: usize| count as f64 > items / 2.0;
        let types = key.last().map_or([0.0; 3], |column| column.kinds.map(|n| n as f64 / items));
        Measures {
            distinct: found.distinct,
            distinct_estimated: found.distinct_estimated,
            largest_share: found.largest_share,
            largest_value: self.value_of(found.largest_item, paths),
            hottest_share: found.hottest_share,
            missing_share: found.missing_share,
            types,
            routing: routing(self.queries, &definition(paths)),
            alone: found.distinct as f64 >= ALONE_VALUES_PER_ITEM * items,
            time: key.iter().any(|column| mostly(column.times)),
            tail: per_value >= TAIL_ITEMS_PER_VALUE && key.iter().all(rising),
            text: key.iter().any(|column| mostly(column.texts)),
            unasked: self.unasked(paths),
            fractions: key.iter().any(|column| mostly(column.fractions)),
            too_long: key.iter().any(|column| column.length_max > limits::PARTITION_KEY_BYTES_MAX),
        }
    }

    /// The paths of a hierarchy that no query says anything about, where queries are known.
    fn unasked(&self, paths: &[PropertyPath]) -> Vec<String> {
        if paths.len() < 2 {
            return Vec::new();
        }
        let is_unasked = |path: &&PropertyPath| {
            let alone = routing(self.queries, &definition(&[(*path).clone()]));
            alone.is_some_and(|routing| routing.single + routing.few == 0.0)
        };
        paths.iter().filter(is_unasked).map(|path| path.text().to_owned()).collect()
    }

    /// An item's key as JSON.
    fn value_of(&self, item: usize, paths: &[PropertyPath]) -> String {
        let part = |path| self.items.value(item, path).map_or(KeyPart::Undefined, KeyPart::from);
        PartitionKeyHeader(paths.iter().map(part).collect()).to_header_json()
    }
}

/// All pairs and triples in which every component divides what the ones before it leave together.
fn hierarchies<'c>(components: &[(usize, &'c Column)]) -> Vec<Vec<&'c Column>> {
    let mut keys = Vec::new();
    for (at, (few, broad)) in components.iter().enumerate() {
        let narrower = components.get(at + 1..).unwrap_or_default();
        for (next, (more, middle)) in narrower.iter().enumerate() {
            if few == more || !divides(broad, middle) {
                continue;
            }
            keys.push(vec![*broad, *middle]);
            for (most, narrow) in narrower.get(next + 1..).unwrap_or_default() {
                if more != most && divides(middle, narrow) {
                    keys.push(vec![*broad, *middle, *narrow]);
                }
            }
        }
    }
    keys
}

/// Do items that share a value of the one differ in the other?
fn divides(broad: &Column, narrow: &Column) -> bool {
    let mut first = std::collections::HashMap::new();
    let is_there = |value: &u64| *value != MISSING && *value != NULL;
    broad
        .values
        .iter()
        .zip(&narrow.values)
        .filter(|(value, _)| is_there(value))
        .any(|(value, inner)| *first.entry(*value).or_insert(*inner) != *inner)
}
