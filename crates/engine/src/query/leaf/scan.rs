//! Answering a query by looking at every item.
//!
//! Rows come in the order of item keys, or of resource ids if that is the order the query began
//! with. For ORDER BY the scan keeps the best rows (`top.rs`) and goes through all items again for
//! each page. Slow, simple, and right for every query.
//!
//! Along their keys, items are looked at where the store has them (`Snapshot::walk`): only what
//! becomes part of a row is copied.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use partita_model::{Document, Error, Result};
use partita_query::Groups;
use partita_storage::{Direction, Entry, KeyRange, ScanLimit, Space};

use super::reader::rid_of;
use super::top::TopRows;
use super::{Emit, End, Leaf};
use crate::keys;
use crate::query::position::{ALL_ROWS, LeafRow, Order, Position};
use crate::record::SeenItem;

/// Along resource ids, the first read of the store asks for so many entries, each further one for
/// twice as many …
const BATCH_ENTRIES_FIRST: usize = 16;
/// … up to this.
const BATCH_ENTRIES_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// The time is looked at once in so many items.
const CHECK_EVERY: u64 = 256;

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
    leaf.replan(|leaf| walk.name(leaf));
    unsorted(leaf, &walk, emit)
}

/// Gathers the groups of all items.
pub(super) fn groups(leaf: &mut Leaf<'_>) -> Result<Groups> {
    let mut groups = Groups::new(leaf.query);
    let walk = Walk::by_key(leaf, None);
    leaf.replan(|leaf| format!("group\n{}", walk.name(leaf)));
    walk.each(leaf, &mut |leaf, place| {
        leaf.check_whole_every(CHECK_EVERY)?;
        if let Some(item) = place.item {
            leaf.report.rows_evaluated += 1;
            leaf.run.gather(Document::new(item.text()?), &mut groups)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    leaf.check_whole()?;
    Ok(groups)
}

/// What a look at some items showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) seen: u64,
    /// The filter lets them through.
    pub(super) passed: u64,
    /// These, and those that are in doubt.
    pub(super) loaded: u64,
}

/// Looks at the first items.
pub(super) fn sample(
    leaf: &mut Leaf<'_>,
    most: u64,
    is_in_doubt: &dyn Fn(Document<'_>) -> bool,
) -> Result<Sample> {
    let mut sample = Sample::default();
    Walk::by_key(leaf, None).each(leaf, &mut |leaf, place| {
        sample.seen += 1;
        if let Some(item) = place.item {
            leaf.report.rows_evaluated += 1;
            let document = Document::stored(item.body);
            let passes = leaf.run.matches(document)?;
            sample.passed += u64::from(passes);
            sample.loaded += u64::from(passes || is_in_doubt(document));
        }
        Ok(if sample.seen < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(sample)
}

/// Whether a stop is the end shows when there is an item behind it: it is kept until then.
fn unsorted(leaf: &mut Leaf<'_>, walk: &Walk, emit: &mut Emit<'_>) -> Result<End> {
    let mut stop: Option<End> = None;
    let ended = walk.each(leaf, &mut |leaf, place| {
        if stop.is_some() {
            return Ok(ControlFlow::Break(()));
        }
        if walk.rows_of(leaf, place, emit)?.is_break() {
            stop = Some(End::Stopped);
            // The item itself may have more rows.
            let more = leaf.query.facts().joins;
            return Ok(if more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        if leaf.page_is_over_every(CHECK_EVERY) {
            stop = Some(End::OutOfBudget(walk.position_at(place, ALL_ROWS)));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(if ended { End::Exhausted } else { stop.unwrap_or(End::Exhausted) })
}

fn sorted(leaf: &mut Leaf<'_>, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
    let order = Order::of(leaf.query.facts());
    let after = match after {
        Some(Position::Sorted(after)) => Some(after),
        Some(_) | None => None,
    };
    let mut top = TopRows::new(&order, after, leaf.want, leaf.budget.settings.sort_bytes_max);
    let walk = Walk::by_key(leaf, None);
    leaf.replan(|leaf| format!("sort, keep {}\n{}", leaf.want, walk.name(leaf)));
    walk.each(leaf, &mut |leaf, place| {
        leaf.check_whole_every(CHECK_EVERY)?;
        let Some(item) = place.item else { return Ok(ControlFlow::Continue(())) };
        let mut shown: u32 = 0;
        leaf.report.rows_evaluated += 1;
        leaf.run.rows(Document::stored(item.body), &mut |row| {
            top.offer(LeafRow::sorted(row, item.rid));
            shown = shown.saturating_add(1);
            ControlFlow::Continue(())
        })?;
        leaf.note_shown(item, shown)?;
        Ok(ControlFlow::Continue(()))
    })?;
    leaf.check_whole()?;
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

/// What a walk comes by.
#[derive(Clone, Copy)]
struct Place<'p> {
    key: &'p [u8],
    rid: u64,
    /// The item, if the query may see it.
    item: Option<&'p SeenItem<'p>>,
}

/// Sees the places of a walk, one after another.
type See<'s, 'l> = dyn FnMut(&mut Leaf<'l>, Place<'_>) -> Result<ControlFlow<()>> + 's;

/// A way through the items of a leaf.
struct Walk {
    range: KeyRange,
    by_rid: bool,
    /// The item to go on with, and how many of its rows are done.
    resumed: Option<(u64, u32)>,
}

impl Walk {
    fn by_key(leaf: &Leaf<'_>, after: Option<&Position>) -> Walk {
        let mut range = keys::items_in(&leaf.restrict);
        let mut resumed = None;
        if let Some(Position::Key { item_key, rid, row }) = after
            && matches!(&range.start, Bound::Included(start) if start < item_key)
        {
            range.start = match *row {
                ALL_ROWS => Bound::Excluded(item_key.clone()),
                _ => Bound::Included(item_key.clone()),
            };
            resumed = Some((*rid, *row));
        }
        Walk { range, by_rid: false, resumed }
    }

    fn by_rid(after: Option<&Position>) -> Walk {
        let mut range = keys::all_rids();
        let mut resumed = None;
        if let Some(Position::Rid { rid, row }) = after {
            range.start = Bound::Included(keys::rid(*rid));
            resumed = Some((*rid, *row));
        }
        Walk { range, by_rid: true, resumed }
    }

    fn name(&self, leaf: &Leaf<'_>) -> String {
        let order = if self.by_rid { "resource id" } else { "key" };
        format!("scan items by {order} in {}", leaf.restrict)
    }

    /// Shows one place after another, until `see` breaks. True if it came to the end.
    fn each<'l>(&self, leaf: &mut Leaf<'l>, see: &mut See<'_, 'l>) -> Result<bool> {
        if self.by_rid {
            return self.each_by_rid(leaf, see);
        }
        let mut result = Ok(ControlFlow::Continue(()));
        let view = leaf.view;
        let mut left = leaf.moment();
        view.walk(Space::Items, &self.range, Direction::Forward, &mut |key, value| {
            leaf.report.load_nanos += leaf.since(left);
            leaf.report.entries_scanned += 1;
            result = show(leaf, key, value, see);
            left = leaf.moment();
            match result {
                Ok(flow) => flow,
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        Ok(result?.is_continue())
    }

    fn each_by_rid<'l>(&self, leaf: &mut Leaf<'l>, see: &mut See<'_, 'l>) -> Result<bool> {
        let mut range = self.range.clone();
        let mut entries_max = BATCH_ENTRIES_FIRST;
        loop {
            let limit = ScanLimit { entries_max, bytes_max: BATCH_BYTES_MAX };
            entries_max = (entries_max * 2).min(BATCH_ENTRIES_MAX);
            let begun = leaf.moment();
            let page = leaf.view.scan(Space::Index, &range, Direction::Forward, limit)?;
            leaf.report.entries_scanned += page.entries.len() as u64;
            let Some(last) = page.entries.last() else { return Ok(true) };
            range.start = Bound::Excluded(last.key.to_vec());
            let items = lead_to(leaf, &page.entries)?;
            leaf.report.load_nanos += leaf.since(begun);
            for (entry, item) in page.entries.iter().zip(items) {
                let flow = match item {
                    Some(value) => show(leaf, &entry.record.value, &value, see)?,
                    None => {
                        let rid = rid_of(&entry.key)?;
                        see(leaf, Place { key: &entry.record.value, rid, item: None })?
                    }
                };
                if flow.is_break() {
                    return Ok(false);
                }
            }
            if !page.more {
                return Ok(true);
            }
        }
    }

    /// Gives the rows of an item that are not done yet.
    fn rows_of(
        &self,
        leaf: &mut Leaf<'_>,
        place: Place<'_>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let mut flow = ControlFlow::Continue(());
        let Some(item) = place.item else { return Ok(flow) };
        let done = match self.resumed {
            Some((resumed, rows)) if resumed == item.rid => rows,
            Some(_) | None => 0,
        };
        let mut ordinal: u32 = 0;
        let (run, report) = (&mut leaf.run, &mut leaf.report);
        report.rows_evaluated += 1;
        run.rows(Document::stored(item.body), &mut |row| {
            ordinal = ordinal.saturating_add(1);
            if ordinal <= done {
                return ControlFlow::Continue(());
            }
            report.rows_out += 1;
            flow = emit(LeafRow { row, position: self.position_at(place, ordinal) });
            flow
        })?;
        leaf.note_shown(item, ordinal)?;
        Ok(flow)
    }

    fn position_at(&self, place: Place<'_>, row: u32) -> Position {
        let rid = place.rid;
        if self.by_rid {
            return Position::Rid { rid, row };
        }
        Position::Key { item_key: place.key.to_vec(), rid, row }
    }
}

impl Leaf<'_> {
    /// Fails if an item that gave rows is no text. Most items of a scan give none: what the filter
    /// did not look at of them is not read from memory at all.
    fn note_shown(&mut self, item: &SeenItem<'_>, rows: u32) -> Result<()> {
        if rows == 0 {
            self.vain.documents += 1;
            self.vain.bytes += item.body.len() as u64;
            return Ok(());
        }
        item.text().map(|_| ())
    }
}

/// Shows what is stored under a key.
fn show<'l>(
    leaf: &mut Leaf<'l>,
    key: &[u8],
    value: &[u8],
    see: &mut See<'_, 'l>,
) -> Result<ControlFlow<()>> {
    let item = SeenItem::read(value)?;
    leaf.report.documents_loaded += 1;
    leaf.report.document_bytes += item.body.len() as u64;
    let seen = leaf.sees(key, &item)?;
    see(leaf, Place { key, rid: item.rid, item: seen.then_some(&item) })
}

/// The items that resource ids lead to, where those lie in the leaf's range.
fn lead_to(leaf: &Leaf<'_>, pointers: &[Entry]) -> Result<Vec<Option<Bytes>>> {
    let wanted = keys::items_in(&leaf.restrict);
    let is_wanted = |entry: &&Entry| wanted.contains(&entry.record.value);
    let keys: Vec<Vec<u8>> =
        pointers.iter().filter(is_wanted).map(|entry| entry.record.value.to_vec()).collect();
    let mut records = leaf.view.get_many(Space::Items, &keys)?.into_iter();
    let gone = || Error::corrupt("a resource id leads to an item that is gone");
    let item = |entry: &Entry| match is_wanted(&entry) {
        false => Ok(None),
        true => Ok(Some(records.next().flatten().ok_or_else(gone)?.value)),
    };
    pointers.iter().map(item).collect()
}
