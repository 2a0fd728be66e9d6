//! Regular expressions: `REGEXMATCH` and its kin.
//!
//! Patterns are matched by an engine of linear time, which has neither look-around nor
//! back-references: a pattern with one is an error that names it. What other engines write
//! differently is translated (see [`dialect`]). Size limits keep a pattern from compiling
//! into more than a few megabytes.
//!
//! Compiled patterns are kept in the scope, so that a constant pattern is compiled once for all
//! rows.

mod dialect;

use super::arguments::Arguments;
use super::array;
use crate::cell::Cell;
use crate::scope::Scope;
use partita_model::{Error, Result, Value};
use regex::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::sync::Arc;

const COMPILED_BYTES_MAX: usize = 4 << 20;
const LAZY_STATES_BYTES_MAX: usize = 2 << 20;
const NEST_MAX: u32 = 100;
/// How many patterns a scope remembers.
const PATTERNS_MAX: usize = 16;
/// The engine takes linear time for each match: finding all must not take their product.
const MATCHES_MAX: usize = 10_000;

/// The patterns compiled last, the latest first.
#[derive(Default)]
pub(crate) struct Patterns(Vec<Known>);

struct Known {
    pattern: String,
    modifiers: String,
    regex: Arc<Regex>,
}

impl Patterns {
    /// The compiled pattern, compiled now if it is not remembered.
    fn get(&mut self, pattern: &str, modifiers: &str) -> Result<Arc<Regex>> {
        let is_same = |known: &Known| known.pattern == pattern && known.modifiers == modifiers;
        match self.0.iter().position(is_same) {
            Some(0) => {}
            Some(at) => {
                let known = self.0.remove(at);
                self.0.insert(0, known);
            }
            None => {
                let regex = Arc::new(compile(pattern, modifiers)?);
                self.0.truncate(PATTERNS_MAX - 1);
                let (pattern, modifiers) = (pattern.to_owned(), modifiers.to_owned());
                self.0.insert(0, Known { pattern, modifiers, regex });
            }
        }
        let first = self.0.first().ok_or_else(|| Error::internal("a pattern was forgotten"))?;
        Ok(Arc::clone(&first.regex))
    }
}

/// Compiles a pattern of the language. Modifiers are any of `m` (`^` and `$` at every line), `s`
/// (a dot is a newline too), `i` (ignore case) and `x` (ignore blanks in the pattern).
pub(crate) fn compile(pattern: &str, modifiers: &str) -> Result<Regex> {
    if let Some(unknown) = modifiers.chars().find(|modifier| !"msix".contains(*modifier)) {
        return Err(Error::bad_request(format!(
            "The modifier '{unknown}' of a regular expression is none of m, s, i, x."
        )));
    }
    let has = |modifier: char| modifiers.contains(modifier);
    let translated = dialect::translated(pattern, has('x'))?;
    let mut builder = RegexBuilder::new(&translated);
    builder
        .multi_line(has('m'))
        .dot_matches_new_line(has('s'))
        .case_insensitive(has('i'))
        .ignore_whitespace(has('x'))
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(LAZY_STATES_BYTES_MAX)
        .nest_limit(NEST_MAX);
    builder.build().map_err(|error| {
        let shown: String = pattern.chars().take(100).collect();
        // The last line says what is wrong; those before it draw where.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::bad_request(format!("The regular expression '{shown}' is not valid: {reason}."))
    })
}

/// The text and the compiled pattern of `f(text, pattern [, modifiers …])`.
fn prepared<'c>(
    arguments: &'c Arguments<'_>,
    scope: &Scope,
) -> Result<Option<(&'c str, Arc<Regex>)>> {
    let modifiers = if arguments.is_written(2) { arguments.text(2) } else { Some("") };
    let (Some(text), Some(pattern), Some(modifiers)) =
        (arguments.text(0), arguments.text(1), modifiers)
    else {
        return Ok(None);
    };
    let regex = scope.patterns.borrow_mut().get(pattern, modifiers)?;
    Ok(Some((text, regex)))
}

/// `REGEXMATCH(text, pattern [, modifiers])`: anywhere in the text.
pub(super) fn is_match<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let found = prepared(arguments, scope)?;
    Ok(found.map(|(text, regex)| Cell::Bool(regex.is_match(text))))
}

/// Which group is asked for: the whole match is group 0.
fn group(arguments: &Arguments<'_>) -> Option<usize> {
    if arguments.is_written(3) { usize::try_from(arguments.integer(3)?).ok() } else { Some(0) }
}

/// `REGEXEXTRACT(text, pattern [, modifiers [, group]])`: the first match.
pub(super) fn extract<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some((group, (text, regex))) = group(arguments).zip(prepared(arguments, scope)?) else {
        return Ok(None);
    };
    let Some(found) = regex.captures(text).and_then(|found| found.get(group)) else {
        return Ok(None);
    };
    scope.reserve(found.len())?;
    Ok(Some(Cell::String(Cow::Owned(found.as_str().to_owned()))))
}

/// `REGEXEXTRACTALL(text, pattern [, modifiers [, group]])`: every match, from the left. A match in
/// which the group took no part is left out.
pub(super) fn extract_all<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    let Some((group, (text, regex))) = group(arguments).zip(prepared(arguments, scope)?) else {
        return Ok(None);
    };
    if group >= regex.captures_len() {
        return Ok(None);
    }
    let mut all = Vec::new();
    for (at, found) in regex.captures_iter(text).enumerate() {
        if at == MATCHES_MAX {
            return Err(Error::bad_request(format!(
                "REGEXEXTRACTALL finds more than {MATCHES_MAX} matches in one string."
            )));
        }
        scope.step()?;
        if let Some(found) = found.get(group) {
            scope.reserve(size_of::<Value>() + found.len())?;
            all.push(Value::from(found.as_str()));
        }
    }
    Ok(Some(array::array(all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::testing::{call, expect};

    #[test]
    fn matches_are_found_anywhere() {
        expect(&[
            (r#"REGEXMATCH "abcd" "ABC""#, "false"),
            (r#"REGEXMATCH "abcd" "ABC" "i""#, "true"),
            (r#"REGEXMATCH "abcd" "ab." """#, "true"),
            (r#"REGEXMATCH "abcd" "ab c" "x""#, "true"),
            (r#"REGEXMATCH "abcd" "aB c" "ix""#, "true"),
            (r#"REGEXMATCH "salt3824908" "salt{1}""#, "true"),
            (r#"REGEXMATCH "a\nb" "^b""#, "false"),
            (r#"REGEXMATCH "a\nb" "^b" "m""#, "true"),
            (r#"REGEXMATCH "a\nb" "a.b""#, "false"),
            (r#"REGEXMATCH "a\nb" "a.b" "s""#, "true"),
            (r#"REGEXMATCH "abc" "^abc$""#, "true"),
            (r#"REGEXMATCH "xabc" "^abc$""#, "false"),
            (r#"REGEXMATCH "a" 1"#, "undefined"),
            (r#"REGEXMATCH 1 "1""#, "undefined"),
            (r#"REGEXMATCH "a" "a" 1"#, "undefined"),
            (r#"REGEXMATCH "a" "a" undefined"#, "undefined"),
        ]);
    }

    #[test]
    fn parts_are_extracted_by_group() {
        expect(&[
            (r#"REGEXEXTRACT "SKU-93821-BLUE" "[A-Z]+""#, r#""SKU""#),
            (r#"REGEXEXTRACT "sku-1 SKU-2" "SKU-([0-9]+)" "i" 1"#, r#""1""#),
            (r#"REGEXEXTRACT "abc" "b" "" 0"#, r#""b""#),
            (r#"REGEXEXTRACT "abc" "b" "" 1"#, "undefined"),
            (r#"REGEXEXTRACT "abc" "b" "" -1"#, "undefined"),
            (r#"REGEXEXTRACT "abc" "x""#, "undefined"),
            (r#"REGEXEXTRACTALL "A12-B34-C56" "[0-9]+""#, r#"["12","34","56"]"#),
            (r#"REGEXEXTRACTALL "A12-B34" "([A-Z])([0-9])" "" 2"#, r#"["1","3"]"#),
            (r#"REGEXEXTRACTALL "ab" "a(x)?|b" "" 1"#, "[]"),
            (r#"REGEXEXTRACTALL "abc" "x""#, "[]"),
            (r#"REGEXEXTRACTALL "abc" "x" "" 1"#, "undefined"),
        ]);
        let many = call(&format!(r#"REGEXEXTRACTALL "{}" "a""#, "a".repeat(10_001)));
        assert!(many.starts_with("error: "), "{many}");
    }

    #[test]
    fn what_cannot_be_matched_is_an_error_that_says_why() {
        for (pattern, modifiers, reason) in [
            ("a(?=b)", "", "look-ahead"),
            ("(?<!a)b", "", "look-behind"),
            (r"(a)\\1", "", "back-reference"),
            ("a(", "", "unclosed group"),
            ("a", "g", "modifier 'g'"),
            (r"\\w{900}", "", "size limit"),
        ] {
            let found = call(&format!(r#"REGEXMATCH "a" "{pattern}" "{modifiers}""#));
            assert!(found.starts_with("error: ") && found.contains(reason), "{pattern}: {found}");
        }
    }

    #[test]
    fn a_few_patterns_are_remembered() {
        let mut patterns = Patterns::default();
        let first = patterns.get("a", "i").unwrap();
        assert!(!Arc::ptr_eq(&first, &patterns.get("a", "").unwrap()));
        for number in 0..PATTERNS_MAX - 2 {
            patterns.get(&number.to_string(), "").unwrap();
        }
        assert!(Arc::ptr_eq(&first, &patterns.get("a", "i").unwrap()));
        for number in 0..PATTERNS_MAX {
            patterns.get(&format!("b{number}"), "").unwrap();
        }
        assert_eq!(patterns.0.len(), PATTERNS_MAX);
        assert!(!Arc::ptr_eq(&first, &patterns.get("a", "i").unwrap()));
    }
}
