//! Questions about strings: containment, equality, positions, length.
//!
//! Comparisons are of code points. Ignoring case compares both sides after simple case folding,
//! character by character. Positions count UTF-16 units (see [`units`]).

pub(super) mod build;
pub(super) mod part;
mod units;

use super::arguments::{Arguments, count, int};
use super::room;
use crate::cell::Cell;
use crate::scope::Scope;
use partita_model::Result;

/// `f(text, part [, ignore_case])`
fn test<'a>(arguments: &Arguments<'a>, holds: fn(&str, &str) -> bool) -> Option<Cell<'a>> {
    let (text, part) = (arguments.text(0)?, arguments.text(1)?);
    Some(Cell::Bool(if arguments.flag(2)? {
        holds(&folded(text), &folded(part))
    } else {
        holds(text, part)
    }))
}

pub(super) fn contains<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |text, part| text.contains(part))
}

pub(super) fn ends_with<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |text, part| text.ends_with(part))
}

pub(super) fn starts_with<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |text, part| text.starts_with(part))
}

pub(super) fn equals<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |text, other| text == other)
}

pub(super) fn contains_any_ci<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0).map(folded) else { return Ok(None) };
    decide(arguments, scope, true, |part| text.contains(&folded(part)))
}

pub(super) fn contains_any_cs<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0) else { return Ok(None) };
    decide(arguments, scope, true, |part| text.contains(part))
}

pub(super) fn contains_all_ci<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0).map(folded) else { return Ok(None) };
    decide(arguments, scope, false, |part| text.contains(&folded(part)))
}

pub(super) fn contains_all_cs<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some(text) = arguments.text(0) else { return Ok(None) };
    decide(arguments, scope, false, |part| text.contains(part))
}

/// OR (decided by true) or AND (decided by false) of a test of each term, in three-valued logic: a
/// term that is no string has no answer.
fn decide<'a>(
    arguments: &Arguments<'a>,
    scope: &Scope,
    decisive: bool,
    holds: impl Fn(&str) -> bool,
) -> Result<Option<Cell<'a>>> {
    // The text is looked through for every term.
    let work = arguments.get(0).map_or(0, room::work_of);
    let mut is_complete = true;
    for term in arguments.from(1) {
        scope.steps(work)?;
        match term.and_then(Cell::as_str).map(&holds) {
            Some(answer) if answer == decisive => return Ok(Some(Cell::Bool(decisive))),
            Some(_) => {}
            None => is_complete = false,
        }
    }
    Ok(is_complete.then_some(Cell::Bool(!decisive)))
}

/// `INDEX_OF(text, part [, start])`: -1 if there is none.
pub(super) fn index_of<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let (text, part) = (arguments.text(0)?, arguments.text(1)?);
    let start = if arguments.is_written(2) {
        usize::try_from(arguments.whole(2)?.max(0)).ok()?
    } else {
        0
    };
    if start > units::length(text) {
        return Some(int(-1));
    }
    let place = units::byte_position(text, start);
    // No string begins with half of a pair: a position inside one begins with the next character.
    let from = place.byte + if place.is_inside { char::MAX.len_utf8() } else { 0 };
    let found = text.get(from..)?.find(part);
    Some(position(text, found.map(|at| at + from)))
}

/// `LASTINDEXOF(text, part [, start])`: the last one that ends at or before `start`.
pub(super) fn last_index_of<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let (text, part) = (arguments.text(0)?, arguments.text(1)?);
    let end = if arguments.is_written(2) {
        match usize::try_from(arguments.whole(2)?.saturating_add(1)) {
            Ok(end) => units::byte_position(text, end).byte,
            Err(_) => return Some(int(-1)),
        }
    } else {
        text.len()
    };
    Some(position(text, text.get(..end)?.rfind(part)))
}

fn position<'a>(text: &str, byte: Option<usize>) -> Cell<'a> {
    match byte.and_then(|byte| text.get(..byte)) {
        Some(before) => count(units::length(before)),
        None => int(-1),
    }
}

pub(super) fn length<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(count(units::length(arguments.text(0)?)))
}

/// What is left of a text when case does not matter. Through upper case and back, because some
/// small letters share their capital, as the two forms of sigma do.
fn folded(text: &str) -> String {
    let fold = |c: char| match c {
        // Its capital is that of another letter.
        'ı' => c,
        _ => {
            let capital = single(c, c.to_uppercase());
            single(capital, capital.to_lowercase())
        }
    };
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(fold).collect() }
}

/// Character by character, as the service maps case: what has no single counterpart stays.
pub(super) fn lower(text: &str) -> String {
    if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.chars().map(|c| single(c, c.to_lowercase())).collect()
    }
}

pub(super) fn upper(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
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
    use crate::function::Function;
    use crate::function::testing::{call, expect};
    use proptest::prelude::*;

    #[test]
    fn case_mapping_keeps_characters_without_a_single_counterpart() {
        assert_eq!(upper("straße µ é"), "STRAßE µ É");
        assert_eq!(lower("ÀB İ"), "àb İ");
    }

    #[test]
    fn tests_of_strings_need_strings_and_a_boolean() {
        expect(&[
            (r#"CONTAINS "hello" """#, "true"),
            (r#"CONTAINS "hello" "ELL""#, "false"),
            (r#"CONTAINS "hello" "ELL" true"#, "true"),
            (r#"CONTAINS "hello" "ELL" false"#, "false"),
            (r#"CONTAINS "hello" "ELL" 1"#, "undefined"),
            (r#"CONTAINS "hello" "ELL" undefined"#, "undefined"),
            (r#"CONTAINS "hello" 1"#, "undefined"),
            (r#"CONTAINS 1 "hello""#, "undefined"),
            (r#"STARTSWITH "Abc" "ab""#, "false"),
            (r#"STARTSWITH "Äbc" "ä" true"#, "true"),
            (r#"STRINGEQUALS "ΟΔΟΣ" "οδος" true"#, "true"),
            (r#"STRINGEQUALS "ı" "i" true"#, "false"),
            (r#"STRINGEQUALS "straße" "STRASSE" true"#, "false"),
            (r#"ENDSWITH "abC" "C""#, "true"),
            (r#"ENDSWITH "abC" "abcd" true"#, "false"),
            (r#"STRINGEQUALS "abc" "ABC""#, "false"),
            (r#"STRINGEQUALS "abc" "ABC" true"#, "true"),
            (r#"STRING_EQUALS "abc" null"#, "undefined"),
        ]);
    }

    #[test]
    fn containing_any_or_all_is_three_valued() {
        expect(&[
            (r#"CONTAINS_ANY_CI "Have a nice day!" "HAVE" "x""#, "true"),
            (r#"CONTAINS_ANY_CS "Have a nice day!" "HAVE" "x""#, "false"),
            (r#"CONTAINS_ANY_CS "Have" undefined "x""#, "undefined"),
            (r#"CONTAINS_ANY_CS "Have" 1 "av""#, "true"),
            (r#"CONTAINS_ANY_CS undefined "av""#, "undefined"),
            (r#"CONTAINS_ALL_CI "Have a nice day!" "HAVE" "day""#, "true"),
            (r#"CONTAINS_ALL_CS "Have a nice day!" "HAVE" "day""#, "false"),
            (r#"CONTAINS_ALL_CS "Have" undefined "x""#, "false"),
            (r#"CONTAINS_ALL_CS "Have" undefined "H""#, "undefined"),
        ]);
    }

    #[test]
    fn positions_count_utf16_units() {
        expect(&[
            (r#"LENGTH "aé😀""#, "4"),
            (r#"LENGTH 1"#, "undefined"),
            (r#"INDEX_OF "abcabc" "bc""#, "1"),
            (r#"INDEX_OF "abcabc" "bc" 2"#, "4"),
            (r#"INDEX_OF "abcabc" "bc" 5"#, "-1"),
            (r#"INDEX_OF "abcabc" "bc" 99"#, "-1"),
            (r#"INDEX_OF "abcabc" "bc" -3"#, "1"),
            (r#"INDEX_OF "abcabc" "bc" 1.5"#, "undefined"),
            (r#"INDEX_OF "abcabc" "bc" undefined"#, "undefined"),
            (r#"INDEX_OF "abc" """#, "0"),
            (r#"INDEX_OF "😀b" "b""#, "2"),
            (r#"INDEX_OF "😀b" "b" 1"#, "2"),
            (r#"LASTINDEXOF "abcdeabc" "abc""#, "5"),
            (r#"LASTINDEXOF "abcdeabc" "abc" 6"#, "0"),
            (r#"LASTINDEXOF "abcdeabc" "abc" 7"#, "5"),
            (r#"LASTINDEXOF "abcdeabc" "abc" 700"#, "5"),
            (r#"LASTINDEXOF "abcdeabc" "abc" 1"#, "-1"),
            (r#"LASTINDEXOF "abcdeabc" "abc" -5"#, "-1"),
            (r#"LASTINDEXOF "abcdeabc" "fg""#, "-1"),
            (r#"LASTINDEXOF "😀😀" "😀""#, "2"),
            (r#"LASTINDEXOF "😀😀" "😀" 2"#, "0"),
        ]);
    }

    #[test]
    fn many_terms_in_a_long_text_are_too_much_work() {
        let text = "a".repeat(2 << 20);
        let mut arguments = vec![Some(Cell::String(text.as_str().into()))];
        arguments.resize(20_000, Some(Cell::String("b".into())));
        let found = Function::ContainsAnyCs.apply(arguments, &Scope::new(0, 0));
        assert!(found.unwrap_err().message.contains("too much work"));
    }

    proptest! {
        #[test]
        fn positions_agree_with_searching_the_units(
            text in "[ab\u{10000}\u{10001}]{0,8}",
            part in "[ab\u{10000}]{1,2}",
            start in 0_usize..20,
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let wanted: Vec<u16> = part.encode_utf16().collect();
            let is_at = |at: &usize| units[*at..].starts_with(&wanted);
            let found = (start.min(units.len())..units.len()).find(is_at);
            let expected = found.map_or("-1".to_owned(), |at| at.to_string());
            let call_text = format!(r#"INDEX_OF "{text}" "{part}" {start}"#);
            prop_assert_eq!(call(&call_text), expected);

            let ends = |at: &usize| at + wanted.len() <= start + 1;
            let last = (0..units.len()).filter(ends).rfind(is_at);
            let expected = last.map_or("-1".to_owned(), |at| at.to_string());
            let call_text = format!(r#"LASTINDEXOF "{text}" "{part}" {start}"#);
            prop_assert_eq!(call(&call_text), expected);
        }
    }
}
