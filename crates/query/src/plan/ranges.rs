//! Which ranges of partition keys a plan asks.
//!
//! A range has two forms. Inside, its ends are partition key values, as the service's planner has
//! them: `["a"]`, `[5]`, `[]` before all keys and `"Infinity"` behind them. Clients get effective
//! partition keys in hexadecimal. One range is always there: a query that can find nothing asks
//! for the empty range before all keys, and gets an empty answer.

use crate::partition_filter::key_set::{End, Interval, KeyPoint};
use crate::partition_filter::listed;
use crate::partition_filter::region::{Region, Regions, extended};
use partita_model::{
    Epk, KeyKind, KeyPart, Object, PartitionKey, PartitionKeyDefinition, PartitionKeyHeader, Value,
};

/// A range of partition keys.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRange {
    /// The lower end as a partition key.
    pub min: Value,
    /// The upper end as a partition key.
    pub max: Value,
    /// The lower end as it routes.
    pub min_epk: Epk,
    /// The upper end as it routes.
    pub max_epk: Epk,
    /// Is the lower end inside?
    pub is_min_inclusive: bool,
    /// Is the upper end inside?
    pub is_max_inclusive: bool,
}

impl PlanRange {
    /// Is it one complete partition key?
    pub fn is_key(&self) -> bool {
        self.is_min_inclusive
            && self.is_max_inclusive
            && self.min_epk == self.max_epk
            && self.min_epk != Epk::min()
    }

    pub(super) fn to_value(&self) -> Value {
        self.object(Value::from(self.min_epk.to_string()), Value::from(self.max_epk.to_string()))
    }

    /// The range with partition keys for its ends.
    pub fn to_key_value(&self) -> Value {
        self.object(self.min.clone(), self.max.clone())
    }

    fn object(&self, min: Value, max: Value) -> Value {
        let range = Object::new()
            .with("min", min)
            .with("max", max)
            .with("isMinInclusive", self.is_min_inclusive)
            .with("isMaxInclusive", self.is_max_inclusive);
        Value::from(range)
    }
}

/// The ranges in the order in which they route.
pub(super) fn ranges(regions: &Regions, key: &PartitionKeyDefinition) -> Vec<PlanRange> {
    let mut ranges = match regions {
        Regions::All => None,
        Regions::These(regions) if regions.is_empty() => Some(Vec::new()),
        Regions::These(regions) => match listed(regions, key) {
            Some(keys) => Some(keys.iter().map(|parts| of_key(parts, key)).collect()),
            None if key.kind == KeyKind::Range => {
                let ranges = regions.iter().map(|region| of_region(region, key));
                ranges.collect::<Option<Vec<_>>>().map(|ranges| ranges.concat())
            }
            None => None,
        },
    }
    .unwrap_or_else(|| vec![everything()]);
    if ranges.is_empty() {
        ranges.push(point(&[], Epk::min()));
    }
    ranges.sort_by(|a, b| (&a.min_epk, &a.max_epk).cmp(&(&b.min_epk, &b.max_epk)));
    ranges.dedup_by(|a, b| a.min_epk == b.min_epk && a.max_epk == b.max_epk);
    ranges
}

fn everything() -> PlanRange {
    PlanRange {
        min: Value::from(Vec::new()),
        max: Value::from("Infinity"),
        min_epk: Epk::min(),
        max_epk: Epk::max(),
        is_min_inclusive: true,
        is_max_inclusive: false,
    }
}

fn point(places: &[KeyPoint], epk: Epk) -> PlanRange {
    let value = key_value(places);
    PlanRange {
        min: value.clone(),
        max: value,
        min_epk: epk.clone(),
        max_epk: epk,
        is_min_inclusive: true,
        is_max_inclusive: true,
    }
}

/// A complete key is a point, the beginning of one a range.
fn of_key(parts: &[KeyPart], key: &PartitionKeyDefinition) -> PlanRange {
    let epk = key.epk(&PartitionKey(parts.to_vec()));
    let point = point(&parts.iter().map(place).collect::<Vec<_>>(), epk);
    if parts.len() == key.paths.len() {
        return point;
    }
    match key.range_of(&PartitionKeyHeader(parts.to_vec())) {
        Ok(range) => PlanRange { max_epk: range.max, is_max_inclusive: false, ..point },
        // A component that is too long is a key without items.
        Err(_) => PlanRange { max_epk: Epk::max(), is_max_inclusive: false, ..point },
    }
}

/// Keys that are kept in order have intervals, one for each way through the components.
fn of_region(region: &Region, key: &PartitionKeyDefinition) -> Option<Vec<PlanRange>> {
    let mut ways: Vec<Vec<&Interval>> = vec![Vec::new()];
    for places in region.iter().map_while(Option::as_ref) {
        ways = extended(&ways, &places.intervals().iter().collect::<Vec<_>>());
        if ways.len() > INTERVALS_MAX {
            return None;
        }
    }
    let known = ways.iter().all(|way| !way.is_empty());
    known.then(|| ways.iter().map(|way| of_intervals(way, key)).collect())
}

/// More intervals than this are not told apart.
const INTERVALS_MAX: usize = 1024;

fn of_intervals(way: &[&Interval], key: &PartitionKeyDefinition) -> PlanRange {
    let lows: Vec<&End> = way.iter().map(|interval| &interval.low).collect();
    let highs: Vec<&End> = way.iter().map(|interval| &interval.high).collect();
    let places = |ends: &[&End]| ends.iter().map(|end| end.place.clone()).collect::<Vec<_>>();
    let (low, high) = (places(&lows), places(&highs));
    PlanRange {
        min: key_value(&low),
        max: key_value(&high),
        min_epk: epk(&low, key),
        max_epk: epk(&high, key),
        is_min_inclusive: lows.iter().all(|end| end.inclusive),
        is_max_inclusive: highs.iter().all(|end| end.inclusive),
    }
}

/// The bytes of a key that may have the end of a type's values in it.
fn epk(places: &[KeyPoint], key: &PartitionKeyDefinition) -> Epk {
    let mut bytes = Vec::new();
    for place in places {
        match place.part() {
            Some(part) => bytes.extend_from_slice(key.epk(&PartitionKey(vec![part])).as_bytes()),
            None => bytes.push(type_end(place)),
        }
    }
    Epk::from_bytes(bytes)
}

/// Type markers of the service's key encoding, between those of the values.
fn type_end(place: &KeyPoint) -> u8 {
    match place {
        KeyPoint::BeforeNumbers => 0x04,
        KeyPoint::BehindNumbers => 0x06,
        _ => 0x09,
    }
}

fn place(part: &KeyPart) -> KeyPoint {
    match part {
        KeyPart::Undefined => KeyPoint::Undefined,
        KeyPart::Null => KeyPoint::Null,
        KeyPart::Bool(value) => KeyPoint::Bool(*value),
        KeyPart::Number(number) => KeyPoint::Number(*number),
        KeyPart::String(text) => KeyPoint::String(text.clone()),
    }
}

fn key_value(places: &[KeyPoint]) -> Value {
    let marker = |name: &str| Value::from(Object::new().with("type", Value::from(name)));
    let value = |place: &KeyPoint| match place {
        KeyPoint::Undefined => Value::from(Object::new()),
        KeyPoint::Null => Value::Null,
        KeyPoint::Bool(value) => Value::from(*value),
        KeyPoint::BeforeNumbers => marker("MinNumber"),
        KeyPoint::Number(number) => Value::from(*number),
        KeyPoint::BehindNumbers => marker("MaxNumber"),
        KeyPoint::String(text) => Value::from(text.as_str()),
        KeyPoint::BehindStrings => marker("MaxString"),
    };
    Value::from(places.iter().map(value).collect::<Vec<Value>>())
}
