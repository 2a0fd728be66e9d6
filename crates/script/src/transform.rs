//! The steps of a query in JavaScript: functions of the script, applied to rows.
//!
//! The service rewrites such functions into its query language where it can. Here they are simply
//! called, for every item of the logical partition, so every function works and the answers are
//! the same; only an index is of no help.

use std::cmp::Ordering;

use rquickjs::{Array, Ctx, Function, Value};

use crate::bridge::{JsResult, SavedFunction, lossy, truthy};

/// Levels of arrays that a flattening goes down at most: as many as a document has.
const FLATTEN_DEPTH_MAX: usize = 128;

/// One step. Those that sort need all rows at once; all others go row by row.
#[derive(Clone)]
pub(crate) enum Transform {
    Filter(SavedFunction),
    Map(SavedFunction),
    Pluck(String),
    SortBy { key: SavedFunction, descending: bool },
    Flatten { shallow: bool },
    Unwind { inner: SavedFunction, result: Option<SavedFunction> },
}

impl Transform {
    pub(crate) fn sorts(&self) -> bool {
        matches!(self, Transform::SortBy { .. })
    }

    /// The rows after this step.
    pub(crate) fn apply<'js>(
        &self,
        ctx: &Ctx<'js>,
        rows: Vec<Value<'js>>,
    ) -> JsResult<Vec<Value<'js>>> {
        match self {
            Transform::Filter(predicate) => filter(&predicate.clone().restore(ctx)?, rows),
            Transform::Map(function) => {
                let function = function.clone().restore(ctx)?;
                rows.into_iter().map(|row| function.call((row,))).collect()
            }
            Transform::Pluck(name) => rows.into_iter().map(|row| pluck(ctx, &row, name)).collect(),
            Transform::SortBy { key, descending } => {
                sort(ctx, &key.clone().restore(ctx)?, *descending, rows)
            }
            Transform::Flatten { shallow } => {
                let mut flat = Vec::new();
                let depth = if *shallow { 1 } else { FLATTEN_DEPTH_MAX };
                for row in rows {
                    flatten(row, depth, &mut flat)?;
                }
                Ok(flat)
            }
            Transform::Unwind { inner, result } => {
                let inner = inner.clone().restore(ctx)?;
                let result = result.clone().map(|result| result.restore(ctx)).transpose()?;
                unwind(&inner, result.as_ref(), rows)
            }
        }
    }
}

fn filter<'js>(predicate: &Function<'js>, rows: Vec<Value<'js>>) -> JsResult<Vec<Value<'js>>> {
    let mut kept = Vec::new();
    for row in rows {
        if truthy(&predicate.call::<_, Value<'js>>((row.clone(),))?) {
            kept.push(row);
        }
    }
    Ok(kept)
}

fn pluck<'js>(ctx: &Ctx<'js>, row: &Value<'js>, name: &str) -> JsResult<Value<'js>> {
    match row.as_object() {
        Some(object) => object.get(name),
        None => Ok(Value::new_undefined(ctx.clone())),
    }
}

/// A sort key: undefined, null, booleans, numbers, strings, then all else, as in an ORDER BY.
enum Key {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Other,
}

impl Key {
    fn of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> JsResult<Key> {
        Ok(if value.is_undefined() {
            Key::Undefined
        } else if value.is_null() {
            Key::Null
        } else if let Some(flag) = value.as_bool() {
            Key::Bool(flag)
        } else if let Some(number) = value.as_number() {
            Key::Number(number)
        } else if let Some(text) = value.as_string() {
            Key::Text(lossy(ctx, text)?)
        } else {
            Key::Other
        })
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Undefined => 0,
            Key::Null => 1,
            Key::Bool(_) => 2,
            Key::Number(_) => 3,
            Key::Text(_) => 4,
            Key::Other => 5,
        }
    }

    fn order(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
            (Key::Number(a), Key::Number(b)) => a.total_cmp(b),
            (Key::Text(a), Key::Text(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn sort<'js>(
    ctx: &Ctx<'js>,
    key: &Function<'js>,
    descending: bool,
    rows: Vec<Value<'js>>,
) -> JsResult<Vec<Value<'js>>> {
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows {
        let value: Value<'js> = key.call((row.clone(),))?;
        keyed.push((Key::of(ctx, &value)?, row));
    }
    // Stable both ways: rows with equal keys stay in the order they came in.
    keyed.sort_by(|(a, _), (b, _)| if descending { b.order(a) } else { a.order(b) });
    Ok(keyed.into_iter().map(|(_, row)| row).collect())
}

fn flatten<'js>(row: Value<'js>, depth: usize, flat: &mut Vec<Value<'js>>) -> JsResult<()> {
    match row.as_array().filter(|_| depth > 0) {
        None => flat.push(row),
        Some(array) => {
            for element in array.iter::<Value<'js>>() {
                flatten(element?, depth - 1, flat)?;
            }
        }
    }
    Ok(())
}

/// Every row with every element of its inner array. A row without such an array gives nothing.
fn unwind<'js>(
    inner: &Function<'js>,
    result: Option<&Function<'js>>,
    rows: Vec<Value<'js>>,
) -> JsResult<Vec<Value<'js>>> {
    let mut pairs = Vec::new();
    for row in rows {
        let elements: Value<'js> = inner.call((row.clone(),))?;
        let Some(elements) = elements.as_array() else { continue };
        for element in elements.iter::<Value<'js>>() {
            pairs.push(match result {
                None => element?,
                Some(result) => result.call((row.clone(), element?))?,
            });
        }
    }
    Ok(pairs)
}

/// Rows as a script gets them.
pub(crate) fn to_array<'js>(ctx: &Ctx<'js>, rows: Vec<Value<'js>>) -> JsResult<Value<'js>> {
    let array = Array::new(ctx.clone())?;
    for (at, row) in rows.into_iter().enumerate() {
        array.set(at, row)?;
    }
    Ok(array.into_value())
}
