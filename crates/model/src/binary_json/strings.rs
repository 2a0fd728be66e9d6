//! The many forms of a string.
//!
//! Packed forms hold characters of fewer than eight bits, the first in the lowest bits of the first
//! byte. Bits that fill up the last byte mean nothing: writers do not always clear them.

use std::borrow::Cow;

use super::cursor::{Cursor, malformed};
use crate::error::Result;

/// What the markers from 0x20 on stand for, in their order.
pub(super) const DICTIONARY: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];

const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";
const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";

/// Reads what follows the marker of a string (0x20–0xC6). `at` is where the marker is.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>, at: usize, marker: u8) -> Result<Cow<'a, str>> {
    match marker {
        0xC3 => earlier(cursor, at, 1),
        0xC4 => earlier(cursor, at, 2),
        0xC5 => earlier(cursor, at, 3),
        0xC6 => earlier(cursor, at, 4),
        _ => read_here(cursor, at, marker),
    }
}

/// [`read`] for a string that stands where its marker does.
fn read_here<'a>(cursor: &mut Cursor<'a>, at: usize, marker: u8) -> Result<Cow<'a, str>> {
    let packed = match marker {
        0x20..=0x3F => return Ok(Cow::Borrowed(DICTIONARY[usize::from(marker - 0x20)])),
        0x40..=0x67 => {
            let problem = format!(
                "the string {marker:#04x} is in a dictionary that is not part of the body: \
                 send strings as they are"
            );
            return Err(malformed(at, problem));
        }
        0x80..=0xBF => return plain(cursor, usize::from(marker - 0x80)),
        0xC0..=0xC2 => {
            let length = cursor.unsigned(1 << (marker - 0xC0))?;
            return plain(cursor, length);
        }
        0x71 => base64_string(cursor, 1, Alphabet::Standard)?,
        0x72 => base64_string(cursor, 2, Alphabet::Standard)?,
        0x73 => base64_string(cursor, 1, Alphabet::Url)?,
        0x74 => base64_string(cursor, 2, Alphabet::Url)?,
        0x75 => guid_string(cursor, LOWER_HEX)?,
        0x76 => guid_string(cursor, UPPER_HEX)?,
        0x77 => format!("\"{}\"", guid_string(cursor, LOWER_HEX)?),
        0x78 => of_sixteen(cursor, LOWER_HEX)?,
        0x79 => of_sixteen(cursor, UPPER_HEX)?,
        0x7A => of_sixteen(cursor, DATE_TIME)?,
        0x7B => from_a_base(cursor, 4)?,
        0x7C => from_a_base(cursor, 5)?,
        0x7D => from_a_base(cursor, 6)?,
        0x7E => ascii(cursor, 1)?,
        0x7F => ascii(cursor, 2)?,
        other => return Err(super::reserved(at, other)),
    };
    Ok(Cow::Owned(packed))
}

fn plain<'a>(cursor: &mut Cursor<'a>, length: usize) -> Result<Cow<'a, str>> {
    let at = cursor.at();
    let bytes = cursor.take(length)?;
    match std::str::from_utf8(bytes) {
        Ok(string) => Ok(Cow::Borrowed(string)),
        Err(error) => Err(malformed(at + error.valid_up_to(), "invalid UTF-8 in a string")),
    }
}

/// A string that was written before, its position in so many bytes. It must stand there itself, so
/// that there are neither chains nor circles.
fn earlier<'a>(cursor: &mut Cursor<'a>, at: usize, width: usize) -> Result<Cow<'a, str>> {
    let position = cursor.unsigned(width)?;
    // The first byte is the preamble, and would read as an empty string.
    if (1..at).contains(&position) {
        let mut there = cursor.between(position, at);
        if let marker @ (0x20..=0xC2) = there.byte()? {
            return read_here(&mut there, position, marker);
        }
    }
    Err(malformed(at, format!("no earlier string begins at byte {position}, which is referred to")))
}

#[derive(Clone, Copy)]
pub(super) enum Alphabet {
    Standard,
    Url,
}

/// A string in base64, sent as the bytes it means: the count of its groups of four letters in so
/// many bytes, then how many letters the last one lacks. The complement of that says that the
/// string has no padding in their place.
fn base64_string(cursor: &mut Cursor<'_>, width: usize, alphabet: Alphabet) -> Result<String> {
    let groups = cursor.unsigned(width)?;
    let at = cursor.at();
    let padding = cursor.byte()?;
    let lacking = usize::from(if padding > 2 { !padding } else { padding });
    if lacking > 2 || (groups == 0 && lacking > 0) {
        let problem = format!("{padding:#04x} is no padding of {groups} groups of base64");
        return Err(malformed(at, problem));
    }
    let mut text = base64(cursor.take(3 * groups - lacking)?, alphabet);
    if padding > 2 {
        text.truncate(4 * groups - lacking);
    }
    Ok(text)
}

/// Bytes in base64, with padding.
pub(super) fn base64(bytes: &[u8], alphabet: Alphabet) -> String {
    let letter = |sextet: u32| {
        let sextet = sextet as u8 & 63;
        char::from(match (sextet, alphabet) {
            (0..=25, _) => b'A' + sextet,
            (26..=51, _) => b'a' + sextet - 26,
            (52..=61, _) => b'0' + sextet - 52,
            (62, Alphabet::Standard) => b'+',
            (62, Alphabet::Url) => b'-',
            (_, Alphabet::Standard) => b'/',
            (_, Alphabet::Url) => b'_',
        })
    };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            text.push(if at <= group.len() { letter(word >> (18 - 6 * at)) } else { '=' });
        }
    }
    text
}

/// A GUID that was a string: 32 digits, packed.
fn guid_string(cursor: &mut Cursor<'_>, digits: &[u8; 16]) -> Result<String> {
    Ok(guid(unpack(cursor.take(16)?, 4, 32), digits))
}

/// A GUID that never was a string: three little-endian numbers of 4, 2 and 2 bytes, then 8 bytes.
pub(super) fn guid_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let mut bytes: [u8; 16] = cursor.array()?;
    for number in [0..4, 4..6, 6..8] {
        bytes[number].reverse();
    }
    Ok(guid(bytes.into_iter().flat_map(|byte| [byte >> 4, byte & 15]), LOWER_HEX))
}

fn guid(values: impl Iterator<Item = u8>, digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, value) in values.enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(char::from(digits[usize::from(value & 15)]));
    }
    text
}

/// A string of sixteen distinct characters: its length, then four bits for each.
fn of_sixteen(cursor: &mut Cursor<'_>, characters: &[u8; 16]) -> Result<String> {
    let length = cursor.unsigned(1)?;
    let values = unpack(cursor.take(length.div_ceil(2))?, 4, length);
    Ok(values.map(|value| char::from(characters[usize::from(value & 15)])).collect())
}

/// A string whose characters are close together: its length, the least, then the distances to it.
fn from_a_base(cursor: &mut Cursor<'_>, bits: usize) -> Result<String> {
    let length = cursor.unsigned(1)?;
    let at = cursor.at();
    let base = cursor.byte()?;
    let values = unpack(cursor.take((length * bits).div_ceil(8))?, bits, length);
    let characters = values.map(|value| base.checked_add(value).filter(u8::is_ascii));
    characters.map(|character| character.map(char::from)).collect::<Option<String>>().ok_or_else(
        || malformed(at, format!("a character of a string packed from {base:#04x} is not ASCII")),
    )
}

/// A string of ASCII: its length in so many bytes, then seven bits for each character.
fn ascii(cursor: &mut Cursor<'_>, width: usize) -> Result<String> {
    let length = cursor.unsigned(width)?;
    let values = unpack(cursor.take((length * 7).div_ceil(8))?, 7, length);
    Ok(values.map(char::from).collect())
}

/// So many values of so many bits, of which there are at most eight.
fn unpack(bytes: &[u8], bits: usize, count: usize) -> impl Iterator<Item = u8> {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mask = 0xFF >> (8 - bits);
    (0..count).map(move |n| {
        let bit = n * bits;
        let pair = u16::from_le_bytes([byte(bit / 8), byte(bit / 8 + 1)]);
        (pair >> (bit % 8)) as u8 & mask
    })
}
