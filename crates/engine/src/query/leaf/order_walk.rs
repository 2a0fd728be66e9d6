//! Items in the order of ORDER BY, along an index.
//!
//! The terms of a path are in the order of their values, equal ones by resource id, and so are the
//! entries of a composite index: walking them, forward or backward, gives the places of items in
//! order ([`PlaceList`]). Three things do not lie in that line:
//!
//! - Items without a scalar at the path have no term. Their shapes tell which they are: those
//!   without a value come first (in ascending order), arrays and objects last.
//! - A value that was cut, an array or an object in a composite entry stands for several values.
//!   Such a group of items is handed out as [`Piece::Unclear`]: load, then sort.
//! - Equal columns of a composite index are by resource id, oldest first, also where the order
//!   wants the newest first. Such a group is collected and turned around.
//!
//! A walk that is resumed begins at or a little before the place where the page before ended.
//! `ordered.rs` makes rows of what it finds.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{CompositeIndex, Error, IndexStep, Result};
use partita_query::access::{Interval, Kinds};
use partita_storage::{Direction, KeyRange};

use super::Leaf;
use super::choose::cost;
use super::key_rows::is_of_one_value;
use super::plan::{ItemSet, composite_use, intervals_text, path_use};
use super::reader::{
    IndexReader, Shapes, TREES, from_bound, interval_range, may_be_cut, rid_of, scalars,
};
use crate::index::{self, RidSet};
use crate::keys;
use crate::op::IndexUse;
use crate::query::cache::Cached;
use crate::query::places::{ALL_ROWS, Order, PlaceList, SortPosition};

/// Items with equal keys whose order has to be turned around; only their rids are held.
const TIES_MAX: usize = 8 << 20;
/// Entries that are looked at for one piece; the time of the page is looked at in between.
const ENTRIES_MAX: u64 = 16_384;
/// How many times more first places are worth remembering than entries of a set.
const PLACES_TIMES: u64 = 4;

/// Which index is walked, and what is made of it.
pub(super) struct WalkPlan<'a> {
    pub(super) index: WalkedIndex<'a>,
    /// Only these items.
    pub(super) among: Option<ItemSet>,
    /// Does the filter let all items of the walk through?
    pub(super) is_answered: bool,
    /// Do keys tell all that the query looks at, as far as places are clear?
    pub(super) made_of_keys: bool,
    /// Is one place enough of those with equal keys?
    pub(super) once: bool,
}

pub(super) enum WalkedIndex<'a> {
    /// All items by the values at a path.
    Path { path: &'a [IndexStep], shapes: Arc<Shapes> },
    /// Those with a value in these intervals.
    Within { path: &'a [IndexStep], intervals: &'a [Interval] },
    /// A part of a composite index.
    Composite { index: &'a CompositeIndex, range: KeyRange },
}

impl WalkPlan<'_> {
    pub(super) fn index_use(&self) -> IndexUse {
        match &self.index {
            WalkedIndex::Path { path, .. } | WalkedIndex::Within { path, .. } => path_use(path),
            WalkedIndex::Composite { index, .. } => composite_use(index),
        }
    }

    /// How many sort keys places have.
    pub(super) fn columns(&self) -> usize {
        match &self.index {
            WalkedIndex::Path { .. } | WalkedIndex::Within { .. } => 1,
            WalkedIndex::Composite { index, .. } => index.paths.len(),
        }
    }
}

impl fmt::Display for WalkPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.index_use();
        let kind = if used.composite { "composite index" } else { "index" };
        write!(f, "walk {kind} {used} in order")?;
        if let WalkedIndex::Within { intervals, .. } = &self.index {
            write!(f, ", {}", intervals_text(intervals))?;
        }
        if self.once {
            f.write_str(", each value once")?;
        }
        match &self.among {
            Some(set) => write!(f, ", among {}", set.rids.len()),
            None => Ok(()),
        }
    }
}

/// The next items of an order.
pub(super) enum Piece {
    /// In order, and their places are known. `passed`: where the walk stands, if that can be told.
    Clear { places: PlaceList, passed: Option<SortPosition> },
    /// In order; whether they belong to the class only they know.
    InOrder { rids: Vec<u64>, class: Class },
    /// Together, but in no order.
    Unclear { rids: Vec<u64>, class: Class },
}

/// What the first column holds: the parts of an order that are found in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Undefined,
    Scalar,
    Tree,
    /// Not known beforehand: any of them.
    Any,
}

impl Class {
    /// Does a row with this first sort key belong to the class?
    pub(super) fn holds(self, key: Option<&Vec<u8>>) -> bool {
        self == Class::Any || self == Class::of(key.map_or(&[], Vec::as_slice))
    }

    fn of(sort_key: &[u8]) -> Class {
        match sort_key.first() {
            None | Some(0) => Class::Undefined,
            Some(tag) if *tag < index::ARRAY => Class::Scalar,
            Some(_) => Class::Tree,
        }
    }
}

/// A walk under way.
pub(super) struct OrderWalk<'w> {
    segments: VecDeque<Segment<'w>>,
    order: &'w Order,
    after: Option<&'w SortPosition>,
    among: Option<&'w RidSet>,
    direction: Direction,
    once: bool,
    /// One item may have several rows: one that stands at the place may have more of them.
    joins: bool,
    columns: usize,
    /// The key of the last place, where each is wanted once.
    last_key: Vec<u8>,
}

/// A part of a walk. What is done of it is cut off.
enum Segment<'w> {
    /// Items without a scalar, found by their shapes.
    Undefined {
        shapes: &'w Shapes,
        from: Bound<u64>,
    },
    Trees {
        shapes: &'w Shapes,
    },
    Entries {
        range: KeyRange,
        of: Columns<'w>,
        is_begun: bool,
    },
}

/// How to read an entry.
enum Columns<'w> {
    Term { path: Vec<u8> },
    Composite { index: &'w CompositeIndex, turns_ties: bool },
}

/// Entries that cannot be handed out one by one: they begin alike.
struct Group {
    prefix: Vec<u8>,
    /// Empty: what they stand for is unclear.
    columns: Vec<Vec<u8>>,
    rids: Vec<u64>,
}

impl<'w> OrderWalk<'w> {
    pub(super) fn new(
        leaf: &Leaf<'_>,
        plan: &'w WalkPlan<'_>,
        reader: &IndexReader<'_>,
        order: &'w Order,
        after: Option<&'w SortPosition>,
    ) -> OrderWalk<'w> {
        let (segments, is_backward) = match &plan.index {
            WalkedIndex::Path { path, shapes } => {
                let path = index::path_prefix(path, reader.terms);
                let class = after.map(|after| Class::of(after.keys.first().map_or(&[], |k| k)));
                (by_value(path, shapes, order, after, class), order.rids_descend())
            }
            WalkedIndex::Within { path, intervals } => {
                let path = index::path_prefix(path, reader.terms);
                let one = |interval| terms(&path, interval_range(&path, interval), order, after);
                let mut all: VecDeque<Segment<'_>> = intervals.iter().map(one).collect();
                if order.rids_descend() {
                    all.make_contiguous().reverse();
                }
                (all, order.rids_descend())
            }
            WalkedIndex::Composite { index, range } => {
                let turns_ties = index.paths.first().is_some_and(|column| column.descending);
                let is_backward = turns_ties != order.rids_descend();
                let range = range.clone();
                let range = match after {
                    Some(after) => {
                        let towards = direction_of(is_backward);
                        resume_composite(range, index, after, towards, turns_ties)
                    }
                    None => range,
                };
                let of = Columns::Composite { index, turns_ties };
                (VecDeque::from([Segment::Entries { range, of, is_begun: true }]), is_backward)
            }
        };
        OrderWalk {
            segments,
            order,
            after,
            among: plan.among.as_ref().map(|set| &set.rids),
            direction: direction_of(is_backward),
            once: plan.once,
            joins: leaf.query.facts().joins,
            columns: plan.columns(),
            last_key: Vec::new(),
        }
    }

    /// The next items, about `want` of them; None at the end. May be empty before that.
    pub(super) fn next(
        &mut self,
        reader: &mut IndexReader<'_>,
        want: usize,
    ) -> Result<Option<Piece>> {
        while let Some(segment) = self.segments.pop_front() {
            let (piece, rest) = match segment {
                Segment::Entries { range, of, is_begun } => {
                    self.entries(reader, (range, of, is_begun), want)?
                }
                Segment::Undefined { shapes, from } => {
                    self.undefined(reader, shapes, from, want)?
                }
                Segment::Trees { shapes } => (self.trees(reader, shapes)?, None),
            };
            if let Some(rest) = rest {
                self.segments.push_front(rest);
            }
            if piece.is_some() {
                return Ok(piece);
            }
        }
        Ok(None)
    }

    fn is_among(&self, rid: u64) -> bool {
        self.among.is_none_or(|among| among.contains(rid))
    }

    /// The items that have no value, oldest first, or newest.
    fn undefined(
        &mut self,
        reader: &mut IndexReader<'_>,
        shapes: &'w Shapes,
        from: Bound<u64>,
        want: usize,
    ) -> Result<(Option<Piece>, Option<Segment<'w>>)> {
        let is_backward = self.direction == Direction::Backward;
        let mut rids = Vec::new();
        for shape in shapes.that_may_have(Kinds::UNDEFINED) {
            let mut range = keys::shape_range(shape);
            if from != Bound::Unbounded {
                let place = from.map(|rid| keys::shape_entry(shape, rid));
                *(if is_backward { &mut range.end } else { &mut range.start }) = place;
            }
            // One more than is wanted tells that there is more.
            let before = rids.len();
            reader.walk_rids(&range, self.direction, |rid, _| {
                if self.is_among(rid) {
                    rids.push(rid);
                }
                match rids.len() - before > want {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            })?;
        }
        rids.sort_unstable();
        if is_backward {
            rids.reverse();
        }
        let want = if self.once { 1 } else { want };
        let has_more = rids.len() > want && !self.once;
        rids.truncate(want);
        let last = rids.last().copied().filter(|_| has_more);
        let rest = last.map(|rid| Segment::Undefined { shapes, from: Bound::Excluded(rid) });
        if rids.is_empty() {
            return Ok((None, None));
        }
        if shapes.has_unknown {
            return Ok((Some(Piece::InOrder { rids, class: Class::Undefined }), rest));
        }
        let mut places = PlaceList::new(self.columns);
        let undefined = partita_query::sort_key(None);
        rids.into_iter().for_each(|rid| self.take(&mut places, [&undefined[..]], rid));
        let passed = last_of(&places);
        Ok((Some(Piece::Clear { places, passed }), rest))
    }

    /// The items with an array or object.
    fn trees(&self, reader: &mut IndexReader<'_>, shapes: &Shapes) -> Result<Option<Piece>> {
        let mut found = RidSet::default();
        for shape in shapes.that_may_have(TREES) {
            reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
                if self.is_among(rid) {
                    found.insert(rid);
                }
                ControlFlow::Continue(())
            })?;
        }
        let rids: Vec<u64> = found.iter_from(0).collect();
        Ok((!rids.is_empty()).then_some(Piece::Unclear { rids, class: Class::Tree }))
    }

    /// The next items of a range of entries. Of terms, the first places are remembered if they are
    /// many: what came last or costs most is asked for again and again.
    fn entries(
        &mut self,
        reader: &mut IndexReader<'_>,
        (range, of, is_begun): (KeyRange, Columns<'w>, bool),
        want: usize,
    ) -> Result<(Option<Piece>, Option<Segment<'w>>)> {
        let is_kept = !is_begun && self.after.is_none() && self.among.is_none() && !self.once;
        let name = is_kept.then(|| named(&range, self.direction));
        if let (Some(name), Columns::Term { path }) = (&name, &of)
            && let Some(known) = reader.remembered::<FirstPlaces>(name)
            && (known.is_all || known.places.len() >= want)
        {
            let mut places = known.places.clone();
            places.truncate(want);
            reader.scanned += places.len() as u64;
            let last = places.last().filter(|_| places.len() >= want);
            let behind = last.map(|at| keys::term(path, at.key(0).unwrap_or_default(), at.rid()));
            let rest = behind.map(|key| from_bound(range, Bound::Excluded(key), self.direction));
            let rest = rest.map(|range| Segment::Entries { range, of, is_begun: true });
            let passed = last_of(&places);
            return Ok((Some(Piece::Clear { places, passed }), rest));
        }
        let class = of.class();
        let mut range = range;
        let mut gather = Gather::new(self, &of, want);
        let stop = loop {
            reader.walk(&range, gather.walk.direction, |key, _| gather.see(key))?;
            match gather.stop.take() {
                Some(Stop::Skip(bound)) => {
                    range = from_bound(range, bound, gather.walk.direction);
                    gather.same = 0;
                }
                stop => break stop,
            }
        };
        gather.close_group();
        let Gather { places, unclear, passed, .. } = gather;
        let rest = match stop {
            Some(Stop::At(bound)) => Some(from_bound(range, bound, self.direction)),
            Some(Stop::Skip(_)) | None => None,
        };
        if let (Some(name), None) = (&name, &unclear) {
            let worth = places.len() as u64 / PLACES_TIMES;
            let is_all = rest.is_none();
            reader.keep(name, worth, || Arc::new(FirstPlaces { places: places.clone(), is_all }));
        }
        let passed = passed.or_else(|| last_of(&places));
        let rest = rest.map(|range| Segment::Entries { range, of, is_begun: true });
        Ok(match unclear {
            Some(rids) => (Some(Piece::Unclear { rids, class }), rest),
            None if places.is_empty() && rest.is_none() => (None, None),
            None => (Some(Piece::Clear { places, passed }), rest),
        })
    }

    /// Takes a place, unless it is done, or of no use.
    fn take<'k>(
        &mut self,
        places: &mut PlaceList,
        keys: impl IntoIterator<Item = &'k [u8]>,
        rid: u64,
    ) {
        if !self.is_among(rid) {
            return;
        }
        places.push(keys, rid);
        if let (Some(after), Some(place), false) = (self.after, places.last(), self.joins)
            && place.compare_position(after, self.order).is_le()
        {
            return places.pop();
        }
        if let (true, Some(key)) = (self.once, places.last().and_then(|place| place.key(0))) {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
    }
}

/// Places on their way out of a range of entries.
struct Gather<'g, 'w> {
    walk: &'g mut OrderWalk<'w>,
    of: &'g Columns<'w>,
    want: usize,
    places: PlaceList,
    /// A group that is not complete yet, and one that is.
    group: Option<Group>,
    unclear: Option<Vec<u64>>,
    looked: u64,
    /// Entries in a row that have the key of the last place.
    same: u64,
    /// The last entry, if the walk stopped there.
    passed: Option<SortPosition>,
    stop: Option<Stop>,
}

/// Why a walk stops before its end.
enum Stop {
    /// There is enough for one piece; the rest begins here.
    At(Bound<Vec<u8>>),
    /// A new search from here on finds the next value sooner.
    Skip(Bound<Vec<u8>>),
}

impl<'g, 'w> Gather<'g, 'w> {
    fn new(walk: &'g mut OrderWalk<'w>, of: &'g Columns<'w>, want: usize) -> Gather<'g, 'w> {
        let places = PlaceList::new(walk.columns);
        let (group, unclear, passed, stop) = (None, None, None, None);
        Gather { walk, of, want, places, group, unclear, looked: 0, same: 0, passed, stop }
    }

    fn see(&mut self, key: &[u8]) -> Result<ControlFlow<()>> {
        self.looked += 1;
        let rid = rid_of(key)?;
        if let Some(group) = &mut self.group {
            if key.starts_with(&group.prefix) {
                group.take(rid, self.walk.among)?;
                return Ok(ControlFlow::Continue(()));
            }
            self.close_group();
            if self.unclear.is_some() || self.places.len() >= self.want {
                return Ok(self.stop(Stop::At(Bound::Included(key.to_vec()))));
            }
        }
        if let Some(mut group) = self.of.group(key)? {
            if group.columns.is_empty() && !self.places.is_empty() {
                return Ok(self.stop(Stop::At(Bound::Included(key.to_vec()))));
            }
            group.take(rid, self.walk.among)?;
            self.group = Some(group);
            return Ok(ControlFlow::Continue(()));
        }
        self.take(key, rid)
    }

    fn stop(&mut self, stop: Stop) -> ControlFlow<()> {
        self.stop = Some(stop);
        ControlFlow::Break(())
    }

    /// Takes the place of an entry that is clear.
    fn take(&mut self, key: &[u8], rid: u64) -> Result<ControlFlow<()>> {
        match self.of {
            Columns::Term { path } => {
                let value = keys::term_value(key, path).ok_or_else(damaged)?.bytes();
                if self.walk.once && self.walk.last_key == value && is_of_one_value(value) {
                    self.same += 1;
                    if self.same < cost::SKIP_AFTER {
                        return Ok(ControlFlow::Continue(()));
                    }
                    let value = Bound::Excluded(value);
                    let next = match self.walk.direction {
                        Direction::Forward => keys::term_range(path, value, Bound::Unbounded).start,
                        Direction::Backward => keys::term_range(path, Bound::Unbounded, value).end,
                    };
                    return Ok(self.stop(Stop::Skip(next)));
                }
                self.same = 0;
                self.walk.take(&mut self.places, [value], rid);
            }
            Columns::Composite { index, .. } => {
                let columns = index::columns_of(key, index).ok_or_else(damaged)?;
                self.walk.take(&mut self.places, columns.iter().map(Vec::as_slice), rid);
            }
        }
        if self.places.len() < self.want && self.looked < ENTRIES_MAX {
            return Ok(ControlFlow::Continue(()));
        }
        self.passed = self.of.position(key, rid);
        Ok(self.stop(Stop::At(Bound::Excluded(key.to_vec()))))
    }

    /// Hands out the group, which is complete.
    fn close_group(&mut self) {
        match self.group.take() {
            Some(Group { columns, rids, .. }) if columns.is_empty() => self.unclear = Some(rids),
            Some(Group { columns, rids, .. }) => {
                for rid in rids.into_iter().rev() {
                    self.walk.take(&mut self.places, columns.iter().map(Vec::as_slice), rid);
                }
            }
            None => {}
        }
    }
}

impl Group {
    fn take(&mut self, rid: u64, among: Option<&RidSet>) -> Result<()> {
        if among.is_none_or(|among| among.contains(rid)) {
            self.rids.push(rid);
        }
        if self.rids.len() <= TIES_MAX {
            return Ok(());
        }
        Err(Error::bad_request(format!(
            "More than {TIES_MAX} items have the same ORDER BY values. Order by more columns, or \
             narrow the filter."
        )))
    }
}

fn damaged() -> Error {
    Error::corrupt("an index entry is damaged")
}

impl Columns<'_> {
    fn class(&self) -> Class {
        match self {
            Columns::Term { .. } => Class::Scalar,
            Columns::Composite { .. } => Class::Any,
        }
    }

    /// The group that an entry belongs to, if it cannot be handed out alone.
    fn group(&self, key: &[u8]) -> Result<Option<Group>> {
        let end = key.len().checked_sub(size_of::<u64>()).ok_or_else(damaged)?;
        let group = |end: usize, columns| {
            let prefix = key.get(..end).map(<[u8]>::to_vec).ok_or_else(damaged)?;
            Ok(Some(Group { prefix, columns, rids: Vec::new() }))
        };
        match self {
            Columns::Term { path } if may_be_cut(key, path) => group(end, Vec::new()),
            Columns::Term { .. } => Ok(None),
            Columns::Composite { index, turns_ties } => {
                let columns = index::columns_of(key, index).ok_or_else(damaged)?;
                let width = |columns: &[Vec<u8>]| columns.iter().map(Vec::len).sum::<usize>();
                let start = end.checked_sub(width(&columns)).ok_or_else(damaged)?;
                match columns.iter().position(|column| is_unclear(column)) {
                    Some(at) => {
                        group(start + width(columns.get(..=at).unwrap_or_default()), Vec::new())
                    }
                    None if *turns_ties => group(end, columns),
                    None => Ok(None),
                }
            }
        }
    }

    /// The place behind an entry whose value is clear.
    fn position(&self, key: &[u8], rid: u64) -> Option<SortPosition> {
        let keys = match self {
            Columns::Term { path } => vec![keys::term_value(key, path)?.bytes().to_vec()],
            Columns::Composite { index, .. } => index::columns_of(key, index)?,
        };
        Some(SortPosition { keys, rid, row: ALL_ROWS })
    }
}

/// The place behind the last of these.
fn last_of(places: &PlaceList) -> Option<SortPosition> {
    places.last().map(|place| SortPosition { row: ALL_ROWS, ..place.position() })
}

/// Does an encoded column stand for several values?
fn is_unclear(column: &[u8]) -> bool {
    index::is_cut(column) || column.first().is_some_and(|tag| *tag >= index::ARRAY)
}

fn direction_of(is_backward: bool) -> Direction {
    if is_backward { Direction::Backward } else { Direction::Forward }
}

/// All items by the values at a path, from a place on, which is of this class.
fn by_value<'w>(
    path: Vec<u8>,
    shapes: &'w Shapes,
    order: &Order,
    after: Option<&SortPosition>,
    class: Option<Class>,
) -> VecDeque<Segment<'w>> {
    let from = after.filter(|_| class == Some(Class::Undefined));
    let from = from.map_or(Bound::Unbounded, |after| Bound::Included(after.rid));
    let mut all = [
        (Class::Undefined, Segment::Undefined { shapes, from }),
        (Class::Scalar, terms(&path, scalars(&path), order, after)),
        (Class::Tree, Segment::Trees { shapes }),
    ];
    if order.rids_descend() {
        all.reverse();
    }
    let is_done = |at: &Class| class.is_some_and(|class| *at != class);
    all.into_iter().skip_while(|(at, _)| is_done(at)).map(|(_, segment)| segment).collect()
}

/// A range of the terms of a path, from a place on.
fn terms<'w>(
    path: &[u8],
    range: KeyRange,
    order: &Order,
    after: Option<&SortPosition>,
) -> Segment<'w> {
    let range = match after {
        Some(after) => resume_term(range, path, after, direction_of(order.rids_descend())),
        None => range,
    };
    Segment::Entries { range, of: Columns::Term { path: path.to_vec() }, is_begun: false }
}

/// The part of a range of terms that lies at or behind a place.
fn resume_term(
    range: KeyRange,
    path: &[u8],
    after: &SortPosition,
    direction: Direction,
) -> KeyRange {
    let Some(sort_key) = after.keys.first() else { return range };
    let value = index::fit(sort_key, index::string_bytes_max(path));
    match is_whole(&value) {
        true => from_bound(range, Bound::Included(keys::term(path, &value, after.rid)), direction),
        false => from_prefix(range, keys::term_prefix(path, &value), direction),
    }
}

/// The part of a range of composite entries that lies at or behind a place.
fn resume_composite(
    range: KeyRange,
    index: &CompositeIndex,
    after: &SortPosition,
    direction: Direction,
    turns_ties: bool,
) -> KeyRange {
    let mut key = keys::composite_prefix(index::composite_id(index));
    let mut is_clear = true;
    for (sort_key, column) in after.keys.iter().zip(&index.paths) {
        let value = index::fit(sort_key, index::COLUMN_STRING_BYTES_MAX);
        is_clear = is_whole(&value) && !is_unclear(&value);
        if !is_clear {
            break;
        }
        index::put_column(&mut key, sort_key, column.descending);
    }
    if !is_clear || turns_ties {
        return from_prefix(range, key, direction);
    }
    key.extend_from_slice(&after.rid.to_be_bytes());
    from_bound(range, Bound::Included(key), direction)
}

/// The part of a range from the first, or the last, key with a prefix on.
fn from_prefix(range: KeyRange, prefix: Vec<u8>, direction: Direction) -> KeyRange {
    let KeyRange { start, end } = KeyRange::prefix(&prefix);
    let bound = if direction == Direction::Forward { start } else { end };
    from_bound(range, bound, direction)
}

/// Is this an encoded scalar or undefined, from its first byte to its end, and nothing cut?
fn is_whole(value: &[u8]) -> bool {
    match value {
        [0] => true,
        _ => index::EntryValue::new(value).is_whole(),
    }
}

/// The first places of a range of an index.
struct FirstPlaces {
    places: PlaceList,
    /// There are no more.
    is_all: bool,
}

impl Cached for FirstPlaces {
    fn bytes(&self) -> usize {
        self.places.bytes()
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
