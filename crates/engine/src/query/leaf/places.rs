//! The first places of an order, without a look at the items.
//!
//! Of the first rows of a partition many are not among the first of all partitions. Where an index
//! has the order and answers the filter, its entries tell all that is needed to see which are: the
//! sort keys and the resource id. So partitions are asked for places first, and only for the rows
//! of those that are left when the places are merged.
//!
//! A walk goes as far as places are clear. Arrays, objects and strings that were cut are not: their
//! keys are only known to the items. Who asks from there on gets no places, and asks for rows.
//!
//! Places come from the same view as their rows. A place may turn out to have no row: the item may
//! have expired. Then it is as if the place had not been there.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{CompositeIndex, Document, Error, IndexStep, Result};
use partita_query::access::{Access, Interval, Kinds};
use partita_query::{PlainRow, Row};
use partita_storage::{Direction, KeyRange};

use super::composite::{Part, composite_for, composite_use, values_at};
use super::indexed::{is_answered_by_walk, note_use, path_use, paths_of};
use super::items::{self, item_row};
use super::known::{Known, PlainRows, plain_row};
use super::lookup::{Memory, Shapes, interval_range, may_be_cut, scalars};
use super::order_walk::{
    Class, check_ties, direction_of, is_unclear, resume_composite, resume_term,
};
use super::reader::{IndexReader, rid_of};
use super::small_document::is_of_one_value;
use super::{Emit, End, Leaf};
use crate::index;
use crate::keys;
use crate::op::PlanHint;
use crate::query::cache::Cached;
use crate::query::place_list::{PlaceAt, PlaceList};
use crate::query::position::{LeafRow, Order, Position, SortPosition};

/// After so many entries of a value that is known, a new search finds the next value sooner.
const SKIP_AFTER: u64 = 128;
/// Rows of keys that are made at a time.
const PIECE: usize = 1_000;
/// How many times more first places are worth caching than entries of a set.
const PLACES_TIMES: u64 = 4;

/// Places, and how their walk ended.
pub(super) struct Places {
    pub(super) found: PlaceList,
    pub(super) end: End,
}

/// The first places behind one, as many as are wanted or as are clear. None where only the items
/// tell them.
pub(super) fn places(leaf: &mut Leaf<'_>, after: Option<&SortPosition>) -> Result<Option<Places>> {
    let facts = leaf.query.facts();
    let access = leaf.query.access();
    let paths = paths_of(&facts.order).unwrap_or_default();
    let is_whole = leaf.is_whole();
    let is_plain = leaf.hint == PlanHint::Best && !facts.joins && is_whole;
    if paths.is_empty() || !is_plain || !is_answered_by_walk(access, &paths) {
        return Ok(None);
    }
    let is_small = leaf.items_in_reach()? <= leaf.budget.settings.scan_items;
    if is_small && !gives_once(leaf) {
        return Ok(None);
    }
    let order = Order::of(facts);
    let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
    let deadline = || budget.check_whole_time();
    let reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
    let places = PlaceList::new(paths.len());
    let found = Found { order: &order, after, want: leaf.want, once: gives_once(leaf), places };
    let at = (leaf.partition.id, leaf.view.lsn());
    let memory = Memory { cache: leaf.cache, at, settings: budget.settings };
    let mut walk = Walk { reader, memory, found };
    let (reached, composite) = match paths.as_slice() {
        [path] => (walk.by_path(path, values_at(access, path))?, None),
        _ => {
            let served = leaf.container.served_policy();
            let Some(index) = composite_for(&served, &facts.order, &paths) else {
                return Ok(None);
            };
            let range = Part::of(index, &Access::All).range;
            (walk.by_composite(index, range)?, Some(index))
        }
    };
    let (scanned, found) = (walk.reader.scanned, walk.found.places);
    leaf.report.entries_scanned += scanned;
    let end = match reached {
        Reached::End => End::Exhausted,
        Reached::Unclear if found.is_empty() => return Ok(None),
        Reached::Enough | Reached::Unclear => End::Stopped,
    };
    note_use(leaf, || match composite {
        Some(index) => composite_use(index),
        None => path_use(paths.first().copied().unwrap_or_default()),
    });
    Ok(Some(Places { found, end }))
}

/// Is one place of those with equal keys enough: is each row, once, what it is ordered by? A scan
/// would bring all of them, page after page.
pub(super) fn gives_once(leaf: &Leaf<'_>) -> bool {
    let facts = leaf.query.facts();
    let expires = leaf.container.definition.default_ttl.is_some();
    facts.distinct && facts.is_ordered_by_row() && !expires
}

/// How far the rows of keys led.
pub(super) enum Led {
    To(End),
    /// What comes behind this place needs the items.
    Until(Option<SortPosition>),
}

/// Gives the rows behind a place, as far as keys tell all that the query looks at.
pub(super) fn stream(
    leaf: &mut Leaf<'_>,
    after: Option<&SortPosition>,
    emit: &mut Emit<'_>,
) -> Result<Led> {
    let mut after = after.cloned();
    if Known::of(leaf).is_none() {
        return Ok(Led::Until(after));
    }
    let want = leaf.want;
    let mut plan = None;
    let led = loop {
        leaf.want = want.clamp(1, PIECE);
        let found = places(leaf, after.as_ref());
        leaf.want = want;
        let Some(Places { found, end }) = found? else { break Led::Until(after) };
        let rows = rows_at(leaf, &found)?;
        let first = plan.get_or_insert_with(|| leaf.report.plan.clone());
        leaf.report.plan.clone_from(first);
        let mut rows = rows.into_iter().zip(found.iter()).filter_map(|(row, place)| {
            row.map(|row| LeafRow { row, position: Position::Sorted(place.position()) })
        });
        if rows.any(|row| emit(row).is_break()) {
            break Led::To(End::Stopped);
        }
        if end == End::Exhausted {
            break Led::To(end);
        }
        let last = found.last().map(|place| place.position());
        let is_done = |last: &SortPosition| last.keys.iter().all(|key| is_of_one_value(key));
        after = last.map(|last| match gives_once(leaf) && is_done(&last) {
            true => Order::of(leaf.query.facts()).behind(last.keys),
            false => last,
        });
        if let (true, Some(at)) = (leaf.page_is_over(), &after) {
            break Led::To(End::OutOfBudget(Position::Sorted(at.clone())));
        }
    };
    Ok(led)
}

/// The row of each of these places; none where the item has none.
pub(super) fn rows_at(leaf: &mut Leaf<'_>, places: &PlaceList) -> Result<Vec<Option<Row>>> {
    let rows = match PlainRows::of(leaf) {
        Some(plain) => plain_rows(leaf, &plain, places)?,
        None => match Known::of(leaf) {
            Some(known) => known_rows(leaf, known, places)?,
            None => loaded_rows(leaf, places)?,
        },
    };
    leaf.report.rows_out += rows.iter().flatten().count() as u64;
    Ok(rows)
}

fn loaded_rows(leaf: &mut Leaf<'_>, places: &PlaceList) -> Result<Vec<Option<Row>>> {
    leaf.note(|| format!("fetch {} by resource id", places.len()));
    let is_item = plain_row(leaf) == Some(&PlainRow::Item);
    let mut items = items::fetch(leaf, places.rids())?.into_iter().peekable();
    let mut rows = Vec::with_capacity(places.len());
    for rid in places.rids() {
        rows.push(match items.next_if(|item| item.rid == *rid) {
            Some(item) if is_item => Some(item_row(leaf, &item)?),
            Some(item) => row_of(leaf, item.text()?)?,
            None => None,
        });
    }
    Ok(rows)
}

/// The same where keys tell all that the query looks at.
fn known_rows(
    leaf: &mut Leaf<'_>,
    mut known: Known<'_>,
    places: &PlaceList,
) -> Result<Vec<Option<Row>>> {
    leaf.note(|| format!("make {} rows of keys", places.len()));
    let item_keys = items::keys_if(leaf, known.needs_item_key(), places)?;
    let mut rows = Vec::with_capacity(places.len());
    let mut text = String::new();
    for (at, place) in places.iter().enumerate() {
        text.clear();
        rows.push(match known.write(&mut text, place, item_keys.get(at)) {
            true => row_of(leaf, &text)?,
            false => loaded_row(leaf, place)?,
        });
    }
    Ok(rows)
}

/// The same where rows are nothing but such values.
fn plain_rows(
    leaf: &mut Leaf<'_>,
    plain: &PlainRows<'_>,
    places: &PlaceList,
) -> Result<Vec<Option<Row>>> {
    leaf.note(|| format!("make {} rows of keys", places.len()));
    let item_keys = items::keys_if(leaf, plain.needs_item_key(), places)?;
    let mut rows = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        rows.push(match plain.write(place, item_keys.get(at)) {
            Some(made) => {
                leaf.report.rows_evaluated += 1;
                made.map(bare_row)
            }
            None => loaded_row(leaf, place)?,
        });
    }
    Ok(rows)
}

fn bare_row(text: String) -> Row {
    Row { text, keys: Vec::new(), hash: 0, ordinal: 0 }
}

fn loaded_row(leaf: &mut Leaf<'_>, place: PlaceAt<'_>) -> Result<Option<Row>> {
    match items::fetch(leaf, &[place.rid()])?.first() {
        Some(item) => row_of(leaf, item.text()?),
        None => Ok(None),
    }
}

/// The row of a document whose place is known.
fn row_of(leaf: &mut Leaf<'_>, text: &str) -> Result<Option<Row>> {
    leaf.report.rows_evaluated += 1;
    leaf.run.first_row(Document::new(text))
}

/// Why a walk is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    End,
    /// As many places as are wanted.
    Enough,
    /// Something whose place is only known to the items.
    Unclear,
}

/// A walk along an index.
struct Walk<'w> {
    reader: IndexReader<'w>,
    memory: Memory<'w>,
    found: Found<'w>,
}

/// What a walk has found.
struct Found<'w> {
    order: &'w Order,
    after: Option<&'w SortPosition>,
    want: usize,
    /// Of places with equal keys only the first is wanted.
    once: bool,
    places: PlaceList,
}

/// Whether to go on, and why not.
type Step = ControlFlow<Reached>;

const GO_ON: Step = ControlFlow::Continue(());

impl Walk<'_> {
    /// By one path. `within`: only scalars in these intervals.
    fn by_path(&mut self, steps: &[IndexStep], within: Option<&[Interval]>) -> Result<Reached> {
        let path = index::path_prefix(steps, self.reader.terms);
        let backward = self.found.order.rids_descend();
        if let Some(intervals) = within {
            let mut ranges: Vec<_> =
                intervals.iter().map(|one| interval_range(&path, one)).collect();
            if backward {
                ranges.reverse();
            }
            for range in ranges {
                if let ControlFlow::Break(reached) = self.terms(&path, range)? {
                    return Ok(reached);
                }
            }
            return Ok(Reached::End);
        }
        let Some(others) = self.others(steps, &path)? else { return Ok(Reached::Unclear) };
        let mut classes = [Class::Undefined, Class::Scalar, Class::Tree];
        if backward {
            classes.reverse();
        }
        let begun = self.found.after.and_then(|after| after.keys.first()).map(|key| Class::of(key));
        for class in classes.into_iter().skip_while(|class| begun.is_some_and(|at| at != *class)) {
            let step = match class {
                Class::Scalar => self.terms(&path, scalars(&path))?,
                Class::Undefined => self.without_value(&others.shapes)?,
                // Nobody but the items knows where these are.
                Class::Tree | Class::Any if others.has_trees => {
                    ControlFlow::Break(Reached::Unclear)
                }
                Class::Tree | Class::Any => GO_ON,
            };
            if let ControlFlow::Break(reached) = step {
                return Ok(reached);
            }
        }
        Ok(Reached::End)
    }

    /// The terms of a path. Many of them are remembered if they are the first of their range: what
    /// came last or costs most is asked for again and again. What is remembered counts as if it
    /// were read.
    fn terms(&mut self, path: &[u8], range: KeyRange) -> Result<Step> {
        let direction = direction_of(self.found.order.rids_descend());
        if let Some(after) = self.found.after {
            return self.walk_terms(path, &resume_term(range, path, after, direction), direction);
        }
        if !self.found.places.is_empty() {
            return self.walk_terms(path, &range, direction);
        }
        if self.found.once {
            return self.walk_terms(path, &range, direction);
        }
        let Memory { cache, at, settings } = self.memory;
        let name = named(&range, direction);
        let known = cache.get::<FirstPlaces>(at, &name);
        if let Some(known) = known.filter(|known| known.is_enough(self.found.want)) {
            self.found.places = known.first(self.found.want);
            self.reader.scanned += self.found.places.len() as u64;
            let is_full = self.found.places.len() >= self.found.want;
            return Ok(if is_full { ControlFlow::Break(Reached::Enough) } else { GO_ON });
        }
        let step = self.walk_terms(path, &range, direction)?;
        let is_clear = step != ControlFlow::Break(Reached::Unclear);
        let worth = settings.cache_entries_min.saturating_mul(PLACES_TIMES);
        if is_clear && self.found.places.len() as u64 >= worth {
            let known =
                FirstPlaces { places: self.found.places.clone(), is_all: step.is_continue() };
            cache.put(at, &name, Arc::new(known));
        }
        Ok(step)
    }

    fn walk_terms(&mut self, path: &[u8], range: &KeyRange, direction: Direction) -> Result<Step> {
        let mut range = range.clone();
        loop {
            let (mut same, mut behind) = (0, None);
            let step = self.entries(&range, direction, |found, key| {
                let value = keys::term_value(key, path).filter(|_| !may_be_cut(key, path));
                let Some(value) = value else { return Ok(ControlFlow::Break(Reached::Unclear)) };
                if found.has(value.bytes()) {
                    same += 1;
                    if same < SKIP_AFTER {
                        return Ok(GO_ON);
                    }
                    behind = Some(value.bytes().to_vec());
                    return Ok(ControlFlow::Break(Reached::Enough));
                }
                same = 0;
                Ok(found.take([value.bytes()], rid_of(key)?))
            })?;
            let Some(value) = behind else { return Ok(step) };
            let value = Bound::Excluded(value.as_slice());
            match direction {
                Direction::Forward => {
                    range.start = keys::term_range(path, value, Bound::Unbounded).start;
                }
                Direction::Backward => {
                    range.end = keys::term_range(path, Bound::Unbounded, value).end;
                }
            }
        }
    }

    /// The items that have no value, found by their shapes.
    fn without_value(&mut self, shapes: &Shapes) -> Result<Step> {
        if shapes.has_unknown {
            return Ok(ControlFlow::Break(Reached::Unclear));
        }
        let descend = self.found.order.rids_descend();
        let undefined = partita_query::sort_key(None);
        let from = self.found.after.filter(|after| after.keys.first() == Some(&undefined));
        let from = from.map(|after| after.rid);
        let mut rids = Vec::new();
        for shape in shapes.with(Kinds::UNDEFINED) {
            let mut range = keys::shape_range(shape);
            if let Some(rid) = from {
                let place = Bound::Included(keys::shape_entry(shape, rid));
                *(if descend { &mut range.end } else { &mut range.start }) = place;
            }
            // The place itself is done, so one more.
            let (before, most) = (rids.len(), self.found.want.saturating_add(1));
            self.reader.walk_rids(&range, direction_of(descend), |rid, _| {
                rids.push(rid);
                match rids.len() - before >= most {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
        }
        rids.sort_unstable();
        if descend {
            rids.reverse();
        }
        if self.found.once {
            rids.truncate(1);
        }
        Ok(rids.into_iter().try_for_each(|rid| self.found.take([&undefined[..]], rid)))
    }

    /// The items without a scalar at a path, as far as they are remembered or as shapes tell. What
    /// is remembered counts as if it were read.
    fn others(&mut self, steps: &[IndexStep], path: &[u8]) -> Result<Option<Arc<Others>>> {
        let Memory { cache, at, .. } = self.memory;
        let range = scalars(path);
        if let Some(others) = cache.get::<Others>(at, &range) {
            self.reader.scanned += others.entries;
            return Ok(Some(others));
        }
        let Some(others) = Others::read(&mut self.reader, steps, path)?.map(Arc::new) else {
            return Ok(None);
        };
        cache.put(at, &range, Arc::clone(&others));
        Ok(Some(others))
    }

    /// By the columns of a composite index; `range` is all of it.
    fn by_composite(&mut self, index: &CompositeIndex, range: KeyRange) -> Result<Reached> {
        let descends = index.paths.first().is_some_and(|column| column.descending);
        let direction = direction_of(descends != self.found.order.rids_descend());
        let range = match self.found.after {
            Some(after) => resume_composite(range, index, after, direction, descends),
            None => range,
        };
        // Where the first column descends, equal entries come in the wrong order.
        let mut ties = Ties::default();
        let step = self.entries(&range, direction, |found, key| {
            let damaged = || Error::corrupt("an index entry is damaged");
            let columns = index::columns_of(key, index).ok_or_else(damaged)?;
            let rid = rid_of(key)?;
            if columns.iter().any(|column| is_unclear(column)) {
                let step = ties.turn(found);
                return Ok(if step.is_break() {
                    step
                } else {
                    ControlFlow::Break(Reached::Unclear)
                });
            }
            if !descends {
                return Ok(found.take(columns.iter().map(Vec::as_slice), rid));
            }
            if ties.columns != columns {
                if let step @ ControlFlow::Break(_) = ties.turn(found) {
                    return Ok(step);
                }
                ties.columns = columns;
            }
            ties.rids.push(rid);
            check_ties(ties.rids.len())?;
            Ok(GO_ON)
        })?;
        let step = if step.is_break() { step } else { ties.turn(&mut self.found) };
        Ok(step.break_value().unwrap_or(Reached::End))
    }

    /// Shows the entries of a range until `see` breaks.
    fn entries(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut see: impl FnMut(&mut Found<'_>, &[u8]) -> Result<Step>,
    ) -> Result<Step> {
        let mut step = GO_ON;
        let Walk { reader, found, .. } = self;
        reader.walk(range, direction, |key, _| {
            step = see(found, key)?;
            Ok(if step.is_break() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(step)
    }
}

impl Found<'_> {
    /// Is this key of no use because its place was taken?
    fn has(&self, key: &[u8]) -> bool {
        self.once
            && self.places.last().is_some_and(|last| last.key(0) == Some(key))
            && is_of_one_value(key)
    }

    /// Takes the place behind the first and only row of an item, unless that is done.
    fn take<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>, rid: u64) -> Step {
        self.places.push(keys, rid);
        if let (Some(after), Some(place)) = (self.after, self.places.last())
            && place.compare_position(after, self.order).is_le()
        {
            self.places.pop();
            return GO_ON;
        }
        match self.places.len() >= self.want {
            true => ControlFlow::Break(Reached::Enough),
            false => GO_ON,
        }
    }
}

/// The first places of a range of an index.
#[derive(Debug)]
pub(super) struct FirstPlaces {
    places: PlaceList,
    /// There are no more.
    is_all: bool,
}

impl Cached for FirstPlaces {
    fn bytes(&self) -> usize {
        self.places.bytes()
    }
}

impl FirstPlaces {
    fn is_enough(&self, want: usize) -> bool {
        self.is_all || self.places.len() >= want
    }

    fn first(&self, want: usize) -> PlaceList {
        let mut places = self.places.clone();
        places.truncate(want);
        places
    }
}

/// A range that is walked in a direction, as a name: what is walked backward begins at its end.
fn named(range: &KeyRange, direction: Direction) -> KeyRange {
    let KeyRange { start, end } = range.clone();
    match direction {
        Direction::Forward => KeyRange { start, end },
        Direction::Backward => KeyRange { start: end, end: start },
    }
}

/// The items that have no scalar at a path.
#[derive(Debug)]
pub(super) struct Others {
    shapes: Shapes,
    /// Are there arrays or objects, or items that may have one?
    has_trees: bool,
    /// How many entries of the index were looked at.
    entries: u64,
}

impl Cached for Others {
    fn bytes(&self) -> usize {
        self.shapes.bytes()
    }
}

impl Others {
    /// None if shapes do not tell of the path.
    fn read(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        path: &[u8],
    ) -> Result<Option<Others>> {
        let before = reader.scanned;
        let Some(shapes) = Shapes::read(reader, steps, path)? else { return Ok(None) };
        let trees = Kinds { array: true, object: true, ..Kinds::NONE };
        let mut has_trees = shapes.has_unknown;
        for shape in shapes.with(trees) {
            let range = keys::shape_range(shape);
            has_trees |=
                !reader.walk_rids(&range, Direction::Forward, |_, _| ControlFlow::Break(()))?;
        }
        Ok(Some(Others { shapes, has_trees, entries: reader.scanned - before }))
    }
}

/// Items with equal columns, oldest first, where the newest is wanted first.
#[derive(Default)]
struct Ties {
    columns: Vec<Vec<u8>>,
    rids: Vec<u64>,
}

impl Ties {
    fn turn(&mut self, found: &mut Found<'_>) -> Step {
        let rids = std::mem::take(&mut self.rids);
        let columns = || self.columns.iter().map(Vec::as_slice);
        rids.into_iter().rev().try_for_each(|rid| found.take(columns(), rid))
    }
}
