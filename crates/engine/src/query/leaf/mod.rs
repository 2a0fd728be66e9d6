//! One partition's part of a query.
//!
//! A leaf looks at the items of one range of EPKs in one view of one partition, and gives their
//! rows in one of the orders of `position.rs`, or their groups. It applies FROM, WHERE, SELECT and
//! ORDER BY; what needs more than one partition (DISTINCT, TOP, OFFSET, merging) is not its
//! business. It is told how many rows can be used, and gives up its turn when it has looked at much
//! without finding them.
//!
//! What a query never sees: items that have expired, and items of other partition keys that share
//! an EPK. Where a former version kept items out of the index, it does not tell of them:
//! `left_out.rs` has such partitions scanned.
//!
//! There are several ways to the same rows:
//!
//! - `scan.rs` looks at every item. It is the way that is always there, and the one that all others
//!   are compared with.
//! - `indexed.rs` lets the index say which items to look at, or in which order.
//! - `sift.rs` decides filters that no index answers on columns of the index.
//! - `cover.rs` gathers groups from the index alone.
//! - `places.rs` tells where rows would be, for those who load few of them, or none where keys tell
//!   enough (`known.rs`).
//!
//! A position is good for all of them: what one way began, another can go on with.

mod column;
mod composite;
mod cover;
mod explain;
mod indexed;
mod items;
mod known;
mod left_out;
mod lookup;
mod order_walk;
mod places;
mod reader;
mod rid_set;
mod scan;
mod sift;
mod small_document;
mod top;

use std::cell::OnceCell;
use std::ops::ControlFlow;

use partita_model::{Clock, EpkRange, Error, KeyPart, Result};
use partita_query::{Groups, Query, Row, Run};
use partita_storage::Snapshot;

pub(super) use self::indexed::is_answered_by_walk;
pub(super) use self::rid_set::RidSet;
pub(super) use self::small_document::is_of_one_value;

use super::cache::ResultCache;
use super::place_list::PlaceList;
use super::position::{LeafRow, Position};
use crate::catalog::{Container, Partition};
use crate::database::QuerySettings;
use crate::keys;
use crate::op::{LeafReport, PlanHint};
use crate::record::SeenItem;

/// What it takes to get at something, in entries of an index that are passed.
mod cost {
    /// To pass an item in a scan.
    pub(super) const SCAN: u64 = 4;
    /// To load an item by its resource id.
    pub(super) const LOAD: u64 = 32;
}

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
    pub(super) view: &'a dyn Snapshot,
    pub(super) cache: &'a ResultCache,
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
    pub(super) vain: Vain,
    /// How many items there are, once somebody asked.
    pub(super) items_in_reach: OnceCell<u64>,
    /// No more rows than this are of use.
    pub(super) want: usize,
    pub(super) budget: Budget<'a>,
    pub(super) report: LeafReport,
}

/// Items that a scan came by and that gave no row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vain {
    documents: u64,
    bytes: u64,
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
}

/// Called with the current time, in the clock's nanoseconds; returns true once the deadline has
/// passed.
pub(super) type Watch<'a> = dyn Fn(u64) -> bool + 'a;

impl Budget<'_> {
    /// Has the page taken its time?
    pub(super) fn page_time_is_over(&self) -> bool {
        self.elapsed_millis() >= self.settings.page_millis_max
    }

    /// Has the page taken a good part of its time?
    pub(super) fn page_time_is_short(&self) -> bool {
        self.elapsed_millis() >= self.settings.page_millis_max / 4
    }

    /// Fails when a result that is worth nothing in parts has taken too long.
    pub(super) fn check_whole_time(&self) -> Result<()> {
        if self.elapsed_millis() < self.settings.whole_millis_max {
            return Ok(());
        }
        Err(Error::timeout(format!(
            "The query needs all of its items before it can return anything, and did not get \
             through them in {} ms. Narrow its filter, or add an index that has its order.",
            self.settings.whole_millis_max
        )))
    }

    fn elapsed_millis(&self) -> u64 {
        let now_nanos = self.clock.monotonic_nanos();
        if self.watch.is_some_and(|watch| watch(now_nanos)) {
            return u64::MAX;
        }
        now_nanos.saturating_sub(self.started_nanos) / 1_000_000
    }
}

impl Leaf<'_> {
    /// Gives the rows behind a place, in order. The place also decides the order of an unordered
    /// query; without one the plan does.
    pub(super) fn stream(&mut self, after: Option<&Position>, emit: &mut Emit<'_>) -> Result<End> {
        self.timed(|leaf| {
            let ordered = leaf.query.facts().ordered;
            if ordered {
                indexed::check_order(leaf)?;
            }
            match leaf.hint {
                PlanHint::ScanOnly => scan::stream(leaf, after, emit),
                PlanHint::Best if ordered => indexed::ordered(leaf, after, emit),
                PlanHint::Best => indexed::unordered(leaf, after, emit),
            }
        })
    }

    /// The places of the rows behind one, in order, as many as are wanted; None where only the
    /// items tell them.
    pub(super) fn places(&mut self, after: Option<&Position>) -> Result<Option<(PlaceList, End)>> {
        let after = match after {
            Some(Position::Sorted(after)) => Some(after),
            Some(Position::Key { .. } | Position::Rid { .. }) | None => None,
        };
        self.timed(|leaf| {
            indexed::check_order(leaf)?;
            Ok(places::places(leaf, after)?.map(|places| (places.found, places.end)))
        })
    }

    /// The row of each of some places that this leaf gave; none where the item has none.
    pub(super) fn rows_at(&mut self, places: &PlaceList) -> Result<Vec<Option<Row>>> {
        self.timed(|leaf| places::rows_at(leaf, places))
    }

    /// Gathers the groups of all items.
    pub(super) fn groups(&mut self) -> Result<Groups> {
        self.timed(|leaf| match cover::groups(leaf)? {
            Some(groups) => Ok(groups),
            None => scan::groups(leaf),
        })
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
    fn page_is_over(&self) -> bool {
        self.has_seen_its_share() || self.budget.page_time_is_over()
    }

    /// The same, with a look at the clock at every so many entries only.
    fn page_is_over_every(&self, entries: u64) -> bool {
        self.has_seen_its_share()
            || self.report.entries_scanned.is_multiple_of(entries)
                && self.budget.page_time_is_over()
    }

    fn has_seen_its_share(&self) -> bool {
        /// An index entry costs a fraction of an item.
        const ENTRIES_PER_ITEM: u64 = 10;
        let items = self.report.documents_loaded;
        let entries = self.report.entries_scanned.saturating_sub(items) / ENTRIES_PER_ITEM;
        items + entries >= self.budget.settings.page_entries_max
    }

    /// As [`Leaf::check_whole`], at every so many entries.
    fn check_whole_every(&self, entries: u64) -> Result<()> {
        if self.report.entries_scanned.is_multiple_of(entries) {
            self.check_whole()
        } else {
            Ok(())
        }
    }

    /// Fails when a result that is worth nothing in parts takes too much.
    fn check_whole(&self) -> Result<()> {
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
