//! Plans in words: paths, values and conditions as people write them.

use std::ops::Bound;

use partita_model::{IndexStep, Scalar, Value, write_string};
use partita_query::access::{Condition, Interval, Kinds, Test};

use crate::index::EntryValue;

/// More values than this are counted, not listed.
const LISTED_MAX: usize = 3;

/// `/a/"b c"/[]`
pub(super) fn path_text(path: &[IndexStep]) -> String {
    let mut text = String::new();
    for step in path {
        text.push('/');
        match step {
            IndexStep::Element => text.push_str("[]"),
            IndexStep::Member(name) if is_plain(name) => text.push_str(name),
            IndexStep::Member(name) => write_string(&mut text, name),
        }
    }
    text
}

/// `/a, /b`
pub(super) fn paths_text(paths: &[Vec<IndexStep>]) -> String {
    let texts: Vec<String> = paths.iter().map(|path| path_text(path)).collect();
    texts.join(", ")
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `/type = "a"`
pub(super) fn condition_text(condition: &Condition) -> String {
    let path = path_text(&condition.path);
    match &condition.test {
        Test::Values(intervals) => format!("{path} {}", intervals_text(intervals)),
        Test::Each(_) => format!("{path} each value tested"),
        Test::Kinds(kinds) => format!("{path} is {}", kinds_text(*kinds)),
    }
}

fn intervals_text(intervals: &[Interval]) -> String {
    let texts: Vec<String> = intervals.iter().take(LISTED_MAX).map(interval_text).collect();
    let rest = intervals.len().saturating_sub(LISTED_MAX);
    match (texts.as_slice(), rest) {
        ([one], 0) => one.clone(),
        (_, 0) => texts.join(" or "),
        _ => format!("{} or {rest} more", texts.join(" or ")),
    }
}

fn interval_text(interval: &Interval) -> String {
    if let Some(point) = interval.as_point() {
        return format!("= {}", value_text(point));
    }
    let low = match &interval.low {
        Bound::Unbounded => "(…".to_owned(),
        Bound::Included(value) => format!("[{}", value_text(value)),
        Bound::Excluded(value) => format!("({}", value_text(value)),
    };
    let high = match &interval.high {
        Bound::Unbounded => "…)".to_owned(),
        Bound::Included(value) => format!("{}]", value_text(value)),
        Bound::Excluded(value) => format!("{})", value_text(value)),
    };
    format!("in {low}, {high}")
}

/// A scalar as JSON; the bounds of a type and of a beginning of strings have no value of their own.
fn value_text(encoded: &[u8]) -> String {
    match EntryValue::new(encoded).scalar() {
        Some(Scalar::Null) => "null".to_owned(),
        Some(Scalar::Bool(value)) => value.to_string(),
        Some(Scalar::Number(double)) => Value::from(double).to_string(),
        Some(Scalar::String(text)) => {
            let mut out = String::new();
            write_string(&mut out, &text);
            out
        }
        None => match encoded {
            [0x05, ..] => "numbers".to_owned(),
            [0x06, ..] => "end of numbers".to_owned(),
            [0x08] => "strings".to_owned(),
            [0x09] => "end of strings".to_owned(),
            [0x08, beginning @ ..] => format!("{}…", String::from_utf8_lossy(beginning)),
            _ => "…".to_owned(),
        },
    }
}

fn kinds_text(kinds: Kinds) -> String {
    let named = [
        (kinds.undefined, "undefined"),
        (kinds.scalar, "scalar"),
        (kinds.array, "array"),
        (kinds.object, "object"),
    ];
    let names: Vec<&str> = named.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    names.join(" or ")
}
