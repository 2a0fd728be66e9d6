//! Terms: a path and a value at it.
//!
//! ```text
//! 01 · path · value · rid → ()
//! ```
//!
//! An array has no term of its own unless it is empty; its elements have, each once, under the path
//! with "any element". The same holds for objects and their members.

use partita_model::{Leaf, keycode};

use crate::entry_value::{self as value, string_bytes_max};
use crate::keys;

/// Where a container's terms cut strings. Its paths tell by how they end, so whoever has an encoded
/// path knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// In containers from before there was a choice: all their entries stay as they were made.
    Long,
    Short,
}

/// Appends the key of the entry for a leaf at an encoded path.
pub(super) fn put_key(out: &mut Vec<u8>, path: &[u8], leaf: &Leaf<'_>, rid: u64) {
    keys::put_term_prefix(out, path);
    match leaf {
        Leaf::Scalar(scalar) => value::put_scalar(out, scalar, string_bytes_max(path)),
        Leaf::EmptyArray => out.push(value::ARRAY),
        Leaf::EmptyObject => out.push(value::OBJECT),
    }
    keycode::put_u64(out, rid);
}
