//! Parts of strings: cut by position, by delimiter, or trimmed.
//!
//! A part of a string that belongs to the item or the query is borrowed from it, so that nothing is
//! copied. Positions count UTF-16 units (see [`super::units`]).

use super::units;
use crate::cell::Cell;
use crate::function::arguments::Arguments;
use partita_model::{Error, Result};
use std::borrow::Cow;

use crate::scope::Scope;

/// `LEFT(text, length)`
pub(crate) fn left<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let end = arguments.whole(1)?;
    Some(Cell::String(units::slice(arguments.take_text(0)?, 0, position(end))))
}

/// `RIGHT(text, length)`
pub(crate) fn right<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let taken = position(arguments.whole(1)?);
    let text = arguments.take_text(0)?;
    let length = units::length(&text);
    Some(Cell::String(units::slice(text, length.saturating_sub(taken), length)))
}

/// `SUBSTRING(text, start [, length])`: nothing if the start is outside the text.
pub(crate) fn substring<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let is_bounded = arguments.is_written(2);
    arguments.double(1)?;
    if is_bounded {
        arguments.double(2)?;
    }
    if arguments.text(0)?.is_empty() {
        return arguments.take(0);
    }
    let start = arguments.whole(1)?;
    let taken = if is_bounded { position(arguments.whole(2)?) } else { usize::MAX };
    let text = arguments.take_text(0)?;
    let Ok(start) = usize::try_from(start) else { return Some(Cell::String("".into())) };
    Some(Cell::String(units::slice(text, start, start.saturating_add(taken))))
}

/// A length: below zero there is nothing.
fn position(number: i64) -> usize {
    usize::try_from(number.max(0)).unwrap_or(usize::MAX)
}

pub(crate) fn substring_after<'a>(
    arguments: &mut Arguments<'a>,
    _scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    divided(arguments, "SUBSTRINGAFTER", first, after)
}

pub(crate) fn substring_before<'a>(
    arguments: &mut Arguments<'a>,
    _scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    divided(arguments, "SUBSTRINGBEFORE", first, before)
}

pub(crate) fn last_substring_after<'a>(
    arguments: &mut Arguments<'a>,
    _scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    divided(arguments, "LASTSUBSTRINGAFTER", last, after)
}

pub(crate) fn last_substring_before<'a>(
    arguments: &mut Arguments<'a>,
    _scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    divided(arguments, "LASTSUBSTRINGBEFORE", last, before)
}

/// The text on one side of a delimiter. What these functions give for a text without the delimiter
/// is written nowhere, so that it is refused.
fn divided<'a>(
    arguments: &mut Arguments<'a>,
    name: &str,
    find: fn(&str, &str) -> Option<usize>,
    side: for<'t> fn(Cow<'t, str>, usize, usize) -> Cow<'t, str>,
) -> Result<Option<Cell<'a>>> {
    let Some((text, delimiter)) = arguments.text(0).zip(arguments.text(1)) else {
        return Ok(None);
    };
    let found = find(text, delimiter).filter(|_| !delimiter.is_empty());
    let (Some(at), length) = (found, delimiter.len()) else {
        return Err(Error::unsupported(format!(
            "Partita does not know what {name} gives for a string without the delimiter."
        )));
    };
    Ok(arguments.take_text(0).map(|text| Cell::String(side(text, at, length))))
}

fn first(text: &str, delimiter: &str) -> Option<usize> {
    text.find(delimiter)
}

fn last(text: &str, delimiter: &str) -> Option<usize> {
    text.rfind(delimiter)
}

fn after(text: Cow<'_, str>, at: usize, delimiter_bytes: usize) -> Cow<'_, str> {
    let end = text.len();
    units::cut(text, at + delimiter_bytes, end)
}

fn before(text: Cow<'_, str>, at: usize, _delimiter_bytes: usize) -> Cow<'_, str> {
    units::cut(text, 0, at)
}

pub(crate) fn trim<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    trimmed(arguments, true, true)
}

pub(crate) fn left_trim<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    trimmed(arguments, true, false)
}

pub(crate) fn right_trim<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    trimmed(arguments, false, true)
}

/// `f(text [, characters])`: without characters, whitespace is trimmed.
fn trimmed<'a>(arguments: &mut Arguments<'a>, at_start: bool, at_end: bool) -> Option<Cell<'a>> {
    let mut dropped: Vec<char> =
        if arguments.is_written(1) { arguments.text(1)?.chars().collect() } else { Vec::new() };
    dropped.sort_unstable();
    let is_dropped = |character: char| {
        if arguments.is_written(1) {
            dropped.binary_search(&character).is_ok()
        } else {
            character.is_whitespace()
        }
    };
    let text = arguments.text(0)?;
    let kept = if at_start { text.trim_start_matches(is_dropped) } else { text };
    let start = text.len() - kept.len();
    let kept = if at_end { kept.trim_end_matches(is_dropped) } else { kept };
    let end = start + kept.len();
    Some(Cell::String(units::cut(arguments.take_text(0)?, start, end)))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};
    use proptest::prelude::*;

    #[test]
    fn parts_by_position_are_clamped() {
        expect(&[
            (r#"LEFT "Hello" -3"#, r#""""#),
            (r#"LEFT "Hello" 0"#, r#""""#),
            (r#"LEFT "Hello" 2"#, r#""He""#),
            (r#"LEFT "Hello" 6"#, r#""Hello""#),
            (r#"LEFT "Hello" 1e300"#, r#""Hello""#),
            (r#"LEFT "Hello" 1.5"#, "undefined"),
            (r#"LEFT "Hello" Infinity"#, "undefined"),
            (r#"LEFT 1 1"#, "undefined"),
            (r#"LEFT "é😀x" 3"#, r#""é😀""#),
            (r#"LEFT "é😀x" 2"#, "\"é\u{FFFD}\""),
            (r#"RIGHT "Hello" -3"#, r#""""#),
            (r#"RIGHT "Hello" 2"#, r#""lo""#),
            (r#"RIGHT "Hello" 1.5"#, "undefined"),
            (r#"RIGHT "Hello" 2147483648"#, r#""Hello""#),
            (r#"SUBSTRING "Hello" -3 5"#, r#""""#),
            (r#"SUBSTRING "Hello" 1 3"#, r#""ell""#),
            (r#"SUBSTRING "Hello" 1"#, r#""ello""#),
            (r#"SUBSTRING "Hello" 5 3"#, r#""""#),
            (r#"SUBSTRING "Hello" 1 -1"#, r#""""#),
            (r#"SUBSTRING "Hello" 1 99"#, r#""ello""#),
            (r#"SUBSTRING "Hello" 1.5 1"#, "undefined"),
            (r#"SUBSTRING "Hello" 1 1.5"#, "undefined"),
            (r#"SUBSTRING "" 1.5 1"#, r#""""#),
            (r#"SUBSTRING "" null 1"#, "undefined"),
            (r#"SUBSTRING "Hello" 1 undefined"#, "undefined"),
        ]);
    }

    #[test]
    fn parts_by_delimiter_need_the_delimiter() {
        expect(&[
            (r#"SUBSTRINGAFTER "a|b|c" "|""#, r#""b|c""#),
            (r#"SUBSTRINGBEFORE "a::b::c" "::""#, r#""a""#),
            (r#"LASTSUBSTRINGAFTER "/x/y/z" "/""#, r#""z""#),
            (r#"LASTSUBSTRINGBEFORE "/x/y/z" "/""#, r#""/x/y""#),
            (r#"SUBSTRINGAFTER 1 "|""#, "undefined"),
        ]);
        assert!(call(r#"SUBSTRINGAFTER "abc" "|""#).contains("SUBSTRINGAFTER"));
        assert!(call(r#"LASTSUBSTRINGBEFORE "abc" """#).starts_with("error: "));
    }

    #[test]
    fn trimming_takes_whitespace_or_a_set_of_characters() {
        expect(&[
            (r#"TRIM "  a b\u00a0\n""#, r#""a b""#),
            (r#"LTRIM "  a ""#, r#""a ""#),
            (r#"RTRIM "  a ""#, r#""  a""#),
            (r#"LTRIM "AdventureWorks" "Adventure""#, r#""Works""#),
            (r#"RTRIM "AdventureWorks" "Works""#, r#""Adventure""#),
            (r#"TRIM "-_-AdventureWorks-_-" "-_""#, r#""AdventureWorks""#),
            (r#"TRIM " a " """#, r#"" a ""#),
            (r#"TRIM "aaa" "a""#, r#""""#),
            (r#"TRIM "a" 1"#, "undefined"),
            (r#"TRIM "a" undefined"#, "undefined"),
            (r#"TRIM null"#, "undefined"),
        ]);
    }

    proptest! {
        #[test]
        fn parts_agree_with_parts_of_the_units(
            text in "[abé\u{10000}]{0,8}",
            start in -2_i64..12,
            len in -2_i64..12,
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let clamp = |at: i64| at.clamp(0, units.len() as i64) as usize;
            let shown = |part: &[u16]| format!("\"{}\"", String::from_utf16_lossy(part));
            let left = call(&format!(r#"LEFT "{text}" {len}"#));
            prop_assert_eq!(left, shown(&units[..clamp(len)]));
            let right = call(&format!(r#"RIGHT "{text}" {len}"#));
            prop_assert_eq!(right, shown(&units[units.len() - clamp(len)..]));
            let expected = if start < 0 || len <= 0 {
                shown(&[])
            } else {
                shown(&units[clamp(start)..clamp(start + len)])
            };
            prop_assert_eq!(call(&format!(r#"SUBSTRING "{text}" {start} {len}"#)), expected);
        }
    }
}
