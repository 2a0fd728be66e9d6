//! Unique keys: constraints on property values within one logical partition.
//!
//! Fixed when the container is made. A constraint lists the paths whose values, taken together,
//! may occur once per partition key; an absent value takes part like any other.

use crate::error::{Error, Result};
use crate::limits;
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// One constraint: the combination of these values is unique.
#[derive(Clone, Debug, PartialEq)]
pub struct UniqueKey {
    /// The paths whose values count together.
    pub paths: Vec<PropertyPath>,
}

/// Reads the member `uniqueKeyPolicy`.
pub(super) fn parse(value: &Value) -> Result<Vec<UniqueKey>> {
    let policy = shape::object(value, "uniqueKeyPolicy")?;
    let keys = shape::array_or_empty(policy, "uniqueKeys")?;
    if keys.len() > limits::UNIQUE_KEYS_MAX {
        return Err(Error::bad_request(format!(
            "'uniqueKeyPolicy' has {} unique keys; the limit is {}",
            keys.len(),
            limits::UNIQUE_KEYS_MAX
        )));
    }
    let mut unique = Vec::new();
    for key in keys {
        let key = parse_key(key)?;
        if unique.contains(&key) {
            return Err(Error::bad_request(format!(
                "'uniqueKeyPolicy' has the same unique key twice: {}",
                texts(&key).join(", ")
            )));
        }
        unique.push(key);
    }
    Ok(unique)
}

/// The policy as clients see it; without constraints an empty list.
pub(super) fn to_value(keys: &[UniqueKey]) -> Value {
    let key = |key: &UniqueKey| {
        let paths: Vec<Value> = texts(key).into_iter().map(Value::from).collect();
        Value::from(Object::new().with("paths", paths))
    };
    let keys: Vec<Value> = keys.iter().map(key).collect();
    Value::from(Object::new().with("uniqueKeys", keys))
}

fn parse_key(value: &Value) -> Result<UniqueKey> {
    let key = shape::object(value, "uniqueKeys")?;
    let paths = shape::array(shape::required(key, "paths", "A unique key")?, "uniqueKeys.paths")?;
    if paths.is_empty() || paths.len() > limits::UNIQUE_KEY_PATHS_MAX {
        return Err(Error::bad_request(format!(
            "A unique key has {} paths; it needs 1 to {}",
            paths.len(),
            limits::UNIQUE_KEY_PATHS_MAX
        )));
    }
    let mut parsed: Vec<PropertyPath> = Vec::new();
    for path in paths {
        let path = PropertyPath::parse(shape::string(path, "uniqueKeys.paths")?)?;
        if parsed.iter().any(|other| other.segments() == path.segments()) {
            return Err(Error::bad_request(format!(
                "A unique key names the path {} twice",
                path.text()
            )));
        }
        parsed.push(path);
    }
    Ok(UniqueKey { paths: parsed })
}

fn texts(key: &UniqueKey) -> Vec<&str> {
    key.paths.iter().map(PropertyPath::text).collect()
}
