//! A defined value on its way through an evaluation.
//!
//! Scalars are themselves. Arrays and objects stay what they were found as: a piece of the item's
//! text, or a tree that an expression built. So a filter over one property of a large item looks at
//! that property and skips the rest, and a projection copies text instead of building trees.
//! Undefined is no value: wherever it can occur the type is `Option<Cell>`.

use std::borrow::Cow;

use partita_model::{Number, Raw, Scalar, Value};

/// A value, borrowed where possible from the query or from the item's text.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    /// An array or object inside an item.
    Text(Raw<'a>),
    /// An array or object that was built, or that the query contains. Never a scalar.
    Tree(Cow<'a, Value>),
}

/// The types of the language, in the order in which ORDER BY sorts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl<'a> Cell<'a> {
    pub(crate) fn from_raw(raw: Raw<'a>) -> Cell<'a> {
        match raw.scalar() {
            None => Cell::Text(raw),
            Some(Scalar::Null) => Cell::Null,
            Some(Scalar::Bool(value)) => Cell::Bool(value),
            // The scalar is a double; an integer of the text stays an exact integer.
            Some(Scalar::Number(double)) => Cell::Number(number(raw.text(), double)),
            Some(Scalar::String(text)) => Cell::String(text),
        }
    }

    pub(crate) fn from_value(value: Value) -> Cell<'a> {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(value),
            Value::Number(number) => Cell::Number(number),
            Value::String(text) => Cell::String(Cow::Owned(text)),
            tree @ (Value::Array(_) | Value::Object(_)) => Cell::Tree(Cow::Owned(tree)),
        }
    }

    pub(crate) fn from_ref(value: &'a Value) -> Cell<'a> {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(*value),
            Value::Number(number) => Cell::Number(*number),
            Value::String(text) => Cell::String(Cow::Borrowed(text)),
            tree @ (Value::Array(_) | Value::Object(_)) => Cell::Tree(Cow::Borrowed(tree)),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(value),
            Cell::Number(number) => Value::Number(number),
            Cell::String(text) => Value::String(text.into_owned()),
            Cell::Text(raw) => raw.to_value(),
            Cell::Tree(tree) => tree.into_owned(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        let of_first = |is_array| if is_array { Kind::Array } else { Kind::Object };
        match self {
            Cell::Null => Kind::Null,
            Cell::Bool(_) => Kind::Bool,
            Cell::Number(_) => Kind::Number,
            Cell::String(_) => Kind::String,
            Cell::Text(raw) => of_first(raw.text().starts_with('[')),
            Cell::Tree(tree) => of_first(matches!(**tree, Value::Array(_))),
        }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Cell::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Cell::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<Number> {
        match self {
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        self.as_number().map(|number| number.as_f64())
    }

    /// The elements, if this is an array.
    pub(crate) fn elements(&self) -> Option<Vec<Cell<'a>>> {
        match self {
            Cell::Text(raw) if raw.text().starts_with('[') => Some(
                partita_model::Document::new(raw.text()).elements().map(Cell::from_raw).collect(),
            ),
            Cell::Tree(Cow::Borrowed(Value::Array(elements))) => {
                Some(elements.iter().map(Cell::from_ref).collect())
            }
            Cell::Tree(Cow::Owned(Value::Array(elements))) => {
                Some(elements.iter().cloned().map(Cell::from_value).collect())
            }
            _ => None,
        }
    }
}

fn number(literal: &str, double: f64) -> Number {
    let is_integer = !literal.contains(['.', 'e', 'E']);
    match literal.parse() {
        Ok(int) if is_integer => Number::Int(int),
        _ => Number::Double(double),
    }
}
