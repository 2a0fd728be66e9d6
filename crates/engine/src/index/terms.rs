//! Terms: a path and a value at it.
//!
//! ```text
//! 01 · path · value · rid → ()
//! ```
//!
//! An array has no term of its own unless it is empty; its elements have, each once, under the path
//! with "any element". The same holds for objects and their members.

use partita_model::{Leaf, keycode};

use super::value;
use crate::keys;

/// Longer strings are cut. Keeps keys far below what stores accept, and pages of the index useful.
pub(crate) const TERM_STRING_BYTES_MAX: usize = 1_024;

/// Appends the key of the entry for a leaf at an encoded path.
pub(super) fn put_key(out: &mut Vec<u8>, path: &[u8], leaf: &Leaf<'_>, rid: u64) {
    keys::put_term_prefix(out, path);
    match leaf {
        Leaf::Scalar(scalar) => value::put_scalar(out, scalar, TERM_STRING_BYTES_MAX),
        Leaf::EmptyArray => out.push(value::ARRAY),
        Leaf::EmptyObject => out.push(value::OBJECT),
    }
    keycode::put_u64(out, rid);
}
