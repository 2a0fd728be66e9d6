//! How much memory a value takes, roughly, for reserving it before it is built, and how much work
//! it is to look at it.

use crate::cell::Cell;
use partita_model::Value;

/// What one element of a text may take as a tree, per byte of the text: `[0,0,0]`.
const TREE_BYTES_PER_TEXT_BYTE: usize = size_of::<Value>() / 2;

/// The memory of a copy of the value.
pub(super) fn of(cell: &Cell<'_>) -> usize {
    match cell {
        Cell::Null | Cell::Bool(_) | Cell::Number(_) => size_of::<Value>(),
        Cell::String(text) => size_of::<Value>() + text.len(),
        Cell::Text(raw) => size_of::<Value>() + of_text(raw.text()),
        Cell::Tree(tree) => of_value(tree),
    }
}

/// How many bytes are looked at in one step of work.
const BYTES_PER_STEP: usize = 256;

/// The steps of work that looking once through the value takes.
pub(super) fn work_of(cell: &Cell<'_>) -> u64 {
    let bytes = match cell {
        Cell::Null | Cell::Bool(_) | Cell::Number(_) => 0,
        Cell::String(text) => text.len(),
        Cell::Text(raw) => raw.text().len(),
        // Only the outermost level: counting the rest would be work of its own.
        Cell::Tree(tree) => tree.as_array().map_or(0, size_of_val),
    };
    work_of_bytes(bytes)
}

/// The steps of work that looking once through so many bytes takes.
pub(super) fn work_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes / BYTES_PER_STEP).unwrap_or(u64::MAX)
}

/// The memory of the tree that the text stands for, at most.
pub(super) fn of_text(text: &str) -> usize {
    text.len().saturating_mul(TREE_BYTES_PER_TEXT_BYTE)
}

/// The memory of a copy of the value.
pub(super) fn of_value(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(of_value).sum(),
        Value::Object(members) => members.iter().map(|(name, v)| name.len() + of_value(v)).sum(),
    };
    size_of::<Value>() + inside
}
