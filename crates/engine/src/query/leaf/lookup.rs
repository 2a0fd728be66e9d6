//! From an [`Access`] to the set of items it describes, by the index alone.
//!
//! A condition becomes ranges of index entries, whose rids go into a set; AND intersects sets, the
//! cheapest first, and OR unites them. A condition that the index cannot answer, or that would
//! bring too many items to be worth it, is left out: the set grows by that, and whoever loads the
//! items evaluates the query on them anyway. Only a set that is said to be exact may be believed
//! without a look at the items.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use partita_model::{IndexStep, Result};
use partita_query::Run;
use partita_query::access::{Access, Condition, Interval, Kinds, Test, ValueTest};
use partita_storage::{Direction, KeyRange};

use super::choose::cost;
use super::plan::{ItemSet, Trace, composite_use, condition_text, path_use};
use super::reader::{CompositePart, IndexReader, interval_range, may_be_cut, rid_of, scalars};
use crate::index::{self, RidSet, ServedPolicy};
use crate::keys;
use crate::op::IndexUse;
use crate::query::cache::Known;

/// What the index says of a filter.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing that narrows it down; true if indeed every item matches.
    Everything {
        exact: bool,
    },
    Only(ItemSet),
}

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A condition may bring this many items; more are not worth it.
    Selective(u64),
    /// Answer everything, for nobody will look at the items.
    Exact,
}

/// What a filter, or a part of one, leaves.
struct Part {
    /// None: nothing narrows it down.
    rids: Option<RidSet>,
    /// Do all of these match?
    exact: bool,
}

impl Part {
    fn everything(exact: bool) -> Part {
        Part { rids: None, exact }
    }

    fn only(rids: RidSet, exact: bool) -> Part {
        Part { rids: Some(rids), exact }
    }

    /// Keeps what another part leaves, too.
    fn meet(&mut self, other: Part) {
        self.exact &= other.exact;
        match (&mut self.rids, other.rids) {
            (Some(held), Some(rids)) => held.intersect(&rids),
            (held, Some(rids)) => *held = Some(rids),
            (_, None) => {}
        }
    }
}

/// Asks the index which items an access describes. The trace says what was done, if somebody wants
/// to know.
pub(super) fn look_up(
    reader: &mut IndexReader<'_>,
    served: &ServedPolicy<'_>,
    run: &mut Run<'_>,
    (access, effort): (&Access, Effort),
    trace: Option<Trace>,
) -> Result<Found> {
    let mut lookup = Lookup { reader, served, run, effort, trace, depth: 0 };
    let Part { rids, exact } = lookup.find(access)?;
    let trace = lookup.trace.unwrap_or_default();
    Ok(match rids {
        None => Found::Everything { exact },
        Some(rids) => Found::Only(ItemSet { rids, exact, trace }),
    })
}

/// A lookup under way.
struct Lookup<'l, 'a, 'q> {
    reader: &'l mut IndexReader<'a>,
    served: &'l ServedPolicy<'l>,
    run: &'l mut Run<'q>,
    effort: Effort,
    trace: Option<Trace>,
    /// Of how many ANDs and ORs what is looked up is a part.
    depth: usize,
}

impl Lookup<'_, '_, '_> {
    fn find(&mut self, access: &Access) -> Result<Part> {
        match access {
            Access::All => Ok(Part::everything(true)),
            Access::Unknown => Ok(Part::everything(false)),
            Access::Nothing => {
                self.note(|| ("no item".to_owned(), None));
                Ok(Part::only(RidSet::default(), true))
            }
            Access::Condition(condition) => self.condition(condition),
            Access::And(parts) => self.within("intersect", |lookup| lookup.all_of(access, parts)),
            Access::Or(parts) => self.within("unite", |lookup| lookup.any_of(parts)),
        }
    }

    /// Finds the parts of an AND or OR, and notes them below it.
    fn within(&mut self, name: &str, find: impl FnOnce(&mut Self) -> Result<Part>) -> Result<Part> {
        let begun = self.trace.as_ref().map(Trace::mark);
        self.depth += 1;
        let found = find(self);
        self.depth -= 1;
        if let (Some(trace), Some(begun)) = (&mut self.trace, begun) {
            match found.as_ref().ok().and_then(|part| part.rids.as_ref()) {
                Some(rids) => {
                    trace.put_above(begun, self.depth, &format!("{name}: {}", rids.len()));
                }
                None => trace.back_to(begun),
            }
        }
        found
    }

    /// Intersects. If the items are loaded afterwards, a condition is worth no more than the loads
    /// that it saves: the selective ones are found with little effort, then the others may try.
    fn all_of(&mut self, whole: &Access, parts: &[Access]) -> Result<Part> {
        let mut open: Vec<&Access> = parts.iter().collect();
        open.sort_by_key(|part| cost::of_access(part));
        let mut all = Part::everything(true);
        if let Some((found, answered)) = self.composite(whole)? {
            open.retain(|part| !matches!(part, Access::Condition(one) if answered.contains(&one)));
            all.meet(found);
        }
        let effort = self.effort;
        if let Effort::Selective(most) = effort {
            self.effort = Effort::Selective(most.min(cost::FIRST_TRY));
            let mut later = Vec::new();
            for part in open {
                match self.find(part)? {
                    Part { rids: None, exact: false } => later.push(part),
                    part => all.meet(part),
                }
            }
            open = later;
        }
        for part in open {
            if let (Some(rids), Effort::Selective(most)) = (&all.rids, effort) {
                if rids.len() <= cost::FEW {
                    all.exact = false;
                    break;
                }
                self.effort = Effort::Selective(most.min(rids.len() * cost::ENTRIES_PER_LOAD));
            } else {
                self.effort = effort;
            }
            let part = self.find(part)?;
            all.meet(part);
        }
        self.effort = effort;
        all.exact |= all.rids.as_ref().is_some_and(RidSet::is_empty);
        Ok(all)
    }

    /// The items that a composite index has for two conditions or more, and which ones those are.
    fn composite<'q>(&mut self, whole: &'q Access) -> Result<Option<(Part, Vec<&'q Condition>)>> {
        let parts = self.served.composites().map(|index| (index, CompositePart::of(index, whole)));
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
        self.note(|| {
            let used = composite_use(index);
            (format!("composite index {used}: {}", rids.len()), Some(used))
        });
        Ok(Some((Part::only(rids, part.exact), part.conditions)))
    }

    fn any_of(&mut self, parts: &[Access]) -> Result<Part> {
        let mut all = RidSet::default();
        let mut exact = true;
        for part in parts {
            let part = self.find(part)?;
            let Some(rids) = part.rids else { return Ok(Part::everything(part.exact)) };
            exact &= part.exact;
            all.union(rids);
            if exceeds(self.effort, all.len()) {
                return Ok(Part::everything(false));
            }
        }
        Ok(Part::only(all, exact))
    }

    fn condition(&mut self, condition: &Condition) -> Result<Part> {
        if !self.served.indexes(&condition.path) {
            return Ok(Part::everything(false));
        }
        let path = index::path_prefix(&condition.path, self.reader.terms);
        let found = match &condition.test {
            Test::Values(intervals) => self.values(&path, intervals)?,
            Test::Each(test) => self.each(&path, test)?,
            Test::Kinds(kinds) => self.kinds(&condition.path, *kinds)?,
        };
        let Some((rids, sure)) = found else { return Ok(Part::everything(false)) };
        let exact = condition.exact && sure;
        self.note(|| {
            let used = IndexUse { precise: exact, ..path_use(&condition.path) };
            (format!("index {}: {}", condition_text(condition), rids.len()), Some(used))
        });
        Ok(Part::only(rids, exact))
    }

    /// Notes what was done, and with which index.
    fn note(&mut self, step: impl FnOnce() -> (String, Option<IndexUse>)) {
        if let Some(trace) = &mut self.trace {
            let (line, used) = step();
            trace.push(self.depth, &line);
            used.into_iter().for_each(|used| trace.uses(used));
        }
    }

    /// The items with a value in one of the intervals; None: too many. False: a value was cut, so
    /// its item has to be looked at.
    fn values(&mut self, path: &[u8], intervals: &[Interval]) -> Result<Option<(RidSet, bool)>> {
        let mut rids = RidSet::default();
        let mut sure = true;
        for (at, interval) in intervals.iter().enumerate() {
            let range = interval_range(path, interval);
            let spent = at as u64 * cost::RANGE + rids.len();
            let Some(known) = self.interval(path, &range, spent)? else { return Ok(None) };
            sure &= known.sure;
            rids.union(known.rids);
        }
        Ok(Some((rids, sure)))
    }

    /// The items with a value in a range; None: too many. `spent`: what was found before counts
    /// towards that.
    fn interval(&mut self, path: &[u8], range: &KeyRange, spent: u64) -> Result<Option<Known>> {
        let effort = self.effort;
        if let Some(known) = self.reader.remembered::<Known>(range) {
            if let Effort::Selective(most) = effort
                && exceeds(effort, known.rids.len() + spent)
            {
                // As far as it would have been looked at.
                self.reader.scanned += most.saturating_sub(spent) + 1;
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
            let too_many = exceeds(effort, known.rids.len() + spent);
            if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !ended {
            return Ok(None);
        }
        self.reader.keep(range, known.entries, || Arc::new(known.clone()));
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
                let skip = too_many || idle >= cost::SKIP_AFTER && each.same >= cost::SKIP_AFTER;
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
    fn kinds(&mut self, steps: &[IndexStep], kinds: Kinds) -> Result<Option<(RidSet, bool)>> {
        let Some(shapes) = self.reader.shapes(steps)? else { return Ok(None) };
        let mut rids = RidSet::default();
        let effort = self.effort;
        for shape in shapes.with(kinds) {
            let range = keys::shape_range(shape);
            let ended = self.reader.walk_rids(&range, Direction::Forward, |rid, _| {
                rids.insert(rid);
                let too_many = exceeds(effort, rids.len());
                if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if !ended {
                return Ok(None);
            }
        }
        if shapes.has_unknown {
            let range = keys::shape_range(index::UNKNOWN_SHAPE);
            self.reader.walk_rids(&range, Direction::Forward, |rid, _| {
                rids.insert(rid);
                ControlFlow::Continue(())
            })?;
        }
        Ok(Some((rids, !shapes.has_unknown)))
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
