//! A query that is ready to run: names are slots, parameters are values.
//!
//! A row of a query is a list of values, one per source of its FROM clause, in the order written;
//! an expression refers to them by their number, its *slot*. A subquery adds its own sources
//! behind those of the queries around it, so one list serves all of them. `(LET x = …)` takes a
//! slot in the same way, and so do the keys and aggregates of a group. No slot is given twice.

use super::Expr;
use crate::aggregate::Aggregate;

/// A query or subquery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    /// Source n binds slot `first_slot + n`.
    pub(crate) first_slot: usize,
    /// None for a query without FROM: it has one row.
    pub(crate) sources: Vec<Source>,
    /// The sources as they were written, if an item can give several rows: a continuation is good
    /// only for the same ones. Only of the outermost query.
    pub(crate) joined: Option<String>,
    pub(crate) filter: Option<Expr>,
    /// `None`: rows are projected one by one. `Some`: they are gathered.
    pub(crate) grouping: Option<Grouping>,
    pub(crate) projection: Projection,
    pub(crate) distinct: bool,
    /// Only of the outermost query; so are the two below.
    pub(crate) order_by: Vec<OrderColumn>,
    pub(crate) top: Option<u64>,
    pub(crate) offset_limit: Option<(u64, u64)>,
}

impl Query {
    /// Can one item give several rows?
    pub(crate) fn joins(&self) -> bool {
        !matches!(self.sources.as_slice(), [] | [Source::Value(_)])
    }
}

/// Where the values of a slot come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// The value of an expression over the slots before; undefined gives no row.
    Value(Expr),
    /// Every element, if the value is an array; else no row.
    Elements(Expr),
    /// The rows of a subquery.
    Subquery(Box<Query>),
    /// Every element of each row of a subquery (`x IN (SELECT …)`).
    SubqueryElements(Box<Query>),
}

/// GROUP BY and aggregates. Without keys there is exactly one group, also for no rows at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grouping {
    /// In what is computed of a group, key n is slot `first_slot + n`; the aggregates follow.
    pub(crate) first_slot: usize,
    pub(crate) keys: Vec<Expr>,
    pub(crate) aggregates: Vec<(Aggregate, Expr)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projection {
    /// `SELECT VALUE`, and `SELECT *`: no row where undefined.
    Value(Expr),
    /// A list: undefined members are left out. The names are distinct.
    Members(Vec<(String, Expr)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderColumn {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    /// The column as it was written.
    pub(crate) text: String,
}
