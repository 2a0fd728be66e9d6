//! Values as texts and texts as values: `TOSTRING` and its inverses.
//!
//! Texts are JSON, strict in everything but the blanks around it. A text of another type than the
//! one that is asked for is undefined.

use super::arguments::Arguments;
use super::room;
use crate::cell::{Cell, Kind};
use crate::scope::Scope;
use partita_model::{Number, Result, Value};
use std::borrow::Cow;

pub(super) fn to_string<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some(cell) = arguments.take(0) else { return Ok(None) };
    let text = match cell {
        Cell::String(text) => text,
        Cell::Null => "null".into(),
        Cell::Bool(value) => if value { "true" } else { "false" }.into(),
        Cell::Number(number) => Cow::Owned(number_text(number)),
        Cell::Text(raw) => Cow::Borrowed(raw.text()),
        Cell::Tree(tree) => {
            scope.reserve(room::of_value(&tree))?;
            Cow::Owned(tree.to_json())
        }
    };
    Ok(Some(Cell::String(text)))
}

/// Shortest digits that read back as the number. An exponent has a sign and two digits, as C
/// prints it.
fn number_text(number: Number) -> String {
    let double = number.as_f64();
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if double == 0.0 {
        return "0".to_owned();
    }
    let plain = number.to_string();
    match plain.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => plain,
    }
}

fn parsed<'a>(arguments: &Arguments<'a>, scope: &Scope, wanted: Kind) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0) else { return Ok(None) };
    if wanted >= Kind::Array {
        scope.reserve(room::of_text(text))?;
    }
    let cell = Value::parse(text.as_bytes()).ok().map(Cell::from_value);
    Ok(cell.filter(|cell| cell.kind() == wanted))
}

pub(super) fn to_array<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    parsed(arguments, scope, Kind::Array)
}

pub(super) fn to_boolean<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    parsed(arguments, scope, Kind::Bool)
}

pub(super) fn to_null<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    parsed(arguments, scope, Kind::Null)
}

pub(super) fn to_number<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    parsed(arguments, scope, Kind::Number)
}

pub(super) fn to_object<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    parsed(arguments, scope, Kind::Object)
}

#[cfg(test)]
mod tests {
    use crate::function::testing::expect;

    #[test]
    fn every_defined_value_has_a_text() {
        expect(&[
            ("TOSTRING 125", r#""125""#),
            ("TOSTRING 1.0", r#""1""#),
            ("TOSTRING -0.0", r#""0""#),
            ("TOSTRING 0.1234", r#""0.1234""#),
            ("TOSTRING 13.475000000000001", r#""13.475000000000001""#),
            ("TOSTRING 9223372036854775807", r#""9223372036854775807""#),
            ("TOSTRING 1e21", r#""1e+21""#),
            ("TOSTRING 1.5e-7", r#""1.5e-07""#),
            ("TOSTRING -1.7976931348623157e308", r#""-1.7976931348623157e+308""#),
            ("TOSTRING NaN", r#""NaN""#),
            ("TOSTRING Infinity", r#""Infinity""#),
            ("TOSTRING null", r#""null""#),
            ("TOSTRING false", r#""false""#),
            ("TOSTRING \"x\"", r#""x""#),
            ("TOSTRING undefined", "undefined"),
            ("TOSTRING [1,2,3]", r#""[1,2,3]""#),
            (r#"TO_STRING {"a":"b"}"#, r#""{\"a\":\"b\"}""#),
        ]);
    }

    #[test]
    fn texts_are_strict_json_of_the_type_that_is_asked_for() {
        expect(&[
            (r#"STRINGTONUMBER " 60 ""#, "60"),
            (r#"STRINGTONUMBER "3.14""#, "3.14"),
            (r#"STRINGTONUMBER "-1.79769e+308""#, "-1.79769e308"),
            (r#"STRINGTONUMBER "1e999""#, "undefined"),
            (r#"STRINGTONUMBER "0x10""#, "undefined"),
            (r#"STRINGTONUMBER "Hello""#, "undefined"),
            (r#"STRINGTONUMBER "NaN""#, "undefined"),
            (r#"STRINGTONUMBER "true""#, "undefined"),
            ("STRINGTONUMBER 1", "undefined"),
            (r#"STRINGTOBOOLEAN "  false ""#, "false"),
            (r#"STRINGTOBOOLEAN "False""#, "undefined"),
            (r#"STRINGTONULL " null""#, "null"),
            (r#"STRINGTONULL "NULL""#, "undefined"),
            ("STRINGTONULL null", "undefined"),
            (r#"STRINGTOARRAY " [ 1, [\"a\"] ] ""#, r#"[1,["a"]]"#),
            (r#"STRINGTOARRAY "['a']""#, "undefined"),
            (r#"STRINGTOARRAY "{}""#, "undefined"),
            (r#"STRING_TO_OBJECT "{\"a\": true}""#, r#"{"a":true}"#),
            (r#"STRINGTOOBJECT "[]""#, "undefined"),
        ]);
    }
}
