//! Strings and arrays made out of strings: joined, replaced, repeated, reversed, split.
//!
//! The size of a result is known, and reserved, before the result is built.

use super::units;
use crate::cell::Cell;
use crate::function::arguments::Arguments;
use crate::function::array::{array, elements};
use crate::scope::Scope;
use partita_model::{Result, Value};
use std::borrow::Cow;

/// The longest that `REPLICATE` makes, in UTF-16 units.
const REPLICATED_UNITS_MAX: usize = 10_000;

fn owned<'a>(text: String) -> Result<Option<Cell<'a>>> {
    Ok(Some(Cell::String(Cow::Owned(text))))
}

pub(crate) fn concat<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let parts: Option<Vec<&str>> =
        arguments.from(0).map(|argument| argument.and_then(Cell::as_str)).collect();
    let Some(parts) = parts else { return Ok(None) };
    scope.reserve(parts.iter().map(|part| part.len()).sum())?;
    owned(parts.concat())
}

/// `STRINGJOIN(array, separator)`
pub(crate) fn join<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let Some(separator) = arguments.text(1) else { return Ok(None) };
    let Some(elements) = arguments.get(0).and_then(elements) else { return Ok(None) };
    let mut joined = String::new();
    for (at, element) in elements.enumerate() {
        let Some(text) = element.as_str() else { return Ok(None) };
        scope.reserve(text.len() + separator.len())?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    owned(joined)
}

/// `STRINGSPLIT(text, separator)`; an empty separator separates nothing.
pub(crate) fn split<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let Some((text, separator)) = arguments.text(0).zip(arguments.text(1)) else {
        return Ok(None);
    };
    if separator.is_empty() {
        scope.reserve(size_of::<Value>() + text.len())?;
        return Ok(Some(array(vec![Value::from(text)])));
    }
    let mut parts = Vec::new();
    for part in text.split(separator) {
        scope.reserve(size_of::<Value>() + part.len())?;
        parts.push(Value::from(part));
    }
    Ok(Some(array(parts)))
}

pub(crate) fn lower<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    mapped(arguments, scope, super::lower)
}

pub(crate) fn upper<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    mapped(arguments, scope, super::upper)
}

/// By UTF-16 units: a character beyond U+FFFF does not survive it.
pub(crate) fn reverse<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    mapped(arguments, scope, |text| {
        let reversed = text.chars().rev();
        if text.chars().any(|character| character.len_utf16() > 1) {
            let mut units: Vec<u16> = text.encode_utf16().collect();
            units.reverse();
            String::from_utf16_lossy(&units)
        } else {
            reversed.collect()
        }
    })
}

fn mapped<'a>(
    arguments: &Arguments<'a>,
    scope: &Scope,
    map: fn(&str) -> String,
) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0) else { return Ok(None) };
    scope.reserve(text.len())?;
    owned(map(text))
}

/// `REPLACE(text, find, with)`: every occurrence, from the left.
pub(crate) fn replace<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let (Some(text), Some(find), Some(with)) =
        (arguments.text(0), arguments.text(1), arguments.text(2))
    else {
        return Ok(None);
    };
    if find.is_empty() {
        return Ok(None);
    }
    let found = text.matches(find).count();
    let kept = text.len() - found * find.len();
    scope.reserve(kept.saturating_add(found.saturating_mul(with.len())))?;
    owned(text.replace(find, with))
}

/// `REPLICATE(text, times)`
pub(crate) fn replicate<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some((text, times)) = arguments.text(0).zip(arguments.double(1)) else { return Ok(None) };
    if !times.is_finite() || times < 0.0 {
        return Ok(None);
    }
    if text.is_empty() {
        return owned(String::new());
    }
    // A fraction of a time is none; a number beyond all sizes counts as the largest.
    let times = times as usize;
    if units::length(text).saturating_mul(times) > REPLICATED_UNITS_MAX {
        return Ok(None);
    }
    scope.reserve(text.len().saturating_mul(times))?;
    owned(text.repeat(times))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};
    use proptest::prelude::*;

    #[test]
    fn strings_are_built_of_strings_only() {
        expect(&[
            (r#"CONCAT "a" "b" "é""#, r#""abé""#),
            (r#"CONCAT "a" 1"#, "undefined"),
            (r#"CONCAT "a" undefined"#, "undefined"),
            (r#"STRINGJOIN ["a","b"] ", ""#, r#""a, b""#),
            (r#"STRINGJOIN [] ", ""#, r#""""#),
            (r#"STRINGJOIN ["a",1] ", ""#, "undefined"),
            (r#"STRINGJOIN "a" ", ""#, "undefined"),
            (r#"STRINGSPLIT "a,b,,c" ",""#, r#"["a","b","","c"]"#),
            (r#"STRINGSPLIT "abc" """#, r#"["abc"]"#),
            (r#"STRINGSPLIT "" """#, r#"[""]"#),
            (r#"STRINGSPLIT "" ",""#, r#"[""]"#),
            (r#"STRINGSPLIT 1 ",""#, "undefined"),
            (r#"LOWER "ABC É""#, r#""abc é""#),
            (r#"UPPER "abc µ""#, r#""ABC µ""#),
            ("UPPER 1", "undefined"),
            (r#"REVERSE "abé""#, r#""éba""#),
            (r#"REVERSE "a😀""#, "\"\u{FFFD}\u{FFFD}a\""),
            (r#"REPLACE "aXbX" "X" "yz""#, r#""ayzbyz""#),
            (r#"REPLACE "aaa" "aa" "b""#, r#""ba""#),
            (r#"REPLACE "Hello" "" "World""#, "undefined"),
            (r#"REPLACE "Hello" "l" undefined"#, "undefined"),
        ]);
    }

    #[test]
    fn repetitions_are_bounded_by_their_length() {
        expect(&[
            (r#"REPLICATE "Hello" -1"#, "undefined"),
            (r#"REPLICATE "Hello" 1.5"#, r#""Hello""#),
            (r#"REPLICATE "Hello" 0"#, r#""""#),
            (r#"REPLICATE "Hello" 10000"#, "undefined"),
            (r#"REPLICATE "Hello" Infinity"#, "undefined"),
            (r#"REPLICATE "Hello" 1e300"#, "undefined"),
            (r#"REPLICATE "" 1e300"#, r#""""#),
            (r#"REPLICATE 1 1"#, "undefined"),
        ]);
        assert_eq!(call(r#"REPLICATE "é" 10000"#).chars().count(), 10_002);
        assert_eq!(call(r#"REPLICATE "é" 10001"#), "undefined");
    }

    #[test]
    fn a_replacement_that_would_grow_too_large_is_an_error() {
        let long = "a".repeat(100_000);
        let found = call(&format!(r#"REPLACE "{long}" "a" "{long}""#));
        assert!(found.starts_with("error: "), "unbounded");
    }

    proptest! {
        #[test]
        fn splitting_and_joining_are_inverse(text in "[a,b;]{0,20}", separator in "[,;]{1,2}") {
            let parts = call(&format!(r#"STRINGSPLIT "{text}" "{separator}""#));
            let joined = call(&format!(r#"STRINGJOIN {parts} "{separator}""#));
            prop_assert_eq!(joined, format!("{text:?}"));
        }

        #[test]
        fn reversing_reverses_the_units(text in "[a-cé\u{10000}]{0,10}") {
            let mut units: Vec<u16> = text.encode_utf16().collect();
            units.reverse();
            let expected = format!("\"{}\"", String::from_utf16_lossy(&units));
            prop_assert_eq!(call(&format!(r#"REVERSE "{text}""#)), expected);
        }
    }
}
