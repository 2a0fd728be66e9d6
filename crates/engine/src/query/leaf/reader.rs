//! Reads a partition's index: its entries, and what is remembered of them.
//!
//! A reader shows the entries of a range, one after another, and counts them. What took a while to
//! find is remembered (`cache.rs`) and counts as if it were read again: a query costs the same
//! whoever asked before.
//!
//! Here is also which range answers what: values of a path, a part of a composite index, and the
//! *shapes* that tell what kind of value items have at a path.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{CompositeIndex, Error, IndexStep, Lsn, Result};
use partita_query::OrderFact;
use partita_query::access::{Access, Condition, Interval, Kinds, Test};
use partita_storage::{Direction, KeyRange, PartitionId, Snapshot, Space};

use super::{Budget, Leaf};
use crate::index::{self, ServedPolicy, Terms};
use crate::keys;
use crate::query::cache::{Cached, ResultCache};

/// The time is looked at once in so many entries: in a tenth of a millisecond, about.
const CHECK_EVERY: u64 = 1_024;
/// Beyond this many distinct shapes, asking each of them costs more than it saves.
const SHAPES_MAX: usize = 4_096;

/// The index of one partition at one moment.
pub(super) struct IndexReader<'a> {
    view: &'a dyn Snapshot,
    budget: Budget<'a>,
    cache: &'a ResultCache,
    at: (PartitionId, Lsn),
    /// How the container's index is written.
    pub(super) terms: Terms,
    /// Entries looked at so far.
    pub(super) scanned: u64,
    /// Those of them that were told to whoever counts for the query.
    told: u64,
}

/// Who fails tells nothing: what was looked at is paid for all the same.
impl Drop for IndexReader<'_> {
    fn drop(&mut self) {
        let untold = self.tell();
        if untold > 0 {
            self.budget.supervision.note_lost(untold);
        }
    }
}

impl<'a> IndexReader<'a> {
    pub(super) fn of(leaf: &Leaf<'a>) -> IndexReader<'a> {
        IndexReader {
            view: leaf.view,
            budget: leaf.budget,
            cache: leaf.cache,
            at: (leaf.partition.id, leaf.view.lsn()),
            terms: leaf.container.terms,
            scanned: 0,
            told: 0,
        }
    }

    /// The entries looked at since this was asked last.
    pub(super) fn tell(&mut self) -> u64 {
        let untold = self.scanned.saturating_sub(self.told);
        self.told = self.scanned;
        untold
    }

    /// Calls `f` for the entries of a range until it breaks or fails. True if it came to the end.
    pub(super) fn walk(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        self.budget.check_whole_time()?;
        let mut end: Result<bool> = Ok(true);
        let (scanned, budget) = (&mut self.scanned, self.budget);
        self.view.walk(Space::Index, range, direction, &mut |key, value| {
            *scanned += 1;
            let in_time =
                if *scanned % CHECK_EVERY == 0 { budget.check_whole_time() } else { Ok(()) };
            match in_time.and_then(|()| f(key, value)) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => {
                    end = Ok(false);
                    ControlFlow::Break(())
                }
                Err(error) => {
                    end = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        end
    }

    /// Calls `f` with the rid of every entry of a range, until it breaks.
    pub(super) fn walk_rids(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut f: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.walk(range, direction, |key, _| Ok(f(rid_of(key)?, key)))
    }

    /// What is remembered of a range.
    pub(super) fn remembered<T: Cached>(&self, range: &KeyRange) -> Option<Arc<T>> {
        self.cache.get(self.at, range)
    }

    pub(super) fn remember<T: Cached>(&self, range: &KeyRange, found: Arc<T>) {
        self.cache.put(self.at, range, found);
    }

    /// What was found in a range before, or is found now.
    pub(super) fn found<T: Cached>(
        &mut self,
        range: &KeyRange,
        find: impl FnOnce(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<Arc<T>>> {
        if let Some(found) = self.remembered::<T>(range) {
            self.scanned += found.entries();
            return Ok(Some(found));
        }
        let Some(found) = find(self)?.map(Arc::new) else { return Ok(None) };
        self.keep(range, found.entries(), || Arc::clone(&found));
        Ok(Some(found))
    }

    /// Remembers what it took this many entries to find, if that is worth it.
    pub(super) fn keep<T: Cached>(
        &self,
        range: &KeyRange,
        entries: u64,
        found: impl FnOnce() -> Arc<T>,
    ) {
        if entries >= self.budget.settings.cache_entries_min {
            self.remember(range, found());
        }
    }

    /// What the shapes of the partition have at a path. None if shapes do not tell of it, or if
    /// there are too many of them.
    pub(super) fn shapes(&mut self, steps: &[IndexStep]) -> Result<Option<Arc<Shapes>>> {
        let is_told = steps.len() <= index::SHAPE_DEPTH_MAX
            && steps.iter().all(|step| matches!(step, IndexStep::Member(_)));
        if !is_told {
            return Ok(None);
        }
        let path = index::path_prefix(steps, self.terms);
        let name = scalars(&path);
        if let Some(shapes) = self.remembered::<Shapes>(&name) {
            self.scanned += shapes.entries;
            return Ok(Some(shapes));
        }
        let Some(shapes) = Shapes::read(self, &path)?.map(Arc::new) else { return Ok(None) };
        self.remember(&name, Arc::clone(&shapes));
        Ok(Some(shapes))
    }
}

/// The rid that an entry ends with.
pub(super) fn rid_of(key: &[u8]) -> Result<u64> {
    keys::entry_rid(key).ok_or_else(|| Error::corrupt("an index entry has no resource id"))
}

/// The part of a range from a key on, in a direction. A key outside the range changes nothing.
pub(super) fn from_bound(range: KeyRange, bound: Bound<Vec<u8>>, direction: Direction) -> KeyRange {
    let (key, is_behind) = match &bound {
        Bound::Included(key) => (key, false),
        Bound::Excluded(key) => (key, true),
        Bound::Unbounded => return range,
    };
    let narrows = |old: &Bound<Vec<u8>>| match old {
        Bound::Unbounded => true,
        Bound::Included(old) | Bound::Excluded(old) if old == key => is_behind,
        Bound::Included(old) | Bound::Excluded(old) => {
            (old < key) == (direction == Direction::Forward)
        }
    };
    match direction {
        Direction::Forward if narrows(&range.start) => KeyRange { start: bound, ..range },
        Direction::Backward if narrows(&range.end) => KeyRange { end: bound, ..range },
        Direction::Forward | Direction::Backward => range,
    }
}

/// The entries of a path with values in an interval.
pub(super) fn interval_range(path: &[u8], interval: &Interval) -> KeyRange {
    let low = interval.low.as_ref().map(Vec::as_slice);
    keys::term_range(path, low, interval.high.as_ref().map(Vec::as_slice))
}

/// The entries of a path with scalar values: all but those of empty arrays and objects.
pub(super) fn scalars(path: &[u8]) -> KeyRange {
    keys::term_range(path, Bound::Unbounded, Bound::Excluded(&[index::ARRAY]))
}

/// Only long keys can hold a string that was cut.
pub(super) fn may_be_cut(key: &[u8], path: &[u8]) -> bool {
    key.len() > index::string_bytes_max(path)
        && keys::term_value(key, path).is_some_and(|value| value.is_cut())
}

/// Arrays and objects, which have no entries of their own: only shapes tell who has them.
pub(super) const TREES: Kinds = Kinds { array: true, object: true, ..Kinds::NONE };

/// What the shapes of a partition have at one path.
#[derive(Debug)]
pub(super) struct Shapes {
    kinds: Vec<(u64, Option<index::Kind>)>,
    /// Are there items whose shape is not known?
    pub(super) has_unknown: bool,
    entries: u64,
}

impl Cached for Shapes {
    fn bytes(&self) -> usize {
        self.kinds.len() * size_of::<(u64, Option<index::Kind>)>()
    }
}

impl Shapes {
    fn read(reader: &mut IndexReader<'_>, path: &[u8]) -> Result<Option<Shapes>> {
        let before = reader.scanned;
        let mut kinds = Vec::new();
        let are_few = reader.walk(&keys::shapes(), Direction::Forward, |key, value| {
            if let (Some(id), Some(shape)) = (keys::shape_of(key), index::Shape::parse(value)) {
                kinds.push((id, shape.kind(path)));
            }
            let many = kinds.len() > SHAPES_MAX;
            Ok(if many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !are_few {
            return Ok(None);
        }
        let unknown = keys::shape_range(index::UNKNOWN_SHAPE);
        let has_none =
            reader.walk_rids(&unknown, Direction::Forward, |_, _| ControlFlow::Break(()))?;
        let entries = reader.scanned - before;
        Ok(Some(Shapes { kinds, has_unknown: !has_none, entries }))
    }

    /// The shapes that have one of the kinds at the path.
    pub(super) fn with(&self, wanted: Kinds) -> impl Iterator<Item = u64> {
        let fits = move |kind: &Option<index::Kind>| match kind {
            None => wanted.undefined,
            Some(index::Kind::Scalar) => wanted.scalar,
            Some(index::Kind::Array) => wanted.array,
            Some(index::Kind::Object) => wanted.object,
        };
        self.kinds.iter().filter(move |(_, kind)| fits(kind)).map(|(id, _)| *id)
    }

    /// The same, and the unknown one.
    pub(super) fn that_may_have(&self, wanted: Kinds) -> impl Iterator<Item = u64> {
        self.with(wanted).chain(self.has_unknown.then_some(index::UNKNOWN_SHAPE))
    }
}

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

/// The part of a composite index in which a filter can be true. An entry has the values of several
/// paths side by side: if a filter requires one value of each of the leading columns, their entries
/// are a range, and within it the next column is in order, so that one more interval narrows it.
pub(super) struct CompositePart<'q> {
    pub(super) range: KeyRange,
    /// The conditions that every entry of the range fulfils, or may fulfil.
    pub(super) conditions: Vec<&'q Condition>,
    /// Do the entries fulfil them for sure?
    pub(super) exact: bool,
}

impl<'q> CompositePart<'q> {
    /// Leading columns that have to have one value, then one that lies in an interval.
    pub(super) fn of(index: &CompositeIndex, access: &'q Access) -> CompositePart<'q> {
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
                    return CompositePart { range, conditions, exact: false };
                }
            }
        }
        let range = keys::composite_range(&prefix, Bound::Unbounded, Bound::Unbounded, false);
        let exact = conditions.iter().all(|condition| condition.exact);
        CompositePart { range, conditions, exact }
    }
}
