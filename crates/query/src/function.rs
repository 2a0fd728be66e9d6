//! The functions of the language that this crate evaluates, in one table.
//!
//! A name is not case-sensitive and may have aliases. A wrong number of arguments is a compile
//! error; a wrong type never is: the result is undefined, and so it is for an undefined argument.
//! The exceptions are the `IS_…` family, which answers for undefined too, and the optional third
//! argument of `ARRAY_CONTAINS`.

use crate::compare;
use partita_model::{Number, Value};
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    IsDefined,
    IsNull,
    IsString,
    IsNumber,
    IsBool,
    IsArray,
    IsObject,
    Contains,
    StartsWith,
    EndsWith,
    ArrayContains,
    Lower,
    Upper,
    Length,
    Abs,
}

/// Name, function, fewest and most arguments. The first row of a function has its canonical name.
const TABLE: [(&str, Function, usize, usize); 16] = [
    ("IS_DEFINED", Function::IsDefined, 1, 1),
    ("IS_NULL", Function::IsNull, 1, 1),
    ("IS_STRING", Function::IsString, 1, 1),
    ("IS_NUMBER", Function::IsNumber, 1, 1),
    ("IS_BOOL", Function::IsBool, 1, 1),
    ("IS_BOOLEAN", Function::IsBool, 1, 1),
    ("IS_ARRAY", Function::IsArray, 1, 1),
    ("IS_OBJECT", Function::IsObject, 1, 1),
    ("CONTAINS", Function::Contains, 2, 3),
    ("STARTSWITH", Function::StartsWith, 2, 3),
    ("ENDSWITH", Function::EndsWith, 2, 3),
    ("ARRAY_CONTAINS", Function::ArrayContains, 2, 3),
    ("LOWER", Function::Lower, 1, 1),
    ("UPPER", Function::Upper, 1, 1),
    ("LENGTH", Function::Length, 1, 1),
    ("ABS", Function::Abs, 1, 1),
];

/// An argument as evaluated; `None` is undefined.
pub(crate) type Argument<'a> = Option<Cow<'a, Value>>;

impl Function {
    pub(crate) fn by_name(name: &str) -> Option<Function> {
        let row = TABLE.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        row.map(|(_, function, ..)| *function)
    }

    /// What the service says about this many arguments, if anything.
    pub(crate) fn count_complaint(self, count: usize) -> Option<String> {
        let (name, _, fewest, most) = TABLE.iter().find(|(_, function, ..)| *function == self)?;
        if (*fewest..=*most).contains(&count) {
            return None;
        }
        Some(match fewest == most {
            true => format!("The {name} function requires {fewest} argument(s)."),
            false => format!("The {name} function requires {fewest} to {most} argument(s)."),
        })
    }

    pub(crate) fn apply(self, arguments: &[Argument<'_>]) -> Option<Value> {
        let argument = |at: usize| arguments.get(at).and_then(|a| a.as_deref());
        let is = |test: fn(&Value) -> bool| Some(Value::Bool(argument(0).is_some_and(test)));
        match self {
            Function::IsDefined => is(|_| true),
            Function::IsNull => is(|value| matches!(value, Value::Null)),
            Function::IsString => is(|value| matches!(value, Value::String(_))),
            Function::IsNumber => is(|value| matches!(value, Value::Number(_))),
            Function::IsBool => is(|value| matches!(value, Value::Bool(_))),
            Function::IsArray => is(|value| matches!(value, Value::Array(_))),
            Function::IsObject => is(|value| matches!(value, Value::Object(_))),
            Function::Contains => text_test(arguments, |text, part| text.contains(part)),
            Function::StartsWith => text_test(arguments, |text, part| text.starts_with(part)),
            Function::EndsWith => text_test(arguments, |text, part| text.ends_with(part)),
            Function::ArrayContains => array_contains(arguments),
            Function::Lower => Some(Value::String(lower(argument(0)?.as_str()?))),
            Function::Upper => Some(Value::String(upper(argument(0)?.as_str()?))),
            Function::Length => {
                let units = argument(0)?.as_str()?.encode_utf16().count();
                Some(Value::Number(Number::Int(i64::try_from(units).ok()?)))
            }
            Function::Abs => absolute(argument(0)?),
        }
    }
}

/// `f(text, part [, ignore_case])`
fn text_test(arguments: &[Argument<'_>], test: fn(&str, &str) -> bool) -> Option<Value> {
    let text = arguments.first()?.as_deref()?.as_str()?;
    let part = arguments.get(1)?.as_deref()?.as_str()?;
    let ignore_case = match arguments.get(2) {
        Some(flag) => flag.as_deref()?.as_bool()?,
        None => false,
    };
    Some(Value::Bool(match ignore_case {
        true => test(&lower(text), &lower(part)),
        false => test(text, part),
    }))
}

/// `ARRAY_CONTAINS(array, needle [, partial])`: with `partial`, an object needle is found in an
/// element that has all its members.
fn array_contains(arguments: &[Argument<'_>]) -> Option<Value> {
    let array = arguments.first()?.as_deref()?.as_array()?;
    let needle = arguments.get(1)?.as_deref()?;
    let partial = match arguments.get(2) {
        Some(Some(flag)) => flag.as_bool()?,
        Some(None) | None => false,
    };
    let fits = |element: &Value| match (element, needle) {
        (Value::Object(whole), Value::Object(part)) if partial => {
            compare::contains_members(whole, part)
        }
        _ => compare::equal(element, needle),
    };
    Some(Value::Bool(array.iter().any(fits)))
}

fn absolute(value: &Value) -> Option<Value> {
    match value {
        Value::Number(Number::Int(integer)) => Some(Value::Number(match integer.checked_abs() {
            Some(positive) => Number::Int(positive),
            None => Number::Double(value.as_f64()?.abs()),
        })),
        Value::Number(Number::Double(double)) => Some(Value::Number(Number::Double(double.abs()))),
        _ => None,
    }
}

/// Character by character, as the service maps case: what has no single counterpart stays.
fn lower(text: &str) -> String {
    text.chars().map(|c| single(c, c.to_lowercase())).collect()
}

fn upper(text: &str) -> String {
    // The micro sign has a single capital in Unicode, but the service leaves it alone.
    text.chars().map(|c| if c == 'µ' { c } else { single(c, c.to_uppercase()) }).collect()
}

fn single(original: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => original,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_mapping_keeps_characters_without_a_single_counterpart() {
        assert_eq!(upper("straße µ é"), "STRAßE µ É");
        assert_eq!(lower("ÀB İ"), "àb İ");
    }

    #[test]
    fn the_smallest_integer_has_a_positive_absolute_value() {
        let expected = Value::Number(Number::Double(9_223_372_036_854_775_808.0));
        let found = absolute(&Value::Number(Number::Int(i64::MIN))).unwrap();
        assert!(compare::equal(&found, &expected), "{found}");
    }

    #[test]
    fn complaints_about_counts_use_the_canonical_name() {
        let boolean = Function::by_name("is_boolean").unwrap();
        let complaint = boolean.count_complaint(2).unwrap();
        assert_eq!(complaint, "The IS_BOOL function requires 1 argument(s).");
        let complaint = Function::StartsWith.count_complaint(1).unwrap();
        assert_eq!(complaint, "The STARTSWITH function requires 2 to 3 argument(s).");
        assert_eq!(Function::StartsWith.count_complaint(3), None);
    }
}
