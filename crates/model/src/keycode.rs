//! Bytes that sort like the values they encode.
//!
//! A store orders its keys as bytes. These encodings carry the order of values over to the bytes,
//! alone and one after another: no encoding is the beginning of another one, so a composite key
//! sorts by its first part, then its second, and so on.
//!
//! ```text
//!   bytes    as they are, with 00 written as 00 FF; then 00 01 to end
//!   str      its UTF-8 bytes, so in the order of code points
//!   utf16    its UTF-8 bytes with the leading bytes EE to F4 exchanged such that they are in the
//!            order of UTF-16 units, in which queries compare strings; one that is cut ends in
//!            00 02 and so follows the whole string of the same bytes
//!   u64      8 bytes, big-endian
//!   f64      8 bytes, big-endian; positive: top bit flipped; negative: all bits flipped
//!   scalar   a byte for the type, then the value: null 01 · false 02 · true 03 · number 05 ·
//!            string 08; a key part also knows undefined 00
//! ```
//!
//! The gaps between the types leave room. These bytes are stored: changing them needs a migration.

use std::borrow::Cow;

use memchr::memchr;

use crate::document::Scalar;
use crate::partition_key::KeyPart;

const UNDEFINED: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const NUMBER: u8 = 5;
const STRING: u8 = 8;

/// Follows a 00 that is part of the bytes.
const ESCAPED: u8 = 0xFF;
/// Follows the 00 that ends the bytes. Smaller than [`ESCAPED`], so a prefix sorts first.
const END: u8 = 0x01;
/// Follows the 00 that ends bytes which were cut.
const CUT: u8 = 0x02;

/// Appends bytes of any length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 2);
    // Hardly any text has such a byte, and whether it has is quickly found out.
    if !bytes.contains(&0) {
        out.extend_from_slice(bytes);
        return out.extend_from_slice(&[0, END]);
    }
    for (at, piece) in bytes.split(|&byte| byte == 0).enumerate() {
        if at > 0 {
            out.extend_from_slice(&[0, ESCAPED]);
        }
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&[0, END]);
}

/// Appends a string.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends a string such that the bytes are in the order of UTF-16 units.
pub fn put_utf16_order_str(out: &mut Vec<u8>, text: &str) {
    put_utf16_order_cut(out, text, usize::MAX);
}

/// The same for at most so many bytes of the string. One that is longer is cut exactly there, also
/// within a character, so that all strings stay in order; those of one beginning become equal, and
/// a mark says that something is missing.
pub fn put_utf16_order_cut(out: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let bytes = text.as_bytes();
    let kept = bytes.get(..bytes_max).unwrap_or(bytes);
    let start = out.len();
    put_bytes(out, kept);
    // Looks at all bytes, but at many at once.
    if kept.iter().fold(0, |highest, byte| *byte.max(&highest)) >= FIRST_EXCHANGED {
        // 00 FF, the escape, is the only FF there is: UTF-8 has none.
        out[start..].iter_mut().for_each(|byte| *byte = to_utf16_order(*byte));
    }
    if kept.len() < bytes.len()
        && let Some(end) = out.last_mut()
    {
        *end = CUT;
    }
}

/// The first of the leading bytes that UTF-16 sorts in another way.
const FIRST_EXCHANGED: u8 = 0xEE;

/// Characters beyond the basic plane (F0 to F4) are pairs of surrogates in UTF-16, which are below
/// the last characters of the basic plane (EE and EF).
fn to_utf16_order(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 5,
        0xF0..=0xF4 => byte - 2,
        _ => byte,
    }
}

fn from_utf16_order(byte: u8) -> u8 {
    match byte {
        0xEE..=0xF2 => byte + 2,
        0xF3 | 0xF4 => byte - 5,
        _ => byte,
    }
}

/// Appends an unsigned integer.
pub fn put_u64(out: &mut Vec<u8>, int: u64) {
    out.extend_from_slice(&int.to_be_bytes());
}

/// Appends a double. `-0.0` becomes `0.0`: they are equal, so they must be one key.
pub fn put_f64(out: &mut Vec<u8>, double: f64) {
    const SIGN: u64 = 1 << 63;
    let bits = if double == 0.0 { 0 } else { double.to_bits() };
    put_u64(out, if bits & SIGN == 0 { bits | SIGN } else { !bits });
}

/// Appends a scalar with its type.
pub fn put_scalar(out: &mut Vec<u8>, scalar: &Scalar<'_>) {
    match scalar {
        Scalar::Null => out.push(NULL),
        Scalar::Bool(false) => out.push(FALSE),
        Scalar::Bool(true) => out.push(TRUE),
        Scalar::Number(double) => put_number(out, *double),
        Scalar::String(text) => put_text(out, text),
    }
}

/// Appends a component of a partition key with its type.
pub fn put_key_part(out: &mut Vec<u8>, part: &KeyPart) {
    match part {
        KeyPart::Undefined => out.push(UNDEFINED),
        KeyPart::Null => out.push(NULL),
        KeyPart::Bool(false) => out.push(FALSE),
        KeyPart::Bool(true) => out.push(TRUE),
        KeyPart::Number(double) => put_number(out, *double),
        KeyPart::String(text) => put_text(out, text),
    }
}

fn put_number(out: &mut Vec<u8>, double: f64) {
    out.push(NUMBER);
    put_f64(out, double);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(STRING);
    put_str(out, text);
}

/// Reads back what was put, in the same order. A read that fails gives None and moves nothing.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Is everything read?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The inverse of [`put_bytes`].
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut ahead = *self;
        let (bytes, is_cut) = ahead.bytes_to_end()?;
        if is_cut {
            return None;
        }
        *self = ahead;
        Some(bytes)
    }

    /// Passes over what [`put_bytes`] has written, which was not cut.
    pub fn skip_bytes(&mut self) -> Option<()> {
        let mut rest = self.0;
        loop {
            match rest.get(memchr(0, rest)?..)? {
                [0, ESCAPED, after @ ..] => rest = after,
                [0, END, after @ ..] => {
                    self.0 = after;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Bytes up to their end, and whether they were cut there.
    fn bytes_to_end(&mut self) -> Option<(Vec<u8>, bool)> {
        let mut bytes = Vec::new();
        let mut rest = self.0;
        loop {
            let zero = memchr(0, rest)?;
            let (piece, after) = rest.split_at_checked(zero)?;
            bytes.extend_from_slice(piece);
            match after {
                [0, ESCAPED, after @ ..] => {
                    bytes.push(0);
                    rest = after;
                }
                [0, end @ (END | CUT), after @ ..] => {
                    self.0 = after;
                    return Some((bytes, *end == CUT));
                }
                _ => return None,
            }
        }
    }

    /// The inverse of [`put_str`].
    pub fn str(&mut self) -> Option<String> {
        self.text().map(Cow::into_owned)
    }

    /// The same without a copy, where the string has no zero in it.
    pub fn text(&mut self) -> Option<Cow<'a, str>> {
        let zero = memchr(0, self.0)?;
        if let (piece, [0, END, after @ ..]) = self.0.split_at_checked(zero)? {
            let text = std::str::from_utf8(piece).ok()?;
            self.0 = after;
            return Some(Cow::Borrowed(text));
        }
        let mut ahead = *self;
        let text = String::from_utf8(ahead.bytes()?).ok()?;
        *self = ahead;
        Some(Cow::Owned(text))
    }

    /// The inverse of [`put_utf16_order_str`].
    pub fn utf16_order_str(&mut self) -> Option<String> {
        let mut ahead = *self;
        let (text, is_cut) = ahead.utf16_order_cut()?;
        if is_cut {
            return None;
        }
        *self = ahead;
        Some(text)
    }

    /// The inverse of [`put_utf16_order_cut`]: the string, or the whole characters that are left of
    /// it and true.
    pub fn utf16_order_cut(&mut self) -> Option<(String, bool)> {
        let mut ahead = *self;
        let (mut bytes, is_cut) = ahead.bytes_to_end()?;
        bytes.iter_mut().for_each(|byte| *byte = from_utf16_order(*byte));
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
                let whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).ok()?
            }
            Err(_) => return None,
        };
        *self = ahead;
        Some((text, is_cut))
    }

    /// The inverse of [`put_u64`].
    pub fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*bytes))
    }

    /// The inverse of [`put_f64`].
    pub fn f64(&mut self) -> Option<f64> {
        const SIGN: u64 = 1 << 63;
        let bits = self.u64()?;
        Some(f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN }))
    }

    /// The inverse of [`put_scalar`].
    pub fn scalar(&mut self) -> Option<Scalar<'static>> {
        let mut ahead = *self;
        let scalar = match ahead.key_part()? {
            KeyPart::Undefined => return None,
            KeyPart::Null => Scalar::Null,
            KeyPart::Bool(value) => Scalar::Bool(value),
            KeyPart::Number(double) => Scalar::Number(double),
            KeyPart::String(text) => Scalar::String(Cow::Owned(text)),
        };
        *self = ahead;
        Some(scalar)
    }

    /// The inverse of [`put_key_part`].
    pub fn key_part(&mut self) -> Option<KeyPart> {
        let (&kind, rest) = self.0.split_first()?;
        let mut ahead = Reader(rest);
        let part = match kind {
            UNDEFINED => KeyPart::Undefined,
            NULL => KeyPart::Null,
            FALSE => KeyPart::Bool(false),
            TRUE => KeyPart::Bool(true),
            NUMBER => KeyPart::Number(ahead.f64()?),
            STRING => KeyPart::String(ahead.str()?),
            _ => return None,
        };
        *self = ahead;
        Some(part)
    }

    /// Passes over a key part.
    pub fn skip_key_part(&mut self) -> Option<()> {
        let (&kind, rest) = self.0.split_first()?;
        let mut ahead = Reader(rest);
        match kind {
            UNDEFINED | NULL | FALSE | TRUE => {}
            NUMBER => drop(ahead.f64()?),
            STRING => ahead.skip_bytes()?,
            _ => return None,
        }
        *self = ahead;
        Some(())
    }
}
