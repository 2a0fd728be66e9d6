//! A query as the rest of the database sees it: parsed once, then asked about items.
//!
//! This crate knows one item at a time. A [`Run`] turns an item into rows, or adds it to
//! [`Groups`]; whoever drives it decides which items, and does what concerns all rows together:
//! ORDER BY with the keys of the rows, DISTINCT with their hashes, TOP and OFFSET by counting.
//! [`evaluate`] does all of that in the plainest way, for small inputs and to compare with.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{
    ComputedProperty, Document, IndexStep, MemoryShare, MemoryUse, PartitionKeyDefinition,
    Reservation, Result, Value,
};

use crate::access::{self, Access};
use crate::cell::Cell;
use crate::eval::{self, Frame};
use crate::facts::Facts;
use crate::hash;
use crate::ir;
use crate::partition_filter::{self, PartitionFilter};
use crate::run::group::Table;
use crate::run::judge::{self, Seen};
use crate::run::{self, GO_ON, write};
use crate::scope::{Scope, ScopeSettings};
use crate::sortkey;
use crate::sql::error::SqlError;
use crate::sql::{check, lower, parser};

/// A query with its parameters, ready to run. Cheap to clone.
///
/// ```
/// use partita_query::{Query, ScopeSettings, evaluate};
///
/// let query = Query::parse("SELECT c.a, c.b + 1 AS next FROM c WHERE c.b > 1", &[], &[])?;
/// let items = [r#"{"a":"x","b":1}"#, r#"{"a":"y","b":2}"#];
/// let rows = evaluate(&query, &items, &ScopeSettings::default())?;
/// assert_eq!(rows, [r#"{"a":"y","next":3}"#]);
/// # Ok::<(), partita_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Query(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    meaning: ir::Query,
    facts: Facts,
    access: Access,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its JSON.
    pub text: String,
    /// What it is ordered by: one key per column of ORDER BY, each in ascending order of bytes.
    pub keys: Vec<Vec<u8>>,
    /// Equal for equal results. Only if the query says DISTINCT, else 0.
    pub hash: u128,
    /// Its number among the combinations that FROM makes of its item, those included that WHERE
    /// leaves out: the same under every filter.
    pub ordinal: u32,
}

impl Row {
    /// The memory that it takes, about, in a list that grows.
    pub fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| size_of::<Vec<u8>>() + key.capacity());
        2 * size_of::<Row>() + self.text.capacity() + keys.sum::<usize>()
    }
}

impl Query {
    /// Reads a query. Parameter names include their `@`. `computed` are the container's computed
    /// properties, which the query can use like stored ones.
    ///
    /// The error of a malformed query is a bad request whose message is the service's JSON list of
    /// errors; a query that uses what Partita cannot run is unsupported, and the message names it.
    pub fn parse(
        text: &str,
        parameters: &[(String, Value)],
        computed: &[ComputedProperty],
    ) -> Result<Query> {
        Query::parse_indexed(text, parameters, computed, &[])
    }

    /// [`parse`](Query::parse) for a container whose index has the values of some of its computed
    /// properties, under their names.
    pub fn parse_indexed(
        text: &str,
        parameters: &[(String, Value)],
        computed: &[ComputedProperty],
        indexed: &[String],
    ) -> Result<Query> {
        let read = || {
            let written = parser::parse_query(text, parameters)?;
            check::check(&written, text, parameters)?;
            lower::query(&written, parameters, computed, indexed)
        };
        let meaning = read().map_err(|error: SqlError| error.into_error(text))?;
        Ok(Query::from_ir(meaning))
    }

    /// The query that a language's lowering made: all that is asked of a query is answered by it.
    pub(crate) fn from_ir(meaning: ir::Query) -> Query {
        let (facts, access) = (Facts::new(&meaning), access::access(&meaning));
        Query(Arc::new(Inner { meaning, facts, access }))
    }

    /// `SELECT DISTINCT c.a` as if it said `ORDER BY c.a`: equal rows come one after another then,
    /// and a page goes on where the one before it ended. None if rows are more than one value of
    /// the item, or have an order already.
    pub fn ordered_by_row(&self) -> Option<Query> {
        let Inner { meaning, facts, .. } = &*self.0;
        let is_value = facts.row_path().is_some_and(|path| !path.is_empty());
        let expr = match &meaning.projection {
            ir::Projection::Value(expr) => expr,
            ir::Projection::Members(members) => &members.first()?.1,
        };
        if facts.ordered || !facts.distinct || !is_value {
            return None;
        }
        let mut meaning = meaning.clone();
        let (expr, text) = (expr.clone(), String::new());
        meaning.order_by.push(ir::OrderColumn { expr, text, descending: false });
        Some(Query::from_ir(meaning))
    }

    /// What is to be known about the query without running it.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Where the query has to look among items whose partition key is so defined.
    pub fn partition_filter(&self, key: &PartitionKeyDefinition) -> PartitionFilter {
        partition_filter::partition_filter(&self.0.meaning, key)
    }

    /// Which items can have a row, as far as indexes can tell.
    pub fn access(&self) -> &Access {
        &self.0.access
    }

    /// A way to gather rows by the numbers of their values at these paths. `text` is the JSON of a
    /// path's value with a number, below the path's length; None is undefined. None if the query
    /// does more with its rows than count and sum up such values.
    pub fn columns<'v>(
        &'v self,
        paths: &[Vec<IndexStep>],
        text: &dyn Fn(usize, usize) -> Option<&'v str>,
        lengths: &[usize],
    ) -> Option<Columns<'v>> {
        run::columns::Columns::new(self.meaning(), paths, text, lengths).map(Columns)
    }

    /// A way to decide WHERE by the values that items have at some paths. None if that takes more
    /// than scalars, or if there is no WHERE.
    pub fn judge(&self) -> Option<Judge> {
        judge::Judge::new(self.meaning()).map(Judge)
    }

    /// What the query means.
    pub(crate) fn meaning(&self) -> &ir::Query {
        &self.0.meaning
    }

    /// Starts an execution, to be used by one thread.
    pub fn start(&self, settings: &ScopeSettings) -> Run<'_> {
        Run { query: &self.0.meaning, scope: Scope::of(settings) }
    }
}

/// One execution of a query over any number of items.
pub struct Run<'q> {
    query: &'q ir::Query,
    scope: Scope,
}

impl Run<'_> {
    /// Steps of evaluation that items took beyond the thousand that is usual.
    pub fn long_steps(&self) -> u64 {
        self.scope.long_steps()
    }

    /// Begins with an item; None if the query is grouped, so that no item has rows.
    fn begin<'a>(&'a self, item: Option<Document<'a>>) -> Option<Frame<'a>> {
        if self.query.grouping.is_some() {
            return None;
        }
        self.scope.begin_item();
        Some(Frame::new(item.map(Cell::from_document), &self.scope))
    }

    /// All rows of one item in their order, until `emit` says stop. An error means that the item
    /// asks for too much. Not for grouped queries, whose rows are known only in the end: there is
    /// none here.
    pub fn rows(
        &mut self,
        item: Document<'_>,
        emit: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.begin(Some(item)) {
            Some(mut frame) => rows_of(self.query, self.query.filter.as_ref(), &mut frame, emit),
            None => Ok(()),
        }
    }

    /// [`rows`](Run::rows) of an item that WHERE is known to let through. It has to have only what
    /// the rest of the query looks at ([`Facts::selects`]).
    pub fn rows_known(
        &mut self,
        item: Document<'_>,
        emit: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let Some(mut frame) = self.begin(Some(item)) else { return Ok(()) };
        rows_of(self.query, None, &mut frame, emit)
    }

    /// The first row of an item whose place in the order is known: it comes without keys.
    pub fn first_row(&mut self, item: Document<'_>) -> Result<Option<Row>> {
        let Some(mut frame) = self.begin(Some(item)) else { return Ok(None) };
        let query = self.query;
        let mut first = None;
        let _found_or_not = run::for_each_binding(query, &mut frame, &mut |frame| {
            first = row_without_keys(query, frame)?;
            Ok(if first.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(first)
    }

    /// The rows of a query without FROM: it needs no item.
    pub fn rows_without_item(
        &mut self,
        emit: &mut dyn FnMut(Row) -> ControlFlow<()>,
    ) -> Result<()> {
        match self.begin(None) {
            Some(mut frame) => rows_of(self.query, self.query.filter.as_ref(), &mut frame, emit),
            None => Ok(()),
        }
    }

    /// Adds one item to the groups of a grouped query.
    pub fn gather(&mut self, item: Document<'_>, groups: &mut Groups) -> Result<()> {
        self.gather_cell(Some(Cell::from_document(item)), groups)
    }

    fn gather_cell(&mut self, item: Option<Cell<'_>>, groups: &mut Groups) -> Result<()> {
        let Some(grouping) = &self.query.grouping else { return Ok(()) };
        self.scope.begin_item();
        let mut frame = Frame::new(item, &self.scope);
        let _to_the_end = run::for_each_binding(self.query, &mut frame, &mut |frame| {
            groups.0.gather(grouping, frame, 1)?;
            GO_ON
        })?;
        Ok(())
    }

    /// Adds equal items to the groups of a grouped query, so many at once. WHERE is known to be
    /// true for them; the item has to have only what the rest of the query looks at
    /// ([`Facts::selects`]).
    pub fn gather_known(
        &mut self,
        item: Document<'_>,
        times: u64,
        groups: &mut Groups,
    ) -> Result<()> {
        let Some(grouping) = &self.query.grouping else { return Ok(()) };
        self.scope.begin_item();
        let mut frame = Frame::new(Some(Cell::from_document(item)), &self.scope);
        let _to_the_end = run::for_each_known_binding(self.query, &mut frame, &mut |frame| {
            groups.0.gather(grouping, frame, times)?;
            GO_ON
        })?;
        Ok(())
    }

    /// The truth value of an expression over one value, which is in slot 0.
    pub(crate) fn truth_of(&mut self, expr: &ir::Expr, value: Cell<'_>) -> Result<Option<bool>> {
        self.scope.begin_item();
        let mut frame = Frame::new(None, &self.scope);
        frame.bind(0, Some(value));
        Ok(eval::eval(expr, &mut frame)?.and_then(|cell| cell.as_bool()))
    }

    /// Does FROM and WHERE leave a row of this item?
    pub fn matches(&mut self, item: Document<'_>) -> Result<bool> {
        self.matches_cell(Cell::from_document(item))
    }

    fn matches_cell(&mut self, item: Cell<'_>) -> Result<bool> {
        self.scope.begin_item();
        let mut frame = Frame::new(Some(item), &self.scope);
        let flow =
            run::for_each_binding(self.query, &mut frame, &mut |_| Ok(ControlFlow::Break(())))?;
        Ok(flow.is_break())
    }
}

/// The rows that a filter lets through.
fn rows_of<'a>(
    query: &'a ir::Query,
    filter: Option<&'a ir::Expr>,
    frame: &mut Frame<'a>,
    emit: &mut dyn FnMut(Row) -> ControlFlow<()>,
) -> Result<()> {
    let mut bindings: u32 = 0;
    let _stopped_or_not = run::for_each_known_binding(query, frame, &mut |frame| {
        let ordinal = bindings;
        bindings = bindings.saturating_add(1);
        let before = frame.scope.built();
        let is_in = filter.map_or(Ok(true), |filter| eval::is_true(filter, frame))?;
        let row = if is_in { row(query, frame)? } else { None };
        // The row is counted by who takes it, and nothing else of this is left.
        frame.scope.forget_built(before);
        Ok(row.map_or(ControlFlow::Continue(()), |row| emit(Row { ordinal, ..row })))
    })?;
    Ok(())
}

const ROWS_OF_GROUPS: MemoryUse =
    MemoryUse { name: "the rows of groups", advice: "Group by fewer values, or filter more" };

/// Room for the usual list of a few members.
const MEMBERS_BYTES: usize = 128;

/// The row in the frame; none where it is undefined.
fn row<'a>(query: &'a ir::Query, frame: &mut Frame<'a>) -> Result<Option<Row>> {
    let Some(mut row) = row_without_keys(query, frame)? else { return Ok(None) };
    row.keys.reserve_exact(query.order_by.len());
    for column in &query.order_by {
        let mut key = Vec::new();
        sortkey::put(&mut key, eval::eval(&column.expr, frame)?.as_ref());
        row.keys.push(key);
    }
    Ok(Some(row))
}

fn row_without_keys<'a>(query: &'a ir::Query, frame: &mut Frame<'a>) -> Result<Option<Row>> {
    // A value is copied at once; the text of a list grows member by member.
    let mut text = match &query.projection {
        ir::Projection::Value(_) => String::new(),
        ir::Projection::Members(_) => String::with_capacity(MEMBERS_BYTES),
    };
    if !write::row(&mut text, &query.projection, frame)? {
        return Ok(None);
    }
    let hash = if query.distinct { hash::of_text(&text) } else { 0 };
    Ok(Some(Row { text, keys: Vec::new(), hash, ordinal: 0 }))
}

/// The groups of a grouped query while its items are gathered.
#[derive(Debug)]
pub struct Groups(Table);

impl Groups {
    /// No items yet. Of a query that is not grouped these are no groups at all.
    /// What they hold is drawn from `memory`.
    pub fn new(query: &Query, memory: &MemoryShare) -> Groups {
        match &query.0.meaning.grouping {
            Some(grouping) => Groups(Table::new(grouping, memory)),
            None => Groups(Table::empty(memory)),
        }
    }

    /// What is gathered from here on is of the item with this rank. Groups come in the order of the
    /// least rank of their items, where items are gathered in another order.
    pub fn turn_to(&mut self, rank: u64) {
        self.0.turn_to(rank);
    }

    /// Takes in what was gathered from other items. Where ranks are equal they come behind these.
    pub fn merge(&mut self, other: Groups, run: &Run<'_>) -> Result<()> {
        self.0.merge(other.0, &mut |at| run.scope.may_go_on(at))
    }

    /// One row per group, in the order in which the groups were first seen. The rows are reserved
    /// for until the second value is dropped.
    pub fn finish(self, run: &mut Run<'_>) -> Result<(Vec<Row>, Reservation)> {
        let mut memory = run.scope.memory().reservation(ROWS_OF_GROUPS);
        let Some(grouping) = &run.query.grouping else { return Ok((Vec::new(), memory)) };
        let mut rows = Vec::new();
        let (groups, _until_then) = self.0.into_groups();
        for (at, group) in groups.enumerate() {
            run.scope.may_go_on(at)?;
            run.scope.begin_item();
            let mut frame = Frame::new(None, &run.scope);
            group.bind(grouping, &mut frame);
            if let Some(row) = row(run.query, &mut frame)? {
                memory.grow(row.bytes())?;
                rows.push(row);
            }
        }
        Ok((rows, memory))
    }
}

/// Decides WHERE by the values at some paths: see [`Query::judge`].
pub struct Judge(judge::Judge);

impl Judge {
    /// The paths whose values it wants, each the way through members from the item.
    pub fn paths(&self) -> &[Vec<IndexStep>] {
        self.0.paths()
    }

    /// Does WHERE let an item with these values through, one for each path? None if only the item
    /// tells.
    pub fn passes(&self, run: &Run<'_>, values: &[Seen<'_>]) -> Result<Option<bool>> {
        self.0.passes(&run.scope, values)
    }
}

/// Gathers the rows of a grouped query by numbers: see [`Query::columns`].
pub struct Columns<'v>(run::columns::Columns<'v>);

impl Columns<'_> {
    /// Adds a row that has these values, one number for each path. WHERE is known to be true.
    pub fn gather(&mut self, numbers: &[u32], groups: &mut Groups) -> Result<()> {
        self.0.gather(&mut groups.0, numbers)
    }
}

/// All results of a query over items in their order, with ORDER BY, DISTINCT, GROUP BY, TOP and
/// OFFSET applied. Rows that ORDER BY finds equal keep the order of their items, or have it
/// reversed if the first column is descending.
pub fn evaluate(query: &Query, items: &[&str], settings: &ScopeSettings) -> Result<Vec<String>> {
    let (mut rows, _memory) = gathered_or_not(query, items, settings)?;
    sort(query, &mut rows);
    if query.meaning().distinct {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(row.hash));
    }
    let (skip, take) = match (query.meaning().top, query.meaning().offset_limit) {
        (Some(top), _) => (0, top),
        (None, Some((offset, limit))) => (offset, limit),
        (None, None) => (0, u64::MAX),
    };
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(rows.into_iter().skip(count(skip)).take(count(take)).map(|row| row.text).collect())
}

const ROWS: MemoryUse = MemoryUse { name: "its rows", advice: "Select less, or filter more" };

/// All rows, reserved for until the second value is dropped.
fn gathered_or_not(
    query: &Query,
    items: &[&str],
    settings: &ScopeSettings,
) -> Result<(Vec<Row>, Reservation)> {
    let mut run = query.start(settings);
    if query.facts().is_grouped {
        let mut groups = Groups::new(query, &settings.memory);
        if !query.facts().has_from {
            run.gather_cell(None, &mut groups)?;
        }
        for item in items.iter().filter(|_| query.facts().has_from) {
            run.gather(Document::new(item), &mut groups)?;
        }
        return groups.finish(&mut run);
    }
    let memory = settings.memory.reservation(ROWS);
    let mut kept = Kept { rows: Vec::new(), memory, reserved: Ok(()) };
    if !query.facts().has_from {
        run.rows_without_item(&mut |row| kept.add(row))?;
    }
    let mut items: Vec<&str> = items.iter().filter(|_| query.facts().has_from).copied().collect();
    if is_descending(query) {
        // Of two items with equal keys the later one comes first; the rows of one stay in order.
        items.reverse();
    }
    for item in items {
        run.rows(Document::new(item), &mut |row| kept.add(row))?;
        if kept.reserved.is_err() {
            break;
        }
    }
    kept.reserved.map(|()| (kept.rows, kept.memory))
}

/// Rows, as many as there is memory for.
struct Kept {
    rows: Vec<Row>,
    memory: Reservation,
    reserved: Result<()>,
}

impl Kept {
    fn add(&mut self, row: Row) -> ControlFlow<()> {
        self.reserved = self.memory.grow(row.bytes() + hash::SEEN_BYTES);
        if self.reserved.is_err() {
            return ControlFlow::Break(());
        }
        self.rows.push(row);
        ControlFlow::Continue(())
    }
}

fn is_descending(query: &Query) -> bool {
    query.meaning().order_by.first().is_some_and(|column| column.descending)
}

fn sort(query: &Query, rows: &mut [Row]) {
    let order_by = &query.meaning().order_by;
    if query.facts().is_grouped && is_descending(query) {
        rows.reverse();
    }
    rows.sort_by(|a, b| {
        let columns = order_by.iter().zip(a.keys.iter().zip(&b.keys));
        let mut orders =
            columns.map(|(column, (a, b))| if column.descending { b.cmp(a) } else { a.cmp(b) });
        orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
}
