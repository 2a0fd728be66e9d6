//! Composites: the values at several paths of an item, side by side.
//!
//! ```text
//! 06 · index · columns · rid → ()
//! index   8 bytes: a hash of the paths and directions, so an entry means the same under every
//!         policy that has the index
//! column  a sort key; of a descending column every byte is inverted
//! ```
//!
//! No sort key is the beginning of another one, so inverting all bytes turns the order around and
//! columns can follow one another without separators. Every item has an entry in every composite
//! index, also if it has none of the values: then its columns are undefined.

use partita_model::{CompositeIndex, Document, IndexStep, IndexingPolicy, Raw};
use partita_model::{keycode, murmur3_128};

use super::{KeyBuffer, Terms, of_index_step, put_path};
use crate::entry_value::{self as value, COLUMN_STRING_BYTES_MAX, turn};
use crate::keys;

/// Appends the keys of a document's entries in all composite indexes of a policy.
pub(super) fn put_keys(
    keys: &mut KeyBuffer,
    document: Document<'_>,
    rid: u64,
    policy: &IndexingPolicy,
) {
    for index in policy.composite() {
        let mut key = keys::composite_prefix(composite_id(index));
        for column in &index.paths {
            let start = key.len();
            let found = find(document, column.path.steps());
            value::put_any(&mut key, found, COLUMN_STRING_BYTES_MAX);
            turn(key.get_mut(start..).unwrap_or_default(), column.descending);
        }
        keycode::put_u64(&mut key, rid);
        keys.push(|out| out.extend_from_slice(&key));
    }
}

/// What names a composite index in keys.
pub(crate) fn composite_id(index: &CompositeIndex) -> u64 {
    let mut text = Vec::with_capacity(64);
    let mut path = Vec::with_capacity(32);
    for column in &index.paths {
        path.clear();
        // How paths end has no meaning here; the ids of old stay.
        put_path(&mut path, column.path.steps().iter().map(of_index_step), Terms::Long);
        text.extend_from_slice(&path);
        text.push(u8::from(column.descending));
    }
    murmur3_128(&text) as u64
}

/// The sort keys in an entry's key, as far as they are there: see [`super::is_cut`].
pub(crate) fn columns_of(key: &[u8], index: &CompositeIndex) -> Option<Vec<Vec<u8>>> {
    let mut rest = keys::composite_columns(key)?;
    let mut columns = Vec::with_capacity(index.paths.len());
    for column in &index.paths {
        let mut plain = rest.to_vec();
        turn(&mut plain, column.descending);
        plain.truncate(value::column_len(&plain)?);
        rest = rest.get(plain.len()..)?;
        columns.push(plain);
    }
    rest.is_empty().then_some(columns)
}

fn find<'a>(document: Document<'a>, path: &[IndexStep]) -> Option<Raw<'a>> {
    document.at(path.iter().map_while(of_index_step))
}
