//! How far a query has come between two pages.
//!
//! A cursor speaks of EPKs, keys and resource ids, never of partitions: they may be split or moved
//! before the next page. Three kinds cover all queries:
//!
//! - An unordered query goes through the EPKs from low to high ([`Cursor::Spread`]): what lies
//!   before `from` is done, then come stretches that are partly done, and the rest is untouched.
//!   Normally there is one stretch, the partition that the last page stopped in. If that is split,
//!   its parts go on each from the same place, and for a while there are two. (Not if the place is
//!   a key: keys are in the order of EPKs, so it lies in one of the parts, and the others are done
//!   or untouched.)
//! - An ordered query is done up to a place in its order ([`Cursor::Sorted`]), wherever the rows
//!   came from.
//! - DISTINCT, GROUP BY and aggregates are computed anew for each page, and as many rows are passed
//!   over as were delivered ([`Cursor::Counted`]). The result belongs to the EPKs that it was
//!   computed over: after a split the part that holds the first of them goes on for all, the others
//!   have nothing to add. Merged by a client, the sum is the same.

use partita_model::{Epk, EpkRange, Error, ItemRid, Number, Object, Result, Value};
use partita_query::sort_key;

use super::places::{ALL_ROWS, Order, Position, SortPosition};
use crate::catalog::Container;
use crate::keys;

/// What a continuation stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) cursor: Cursor,
    /// Rows on all pages so far: what TOP and LIMIT count.
    pub(super) delivered: u64,
    /// Rows that OFFSET has passed over so far.
    pub(super) skipped: u64,
    /// When the first page was asked for: the time that the query's static functions show.
    pub(super) started_ticks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    Spread { from: Epk, stretches: Vec<Stretch> },
    Sorted(SortPosition),
    Counted { area: EpkRange },
}

/// Some EPKs, from the end of the stretch before, that are done up to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) until: Epk,
    pub(super) position: Position,
}

/// A range of EPKs in one partition that a query has to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Index into the container's partitions.
    pub(super) partition: usize,
    pub(super) range: EpkRange,
    /// The parts of it that have the keys which the filter names; in order.
    pub(super) parts: Vec<EpkRange>,
    /// Does the request ask for all of the partition, so that nothing but the filter narrows it?
    pub(super) is_whole: bool,
    /// Where to go on; None: at the beginning.
    pub(super) start: Option<Position>,
}

impl Unit {
    /// What lies in a range, from a place on. None if that is nothing.
    fn within(&self, range: &EpkRange, start: Option<Position>) -> Option<Unit> {
        let range = self.range.intersect(range)?;
        let parts = self.parts.iter().filter_map(|part| part.intersect(&range)).collect();
        let is_whole = self.is_whole && range == self.range;
        Some(Unit { partition: self.partition, range, parts, is_whole, start })
    }
}

/// The units that are left of a query's units, each with its place.
pub(super) fn remaining(units: Vec<Unit>, from: &Epk, stretches: &[Stretch]) -> Vec<Unit> {
    let mut left = Vec::with_capacity(units.len());
    for unit in units {
        let mut begin = from.clone();
        for stretch in stretches {
            let part = EpkRange { min: begin, max: stretch.until.clone() };
            left.extend(resumed(&unit, &part, &stretch.position));
            begin = stretch.until.clone();
        }
        let untouched = EpkRange { min: begin, max: Epk::max() };
        left.extend(unit.within(&untouched, None));
    }
    left
}

/// What is left of a part of a unit that is done up to a place.
fn resumed(unit: &Unit, part: &EpkRange, position: &Position) -> Option<Unit> {
    let unit = unit.within(part, Some(position.clone()))?;
    let Position::Key { item_key, .. } = position else { return Some(unit) };
    let epk = keys::epk_of_item(item_key)?;
    if epk >= unit.range.max {
        return None;
    }
    let start = unit.start.filter(|_| epk >= unit.range.min);
    Some(Unit { start, ..unit })
}

/// The cursor of a query that stands in the first of these units; None if there are none.
pub(super) fn spread(units: &[Unit], position: Option<Position>) -> Option<Cursor> {
    let (first, rest) = units.split_first()?;
    let from = first.range.min.clone();
    let Some(position) = position else { return Some(Cursor::Spread { from, stretches: vec![] }) };
    let mut stretches = vec![Stretch { until: first.range.max.clone(), position }];
    for unit in rest {
        let Some(position) = &unit.start else { break };
        stretches.push(Stretch { until: unit.range.max.clone(), position: position.clone() });
    }
    Some(Cursor::Spread { from, stretches })
}

/// The place that a resume filter names, with which clients that merge partitions themselves say
/// where an ordered query begins.
///
/// ```text
/// "resumeFilter": {"value": [one per ORDER BY column], "rid": "…"?, "exclude": bool}
/// ```
///
/// The query begins at the rows with these values. Of those, what comes before the resource id (in
/// the order of ties) was delivered already; `exclude` says that the rows with the values, or the
/// rows of the item with the resource id, were delivered as well. A value is a scalar, `[]` for
/// undefined, or the two halves of the hash of an array or object, which sort by it.
pub(super) fn resume_place(
    container: &Container,
    order: &Order,
    columns: usize,
    filter: &Value,
) -> Result<SortPosition> {
    let Value::Object(filter) = filter else { return Err(invalid("it must be an object")) };
    let Some(Value::Array(values)) = filter.get("value") else {
        return Err(invalid("its 'value' must be an array"));
    };
    if values.len() != columns {
        return Err(invalid("its 'value' must have one element per ORDER BY column"));
    }
    let keys = values.iter().map(key).collect::<Result<Vec<_>>>()?;
    let exclude = match filter.get("exclude") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(exclude)) => *exclude,
        Some(_) => return Err(invalid("its 'exclude' must be a boolean")),
    };
    let rid = match filter.get("rid") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(
            ItemRid::parse(text)
                .filter(|rid| rid.container == container.rid)
                .ok_or_else(|| invalid("its 'rid' is no resource id of this container"))?,
        ),
        Some(_) => return Err(invalid("its 'rid' must be a string")),
    };
    Ok(match (rid, exclude) {
        (Some(rid), true) => SortPosition { keys, rid: rid.item, row: ALL_ROWS },
        (Some(rid), false) => SortPosition { keys, rid: rid.item, row: 0 },
        (None, true) => order.behind(keys),
        (None, false) => order.before(keys),
    })
}

/// The sort key of one value.
fn key(value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::Array(elements) if elements.is_empty() => Ok(sort_key(None)),
        Value::Array(_) => Err(invalid("an array in its 'value' must be empty")),
        Value::Object(hashed) => hash_key(hashed),
        scalar => Ok(sort_key(Some(scalar))),
    }
}

/// The sort key of an array or object of which only the hash is known.
fn hash_key(hashed: &Object) -> Result<Vec<u8>> {
    let half = |name| match hashed.get(name) {
        Some(Value::Number(Number::Int(half))) => Ok(half.cast_unsigned()),
        // Halves from 2^63 on do not fit an integer.
        Some(Value::Number(Number::Double(half))) if *half >= 0.0 => Ok(*half as u64),
        _ => Err(invalid("a hash in its 'value' must have the numbers 'low' and 'high'")),
    };
    // The first byte of a sort key is the type.
    let sample = match hashed.get("type").and_then(Value::as_str) {
        Some("array") => sort_key(Some(&Value::Array(Vec::new()))),
        Some("object") => sort_key(Some(&Value::Object(Object::new()))),
        _ => return Err(invalid("a hash in its 'value' must be of type array or object")),
    };
    let mut key: Vec<u8> = sample.into_iter().take(1).collect();
    key.extend_from_slice(&half("high")?.to_be_bytes());
    key.extend_from_slice(&half("low")?.to_be_bytes());
    Ok(key)
}

fn invalid(why: &str) -> Error {
    Error::bad_request(format!("The query's resumeFilter is invalid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: &str, max: &str) -> EpkRange {
        EpkRange::new(Epk::parse_hex(min).unwrap(), Epk::parse_hex(max).unwrap())
    }

    fn unit(partition: usize, min: &str, max: &str, rid: Option<u64>) -> Unit {
        let start = rid.map(|rid| Position::Rid { rid, row: 1 });
        let parts = vec![range(min, max)];
        Unit { partition, range: range(min, max), parts, is_whole: false, start }
    }

    fn go_on(units: Vec<Unit>, cursor: &Cursor) -> Vec<Unit> {
        let Cursor::Spread { from, stretches } = cursor else { panic!("{cursor:?}") };
        remaining(units, from, stretches)
    }

    #[test]
    fn a_query_goes_on_where_it_stopped() {
        let units = vec![unit(0, "", "20", None), unit(1, "20", "FF", None)];
        let cursor = spread(&units, Some(Position::Rid { rid: 7, row: 1 })).unwrap();
        let left = go_on(units, &cursor);
        assert_eq!(left, [unit(0, "", "20", Some(7)), unit(1, "20", "FF", None)]);
        let cursor = spread(&left[1..], None).unwrap();
        assert_eq!(go_on(left, &cursor), [unit(1, "20", "FF", None)]);
    }

    #[test]
    fn a_key_lies_in_one_part_of_a_split_partition() {
        let epk = Epk::parse_hex("15").unwrap();
        let key = partita_model::PartitionKey(vec![partita_model::KeyPart::Null]);
        let item_key = keys::item(&epk, &key, "x");
        let position = Position::Key { item_key, rid: 3, row: 1 };
        let cursor = spread(&[unit(0, "", "FF", None)], Some(position.clone())).unwrap();
        let split =
            vec![unit(0, "", "10", None), unit(1, "10", "20", None), unit(2, "20", "FF", None)];
        let mut expected = [unit(1, "10", "20", None), unit(2, "20", "FF", None)];
        expected[0].start = Some(position);
        assert_eq!(go_on(split, &cursor), expected);
    }

    #[test]
    fn the_parts_of_a_split_partition_go_on_from_the_place_of_the_whole() {
        let before = vec![unit(0, "", "20", None), unit(1, "20", "FF", None)];
        let cursor = spread(&before, Some(Position::Rid { rid: 7, row: 1 })).unwrap();
        let split =
            || vec![unit(0, "", "10", None), unit(1, "10", "20", None), unit(2, "20", "FF", None)];
        let left = go_on(split(), &cursor);
        let expected =
            [unit(0, "", "10", Some(7)), unit(1, "10", "20", Some(7)), unit(2, "20", "FF", None)];
        assert_eq!(left, expected);
        // The first part gets further than the second one.
        let cursor = spread(&left, Some(Position::Rid { rid: 9, row: 1 })).unwrap();
        let expected =
            [unit(0, "", "10", Some(9)), unit(1, "10", "20", Some(7)), unit(2, "20", "FF", None)];
        assert_eq!(go_on(split(), &cursor), expected);
        // Merged again, both parts keep their places.
        let expected =
            [unit(0, "", "10", Some(9)), unit(0, "10", "20", Some(7)), unit(0, "20", "FF", None)];
        assert_eq!(go_on(vec![unit(0, "", "FF", None)], &cursor), expected);
    }
}
