//! Equality and order of two defined values, as the language's comparison operators see them.
//!
//! Equality is deep and type-sensitive: different types are unequal, members of objects have no
//! order, numbers are compared as numbers whatever their representation. Order exists only between
//! two values of one scalar type; anything else has none, which makes `<` and its kin undefined.

use partita_model::{Number, Object, Value};
use std::cmp::Ordering;

pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Some(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && contains_members(a, b),
        _ => false,
    }
}

/// Does `whole` have every member of `part`, with an equal value?
pub(crate) fn contains_members(whole: &Object, part: &Object) -> bool {
    part.iter().all(|(name, value)| whole.get(name).is_some_and(|held| equal(held, value)))
}

/// `None` when the two have no order: different types, arrays, objects, NaN.
pub(crate) fn order(a: &Value, b: &Value) -> Order {
    match (a, b) {
        (Value::Null, Value::Null) => Order::Is(Ordering::Equal),
        (Value::Bool(a), Value::Bool(b)) => Order::Is(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => match compare_numbers(a, b) {
            Some(ordering) => Order::Is(ordering),
            None => Order::Unordered,
        },
        // By UTF-16 units, as the service sorts: U+10000 and above come before U+E000.
        (Value::String(a), Value::String(b)) => Order::Is(a.encode_utf16().cmp(b.encode_utf16())),
        _ => Order::Undefined,
    }
}

/// How two values stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Is(Ordering),
    /// Two numbers of which one is NaN: every comparison is false.
    Unordered,
    /// The language gives this pair no order: every comparison is undefined.
    Undefined,
}

fn compare_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(b)),
        (Number::Int(_) | Number::Double(_), Number::Int(_) | Number::Double(_)) => {
            a.as_f64().partial_cmp(&b.as_f64())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn equality_is_deep_and_blind_to_member_order_and_number_form() {
        for (a, b, expected) in [
            ("1", "1.0", true),
            ("-0", "0", true),
            (r#""a""#, r#""A""#, false),
            ("1", r#""1""#, false),
            ("null", "false", false),
            ("[1,2]", "[2,1]", false),
            ("[1,[2]]", "[1.0,[2.0]]", true),
            (r#"{"a":1,"b":{"c":2}}"#, r#"{"b":{"c":2},"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"c":2}"#, false),
        ] {
            assert_eq!(equal(&value(a), &value(b)), expected, "{a} and {b}");
            assert_eq!(equal(&value(b), &value(a)), expected, "{b} and {a}");
        }
    }

    #[test]
    fn order_exists_only_within_one_scalar_type() {
        for (a, b, expected) in [
            ("1", "2.5", Order::Is(Ordering::Less)),
            ("null", "null", Order::Is(Ordering::Equal)),
            ("false", "true", Order::Is(Ordering::Less)),
            (r#""b""#, r#""a""#, Order::Is(Ordering::Greater)),
            ("\"\u{10000}\"", "\"\u{E000}\"", Order::Is(Ordering::Less)),
            ("1", r#""2""#, Order::Undefined),
            ("[1]", "[2]", Order::Undefined),
            ("{}", "{}", Order::Undefined),
        ] {
            assert_eq!(order(&value(a), &value(b)), expected, "{a} and {b}");
        }
    }
}
