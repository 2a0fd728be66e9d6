//! Answering a query by looking at every item.
//!
//! Items lie in the order of their keys, where they are looked at in place (`Snapshot::walk`): only
//! what becomes part of a row is copied. But rows without ORDER BY come oldest item first. So a
//! scan keeps the first rows of that order, as it does of any other (`top.rs`), and goes through
//! all items again for each page; who wants few rows goes along resource ids instead. Partitions
//! that are too large for either give rows in the order of keys.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use partita_model::{Document, Error, Result};
use partita_query::Groups;
use partita_query::access::Access;
use partita_storage::{Direction, Entry, KeyRange, ScanLimit, Space};

use super::choose::{cost, is_answered};
use super::plan::LeafPlan;
use super::reader::{from_bound, rid_of};
use super::{Emit, End, Leaf, items};
use crate::keys;
use crate::memory;
use crate::query::places::{ALL_ROWS, LeafRow, Order, Position, TopRows};
use crate::record::SeenItem;

/// Along resource ids, the first read of the store asks for so many entries, each further one for
/// twice as many …
const BATCH_ENTRIES_FIRST: usize = 16;
/// … up to this.
const BATCH_ENTRIES_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// The time is looked at once in so many items.
const CHECK_EVERY: u64 = 256;

/// Gives rows in the order of item keys: of partitions that are too large for another one.
pub(super) fn by_key(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let scan = Scan::by_key(leaf, after);
    let end = unsorted(leaf, &scan, u64::MAX, emit)?.unwrap_or(End::Exhausted);
    scan.spare_vain(leaf);
    Ok(end)
}

/// Gives rows oldest item first, along resource ids: every item is loaded by its own, so this is
/// for those who want few. If it has cost more than it is worth, the oldest of the rest are kept
/// instead.
pub(super) fn by_age(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    cost_max: u64,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let (mut given, mut last) = (0, None);
    let before = (leaf.report.documents_loaded, leaf.report.document_bytes);
    let scan = Scan::by_rid(after);
    let end = unsorted(leaf, &scan, cost_max, &mut |row: LeafRow| {
        given += 1;
        last = Some(row.position.clone());
        emit(row)
    })?;
    if let Some(end) = end {
        scan.spare_vain(leaf);
        return Ok(end);
    }
    // What was loaded in vain is looked at again, and paid for then.
    let loaded = leaf.report.documents_loaded - before.0;
    leaf.spare(loaded, leaf.report.document_bytes - before.1);
    leaf.instead("few of its items fit the filter", given, |leaf| {
        leaf.note(&LeafPlan::KeepOldest { want: leaf.want });
        oldest(leaf, last.as_ref().or(after), emit)
    })
}

/// Gives rows oldest item first by going through all items, side by side as they lie, and keeping
/// the first rows. The walk along resource ids would have ended with the last of them: what it
/// would not have looked at is not paid for.
pub(super) fn oldest(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let order = Order::by_age();
    let after = match after {
        Some(Position::Rid { rid, row }) => Some(order.at(*rid, *row)),
        Some(_) | None => None,
    };
    let mut top = leaf.top_rows(&order, after.as_ref());
    // Resource id, bytes, and whether there was a row: of all that was passed. Without the memory
    // to remember it, all that was looked at is paid for.
    let mut passed: Option<Vec<(u64, u64, bool)>> = Some(Vec::new());
    let mut memory = leaf.memory.reservation(memory::FOUND);
    Scan::by_key(leaf, None).each(leaf, &mut |leaf, place| {
        leaf.check_whole_every(CHECK_EVERY)?;
        let Some(item) = place.item else { return Ok(ControlFlow::Continue(())) };
        let is_new = after.as_ref().is_none_or(|after| place.rid >= after.rid);
        let has_row = is_new && !top.is_beyond(place.rid) && top_rows(leaf, item, &mut top)?;
        let bytes = item.body.len() as u64;
        if let Some(list) = &mut passed {
            list.push((if is_new { place.rid } else { u64::MAX }, bytes, has_row));
            if !memory.try_grow(2 * size_of::<(u64, u64, bool)>()) {
                passed = None;
                memory.shrink(memory.bytes());
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    leaf.check_whole()?;
    let (rows, is_complete) = top.finish()?;
    let (end, last) = give_sorted(leaf, rows, is_complete, emit);
    let last = if end == End::Exhausted { u64::MAX - 1 } else { last.unwrap_or(0) };
    let index_tells = is_answered(leaf.query.access(), &leaf.container.served_policy());
    for (rid, bytes, has_row) in passed.into_iter().flatten() {
        if rid > last || index_tells && !has_row {
            leaf.spare(1, bytes);
        }
    }
    Ok(end)
}

/// Gives the first rows of an order by going through all items.
pub(super) fn sorted(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let facts = leaf.query.facts();
    let order = Order::of(facts);
    let after = match after {
        Some(Position::Sorted(after)) => Some(after),
        Some(_) | None => None,
    };
    let before = (leaf.report.documents_loaded, leaf.report.document_bytes, leaf.report.rows_out);
    let mut top = leaf.top_rows(&order, after);
    let scan = Scan::by_key(leaf, None);
    scan.each(leaf, &mut |leaf, place| {
        leaf.check_whole_every(CHECK_EVERY)?;
        if let Some(item) = place.item
            && !top_rows(leaf, item, &mut top)?
        {
            scan.note_vain(item);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    leaf.check_whole()?;
    let (rows, is_complete) = top.finish()?;
    let end = give_sorted(leaf, rows, is_complete, emit).0;
    if *leaf.query.access() == Access::All && !facts.joins {
        // An index that has the order leads to the rows that are wanted, and no further.
        let loaded = leaf.report.documents_loaded - before.0;
        let documents = loaded.saturating_sub(leaf.report.rows_out - before.2);
        let bytes = u128::from(leaf.report.document_bytes - before.1);
        let share = bytes * u128::from(documents) / u128::from(loaded.max(1));
        leaf.spare(documents, u64::try_from(share).unwrap_or(0));
    } else {
        scan.spare_vain(leaf);
    }
    Ok(end)
}

/// Offers the rows of an item; whether there are any.
fn top_rows(leaf: &mut Leaf<'_>, item: &SeenItem<'_>, top: &mut TopRows<'_>) -> Result<bool> {
    let mut has_row = false;
    leaf.report.rows_evaluated += 1;
    leaf.run.rows(Document::stored(item.body), &mut |row| {
        top.offer(LeafRow::sorted(row, item.rid));
        has_row = true;
        ControlFlow::Continue(())
    })?;
    check_shown(item, has_row)
}

/// Gathers the groups of all items; in lists their order shows.
pub(super) fn groups(leaf: &mut Leaf<'_>, by_age: bool) -> Result<Groups> {
    let mut groups = Groups::new(leaf.query, leaf.memory);
    let scan = if by_age { Scan::by_rid(None) } else { Scan::by_key(leaf, None) };
    scan.each(leaf, &mut |leaf, place| {
        leaf.check_whole_every(CHECK_EVERY)?;
        if let Some(item) = place.item {
            leaf.report.rows_evaluated += 1;
            groups.turn_to(item.rid);
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
    Scan::by_key(leaf, None).each(leaf, &mut |leaf, place| {
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

/// Whether a stop is the end shows when there is an item behind it: it is kept until then. None if
/// the walk was given up for what it costs.
fn unsorted(
    leaf: &mut Leaf<'_>,
    scan: &Scan,
    cost_max: u64,
    emit: &mut Emit<'_>,
) -> Result<Option<End>> {
    let mut stop: Option<End> = None;
    let mut is_given_up = false;
    let before = (leaf.report.entries_scanned, leaf.report.documents_loaded);
    let ended = scan.each(leaf, &mut |leaf, place| {
        if stop.is_some() {
            return Ok(ControlFlow::Break(()));
        }
        if scan.rows_of(leaf, place, emit)?.is_break() {
            stop = Some(End::Stopped);
            // The item itself may have more rows.
            let more = leaf.query.facts().joins;
            return Ok(if more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        if leaf.page_is_over_every(CHECK_EVERY)? {
            stop = Some(End::OutOfBudget(scan.position_at(place, ALL_ROWS)));
        }
        let entries = leaf.report.entries_scanned - before.0;
        let loads = leaf.report.documents_loaded - before.1;
        is_given_up = entries + loads * cost::LOAD > cost_max;
        Ok(if is_given_up { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if is_given_up && stop.is_none() {
        return Ok(None);
    }
    Ok(Some(if ended { End::Exhausted } else { stop.unwrap_or(End::Exhausted) }))
}

/// What a scan comes by.
#[derive(Clone, Copy)]
struct Place<'p> {
    key: &'p [u8],
    rid: u64,
    /// The item, if the query may see it.
    item: Option<&'p SeenItem<'p>>,
}

/// Sees the places of a scan, one after another.
type See<'s, 'l> = dyn FnMut(&mut Leaf<'l>, Place<'_>) -> Result<ControlFlow<()>> + 's;

/// A way through the items of a leaf.
struct Scan {
    range: KeyRange,
    by_rid: bool,
    /// The item to go on with, and how many of its rows are done.
    resumed: Option<(u64, u32)>,
    /// How many items gave no row, and their bytes.
    vain: Cell<(u64, u64)>,
}

impl Scan {
    fn by_key(leaf: &Leaf<'_>, after: Option<&Position>) -> Scan {
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
        Scan { range, by_rid: false, resumed, vain: Cell::default() }
    }

    fn by_rid(after: Option<&Position>) -> Scan {
        let mut range = keys::all_rids();
        let mut resumed = None;
        if let Some(Position::Rid { rid, row }) = after {
            range.start = Bound::Included(keys::rid(*rid));
            resumed = Some((*rid, *row));
        }
        Scan { range, by_rid: true, resumed, vain: Cell::default() }
    }

    /// Shows one place after another, until `see` breaks. True if it came to the end.
    fn each<'l>(&self, leaf: &mut Leaf<'l>, see: &mut See<'_, 'l>) -> Result<bool> {
        if self.by_rid {
            return self.each_by_rid(leaf, see);
        }
        let (view, parts) = (leaf.view, leaf.parts);
        for part in parts {
            let start = self.range.start.clone();
            let range = from_bound(keys::items_in(part), start, Direction::Forward);
            let mut result = Ok(ControlFlow::Continue(()));
            let mut left = leaf.moment();
            view.walk(Space::Items, &range, Direction::Forward, &mut |key, value| {
                leaf.report.load_nanos += leaf.since(left);
                leaf.report.entries_scanned += 1;
                result = show(leaf, key, value, see);
                left = leaf.moment();
                match result {
                    Ok(flow) => flow,
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            if result?.is_break() {
                return Ok(false);
            }
        }
        Ok(true)
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
            leaf.report.load_nanos += leaf.since(begun);
            // Few at a time, as each may be large.
            for few in page.entries.chunks(items::LOAD_MAX) {
                if see_few(leaf, few, see)?.is_break() {
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
        let mut has_row = false;
        let (run, report) = (&mut leaf.run, &mut leaf.report);
        report.rows_evaluated += 1;
        run.rows(Document::stored(item.body), &mut |row| {
            has_row = true;
            let number = row.ordinal.saturating_add(1);
            if number <= done {
                return ControlFlow::Continue(());
            }
            report.rows_out += 1;
            flow = emit(LeafRow { row, position: self.position_at(place, number) });
            flow
        })?;
        if !check_shown(item, has_row)? {
            self.note_vain(item);
        }
        Ok(flow)
    }

    fn note_vain(&self, item: &SeenItem<'_>) {
        let (items, bytes) = self.vain.get();
        self.vain.set((items + 1, bytes + item.body.len() as u64));
    }

    /// A scan must not cost more than the index would: items that it would have passed over are not
    /// paid for.
    fn spare_vain(&self, leaf: &mut Leaf<'_>) {
        let (documents, bytes) = self.vain.get();
        if documents > 0 && is_answered(leaf.query.access(), &leaf.container.served_policy()) {
            leaf.spare(documents, bytes);
        }
    }

    fn position_at(&self, place: Place<'_>, row: u32) -> Position {
        let rid = place.rid;
        if self.by_rid {
            return Position::Rid { rid, row };
        }
        Position::Key { item_key: place.key.to_vec(), rid, row }
    }
}

/// Gives the first rows of an order. How that ended, and the item of the last row given.
fn give_sorted(
    leaf: &mut Leaf<'_>,
    rows: Vec<LeafRow>,
    is_complete: bool,
    emit: &mut Emit<'_>,
) -> (End, Option<u64>) {
    let mut last = None;
    let mut left = rows.len();
    for LeafRow { row, position } in rows {
        leaf.report.rows_out += 1;
        left -= 1;
        let position = position.without_keys();
        last = Some(position.clone());
        if emit(LeafRow { row, position }).is_break() && (left > 0 || !is_complete) {
            return (End::Stopped, last.and_then(|last| last.rid()));
        }
    }
    let rid = last.as_ref().and_then(Position::rid);
    match last {
        Some(last) if !is_complete => (End::OutOfBudget(last), rid),
        Some(_) | None => (End::Exhausted, rid),
    }
}

/// Fails if an item that gave rows is no text. Most items of a scan give none: what the filter did
/// not look at of them is not read from memory at all.
fn check_shown(item: &SeenItem<'_>, has_row: bool) -> Result<bool> {
    if has_row {
        item.text()?;
    }
    Ok(has_row)
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

/// Shows the items that resource ids lead to.
fn see_few<'l>(
    leaf: &mut Leaf<'l>,
    pointers: &[Entry],
    see: &mut See<'_, 'l>,
) -> Result<ControlFlow<()>> {
    let begun = leaf.moment();
    let items = lead_to(leaf, pointers)?;
    leaf.report.load_nanos += leaf.since(begun);
    for (entry, item) in pointers.iter().zip(items) {
        let flow = match item {
            Some(value) => show(leaf, &entry.record.value, &value, see)?,
            None => {
                let rid = rid_of(&entry.key)?;
                see(leaf, Place { key: &entry.record.value, rid, item: None })?
            }
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The items that resource ids lead to, where those lie in the leaf's range.
fn lead_to(leaf: &Leaf<'_>, pointers: &[Entry]) -> Result<Vec<Option<Bytes>>> {
    let wanted: Vec<KeyRange> = leaf.parts.iter().map(keys::items_in).collect();
    let is_wanted = |entry: &&Entry| wanted.iter().any(|part| part.contains(&entry.record.value));
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
