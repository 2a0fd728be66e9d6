//! Calls as one line of text, for tables of examples: `NAME argument argument …`, each argument
//! JSON, or one of the words undefined, NaN, Infinity. Every array and object is passed twice, as a
//! tree and as a piece of an item's text, and the two must agree.

use super::Function;
use super::arguments::{double, int};
use crate::cell::Cell;
use crate::scope::Scope;
use partita_model::{Document, Value};

/// 2024-10-14T14:20:30.6668888Z.
pub(super) const NOW_TICKS: u64 = 17_289_156_306_668_888;

/// The result as JSON, or one of the words, or `error: …`.
pub(super) fn call(text: &str) -> String {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let function = Function::by_name(name).unwrap_or_else(|| panic!("{name} is unknown"));
    let texts = split(rest);
    assert_eq!(function.count_complaint(texts.len()), None, "{text}");
    let scope = Scope::new(NOW_TICKS, 7);
    let trees = texts.iter().map(|text| tree(text)).collect();
    let documents: Vec<String> = texts.iter().map(|text| format!("[{text}]")).collect();
    let pieces = texts.iter().zip(&documents).map(|(text, document)| match text.as_bytes() {
        [b'{' | b'[', ..] => Document::new(document).elements().next().map(Cell::from_raw),
        _ => tree(text),
    });
    let of_trees = shown(function.apply(trees, &scope));
    let scope = Scope::new(NOW_TICKS, 7);
    assert_eq!(of_trees, shown(function.apply(pieces.collect(), &scope)), "{text}");
    of_trees
}

/// Checks calls against their results.
pub(super) fn expect(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(call(text), *expected, "{text}");
    }
}

fn shown(result: partita_model::Result<Option<Cell<'_>>>) -> String {
    match result {
        Err(error) => format!("error: {error}"),
        Ok(None) => "undefined".to_owned(),
        Ok(Some(Cell::Number(number))) if !number.as_f64().is_finite() => {
            number.as_f64().to_string()
        }
        Ok(Some(cell)) => cell.into_value().to_json(),
    }
}

fn tree(text: &str) -> Option<Cell<'static>> {
    match text {
        "undefined" => None,
        "NaN" => Some(double(f64::NAN)),
        "Infinity" => Some(double(f64::INFINITY)),
        "min" => Some(int(i64::MIN)),
        _ => Some(Cell::from_value(
            Value::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}")),
        )),
    }
}

/// Cuts at blanks that are outside strings and brackets.
fn split(text: &str) -> Vec<String> {
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for c in text.chars() {
        if c == ' ' && depth == 0 && !in_string {
            pieces.extend(Some(std::mem::take(&mut piece)).filter(|piece| !piece.is_empty()));
            continue;
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        piece.push(c);
    }
    pieces.extend(Some(piece).filter(|piece| !piece.is_empty()));
    pieces
}
