//! The headers of a response, written as they go over the wire.
//!
//! Every header is a line `name: value`, ended by CR and LF, in one piece of memory: what HTTP/1.1
//! sends is what the door wrote. HTTP/2 takes the lines apart again.
//!
//! What the gateway itself says of a response (its length, its date, what becomes of the
//! connection) no door can say, and a value that would end its line is left out: half a header
//! would mislead more than none.

use std::fmt;

use ::http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use ::http::{HeaderMap, HeaderName, HeaderValue};

/// Headers of a response. See the module's text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lines(Vec<u8>);

/// Headers that only the gateway writes.
const OURS: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, DATE];

impl Lines {
    /// No headers yet.
    pub fn new() -> Lines {
        Lines::default()
    }

    /// No headers yet, and room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Lines {
        Lines(Vec::with_capacity(bytes))
    }

    /// Adds a header, which must not be there yet.
    pub fn push(&mut self, name: &HeaderName, value: impl AsRef<[u8]>) {
        self.push_parts(name, &[value.as_ref()]);
    }

    /// Adds a header whose value is made of these parts.
    pub fn push_parts(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        debug_assert!(!self.has(name), "{name} is there already");
        if OURS.contains(name) || !parts.iter().all(|part| is_value(part)) {
            return;
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.0.reserve(name.as_str().len() + bytes + 4);
        self.0.extend_from_slice(name.as_str().as_bytes());
        self.0.extend_from_slice(b": ");
        for part in parts {
            self.0.extend_from_slice(part);
        }
        self.0.extend_from_slice(b"\r\n");
    }

    /// Adds a piece of lines that need no check. All pieces together must be whole lines, each with
    /// a name in lower case and a value that fits a line.
    pub fn push_written(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }

    /// The header of this name.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == name.as_str().as_bytes()).map(|(_, value)| value)
    }

    /// Is there a header of this name? A search of the standard library says mostly that there is
    /// not, and is quick in builds without optimisation, too: there every header asks.
    fn has(&self, name: &HeaderName) -> bool {
        let may_be = String::from_utf8_lossy(&self.0).contains(name.as_str());
        may_be && self.get(name).is_some()
    }

    /// Names and values in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let value = line.get(colon + 2..line.len().checked_sub(1)?)?;
            Some((line.get(..colon)?, value))
        })
    }

    /// The lines as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a map.
    pub fn to_map(&self) -> HeaderMap {
        let pair = |(name, value): (&[u8], &[u8])| {
            Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
        };
        let mut map = HeaderMap::with_capacity(32);
        for (name, value) in self.iter().filter_map(pair) {
            map.append(name, value);
        }
        map
    }
}

/// Can a header carry this?
fn is_value(bytes: &[u8]) -> bool {
    // Without an early end: this is done many bytes at a time.
    let broken = |byte: u8| (byte < b' ' && byte != b'\t') | (byte == 0x7f);
    !bytes.iter().fold(false, |found, byte| found | broken(*byte))
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use ::http::header::{CONTENT_TYPE, ETAG, SERVER};

    use super::*;

    #[test]
    fn lines_are_written_in_order_and_taken_apart_again() {
        let mut lines = Lines::new();
        lines.push(&ETAG, "\"a: b\"");
        lines.push_parts(&SERVER, &[b"x", b"", b"y"]);
        lines.push_written(b"content-type: ");
        lines.push_written(b"\r\n");
        assert_eq!(lines.as_bytes(), b"etag: \"a: b\"\r\nserver: xy\r\ncontent-type: \r\n");
        assert_eq!(lines.get(&ETAG), Some(&b"\"a: b\""[..]));
        assert_eq!(lines.get(&CONTENT_TYPE), Some(&b""[..]));
        assert_eq!(lines.get(&DATE), None);
        let map = lines.to_map();
        let all: Vec<_> = map.iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(all[0].0, "etag");
        assert_eq!(all[1], ("server", &HeaderValue::from_static("xy")));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn no_value_can_end_its_line() {
        for bad in ["a\r\nb: c", "a\nb", "\r", "\0", "\x7f", "long enough for a wide look\n"] {
            let mut lines = Lines::new();
            lines.push(&ETAG, bad);
            assert_eq!(lines, Lines::new(), "{bad:?}");
            assert!(HeaderValue::from_str(bad).is_err());
        }
        for good in ["", "a\tb", "é", " ~"] {
            let mut lines = Lines::new();
            lines.push(&ETAG, good);
            assert_eq!(lines.get(&ETAG), Some(good.as_bytes()));
            assert!(HeaderValue::from_bytes(good.as_bytes()).is_ok());
        }
    }

    #[test]
    fn what_is_the_gateways_to_say_is_left_out() {
        let mut lines = Lines::new();
        for name in OURS {
            lines.push(&name, "3");
        }
        assert_eq!(lines, Lines::new());
    }
}
