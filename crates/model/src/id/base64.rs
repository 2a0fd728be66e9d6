//! Base64 as resource ids use it: the standard alphabet with `-` in place of `/`, and padding.
//!
//! Decoding is to a known number of bytes, and accepts only what encoding prints: two texts never
//! name one resource.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// The text of some bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let sextet = (word >> (18 - 6 * at)) as usize & 63;
            text.push(if at <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

/// The bytes of a text, if it is the text of exactly so many.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    let mut bytes = [0; N];
    for (quad, into) in text.as_bytes().chunks(4).zip(bytes.chunks_mut(3)) {
        let mut word = 0;
        for &letter in quad {
            word = word << 6 | sextet(letter)?;
        }
        let [_, decoded @ ..] = u32::to_be_bytes(word);
        into.copy_from_slice(decoded.get(..into.len())?);
    }
    // Padding read as zeros, padding in the wrong place and stray low bits all show here.
    (encode(&bytes) == text).then_some(bytes)
}

fn sextet(letter: u8) -> Option<u32> {
    let sextet = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'-' => 63,
        b'=' => 0,
        _ => return None,
    };
    Some(u32::from(sextet))
}
