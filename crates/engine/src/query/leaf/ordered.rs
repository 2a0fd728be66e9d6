//! Rows in the order of ORDER BY.
//!
//! They come along an index that has the order ([`rows`]), made of its keys or of the items that
//! are loaded, or from a set of items that is loaded and sorted ([`sorted`]). Queries over several
//! partitions ask for places first ([`places`]) and, of those that are left after merging, for the
//! rows ([`rows_at`]): of the first rows of a partition many are not among the first of all.

use std::ops::ControlFlow;

use partita_model::{Document, Reservation, Result};
use partita_query::{PlainRow, Row};

use super::choose::cost;
use super::items::{self, Loaded, fetch};
use super::key_rows::{KeyRows, is_of_one_value};
use super::order_walk::{Class, OrderWalk, Piece, WalkPlan};
use super::plan::{ItemSet, LeafPlan};
use super::reader::IndexReader;
use super::{Emit, End, Leaf, scan};
use crate::memory;
use crate::query::places::{LeafRow, Order, PlaceList, Position, SortPosition};

/// Rows of keys that are made at a time.
const KEY_ROWS_MAX: usize = 1_000;

/// Gives the rows behind a place.
pub(super) fn rows(
    leaf: &mut Leaf<'_>,
    plan: &WalkPlan<'_>,
    after: Option<&SortPosition>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let order = Order::of(leaf.query.facts());
    let mut reader = IndexReader::of(leaf);
    let mut walk = OrderWalk::new(leaf, plan, &reader, &order, after);
    let maker = match plan.made_of_keys {
        true => KeyRows::of_places(leaf, plan.is_answered),
        false => None,
    };
    let mut given = Given { rows: 0, last: None };
    let loaded_before = leaf.report.documents_loaded;
    // Where every item of the walk gives a row, as many are loaded as are wanted.
    let (mut size, most) = match (plan.made_of_keys, plan.is_answered) {
        (true, _) => (leaf.want, KEY_ROWS_MAX),
        (false, true) => (leaf.want, items::BATCH_MAX),
        (false, false) => (items::BATCH_FIRST.min(leaf.want), items::BATCH_MAX),
    };
    loop {
        let begun = leaf.moment();
        let piece = walk.next(&mut reader, size.clamp(1, most))?;
        leaf.report.lookup_nanos += leaf.since(begun);
        leaf.report.entries_scanned += reader.tell();
        size = size.saturating_mul(2);
        let Some(piece) = piece else { return Ok(End::Exhausted) };
        if let Some(end) =
            give(leaf, (plan, maker.as_ref()), (&order, after), piece, &mut given, emit)?
        {
            return Ok(end);
        }
        let loaded = leaf.report.documents_loaded - loaded_before;
        if loaded > cost::WALK_LOADS && given.rows < loaded * cost::SCAN / (4 * cost::LOAD) {
            let after = given.last.or_else(|| after.cloned()).map(Position::Sorted);
            let rows = usize::try_from(given.rows).unwrap_or(usize::MAX);
            return leaf.instead("few of its items fit the filter", rows, |leaf| {
                leaf.note(&LeafPlan::Sort { want: leaf.want });
                scan::sorted(leaf, after.as_ref(), emit)
            });
        }
    }
}

/// What a walk has given.
struct Given {
    rows: u64,
    last: Option<SortPosition>,
}

/// Gives the rows of a piece; the end, if that is one.
fn give(
    leaf: &mut Leaf<'_>,
    (plan, maker): (&WalkPlan<'_>, Option<&KeyRows<'_>>),
    (order, after): (&Order, Option<&SortPosition>),
    piece: Piece,
    given: &mut Given,
    emit: &mut Emit<'_>,
) -> Result<Option<End>> {
    let mut counted = |row: LeafRow| {
        given.rows += 1;
        if let Position::Sorted(at) = &row.position {
            given.last = Some(at.clone());
        }
        emit(row)
    };
    let passed = match piece {
        Piece::Clear { places, passed } if !leaf.query.facts().joins => {
            let mut from = 0;
            while from < places.len() {
                let mut memory = leaf.memory.reservation(memory::ROWS);
                let memory_max = items::LOAD_BYTES_MAX;
                let wanted = Wanted { places: &places, from, memory: &mut memory, memory_max };
                let rows = rows_at(leaf, (plan.is_answered, maker), wanted)?;
                // Whoever takes them counts them.
                drop(memory);
                let now = places.iter().skip(from);
                from += rows.len();
                for (row, place) in rows.into_iter().zip(now) {
                    let Some(row) = row else { continue };
                    leaf.report.rows_out += 1;
                    let position = Position::Sorted(place.position());
                    if counted(LeafRow { row, position }).is_break() {
                        return Ok(Some(End::Stopped));
                    }
                }
            }
            passed
        }
        Piece::Clear { places, passed } => {
            let class = Class::Any;
            if in_order(leaf, order, after, places.rids(), class, &mut counted)?.is_break() {
                return Ok(Some(End::Stopped));
            }
            passed
        }
        Piece::InOrder { rids, class } => {
            for batch in rids.chunks(items::BATCH_MAX) {
                if in_order(leaf, order, after, batch, class, &mut counted)?.is_break() {
                    return Ok(Some(End::Stopped));
                }
            }
            None
        }
        Piece::Unclear { rids, class } => {
            return Ok(match sort(leaf, (order, after), &rids, class, &mut counted)? {
                End::Exhausted => None,
                end => Some(end),
            });
        }
    };
    let over = if leaf.page_is_over()? { passed } else { None };
    Ok(over.map(|at| End::OutOfBudget(Position::Sorted(behind(plan, order, at)))))
}

/// The place to go on behind: of places with equal keys the others may be done as well.
fn behind(plan: &WalkPlan<'_>, order: &Order, at: SortPosition) -> SortPosition {
    match plan.once && at.keys.iter().all(|key| is_of_one_value(key)) {
        true => order.behind(at.keys),
        false => at,
    }
}

/// The first places behind one, as many as are wanted or as are clear. None where only the items
/// tell them. A place may turn out to have no row: the item may have expired.
pub(super) fn places(
    leaf: &mut Leaf<'_>,
    plan: &WalkPlan<'_>,
    after: Option<&SortPosition>,
) -> Result<Option<(PlaceList, End)>> {
    let order = Order::of(leaf.query.facts());
    let mut reader = IndexReader::of(leaf);
    let mut walk = OrderWalk::new(leaf, plan, &reader, &order, after);
    let mut found = PlaceList::new(plan.columns());
    let end = loop {
        match walk.next(&mut reader, leaf.want.saturating_sub(found.len()).max(1))? {
            Some(Piece::Clear { places, .. }) => found.append(places),
            Some(Piece::InOrder { .. } | Piece::Unclear { .. }) => break End::Stopped,
            None => break End::Exhausted,
        }
        if found.len() >= leaf.want {
            break End::Stopped;
        }
    };
    leaf.report.entries_scanned += reader.tell();
    Ok((end == End::Exhausted || !found.is_empty()).then_some((found, end)))
}

/// The places whose rows are wanted, from one on, and the memory that the rows may take.
pub(super) struct Wanted<'w> {
    pub(super) places: &'w PlaceList,
    pub(super) from: usize,
    pub(super) memory: &'w mut Reservation,
    pub(super) memory_max: usize,
}

impl Wanted<'_> {
    fn rids(&self) -> &[u64] {
        self.places.rids().get(self.from..).unwrap_or_default()
    }

    /// Takes memory for the next row. True if there is none for another one: the first row of all
    /// is refused then.
    fn is_last(&mut self, rows: usize, row: Option<&Row>) -> Result<bool> {
        let bytes = row.map_or(0, Row::bytes);
        let fits = self.memory.try_grow(bytes);
        if !fits && rows == 0 {
            self.memory.grow(bytes)?;
        }
        Ok(!fits || self.memory.bytes() >= self.memory_max)
    }
}

/// The row of each of these places; none where the item has none. `is_answered`: the filter lets
/// all of them through. Of the first places only, if there is no memory for more.
pub(super) fn rows_at(
    leaf: &mut Leaf<'_>,
    (is_answered, maker): (bool, Option<&KeyRows<'_>>),
    wanted: Wanted<'_>,
) -> Result<Vec<Option<Row>>> {
    match maker {
        Some(maker) => rows_of_keys(leaf, maker, wanted),
        None => rows_of_items(leaf, is_answered, wanted),
    }
}

fn rows_of_items(
    leaf: &mut Leaf<'_>,
    is_answered: bool,
    mut wanted: Wanted<'_>,
) -> Result<Vec<Option<Row>>> {
    let facts = leaf.query.facts();
    let is_item = is_answered && !facts.distinct && facts.plain == Some(PlainRow::Item);
    let mut rows = Vec::with_capacity(wanted.rids().len());
    while let Some(left) = wanted.rids().get(rows.len()..).filter(|left| !left.is_empty()) {
        let Loaded { items, done, memory: _held } = fetch(leaf, left)?;
        let looked_at: Vec<u64> = left.iter().take(done).copied().collect();
        let mut items = items.into_iter().peekable();
        for rid in looked_at {
            let row = match items.next_if(|item| item.rid == rid) {
                Some(item) if is_item => Some(items::item_row(leaf, &item)?),
                Some(item) => {
                    leaf.report.rows_evaluated += 1;
                    leaf.run.first_row(Document::new(item.text()?))?
                }
                None => None,
            };
            let is_last = wanted.is_last(rows.len(), row.as_ref())?;
            rows.push(row);
            if is_last {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}

fn rows_of_keys(
    leaf: &mut Leaf<'_>,
    maker: &KeyRows<'_>,
    mut wanted: Wanted<'_>,
) -> Result<Vec<Option<Row>>> {
    let places = wanted.places;
    let item_keys = items::keys_if(leaf, maker.needs_item_key(), places)?;
    let mut rows = Vec::with_capacity(wanted.rids().len());
    for (at, place) in places.iter().enumerate().skip(wanted.from) {
        leaf.report.rows_evaluated += 1;
        let row = match maker.row(&mut leaf.run, place, item_keys.get(at))? {
            Some(made) => made,
            None => match fetch(leaf, &[place.rid()])?.items.first() {
                Some(item) => leaf.run.first_row(Document::new(item.text()?))?,
                None => None,
            },
        };
        let is_last = wanted.is_last(rows.len(), row.as_ref())?;
        rows.push(row);
        if is_last {
            break;
        }
    }
    Ok(rows)
}

/// Gives the rows of items that are in order.
fn in_order(
    leaf: &mut Leaf<'_>,
    order: &Order,
    after: Option<&SortPosition>,
    rids: &[u64],
    class: Class,
    emit: &mut Emit<'_>,
) -> Result<ControlFlow<()>> {
    let mut left = rids;
    while !left.is_empty() {
        let Loaded { items, done, memory: _held } = fetch(leaf, left)?;
        left = left.get(done..).unwrap_or_default();
        for item in items {
            let (run, report) = (&mut leaf.run, &mut leaf.report);
            let mut flow = ControlFlow::Continue(());
            report.rows_evaluated += 1;
            run.rows(Document::new(item.text()?), &mut |row| {
                if !class.holds(row.keys.first()) {
                    return ControlFlow::Break(());
                }
                let row = LeafRow::sorted(row, item.rid);
                if is_after(order, &row, after) {
                    report.rows_out += 1;
                    flow = emit(row);
                }
                flow
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn is_after(order: &Order, row: &LeafRow, after: Option<&SortPosition>) -> bool {
    match (&row.position, after) {
        (Position::Sorted(at), Some(after)) => order.compare(at, after).is_gt(),
        _ => true,
    }
}

/// Gives the first rows of the items of a set, which are loaded and sorted.
pub(super) fn sorted(
    leaf: &mut Leaf<'_>,
    set: &ItemSet,
    after: Option<&SortPosition>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let order = Order::of(leaf.query.facts());
    let (rids, _memory) = items::listed(leaf, &set.rids)?;
    sort(leaf, (&order, after), &rids, Class::Any, emit)
}

/// Loads items, sorts their rows and gives those behind a place.
fn sort(
    leaf: &mut Leaf<'_>,
    (order, after): (&Order, Option<&SortPosition>),
    rids: &[u64],
    class: Class,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let mut top = leaf.top_rows(order, after);
    let mut left = rids;
    while !left.is_empty() {
        let Loaded { items, done, memory: _held } = fetch(leaf, items::first(left))?;
        left = left.get(done..).unwrap_or_default();
        for item in items {
            leaf.report.rows_evaluated += 1;
            leaf.run.rows(Document::new(item.text()?), &mut |row| {
                if !class.holds(row.keys.first()) {
                    return ControlFlow::Break(());
                }
                top.offer(LeafRow::sorted(row, item.rid));
                ControlFlow::Continue(())
            })?;
        }
        leaf.check_whole()?;
    }
    let (rows, is_complete) = top.finish()?;
    let last = rows.last().map(|row| row.position.clone());
    for row in rows {
        leaf.report.rows_out += 1;
        if emit(row).is_break() {
            return Ok(End::Stopped);
        }
    }
    Ok(match last {
        Some(last) if !is_complete => End::OutOfBudget(last),
        Some(_) | None => End::Exhausted,
    })
}
