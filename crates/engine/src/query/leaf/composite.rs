//! Composite indexes: which one has an order, and which part of one a filter needs.
//!
//! An entry has the values of several paths side by side. If a filter requires one value of each of
//! the leading columns, their entries are a range, and within it the next column is in order: one
//! more interval narrows it further.

use std::ops::Bound;

use partita_model::{CompositeIndex, IndexStep};
use partita_query::OrderFact;
use partita_query::access::{Access, Condition, Interval, Test};
use partita_storage::KeyRange;

use crate::index::{self, ServedPolicy};
use crate::keys;
use crate::op::IndexUse;

/// A composite index with the columns of an order, all in its direction or all against it.
pub(super) fn composite_for<'a>(
    served: &ServedPolicy<'a>,
    order: &[OrderFact],
    paths: &[&[IndexStep]],
) -> Option<&'a CompositeIndex> {
    served.composites().find(|index| {
        let same_paths = index.paths.len() == paths.len()
            && index.paths.iter().zip(paths).all(|(column, path)| column.path.steps() == *path);
        let mut turned = index
            .paths
            .iter()
            .zip(order)
            .map(|(column, wanted)| column.descending != wanted.descending);
        let first = turned.next().unwrap_or(false);
        same_paths && turned.all(|turned| turned == first)
    })
}

pub(super) fn composite_use(index: &CompositeIndex) -> IndexUse {
    let column = |column: &partita_model::CompositePath| {
        let direction = if column.descending { "DESC" } else { "ASC" };
        format!("{} {direction}", column.text)
    };
    let paths = index.paths.iter().map(column).collect();
    IndexUse { paths, composite: true, precise: true }
}

/// What a filter requires of the scalar at a path.
pub(super) fn values_at<'q>(access: &'q Access, path: &[IndexStep]) -> Option<&'q [Interval]> {
    condition_at(access, path).map(|(_, intervals)| intervals)
}

fn condition_at<'q>(
    access: &'q Access,
    path: &[IndexStep],
) -> Option<(&'q Condition, &'q [Interval])> {
    match access {
        Access::Condition(condition) if condition.path == path => match &condition.test {
            Test::Values(intervals) => Some((condition, intervals)),
            Test::Each(_) | Test::Kinds(_) => None,
        },
        Access::And(parts) => parts.iter().find_map(|part| condition_at(part, path)),
        _ => None,
    }
}

/// The part of a composite index in which a filter can be true.
pub(super) struct Part<'q> {
    pub(super) range: KeyRange,
    /// The conditions that every entry of the range fulfils, or may fulfil.
    pub(super) conditions: Vec<&'q Condition>,
    /// Do the entries fulfil them for sure?
    pub(super) exact: bool,
}

impl<'q> Part<'q> {
    /// Leading columns that have to have one value, then one that lies in an interval.
    pub(super) fn of(index: &CompositeIndex, access: &'q Access) -> Part<'q> {
        let mut prefix = keys::composite_prefix(index::composite_id(index));
        let mut conditions = Vec::new();
        for column in &index.paths {
            let Some((condition, intervals)) = condition_at(access, column.path.steps()) else {
                break;
            };
            let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { break };
            conditions.push(condition);
            match first.as_point() {
                // A long value may be cut in the entries: what follows it is in no order then.
                Some(point)
                    if intervals.len() == 1 && point.len() < index::COLUMN_STRING_BYTES_MAX =>
                {
                    index::put_column(&mut prefix, point, column.descending);
                }
                _ => {
                    let low = first.low.as_ref().map(Vec::as_slice);
                    let high = last.high.as_ref().map(Vec::as_slice);
                    let range = keys::composite_range(&prefix, low, high, column.descending);
                    return Part { range, conditions, exact: false };
                }
            }
        }
        let range = keys::composite_range(&prefix, Bound::Unbounded, Bound::Unbounded, false);
        let exact = conditions.iter().all(|condition| condition.exact);
        Part { range, conditions, exact }
    }
}
