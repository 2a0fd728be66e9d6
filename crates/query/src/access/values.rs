//! From constants to intervals of encoded values, and how far the index can be believed.
//!
//! An index term knows less than the value it stands for in two cases. A number is a double, so two
//! large integers may share a term; a long string is cut. Where a constant is out of reach of both,
//! the interval is *exact*: a value lies in it if and only if the comparison is true. Otherwise the
//! interval is widened so that it misses nothing, and says so.

use std::ops::Bound;

use partita_model::{Number, Scalar, Value, keycode};

use super::interval::{Interval, ValueSet};

/// The index keeps strings up to this many bytes whole; it may cut longer ones, but not below this.
pub const WHOLE_STRING_BYTES: usize = 1_000;

/// From here on an integer may have no double of its own.
const EXACT_NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
const NUMBER: u8 = 0x05;
const STRING: u8 = 0x08;

/// A set of values, and whether it holds exactly those that a predicate accepts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accepted {
    pub(super) values: ValueSet,
    pub(super) exact: bool,
}

impl Accepted {
    fn exactly(interval: Interval) -> Accepted {
        Accepted { values: ValueSet::one(interval), exact: true }
    }

    pub(super) fn nothing() -> Accepted {
        Accepted { values: ValueSet::default(), exact: true }
    }
}

/// The four comparisons by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordered {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Ordered {
    /// True exactly where this one is false.
    pub(super) fn negated(self) -> Ordered {
        match self {
            Ordered::Less => Ordered::GreaterOrEqual,
            Ordered::LessOrEqual => Ordered::Greater,
            Ordered::Greater => Ordered::LessOrEqual,
            Ordered::GreaterOrEqual => Ordered::Less,
        }
    }

    /// The same with the sides exchanged.
    pub(super) fn mirrored(self) -> Ordered {
        match self {
            Ordered::Less => Ordered::Greater,
            Ordered::LessOrEqual => Ordered::GreaterOrEqual,
            Ordered::Greater => Ordered::Less,
            Ordered::GreaterOrEqual => Ordered::LessOrEqual,
        }
    }
}

/// All scalars.
pub(super) fn all_scalars() -> ValueSet {
    ValueSet::one(types(NULL, STRING))
}

pub(super) fn nulls() -> ValueSet {
    ValueSet::one(Interval::point(vec![NULL]))
}

pub(super) fn booleans() -> ValueSet {
    ValueSet::one(types(FALSE, TRUE))
}

pub(super) fn numbers() -> ValueSet {
    ValueSet::one(types(NUMBER, NUMBER))
}

pub(super) fn strings() -> ValueSet {
    ValueSet::one(types(STRING, STRING))
}

/// From the first value of one type to the last of another.
fn types(first: u8, last: u8) -> Interval {
    Interval { low: Bound::Included(vec![first]), high: Bound::Excluded(vec![last + 1]) }
}

/// The values equal to a constant; none for arrays and objects, which have no term of their own.
pub(super) fn equal_to(constant: &Value) -> Option<Accepted> {
    Some(match constant {
        Value::Null | Value::Bool(_) => Accepted::exactly(Interval::point(encode(constant)?)),
        Value::Number(number) => {
            let exact = is_exact(*number);
            let values = ValueSet::one(Interval::point(encode(constant)?));
            Accepted { values, exact }
        }
        Value::String(text) if text.len() <= WHOLE_STRING_BYTES => {
            Accepted::exactly(Interval::point(encode(constant)?))
        }
        Value::String(text) => starting_with(text),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The values that stand in an order to a constant: only those of its type do.
pub(super) fn ordered(comparison: Ordered, constant: &Value) -> Option<Accepted> {
    let (whole, at, exact) = match constant {
        Value::Null => (types(NULL, NULL), Interval::point(vec![NULL]), true),
        Value::Bool(_) => (types(FALSE, TRUE), Interval::point(encode(constant)?), true),
        Value::Number(number) if number.as_f64().is_nan() => return Some(Accepted::nothing()),
        Value::Number(number) => {
            (types(NUMBER, NUMBER), Interval::point(encode(constant)?), is_exact(*number))
        }
        Value::String(text) if text.len() <= WHOLE_STRING_BYTES => {
            (types(STRING, STRING), Interval::point(encode(constant)?), true)
        }
        Value::String(text) => (types(STRING, STRING), prefixed(text), false),
        Value::Array(_) | Value::Object(_) => return None,
    };
    // An inexact constant stands for all that may be equal to it: they are let in on either side.
    let (below, above) = if exact {
        (flipped(&at.low), flipped(&at.high))
    } else {
        (at.high.clone(), at.low.clone())
    };
    let interval = match comparison {
        Ordered::Less => Interval { low: whole.low, high: below },
        Ordered::LessOrEqual => Interval { low: whole.low, high: at.high },
        Ordered::Greater => Interval { low: above, high: whole.high },
        Ordered::GreaterOrEqual => Interval { low: at.low, high: whole.high },
    };
    Some(Accepted { values: ValueSet::one(interval), exact })
}

/// The strings that begin with a text.
pub(super) fn starting_with(text: &str) -> Accepted {
    let exact = text.len() <= WHOLE_STRING_BYTES;
    Accepted { values: ValueSet::one(prefixed(text)), exact }
}

/// The numbers from `low` to `high`, both bounds as they are given.
pub(super) fn numbers_between(low: Bound<f64>, high: Bound<f64>) -> Accepted {
    let number = |double: f64| {
        let mut bytes = vec![NUMBER];
        keycode::put_f64(&mut bytes, double);
        bytes
    };
    let whole = types(NUMBER, NUMBER);
    let low = match low.map(number) {
        Bound::Unbounded => whole.low,
        bound => bound,
    };
    let high = match high.map(number) {
        Bound::Unbounded => whole.high,
        bound => bound,
    };
    Accepted::exactly(Interval { low, high })
}

/// The bytes of a scalar in sort keys and index terms; none for arrays and objects.
pub fn encode(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16);
    let scalar = match value {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Number(number) => Scalar::Number(number.as_f64()),
        Value::String(text) => {
            bytes.push(STRING);
            keycode::put_utf16_order_str(&mut bytes, text);
            return Some(bytes);
        }
        Value::Array(_) | Value::Object(_) => return None,
    };
    keycode::put_scalar(&mut bytes, &scalar);
    Some(bytes)
}

pub(super) fn is_exact(number: Number) -> bool {
    number.as_f64().abs() < EXACT_NUMBER_MAX
}

fn flipped(bound: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match bound {
        Bound::Included(value) => Bound::Excluded(value.clone()),
        Bound::Excluded(value) => Bound::Included(value.clone()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// All strings that begin with the text, or with as much of it as the index keeps.
fn prefixed(text: &str) -> Interval {
    let mut end = text.len().min(WHOLE_STRING_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut low = vec![STRING];
    keycode::put_utf16_order_str(&mut low, text.get(..end).unwrap_or_default());
    // Without the two bytes that end a string the encoding is the beginning of all that follow it.
    low.truncate(low.len().saturating_sub(2));
    let mut high = low.clone();
    while let Some(last) = high.pop() {
        if let Some(next) = last.checked_add(1) {
            high.push(next);
            break;
        }
    }
    Interval { low: Bound::Included(low), high: Bound::Excluded(high) }
}
