//! What an expression is worth before any item is looked at.
//!
//! Literals and parameters are constants, and so is whatever is computed from constants alone by
//! operators and functions that always give the same answer. A parameter without a value is not
//! known: it says nothing, and the query that needs it complains when it runs.

use std::borrow::Cow;
use std::collections::HashMap;

use super::spatial;
use crate::function::Function;
use crate::sql::ast::Expr;
use crate::sql::{map, print};
use crate::{Query, ScopeSettings};
use partita_model::{Geospatial, Object, Value};

/// The worth of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant<'a> {
    /// It depends on the item, or on something that is not known yet.
    Unknown,
    /// The language's `undefined`.
    Undefined,
    Defined(Cow<'a, Value>),
}

impl Constant<'_> {
    /// The value, if it is known and defined.
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Constant::Defined(value) => Some(value),
            Constant::Unknown | Constant::Undefined => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        self.value().and_then(Value::as_str)
    }
}

/// What expressions are evaluated with.
pub(crate) struct Constants<'a> {
    parameters: HashMap<&'a str, &'a Value>,
    /// The meaning of coordinates, where spatial functions are to be computed.
    geospatial: Option<Geospatial>,
}

impl<'a> Constants<'a> {
    pub(crate) fn new(parameters: &'a [(String, Value)]) -> Constants<'a> {
        let by_name = parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
        Constants { parameters: by_name, geospatial: None }
    }

    /// Spatial functions of constants are computed too.
    pub(crate) fn with_coordinates(self, geospatial: Geospatial) -> Constants<'a> {
        Constants { geospatial: Some(geospatial), ..self }
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&'a Value> {
        self.parameters.get(name).copied()
    }

    pub(crate) fn fold<'e>(&'e self, expr: &'e Expr) -> Constant<'e> {
        match expr {
            Expr::Undefined => Constant::Undefined,
            Expr::Literal(value) => Constant::Defined(Cow::Borrowed(value)),
            Expr::Parameter { name, .. } => match self.parameter(name) {
                Some(value) => Constant::Defined(Cow::Borrowed(value)),
                None => Constant::Unknown,
            },
            Expr::Array(elements) => self.array(elements),
            Expr::Object(members) => self.object(members),
            Expr::Name { .. } | Expr::Subquery { .. } | Expr::Udf { .. } => Constant::Unknown,
            computed => self.computed(computed),
        }
    }

    fn array(&self, elements: &[Expr]) -> Constant<'_> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            match self.fold(element) {
                Constant::Unknown => return Constant::Unknown,
                Constant::Undefined => {}
                Constant::Defined(value) => values.push(value.into_owned()),
            }
        }
        Constant::Defined(Cow::Owned(Value::Array(values)))
    }

    fn object(&self, members: &[(String, Expr)]) -> Constant<'_> {
        let mut object = Object::new();
        for (name, member) in members {
            match self.fold(member) {
                Constant::Unknown => return Constant::Unknown,
                Constant::Undefined => {}
                Constant::Defined(value) => object.insert(name.as_str(), value.into_owned()),
            }
        }
        Constant::Defined(Cow::Owned(Value::Object(object)))
    }

    /// An operation or call: worth something if all it looks at is.
    fn computed(&self, expr: &Expr) -> Constant<'_> {
        if expr.any(&|part| self.is_open(part)) {
            return Constant::Unknown;
        }
        match map::map(expr.clone(), &mut |part| self.settled(part)) {
            Expr::Literal(value) => Constant::Defined(Cow::Owned(value)),
            expr => evaluated(&format!("SELECT VALUE {}", print::expr(&expr))),
        }
    }

    /// Does the value hang on anything but constants?
    fn is_open(&self, part: &Expr) -> bool {
        match part {
            Expr::Name { .. } | Expr::Subquery { .. } | Expr::Udf { .. } | Expr::Let { .. } => true,
            Expr::Parameter { name, .. } => self.parameter(name).is_none(),
            Expr::Call { name, .. } => match Function::by_name(name) {
                Some(function) if spatial::is_known(name) && self.geospatial.is_some() => {
                    !function.is_deterministic()
                }
                Some(function) => !function.is_deterministic() || function.refusal().is_some(),
                None => true,
            },
            _ => false,
        }
    }

    /// What evaluation does not do itself: parameters and spatial functions become their values.
    fn settled(&self, part: Expr) -> Expr {
        let value = match (&part, self.geospatial) {
            (Expr::Parameter { name, .. }, _) => self.parameter(name).cloned(),
            (Expr::Call { name, arguments, .. }, Some(space)) if spatial::is_known(name) => {
                let values: Vec<Constant<'_>> =
                    arguments.iter().map(|argument| self.fold(argument)).collect();
                let values: Option<Vec<&Value>> = values.iter().map(Constant::value).collect();
                values.and_then(|values| spatial::compute(name, &values, space))
            }
            _ => None,
        };
        value.map_or(part, Expr::Literal)
    }
}

/// The only row of a query without FROM. What cannot be evaluated is not known.
fn evaluated<'a>(text: &str) -> Constant<'a> {
    let rows = Query::parse(text, &[], &[])
        .and_then(|query| crate::evaluate(&query, &[], &ScopeSettings::default()));
    match rows.as_deref() {
        Ok([]) => Constant::Undefined,
        Ok([row]) => match Value::parse(row.as_bytes()) {
            Ok(value) => Constant::Defined(Cow::Owned(value)),
            Err(_) => Constant::Unknown,
        },
        _ => Constant::Unknown,
    }
}
