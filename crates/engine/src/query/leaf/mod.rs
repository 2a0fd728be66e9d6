//! One partition's part of a query.
//!
//! A leaf looks at the items of one range of EPKs in one view of one partition, and gives their
//! rows in one of the orders of `places.rs`, or their groups. It applies FROM, WHERE, SELECT and
//! ORDER BY; what needs more than one partition (DISTINCT, TOP, OFFSET, merging) is not its
//! business. It is told how many rows can be used, and gives up its turn when it has looked at much
//! without finding them.
//!
//! What a query never sees: items that have expired, and items of other partition keys that share
//! an EPK. Where a former version kept items out of the index, partitions are scanned.
//!
//! **From the question to the rows.** `choose.rs` weighs the ways there are, by what
//! `statistics.rs` knows of the partition, and makes a plan (`plan.rs`), which prints. It has asked
//! the index for sets of items by then (`lookup.rs`). The plan runs:
//!
//! - `scan.rs` looks at every item. It is the way that is always there, and the one that all others
//!   are compared with.
//! - `items.rs` loads the items of a set.
//! - `columns.rs` decides filters that no index answers on columns of the index, and `groups.rs`
//!   makes groups of them.
//! - `order_walk.rs` walks along an index that has the order, and `ordered.rs` makes rows of that,
//!   of keys alone where they tell enough (`key_rows.rs`).
//!
//! A position is good for all of them: what one way began, another can go on with.

mod choose;
mod columns;
mod groups;
mod items;
mod key_rows;
mod lookup;
mod order_walk;
mod ordered;
mod plan;
mod reader;
mod scan;
mod statistics;

use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Clock, EpkRange, Error, KeyPart, MemoryShare, Reservation, Result, Usage};
use partita_query::{Groups, Query, Row, Run};
use partita_storage::Snapshot;

pub(super) use self::choose::is_answered_by_walk;
pub(super) use self::key_rows::is_of_one_value;

use self::choose::{Goal, check_order, choose};
use self::key_rows::KeyRows;
use self::ordered::Wanted;
use self::plan::{LeafPlan, way_to_rows};
use super::cache::ResultCache;
use super::places::{LeafRow, Order, PlaceList, Position, SortPosition, TopLimits, TopRows};
use super::scheduler::threads::Watch;
use crate::catalog::{Container, Partition};
use crate::context::Supervision;
use crate::core::Debit;
use crate::index;
use crate::keys;
use crate::live::LivePartition;
use crate::memory;
use crate::op::{IndexUse, LeafReport, PlanHint};
use crate::record::SeenItem;
use crate::settings::QuerySettings;

/// How a leaf ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There are no more rows.
    Exhausted,
    /// The receiver of the rows wanted no more.
    Stopped,
    /// Enough was looked at for one page. There may be more rows behind this place, which is
    /// further on than where the leaf began.
    OutOfBudget(Position),
}

/// Receives the rows of a leaf, one by one.
pub(super) type Emit<'e> = dyn FnMut(LeafRow) -> ControlFlow<()> + 'e;

/// One partition's part of one page.
pub(super) struct Leaf<'a> {
    pub(super) container: &'a Container,
    pub(super) partition: &'a Partition,
    pub(super) live: &'a LivePartition,
    pub(super) view: &'a dyn Snapshot,
    pub(super) cache: &'a ResultCache,
    /// The working memory of the query.
    pub(super) memory: &'a MemoryShare,
    pub(super) query: &'a Query,
    pub(super) run: Run<'a>,
    /// Only items whose EPK lies in here.
    pub(super) restrict: EpkRange,
    /// Only items whose partition key begins like this: two keys may have one EPK.
    pub(super) only: &'a [KeyPart],
    /// The parts of the range that have the keys which the filter names.
    pub(super) parts: &'a [EpkRange],
    /// The request asks for all of the partition: nothing but the filter narrows it.
    pub(super) asks_all: bool,
    pub(super) hint: PlanHint,
    /// The report tells the plan, its indexes and what took the time.
    pub(super) explains: bool,
    /// How many items there are, once somebody asked.
    pub(super) items_in_reach: OnceCell<u64>,
    /// No more rows than this are of use.
    pub(super) want: usize,
    pub(super) budget: Budget<'a>,
    pub(super) report: LeafReport,
    /// How its partition's limit is charged while it runs. None: it is not.
    pub(super) debit: Option<Debit>,
    pub(super) owed_cents: u64,
}

/// How far a leaf may go.
#[derive(Clone, Copy)]
pub(super) struct Budget<'a> {
    pub(super) settings: &'a QuerySettings,
    pub(super) clock: &'a dyn Clock,
    /// When the page began, on the clock's nanoseconds.
    pub(super) started_nanos: u64,
    pub(super) now_seconds: u64,
    /// Told the time at every look at the clock. If it says so, the time is over.
    pub(super) watch: Option<&'a Watch<'a>>,
    /// Asked at every look at the clock.
    pub(super) supervision: &'a Arc<Supervision>,
}

impl Budget<'_> {
    /// Has the page taken its time?
    pub(super) fn page_time_is_over(&self) -> Result<bool> {
        self.supervision.go_on()?;
        let now_nanos = self.clock.monotonic_nanos();
        let is_late = self.watch.is_some_and(|watch| watch(now_nanos));
        Ok(is_late || self.millis_until(now_nanos) >= self.settings.page_millis_max)
    }

    /// Has the page taken a good part of its time?
    pub(super) fn page_time_is_short(&self) -> bool {
        self.millis_until(self.clock.monotonic_nanos()) >= self.settings.page_millis_max / 4
    }

    /// Fails when a result that is worth nothing in parts has taken too long.
    pub(super) fn check_whole_time(&self) -> Result<()> {
        self.supervision.go_on()?;
        let now_nanos = self.clock.monotonic_nanos();
        let is_late = self.watch.is_some_and(|watch| watch(now_nanos));
        self.supervision.check_time(if is_late { u64::MAX } else { now_nanos })
    }

    fn millis_until(&self, now_nanos: u64) -> u64 {
        now_nanos.saturating_sub(self.started_nanos) / 1_000_000
    }
}

impl<'a> Leaf<'a> {
    /// Takes to scanning where the index does not have all items.
    pub(super) fn mind_left_out(&mut self) -> Result<()> {
        if self.hint == PlanHint::ScanOnly {
            return Ok(());
        }
        let former = self.container.policies.former.iter().map(|(_, policy)| policy);
        let policies = former.chain([&self.container.definition.indexing]);
        let has_all = || index::has_all_items(self.view, policies);
        if !self.cache.is_complete(self.partition.id, has_all)? {
            self.hint = PlanHint::ScanOnly;
        }
        Ok(())
    }

    /// Gives the rows behind a place, in order. The place also decides the order of an unordered
    /// query; without one the plan does.
    pub(super) fn rows(&mut self, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
        self.timed(|leaf| {
            let (facts, access) = (leaf.query.facts(), leaf.query.access());
            if facts.ordered {
                check_order(facts, &leaf.served())?;
            }
            let plan = choose(Goal::Rows { after }, facts, access, leaf)?;
            leaf.note(&plan);
            let place = after.and_then(Position::sorted);
            let resumed = after.and_then(Position::row_of_item);
            match &plan {
                LeafPlan::ScanByKey => scan::by_key(leaf, after, emit),
                LeafPlan::ScanByAge { cost_max } => scan::by_age(leaf, after, *cost_max, emit),
                LeafPlan::KeepOldest { .. } => scan::oldest(leaf, after, emit),
                LeafPlan::Sort { .. } => scan::sorted(leaf, after, emit),
                LeafPlan::Fetch(set) => items::rows(leaf, set, resumed, emit),
                LeafPlan::SortFetched { set, .. } => ordered::sorted(leaf, set, place, emit),
                LeafPlan::FilterColumns { judge, scan, made_of_keys } => {
                    columns::rows(leaf, (judge, scan, *made_of_keys), resumed, emit)
                }
                LeafPlan::Walk(walk) => ordered::rows(leaf, walk, place, emit),
                plan => Err(Error::internal(format!("groups instead of rows: {plan}"))),
            }
        })
    }

    /// The places of the rows behind one, in order, as many as are wanted; None where only the
    /// items tell them.
    pub(super) fn places(&mut self, after: Option<&Position>) -> Result<Option<(PlaceList, End)>> {
        self.timed(|leaf| {
            let (facts, access) = (leaf.query.facts(), leaf.query.access());
            check_order(facts, &leaf.served())?;
            let Some(walk) = choose::places(facts, access, leaf)? else { return Ok(None) };
            let found = ordered::places(leaf, &walk, after.and_then(Position::sorted))?;
            leaf.explain(|| (walk.to_string(), vec![walk.index_use()]));
            Ok(found)
        })
    }

    /// The row of each of some places that this leaf gave; none where the item has none. Of the
    /// first places only, if the rows of all would take more than so much memory.
    pub(super) fn rows_at(
        &mut self,
        places: &PlaceList,
        memory: &mut Reservation,
        memory_max: usize,
    ) -> Result<Vec<Option<Row>>> {
        self.timed(|leaf| {
            let maker = KeyRows::of_places(leaf, true);
            leaf.explain(|| (way_to_rows(maker.is_some()), Vec::new()));
            let wanted = Wanted { places, from: 0, memory, memory_max };
            let rows = ordered::rows_at(leaf, (true, maker.as_ref()), wanted)?;
            leaf.report.rows_out += rows.iter().flatten().count() as u64;
            Ok(rows)
        })
    }

    /// Gathers the groups of all items.
    pub(super) fn groups(&mut self) -> Result<Groups> {
        self.timed(|leaf| {
            let plan = choose(Goal::Groups, leaf.query.facts(), leaf.query.access(), leaf)?;
            leaf.note(&plan);
            match &plan {
                LeafPlan::Count { items } => groups::counted(leaf, *items),
                LeafPlan::Extremes(extremes) => extremes.groups(leaf),
                LeafPlan::GroupColumns { scan, is_exact } => {
                    groups::of_columns(leaf, scan, *is_exact)
                }
                LeafPlan::GroupFetched(set) => groups::of_items(leaf, set),
                LeafPlan::GroupScanned { by_age } => scan::groups(leaf, *by_age),
                plan => Err(Error::internal(format!("rows instead of groups: {plan}"))),
            }
        })
    }

    /// Puts the plan into the report.
    fn note(&mut self, plan: &LeafPlan<'_>) {
        self.explain(|| (plan.to_string(), plan.indexes()));
    }

    fn explain(&mut self, plan: impl FnOnce() -> (String, Vec<IndexUse>)) {
        if self.explains {
            let (plan, used) = plan();
            self.report.plan = plan;
            self.report.indexes_used = used;
        }
    }

    /// Gives a way up for another. So many rows were given.
    fn instead<T>(
        &mut self,
        because: &str,
        given: usize,
        other: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (want, first) = (self.want, std::mem::take(&mut self.report.plan));
        self.want = want.saturating_sub(given).max(1);
        let done = other(self);
        self.want = want;
        if self.explains {
            let first: Vec<String> = first.lines().map(|line| format!("  {line}")).collect();
            let second = &self.report.plan;
            self.report.plan =
                format!("{second}\nafter giving up, since {because}:\n{}", first.join("\n"));
        }
        done
    }

    /// The first rows of an order, which are kept while others pass by.
    fn top_rows<'t>(&self, order: &'t Order, after: Option<&'t SortPosition>) -> TopRows<'t> {
        let settings = self.budget.settings;
        let limits = TopLimits {
            want: self.want,
            bytes_max: settings.sort_bytes_max,
            // All that work on the query at the same time have a quarter: half is for rows that
            // others have found already.
            memory_max: self.memory.bytes_max() / (4 * settings.parallelism.max(1)),
        };
        TopRows::new(order, after, limits, self.memory.reservation(memory::SORTED))
    }

    /// Looked at, but not to be paid for.
    fn spare(&mut self, documents: u64, bytes: u64) {
        self.report.spared_documents += documents;
        self.report.spared_bytes += bytes;
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let started = self.budget.clock.monotonic_nanos();
        let result = work(self);
        let ended = self.budget.clock.monotonic_nanos();
        self.report.nanos += ended.saturating_sub(started);
        result
    }

    /// The time, if somebody wants to know what takes it.
    fn moment(&self) -> Option<u64> {
        self.explains.then(|| self.budget.clock.monotonic_nanos())
    }

    /// How long ago that was.
    fn since(&self, moment: Option<u64>) -> u64 {
        moment.map_or(0, |then| self.budget.clock.monotonic_nanos().saturating_sub(then))
    }

    /// May a query see this item?
    fn sees(&self, item_key: &[u8], item: &SeenItem<'_>) -> Result<bool> {
        let definition = &self.container.definition;
        if item.expired(definition.default_ttl, self.budget.now_seconds) {
            return Ok(false);
        }
        if self.only.is_empty() {
            return Ok(true);
        }
        let key = keys::parse_item(item_key, definition.partition_key.paths.len())
            .ok_or_else(|| Error::corrupt("the key of an item is damaged"))?;
        Ok(key.key.0.starts_with(self.only))
    }

    /// Has this leaf done its share of a page?
    fn page_is_over(&mut self) -> Result<bool> {
        self.owe();
        Ok(self.has_seen_its_share() || self.budget.page_time_is_over()?)
    }

    /// The same, with a look at the clock at every so many entries only, and after items that took
    /// long.
    fn page_is_over_every(&mut self, entries: u64) -> Result<bool> {
        if self.has_seen_its_share() {
            return Ok(true);
        }
        Ok(self.is_time_to_look(entries) && self.page_is_over()?)
    }

    fn is_time_to_look(&self, entries: u64) -> bool {
        self.report.entries_scanned.is_multiple_of(entries)
            || self.run.long_steps() > self.report.long_steps
    }

    /// Has the partition's limit know what this leaf costs for sure, as far as it has come. Of rows
    /// that is not what was loaded: an index might have spared it.
    fn owe(&mut self) {
        self.report.long_steps = self.run.long_steps();
        let Some(debit) = &self.debit else { return };
        let usage = match self.query.facts().is_grouped {
            true => self.report.usage(),
            false => Usage { long_steps: self.report.long_steps, ..Usage::default() },
        };
        let cents = debit.cents(&usage);
        if cents > self.owed_cents {
            debit.charge(self.live, self.budget.clock, cents - self.owed_cents);
            self.owed_cents = cents;
        }
    }

    fn has_seen_its_share(&self) -> bool {
        /// An index entry costs a fraction of an item.
        const ENTRIES_PER_ITEM: u64 = 10;
        let items = self.report.documents_loaded;
        let entries = self.report.entries_scanned.saturating_sub(items) / ENTRIES_PER_ITEM;
        items + entries >= self.budget.settings.page_entries_max
    }

    /// As [`Leaf::check_whole`], at every so many entries.
    fn check_whole_every(&mut self, entries: u64) -> Result<()> {
        if self.is_time_to_look(entries) { self.check_whole() } else { Ok(()) }
    }

    /// Fails when a result that is worth nothing in parts takes too much.
    fn check_whole(&mut self) -> Result<()> {
        self.owe();
        let entries_max = self.budget.settings.whole_entries_max;
        if self.report.entries_scanned > entries_max {
            return Err(Error::timeout(format!(
                "The query needs all of its items before it can return anything, and they are more \
                 than {entries_max} in one partition. Narrow its filter, or add an index that has \
                 its order."
            )));
        }
        self.budget.check_whole_time()
    }
}
