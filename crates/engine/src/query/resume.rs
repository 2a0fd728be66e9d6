//! Where an ordered query begins, as clients say it that merge partitions themselves.
//!
//! ```text
//! "resumeFilter": {"value": [one per ORDER BY column], "rid": "…"?, "exclude": bool}
//! ```
//!
//! The query begins at the rows with these values. Of those, what comes before the resource id (in
//! the order of ties) was delivered already; `exclude` says that the rows with the values, or the
//! rows of the item with the resource id, were delivered as well. A value is a scalar, `[]` for
//! undefined, or the two halves of the hash of an array or object, which sort by it.

use partita_model::{Error, ItemRid, Number, Object, Result, Value};
use partita_query::sort_key;

use super::position::{ALL_ROWS, Order, SortPosition};
use crate::catalog::Container;

/// The place that a resume filter names.
pub(super) fn place(
    container: &Container,
    order: &Order,
    columns: usize,
    filter: &Value,
) -> Result<SortPosition> {
    let Value::Object(filter) = filter else { return Err(invalid("it must be an object")) };
    let Some(Value::Array(values)) = filter.get("value") else {
        return Err(invalid("its 'value' must be an array"));
    };
    if values.len() != columns {
        return Err(invalid("its 'value' must have one element per ORDER BY column"));
    }
    let keys = values.iter().map(key).collect::<Result<Vec<_>>>()?;
    let exclude = match filter.get("exclude") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(exclude)) => *exclude,
        Some(_) => return Err(invalid("its 'exclude' must be a boolean")),
    };
    let rid = match filter.get("rid") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(
            ItemRid::parse(text)
                .filter(|rid| rid.container == container.rid)
                .ok_or_else(|| invalid("its 'rid' is no resource id of this container"))?,
        ),
        Some(_) => return Err(invalid("its 'rid' must be a string")),
    };
    Ok(match (rid, exclude) {
        (Some(rid), true) => SortPosition { keys, rid: rid.item, row: ALL_ROWS },
        (Some(rid), false) => SortPosition { keys, rid: rid.item, row: 0 },
        (None, true) => order.behind(keys),
        (None, false) => order.before(keys),
    })
}

/// The sort key of one value.
fn key(value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::Array(elements) if elements.is_empty() => Ok(sort_key(None)),
        Value::Array(_) => Err(invalid("an array in its 'value' must be empty")),
        Value::Object(hashed) => hash_key(hashed),
        scalar => Ok(sort_key(Some(scalar))),
    }
}

/// The sort key of an array or object of which only the hash is known.
fn hash_key(hashed: &Object) -> Result<Vec<u8>> {
    let half = |name| match hashed.get(name) {
        Some(Value::Number(Number::Int(half))) => Ok(half.cast_unsigned()),
        // Halves from 2^63 on do not fit an integer.
        Some(Value::Number(Number::Double(half))) if *half >= 0.0 => Ok(*half as u64),
        _ => Err(invalid("a hash in its 'value' must have the numbers 'low' and 'high'")),
    };
    // The first byte of a sort key is the type.
    let sample = match hashed.get("type").and_then(Value::as_str) {
        Some("array") => sort_key(Some(&Value::Array(Vec::new()))),
        Some("object") => sort_key(Some(&Value::Object(Object::new()))),
        _ => return Err(invalid("a hash in its 'value' must be of type array or object")),
    };
    let mut key: Vec<u8> = sample.into_iter().take(1).collect();
    key.extend_from_slice(&half("high")?.to_be_bytes());
    key.extend_from_slice(&half("low")?.to_be_bytes());
    Ok(key)
}

fn invalid(why: &str) -> Error {
    Error::bad_request(format!("The query's resumeFilter is invalid: {why}"))
}
