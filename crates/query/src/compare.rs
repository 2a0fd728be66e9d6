//! Equality and order of two defined values, as the language's comparison operators see them.
//!
//! Equality is deep and type-sensitive: different types are unequal, members of objects have no
//! order, numbers are compared as numbers whatever their representation. Order exists only between
//! two values of one scalar type; anything else has none, which makes `<` and its kin undefined.

use std::cmp::Ordering;
use std::collections::HashMap;

use partita_model::{Number, Value};

use crate::cell::Cell;

pub(crate) fn equal(a: &Cell<'_>, b: &Cell<'_>) -> bool {
    match (a, b) {
        (Cell::Null, Cell::Null) => true,
        (Cell::Bool(a), Cell::Bool(b)) => a == b,
        (Cell::Number(a), Cell::Number(b)) => a == b,
        (Cell::String(a), Cell::String(b)) => a == b,
        (Cell::Text(a), Cell::Text(b)) if a == b => true,
        (Cell::Text(_) | Cell::Tree(_), Cell::Text(_) | Cell::Tree(_)) => {
            a.kind() == b.kind() && with_tree(a, |a| with_tree(b, |b| a == b))
        }
        _ => false,
    }
}

/// Does the object `whole` have every member of the object `part`, with an equal value?
pub(crate) fn contains_members(whole: &Cell<'_>, part: &Cell<'_>) -> bool {
    with_tree(whole, |whole| {
        with_tree(part, |part| match (whole, part) {
            // Looking up a name walks the object: many names are looked up in a map.
            (Value::Object(whole), Value::Object(part)) if part.len() > 16 => {
                let whole: HashMap<&str, &Value> = whole.iter().collect();
                part.iter().all(|(name, value)| whole.get(name) == Some(&value))
            }
            (Value::Object(whole), Value::Object(part)) => {
                part.iter().all(|(name, value)| whole.get(name) == Some(value))
            }
            _ => false,
        })
    })
}

/// How two values stand to each other.
pub(crate) fn order(a: &Cell<'_>, b: &Cell<'_>) -> Order {
    match (a, b) {
        (Cell::Null, Cell::Null) => Order::Is(Ordering::Equal),
        (Cell::Bool(a), Cell::Bool(b)) => Order::Is(a.cmp(b)),
        (Cell::Number(a), Cell::Number(b)) => match numbers(a, b) {
            Some(ordering) => Order::Is(ordering),
            None => Order::Unordered,
        },
        (Cell::String(a), Cell::String(b)) => Order::Is(strings(a, b)),
        _ => Order::Undefined,
    }
}

/// See [`order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Is(Ordering),
    /// Two numbers of which one is NaN: every comparison is false.
    Unordered,
    /// The language gives this pair no order: every comparison is undefined.
    Undefined,
}

/// None if one is NaN.
pub(crate) fn numbers(a: &Number, b: &Number) -> Option<Ordering> {
    a.partial_cmp(b)
}

/// By UTF-16 units, as the service sorts: U+10000 and above come before U+E000.
pub(crate) fn strings(a: &str, b: &str) -> Ordering {
    // Only the first bytes EE and above are in another order than their characters' units.
    let differ = a.bytes().zip(b.bytes()).find(|(a, b)| a != b);
    match differ {
        Some((a, b)) if a < 0xEE || b < 0xEE => a.cmp(&b),
        Some(_) => a.encode_utf16().cmp(b.encode_utf16()),
        None => a.len().cmp(&b.len()),
    }
}

/// Hands the value to `f` as a tree, built if it is none.
fn with_tree<T>(cell: &Cell<'_>, f: impl FnOnce(&Value) -> T) -> T {
    match cell {
        Cell::Tree(tree) => f(tree),
        other => f(&other.clone().into_value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes()).unwrap()
    }

    fn of_text(text: &str) -> Cell<'_> {
        Cell::from_raw(partita_model::Document::new(text).raw())
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
            ("[]", "{}", false),
        ] {
            let (tree_a, tree_b) = (value(a), value(b));
            let forms_a = [of_text(a), Cell::from_ref(&tree_a)];
            let forms_b = [of_text(b), Cell::from_ref(&tree_b)];
            for (form_a, form_b) in forms_a.iter().flat_map(|a| forms_b.iter().map(move |b| (a, b)))
            {
                assert_eq!(equal(form_a, form_b), expected, "{a} and {b}");
                assert_eq!(equal(form_b, form_a), expected, "{b} and {a}");
            }
        }
    }

    #[test]
    fn order_exists_only_within_one_scalar_type() {
        for (a, b, expected) in [
            ("1", "2.5", Order::Is(Ordering::Less)),
            ("null", "null", Order::Is(Ordering::Equal)),
            ("false", "true", Order::Is(Ordering::Less)),
            (r#""b""#, r#""a""#, Order::Is(Ordering::Greater)),
            (r#""ab""#, r#""a""#, Order::Is(Ordering::Greater)),
            (r#""ä""#, r#""b""#, Order::Is(Ordering::Greater)),
            ("\"\u{10000}\"", "\"\u{E000}\"", Order::Is(Ordering::Less)),
            ("\"\u{10000}\"", "\"\u{D7FF}\"", Order::Is(Ordering::Greater)),
            ("1", r#""2""#, Order::Undefined),
            ("[1]", "[2]", Order::Undefined),
            ("{}", "{}", Order::Undefined),
        ] {
            assert_eq!(order(&of_text(a), &of_text(b)), expected, "{a} and {b}");
        }
    }
}
