//! The tokens of JSON, read from a text of which nothing is known but that it is UTF-8.
//!
//! The scanner walks over bytes. It only ever stops at ASCII ones, so every piece it cuts is a
//! piece of whole characters.

use std::borrow::Cow;

use super::JsonError;

/// The text, if it is UTF-8 without a byte order mark.
pub(super) fn utf8(text: &[u8]) -> Result<&str, JsonError> {
    if text.starts_with(b"\xEF\xBB\xBF") {
        let message = "the text starts with a byte order mark: send it without";
        return Err(locate(text, 0, message.to_owned()));
    }
    std::str::from_utf8(text)
        .map_err(|error| locate(text, error.valid_up_to(), "invalid UTF-8".to_owned()))
}

/// An error at a byte of a text.
fn locate(text: &[u8], byte: usize, message: String) -> JsonError {
    let before = text.get(..byte).unwrap_or(text);
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let is_char_start = |b: &&u8| **b & 0xC0 != 0x80;
    let column = 1 + before.iter().skip(line_start).filter(is_char_start).count();
    JsonError { message, byte, line, column }
}

/// A string literal without its quotes, and whether it has escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a> {
    pub(crate) raw: &'a str,
    pub(crate) escaped: bool,
}

impl<'a> Quoted<'a> {
    /// What the literal means.
    pub(crate) fn decode(self) -> Cow<'a, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }

    /// Does the literal mean this text?
    pub(crate) fn means(self, text: &str) -> bool {
        if self.escaped { unescape(self.raw) == text } else { self.raw == text }
    }
}

/// The index of the first byte, from `from` on, that a string literal may not hold as it is: a
/// quote, a backslash or a control character. The text's length if there is none.
///
/// Looks at eight bytes at once: the tests set the top bit of each byte that is below 0x20, or that
/// [`quotes_and_escapes`] finds, with the same reservation.
pub(crate) fn plain_until(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & TOPS;
        let stops = controls | quotes_and_escapes(word);
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_plain = |b: &&u8| **b >= 0x20 && **b != b'"' && **b != b'\\';
    at + bytes.iter().skip(at).take_while(is_plain).count()
}

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Sets the top bit of each of eight bytes that is `"` or `\`. Borrows can set the bits of higher
/// bytes wrongly, but never of the lowest one that is set, which is the one that counts.
#[inline]
pub(crate) fn quotes_and_escapes(word: u64) -> u64 {
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    is_zero(word ^ QUOTES) | is_zero(word ^ BACKSLASHES)
}

/// Decodes the escapes of a literal. Never fails: what is no escape stands for itself, and what
/// names no character becomes U+FFFD.
pub(crate) fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, after)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = after.chars();
        let escape = chars.next();
        rest = chars.as_str();
        match escape {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let (c, after) = unescape_unicode(rest);
                out.push(c);
                rest = after;
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out.push_str(rest);
    out
}

/// Decodes what follows `\u`: four digits, or a pair of surrogates.
fn unescape_unicode(text: &str) -> (char, &str) {
    let Some((first, rest)) = hex4(text) else { return (char::REPLACEMENT_CHARACTER, text) };
    if let Some(c) = char::from_u32(first) {
        return (c, rest);
    }
    let second = rest.strip_prefix("\\u").and_then(hex4);
    match second {
        Some((low @ 0xDC00..=0xDFFF, rest)) if first < 0xDC00 => {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
        }
        _ => (char::REPLACEMENT_CHARACTER, rest),
    }
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((code, rest))
}

/// Reads tokens from left to right.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0 }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    pub(super) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn must_eat(&mut self, byte: u8, message: &str) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(self.fail(message)) }
    }

    pub(super) fn word(&mut self, word: &str) -> Result<(), JsonError> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.fail(format!("expected a value ('{word}'?)")));
        }
        self.at += word.len();
        Ok(())
    }

    /// Reads the string literal whose opening quote is under the cursor.
    pub(super) fn string(&mut self) -> Result<Quoted<'a>, JsonError> {
        let start = self.at + 1;
        let mut escaped = false;
        self.at = start;
        loop {
            self.at = plain_until(self.text.as_bytes(), self.at);
            match self.peek() {
                Some(b'"') => {
                    let raw = self.cut(start);
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(control) => {
                    let message = format!(
                        "a string contains the control character U+{control:04X}: escape it"
                    );
                    return Err(self.fail(message));
                }
                None => return Err(self.fail("a string is not closed ('\"')")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let tail = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        self.at += match tail {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|b| b.is_ascii_hexdigit()) => 6,
            [b'u', ..] => {
                return Err(self.fail("'\\u' must be followed by four hexadecimal digits"));
            }
            _ => return Err(self.fail("a string contains an unknown escape")),
        };
        Ok(())
    }

    /// Reads the number under the cursor.
    pub(super) fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        self.eat(b'-');
        if self.eat(b'0') {
            if let Some(b'0'..=b'9') = self.peek() {
                return Err(self.fail_at(start, "a number has a leading zero"));
            }
        } else {
            self.digits("expected a digit")?;
        }
        let mut may_overflow = self.at - start > 300;
        if self.eat(b'.') {
            self.digits("expected a digit after the decimal point")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits("expected a digit in the exponent")?;
            may_overflow = true;
        }
        let literal = self.cut(start);
        if may_overflow && !literal.parse().is_ok_and(f64::is_finite) {
            return Err(self.fail_at(start, "a number is too large for a double"));
        }
        Ok(literal)
    }

    fn digits(&mut self, message: &str) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.fail(message)) } else { Ok(()) }
    }

    /// The text from a position up to the cursor.
    fn cut(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).expect("tokens begin and end at ASCII characters")
    }

    pub(super) fn fail(&self, message: impl Into<String>) -> JsonError {
        self.fail_at(self.at, message)
    }

    pub(super) fn fail_at(&self, byte: usize, message: impl Into<String>) -> JsonError {
        locate(self.text.as_bytes(), byte, message.into())
    }
}
