//! From a WHERE clause to the partition keys it leaves possible.
//!
//! Only what the service's planner understands is used: equality with constants, IN, constant
//! ARRAY_CONTAINS, LIKE without a wildcard, IS_NULL, IS_BOOL, ABS, a bare property, AND and OR. A
//! container whose keys are kept in order also gains from comparisons, BETWEEN and STARTSWITH.
//! Everything else says nothing.

use super::key_set::{End, Interval, KeyPoint, KeySet};
use super::region::Regions;
use crate::function::Function;
use crate::ir::{BinaryOperator, Expr, Query, Step, SubqueryKind, UnaryOperator};
use partita_model::{KeyKind, PartitionKeyDefinition, Value};

/// Where the keys of the items that a filter leaves may be.
pub(crate) fn regions(filter: Option<&Expr>, key: &PartitionKeyDefinition) -> Regions {
    filter.map_or(Regions::All, |condition| Analysis { key }.condition(condition))
}

struct Analysis<'a> {
    key: &'a PartitionKeyDefinition,
}

impl Analysis<'_> {
    fn condition(&self, expr: &Expr) -> Regions {
        match expr {
            Expr::Constant(Value::Bool(true)) => Regions::All,
            Expr::Constant(_) | Expr::Undefined => Regions::nothing(),
            Expr::Chain { first, rest } => self.chain(first, rest),
            Expr::Path { .. } => self.point(expr, KeyPoint::Bool(true)),
            Expr::Unary { operator: UnaryOperator::Not, operand } => {
                self.point(operand, KeyPoint::Bool(false))
            }
            Expr::InConstants { operand, set } => self.among(operand, set.values()),
            Expr::Between { operand, low, high } => {
                let low = self.compared(operand, BinaryOperator::GreaterOrEqual, low);
                let high = self.compared(operand, BinaryOperator::LessOrEqual, high);
                Regions::intersection([low, high])
            }
            Expr::Like { operand, text, escape, .. } => match literal(text, *escape) {
                Some(text) => self.point(operand, KeyPoint::String(text)),
                None => Regions::All,
            },
            Expr::Call { function, arguments } => self.call(*function, arguments),
            Expr::Subquery { kind: SubqueryKind::Exists, query } => self.subquery(query),
            _ => Regions::All,
        }
    }

    fn chain(&self, first: &Expr, rest: &[(BinaryOperator, Expr)]) -> Regions {
        let operands = || std::iter::once(first).chain(rest.iter().map(|(_, operand)| operand));
        match rest {
            [(BinaryOperator::And, _), ..] => {
                Regions::intersection(operands().map(|operand| self.condition(operand)))
            }
            [(BinaryOperator::Or, _), ..] => {
                Regions::union(operands().map(|operand| self.condition(operand)))
            }
            [(operator, second)] => Regions::intersection([
                self.compared(first, *operator, second),
                self.compared(second, mirrored(*operator), first),
                self.operand(first),
                self.operand(second),
            ]),
            _ => Regions::All,
        }
    }

    /// A comparison with a subquery holds only if the subquery has a row.
    fn operand(&self, expr: &Expr) -> Regions {
        match expr {
            Expr::Subquery { kind: SubqueryKind::Scalar, query } => self.subquery(query),
            _ => Regions::All,
        }
    }

    /// What must be so for the subquery to have a row.
    fn subquery(&self, query: &Query) -> Regions {
        match (&query.filter, &query.grouping) {
            // Aggregates have a row of nothing, too.
            (_, Some(grouping)) if !grouping.aggregates.is_empty() => Regions::All,
            (Some(filter), _) => self.condition(filter),
            (None, _) => Regions::All,
        }
    }

    /// `operand ∘ constant`, if that is what it is.
    fn compared(&self, operand: &Expr, operator: BinaryOperator, constant: &Expr) -> Regions {
        let value = match constant {
            Expr::Constant(value) => Some(value),
            Expr::Undefined => None,
            _ => return Regions::All,
        };
        match operator {
            BinaryOperator::Equal => match operand {
                Expr::Call { function: Function::Abs, arguments } => {
                    self.absolute(arguments, value)
                }
                _ => self.point(operand, KeyPoint::of(value)),
            },
            _ if self.key.kind == KeyKind::Range => match interval(operator, value) {
                Some(interval) => self.places(operand, KeySet::union(vec![interval])),
                None => Regions::All,
            },
            _ => Regions::All,
        }
    }

    /// `ABS(argument) = value`
    fn absolute(&self, arguments: &[Expr], value: Option<&Value>) -> Regions {
        let ([argument], Some(number)) = (arguments, value.and_then(Value::as_f64)) else {
            return Regions::All;
        };
        let both = match number {
            negative if negative < 0.0 => Vec::new(),
            0.0 => vec![0.0],
            other => vec![-other, other],
        };
        let points = both.into_iter().map(|number| Interval::point(KeyPoint::Number(number)));
        self.places(argument, KeySet::union(points.collect()))
    }

    fn among(&self, operand: &Expr, values: &[Value]) -> Regions {
        if self.component(operand).is_none() {
            return Regions::All;
        }
        let point = |value| Interval::point(KeyPoint::of(Some(value)));
        self.places(operand, KeySet::union(values.iter().map(point).collect()))
    }

    fn call(&self, function: Function, arguments: &[Expr]) -> Regions {
        match (function, arguments) {
            (Function::IsNull, [operand]) => self.point(operand, KeyPoint::Null),
            (Function::IsBool, [operand]) => {
                self.among(operand, &[Value::Bool(false), Value::Bool(true)])
            }
            (
                Function::ArrayContains | Function::TryArrayContains,
                [Expr::Constant(Value::Array(elements)), operand, ..],
            ) => self.among(operand, elements),
            (Function::StartsWith, [operand, Expr::Constant(Value::String(prefix))])
                if self.key.kind == KeyKind::Range =>
            {
                self.places(operand, KeySet::union(vec![starting(prefix)]))
            }
            _ => Regions::All,
        }
    }

    fn point(&self, operand: &Expr, place: KeyPoint) -> Regions {
        self.places(operand, KeySet::point(place))
    }

    fn places(&self, operand: &Expr, places: KeySet) -> Regions {
        match self.component(operand) {
            Some(index) => Regions::component(index, self.key.paths.len(), places),
            None => Regions::All,
        }
    }

    /// Which component of the key the expression reads, if it reads one.
    fn component(&self, expr: &Expr) -> Option<usize> {
        let steps = expr.item_path()?;
        let is_at = |name: &String, step: &Step| matches!(step, Step::Member(at) if **at == **name);
        self.key.paths.iter().position(|path| {
            let names = path.segments();
            names.len() == steps.len() && names.iter().zip(steps).all(|(n, s)| is_at(n, s))
        })
    }
}

/// `a < b` is `b > a`.
fn mirrored(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessOrEqual => BinaryOperator::GreaterOrEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterOrEqual => BinaryOperator::LessOrEqual,
        other => other,
    }
}

/// The values that compare so with a number or a string.
fn interval(operator: BinaryOperator, value: Option<&Value>) -> Option<Interval> {
    let place = KeyPoint::of(value);
    let (first, last) = match &place {
        KeyPoint::Number(_) => {
            (End::beside(KeyPoint::BeforeNumbers), End::beside(KeyPoint::BehindNumbers))
        }
        KeyPoint::String(_) => {
            (End::at(KeyPoint::String(String::new())), End::beside(KeyPoint::BehindStrings))
        }
        _ => return None,
    };
    Some(match operator {
        BinaryOperator::Less => Interval { low: first, high: End::beside(place) },
        BinaryOperator::LessOrEqual => Interval { low: first, high: End::at(place) },
        BinaryOperator::Greater => Interval { low: End::beside(place), high: last },
        BinaryOperator::GreaterOrEqual => Interval { low: End::at(place), high: last },
        _ => return None,
    })
}

/// All strings with this beginning.
fn starting(prefix: &str) -> Interval {
    let mut characters: Vec<char> = prefix.chars().collect();
    let next = |last: char| (last..=char::MAX).nth(1);
    let behind = loop {
        match characters.pop() {
            None => break KeyPoint::BehindStrings,
            Some(last) => {
                if let Some(next) = next(last) {
                    characters.push(next);
                    break KeyPoint::String(characters.into_iter().collect());
                }
            }
        }
    };
    Interval { low: End::at(KeyPoint::String(prefix.to_owned())), high: End::beside(behind) }
}

/// The only string that a pattern without wildcards matches.
fn literal(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => text.push(characters.next()?),
            '%' | '_' | '[' => return None,
            plain => text.push(plain),
        }
    }
    Some(text)
}
