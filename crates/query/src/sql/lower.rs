//! From what was written to what it means.
//!
//! Names are resolved here (there is one row, known by the alias of FROM or else by the container's
//! name), parameters get their values, function names become functions with a checked number of
//! arguments. A parameter that nobody supplied is undefined: the service plans and runs such
//! queries, and a comparison with undefined selects nothing.

use super::ast::SourceKind;
use super::ast::{Collection, Condition, Expr as Written, From, PathStep, Query, Selection};
use super::error::{SqlError, SqlResult};
use crate::eval;
use crate::function::Function;
use crate::ir::{Expr, Step, UnaryOperator};
use crate::like::Pattern;
use partita_model::{Number, Value};

/// Parameters by name, the `@` included.
pub(crate) type Parameters = [(String, Value)];

/// The filter a query stands for; without WHERE it is the constant true.
pub(crate) fn filter(query: &Query, parameters: &Parameters) -> SqlResult<Expr> {
    check_parameters(parameters)?;
    refuse_clauses(query)?;
    let Some(from) = &query.from else { return Err(missing_from(query)) };
    let lowering = Lowering { row_name: row_name(from)?, parameters };
    if let Selection::Value(selected) = &query.select.selection
        && lowering.expr(selected)? != Expr::Row
    {
        return Err(SqlError::unsupported("SELECT VALUE of anything but the item itself"));
    }
    lowering.condition(query.condition.as_ref())
}

/// The filter that the condition of a patch is.
pub(crate) fn condition(condition: &Condition) -> SqlResult<Expr> {
    let lowering = Lowering { row_name: row_name(&condition.from)?, parameters: &[] };
    lowering.condition(condition.condition.as_ref())
}

/// Refuses, by name, the clauses that do more than filter.
fn refuse_clauses(query: &Query) -> SqlResult<()> {
    let list = matches!(query.select.selection, Selection::List(_));
    let clauses = [
        (query.select.distinct, "DISTINCT"),
        (query.select.top.is_some(), "TOP"),
        (list, "a SELECT list"),
        (!query.group_by.is_empty(), "GROUP BY"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.offset_limit.is_some(), "OFFSET"),
    ];
    match clauses.into_iter().find(|(used, _)| *used) {
        Some((_, clause)) => Err(SqlError::unsupported(clause)),
        None => Ok(()),
    }
}

fn missing_from(query: &Query) -> SqlError {
    match query.select.selection {
        Selection::Value(_) => SqlError::unsupported("SELECT VALUE without FROM"),
        Selection::Everything(_) | Selection::List(_) => SqlError::Plain(
            "Invalid query. 'SELECT *' is not valid if FROM clause is omitted.".to_owned(),
        ),
    }
}

/// An alias hides the container's own name.
fn row_name(from: &From) -> SqlResult<&str> {
    if !from.joins.is_empty() {
        return Err(SqlError::unsupported("JOIN"));
    }
    match &from.first.kind {
        SourceKind::Iterate { .. } => Err(SqlError::unsupported("array iteration (IN in FROM)")),
        SourceKind::Whole { collection: Collection::Path { root, steps, .. }, alias } => {
            match steps.is_empty() {
                true => Ok(alias.as_deref().unwrap_or(root)),
                false => Err(SqlError::unsupported("a path in FROM")),
            }
        }
        SourceKind::Whole { collection: Collection::Subquery(_), .. } => {
            Err(SqlError::unsupported("a subquery in FROM"))
        }
        SourceKind::Whole { collection: Collection::Call(_), .. } => {
            Err(SqlError::unsupported("a function in FROM"))
        }
    }
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

struct Lowering<'a> {
    row_name: &'a str,
    parameters: &'a Parameters,
}

impl Lowering<'_> {
    fn condition(&self, written: Option<&Written>) -> SqlResult<Expr> {
        match written {
            Some(condition) => self.expr(condition),
            None => Ok(Expr::Constant(Value::Bool(true))),
        }
    }

    fn expr(&self, written: &Written) -> SqlResult<Expr> {
        Ok(match written {
            Written::Undefined => Expr::Undefined,
            Written::Literal(value) => Expr::Constant(value.clone()),
            Written::Parameter { name, .. } => self.parameter(name),
            Written::Name { name, span } => {
                self.name(name).ok_or_else(|| SqlError::unresolved(name, *span))?
            }
            Written::Path { base, steps, .. } => {
                let steps = steps.iter().map(|step| self.step(step)).collect::<SqlResult<_>>()?;
                Expr::Path { base: self.boxed(base)?, steps }
            }
            Written::Array(elements) => Expr::Array(self.list(elements)?),
            Written::Object(members) => {
                let member =
                    |(name, value): &(String, Written)| Ok((name.clone(), self.expr(value)?));
                Expr::Object(members.iter().map(member).collect::<SqlResult<_>>()?)
            }
            Written::Unary { operator, operand } => self.unary(*operator, operand)?,
            Written::Chain { first, rest } => {
                let mut links = Vec::with_capacity(rest.len());
                for (operator, operand) in rest {
                    links.push((*operator, self.expr(operand)?));
                }
                Expr::Chain { first: self.boxed(first)?, rest: links }
            }
            Written::Coalesce(choices) => Expr::Coalesce(self.list(choices)?),
            Written::Conditional { condition, then, otherwise } => Expr::Conditional {
                condition: self.boxed(condition)?,
                then: self.boxed(then)?,
                otherwise: self.boxed(otherwise)?,
            },
            Written::In { .. } | Written::Between { .. } | Written::Like { .. } => {
                self.predicate(written)?
            }
            Written::Call { .. } => self.call(written)?,
            Written::Udf { name, .. } => {
                return Err(SqlError::unsupported(format!("the user-defined function {name}")));
            }
            Written::Subquery { .. } => return Err(SqlError::unsupported("a subquery")),
            Written::Let { .. } => return Err(SqlError::unsupported("LET")),
        })
    }

    /// A minus before a number literal belongs to the literal: `c.list[-1]` has a constant index.
    fn unary(&self, operator: UnaryOperator, operand: &Written) -> SqlResult<Expr> {
        let operand = self.expr(operand)?;
        Ok(match (operator, &operand) {
            (UnaryOperator::Minus, Expr::Constant(value)) => match eval::negate(value) {
                Some(negative) => Expr::Constant(negative),
                None => Expr::Undefined,
            },
            _ => Expr::Unary { operator, operand: Box::new(operand) },
        })
    }

    fn predicate(&self, written: &Written) -> SqlResult<Expr> {
        let (negated, positive) = match written {
            Written::In { negated, operand, list } => {
                (*negated, Expr::In { operand: self.boxed(operand)?, list: self.list(list)? })
            }
            Written::Between { negated, operand, low, high } => {
                let operand = self.boxed(operand)?;
                (
                    *negated,
                    Expr::Between { operand, low: self.boxed(low)?, high: self.boxed(high)? },
                )
            }
            Written::Like { negated, operand, pattern, escape } => {
                (*negated, self.like(operand, pattern, *escape)?)
            }
            other => (false, self.expr(other)?),
        };
        Ok(match negated {
            true => Expr::Unary { operator: UnaryOperator::Not, operand: Box::new(positive) },
            false => positive,
        })
    }

    fn like(&self, operand: &Written, pattern: &Written, escape: Option<char>) -> SqlResult<Expr> {
        let operand = self.boxed(operand)?;
        Ok(match self.expr(pattern)? {
            Expr::Constant(Value::String(text)) => {
                Expr::Like { operand, pattern: Pattern::new(&text, escape) }
            }
            pattern => Expr::LikeComputed { operand, pattern: Box::new(pattern), escape },
        })
    }

    fn call(&self, written: &Written) -> SqlResult<Expr> {
        let Written::Call { name, span, arguments, .. } = written else {
            return self.expr(written);
        };
        let Some(function) = Function::by_name(name) else {
            return Err(SqlError::unsupported(format!("the function {name}")));
        };
        if let Some(message) = function.count_complaint(arguments.len()) {
            return Err(SqlError::Coded { code: "SC2050", span: *span, message });
        }
        if function.refusal().is_some() || !function.is_deterministic() {
            return Err(SqlError::unsupported(format!("the function {}", function.name())));
        }
        Ok(Expr::Call { function, arguments: self.list(arguments)? })
    }

    fn boxed(&self, written: &Written) -> SqlResult<Box<Expr>> {
        self.expr(written).map(Box::new)
    }

    fn list(&self, written: &[Written]) -> SqlResult<Vec<Expr>> {
        written.iter().map(|expr| self.expr(expr)).collect()
    }

    fn parameter(&self, name: &str) -> Expr {
        match self.parameters.iter().find(|(known, _)| known == name) {
            Some((_, value)) => Expr::Constant(value.clone()),
            None => Expr::Undefined,
        }
    }

    fn name(&self, name: &str) -> Option<Expr> {
        match name {
            _ if name == self.row_name => Some(Expr::Row),
            "NaN" => Some(Expr::Constant(Value::Number(Number::Double(f64::NAN)))),
            "Infinity" => Some(Expr::Constant(Value::Number(Number::Double(f64::INFINITY)))),
            _ => None,
        }
    }

    fn step(&self, step: &PathStep) -> SqlResult<Step> {
        let (index, span) = match step {
            PathStep::Member(name) => return Ok(Step::Member(name.clone())),
            PathStep::Index { index, span } => (index, *span),
        };
        Ok(match self.expr(index)? {
            Expr::Constant(Value::String(name)) => Step::Member(name),
            Expr::Constant(Value::Number(number)) => match number.as_i64().map(usize::try_from) {
                Some(Ok(element)) => Step::Element(element),
                Some(Err(_)) | None => Step::Nowhere,
            },
            Expr::Constant(_) | Expr::Undefined => Step::Nowhere,
            _ => {
                let message = "The specified query includes 'member indexer' which is currently \
                               not supported."
                    .to_owned();
                return Err(SqlError::Coded { code: "SC2990", span, message });
            }
        })
    }
}
