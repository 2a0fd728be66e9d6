//! Arrays, and objects as arrays.
//!
//! An array that is part of an item stays text as long as possible: its elements are read one by
//! one, and only those that are kept become trees.

use super::arguments::{Arguments, count, double};
use super::room;
use crate::cell::{Cell, Kind};
use crate::compare;
use crate::scope::Scope;
use partita_model::{Number, Object, Result, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

type Elements<'c> = Box<dyn Iterator<Item = Cell<'c>> + 'c>;

/// The elements, borrowed; None if it is no array.
pub(super) fn elements<'c>(cell: &'c Cell<'_>) -> Option<Elements<'c>> {
    match cell {
        Cell::Text(raw) if cell.kind() == Kind::Array => {
            Some(Box::new(raw.document().elements().map(Cell::from_raw)))
        }
        Cell::Tree(tree) => Some(Box::new(tree.as_array()?.iter().map(Cell::from_ref))),
        _ => None,
    }
}

/// The value as a tree, borrowed if it is one.
pub(super) fn tree<'c>(cell: &'c Cell<'_>) -> Cow<'c, Value> {
    match cell {
        Cell::Tree(tree) => Cow::Borrowed(tree),
        other => Cow::Owned(other.clone().into_value()),
    }
}

/// An array of the language.
pub(super) fn array<'a>(elements: Vec<Value>) -> Cell<'a> {
    Cell::from_value(Value::Array(elements))
}

pub(super) fn length<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    match arguments.get(0)? {
        Cell::Tree(tree) => Some(count(tree.as_array()?.len())),
        cell => Some(count(elements(cell)?.count())),
    }
}

/// `ARRAY_CONTAINS(array, needle [, partial])`: with `partial`, an object needle is found in an
/// element that has all its members.
pub(super) fn contains<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let needle = match arguments.take(1)? {
        // Read once, not once per element.
        text @ Cell::Text(_) => Cell::from_value(text.into_value()),
        other => other,
    };
    let mut elements = elements(arguments.get(0)?)?;
    let is_partial = match arguments.get(2) {
        Some(flag) => flag.as_bool()?,
        None => false,
    };
    let found = match needle.kind() {
        Kind::Object if is_partial => {
            elements.any(|element| compare::contains_members(&element, &needle))
        }
        _ => elements.any(|element| compare::equal(&element, &needle)),
    };
    Some(Cell::Bool(found))
}

pub(super) fn concat<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let mut all = Vec::new();
    for argument in arguments.from(0) {
        let Some(elements) = argument.and_then(elements) else { return Ok(None) };
        for element in elements {
            scope.reserve(room::of(&element))?;
            all.push(element.into_value());
        }
    }
    Ok(Some(array(all)))
}

/// `ARRAY_SLICE(array, start [, length])`: a negative start counts from the end.
pub(super) fn slice<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let Some((skipped, taken)) = bounds(arguments) else { return Ok(None) };
    let Some(elements) = arguments.get(0).and_then(elements) else { return Ok(None) };
    let mut part = Vec::new();
    for element in elements.skip(skipped).take(taken) {
        scope.reserve(room::of(&element))?;
        part.push(element.into_value());
    }
    Ok(Some(array(part)))
}

/// How many elements to skip and how many to take.
fn bounds(arguments: &Arguments<'_>) -> Option<(usize, usize)> {
    let start = arguments.whole(1)?;
    let taken = if arguments.is_written(2) {
        usize::try_from(arguments.whole(2)?.max(0)).ok()?
    } else {
        usize::MAX
    };
    let skipped = match usize::try_from(start) {
        Ok(skipped) => skipped,
        Err(_) => {
            let from_end = usize::try_from(start.unsigned_abs()).ok()?;
            elements(arguments.get(0)?)?.count().saturating_sub(from_end)
        }
    };
    Some((skipped, taken))
}

fn numbers(cell: &Cell<'_>) -> Option<Vec<Number>> {
    elements(cell)?.map(|element| element.as_number()).collect()
}

/// Exact while everything is an integer and fits.
fn total(numbers: &[Number]) -> Number {
    let add = |sum: i64, number: &Number| match number {
        Number::Int(int) => sum.checked_add(*int),
        Number::Double(_) => None,
    };
    match numbers.iter().try_fold(0, add) {
        Some(sum) => Number::Int(sum),
        None => Number::Double(numbers.iter().map(|number| number.as_f64()).sum()),
    }
}

pub(super) fn sum<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(Cell::Number(total(&numbers(arguments.get(0)?)?)))
}

pub(super) fn average<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let numbers = numbers(arguments.get(0)?).filter(|numbers| !numbers.is_empty())?;
    Some(double(total(&numbers).as_f64() / numbers.len() as f64))
}

pub(super) fn median<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let mut numbers: Vec<f64> =
        numbers(arguments.get(0)?)?.iter().map(|number| number.as_f64()).collect();
    numbers.sort_unstable_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(double(upper));
    }
    let lower = *numbers.get(numbers.len() / 2 - 1)?;
    Some(double((lower + upper) / 2.0))
}

pub(super) fn maximum<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    outermost(arguments.get(0)?, Ordering::Greater)
}

pub(super) fn minimum<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    outermost(arguments.get(0)?, Ordering::Less)
}

/// The element that compares like that to all others. Types have an order of their own; arrays and
/// objects have none.
fn outermost<'a>(cell: &Cell<'_>, wanted: Ordering) -> Option<Cell<'a>> {
    let mut best: Option<Cell<'_>> = None;
    for element in elements(cell)? {
        if element.kind() >= Kind::Array {
            return None;
        }
        if best.as_ref().is_none_or(|best| order(&element, best) == wanted) {
            best = Some(element);
        }
    }
    best.map(|best| Cell::from_value(best.into_value()))
}

fn order(a: &Cell<'_>, b: &Cell<'_>) -> Ordering {
    match (a, b) {
        (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
        (Cell::Number(a), Cell::Number(b)) => {
            a.partial_cmp(b).unwrap_or_else(|| a.as_f64().total_cmp(&b.as_f64()))
        }
        (Cell::String(a), Cell::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => a.kind().cmp(&b.kind()),
    }
}

/// `OBJECTTOARRAY(object [, name_of_names [, name_of_values]])`
pub(super) fn of_object<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let name = |at, usual| if arguments.is_written(at) { arguments.text(at) } else { Some(usual) };
    let Some((name_of_names, name_of_values)) = name(1, "k").zip(name(2, "v")) else {
        return Ok(None);
    };
    let Some(cell) = arguments.get(0).filter(|cell| cell.kind() == Kind::Object) else {
        return Ok(None);
    };
    let pair_bytes = 2 * size_of::<Value>() + name_of_names.len() + name_of_values.len();
    let tree = tree(cell);
    let Some(object) = tree.as_object() else { return Ok(None) };
    let mut pairs = Vec::with_capacity(object.len());
    for (name, value) in object.iter() {
        scope.reserve(pair_bytes + name.len() + room::of_value(value))?;
        let pair = Object::new().with(name_of_names, name).with(name_of_values, value.clone());
        pairs.push(Value::Object(pair));
    }
    Ok(Some(array(pairs)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::function::testing::expect;

    #[test]
    fn lengths_and_slices_are_of_arrays_only() {
        expect(&[
            ("ARRAY_LENGTH []", "0"),
            ("ARRAY_LENGTH [1,[2,3],{}]", "3"),
            (r#"ARRAY_LENGTH {"a":1}"#, "undefined"),
            ("ARRAY_LENGTH \"ab\"", "undefined"),
            ("ARRAY_SLICE [1,2,3] 1", "[2,3]"),
            ("ARRAY_SLICE [1,2,3] 1 1", "[2]"),
            ("ARRAY_SLICE [1,2,3] -2 1", "[2]"),
            ("ARRAY_SLICE [1,2,3] -2 9", "[2,3]"),
            ("ARRAY_SLICE [1,2,3] -9 2", "[1,2]"),
            ("ARRAY_SLICE [1,2,3] 3", "[]"),
            ("ARRAY_SLICE [1,2,3] 1 0", "[]"),
            ("ARRAY_SLICE [1,2,3] 1 -1", "[]"),
            ("ARRAY_SLICE [1,2,3] 0.5", "undefined"),
            ("ARRAY_SLICE [1,2,3] 0 1.5", "undefined"),
            ("ARRAY_SLICE [1,2,3] -1e300 1e300", "[1,2,3]"),
            ("ARRAY_SLICE 1 0", "undefined"),
            ("ARRAY_CONCAT [1] [] [[2]]", "[1,[2]]"),
            ("ARRAY_CONCAT [1] 2", "undefined"),
            ("ARRAY_CONCAT [1] undefined", "undefined"),
        ]);
    }

    #[test]
    fn containment_is_by_value_or_by_members() {
        expect(&[
            ("ARRAY_CONTAINS [1,2.0] 2", "true"),
            ("ARRAY_CONTAINS [1,2] \"2\"", "false"),
            ("ARRAY_CONTAINS [[1,2]] [1.0,2]", "true"),
            (r#"ARRAY_CONTAINS [{"a":1,"b":2}] {"b":2,"a":1}"#, "true"),
            (r#"ARRAY_CONTAINS [{"a":1,"b":2}] {"a":1}"#, "false"),
            (r#"ARRAY_CONTAINS [{"a":1,"b":2}] {"a":1} undefined"#, "false"),
            (r#"ARRAY_CONTAINS [{"a":1,"b":2}] {"a":1} true"#, "true"),
            (r#"ARRAY_CONTAINS [{"a":1,"b":2}] {"a":1} "true""#, "undefined"),
            (r#"ARRAY_CONTAINS [{"a":{"x":1,"y":2}}] {"a":{"x":1}} true"#, "false"),
            ("ARRAY_CONTAINS [1,2] 2 true", "true"),
            ("ARRAY_CONTAINS [1,2] undefined", "undefined"),
            ("ARRAY_CONTAINS 1 1", "undefined"),
        ]);
    }

    #[test]
    fn aggregates_of_arrays_refuse_what_does_not_fit() {
        expect(&[
            ("ARRAY_SUM [1,2,3]", "6"),
            ("ARRAY_SUM [9223372036854775807,1]", "9.223372036854776e18"),
            ("ARRAY_SUM []", "0"),
            ("ARRAY_SUM [1,\"2\"]", "undefined"),
            ("ARRAY_AVG [1,2]", "1.5"),
            ("ARRAY_AVG []", "undefined"),
            ("ARRAY_AVG [1,null]", "undefined"),
            ("ARRAY_MEDIAN [4,1,3,2]", "2.5"),
            ("ARRAY_MEDIAN [1.0,7.8,3.3,4.7,2.0]", "3.3"),
            ("ARRAY_MEDIAN [1,-2.7,3,-4]", "-0.8500000000000001"),
            ("ARRAY_MEDIAN []", "undefined"),
            ("ARRAY_MEDIAN [true]", "undefined"),
            ("ARRAY_MAX [12,\"abc\",true,false,null]", "\"abc\""),
            ("ARRAY_MIN [12,\"abc\",true,false]", "false"),
            ("ARRAY_MAX [\"abc\",\"ABC\",\"aBc\"]", "\"abc\""),
            ("ARRAY_MIN [3,-1.5,2]", "-1.5"),
            ("ARRAY_MAX [1,[2]]", "undefined"),
            ("ARRAY_MIN [{},1]", "undefined"),
            ("ARRAY_MIN []", "undefined"),
        ]);
    }

    #[test]
    fn an_object_becomes_an_array_of_its_members() {
        expect(&[
            (r#"OBJECTTOARRAY {"a":"1","b":[2]}"#, r#"[{"k":"a","v":"1"},{"k":"b","v":[2]}]"#),
            (r#"OBJECTTOARRAY {"a":1} "name" "value""#, r#"[{"name":"a","value":1}]"#),
            (r#"OBJECTTOARRAY {"a":1} "name""#, r#"[{"name":"a","v":1}]"#),
            (r#"OBJECTTOARRAY {"a":1} "name" 2"#, "undefined"),
            ("OBJECTTOARRAY {}", "[]"),
            ("OBJECTTOARRAY [1]", "undefined"),
        ]);
    }

    #[test]
    fn choices_are_made_by_position_or_truth() {
        expect(&[
            ("CHOOSE 1 \"a\" \"b\"", "\"a\""),
            ("CHOOSE 2 \"a\" undefined", "undefined"),
            ("CHOOSE 0 \"a\"", "undefined"),
            ("CHOOSE 3 \"a\" \"b\"", "undefined"),
            ("CHOOSE 1.5 \"a\" \"b\"", "undefined"),
            ("CHOOSE -1 \"a\" \"b\"", "undefined"),
            ("IIF true 1 2", "1"),
            ("IIF 1 1 2", "2"),
            ("IIF undefined 1 [2]", "[2]"),
            ("IIF true undefined 2", "undefined"),
        ]);
    }

    #[test]
    fn what_would_grow_too_large_is_an_error() {
        let large = Value::Array(vec![Value::from("x".repeat(1 << 20))]);
        let arguments = vec![Some(Cell::from_ref(&large)); 100];
        assert!(Function::ArrayConcat.apply(arguments, &Scope::new(0, 0)).is_err());
    }
}
