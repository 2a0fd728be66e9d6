//! The part of the language that selects rows and leaves them whole.
//!
//! Two places need it: queries over metadata feeds (offers, databases, containers), and the
//! condition of a patch. Both are a source and an optional WHERE. A query that would change or
//! combine rows is refused by the name of what it uses.

use std::sync::Arc;

use partita_model::{Result, Value};

use crate::cell::Cell;
use crate::eval::{self, Frame};
use crate::ir::{Expr, Projection, Query, Source};
use crate::scope::Scope;
use crate::sql::ast::{self, Selection};
use crate::sql::error::{SqlError, SqlResult};
use crate::sql::{check, lower, parser};

/// A parsed filter, ready to be asked about any number of rows.
///
/// ```
/// use partita_model::Value;
/// use partita_query::Filter;
///
/// let parameters = [("@least".to_owned(), Value::from(3i64))];
/// let filter = Filter::parse_query("SELECT * FROM c WHERE c.n >= @least", &parameters)?;
/// assert!(filter.matches(&Value::parse(br#"{"n": 5}"#)?)?);
/// assert!(!filter.matches(&Value::parse(br#"{"n": "5"}"#)?)?);
/// # Ok::<(), partita_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// None: everything.
    condition: Option<Arc<Expr>>,
}

impl Filter {
    /// Parses `SELECT * FROM x [WHERE expr]` or `SELECT VALUE x FROM x [WHERE expr]`.
    ///
    /// Parameter names include their `@`. The error of a malformed query is a bad request whose
    /// message is the service's JSON list of errors; a query that uses more of the language than a
    /// filter is unsupported, and the message names the feature.
    pub fn parse_query(text: &str, parameters: &[(String, Value)]) -> Result<Filter> {
        let read = || {
            let written = parser::parse_query(text, parameters)?;
            check::check(&written, text, parameters)?;
            refuse_clauses(&written)?;
            of_query(lower::query(&written, parameters, &[], &[])?)
        };
        read().map_err(|error| error.into_error(text))
    }

    /// Parses the condition of a patch, `FROM x [WHERE expr]`; fails as [`Filter::parse_query`].
    pub fn parse_condition(text: &str) -> Result<Filter> {
        let read = || {
            let written = parser::parse_condition(text)?;
            check::check_condition(&written, text)?;
            of_query(lower::condition(&written)?)
        };
        read().map_err(|error| error.into_error(text))
    }

    /// Is the condition the boolean true for this row? False, undefined and all else are not. An
    /// error means that the row asks for too much work.
    pub fn matches(&self, row: &Value) -> Result<bool> {
        let Some(condition) = &self.condition else { return Ok(true) };
        let scope = Scope::new(0, 0);
        eval::is_true(condition, &mut Frame::new(Some(Cell::from_ref(row)), &scope))
    }
}

/// Refuses, by name, the clauses that do more than filter.
fn refuse_clauses(query: &ast::Query) -> SqlResult<()> {
    let list = matches!(query.select.selection, Selection::List(_));
    let joins = query.from.as_ref().is_some_and(|from| !from.joins.is_empty());
    let clauses = [
        (query.select.distinct, "DISTINCT"),
        (query.select.top.is_some(), "TOP"),
        (list, "a SELECT list"),
        (joins, "JOIN"),
        (!query.group_by.is_empty(), "GROUP BY"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.offset_limit.is_some(), "OFFSET"),
    ];
    match clauses.into_iter().find(|(used, _)| *used) {
        Some((_, clause)) => Err(SqlError::unsupported(clause)),
        None => Ok(()),
    }
}

/// The condition of a query that is known to select whole items.
fn of_query(query: Query) -> SqlResult<Filter> {
    let refuse = |feature| Err(SqlError::unsupported(feature));
    match query.sources.as_slice() {
        [Source::Value(Expr::Item)] => {}
        [] => return refuse("SELECT VALUE without FROM"),
        [Source::Value(_)] => return refuse("a path in FROM"),
        [Source::Elements(_), ..] => return refuse("array iteration (IN in FROM)"),
        [Source::Subquery(_) | Source::SubqueryElements(_), ..] => {
            return refuse("a subquery in FROM");
        }
        [_, ..] => return refuse("JOIN"),
    }
    if query.projection != Projection::Value(Expr::Item) {
        return refuse("SELECT VALUE of anything but the item itself");
    }
    if let Some(name) = query.filter.as_ref().and_then(udf) {
        return Err(SqlError::unsupported(format!("the user-defined function {name}")));
    }
    Ok(Filter { condition: query.filter.map(Arc::new) })
}

/// The name of a user-defined function that the expression calls.
fn udf(expr: &Expr) -> Option<&str> {
    if let Expr::Udf { name, .. } = expr {
        return Some(name);
    }
    let mut found = None;
    expr.for_each_child(&mut |child| found = found.or_else(|| udf(child)));
    found
}
