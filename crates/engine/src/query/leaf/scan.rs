//! Answering a query by looking at every item.
//!
//! Rows come in the order of item keys, or of resource ids if that is the order the query began
//! with. For ORDER BY the scan keeps the best rows (`top.rs`) and goes through all items again for
//! each page. Slow, simple, and right for every query.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use partita_model::{Document, Error, Result};
use partita_query::Groups;
use partita_storage::{Direction, KeyRange, ScanLimit, Space};

use super::items::Item;
use super::top::TopRows;
use super::{Emit, End, Leaf};
use crate::keys;
use crate::query::position::{ALL_ROWS, LeafRow, Order, Position};
use crate::record::ItemRecord;

/// The first read of the store asks for so many entries, each further one for twice as many …
const BATCH_ENTRIES_FIRST: usize = 16;
/// … up to this.
const BATCH_ENTRIES_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Gives the rows behind a place, in order.
pub(super) fn stream(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    if leaf.query.facts().ordered {
        return sorted(leaf, after, emit);
    }
    let walk = match after {
        Some(Position::Rid { .. }) => Walk::by_rid(after),
        Some(_) | None => Walk::by_key(leaf, after),
    };
    leaf.report.plan = walk.name(leaf);
    unsorted(leaf, walk, emit)
}

/// Gathers the groups of all items.
pub(super) fn groups(leaf: &mut Leaf<'_>) -> Result<Groups> {
    let mut groups = Groups::new(leaf.query);
    let mut walk = Walk::by_key(leaf, None);
    leaf.report.plan = format!("group\n{}", walk.name(leaf));
    while let Some(batch) = walk.next(leaf)? {
        for item in batch {
            leaf.report.rows_evaluated += 1;
            leaf.run.gather(Document::new(item.record.text()?), &mut groups)?;
        }
        leaf.check_whole()?;
    }
    Ok(groups)
}

fn unsorted(leaf: &mut Leaf<'_>, mut walk: Walk, emit: &mut Emit<'_>) -> Result<End> {
    while let Some(batch) = walk.next(leaf)? {
        let last = batch.len().saturating_sub(1);
        for (at, item) in batch.iter().enumerate() {
            if walk.rows_of(leaf, item, emit)?.is_break() {
                // With one row per item the last item is the end.
                let done = at == last && walk.done && !leaf.query.facts().joins;
                return Ok(if done { End::Exhausted } else { End::Stopped });
            }
        }
        if !walk.done && leaf.page_is_over() {
            return Ok(walk.position().map_or(End::Exhausted, End::OutOfBudget));
        }
    }
    Ok(End::Exhausted)
}

fn sorted(leaf: &mut Leaf<'_>, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
    let order = Order::of(leaf.query.facts());
    let after = match after {
        Some(Position::Sorted(after)) => Some(after),
        Some(_) | None => None,
    };
    let mut top = TopRows::new(&order, after, leaf.want, leaf.budget.settings.sort_bytes_max);
    let mut walk = Walk::by_key(leaf, None);
    leaf.report.plan = format!("sort, keep {}\n{}", leaf.want, walk.name(leaf));
    while let Some(batch) = walk.next(leaf)? {
        for item in batch {
            let mut ordinal = 0;
            leaf.report.rows_evaluated += 1;
            leaf.run.rows(Document::new(item.record.text()?), &mut |row| {
                top.offer(LeafRow::sorted(row, item.record.rid, ordinal));
                ordinal = ordinal.saturating_add(1);
                ControlFlow::Continue(())
            })?;
        }
        leaf.check_whole()?;
    }
    let (rows, complete) = top.finish();
    let last = rows.last().map(|row| row.position.clone());
    let mut left = rows.len();
    for row in rows {
        leaf.report.rows_out += 1;
        left -= 1;
        if emit(row).is_break() && (left > 0 || !complete) {
            return Ok(End::Stopped);
        }
    }
    match last {
        Some(last) if !complete => Ok(End::OutOfBudget(last)),
        Some(_) | None => Ok(End::Exhausted),
    }
}

/// A way through the items of a leaf.
struct Walk {
    range: KeyRange,
    by_rid: bool,
    /// The item to go on with, and how many of its rows are done.
    resumed: Option<(u64, u32)>,
    entries: usize,
    /// The last item looked at.
    last: Option<(Bytes, u64)>,
    /// There are no more entries.
    done: bool,
}

impl Walk {
    fn by_key(leaf: &Leaf<'_>, after: Option<&Position>) -> Walk {
        let mut range = keys::items_in(&leaf.restrict);
        let mut resumed = None;
        let mut done = false;
        if let Some(Position::Key { item_key, rid, row }) = after
            && matches!(&range.start, Bound::Included(start) if start < item_key)
        {
            done = matches!(&range.end, Bound::Excluded(end) if end <= item_key);
            range.start = match *row {
                ALL_ROWS => Bound::Excluded(item_key.clone()),
                _ => Bound::Included(item_key.clone()),
            };
            resumed = Some((*rid, *row));
        }
        Walk { done, ..Walk::over(range, false, resumed) }
    }

    fn by_rid(after: Option<&Position>) -> Walk {
        let mut range = keys::all_rids();
        let mut resumed = None;
        if let Some(Position::Rid { rid, row }) = after {
            range.start = Bound::Included(keys::rid(*rid));
            resumed = Some((*rid, *row));
        }
        Walk::over(range, true, resumed)
    }

    fn over(range: KeyRange, by_rid: bool, resumed: Option<(u64, u32)>) -> Walk {
        let entries = BATCH_ENTRIES_FIRST;
        Walk { range, by_rid, resumed, entries, last: None, done: false }
    }

    fn name(&self, leaf: &Leaf<'_>) -> String {
        let order = if self.by_rid { "resource id" } else { "key" };
        format!("scan items by {order} in {}", leaf.restrict)
    }

    /// The next items that the query may see; None at the end. May be empty before that.
    fn next(&mut self, leaf: &mut Leaf<'_>) -> Result<Option<Vec<Item>>> {
        if self.done {
            return Ok(None);
        }
        let limit = ScanLimit { entries_max: self.entries, bytes_max: BATCH_BYTES_MAX };
        self.entries = (self.entries * 2).min(BATCH_ENTRIES_MAX);
        let space = if self.by_rid { Space::Index } else { Space::Items };
        let page = leaf.view.scan(space, &self.range, Direction::Forward, limit)?;
        self.done = !page.more;
        if let Some(last) = page.entries.last() {
            self.range.start = Bound::Excluded(last.key.to_vec());
        }
        leaf.report.entries_scanned += page.entries.len() as u64;
        let found: Vec<(Bytes, Bytes)> =
            page.entries.into_iter().map(|entry| (entry.key, entry.record.value)).collect();
        let found = if self.by_rid { self.fetch(leaf, found)? } else { found };
        let mut items = Vec::with_capacity(found.len());
        for (key, value) in found {
            let record = ItemRecord::decode(&value)?;
            leaf.report.documents_loaded += 1;
            leaf.report.document_bytes += record.body.len() as u64;
            self.last = Some((key.clone(), record.rid));
            if leaf.sees(&key, &record)? {
                items.push(Item { key, record });
            }
        }
        Ok(Some(items))
    }

    /// The items that entries by resource id lead to, as far as they lie in the leaf's range.
    fn fetch(
        &mut self,
        leaf: &Leaf<'_>,
        entries: Vec<(Bytes, Bytes)>,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        if let Some((key, _)) = entries.last() {
            self.last = keys::entry_rid(key).map(|rid| (Bytes::new(), rid));
        }
        let wanted = keys::items_in(&leaf.restrict);
        let keys: Vec<Vec<u8>> = entries
            .into_iter()
            .map(|(_, item_key)| item_key.to_vec())
            .filter(|key| wanted.contains(key))
            .collect();
        let records = leaf.view.get_many(Space::Items, &keys)?;
        let pairs = keys.into_iter().zip(records);
        pairs
            .map(|(key, record)| {
                let record = record
                    .ok_or_else(|| Error::corrupt("a resource id leads to an item that is gone"))?;
                Ok((Bytes::from(key), record.value))
            })
            .collect()
    }

    /// Gives the rows of an item that are not done yet.
    fn rows_of(
        &self,
        leaf: &mut Leaf<'_>,
        item: &Item,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let rid = item.record.rid;
        let done = match self.resumed {
            Some((resumed, rows)) if resumed == rid => rows,
            Some(_) | None => 0,
        };
        let mut ordinal: u32 = 0;
        let mut flow = ControlFlow::Continue(());
        let (run, report) = (&mut leaf.run, &mut leaf.report);
        report.rows_evaluated += 1;
        run.rows(Document::new(item.record.text()?), &mut |row| {
            ordinal = ordinal.saturating_add(1);
            if ordinal <= done {
                return ControlFlow::Continue(());
            }
            report.rows_out += 1;
            flow = emit(LeafRow { row, position: self.position_at(&item.key, rid, ordinal) });
            flow
        })?;
        Ok(flow)
    }

    /// The place behind all that was looked at.
    fn position(&self) -> Option<Position> {
        let (key, rid) = self.last.as_ref()?;
        Some(self.position_at(key, *rid, ALL_ROWS))
    }

    fn position_at(&self, key: &[u8], rid: u64, row: u32) -> Position {
        if self.by_rid {
            return Position::Rid { rid, row };
        }
        Position::Key { item_key: key.to_vec(), rid, row }
    }
}
