//! Terms: a path and a value at it.
//!
//! ```text
//! 01 · path · value · rid → ()
//! ```
//!
//! An array has no term of its own unless it is empty; its elements have, each once, under the path
//! with "any element". The same holds for objects and their members.

use partita_model::{Leaf, keycode};

use super::{PATH_HASHED, PATH_HASHED_LONG, STEP_END_LONG, value};
use crate::keys;

/// Longer strings are cut. Who searches compares names, codes and the like, which are shorter; of a
/// text, which is not, every byte in a key would be written again and again, by the journal and by
/// each merge.
const STRING_BYTES_MAX: usize = 128;

/// As much of a string was kept at first.
const LONG_STRING_BYTES_MAX: usize = 1_024;

/// Where a container's terms cut strings. Its paths tell by how they end, so whoever has an encoded
/// path knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// In containers from before there was a choice: all their entries stay as they were made.
    Long,
    Short,
}

/// How much of a string the terms of an encoded path hold.
pub(crate) fn string_bytes_max(path: &[u8]) -> usize {
    let is_long = match path.first() {
        Some(&PATH_HASHED_LONG) => true,
        Some(&PATH_HASHED) => false,
        _ => path.last() == Some(&STEP_END_LONG),
    };
    if is_long { LONG_STRING_BYTES_MAX } else { STRING_BYTES_MAX }
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
