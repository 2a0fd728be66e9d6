//! Members of responses that the server always sends.

use partita_model::Value;

use crate::failure::Failure;

pub(crate) fn member<'v>(value: &'v Value, name: &str) -> Result<&'v Value, Failure> {
    value.get(name).ok_or_else(|| {
        Failure::other(format!(
            "the server's answer has no member '{name}': is it of another version?"
        ))
    })
}

pub(crate) fn rows<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], Failure> {
    Ok(member(value, name)?.as_array().unwrap_or_default())
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> Result<&'v str, Failure> {
    Ok(member(value, name)?.as_str().unwrap_or_default())
}

pub(crate) fn number(value: &Value, name: &str) -> Result<f64, Failure> {
    Ok(member(value, name)?.as_f64().unwrap_or(0.0))
}
