//! Items in the order of ORDER BY, from an index.
//!
//! The terms of a path are in the order of their values, equal ones by rid, and so are the entries
//! of a composite index: walking them, forward or backward, gives the items in order. Three things
//! do not lie in that line:
//!
//! - Items without a scalar at the path have no term. Their shapes tell which they are: those
//!   without a value come first (in ascending order), arrays and objects last.
//! - A value that was cut, an array or an object in a composite entry stands for several values.
//!   Such a group of items is handed out as [`Piece::Unclear`]: load, then sort.
//! - Equal columns of a composite index are by rid, oldest first, also where the order wants the
//!   newest first. Such a group is collected and turned around.
//!
//! A walk that is resumed begins at or a little before the place; who takes the items skips the
//! rows that were delivered.

use std::collections::VecDeque;
use std::ops::Bound;

use partita_model::{CompositeIndex, Error, IndexStep, Result};
use partita_query::access::{Interval, Kinds};
use partita_storage::{Direction, Entry, KeyRange};

use super::lookup::{Shapes, interval_range, scalars};
use super::reader::{Chunks, IndexReader, rid_of};
use super::rid_set::RidSet;
use crate::index;
use crate::keys;
use crate::query::position::{Order, SortPosition};

/// Items with equal keys whose order has to be turned around; only their rids are held.
const TIES_MAX: usize = 8 << 20;

/// The next items of an order.
pub(super) enum Piece {
    /// In order. The keys are those of the last entry looked at, if its value tells them.
    Ordered { rids: Vec<u64>, class: Class, passed: Option<SortPosition> },
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

    pub(super) fn of(sort_key: &[u8]) -> Class {
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
    filter: Option<&'w RidSet>,
    direction: Direction,
}

enum Segment<'w> {
    /// The items of a class, found by their shapes.
    ByShape {
        class: Class,
        kinds: Kinds,
        shapes: Shapes,
        from: Option<u64>,
    },
    Entries(Entries<'w>),
}

/// A walk over entries.
struct Entries<'w> {
    chunks: Chunks,
    pending: VecDeque<Entry>,
    of: Columns<'w>,
    /// A group that is not complete yet.
    open: Option<Group>,
    ended: bool,
}

/// How to read an entry.
enum Columns<'w> {
    Term { path: Vec<u8> },
    Composite { index: &'w CompositeIndex, turn_ties: bool },
}

struct Group {
    prefix: Vec<u8>,
    rids: Vec<u64>,
    unclear: bool,
}

impl<'w> OrderWalk<'w> {
    /// By one path. `within`: only scalars in these intervals. None if shapes cannot tell who has
    /// no value.
    pub(super) fn by_path(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        within: Option<&[Interval]>,
        order: &Order,
        after: Option<&SortPosition>,
        filter: Option<&'w RidSet>,
    ) -> Result<Option<OrderWalk<'w>>> {
        let path = index::path_prefix(steps, reader.terms);
        let direction = direction_of(order.rids_descend());
        let mut segments = VecDeque::new();
        let entries = |range: KeyRange| {
            let range = match after {
                Some(after) => resume_term(range, &path, after, direction),
                None => range,
            };
            Segment::Entries(Entries::new(range, direction, Columns::Term { path: path.clone() }))
        };
        let passed = after.map(|after| Class::of(after.keys.first().map_or(&[], Vec::as_slice)));
        let by_shape = |class, kinds, shapes| {
            let from = after.filter(|_| passed == Some(class)).map(|after| after.rid);
            Segment::ByShape { class, kinds, shapes, from }
        };
        match within {
            Some(intervals) => {
                segments.extend(intervals.iter().map(|one| entries(interval_range(&path, one))));
            }
            None => {
                let Some(shapes) = Shapes::read(reader, steps, &path)? else { return Ok(None) };
                let trees = Kinds { array: true, object: true, ..Kinds::NONE };
                segments.push_back(by_shape(Class::Undefined, Kinds::UNDEFINED, shapes.clone()));
                segments.push_back(entries(scalars(&path)));
                segments.push_back(by_shape(Class::Tree, trees, shapes));
            }
        }
        if direction == Direction::Backward {
            segments.make_contiguous().reverse();
        }
        if let Some(passed) = passed {
            segments.retain(|segment| match direction {
                Direction::Forward => segment.class() >= passed,
                Direction::Backward => segment.class() <= passed,
            });
        }
        Ok(Some(OrderWalk { segments, filter, direction }))
    }

    /// By the columns of a composite index; `range` is a part of it.
    pub(super) fn by_composite(
        index: &'w CompositeIndex,
        range: KeyRange,
        order: &Order,
        after: Option<&SortPosition>,
        filter: Option<&'w RidSet>,
    ) -> OrderWalk<'w> {
        let descends = index.paths.first().is_some_and(|column| column.descending);
        let direction = direction_of(descends != order.rids_descend());
        let turn_ties = descends;
        let range = match after {
            Some(after) => resume_composite(range, index, after, direction, turn_ties),
            None => range,
        };
        let of = Columns::Composite { index, turn_ties };
        let segments = VecDeque::from([Segment::Entries(Entries::new(range, direction, of))]);
        OrderWalk { segments, filter, direction }
    }

    /// The next items, about `wanted` of them; None at the end. May be empty before that.
    pub(super) fn next(
        &mut self,
        reader: &mut IndexReader<'_>,
        wanted: usize,
    ) -> Result<Option<Piece>> {
        while let Some(segment) = self.segments.front_mut() {
            match segment {
                Segment::Entries(entries) => match entries.next(reader, wanted, self.filter)? {
                    Some(piece) => return Ok(Some(piece)),
                    None => self.segments.pop_front(),
                },
                Segment::ByShape { class, kinds, shapes, from } => {
                    let found = by_shape(reader, shapes, *kinds, self.filter)?;
                    let piece = piece_by_shape(*class, &found, *from, self.direction);
                    self.segments.pop_front();
                    return Ok(Some(piece));
                }
            };
        }
        Ok(None)
    }
}

/// The items of some kinds; those whose shape is not known are among them.
fn by_shape(
    reader: &mut IndexReader<'_>,
    shapes: &Shapes,
    kinds: Kinds,
    filter: Option<&RidSet>,
) -> Result<RidSet> {
    let mut found = RidSet::default();
    for shape in shapes.with(kinds).chain([index::UNKNOWN_SHAPE]) {
        reader.walk_rids(&keys::shape_range(shape), Direction::Forward, |rid, _| {
            if filter.is_none_or(|filter| filter.contains(rid)) {
                found.insert(rid);
            }
            std::ops::ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

fn piece_by_shape(class: Class, found: &RidSet, from: Option<u64>, towards: Direction) -> Piece {
    if class == Class::Tree {
        return Piece::Unclear { rids: found.iter_from(0).collect(), class };
    }
    let rids = match towards {
        Direction::Forward => found.iter_from(from.unwrap_or(0)).collect(),
        Direction::Backward => found.iter_down_from(from.unwrap_or(u64::MAX)).collect(),
    };
    Piece::Ordered { rids, class, passed: None }
}

impl Segment<'_> {
    fn class(&self) -> Class {
        match self {
            Segment::ByShape { class, .. } => *class,
            Segment::Entries(_) => Class::Scalar,
        }
    }
}

impl<'w> Entries<'w> {
    fn new(range: KeyRange, direction: Direction, of: Columns<'w>) -> Entries<'w> {
        let chunks = Chunks::new(range, direction);
        Entries { chunks, pending: VecDeque::new(), of, open: None, ended: false }
    }

    fn next(
        &mut self,
        reader: &mut IndexReader<'_>,
        wanted: usize,
        filter: Option<&RidSet>,
    ) -> Result<Option<Piece>> {
        let mut rids = Vec::new();
        let mut last: Option<Entry> = None;
        loop {
            while let Some(entry) = self.pending.pop_front() {
                if let Some(group) = &mut self.open {
                    if entry.key.starts_with(&group.prefix) {
                        group.take(&entry, filter)?;
                        continue;
                    }
                    self.pending.push_front(entry);
                    return Ok(self.close());
                }
                if let Some(mut group) = self.of.group(&entry)? {
                    if last.is_some() {
                        self.pending.push_front(entry);
                        return Ok(Some(self.ordered(rids, last)));
                    }
                    group.take(&entry, filter)?;
                    self.open = Some(group);
                    continue;
                }
                let rid = rid_of(&entry.key)?;
                if filter.is_none_or(|filter| filter.contains(rid)) {
                    rids.push(rid);
                }
                last = Some(entry);
                if rids.len() >= wanted {
                    return Ok(Some(self.ordered(rids, last)));
                }
            }
            if last.is_some() {
                return Ok(Some(self.ordered(rids, last)));
            }
            match self.chunks.next(reader)? {
                Some(entries) => self.pending = entries.into(),
                None if self.ended => return Ok(None),
                None => {
                    self.ended = true;
                    return Ok(self.close());
                }
            }
        }
    }

    fn ordered(&self, rids: Vec<u64>, last: Option<Entry>) -> Piece {
        let passed = last.and_then(|entry| self.of.position(&entry));
        Piece::Ordered { rids, class: self.of.class(), passed }
    }

    fn close(&mut self) -> Option<Piece> {
        let mut group = self.open.take()?;
        let class = self.of.class();
        if group.unclear {
            return Some(Piece::Unclear { rids: group.rids, class });
        }
        group.rids.reverse();
        Some(Piece::Ordered { rids: group.rids, class, passed: None })
    }
}

impl Group {
    fn take(&mut self, entry: &Entry, filter: Option<&RidSet>) -> Result<()> {
        let rid = rid_of(&entry.key)?;
        if filter.is_none_or(|filter| filter.contains(rid)) {
            self.rids.push(rid);
        }
        check_ties(self.rids.len())
    }
}

/// Fails when there are too many items with equal keys to turn them around.
pub(super) fn check_ties(items: usize) -> Result<()> {
    if items <= TIES_MAX {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "More than {TIES_MAX} items have the same ORDER BY values. Order by more columns, or narrow \
         the filter."
    )))
}

impl Columns<'_> {
    fn class(&self) -> Class {
        match self {
            Columns::Term { .. } => Class::Scalar,
            Columns::Composite { .. } => Class::Any,
        }
    }

    /// The group that an entry belongs to, if it cannot be handed out alone.
    fn group(&self, entry: &Entry) -> Result<Option<Group>> {
        let damaged = || Error::corrupt("an index entry is damaged");
        let end = entry.key.len().checked_sub(size_of::<u64>()).ok_or_else(damaged)?;
        let group = |end: usize, unclear| {
            let prefix = entry.key.get(..end).map(<[u8]>::to_vec).ok_or_else(damaged)?;
            Ok(Some(Group { prefix, rids: Vec::new(), unclear }))
        };
        match self {
            Columns::Term { path } => {
                let long = entry.key.len() > index::string_bytes_max(path);
                let cut =
                    long && keys::term_value(&entry.key, path).is_some_and(|value| value.is_cut());
                if cut { group(end, true) } else { Ok(None) }
            }
            Columns::Composite { index, turn_ties } => {
                let columns = index::columns_of(&entry.key, index).ok_or_else(damaged)?;
                let widths = columns.iter().map(Vec::len);
                let start = end.checked_sub(widths.sum::<usize>()).ok_or_else(damaged)?;
                let unclear = columns.iter().position(|column| is_unclear(column));
                match unclear {
                    Some(at) => {
                        let width: usize = columns.iter().take(at + 1).map(Vec::len).sum();
                        group(start + width, true)
                    }
                    None if *turn_ties => group(end, false),
                    None => Ok(None),
                }
            }
        }
    }

    /// The place behind an entry whose value is clear.
    fn position(&self, entry: &Entry) -> Option<SortPosition> {
        let keys = match self {
            Columns::Term { path } => {
                vec![keys::term_value(&entry.key, path)?.bytes().to_vec()]
            }
            Columns::Composite { index, .. } => index::columns_of(&entry.key, index)?,
        };
        let rid = keys::entry_rid(&entry.key)?;
        Some(SortPosition { keys, rid, row: crate::query::position::ALL_ROWS })
    }
}

/// Does an encoded column stand for several values?
pub(super) fn is_unclear(column: &[u8]) -> bool {
    index::is_cut(column) || column.first().is_some_and(|tag| *tag >= index::ARRAY)
}

pub(super) fn direction_of(backward: bool) -> Direction {
    if backward { Direction::Backward } else { Direction::Forward }
}

/// The part of a range of terms that lies at or behind a place.
pub(super) fn resume_term(
    range: KeyRange,
    path: &[u8],
    after: &SortPosition,
    direction: Direction,
) -> KeyRange {
    let Some(sort_key) = after.keys.first() else { return range };
    let value = index::fit(sort_key, index::string_bytes_max(path));
    let mut key = Vec::with_capacity(path.len() + value.len() + 9);
    keys::put_term_prefix(&mut key, path);
    key.extend_from_slice(&value);
    from_place(range, key, is_whole(&value).then_some(after.rid), direction)
}

/// The part of a range of composite entries that lies at or behind a place.
pub(super) fn resume_composite(
    range: KeyRange,
    index: &CompositeIndex,
    after: &SortPosition,
    direction: Direction,
    turn_ties: bool,
) -> KeyRange {
    let mut key = keys::composite_prefix(index::composite_id(index));
    let mut clear = true;
    for (sort_key, column) in after.keys.iter().zip(&index.paths) {
        let value = index::fit(sort_key, index::COLUMN_STRING_BYTES_MAX);
        clear = is_whole(&value) && !is_unclear(&value);
        if !clear {
            break;
        }
        index::put_column(&mut key, sort_key, column.descending);
    }
    let rid = (clear && !turn_ties).then_some(after.rid);
    from_place(range, key, rid, direction)
}

fn from_place(
    mut range: KeyRange,
    mut key: Vec<u8>,
    rid: Option<u64>,
    direction: Direction,
) -> KeyRange {
    if let Some(rid) = rid {
        key.extend_from_slice(&rid.to_be_bytes());
    }
    match direction {
        Direction::Forward => {
            let later = match &range.start {
                Bound::Included(start) | Bound::Excluded(start) => *start < key,
                Bound::Unbounded => true,
            };
            if later {
                range.start = Bound::Included(key);
            }
        }
        Direction::Backward => {
            let end = match rid {
                Some(_) => Bound::Included(key),
                None => KeyRange::prefix(&key).end,
            };
            let earlier = match (&range.end, &end) {
                (_, Bound::Unbounded) => false,
                (Bound::Unbounded, _) => true,
                (
                    Bound::Included(old) | Bound::Excluded(old),
                    Bound::Included(new) | Bound::Excluded(new),
                ) => new < old,
            };
            if earlier {
                range.end = end;
            }
        }
    }
    range
}

/// Is this an encoded scalar or undefined, from its first byte to its end, and nothing cut?
fn is_whole(value: &[u8]) -> bool {
    match value {
        [0] => true,
        _ => index::EntryValue::new(value).is_whole(),
    }
}
