//! What a well-formed query may still not say.
//!
//! Names must be in scope, functions must exist and have the right number of arguments, clauses
//! must be allowed where they stand. Complaints are collected and told together, with the codes,
//! words and places of the service, in the order in which the service finds them: what is inside
//! before what is around it, FROM before everything else.
//!
//! Names follow the service too. The first name in FROM stands for the container, whatever it is;
//! every other name must be an alias. A subquery sees the aliases around it; the container itself
//! can only be the source of a subquery that is the first source of its own query.
//!
//! Some rules have no published code. Their complaints are plain words.

mod call;
mod clause;
mod group;
mod order;
mod rank;
#[cfg(test)]
mod tests;

use super::ast::{Condition, Expr, PathStep, Query};
use super::error::{Span, SqlError, SqlResult};
use super::lower::Parameters;

/// More complaints than this are not told: nobody reads them, and each costs a scan of the text.
const COMPLAINTS_MAX: usize = 32;

/// The service's limits on one query.
const UDF_CALLS_MAX: usize = 10;
const JOINS_MAX: usize = 10;
const IN_ITEMS_MAX: usize = 16_000;

/// Checks a query that was parsed from `text`.
pub(crate) fn check(query: &Query, text: &str, parameters: &Parameters) -> SqlResult<()> {
    check_parameters(parameters)?;
    let mut checker = Checker::new(text, parameters);
    checker.query(query, Standing::Outermost);
    checker.finish()?;
    order::check(query)
}

/// Checks the condition of a patch that was parsed from `text`.
pub(crate) fn check_condition(condition: &Condition, text: &str) -> SqlResult<()> {
    let mut checker = Checker::new(text, &[]);
    checker.from(&condition.from, Standing::Outermost, false);
    checker.condition(condition.condition.as_ref());
    checker.finish()
}

fn check_parameters(parameters: &Parameters) -> SqlResult<()> {
    let mut names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
        Some((name, _)) => Err(SqlError::Plain(format!(
            "Invalid query. Specified duplicate parameter name '{name}'."
        ))),
        None => Ok(()),
    }
}

/// Where a query stands, which decides what its first source may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Outermost,
    /// The first source of the outermost query, or of one that stands so.
    FirstSource,
    /// Any other source, or part of an expression.
    Nested,
}

struct Checker<'a> {
    text: &'a str,
    parameters: &'a Parameters,
    /// The names in scope, the innermost last.
    names: Vec<&'a str>,
    complaints: Vec<SqlError>,
    /// How many queries are around the clause under the eye, itself included.
    depth: usize,
    udf_calls: usize,
    /// The most joins of one FROM clause.
    joins: usize,
}

impl<'a> Checker<'a> {
    fn new(text: &'a str, parameters: &'a Parameters) -> Checker<'a> {
        Checker {
            text,
            parameters,
            names: Vec::new(),
            complaints: Vec::new(),
            depth: 0,
            udf_calls: 0,
            joins: 0,
        }
    }

    fn finish(mut self) -> SqlResult<()> {
        // The names of a FROM clause that is too long are not looked at: complaints about them
        // would be wrong.
        if self.joins > JOINS_MAX {
            return Err(SqlError::Plain(format!(
                "The SQL query exceeded the maximum number of joins. The allowed limit is \
                 {JOINS_MAX}."
            )));
        }
        if self.udf_calls > UDF_CALLS_MAX {
            let message = format!(
                "The SQL query exceeded the maximum number of user-defined function calls. The \
                 allowed limit is {UDF_CALLS_MAX}."
            );
            self.complain("SC3005", Span::new(0, self.text.len()), message);
        }
        SqlError::collected(self.complaints)
    }

    fn complain(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.push(SqlError::Coded { code, span, message: message.into() });
    }

    fn complain_plainly(&mut self, message: impl Into<String>) {
        self.push(SqlError::Plain(message.into()));
    }

    fn push(&mut self, complaint: SqlError) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint);
        }
    }

    fn written(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    fn is_in_scope(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name { name, span } => {
                if !self.is_in_scope(name) && !is_constant_name(name) {
                    self.push(SqlError::unresolved(name, *span));
                }
            }
            Expr::Path { base, steps, span } => {
                self.expr(base);
                self.steps(steps, *span);
            }
            Expr::In { list, .. } if list.len() > IN_ITEMS_MAX => self.complain_plainly(format!(
                "The IN list has more than {IN_ITEMS_MAX} items, the maximum."
            )),
            Expr::Call { .. } => self.call(expr),
            Expr::Udf { arguments, .. } => {
                self.udf_calls += 1;
                arguments.iter().for_each(|argument| self.expr(argument));
            }
            Expr::Subquery { kind, query, .. } => self.expression_subquery(*kind, query),
            Expr::Let { name, value, body } => {
                self.expr(value);
                self.names.push(name);
                self.expr(body);
                self.names.pop();
            }
            _ => expr.for_each_part(&mut |part| self.expr(part)),
        }
    }

    /// An index must be known before the query runs. The complaint quotes the path up to it.
    fn steps(&mut self, steps: &'a [PathStep], path: Span) {
        for step in steps {
            let PathStep::Index { index, span } = step else { continue };
            if !is_constant(index) {
                let message = "The specified query includes 'member indexer' which is currently \
                               not supported.";
                self.complain("SC2990", Span::new(path.start, span.end), message);
            }
        }
    }
}

/// Two names are numbers, unless something in scope is called so.
fn is_constant_name(name: &str) -> bool {
    matches!(name, "NaN" | "Infinity")
}

fn is_constant(index: &Expr) -> bool {
    matches!(index, Expr::Literal(_) | Expr::Parameter { .. } | Expr::Undefined)
}
