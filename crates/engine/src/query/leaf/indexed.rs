//! Answering a query through the index.
//!
//! First the index is asked which items the filter leaves (`lookup.rs`). Few items are loaded by
//! their rids; if they are many, or the index cannot tell, going through all items in the order of
//! their keys is cheaper, for they lie side by side there. An ordered query either sorts the few,
//! or walks an index that has its order and stops when it has enough (`order_walk.rs`).
//!
//! Whatever the plan, the query is evaluated on every item that is loaded. So a lookup may bring
//! too much, and rows come in the same order with the same positions as those of a scan. Only where
//! a lookup is exact and items are given as they are, nothing is left to be evaluated.

use std::ops::ControlFlow;

use partita_model::{Document, Error, IndexStep, PartitionKey, Result};
use partita_query::access::{Access, Test};
use partita_query::{OrderFact, PlainRow};
use partita_storage::{Direction, Space, counter};

use super::composite::{Part, composite_for, composite_use, values_at};
use super::explain::path_text;
use super::items::{self, Item, item_row};
use super::lookup::{Effort, Found, Lookup, Memory};
use super::order_walk::{Class, OrderWalk, Piece};
use super::places::{self, Led};
use super::reader::IndexReader;
use super::rid_set::RidSet;
use super::top::TopRows;
use super::{Emit, End, Leaf, Vain, cost, scan, sift};
use crate::keys;
use crate::op::IndexUse;
use crate::query::position::{ALL_ROWS, LeafRow, Order, Position, SortPosition};

/// A lookup may always bring this many items.
const LOOKUP_LEAST: u64 = 256;
/// The logical partitions of a part of a partition are looked at up to this many, to count items.
const HEADS_MAX: usize = 64;
/// Loads grow from the first number to the second.
pub(super) const BATCH_FIRST: usize = 16;
pub(super) const BATCH_MAX: usize = 256;
/// A walk that loaded this many items, and few of them fit the filter, is given up for a scan.
const WALK_LOADS: u64 = 4_096;

/// Gives the rows of a query without ORDER BY.
pub(super) fn unordered(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let resumed = match after {
        None => None,
        Some(Position::Rid { rid, row }) => Some((*rid, *row)),
        Some(Position::Key { .. } | Position::Sorted(_)) => return scan::by_key(leaf, after, emit),
    };
    // What began oldest first goes on like that, whatever it costs in a large partition.
    let is_bound = resumed.is_some() && leaf.goes_by_key(None)?;
    let most = if is_bound { Some(u64::MAX) } else { worthwhile(leaf)? };
    let found = match most {
        Some(most) => look_up(leaf, leaf.query.access(), Effort::Selective(most))?,
        None => Found::Everything { exact: false },
    };
    if let Found::Only { rids, exact } = found {
        return by_rid(leaf, (&rids, exact), resumed, emit);
    }
    match sift::stream(leaf, resumed, emit)? {
        Some(end) => Ok(end),
        None if leaf.goes_by_key(after)? => scan_as_paid(leaf, after, emit),
        None => by_age(leaf, after, emit),
    }
}

/// Gives rows oldest item first, where no index says which items have any. A walk along resource
/// ids ends with the last row that is wanted, but loads item by item; going through all items takes
/// less for each. The walk is tried where it may be the shorter way, and given up when it is not.
fn by_age(leaf: &mut Leaf<'_>, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
    let (reach, items) = (leaf.items_in_reach()?, leaf.items_in_partition()?);
    // Resource ids lead past all items of the partition.
    let passed = items / reach.max(1);
    let want = u64::try_from(leaf.want).unwrap_or(u64::MAX);
    let walk_cost = want.saturating_mul(cost::LOAD.saturating_add(passed));
    let may_scan = leaf.may_be_held()?;
    let scan_cost = if may_scan { reach.saturating_mul(cost::SCAN) } else { u64::MAX };
    if may_scan && walk_cost >= scan_cost {
        return scan::oldest(leaf, after, emit);
    }
    let (mut given, mut last) = (0, None);
    let before = (leaf.report.documents_loaded, leaf.report.document_bytes);
    let end = scan::by_rid(leaf, after, scan_cost, &mut |row: LeafRow| {
        given += 1;
        last = Some(row.position.clone());
        emit(row)
    })?;
    let vain = std::mem::take(&mut leaf.vain);
    if let Some(end) = end {
        if vain.documents > 0 && answers(leaf, leaf.query.access()) {
            leaf.report.spared_documents += vain.documents;
            leaf.report.spared_bytes += vain.bytes;
        }
        return Ok(end);
    }
    // What was loaded in vain is looked at again, and paid for then.
    leaf.report.spared_documents += leaf.report.documents_loaded - before.0;
    leaf.report.spared_bytes += leaf.report.document_bytes - before.1;
    let want = leaf.want;
    leaf.want = want.saturating_sub(given).max(1);
    let end = scan::oldest(leaf, last.as_ref().or(after), emit);
    leaf.want = want;
    leaf.note(|| "give up the walk along resource ids: few of its items fit the filter".to_owned());
    end
}

/// Scans because that takes less time than the index. It must not cost more: items that an index
/// would have passed over are not paid for.
fn scan_as_paid(leaf: &mut Leaf<'_>, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
    let before = (leaf.report.documents_loaded, leaf.report.document_bytes, leaf.report.rows_out);
    let end = match leaf.query.facts().ordered {
        true => scan::stream(leaf, after, emit)?,
        false => scan::by_key(leaf, after, emit)?,
    };
    let facts = leaf.query.facts();
    let loaded = leaf.report.documents_loaded - before.0;
    let (documents, bytes) = match leaf.query.access() {
        // An index that has the order leads to the rows that are wanted, and no further.
        Access::All if facts.ordered && !facts.joins => {
            let documents = loaded.saturating_sub(leaf.report.rows_out - before.2);
            let bytes = u128::from(leaf.report.document_bytes - before.1);
            let share = bytes * u128::from(documents) / u128::from(loaded.max(1));
            (documents, u64::try_from(share).unwrap_or(0))
        }
        Access::All | Access::Nothing | Access::Unknown => (0, 0),
        access => match leaf.vain.documents > 0 && answers(leaf, access) {
            true => (leaf.vain.documents, leaf.vain.bytes),
            false => (0, 0),
        },
    };
    leaf.report.spared_documents += documents;
    leaf.report.spared_bytes += bytes;
    leaf.vain = Vain::default();
    Ok(end)
}

/// Would indexes find exactly the items that a filter leaves?
pub(super) fn answers(leaf: &Leaf<'_>, access: &Access) -> bool {
    let narrows = !matches!(access, Access::All | Access::Unknown | Access::Nothing);
    narrows && access.is_exact() && is_served(leaf, access)
}

/// Are there indexes for all conditions?
fn is_served(leaf: &Leaf<'_>, access: &Access) -> bool {
    let served = leaf.container.served_policy();
    let mut all = true;
    access.visit(&mut |condition| all = all && served.indexes(&condition.path));
    all
}

/// How many items a lookup may bring to be better than a scan; None if it cannot be.
fn worthwhile(leaf: &mut Leaf<'_>) -> Result<Option<u64>> {
    if matches!(leaf.query.access(), Access::All | Access::Unknown) {
        return Ok(None);
    }
    let items = leaf.items_in_reach()?;
    if items <= leaf.budget.settings.scan_items && *leaf.query.access() != Access::Nothing {
        return Ok(None);
    }
    Ok(Some((items * cost::SCAN / cost::LOAD).max(LOOKUP_LEAST)))
}

/// Asks the index, and notes in the report what was done.
pub(super) fn look_up(leaf: &mut Leaf<'_>, access: &Access, effort: Effort) -> Result<Found> {
    let begun = leaf.moment();
    let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
    let mut steps = Vec::new();
    let mut lookup = Lookup {
        reader: &mut reader,
        memory: Memory {
            cache: leaf.cache,
            at: (leaf.partition.id, leaf.view.lsn()),
            settings: budget.settings,
        },
        served: &leaf.container.served_policy(),
        run: &mut leaf.run,
        effort,
        explains: leaf.explains,
        steps: &mut steps,
        used: &mut leaf.report.indexes_used,
    };
    let found = lookup.find(access)?;
    leaf.report.lookup_nanos += leaf.since(begun);
    leaf.report.entries_scanned += reader.scanned;
    // The last to run comes first in a plan.
    steps.reverse();
    leaf.report.plan = steps.join("\n");
    Ok(found)
}

/// The rows of these items, oldest item first. If they are exact, all of them pass the filter.
fn by_rid(
    leaf: &mut Leaf<'_>,
    (rids, is_exact): (&RidSet, bool),
    resumed: Option<(u64, u32)>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    leaf.note(|| format!("fetch by resource id, up to {}", rids.len()));
    let mut left = rids.iter_from(resumed.map_or(0, |(rid, _)| rid)).peekable();
    let mut size = BATCH_FIRST;
    let facts = leaf.query.facts();
    let is_item = is_exact && facts.plain == Some(PlainRow::Item) && !facts.distinct;
    while left.peek().is_some() {
        let batch: Vec<u64> = left.by_ref().take(size).collect();
        size = (size * 2).min(BATCH_MAX);
        let items = items::fetch(leaf, &batch)?;
        let is_last = left.peek().is_none();
        for (at, item) in items.iter().enumerate() {
            let done = resumed.filter(|(rid, _)| *rid == item.rid).map_or(0, |(_, row)| row);
            let flow = match is_item {
                true if done > 0 => ControlFlow::Continue(()),
                true => {
                    leaf.report.rows_out += 1;
                    let (row, rid) = (item_row(leaf, item)?, item.rid);
                    emit(LeafRow { row, position: Position::Rid { rid, row: 1 } })
                }
                false => rows_by_rid(leaf, item, done, emit)?,
            };
            if flow.is_break() {
                let ended = is_last && at + 1 == items.len() && !leaf.query.facts().joins;
                return Ok(if ended { End::Exhausted } else { End::Stopped });
            }
        }
        if let (false, true, Some(rid)) = (is_last, leaf.page_is_over(), batch.last()) {
            return Ok(End::OutOfBudget(Position::Rid { rid: *rid, row: ALL_ROWS }));
        }
    }
    Ok(End::Exhausted)
}

/// The rows of an item that are not done yet.
pub(super) fn rows_by_rid(
    leaf: &mut Leaf<'_>,
    item: &Item,
    done: u32,
    emit: &mut Emit<'_>,
) -> Result<ControlFlow<()>> {
    let (run, report) = (&mut leaf.run, &mut leaf.report);
    let rid = item.rid;
    let mut flow = ControlFlow::Continue(());
    report.rows_evaluated += 1;
    run.rows(Document::new(item.text()?), &mut |row| {
        let number = row.ordinal.saturating_add(1);
        if number > done {
            report.rows_out += 1;
            flow = emit(LeafRow { row, position: Position::Rid { rid, row: number } });
        }
        flow
    })?;
    Ok(flow)
}

/// Refuses an order that no index has, as the service does. An index leads to items: it has no
/// order of what a JOIN or a subquery makes of them.
pub(super) fn check_order(leaf: &Leaf<'_>) -> Result<()> {
    let order = &leaf.query.facts().order;
    if order.iter().any(|column| !column.is_of_item) {
        return Err(refused(CORRELATED));
    }
    let Some(paths) = paths_of(order) else { return Ok(()) };
    let served = leaf.container.served_policy();
    if paths.len() == 1 {
        let covered = paths.iter().all(|path| served.indexes(path));
        return if covered { Ok(()) } else { Err(refused(EXCLUDED)) };
    }
    match composite_for(&served, order, &paths) {
        Some(_) => Ok(()),
        None => Err(refused(NO_COMPOSITE)),
    }
}

const CORRELATED: &str = "Order-by over correlated collections is not supported.";
const EXCLUDED: &str = "The index path corresponding to the specified order-by item is excluded.";
const NO_COMPOSITE: &str = "The order by query does not have a corresponding composite index that \
                            it can be served from.";

fn refused(message: &str) -> Error {
    Error::bad_request(format!(r#"{{"Errors":["{message}"]}}"#))
}

/// The paths of an order; None if a column is something else than a way through members.
pub(super) fn paths_of(order: &[OrderFact]) -> Option<Vec<&[IndexStep]>> {
    order.iter().map(|column| column.path.as_deref().filter(|path| !path.is_empty())).collect()
}

/// Gives the rows of a query with ORDER BY.
pub(super) fn ordered(
    leaf: &mut Leaf<'_>,
    after: Option<&Position>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let facts = leaf.query.facts();
    let Some(paths) = paths_of(&facts.order) else { return scan::stream(leaf, after, emit) };
    let order = Order::of(facts);
    let place = sorted(after);
    let reach = leaf.items_in_reach()?;
    if reach <= leaf.budget.settings.scan_items && !places::gives_once(leaf) {
        return scan_as_paid(leaf, after, emit);
    }
    let is_answered = is_answered_by_walk(leaf.query.access(), &paths);
    let after = match places::stream(leaf, place, emit)? {
        Led::To(end) => return Ok(end),
        Led::Until(at) => at.map(Position::Sorted),
    };
    let after = after.as_ref();
    let place = sorted(after);
    let filter = if is_answered { None } else { narrowed(leaf, &paths, reach)? };
    let sort_items = leaf.budget.settings.sort_items;
    if let Some(rids) = filter.as_ref().filter(|rids| rids.len() <= sort_items) {
        leaf.note(|| format!("fetch {}, sort", rids.len()));
        let rids: Vec<u64> = rids.iter_from(0).collect();
        return Ok(match sort(leaf, &order, place, &rids, Class::Any, emit)? {
            Sorted::All => End::Exhausted,
            Sorted::Stopped => End::Stopped,
            Sorted::UpTo(last) => End::OutOfBudget(Position::Sorted(last)),
        });
    }
    // A key's items lie side by side; an index goes through all keys of the partition.
    if !leaf.only.is_empty() && reach <= sort_items {
        return scan::stream(leaf, after, emit);
    }
    let (view, budget, terms) = (leaf.view, leaf.budget, leaf.container.terms);
    let deadline = || budget.check_whole_time();
    let mut reader = IndexReader { view, deadline: &deadline, terms, scanned: 0 };
    let walk = match paths.as_slice() {
        [path] => {
            let within = values_at(leaf.query.access(), path);
            let walk =
                OrderWalk::by_path(&mut reader, path, within, &order, place, filter.as_ref())?;
            note_use(leaf, || path_use(path));
            walk
        }
        _ => composite_for(&leaf.container.served_policy(), &facts.order, &paths).map(|index| {
            let range = Part::of(index, leaf.query.access()).range;
            note_use(leaf, || composite_use(index));
            OrderWalk::by_composite(index, range, &order, place, filter.as_ref())
        }),
    };
    match walk {
        Some(walk) => {
            // Where every item of the walk gives a row, as many are loaded as are wanted.
            let first = if is_answered { leaf.want } else { BATCH_FIRST.min(leaf.want) };
            Walking { order: &order, after: place, reader, walk, given: 0, last: None }.run(
                leaf,
                first.clamp(1, BATCH_MAX),
                emit,
            )
        }
        None => scan::stream(leaf, after, emit),
    }
}

fn sorted(position: Option<&Position>) -> Option<&SortPosition> {
    match position {
        Some(Position::Sorted(place)) => Some(place),
        Some(Position::Key { .. } | Position::Rid { .. }) | None => None,
    }
}

/// The items that the filter of an ordered query leaves, if finding them is worth it.
fn narrowed(leaf: &mut Leaf<'_>, paths: &[&[IndexStep]], reach: u64) -> Result<Option<RidSet>> {
    let most = match tells_only_of(leaf.query.access(), paths) {
        // The walk begins and ends where the filter says: a set of items would add little.
        true => LOOKUP_LEAST,
        false => (reach * cost::SCAN / cost::LOAD).max(LOOKUP_LEAST),
    };
    Ok(match look_up(leaf, leaf.query.access(), Effort::Selective(most))? {
        Found::Everything { .. } => None,
        Found::Only { rids, .. } => Some(rids),
    })
}

/// Does the walk along a path bring what a filter leaves, and nothing else?
pub(in crate::query) fn is_answered_by_walk(access: &Access, paths: &[&[IndexStep]]) -> bool {
    match (access, paths) {
        (Access::All, _) => true,
        (Access::Condition(condition), [path]) => {
            condition.exact && condition.path == *path && matches!(condition.test, Test::Values(_))
        }
        _ => false,
    }
}

/// Does a filter tell of nothing but values at these paths?
fn tells_only_of(access: &Access, paths: &[&[IndexStep]]) -> bool {
    let mut only = true;
    access.visit(&mut |condition| {
        let is_range = matches!(condition.test, Test::Values(_));
        only &= is_range && paths.contains(&condition.path.as_slice());
    });
    only && !matches!(access, Access::Or(_))
}

/// Notes a walk along an index.
pub(super) fn note_use(leaf: &mut Leaf<'_>, used: impl FnOnce() -> IndexUse) {
    if !leaf.explains {
        return;
    }
    let used = used();
    let kind = if used.composite { "composite index" } else { "index" };
    leaf.note(|| format!("walk {kind} {} in order", used.paths.join(", ")));
    add_use(&mut leaf.report.indexes_used, used);
}

/// Notes that the indexes of these paths were used.
pub(super) fn use_paths(leaf: &mut Leaf<'_>, paths: &[Vec<IndexStep>]) {
    for path in paths.iter().filter(|_| leaf.explains) {
        add_use(&mut leaf.report.indexes_used, path_use(path));
    }
}

/// The index of a path, which gives exactly the items that are asked for.
pub(super) fn path_use(path: &[IndexStep]) -> IndexUse {
    let paths = vec![format!("{}/?", path_text(path))];
    IndexUse { paths, composite: false, precise: true }
}

/// Adds an index, once.
pub(super) fn add_use(all: &mut Vec<IndexUse>, used: IndexUse) {
    if !all.contains(&used) {
        all.push(used);
    }
}

/// An ordered query on its way along an index.
struct Walking<'w, 'r> {
    order: &'w Order,
    after: Option<&'w SortPosition>,
    reader: IndexReader<'r>,
    walk: OrderWalk<'w>,
    /// Rows given so far, and the place behind the last of them.
    given: usize,
    last: Option<SortPosition>,
}

impl Walking<'_, '_> {
    /// `size`: how many items to load first.
    fn run(mut self, leaf: &mut Leaf<'_>, mut size: usize, emit: &mut Emit<'_>) -> Result<End> {
        let loaded_before = leaf.report.documents_loaded;
        loop {
            let scanned = self.reader.scanned;
            let begun = leaf.moment();
            let piece = self.walk.next(&mut self.reader, size)?;
            leaf.report.lookup_nanos += leaf.since(begun);
            leaf.report.entries_scanned += self.reader.scanned - scanned;
            size = (size * 2).min(BATCH_MAX);
            let Some(piece) = piece else { return Ok(End::Exhausted) };
            if let Some(end) = self.give(leaf, piece, emit)? {
                return Ok(end);
            }
            let loaded = leaf.report.documents_loaded - loaded_before;
            if loaded > WALK_LOADS && (self.given as u64) < loaded * cost::SCAN / (4 * cost::LOAD) {
                return self.give_up(leaf, emit);
            }
        }
    }

    /// Gives the rows of a piece; the end, if that is one.
    fn give(
        &mut self,
        leaf: &mut Leaf<'_>,
        piece: Piece,
        emit: &mut Emit<'_>,
    ) -> Result<Option<End>> {
        let (order, after) = (self.order, self.after);
        let mut counted = |row: LeafRow| {
            self.given += 1;
            if let Position::Sorted(at) = &row.position {
                self.last = Some(at.clone());
            }
            emit(row)
        };
        match piece {
            Piece::Ordered { rids, class, passed } => {
                for batch in rids.chunks(BATCH_MAX) {
                    if in_order(leaf, order, after, batch, class, &mut counted)?.is_break() {
                        return Ok(Some(End::Stopped));
                    }
                }
                let over = leaf.page_is_over().then_some(passed).flatten();
                Ok(over.map(|passed| End::OutOfBudget(Position::Sorted(passed))))
            }
            Piece::Unclear { rids, class } => {
                Ok(match sort(leaf, order, after, &rids, class, &mut counted)? {
                    Sorted::All => None,
                    Sorted::Stopped => Some(End::Stopped),
                    Sorted::UpTo(last) => Some(End::OutOfBudget(Position::Sorted(last))),
                })
            }
        }
    }

    /// Most items along the index do not fit the filter: goes on by scanning and sorting.
    fn give_up(self, leaf: &mut Leaf<'_>, emit: &mut Emit<'_>) -> Result<End> {
        let plan = leaf.report.plan.clone();
        let want = leaf.want;
        leaf.want = want.saturating_sub(self.given).max(1);
        let after = self.last.or_else(|| self.after.cloned()).map(Position::Sorted);
        let end = scan::stream(leaf, after.as_ref(), emit);
        leaf.want = want;
        let scanned = std::mem::replace(&mut leaf.report.plan, plan);
        leaf.note(|| format!("{scanned}\ngive up the walk: few of its items fit the filter"));
        end
    }
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
    for item in items::fetch(leaf, rids)? {
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
    Ok(ControlFlow::Continue(()))
}

fn is_after(order: &Order, row: &LeafRow, after: Option<&SortPosition>) -> bool {
    match (&row.position, after) {
        (Position::Sorted(at), Some(after)) => order.compare(at, after).is_gt(),
        _ => true,
    }
}

/// How far sorting got.
enum Sorted {
    All,
    Stopped,
    UpTo(SortPosition),
}

/// Loads items, sorts their rows and gives those behind a place.
fn sort(
    leaf: &mut Leaf<'_>,
    order: &Order,
    after: Option<&SortPosition>,
    rids: &[u64],
    class: Class,
    emit: &mut Emit<'_>,
) -> Result<Sorted> {
    let mut top = TopRows::new(order, after, leaf.want, leaf.budget.settings.sort_bytes_max);
    for batch in rids.chunks(BATCH_MAX) {
        for item in items::fetch(leaf, batch)? {
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
    let (rows, complete) = top.finish();
    let last = rows.last().map(|row| row.position.clone());
    for row in rows {
        leaf.report.rows_out += 1;
        if emit(row).is_break() {
            return Ok(Sorted::Stopped);
        }
    }
    Ok(match last {
        Some(Position::Sorted(last)) if !complete => Sorted::UpTo(last),
        _ => Sorted::All,
    })
}

impl Leaf<'_> {
    /// Adds a step to the plan, if there is one; the last to run comes first.
    pub(super) fn note(&mut self, step: impl FnOnce() -> String) {
        if !self.explains {
            return;
        }
        let step = step();
        let before = std::mem::take(&mut self.report.plan);
        self.report.plan = if before.is_empty() { step } else { format!("{step}\n{before}") };
    }

    /// Puts another plan in the place of the one so far, if there is one.
    pub(super) fn replan(&mut self, plan: impl FnOnce(&Self) -> String) {
        if self.explains {
            self.report.plan = plan(self);
        }
    }

    /// About how many items the leaf would have to go through in a scan.
    pub(super) fn items_in_reach(&self) -> Result<u64> {
        if let Some(items) = self.items_in_reach.get() {
            return Ok(*items);
        }
        let items = match self.whole_key() {
            Some(key) => {
                let epk = self.container.definition.partition_key.epk(&key);
                count_of(keys::head_parts(self.counter(&keys::head(&epk, &key))?).0)
            }
            None if self.restrict == self.partition.epks && self.parts.len() == 1 => {
                self.items_in_partition()?
            }
            None => match self.items_of_heads()? {
                Some(items) => items,
                None => self.items_in_partition()?,
            },
        };
        Ok(*self.items_in_reach.get_or_init(|| items))
    }

    /// How many items the partition has.
    pub(super) fn items_in_partition(&self) -> Result<u64> {
        let items = self.cache.items((self.partition.id, self.view.lsn()), || {
            self.counter(&keys::total(keys::Total::Items))
        })?;
        Ok(count_of(items))
    }

    /// The items of a part of the partition, if it has few logical partitions.
    fn items_of_heads(&self) -> Result<Option<u64>> {
        let (mut heads, mut items) = (0, 0);
        for part in self.parts {
            let range = keys::heads_in(part);
            self.view.walk(Space::Meta, &range, Direction::Forward, &mut |_, value| {
                heads += 1;
                items += counter(value).map_or(0, |count| count_of(keys::head_parts(count).0));
                if heads > HEADS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok((heads <= HEADS_MAX).then_some(items))
    }

    /// Are all items of the partition that pass the filter the leaf's?
    pub(super) fn is_whole(&self) -> bool {
        self.only.is_empty() && self.asks_all
    }

    /// May one page look at all items of the leaf?
    fn may_be_held(&self) -> Result<bool> {
        let settings = self.budget.settings;
        let most = settings.age_order_items_max.min(settings.page_entries_max);
        Ok(self.items_in_reach()? <= most.min(settings.whole_entries_max))
    }

    /// Do rows without an order come by key: because they began so, or because there are too many
    /// items to give the oldest first?
    pub(super) fn goes_by_key(&self, after: Option<&Position>) -> Result<bool> {
        match after {
            Some(Position::Key { .. }) => Ok(true),
            Some(Position::Rid { .. } | Position::Sorted(_)) => Ok(false),
            None => Ok(!self.may_be_held()?),
        }
    }

    /// The partition key, if the leaf is about one.
    pub(super) fn whole_key(&self) -> Option<PartitionKey> {
        let is_whole = self.only.len() == self.container.definition.partition_key.paths.len();
        is_whole.then(|| PartitionKey(self.only.to_vec()))
    }

    pub(super) fn counter(&self, key: &[u8]) -> Result<i64> {
        match self.view.get(Space::Meta, key)? {
            Some(record) => Ok(counter(&record.value)?),
            None => Ok(0),
        }
    }
}

/// Counters of a whole database are never below zero.
fn count_of(counter: i64) -> u64 {
    u64::try_from(counter).unwrap_or(0)
}
