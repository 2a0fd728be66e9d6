//! The query that each partition can answer alone.
//!
//! | the query has | partitions are asked for |
//! |---|---|
//! | aggregates | the partial aggregates, each as `{"item": …}` |
//! | GROUP BY | the values that make the group, beside what is projected |
//! | ORDER BY | the item's `_rid`, the values to merge by, and what is projected |
//! | DISTINCT, with a count of rows | the rows without that count |
//! | OFFSET and LIMIT | so many rows as may be needed of any one of them |
//! | none of these | what was asked |

use super::info::{DistinctType, OrderColumn, QueryInfo};
use super::shape::{Item, Projection, Shape};
use super::vector;
use crate::aggregate::Aggregate;
use crate::sql::ast::{Direction, Expr, OrderBy, OrderItem, Query, Selection};
use crate::sql::lower::Parameters;
use crate::sql::print;
use partita_model::VectorEmbeddingPolicy;

/// Where clients put the condition by which they go on after a page.
pub(super) const RESUME: &str = "({documentdb-formattableorderbyquery-filter})";

/// Plans a query without ORDER BY RANK. `one_key`: it concerns one logical partition.
pub(super) fn plan(
    shape: &Shape<'_>,
    parameters: &Parameters,
    vectors: Option<&VectorEmbeddingPolicy>,
    one_key: bool,
) -> QueryInfo {
    let query = shape.query;
    let plain = QueryInfo { has_select_value: shape.is_select_value(), ..QueryInfo::default() };
    if query.from.is_none() {
        return plain;
    }
    let info = QueryInfo { top: shape.top, ..plain };
    let (offset, limit) = shape.offset_limit.unzip();
    let in_all = QueryInfo { offset, limit, ..info.clone() };
    if let Some(rows) = shape.counted_rows() {
        return counted(in_all, shape, rows);
    }
    let distinct = if query.select.distinct { DistinctType::Unordered } else { DistinctType::None };
    if !query.group_by.is_empty() {
        return grouped(QueryInfo { distinct, ..in_all }, shape);
    }
    if shape.has_aggregates() {
        return aggregated(QueryInfo { distinct, ..in_all }, shape);
    }
    if let Some(OrderBy::Items(items)) = &query.order_by {
        let columns = columns(items, parameters, vectors);
        return ordered(in_all, shape, items, columns);
    }
    if query.select.distinct {
        let rewritten = match (shape.top, shape.offset_limit) {
            (None, None) => String::new(),
            _ => print::query(&without_counts(query)),
        };
        return QueryInfo { distinct, rewritten, ..in_all };
    }
    match shape.offset_limit {
        None => info,
        // One partition answers, so it can do the counting.
        Some(_) if one_key => info,
        Some(counts) => {
            let rest = Query { offset_limit: None, ..query.clone() };
            let mut lines = vec![print::query(&rest)];
            lines.extend(enough_rows(counts));
            QueryInfo { rewritten: lines.join("\n"), ..in_all }
        }
    }
}

/// `SELECT COUNT(1) FROM (SELECT DISTINCT …)`: the rows are asked for.
fn counted(info: QueryInfo, shape: &Shape<'_>, rows: &Query) -> QueryInfo {
    let alias = match &shape.projection {
        Projection::List(items) => items.first().map(|(name, _)| name.clone()),
        _ => None,
    };
    QueryInfo {
        distinct: DistinctType::Unordered,
        counts_rows_as: Some(alias.unwrap_or_default()),
        rewritten: print::query(rows),
        ..info
    }
}

fn aggregated(info: QueryInfo, shape: &Shape<'_>) -> QueryInfo {
    let select = match &shape.projection {
        Projection::Value(item) => format!("SELECT VALUE {}", value_payload(item)),
        _ => format!("SELECT {} AS payload", payload(shape)),
    };
    let (aliases, aggregates) = names(shape);
    QueryInfo { aliases, aggregates, rewritten: with_clauses(&select, shape.query), ..info }
}

fn grouped(info: QueryInfo, shape: &Shape<'_>) -> QueryInfo {
    let group_by: Vec<String> = shape.query.group_by.iter().map(print::expr).collect();
    let payload = match &shape.projection {
        Projection::Value(item) => value_payload(item),
        _ => payload(shape),
    };
    let select =
        format!("SELECT {} AS groupByItems, {payload} AS payload", wrapped(group_by.iter()));
    let (aliases, aggregates) = names(shape);
    let rewritten = with_clauses(&select, shape.query);
    QueryInfo { group_by, aliases, aggregates, rewritten, ..info }
}

fn ordered(
    info: QueryInfo,
    shape: &Shape<'_>,
    items: &[OrderItem],
    order_by: Vec<OrderColumn>,
) -> QueryInfo {
    let query = shape.query;
    let distinct = distinct_in_order(query, items);
    // Repeats are dropped by the client, so a partition must not stop after a number of rows.
    let counts = distinct == DistinctType::None;
    let top = query.select.top.as_ref().filter(|_| counts);
    let top = top.map(|top| format!("TOP {} ", print::count(top))).unwrap_or_default();
    let mut lines = vec![format!(
        "SELECT {top}{}._rid, {} AS orderByItems, {} AS payload",
        shape.root(),
        wrapped(order_by.iter().map(|column| &column.expression)),
        payload(shape),
    )];
    lines.extend(query.from.as_ref().map(print::from));
    lines.push(format!("WHERE {}", resumable(shape)));
    lines.extend(query.order_by.as_ref().map(print::order_by));
    lines.extend(shape.offset_limit.filter(|_| counts).and_then(enough_rows));
    QueryInfo {
        distinct,
        has_non_streaming_order_by: items.iter().any(|item| vector::is_distance(&item.expr)),
        order_by,
        rewritten: lines.join("\n"),
        ..info
    }
}

/// Rows with equal values come one after the other only if the value is what they are ordered by.
fn distinct_in_order(query: &Query, items: &[OrderItem]) -> DistinctType {
    match (&query.select.selection, items) {
        _ if !query.select.distinct => DistinctType::None,
        (Selection::Value(value), [item]) if is_same(value, &item.expr) => DistinctType::Ordered,
        _ => DistinctType::Unordered,
    }
}

fn is_same(a: &Expr, b: &Expr) -> bool {
    a.identity().is_some_and(|identity| b.identity().is_some_and(|other| identity == other))
}

/// The condition with the place where clients say how to go on. A row whose value is undefined is
/// no row, but with other values around it it would be one.
pub(super) fn resumable(shape: &Shape<'_>) -> String {
    let condition = match &shape.query.condition {
        Some(condition) => format!("({} AND {RESUME})", print::expr(condition)),
        None => RESUME.to_owned(),
    };
    match &shape.projection {
        Projection::Value(Item::Plain(expr)) => {
            format!("({condition} AND IS_DEFINED({}))", print::expr(expr))
        }
        _ => condition,
    }
}

fn columns(
    items: &[OrderItem],
    parameters: &Parameters,
    vectors: Option<&VectorEmbeddingPolicy>,
) -> Vec<OrderColumn> {
    let column = |item: &OrderItem| OrderColumn {
        expression: print::expr(&item.expr),
        descending: match item.direction {
            Some(direction) => direction == Direction::Descending,
            None => vector::nearest_is_greatest(&item.expr, parameters, vectors).unwrap_or(false),
        },
    };
    items.iter().map(column).collect()
}

/// What a row shows, as one expression.
pub(super) fn payload(shape: &Shape<'_>) -> String {
    match &shape.projection {
        Projection::Everything => shape.root().to_owned(),
        Projection::Value(item) => item_text(item),
        Projection::List(items) => {
            let members: Vec<String> = items
                .iter()
                .map(|(name, item)| format!("{}: {}", print::string(name), item_text(item)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// The same for SELECT VALUE, where a partial aggregate is alone in an array.
fn value_payload(item: &Item<'_>) -> String {
    match item {
        Item::Plain(expr) => print::expr(expr),
        Item::Aggregate { .. } => format!("[{}]", item_text(item)),
    }
}

fn item_text(item: &Item<'_>) -> String {
    match item {
        Item::Plain(expr) => print::expr(expr),
        Item::Aggregate { aggregate, call, argument } => {
            let argument = print::expr(argument);
            partial(*aggregate, &print::expr(call), &argument)
        }
    }
}

/// What a partition tells of an aggregate. The smallest of no values is no value, and must not be
/// mistaken for one that was undefined: the number of values goes with it.
fn partial(aggregate: Aggregate, call: &str, argument: &str) -> String {
    let extreme = |function: &str, name: &str| {
        format!(
            "{{\"item\": {call}, \"item2\": {{\"{name}\": {function}({argument}), \"count\": \
             COUNT({argument})}}}}"
        )
    };
    match aggregate {
        Aggregate::Average => {
            format!("{{\"item\": {{\"sum\": SUM({argument}), \"count\": COUNT({argument})}}}}")
        }
        Aggregate::Min => extreme("MIN", "min"),
        Aggregate::Max => extreme("MAX", "max"),
        Aggregate::Count
        | Aggregate::CountIf
        | Aggregate::Sum
        | Aggregate::MakeList
        | Aggregate::MakeSet => format!("{{\"item\": {call}}}"),
    }
}

/// How clients find aggregates in rows: by name in a list, or the only one of SELECT VALUE.
type Names = (Vec<(String, Option<&'static str>)>, Vec<&'static str>);

fn names(shape: &Shape<'_>) -> Names {
    let name = |item: &Item<'_>| match item {
        Item::Plain(_) => None,
        Item::Aggregate { aggregate, .. } => Some(aggregate.plan_name()),
    };
    match &shape.projection {
        Projection::Everything => (Vec::new(), Vec::new()),
        Projection::Value(item) => (Vec::new(), name(item).into_iter().collect()),
        Projection::List(items) => {
            (items.iter().map(|(alias, item)| (alias.clone(), name(item))).collect(), Vec::new())
        }
    }
}

/// `[{"item": a}, {"item": b}]`
pub(super) fn wrapped<'a>(expressions: impl Iterator<Item = &'a String>) -> String {
    let items: Vec<String> =
        expressions.map(|expression| format!("{{\"item\": {expression}}}")).collect();
    format!("[{}]", items.join(", "))
}

/// The other clauses of the query below its new SELECT clause, without the counts of rows.
fn with_clauses(select: &str, query: &Query) -> String {
    let mut lines = vec![select.to_owned()];
    lines.extend(query.from.as_ref().map(print::from));
    lines.extend(query.condition.as_ref().map(|expr| format!("WHERE {}", print::expr(expr))));
    if !query.group_by.is_empty() {
        let group_by: Vec<String> = query.group_by.iter().map(print::expr).collect();
        lines.push(format!("GROUP BY {}", group_by.join(", ")));
    }
    lines.extend(query.order_by.as_ref().map(print::order_by));
    lines.join("\n")
}

fn without_counts(query: &Query) -> Query {
    let mut query = query.clone();
    query.select.top = None;
    query.offset_limit = None;
    query
}

/// One partition may hold all the rows that are skipped and all that are kept. More than a LIMIT
/// can say are all that there are.
fn enough_rows((offset, limit): (u64, u64)) -> Option<String> {
    let rows = u32::try_from(offset.saturating_add(limit)).ok()?;
    Some(format!("OFFSET 0 LIMIT {rows}"))
}

/// Is the expression `name(…)`?
pub(super) fn is_call(expr: &Expr, wanted: &str) -> bool {
    matches!(expr, Expr::Call { name, .. } if name.eq_ignore_ascii_case(wanted))
}
