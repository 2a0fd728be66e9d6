//! Published queries with their documents and their answers.
//!
//! Every file in `tests/data` is read whole. What is not expected to agree is listed by name, with
//! the reason; a listed case that does agree fails the test too, so the lists cannot grow stale.

mod aggregates;
mod distinct;
mod docs;
mod linq;
mod scalars;
mod vercel;

use partita_model::{ComputedProperty, Error, Value};
use partita_query::{Query, ScopeSettings, evaluate};

/// A JSON file beside the tests.
pub(crate) fn data(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Value::parse(&text).expect("JSON")
}

pub(crate) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).unwrap_or(&[])
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The documents as the texts that would be stored.
pub(crate) fn documents(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_json).collect()
}

/// The rows of a query.
pub(crate) fn rows(query: &str, items: &[String]) -> Result<Vec<Value>, Error> {
    rows_with(query, &[], &[], items)
}

pub(crate) fn rows_with(
    query: &str,
    parameters: &[(String, Value)],
    computed: &[ComputedProperty],
    items: &[String],
) -> Result<Vec<Value>, Error> {
    let query = Query::parse(query, parameters, computed)?;
    rows_of(&query, items, &ScopeSettings::default())
}

pub(crate) fn rows_of(
    query: &Query,
    items: &[String],
    settings: &ScopeSettings,
) -> Result<Vec<Value>, Error> {
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let texts = evaluate(query, &items, settings)?;
    Ok(texts.iter().map(|text| Value::parse(text.as_bytes()).expect("a row is JSON")).collect())
}

/// Equal up to the last bits of a sum of doubles, whose order of summation nobody promises.
pub(crate) fn close(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            a == b || (a - b).abs() <= a.abs().max(b.abs()) * 1e-12
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| b.get(name).is_some_and(|b| close(value, b)))
        }
        (a, b) => a == b,
    }
}

/// The same rows in whatever order.
pub(crate) fn same_bag(a: &[Value], b: &[Value]) -> bool {
    let mut rest: Vec<&Value> = b.iter().collect();
    a.len() == b.len()
        && a.iter().all(|row| match rest.iter().position(|other| close(row, other)) {
            Some(at) => {
                rest.swap_remove(at);
                true
            }
            None => false,
        })
}

/// How a file's cases came out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) agree: usize,
    /// Cases that need a feature Partita does not have, and were told so.
    pub(crate) refused: usize,
}

/// Features that are known and not run here.
const REFUSED: [&str; 4] =
    ["the spatial function", "the vector function", "the full text function", "ORDER BY RANK"];

/// Runs all cases, each with a name; `exceptions` names those that must not agree.
pub(crate) fn check_all<'c>(
    cases: impl IntoIterator<Item = (String, &'c Value)>,
    exceptions: &[(&str, &str)],
    run: impl Fn(&Value) -> Result<(), String>,
) -> Tally {
    let mut tally = Tally { agree: 0, refused: 0 };
    let mut complaints = Vec::new();
    let mut unused: Vec<&str> = exceptions.iter().map(|(name, _)| *name).collect();
    for (name, case) in cases {
        let exception = exceptions.iter().find(|(known, _)| *known == name);
        unused.retain(|known| *known != name);
        match (run(case), exception) {
            (Ok(()), None) => tally.agree += 1,
            (Err(told), None) if REFUSED.iter().any(|feature| told.contains(feature)) => {
                tally.refused += 1;
            }
            (Err(_), Some(_)) => {}
            (Err(complaint), None) => complaints.push(format!("{name}: {complaint}")),
            (Ok(()), Some((_, reason))) => {
                complaints.push(format!("{name} agrees, although: {reason}"));
            }
        }
    }
    complaints.extend(unused.iter().map(|name| format!("there is no case {name}")));
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n\n"));
    tally
}

/// Compares rows with the expectation, in order or not.
pub(crate) fn agree(
    found: Result<Vec<Value>, Error>,
    expected: &[Value],
    same: impl Fn(&[Value], &[Value]) -> bool,
) -> Result<(), String> {
    let found = found.map_err(|error| format!("{error}"))?;
    if same(&found, expected) {
        Ok(())
    } else {
        let text = |rows: &[Value]| Value::Array(rows.to_vec()).to_json();
        Err(format!("found {}\nexpected {}", text(&found), text(expected)))
    }
}

pub(crate) fn same_list(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b))
}
