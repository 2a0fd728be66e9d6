//! The body of a query: `{"query": "…", "parameters": [{"name": "@x", "value": …}]}`.

use partita_model::{Error, Result, Value};
use partita_query::Filter;

use super::wrong_type;

/// A query over databases, containers or offers, as a filter of them.
pub(crate) fn filter(body: &[u8]) -> Result<Filter> {
    let body = Value::parse(body)?;
    let text =
        body.get("query").and_then(Value::as_str).ok_or_else(|| wrong_type("query", "a string"))?;
    Filter::parse_query(text, &parameters(&body)?)
}

fn parameters(body: &Value) -> Result<Vec<(String, Value)>> {
    let list = match body.get("parameters") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list.as_array().ok_or_else(|| wrong_type("parameters", "an array"))?,
    };
    let mut parameters = Vec::with_capacity(list.len());
    for entry in list {
        let name = entry.get("name").and_then(Value::as_str);
        let (Some(name), Some(value)) = (name, entry.get("value")) else {
            return Err(Error::bad_request(format!(
                "The query parameter {entry} must be an object with a string 'name' and a 'value'."
            )));
        };
        parameters.push((name.to_owned(), value.clone()));
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_bound_by_name() {
        let body = br#"{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"x"}]}"#;
        let filter = filter(body).unwrap();
        let row = |id: &str| Value::from(partita_model::Object::new().with("id", id));
        assert!(filter.matches(&row("x")).unwrap());
        assert!(!filter.matches(&row("y")).unwrap());
    }

    #[test]
    fn bodies_that_are_no_query_are_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"query":1}"#,
            r#"{"query":"SELECT * FROM r","parameters":{}}"#,
            r#"{"query":"SELECT * FROM r","parameters":[{"name":"@a"}]}"#,
            r#"{"query":"SELECT * FROM r","parameters":["@a"]}"#,
        ] {
            let error = filter(body.as_bytes()).unwrap_err();
            assert_eq!(error.kind, partita_model::ErrorKind::BadRequest, "{body}");
        }
    }
}
