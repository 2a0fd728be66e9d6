//! JSON values as a tree, for everything that is not on the path of an item: definitions, offers,
//! query rows, patches.
//!
//! Items themselves stay texts (see [`crate::document`]). A tree keeps the order of an object's
//! members and tells integers from doubles, but neither matters when two values are compared.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;

use crate::error::Result;
use crate::json;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

/// A number: an integer where the literal was one and fits, else a double. `1` and `1.0` are equal.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// Any other number.
    Double(f64),
}

impl Number {
    /// Reads a JSON number literal. None if it is none, or too large for a double.
    pub(crate) fn parse(literal: &str) -> Option<Number> {
        // A double keeps the sign of `-0`; an integer could not.
        if literal != "-0"
            && let Ok(int) = literal.parse()
        {
            return Some(Number::Int(int));
        }
        literal.parse().ok().filter(|double: &f64| double.is_finite()).map(Number::Double)
    }

    /// The nearest double.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::Double(double) => double,
        }
    }

    /// The number as an integer, if it is exactly one that fits.
    pub fn as_i64(self) -> Option<i64> {
        /// 2^63: the first double above all `i64`.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        match self {
            Number::Int(int) => Some(int),
            Number::Double(double) => {
                let fits = double.fract() == 0.0 && (-LIMIT..LIMIT).contains(&double);
                fits.then_some(double as i64)
            }
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    /// Exact also where an integer has no equal double.
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (self.as_i64(), other.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            // Rounding an integer to a double cannot carry it across a fraction. It can carry the
            // largest ones up to 2^63, where the first double lies that is beyond all of them.
            (a, b) => {
                let order = self.as_f64().partial_cmp(&other.as_f64())?;
                Some(order.then(a.is_none().cmp(&b.is_none())))
            }
        }
    }
}

/// A JSON object. Members keep the order in which they came; names are distinct. Looking one up
/// is a walk over all: objects in trees are small.
#[derive(Clone, Debug, Default)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    /// An object without members.
    pub fn new() -> Object {
        Object::default()
    }

    /// An object of members whose names are known to be distinct.
    pub(crate) fn from_distinct(members: Vec<(String, Value)>) -> Object {
        Object(members)
    }

    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Is there a member of this name?
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Adds a member at the end, or replaces the value of the one that has the name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// [`insert`](Object::insert) for building in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Object {
        self.insert(name, value);
        self
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there no member?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        if self.0.len() != other.0.len() {
            return false;
        }
        if self.0.iter().zip(&other.0).all(|(a, b)| a.0 == b.0) {
            return self.0.iter().zip(&other.0).all(|(a, b)| a.1 == b.1);
        }
        let others: HashMap<&str, &Value> = other.iter().collect();
        self.iter().all(|(name, value)| others.get(name) == Some(&value))
    }
}

impl FromIterator<(String, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Object {
        let mut object = Object::new();
        for (name, value) in members {
            object.insert(name, value);
        }
        object
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Value {
    /// Reads one JSON text; see [`json::parse`].
    pub fn parse(text: &[u8]) -> Result<Value> {
        Ok(json::parse(text)?)
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    /// The number, if it is one, as the nearest double.
    pub fn as_f64(&self) -> Option<f64> {
        if let Value::Number(number) = self { Some(number.as_f64()) } else { None }
    }

    /// The number, if it is one and exactly an integer.
    pub fn as_i64(&self) -> Option<i64> {
        if let Value::Number(number) = self { number.as_i64() } else { None }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Value::Array(elements) = self { Some(elements) } else { None }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(object) = self { Some(object) } else { None }
    }

    /// The value of a member, if it is an object and has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The type's name, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// The value as compact JSON text.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        json::write::write_value(&mut out, self);
        out
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        json::write::write_number(&mut out, *self);
        f.write_str(&out)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Value {
        Value::Number(Number::Int(int))
    }
}

impl From<i32> for Value {
    fn from(int: i32) -> Value {
        Value::from(i64::from(int))
    }
}

impl From<u32> for Value {
    fn from(int: u32) -> Value {
        Value::from(i64::from(int))
    }
}

impl From<f64> for Value {
    fn from(double: f64) -> Value {
        Value::Number(Number::Double(double))
    }
}

impl From<Vec<Value>> for Value {
    fn from(elements: Vec<Value>) -> Value {
        Value::Array(elements)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        Value::Object(object)
    }
}
