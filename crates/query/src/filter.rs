//! The part of the language that selects rows and leaves them whole.
//!
//! Two places need it before the rest of the language exists: queries over metadata feeds (offers,
//! databases, containers), and the condition of a patch. Both are a source and an optional WHERE.
//! A query that would change or combine rows is refused by the name of what it uses.

use crate::eval;
use crate::ir::Expr;
use crate::sql::{lower, parser};
use partita_model::{Result, Value};

/// A parsed filter, ready to be asked about any number of rows.
///
/// ```
/// use partita_model::Value;
/// use partita_query::Filter;
///
/// let parameters = [("@least".to_owned(), Value::from(3i64))];
/// let filter = Filter::parse_query("SELECT * FROM c WHERE c.n >= @least", &parameters)?;
/// assert!(filter.matches(&Value::parse(br#"{"n": 5}"#)?));
/// assert!(!filter.matches(&Value::parse(br#"{"n": "5"}"#)?));
/// # Ok::<(), partita_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    condition: Expr,
}

impl Filter {
    /// Parses `SELECT * FROM x [WHERE expr]` or `SELECT VALUE x FROM x [WHERE expr]`.
    ///
    /// Parameter names include their `@`. The error of a malformed query is a bad request whose
    /// message is the service's JSON list of errors; a query that uses more of the language than a
    /// filter is unsupported, and the message names the feature.
    pub fn parse_query(text: &str, parameters: &[(String, Value)]) -> Result<Filter> {
        let parsed = parser::parse_query(text);
        let lowered = parsed.and_then(|query| lower::filter(&query, parameters));
        lowered.map(|condition| Filter { condition }).map_err(|error| error.into_error(text))
    }

    /// Parses the condition of a patch, `FROM x [WHERE expr]`; fails as [`Filter::parse_query`].
    pub fn parse_condition(text: &str) -> Result<Filter> {
        let parsed = parser::parse_condition(text);
        let lowered = parsed.and_then(|condition| lower::condition(&condition));
        lowered.map(|condition| Filter { condition }).map_err(|error| error.into_error(text))
    }

    /// Is the condition the boolean true for this row? False, undefined and all else are not.
    pub fn matches(&self, row: &Value) -> bool {
        eval::holds(&self.condition, row)
    }
}
