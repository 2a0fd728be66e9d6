//! From a document to its index terms. Pure.
//!
//! A *term* is a path and a value, encoded so that the terms of one path are in the order of their
//! values. The index holds one entry per term and item. Which paths have terms is the container's
//! indexing policy; writes compare the terms of the old and the new version and change only what
//! differs.
//!
//! ```text
//! term = path (each step: 01 name | 02 for "any array element"; end 00) · value
//! value = typed scalar (model::keycode), or 09 empty array, or 0A empty object
//! ```
//!
//! Strings longer than [`STRING_BYTES_MAX`] are cut: the entry still leads to the item, and whoever
//! reads the index compares such values with the item itself.

use std::borrow::Cow;
use std::collections::BTreeSet;

use partita_model::{Document, IndexingPolicy, Leaf, Scalar, Step, keycode};

/// Keeps index keys far below what stores accept, and pages of the index useful.
const STRING_BYTES_MAX: usize = 1_024;

const STEP_END: u8 = 0x00;
const STEP_MEMBER: u8 = 0x01;
const STEP_ELEMENT: u8 = 0x02;
const EMPTY_ARRAY: u8 = 0x09;
const EMPTY_OBJECT: u8 = 0x0A;

/// The system's properties that have no terms. `_ts` is not among them: the time of the last write
/// is indexed like a property of the user. The resource id has a family of keys of its own, and
/// nobody searches by the rest.
const WITHOUT_TERMS: [&str; 4] = ["_rid", "_self", "_etag", "_attachments"];

/// The terms of a document, as it is stored, under a policy.
pub(crate) fn terms(text: &str, policy: &IndexingPolicy) -> BTreeSet<Vec<u8>> {
    let mut terms = BTreeSet::new();
    Document::new(text).walk(&mut |path, leaf| {
        if !is_without_terms(path) && policy.indexes(path) {
            terms.insert(term(path, &leaf));
        }
    });
    terms
}

fn is_without_terms(path: &[Step<'_>]) -> bool {
    match path.first() {
        Some(Step::Member(name)) => WITHOUT_TERMS.contains(&name.as_ref()),
        Some(Step::Element) | None => false,
    }
}

fn term(path: &[Step<'_>], leaf: &Leaf<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    for step in path {
        match step {
            Step::Member(name) => {
                out.push(STEP_MEMBER);
                keycode::put_str(&mut out, name);
            }
            Step::Element => out.push(STEP_ELEMENT),
        }
    }
    out.push(STEP_END);
    match leaf {
        Leaf::Scalar(Scalar::String(string)) if string.len() > STRING_BYTES_MAX => {
            let cut = Scalar::String(Cow::Borrowed(cut_at(string, STRING_BYTES_MAX)));
            keycode::put_scalar(&mut out, &cut);
        }
        Leaf::Scalar(scalar) => keycode::put_scalar(&mut out, scalar),
        Leaf::EmptyArray => out.push(EMPTY_ARRAY),
        Leaf::EmptyObject => out.push(EMPTY_OBJECT),
    }
    out
}

/// The longest beginning of at most `bytes_max` bytes that does not cut a character in two.
fn cut_at(string: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(string.len());
    while !string.is_char_boundary(end) {
        end -= 1;
    }
    &string[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::Value;

    fn policy(json: &str) -> IndexingPolicy {
        IndexingPolicy::parse(&Value::parse(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn every_leaf_has_a_term_by_default() {
        let text = r#"{"id":"1","a":{"b":[1,2,{"c":null}]},"e":[],"o":{},"_ts":5,"_rid":"x","_self":"x","_etag":"x"}"#;
        // id, two numbers and one null in the array, the two empty ones, and the time
        assert_eq!(terms(text, &policy("{}")).len(), 7);
    }

    #[test]
    fn equal_elements_of_an_array_share_a_term() {
        assert_eq!(terms(r#"{"a":[1,1,1.0]}"#, &policy("{}")).len(), 1);
    }

    #[test]
    fn excluded_paths_have_none() {
        let some = policy(r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#);
        assert_eq!(terms(r#"{"id":"1","a":1,"b":2}"#, &some).len(), 2, "a, and the id always");
        let nothing = policy(r#"{"indexingMode":"none","automatic":false}"#);
        assert_eq!(terms(r#"{"id":"1"}"#, &nothing).len(), 0);
    }

    #[test]
    fn terms_of_one_path_are_in_the_order_of_their_values() {
        let texts = ["null", "false", "true", "-1.5", "0", "2", "10", "\"\"", "\"a\"", "\"b\""];
        let only_a =
            policy(r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#);
        let one = |value: &str| {
            terms(&format!(r#"{{"a":{value}}}"#), &only_a).into_iter().next().unwrap()
        };
        let encoded: Vec<_> = texts.iter().map(|text| one(text)).collect();
        assert!(encoded.is_sorted());
    }

    #[test]
    fn long_strings_are_cut_between_characters() {
        let long = "ä".repeat(2_000);
        let text = format!(r#"{{"a":"{long}"}}"#);
        for term in terms(&text, &policy("{}")) {
            assert!(term.len() < STRING_BYTES_MAX + 20);
        }
    }
}
