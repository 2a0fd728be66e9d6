//! Reading members of a request body by shape, with errors that name the member.
//!
//! A JSON `null` counts as absent: several SDKs write their unset options that way. Everything
//! else of the wrong type is refused with the member's full name and what stood there instead.

use crate::error::{Error, Result};
use crate::value::{Object, Value};

/// The member, unless it is absent or null.
pub(crate) fn present<'v>(object: &'v Object, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Names the member and says what was expected and what came.
pub(crate) fn wrong_type(name: &str, expected: &str, value: &Value) -> Error {
    let found = match value.kind_name() {
        "null" => "null".to_owned(),
        kind if kind.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    Error::bad_request(format!("'{name}' must be {expected}, not {found}"))
}

pub(crate) fn object<'v>(value: &'v Value, name: &str) -> Result<&'v Object> {
    value.as_object().ok_or_else(|| wrong_type(name, "an object", value))
}

pub(crate) fn array<'v>(value: &'v Value, name: &str) -> Result<&'v [Value]> {
    value.as_array().ok_or_else(|| wrong_type(name, "an array", value))
}

pub(crate) fn string<'v>(value: &'v Value, name: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| wrong_type(name, "a string", value))
}

pub(crate) fn boolean(value: &Value, name: &str) -> Result<bool> {
    value.as_bool().ok_or_else(|| wrong_type(name, "true or false", value))
}

pub(crate) fn integer(value: &Value, name: &str) -> Result<i64> {
    match value {
        Value::Number(number) => number
            .as_i64()
            .ok_or_else(|| Error::bad_request(format!("'{name}' must be an integer, not {value}"))),
        _ => Err(wrong_type(name, "an integer", value)),
    }
}

pub(crate) fn number(value: &Value, name: &str) -> Result<f64> {
    value.as_f64().ok_or_else(|| wrong_type(name, "a number", value))
}

/// The member as an array, empty when it is absent.
pub(crate) fn array_or_empty<'v>(object: &'v Object, name: &str) -> Result<&'v [Value]> {
    present(object, name).map_or(Ok(&[]), |value| array(value, name))
}

/// A member that has to be there.
pub(crate) fn required<'v>(object: &'v Object, name: &str, of: &str) -> Result<&'v Value> {
    present(object, name)
        .ok_or_else(|| Error::bad_request(format!("{of} needs the member '{name}'")))
}

/// One of a few words, in any case; the word as the service spells it.
pub(crate) fn one_of<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_is_named() {
        let text = |error: Error| error.message;
        assert_eq!(
            text(integer(&Value::from("60"), "defaultTtl").unwrap_err()),
            "'defaultTtl' must be an integer, not a string"
        );
        assert_eq!(
            text(integer(&Value::from(1.5), "defaultTtl").unwrap_err()),
            "'defaultTtl' must be an integer, not 1.5"
        );
        assert_eq!(
            text(string(&Value::from(Vec::new()), "id").unwrap_err()),
            "'id' must be a string, not an array"
        );
        assert_eq!(text(object(&Value::Null, "x").unwrap_err()), "'x' must be an object, not null");
    }

    #[test]
    fn null_counts_as_absent() {
        let body = Object::new().with("a", Value::Null).with("b", true);
        assert!(present(&body, "a").is_none() && present(&body, "c").is_none());
        assert!(present(&body, "b").is_some());
    }

    #[test]
    fn words_are_matched_in_any_case() {
        assert_eq!(one_of("HASH", &[("Hash", 1), ("Range", 2)]), Some(1));
        assert_eq!(one_of("hush", &[("Hash", 1), ("Range", 2)]), None);
    }
}
