//! A defined value on its way through an evaluation.
//!
//! Scalars are themselves. Arrays and objects stay what they were found as: a piece of the item's
//! text, or a tree that an expression built. So a filter over one property of a large item looks at
//! that property and skips the rest, and a projection copies text instead of building trees. A copy
//! of a cell shares its tree.
//! Undefined is no value: wherever it can occur the type is `Option<Cell>`.

use std::borrow::Cow;
use std::ops::Deref;
use std::rc::Rc;

use partita_model::{Document, Number, Raw, RawKind, Scalar, Value};

use crate::ir::Step;

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
    Tree(Tree<'a>),
}

/// A tree that is cheap to copy.
#[derive(Clone, Debug)]
pub(crate) enum Tree<'a> {
    Borrowed(&'a Value),
    Shared(Rc<Value>),
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

impl Deref for Tree<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Tree::Borrowed(value) => value,
            Tree::Shared(value) => value,
        }
    }
}

impl<'a> Cell<'a> {
    pub(crate) fn from_raw(raw: Raw<'a>) -> Cell<'a> {
        if let Some(int) = raw.short_integer() {
            return Cell::Number(Number::Int(int));
        }
        match raw.scalar() {
            None => Cell::Text(raw),
            Some(Scalar::Null) => Cell::Null,
            Some(Scalar::Bool(value)) => Cell::Bool(value),
            // The scalar is a double; an integer of the text stays an exact integer.
            Some(Scalar::Number(double)) => Cell::Number(number(raw.text(), double)),
            Some(Scalar::String(text)) => Cell::String(text),
        }
    }

    /// A scalar whose literal is not known: an integral double is the integer.
    pub(crate) fn from_scalar(scalar: Scalar<'a>) -> Cell<'a> {
        match scalar {
            Scalar::Null => Cell::Null,
            Scalar::Bool(value) => Cell::Bool(value),
            Scalar::Number(double) => {
                let number = Number::Double(double);
                Cell::Number(number.as_i64().map_or(number, Number::Int))
            }
            Scalar::String(text) => Cell::String(text),
        }
    }

    /// A whole item.
    pub(crate) fn from_document(document: Document<'a>) -> Cell<'a> {
        Cell::Text(document.raw())
    }

    pub(crate) fn from_value(value: Value) -> Cell<'a> {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(value),
            Value::Number(number) => Cell::Number(number),
            Value::String(text) => Cell::String(Cow::Owned(text)),
            tree @ (Value::Array(_) | Value::Object(_)) => Cell::Tree(Tree::Shared(Rc::new(tree))),
        }
    }

    pub(crate) fn from_ref(value: &'a Value) -> Cell<'a> {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(*value),
            Value::Number(number) => Cell::Number(*number),
            Value::String(text) => Cell::String(Cow::Borrowed(text)),
            tree @ (Value::Array(_) | Value::Object(_)) => Cell::Tree(Tree::Borrowed(tree)),
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(value),
            Cell::Number(number) => Value::Number(number),
            Cell::String(text) => Value::String(text.into_owned()),
            Cell::Text(raw) => raw.to_value(),
            Cell::Tree(Tree::Borrowed(tree)) => tree.clone(),
            Cell::Tree(Tree::Shared(tree)) => Rc::unwrap_or_clone(tree),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        let of_tree = |is_array| if is_array { Kind::Array } else { Kind::Object };
        match self {
            Cell::Null => Kind::Null,
            Cell::Bool(_) => Kind::Bool,
            Cell::Number(_) => Kind::Number,
            Cell::String(_) => Kind::String,
            Cell::Text(raw) => of_tree(raw.kind() == RawKind::Array),
            Cell::Tree(tree) => of_tree(matches!(**tree, Value::Array(_))),
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

    /// The value at the end of a path, if it leads to one.
    pub(crate) fn walk(&self, steps: &[Step]) -> Option<Cell<'a>> {
        match self {
            Cell::Text(raw) => walk_text(*raw, steps).map(Cell::from_raw),
            Cell::Tree(Tree::Borrowed(tree)) => walk_tree(tree, steps).map(Cell::from_ref),
            Cell::Tree(Tree::Shared(tree)) => walk_tree(tree, steps).cloned().map(Cell::from_value),
            scalar => steps.is_empty().then(|| scalar.clone()),
        }
    }

    /// Roughly the memory that the value takes as a tree.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Cell::Null | Cell::Bool(_) | Cell::Number(_) => size_of::<Value>(),
            Cell::String(text) => size_of::<Value>() + text.len(),
            // A small number takes two bytes of text and many more in a tree.
            Cell::Text(raw) => raw.bytes().len().saturating_mul(8),
            Cell::Tree(tree) => footprint(tree),
        }
    }
}

/// The text of the value at the end of a path into a text.
pub(crate) fn walk_text<'a>(raw: Raw<'a>, steps: &[Step]) -> Option<Raw<'a>> {
    steps.iter().try_fold(raw, |raw, step| match step {
        Step::Member(name) => raw.document().member_named(name),
        Step::Element(at) => raw.document().elements().nth(*at),
        Step::Nowhere => None,
    })
}

/// The number that a piece of text is, if it is one.
pub(crate) fn number_of(raw: Raw<'_>) -> Option<Number> {
    match raw.short_integer() {
        Some(int) => Some(Number::Int(int)),
        None => Cell::from_raw(raw).as_number(),
    }
}

fn walk_tree<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match (step, value) {
        (Step::Member(name), Value::Object(object)) => object.get(name),
        (Step::Element(at), Value::Array(array)) => array.get(*at),
        _ => None,
    })
}

/// Roughly the memory that a value takes.
pub(crate) fn footprint(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(footprint).sum(),
        Value::Object(members) => members.iter().map(|(n, v)| n.len() + footprint(v)).sum(),
    };
    size_of::<Value>() + inside
}

fn number(literal: &str, double: f64) -> Number {
    let is_integer = !literal.contains(['.', 'e', 'E']);
    match literal.parse() {
        Ok(int) if is_integer => Number::Int(int),
        _ => Number::Double(double),
    }
}
