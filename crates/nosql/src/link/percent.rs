//! Percent-encoding of names in paths and headers.

use std::borrow::Cow;

use partita_model::{Error, Result};

/// Percent-decodes once. A plus sign is a plus sign.
pub(crate) fn decode(raw: &str) -> Result<Cow<'_, str>> {
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let pair = tail.split_at_checked(2).and_then(|(pair, tail)| Some((hex_byte(pair)?, tail)));
        let Some((decoded, tail)) = pair else {
            return Err(Error::bad_request(format!(
                "The path segment '{raw}' has a percent sign without two hexadecimal digits."
            )));
        };
        bytes.push(decoded);
        rest = tail;
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| {
        Error::bad_request(format!("The path segment '{raw}' does not decode to valid UTF-8."))
    })
}

fn hex_byte(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(pair.first()?)?, digit(pair.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

/// Percent-encodes a name for a header: everything but letters, digits and `-._~`.
pub(crate) fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                out.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                    out.push(digit.to_ascii_uppercase());
                }
            }
        }
    }
    out
}
