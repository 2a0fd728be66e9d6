//! Positions in a string as the language counts them: in UTF-16 units.
//!
//! Our strings are UTF-8. Where a string is ASCII the two counts agree and nothing is walked. A cut
//! through the middle of a character beyond U+FFFF leaves half of a surrogate pair, which UTF-8
//! cannot hold: what remains of the character is then U+FFFD, as it is when an answer is written.

use std::borrow::Cow;

/// How many UTF-16 units the string has.
pub(super) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Where a position in units lies in the bytes.
#[derive(Clone, Copy)]
pub(super) struct BytePosition {
    /// The byte where the character begins in which the position is.
    pub(super) byte: usize,
    /// The position is in the middle of a surrogate pair.
    pub(super) is_inside: bool,
}

/// Where the unit is; the end of the text if it has fewer.
pub(super) fn byte_position(text: &str, unit: usize) -> BytePosition {
    if text.is_ascii() {
        return BytePosition { byte: unit.min(text.len()), is_inside: false };
    }
    let mut passed = 0;
    for (byte, character) in text.char_indices() {
        if passed == unit {
            return BytePosition { byte, is_inside: false };
        }
        passed += character.len_utf16();
        if passed > unit {
            return BytePosition { byte, is_inside: true };
        }
    }
    BytePosition { byte: text.len(), is_inside: false }
}

/// The units from `start` to before `end`, or to the end of the text if that comes first.
pub(super) fn slice(text: Cow<'_, str>, start: usize, end: usize) -> Cow<'_, str> {
    if start >= end {
        return Cow::Borrowed("");
    }
    let (first, last) = (byte_position(&text, start), byte_position(&text, end));
    if !first.is_inside && !last.is_inside {
        return cut(text, first.byte, last.byte);
    }
    let whole_from = if first.is_inside { first.byte + char::MAX.len_utf8() } else { first.byte };
    let mut out = String::with_capacity(last.byte.saturating_sub(whole_from) + 6);
    if first.is_inside {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    out.push_str(text.get(whole_from..last.byte).unwrap_or_default());
    if last.is_inside {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(out)
}

/// The bytes from `start` to before `end`, borrowed if the text is.
pub(super) fn cut(text: Cow<'_, str>, start: usize, end: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(start..end).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(end);
            text.drain(..start.min(end));
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slice_is_the_slice_of_the_units(
            text in "[a-cé\u{FFFD}\u{10000}-\u{10002}]{0,12}",
            start in 0_usize..26,
            len in 0_usize..26,
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let from = start.min(units.len());
            let to = (start + len).min(units.len());
            let expected = String::from_utf16_lossy(&units[from..to]);
            prop_assert_eq!(length(&text), units.len());
            prop_assert_eq!(slice(Cow::Borrowed(&text), start, start + len), expected.as_str());
            prop_assert_eq!(slice(Cow::Owned(text), start, start + len), expected.as_str());
        }
    }
}
