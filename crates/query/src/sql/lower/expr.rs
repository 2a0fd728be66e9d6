//! Expressions.

use std::sync::Arc;

use partita_model::{Geospatial, MemberName, Number, Value};

use super::{Lowering, Sight, fold, select};
use crate::aggregate::Aggregate;
use crate::function::{Function, spatial};
use crate::ir::{ConstantSet, Expr, Step, UnaryOperator};
use crate::like::Pattern;
use crate::sql::ast::{Expr as Written, PathStep};
use crate::sql::error::{SqlError, SqlResult};

impl Lowering<'_> {
    pub(super) fn expr(&mut self, written: &Written) -> SqlResult<Expr> {
        Ok(fold::fold(match written {
            Written::Undefined => Expr::Undefined,
            Written::Literal(value) => Expr::Constant(value.clone()),
            Written::Parameter { name, .. } => self.parameter(name),
            Written::Name { name, span } => {
                self.name(name).ok_or_else(|| SqlError::unresolved(name, *span))?
            }
            Written::Path { base, steps, .. } => {
                let base = self.expr(base)?;
                let steps = steps.iter().map(|step| self.step(step)).collect::<SqlResult<_>>()?;
                self.path(base, steps)?
            }
            Written::Array(elements) => Expr::Array(self.list(elements)?),
            Written::Object(members) => {
                let mut lowered = Vec::with_capacity(members.len());
                for (name, member) in members {
                    lowered.push((name.clone(), self.expr(member)?));
                }
                Expr::Object(select::distinct(lowered))
            }
            Written::Unary { operator, operand } => {
                Expr::Unary { operator: *operator, operand: self.boxed(operand)? }
            }
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
            Written::Call { name, arguments, .. } => self.call(name, arguments)?,
            Written::Udf { name, arguments, .. } => {
                Expr::Udf { name: name.clone(), arguments: self.list(arguments)? }
            }
            Written::Subquery { kind, query, .. } => {
                Expr::Subquery { kind: *kind, query: Box::new(self.query(query, Sight::Aliases)?) }
            }
            Written::Let { name, value, body } => self.let_in(name, value, body)?,
        }))
    }

    fn boxed(&mut self, written: &Written) -> SqlResult<Box<Expr>> {
        self.expr(written).map(Box::new)
    }

    pub(super) fn list(&mut self, written: &[Written]) -> SqlResult<Vec<Expr>> {
        written.iter().map(|expr| self.expr(expr)).collect()
    }

    fn parameter(&self, name: &str) -> Expr {
        match (self.parameters.get(name), self.planned_in) {
            (Some(value), _) => Expr::Constant((*value).clone()),
            (None, None) => Expr::Undefined,
            (None, Some(_)) => Expr::Udf { name: name.to_owned(), arguments: Vec::new() },
        }
    }

    fn name(&self, name: &str) -> Option<Expr> {
        let double = |value| Some(Expr::Constant(Value::Number(Number::Double(value))));
        match (self.alias(name), name) {
            (Some(value), _) => Some(value),
            (None, "NaN") => double(f64::NAN),
            (None, "Infinity") => double(f64::INFINITY),
            (None, _) => None,
        }
    }

    fn let_in(&mut self, name: &str, value: &Written, body: &Written) -> SqlResult<Expr> {
        let value = self.boxed(value)?;
        let slot = self.take_slots(1);
        self.names.push((name.to_owned(), Expr::Slot(slot)));
        let body = self.boxed(body);
        self.names.pop();
        Ok(Expr::Let { slot, value, body: body? })
    }

    fn predicate(&mut self, written: &Written) -> SqlResult<Expr> {
        let (negated, positive) = match written {
            Written::In { negated, operand, list } => {
                let operand = self.boxed(operand)?;
                (*negated, is_in(operand, self.list(list)?))
            }
            Written::Between { negated, operand, low, high } => {
                let operand = self.boxed(operand)?;
                let (low, high) = (self.boxed(low)?, self.boxed(high)?);
                (*negated, Expr::Between { operand, low, high })
            }
            Written::Like { negated, operand, pattern, escape } => {
                (*negated, self.like(operand, pattern, *escape)?)
            }
            other => (false, self.expr(other)?),
        };
        Ok(if negated {
            Expr::Unary { operator: UnaryOperator::Not, operand: Box::new(positive) }
        } else {
            positive
        })
    }

    fn like(
        &mut self,
        operand: &Written,
        pattern: &Written,
        escape: Option<char>,
    ) -> SqlResult<Expr> {
        let operand = self.boxed(operand)?;
        Ok(match self.expr(pattern)? {
            Expr::Constant(Value::String(text)) => {
                Expr::Like { operand, pattern: Pattern::new(&text, escape), text, escape }
            }
            pattern => Expr::LikeComputed { operand, pattern: Box::new(pattern), escape },
        })
    }

    fn call(&mut self, name: &str, arguments: &[Written]) -> SqlResult<Expr> {
        let mut arguments = self.list(arguments)?;
        if let Some(aggregate) = Aggregate::by_name(name) {
            // `check` has counted the arguments.
            let operand = arguments.pop().unwrap_or(Expr::Undefined);
            return Ok(Expr::Aggregate(aggregate, Box::new(operand)));
        }
        let Some(function) = Function::by_name(name) else {
            return Err(SqlError::unsupported(format!("the function {name}")));
        };
        if let Some(family) = function.refusal() {
            return match self.planned_in {
                Some(space) => Ok(planned(function, arguments, space)),
                None => Err(SqlError::unsupported(format!("the {family} function {name}"))),
            };
        }
        Ok(match (function, <[Expr; 2]>::try_from(arguments)) {
            (Function::ArrayContains, Ok([Expr::Constant(Value::Array(values)), operand])) => {
                let set = Arc::new(ConstantSet::new(values));
                Expr::InConstants { operand: Box::new(operand), set }
            }
            (function, Ok(two)) => Expr::Call { function, arguments: Vec::from(two) },
            (function, Err(arguments)) => Expr::Call { function, arguments },
        })
    }

    pub(super) fn step(&mut self, step: &PathStep) -> SqlResult<Step> {
        let (index, span) = match step {
            PathStep::Member(name) => return Ok(Step::Member(MemberName::new(name))),
            PathStep::Index { index, span } => (index, *span),
        };
        Ok(match self.expr(index)? {
            Expr::Constant(Value::String(name)) => Step::Member(MemberName::new(&name)),
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

/// A call that is refused where it would run. If its value is in doubt, a plan learns as little
/// from it as from a user-defined function.
fn planned(function: Function, arguments: Vec<Expr>, space: Geospatial) -> Expr {
    let known = arguments.iter().map(|argument| match argument {
        Expr::Constant(value) => Some(value),
        _ => None,
    });
    let known: Option<Vec<&Value>> = known.collect();
    match known.and_then(|values| spatial::compute(function, &values, space)) {
        Some(value) => Expr::Constant(value),
        None => Expr::Udf { name: function.name().to_owned(), arguments },
    }
}

fn is_in(operand: Box<Expr>, list: Vec<Expr>) -> Expr {
    if !list.iter().all(fold::is_known) {
        return Expr::In { operand, list };
    }
    let values = list.into_iter().filter_map(|choice| match choice {
        Expr::Constant(value) => Some(value),
        // Undefined equals nothing.
        _ => None,
    });
    Expr::InConstants { operand, set: Arc::new(ConstantSet::new(values.collect())) }
}
