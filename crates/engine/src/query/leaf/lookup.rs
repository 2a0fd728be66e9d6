//! From an [`Access`] to the set of items it describes, by the index alone.
//!
//! A condition becomes ranges of index entries, whose rids go into a set; AND intersects sets, the
//! cheapest first, and OR unites them. A condition that the index cannot answer, or that would
//! bring too many items to be worth it, is left out: the set grows by that, and whoever loads the
//! items evaluates the query on them anyway. Only a set that is said to be exact may be believed
//! without a look at the items.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{IndexStep, Lsn, Result};
use partita_query::Run;
use partita_query::access::{Access, Condition, Interval, Kinds, Test, ValueTest};
use partita_storage::{Direction, KeyRange, PartitionId};

use super::composite::{Part, composite_use};
use super::explain::condition_text;
use super::indexed::{add_use, path_use};
use super::reader::{IndexReader, rid_of};
use super::rid_set::RidSet;
use crate::database::QuerySettings;
use crate::index::{self, ServedPolicy};
use crate::keys;
use crate::op::IndexUse;
use crate::query::cache::{Known, ResultCache};

/// Beyond this many distinct shapes, asking each of them costs more than it saves.
const SHAPES_MAX: usize = 4_096;
/// What it costs to begin a range, in entries.
const RANGE_COST: u64 = 16;
/// With so few items left, looking at them is cheaper than another condition.
const FEW: u64 = 64;
/// The effort of the first look at each of several conditions.
const FIRST_TRY: u64 = 1_024;
/// After so many entries of a value that does not pass, a new search finds the next value sooner.
const SKIP_AFTER: u64 = 128;
/// Loading an item costs about as much as looking at this many entries.
const ENTRIES_PER_LOAD: u64 = 25;

/// What the index says of a filter.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing that narrows it down; true if indeed every item matches.
    Everything { exact: bool },
    /// Only these; true if all of them match.
    Only { rids: RidSet, exact: bool },
}

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A condition may bring this many items; more are not worth it.
    Selective(u64),
    /// Answer everything, for nobody will look at the items.
    Exact,
}

/// What is left of several sets.
struct Intersection {
    rids: Option<RidSet>,
    exact: bool,
}

impl Intersection {
    fn meet(&mut self, found: Found) {
        match found {
            Found::Everything { exact } => self.exact &= exact,
            Found::Only { rids, exact } => {
                self.exact &= exact;
                match &mut self.rids {
                    None => self.rids = Some(rids),
                    Some(held) => held.intersect(&rids),
                }
            }
        }
    }
}

/// What was found before, for the partition and the moment that a lookup is about.
#[derive(Clone, Copy)]
pub(super) struct Memory<'m> {
    pub(super) cache: &'m ResultCache,
    pub(super) at: (PartitionId, Lsn),
    pub(super) settings: &'m QuerySettings,
}

/// Answers accesses from the index.
pub(super) struct Lookup<'l, 'a, 'q> {
    pub(super) reader: &'l mut IndexReader<'a>,
    pub(super) memory: Memory<'l>,
    pub(super) served: &'l ServedPolicy<'l>,
    pub(super) run: &'l mut Run<'q>,
    pub(super) effort: Effort,
    /// Whether somebody wants to know the following.
    pub(super) explains: bool,
    /// What was done, for people.
    pub(super) steps: &'l mut Vec<String>,
    pub(super) used: &'l mut Vec<IndexUse>,
}

impl Lookup<'_, '_, '_> {
    pub(super) fn find(&mut self, access: &Access) -> Result<Found> {
        match access {
            Access::All => Ok(Found::Everything { exact: true }),
            Access::Unknown => Ok(Found::Everything { exact: false }),
            Access::Nothing => Ok(Found::Only { rids: RidSet::default(), exact: true }),
            Access::Condition(condition) => self.condition(condition),
            Access::And(parts) => self.all_of(access, parts),
            Access::Or(parts) => self.any_of(parts),
        }
    }

    /// Intersects. If the items are loaded afterwards, a condition is worth no more than the loads
    /// that it saves: the selective ones are found with little effort, then the others may try.
    fn all_of(&mut self, whole: &Access, parts: &[Access]) -> Result<Found> {
        let mut open: Vec<&Access> = parts.iter().collect();
        open.sort_by_key(|part| cost(part));
        let mut all = Intersection { rids: None, exact: true };
        if let Some((found, answered)) = self.composite(whole)? {
            open.retain(|part| !matches!(part, Access::Condition(one) if answered.contains(&one)));
            all.meet(found);
        }
        let effort = self.effort;
        if let Effort::Selective(most) = effort {
            self.effort = Effort::Selective(most.min(FIRST_TRY));
            let mut later = Vec::new();
            for part in open {
                match self.find(part)? {
                    Found::Everything { exact: false } => later.push(part),
                    found => all.meet(found),
                }
            }
            open = later;
        }
        for part in open {
            if let (Some(rids), Effort::Selective(most)) = (&all.rids, effort) {
                if rids.len() <= FEW {
                    all.exact = false;
                    break;
                }
                self.effort = Effort::Selective(most.min(rids.len() * ENTRIES_PER_LOAD));
            } else {
                self.effort = effort;
            }
            let found = self.find(part)?;
            all.meet(found);
        }
        self.effort = effort;
        Ok(match all.rids {
            Some(rids) => {
                self.note(|| format!("intersect → {} rids", rids.len()));
                Found::Only { exact: all.exact || rids.is_empty(), rids }
            }
            None => Found::Everything { exact: all.exact },
        })
    }

    /// The items that a composite index has for two conditions or more, and which ones those are.
    fn composite<'q>(&mut self, whole: &'q Access) -> Result<Option<(Found, Vec<&'q Condition>)>> {
        let parts = self.served.composites().map(|index| (index, Part::of(index, whole)));
        let Some((index, part)) = parts.max_by_key(|(_, part)| part.conditions.len()) else {
            return Ok(None);
        };
        // A range of the last column may bring more than fits: then the items have to be looked at.
        if part.conditions.len() < 2 || !part.exact && self.effort == Effort::Exact {
            return Ok(None);
        }
        let mut rids = RidSet::default();
        let effort = self.effort;
        let mut too_many = false;
        self.reader.walk_rids(&part.range, Direction::Forward, |rid, _| {
            rids.insert(rid);
            too_many = exceeds(effort, rids.len());
            if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if too_many {
            return Ok(None);
        }
        if self.explains {
            let used = composite_use(index);
            let paths = used.paths.join(", ");
            self.note(|| format!("composite index {paths} → {} rids", rids.len()));
            self.used.push(used);
        }
        Ok(Some((Found::Only { rids, exact: part.exact }, part.conditions)))
    }

    fn any_of(&mut self, parts: &[Access]) -> Result<Found> {
        let mut all = RidSet::default();
        let mut exact = true;
        for part in parts {
            match self.find(part)? {
                Found::Everything { exact: true } => return Ok(Found::Everything { exact: true }),
                Found::Everything { exact: false } => {
                    return Ok(Found::Everything { exact: false });
                }
                Found::Only { rids, exact: is } => {
                    exact &= is;
                    all.union(rids);
                    if self.is_too_many(&all, 0) {
                        return Ok(Found::Everything { exact: false });
                    }
                }
            }
        }
        self.note(|| format!("unite → {} rids", all.len()));
        Ok(Found::Only { rids: all, exact })
    }

    fn condition(&mut self, condition: &Condition) -> Result<Found> {
        if !self.served.indexes(&condition.path) {
            return Ok(Found::Everything { exact: false });
        }
        let path = index::path_prefix(&condition.path, self.reader.terms);
        let found = match &condition.test {
            Test::Values(intervals) => self.values(&path, intervals)?,
            Test::Each(test) => self.each(&path, test)?,
            Test::Kinds(kinds) => self.kinds(&condition.path, &path, *kinds)?,
        };
        let Some((rids, sure)) = found else { return Ok(Found::Everything { exact: false }) };
        let exact = condition.exact && sure;
        self.note(|| format!("index {} → {} rids", condition_text(condition), rids.len()));
        if self.explains {
            add_use(self.used, IndexUse { precise: exact, ..path_use(&condition.path) });
        }
        Ok(Found::Only { rids, exact })
    }

    /// Adds a step to what was done.
    fn note(&mut self, step: impl FnOnce() -> String) {
        if self.explains {
            self.steps.push(step());
        }
    }

    /// The items with a value in one of the intervals; None: too many. False: a value was cut, so
    /// its item has to be looked at.
    fn values(&mut self, path: &[u8], intervals: &[Interval]) -> Result<Option<(RidSet, bool)>> {
        let mut rids = RidSet::default();
        let mut sure = true;
        for (at, interval) in intervals.iter().enumerate() {
            let range = interval_range(path, interval);
            let cost = at as u64 * RANGE_COST + rids.len();
            let Some(known) = self.interval(path, &range, cost)? else { return Ok(None) };
            sure &= known.sure;
            rids.union(known.rids);
        }
        Ok(Some((rids, sure)))
    }

    /// The items with a value in a range. What is remembered counts as if it were looked at: a
    /// query costs the same whoever asked before.
    fn interval(&mut self, path: &[u8], range: &KeyRange, cost: u64) -> Result<Option<Known>> {
        let Memory { cache, at, settings } = self.memory;
        let effort = self.effort;
        if let Some(known) = cache.get::<Known>(at, range) {
            if let Effort::Selective(most) = effort
                && exceeds(effort, known.rids.len() + cost)
            {
                self.reader.scanned += most.saturating_sub(cost) + 1;
                return Ok(None);
            }
            self.reader.scanned += known.entries;
            return Ok(Some(Known::clone(&known)));
        }
        let mut known = Known { rids: RidSet::default(), entries: 0, sure: true };
        let ended = self.reader.walk_rids(range, Direction::Forward, |rid, key| {
            known.rids.insert(rid);
            known.entries += 1;
            known.sure = known.sure && !may_be_cut(key, path);
            let too_many = exceeds(effort, known.rids.len() + cost);
            if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !ended {
            return Ok(None);
        }
        if known.entries >= settings.cache_entries_min {
            cache.put(at, range, Arc::new(known.clone()));
        }
        Ok(Some(known))
    }

    /// The items with a value that passes; each distinct value is asked once.
    fn each(&mut self, path: &[u8], test: &ValueTest) -> Result<Option<(RidSet, bool)>> {
        let mut each =
            Each { path, test, rids: RidSet::default(), sure: true, asked: Vec::new(), same: 0 };
        let mut range = scalars(path);
        loop {
            let (run, effort) = (&mut *self.run, self.effort);
            let mut too_many = false;
            // How many entries in a row had a value that does not pass.
            let (mut passes, mut idle) = (false, 0);
            let ended = self.reader.walk(&range, Direction::Forward, |key, _| {
                passes = each.take(key, passes, run)?;
                idle = if passes { 0 } else { idle + 1 };
                too_many = exceeds(effort, each.rids.len());
                let skip = too_many || idle >= SKIP_AFTER && each.same >= SKIP_AFTER;
                Ok(if skip { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if too_many {
                return Ok(None);
            }
            if ended {
                return Ok(Some((each.rids, each.sure)));
            }
            // Many items with one value that does not pass: on to the next value.
            let after = keys::term_range(path, Bound::Excluded(&each.asked), Bound::Unbounded);
            range.start = after.start;
            each.same = 0;
        }
    }

    /// The items whose shape has a value of one of the kinds at the path.
    fn kinds(
        &mut self,
        steps: &[IndexStep],
        path: &[u8],
        kinds: Kinds,
    ) -> Result<Option<(RidSet, bool)>> {
        let Some(shapes) = Shapes::read(self.reader, steps, path)? else { return Ok(None) };
        let mut rids = RidSet::default();
        for shape in shapes.with(kinds) {
            let effort = self.effort;
            let mut too_many = false;
            let range = keys::shape_range(shape);
            self.reader.walk_rids(&range, Direction::Forward, |rid, _| {
                rids.insert(rid);
                too_many = exceeds(effort, rids.len());
                if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if too_many {
                return Ok(None);
            }
        }
        let doubtful = self.reader.walk_rids(
            &keys::shape_range(index::UNKNOWN_SHAPE),
            Direction::Forward,
            |rid, _| {
                rids.insert(rid);
                ControlFlow::Continue(())
            },
        )?;
        let sure = doubtful && !shapes.has_unknown;
        Ok(Some((rids, sure)))
    }

    fn is_too_many(&self, rids: &RidSet, cost: u64) -> bool {
        exceeds(self.effort, rids.len() + cost)
    }
}

/// Values being tested, in their order.
struct Each<'t> {
    path: &'t [u8],
    test: &'t ValueTest,
    rids: RidSet,
    sure: bool,
    /// The value that was asked last, and how many entries had it.
    asked: Vec<u8>,
    same: u64,
}

impl Each<'_> {
    /// Takes one entry; returns whether its value passes. `passes` is what was said of the entry
    /// before.
    fn take(&mut self, key: &[u8], mut passes: bool, run: &mut Run<'_>) -> Result<bool> {
        let Some(value) = keys::term_value(key, self.path) else { return Ok(passes) };
        self.same += 1;
        if self.asked != value.bytes() {
            self.same = 1;
            self.asked.clear();
            self.asked.extend_from_slice(value.bytes());
            let told = match value.scalar() {
                Some(scalar) => self.test.passes(run, scalar)?,
                None => None,
            };
            self.sure = self.sure && told.is_some();
            passes = told.unwrap_or(true);
        }
        if passes {
            self.rids.insert(rid_of(key)?);
        }
        Ok(passes)
    }
}

fn exceeds(effort: Effort, items: u64) -> bool {
    match effort {
        Effort::Selective(most) => items > most,
        Effort::Exact => false,
    }
}

/// What an access is likely to cost; only the order counts.
fn cost(access: &Access) -> u64 {
    match access {
        Access::Nothing => 0,
        Access::Condition(condition) => match &condition.test {
            Test::Values(intervals) => {
                let points = intervals.iter().filter(|interval| interval.as_point().is_some());
                let (points, all) = (points.count() as u64, intervals.len() as u64);
                points + (all - points) * 1_000
            }
            Test::Kinds(_) => 20_000,
            Test::Each(_) => 100_000,
        },
        Access::Or(parts) | Access::And(parts) => {
            parts.iter().map(cost).fold(10, u64::saturating_add)
        }
        Access::All | Access::Unknown => u64::MAX,
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

/// What the shapes of a partition have at one path.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    kinds: Vec<(u64, Option<index::Kind>)>,
    /// Are there items whose shape is not known?
    pub(super) has_unknown: bool,
}

impl Shapes {
    /// None if shapes do not tell of the path, or if there are too many of them.
    pub(super) fn read(
        reader: &mut IndexReader<'_>,
        steps: &[IndexStep],
        path: &[u8],
    ) -> Result<Option<Shapes>> {
        let is_told = steps.len() <= index::SHAPE_DEPTH_MAX
            && steps.iter().all(|step| matches!(step, IndexStep::Member(_)));
        if !is_told {
            return Ok(None);
        }
        let mut kinds = Vec::new();
        let few = reader.walk(&keys::shapes(), Direction::Forward, |key, value| {
            if let (Some(id), Some(shape)) = (keys::shape_of(key), index::Shape::parse(value)) {
                kinds.push((id, shape.kind(path)));
            }
            let many = kinds.len() > SHAPES_MAX;
            Ok(if many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !few {
            return Ok(None);
        }
        let mut has_unknown = false;
        let unknown = keys::shape_range(index::UNKNOWN_SHAPE);
        reader.walk(&unknown, Direction::Forward, |_, _| {
            has_unknown = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(Some(Shapes { kinds, has_unknown }))
    }

    /// About how much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.kinds.len() * size_of::<(u64, Option<index::Kind>)>()
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
}
