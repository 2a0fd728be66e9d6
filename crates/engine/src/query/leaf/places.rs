//! The first places of an order, without a look at the items.
//!
//! Of the first rows of a partition many are not among the first of all partitions. Where an index
//! has the order and answers the filter, its entries tell all that is needed to see which are: the
//! sort key and the resource id. So partitions are asked for places first, and only for the rows of
//! those that are left when the places are merged.
//!
//! Places come from the same view as their rows. A place may turn out to have no row: the item may
//! have expired. Then it is as if the place had not been there.

use std::ops::ControlFlow;

use partita_model::{Document, Result};
use partita_query::access::Access;
use partita_storage::Direction;

use super::composite::values_at;
use super::explain::path_text;
use super::indexed::{is_answered_by_walk, note_use, paths_of};
use super::lookup::{interval_range, may_be_cut};
use super::order_walk::{direction_of, resume_term};
use super::reader::{IndexReader, rid_of};
use super::{End, Leaf, items};
use crate::index;
use crate::keys;
use crate::op::{IndexUse, PlanHint};
use crate::query::position::{LeafRow, Order, Position, SortPosition};

/// Places, and how their walk ended.
pub(super) struct Places {
    pub(super) found: Vec<SortPosition>,
    pub(super) end: End,
}

/// The first places behind one, as many as are wanted. None where only the items tell them.
pub(super) fn places(leaf: &mut Leaf<'_>, after: Option<&SortPosition>) -> Result<Option<Places>> {
    let facts = leaf.query.facts();
    let access = leaf.query.access();
    let paths = paths_of(&facts.order).unwrap_or_default();
    let ([path], Access::Condition(_)) = (paths.as_slice(), access) else { return Ok(None) };
    let is_whole = leaf.only.is_empty() && leaf.restrict == leaf.partition.epks;
    let is_plain = leaf.hint == PlanHint::Best && !facts.joins && is_whole;
    if !is_plain || !is_answered_by_walk(access, &paths) {
        return Ok(None);
    }
    let Some(within) = values_at(access, path) else { return Ok(None) };
    if leaf.items_in_reach()? <= leaf.budget.settings.scan_items {
        return Ok(None);
    }
    let order = Order::of(facts);
    let direction = direction_of(order.rids_descend());
    let prefix = index::path_prefix(path);
    let mut ranges: Vec<_> = within.iter().map(|one| interval_range(&prefix, one)).collect();
    if direction == Direction::Backward {
        ranges.reverse();
    }
    let (view, budget) = (leaf.view, leaf.budget);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, scanned: 0 };
    let mut walk = Walk { order: &order, after, path: &prefix, want: leaf.want, found: Vec::new() };
    let mut end = End::Exhausted;
    for range in ranges {
        let range = match after {
            Some(after) => resume_term(range, &prefix, after, direction),
            None => range,
        };
        let mut is_clear = true;
        let ended = reader.walk(&range, direction, |key, _| walk.take(key, &mut is_clear))?;
        if !is_clear {
            leaf.report.entries_scanned += reader.scanned;
            return Ok(None);
        }
        if !ended {
            end = End::Stopped;
            break;
        }
    }
    leaf.report.entries_scanned += reader.scanned;
    let paths = vec![format!("{}/?", path_text(path))];
    note_use(leaf, IndexUse { paths, composite: false, precise: true });
    Ok(Some(Places { found: walk.found, end }))
}

/// The rows of places, in their order; those that have none are left out.
pub(super) fn rows_at(leaf: &mut Leaf<'_>, places: &[SortPosition]) -> Result<Vec<LeafRow>> {
    let rids: Vec<u64> = places.iter().map(|place| place.rid).collect();
    leaf.note(format!("fetch {} by resource id", rids.len()));
    let mut rows = Vec::with_capacity(places.len());
    let mut places = places.iter();
    for item in items::fetch(leaf, &rids)? {
        let Some(place) = places.find(|place| place.rid == item.rid) else { break };
        leaf.report.rows_evaluated += 1;
        leaf.run.rows(Document::new(item.text()?), &mut |row| {
            rows.push(LeafRow { row, position: Position::Sorted(place.clone()) });
            ControlFlow::Break(())
        })?;
    }
    leaf.report.rows_out += rows.len() as u64;
    Ok(rows)
}

/// A walk along the entries of a path.
struct Walk<'w> {
    order: &'w Order,
    after: Option<&'w SortPosition>,
    path: &'w [u8],
    want: usize,
    found: Vec<SortPosition>,
}

impl Walk<'_> {
    /// Takes one entry. One whose value was cut is not clear: its place is only known to the item.
    fn take(&mut self, key: &[u8], is_clear: &mut bool) -> Result<ControlFlow<()>> {
        let value = keys::term_value(key, self.path).filter(|_| !may_be_cut(key, self.path));
        let Some(value) = value else {
            *is_clear = false;
            return Ok(ControlFlow::Break(()));
        };
        // The place behind the first and only row of the item.
        let place = SortPosition { keys: vec![value.bytes().to_vec()], rid: rid_of(key)?, row: 1 };
        if self.after.is_some_and(|after| self.order.compare(&place, after).is_le()) {
            return Ok(ControlFlow::Continue(()));
        }
        self.found.push(place);
        let enough = self.found.len() >= self.want;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
