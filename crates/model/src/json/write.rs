//! Writing JSON: strings, numbers and whole values, always compact.

use std::fmt::Write as _;

use crate::value::{Number, Value};

/// Appends a string literal: quoted, and escaped where JSON requires it and nowhere else.
pub fn write_string(out: &mut String, s: &str) {
    out.push('"');
    let mut rest = s;
    loop {
        let plain_len = super::scan::plain_until(rest.as_bytes(), 0);
        let (plain, after) = rest.split_at(plain_len);
        out.push_str(plain);
        let mut chars = after.chars();
        let Some(c) = chars.next() else { break };
        write_escape(out, c);
        rest = chars.as_str();
    }
    out.push('"');
}

fn write_escape(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c => {
            let written = write!(out, "\\u{:04x}", u32::from(c));
            written.expect("writing to a String does not fail");
        }
    }
}

/// Appends a number literal: the shortest that reads back as the same number. Numbers that fit an
/// `i64` are written as integers; what JSON cannot say (NaN, infinities) as `null`.
pub(crate) fn write_number(out: &mut String, number: Number) {
    let written = match (number.as_i64(), number) {
        (Some(_), Number::Double(zero)) if zero == 0.0 && zero.is_sign_negative() => {
            write!(out, "-0")
        }
        (Some(int), _) => write!(out, "{int}"),
        (None, Number::Double(double)) if double.is_finite() => write!(out, "{double:?}"),
        (None, _) => write!(out, "null"),
    };
    written.expect("writing to a String does not fail");
}

/// Appends a value.
pub(crate) fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, *number),
        Value::String(text) => write_string(out, text),
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(out, element);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, member);
            }
            out.push('}');
        }
    }
}
