//! Values in keys: the sort keys of queries, with long strings cut. Scalars are encoded here again
//! because that happens for every leaf of every write; a test compares the two.

use std::borrow::Cow;

use partita_model::{Raw, Scalar, keycode};

const UNDEFINED: u8 = 0x00;
const NULL: u8 = 0x01;
const TRUE: u8 = 0x03;
const NUMBER: u8 = 0x05;
const STRING: u8 = 0x08;
/// Arrays and objects come after all scalars.
pub(crate) const ARRAY: u8 = 0x0B;
pub(crate) const OBJECT: u8 = 0x0C;

/// Longer strings are cut. Who searches compares names, codes and the like, which are shorter; of a
/// text, which is not, every byte in a key would be written again and again, by the journal and by
/// each merge.
const STRING_BYTES_MAX: usize = 128;

/// As much of a string was kept at first.
const LONG_STRING_BYTES_MAX: usize = 1_024;

/// Longer strings are cut. There are up to eight columns in a key.
pub(crate) const COLUMN_STRING_BYTES_MAX: usize = 256;

/// How encoded paths begin that were replaced by a hash, and how they end, in containers of old and
/// in those of now: whoever has an encoded path knows where its terms cut strings.
pub(crate) const STEP_END_LONG: u8 = 0x00;
pub(crate) const PATH_HASHED_LONG: u8 = 0x03;
pub(crate) const PATH_HASHED: u8 = 0x05;

/// What follows the tag of an array or object in a column: they sort by their hash.
const HASH_BYTES: usize = 16;

/// The end of a string that was cut: see [`keycode::put_utf16_order_cut`].
const CUT_END: [u8; 2] = [0x00, 0x02];

/// Appends a scalar.
pub(crate) fn put_scalar(out: &mut Vec<u8>, scalar: &Scalar<'_>, string_bytes_max: usize) {
    match scalar {
        Scalar::String(text) => {
            out.push(STRING);
            keycode::put_utf16_order_cut(out, text, string_bytes_max);
        }
        Scalar::Null | Scalar::Bool(_) | Scalar::Number(_) => keycode::put_scalar(out, scalar),
    }
}

/// Appends any value or its absence.
pub(crate) fn put_any(out: &mut Vec<u8>, value: Option<Raw<'_>>, string_bytes_max: usize) {
    let Some(raw) = value else { return out.push(UNDEFINED) };
    if let Some(scalar) = raw.scalar() {
        return put_scalar(out, &scalar, string_bytes_max);
    }
    out.extend_from_slice(&partita_query::sort_key(Some(&raw.to_value())));
}

/// Is this encoded value a string that was cut?
pub(crate) fn is_cut(value: &[u8]) -> bool {
    value.first() == Some(&STRING) && value.ends_with(&CUT_END)
}

/// A sort key, or the beginning of one, as an entry has it whose strings are cut at a number of
/// bytes: where a search for it has to begin or end.
pub(crate) fn fit(value: &[u8], string_bytes_max: usize) -> Cow<'_, [u8]> {
    if value.first() != Some(&STRING) {
        return Cow::Borrowed(value);
    }
    let (mut at, mut kept) = (1, 0);
    loop {
        let width = match value.get(at..) {
            Some([0x00, 0xFF, ..]) => 2,
            // The end, or a beginning without one.
            Some([0x00, ..] | []) | None => return Cow::Borrowed(value),
            Some([_, ..]) => 1,
        };
        if kept == string_bytes_max {
            break;
        }
        kept += 1;
        at += width;
    }
    let mut out = value.get(..at).unwrap_or(value).to_vec();
    out.extend_from_slice(&CUT_END);
    Cow::Owned(out)
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

/// Appends a sort key as a column of a composite entry.
pub(crate) fn put_column(key: &mut Vec<u8>, sort_key: &[u8], descending: bool) {
    let start = key.len();
    key.extend_from_slice(&fit(sort_key, COLUMN_STRING_BYTES_MAX));
    turn(key.get_mut(start..).unwrap_or_default(), descending);
}

/// Turns the order of a column around.
pub(crate) fn turn(bytes: &mut [u8], descending: bool) {
    if descending {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// The value that begins these bytes of a composite entry: where it ends.
pub(crate) fn column_len(bytes: &[u8]) -> Option<usize> {
    let len = match *bytes.first()? {
        UNDEFINED..=TRUE => 1,
        NUMBER => 9,
        STRING => {
            let mut reader = keycode::Reader::new(bytes.get(1..)?);
            reader.utf16_order_cut()?;
            bytes.len() - reader.rest().len()
        }
        ARRAY | OBJECT => 1 + HASH_BYTES,
        _ => return None,
    };
    Some(len).filter(|len| *len <= bytes.len())
}

/// The value in the key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryValue<'k>(&'k [u8]);

impl<'k> EntryValue<'k> {
    pub(crate) fn new(encoded: &'k [u8]) -> EntryValue<'k> {
        EntryValue(encoded)
    }

    /// The sort key, or what is left of it.
    pub(crate) fn bytes(self) -> &'k [u8] {
        self.0
    }

    /// Whether the item has to be asked for the value.
    pub(crate) fn is_cut(self) -> bool {
        is_cut(self.0)
    }

    /// Is this one scalar and nothing behind it?
    pub(crate) fn is_whole(self) -> bool {
        let Some((tag, text)) = self.0.split_first() else { return false };
        let mut reader = keycode::Reader::new(if *tag == STRING { text } else { self.0 });
        let is_read = match *tag {
            STRING => reader.utf16_order_str().is_some(),
            _ => reader.scalar().is_some(),
        };
        is_read && reader.is_empty()
    }

    /// The scalar, unless it is a string that was cut, or no scalar.
    pub(crate) fn scalar(self) -> Option<Scalar<'static>> {
        let (tag, text) = self.0.split_first()?;
        match *tag {
            NULL..=NUMBER => keycode::Reader::new(self.0).scalar(),
            STRING => {
                let text = keycode::Reader::new(text).utf16_order_str()?;
                Some(Scalar::String(Cow::Owned(text)))
            }
            _ => None,
        }
    }
}
