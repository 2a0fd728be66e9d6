//! From a WHERE clause to the partition keys it leaves possible.
//!
//! Only what the service's planner understands is used: equality with constants, IN, constant
//! ARRAY_CONTAINS, LIKE without a wildcard, IS_NULL, IS_BOOL, ABS, a bare property, AND and OR. A
//! container whose keys are kept in order also gains from comparisons, BETWEEN and STARTSWITH.
//! Everything else says nothing.

use super::constant::{Constant, Constants};
use super::names::ItemNames;
use super::place::{End, Interval, Place, Places};
use super::region::Regions;
use crate::aggregate::Aggregate;
use crate::ir::{BinaryOperator, UnaryOperator};
use crate::sql::ast::{Expr, Query, Selection, SubqueryKind};
use partita_model::{KeyKind, PartitionKeyDefinition, Value};

/// Where the keys of the items that the query looks at may be.
pub(crate) fn regions(
    query: &Query,
    constants: &Constants<'_>,
    key: &PartitionKeyDefinition,
) -> Regions {
    let Some(from) = &query.from else { return Regions::nothing() };
    let Some(condition) = &query.condition else { return Regions::All };
    let names = ItemNames::of(from);
    Analysis { constants, key, names: &names }.condition(condition)
}

struct Analysis<'a> {
    constants: &'a Constants<'a>,
    key: &'a PartitionKeyDefinition,
    names: &'a ItemNames,
}

impl Analysis<'_> {
    fn condition(&self, expr: &Expr) -> Regions {
        match self.constants.fold(expr) {
            Constant::Defined(value) if *value == Value::Bool(true) => return Regions::All,
            Constant::Defined(_) | Constant::Undefined => return Regions::nothing(),
            Constant::Unknown => {}
        }
        match expr {
            Expr::Chain { first, rest } => self.chain(first, rest),
            Expr::Path { .. } => self.point(expr, Place::Bool(true)),
            Expr::Unary { operator: UnaryOperator::Not, operand } => {
                self.point(operand, Place::Bool(false))
            }
            Expr::In { negated: false, operand, list } => self.among(operand, list),
            Expr::Between { negated: false, operand, low, high } => {
                let low = self.compared(operand, BinaryOperator::GreaterOrEqual, low);
                let high = self.compared(operand, BinaryOperator::LessOrEqual, high);
                Regions::intersection([low, high])
            }
            Expr::Like { negated: false, operand, pattern, escape } => {
                match self.constants.fold(pattern).as_str().and_then(|p| literal(p, *escape)) {
                    Some(text) => self.point(operand, Place::String(text)),
                    None => Regions::All,
                }
            }
            Expr::Call { name, arguments, .. } => self.call(name, arguments),
            Expr::Subquery { kind: SubqueryKind::Exists, query, .. } => self.subquery(query),
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
            Expr::Subquery { kind: SubqueryKind::Scalar, query, .. } => self.subquery(query),
            _ => Regions::All,
        }
    }

    /// What must be so for the subquery to have a row.
    fn subquery(&self, query: &Query) -> Regions {
        let aggregates = selected(query).any(contains_aggregate);
        let Some(condition) = query.condition.as_ref().filter(|_| !aggregates) else {
            return Regions::All;
        };
        let names = self.names.within(query);
        Analysis { names: &names, ..*self }.condition(condition)
    }

    /// `operand ∘ constant`, if that is what it is.
    fn compared(&self, operand: &Expr, operator: BinaryOperator, constant: &Expr) -> Regions {
        let constant = self.constants.fold(constant);
        if matches!(constant, Constant::Unknown) {
            return Regions::All;
        }
        let value = constant.value();
        if let (BinaryOperator::Equal, Expr::Call { name, arguments, .. }) = (operator, operand) {
            return match arguments.as_slice() {
                [argument] if name.eq_ignore_ascii_case("ABS") => self.absolute(argument, value),
                _ => Regions::All,
            };
        }
        match operator {
            BinaryOperator::Equal => self.point(operand, Place::of(value)),
            _ if self.key.kind == KeyKind::Range => match interval(operator, value) {
                Some(interval) => self.places(operand, Places::union(vec![interval])),
                None => Regions::All,
            },
            _ => Regions::All,
        }
    }

    /// `ABS(argument) = value`
    fn absolute(&self, argument: &Expr, value: Option<&Value>) -> Regions {
        let Some(number) = value.and_then(Value::as_f64) else { return Regions::All };
        let both = match number {
            negative if negative < 0.0 => Vec::new(),
            0.0 => vec![0.0],
            other => vec![-other, other],
        };
        let points = both.into_iter().map(|number| Interval::point(Place::Number(number)));
        self.places(argument, Places::union(points.collect()))
    }

    fn among(&self, operand: &Expr, list: &[Expr]) -> Regions {
        if self.component(operand).is_none() {
            return Regions::All;
        }
        let mut points = Vec::with_capacity(list.len());
        for choice in list {
            match self.constants.fold(choice) {
                Constant::Unknown => return Regions::All,
                // Nothing equals undefined, so it is not among the choices.
                Constant::Undefined => {}
                Constant::Defined(value) => points.push(Interval::point(Place::of(Some(&value)))),
            }
        }
        self.places(operand, Places::union(points))
    }

    fn call(&self, name: &str, arguments: &[Expr]) -> Regions {
        match (name.to_ascii_uppercase().as_str(), arguments) {
            ("IS_NULL", [operand]) => self.point(operand, Place::Null),
            ("IS_BOOL" | "IS_BOOLEAN", [operand]) => {
                let both = [false, true].map(|value| Interval::point(Place::Bool(value)));
                self.places(operand, Places::union(both.to_vec()))
            }
            ("ARRAY_CONTAINS" | "_TRY_ARRAY_CONTAINS", [array, operand, ..]) => {
                let constant = self.constants.fold(array);
                let Some(Value::Array(elements)) = constant.value() else { return Regions::All };
                let point = |element| Interval::point(Place::of(Some(element)));
                self.places(operand, Places::union(elements.iter().map(point).collect()))
            }
            ("STARTSWITH", [operand, prefix]) if self.key.kind == KeyKind::Range => {
                match self.constants.fold(prefix).as_str() {
                    Some(prefix) => self.places(operand, Places::union(vec![starting(prefix)])),
                    None => Regions::All,
                }
            }
            _ => Regions::All,
        }
    }

    fn point(&self, operand: &Expr, place: Place) -> Regions {
        self.places(operand, Places::point(place))
    }

    fn places(&self, operand: &Expr, places: Places) -> Regions {
        match self.component(operand) {
            Some(index) => Regions::component(index, self.key.paths.len(), places),
            None => Regions::All,
        }
    }

    /// Which component of the key the expression reads, if it reads one.
    fn component(&self, expr: &Expr) -> Option<usize> {
        let path = self.names.path(expr, self.constants)?;
        self.key.paths.iter().position(|candidate| *candidate.segments() == path)
    }
}

/// The expressions that a query selects.
fn selected(query: &Query) -> impl Iterator<Item = &Expr> {
    let (value, list) = match &query.select.selection {
        Selection::Everything(_) => (None, [].as_slice()),
        Selection::Value(expr) => (Some(expr), [].as_slice()),
        Selection::List(items) => (None, items.as_slice()),
    };
    value.into_iter().chain(list.iter().map(|item| &item.expr))
}

fn contains_aggregate(expr: &Expr) -> bool {
    let is_aggregate = |part: &Expr| match part {
        Expr::Call { name, .. } => Aggregate::by_name(name).is_some(),
        _ => false,
    };
    expr.any(&is_aggregate)
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
    let place = Place::of(value);
    let (first, last) = match &place {
        Place::Number(_) => (End::beside(Place::BeforeNumbers), End::beside(Place::BehindNumbers)),
        Place::String(_) => {
            (End::at(Place::String(String::new())), End::beside(Place::BehindStrings))
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
            None => break Place::BehindStrings,
            Some(last) => {
                if let Some(next) = next(last) {
                    characters.push(next);
                    break Place::String(characters.into_iter().collect());
                }
            }
        }
    };
    Interval { low: End::at(Place::String(prefix.to_owned())), high: End::beside(behind) }
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
