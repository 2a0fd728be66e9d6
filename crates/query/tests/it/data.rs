//! Case files of tests.

use partita_model::Value;

pub(crate) fn load(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Value::parse(&text).unwrap_or_else(|error| panic!("{path}: {error:?}"))
}

pub(crate) fn array<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).unwrap_or_else(|| panic!("no array {name}"))
}

pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {name}"))
}
