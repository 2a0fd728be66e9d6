//! Computed properties: named expressions that queries see as if items had them.
//!
//! Only the shape is checked here: the names, and that each query begins with `SELECT VALUE`.
//! What the expression may contain is the query planner's business.

use crate::document::SYSTEM_NAMES;
use crate::error::{Error, Result};
use crate::limits;
use crate::policy::shape;
use crate::value::{Object, Value};

/// A property that is computed when a query reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedProperty {
    /// Its name, at the top level of every item.
    pub name: String,
    /// The query that gives its value: `SELECT VALUE … FROM c`.
    pub query: String,
}

/// Reads the member `computedProperties`.
pub(super) fn parse(value: &Value) -> Result<Vec<ComputedProperty>> {
    let name = "computedProperties";
    let values = shape::array(value, name).map_err(invalid)?;
    if values.len() > limits::COMPUTED_PROPERTIES_MAX {
        return Err(refused(format!(
            "'{name}' has {} entries; the limit is {}",
            values.len(),
            limits::COMPUTED_PROPERTIES_MAX
        )));
    }
    let mut properties: Vec<ComputedProperty> = Vec::new();
    for value in values {
        let property = parse_one(value).map_err(invalid)?;
        if properties.iter().any(|other| other.name == property.name) {
            return Err(refused(format!(
                "Computed property name '{}' cannot be used in multiple definitions.",
                property.name
            )));
        }
        properties.push(property);
    }
    Ok(properties)
}

/// The list as clients see it.
pub(super) fn to_value(properties: &[ComputedProperty]) -> Value {
    let entry = |property: &ComputedProperty| {
        Value::from(
            Object::new()
                .with("name", property.name.as_str())
                .with("query", property.query.as_str()),
        )
    };
    Value::from(properties.iter().map(entry).collect::<Vec<Value>>())
}

fn parse_one(value: &Value) -> Result<ComputedProperty> {
    let of = "A computed property";
    let entry = shape::object(value, "computedProperties")?;
    let name = shape::string(shape::required(entry, "name", of)?, "computedProperties.name")?;
    let query = shape::string(shape::required(entry, "query", of)?, "computedProperties.query")?;
    if name.is_empty() || name.contains(['/', '\\', '?', '#']) {
        return Err(Error::bad_request(format!(
            "The computed property name '{name}' must not be empty or contain / \\ ? #"
        )));
    }
    if RESERVED.contains(&name) || SYSTEM_NAMES.contains(&name) {
        return Err(Error::bad_request(format!(
            "The computed property name '{name}' is reserved; use another name"
        )));
    }
    if !starts_with_select_value(query) {
        return Err(Error::bad_request(format!(
            "The query of the computed property '{name}' must begin with SELECT VALUE"
        )));
    }
    Ok(ComputedProperty { name: name.to_owned(), query: query.to_owned() })
}

/// Names that mean something to the server, besides its own properties.
const RESERVED: &[&str] = &["id", "ttl", "_partitionKey", "_lsn"];

fn starts_with_select_value(query: &str) -> bool {
    let mut words = query.split_whitespace();
    let select = words.next().is_some_and(|word| word.eq_ignore_ascii_case("SELECT"));
    // `VALUE` may be followed at once by an expression: `SELECT VALUE(c.x) FROM c`.
    let value = words.next().and_then(|word| word.get(..5).map(|head| (head, word.get(5..))));
    let value = value.is_some_and(|(head, rest)| {
        let ends = rest.and_then(|rest| rest.chars().next());
        head.eq_ignore_ascii_case("VALUE")
            && !ends.is_some_and(|next| next.is_alphanumeric() || next == '_')
    });
    select && value
}

/// Clients look for the service's own words in front of ours.
fn invalid(error: Error) -> Error {
    refused(error.message)
}

fn refused(message: String) -> Error {
    Error::bad_request(format!("{}: {message}", super::INVALID_INPUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_must_begin_with_select_value() {
        for good in [
            "SELECT VALUE LOWER(c.x) FROM c",
            " select\n value(c.x) from c",
            "SELECT VALUE {} FROM c",
        ] {
            assert!(starts_with_select_value(good), "{good}");
        }
        for bad in ["", "SELECT", "SELECT c.x FROM c", "SELECT VALUES FROM c", "VALUE c.x FROM c"] {
            assert!(!starts_with_select_value(bad), "{bad}");
        }
    }
}
