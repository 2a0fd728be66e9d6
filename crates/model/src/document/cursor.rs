//! Skipping through a JSON text that was checked before.
//!
//! Nothing is validated again: a value's end is found by counting brackets and jumping over
//! strings. Every read is bounded by the text, so a text that was not checked gives None.
//!
//! The cursor moves over bytes and answers with ranges of them. It only ever stops at ASCII bytes,
//! so a range of a text is a piece of whole characters.

use std::ops::Range;

use memchr::memchr2;

use crate::json::scan::{Quoted, quotes_and_escapes};

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string literal without its quotes, and whether it has escapes.
pub(super) struct Literal {
    pub(super) inside: Range<usize>,
    pub(super) escaped: bool,
}

impl Literal {
    pub(super) fn of(self, text: &str) -> Option<Quoted<'_>> {
        Some(Quoted { raw: text.get(self.inside)?, escaped: self.escaped })
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A string literal.
    pub(super) fn string(&mut self) -> Option<Literal> {
        let start = self.at + 1;
        let escaped = self.skip_string()?;
        Some(Literal { inside: start..self.at - 1, escaped })
    }

    /// To the end of a string literal; says whether it has escapes.
    fn skip_string(&mut self) -> Option<bool> {
        self.eat(b'"')?;
        let mut escaped = false;
        loop {
            self.at += quote_or_escape(self.bytes.get(self.at..)?)?;
            if self.peek()? == b'"' {
                self.at += 1;
                return Some(escaped);
            }
            escaped = true;
            self.at += 2;
        }
    }

    /// A member's name and the colon after it.
    pub(super) fn name(&mut self) -> Option<Literal> {
        let name = self.string()?;
        self.eat(b':')?;
        Some(name)
    }

    /// Where a whole value lies.
    pub(super) fn value(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.skip_value()?;
        Some(start..self.at)
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string().map(|_escaped| ()),
            b'{' | b'[' => self.skip_nested(),
            b't' | b'f' | b'n' | b'-' | b'0'..=b'9' => {
                self.skip_literal();
                Some(())
            }
            _ => None,
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }

    fn skip_literal(&mut self) {
        while let Some(b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E') = self.peek() {
            self.at += 1;
        }
    }
}

/// How far it is to the first quote or backslash. Names and most strings end within a few words,
/// which are looked at here; a search with vectors takes as long to begin, and is for texts.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const WORDS: usize = 3;
    let mut at = 0;
    for _ in 0..WORDS {
        let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let stops = quotes_and_escapes(u64::from_le_bytes(*chunk));
        if stops != 0 {
            return Some(at + stops.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Some(at + memchr2(b'"', b'\\', bytes.get(at..)?)?)
}

/// A member of an object, as texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) name: Quoted<'a>,
    pub(crate) value: &'a str,
    /// `"name":value`.
    pub(crate) text: &'a str,
    /// Where `text` begins in the object's text.
    pub(crate) start: usize,
}

/// The members of an object's text; none if it is no object.
pub(crate) fn member_texts<'a>(object: &'a str) -> impl Iterator<Item = Member<'a>> + use<'a> {
    let mut cursor = Cursor::new(object.as_bytes());
    let mut more = cursor.eat(b'{');
    std::iter::from_fn(move || {
        more.take()?;
        let start = cursor.at;
        let name = cursor.name()?.of(object)?;
        let value = object.get(cursor.value()?)?;
        let text = object.get(start..cursor.at)?;
        more = cursor.eat(b',');
        Some(Member { name, value, text, start })
    })
}

/// The value of the first member of this name in an object's text. Filters ask this of every item:
/// the members before it are passed over without being taken apart.
pub(super) fn member_value<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut cursor = Cursor::new(object);
    cursor.eat(b'{')?;
    loop {
        let literal = cursor.string()?;
        let raw = object.get(literal.inside)?;
        let is_it = match literal.escaped {
            false => raw == name.as_bytes(),
            true => Quoted { raw: std::str::from_utf8(raw).ok()?, escaped: true }.means(name),
        };
        cursor.eat(b':')?;
        if is_it {
            return object.get(cursor.value()?);
        }
        cursor.skip_value()?;
        cursor.eat(b',')?;
    }
}

/// How long the array or object is that a text begins with.
pub(super) fn nested_len(text: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(text);
    cursor.skip_nested()?;
    Some(cursor.at)
}

/// The value that begins at a place of a text.
pub(super) fn value_at(text: &[u8], at: usize) -> Option<&[u8]> {
    let mut cursor = Cursor { bytes: text, at };
    text.get(cursor.value()?)
}

/// An element of an array, as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) text: &'a str,
    /// Where `text` begins in the array's text.
    pub(crate) start: usize,
}

/// The elements of an array's text; none if it is no array.
pub(crate) fn element_texts<'a>(array: &'a str) -> impl Iterator<Item = Element<'a>> + use<'a> {
    element_ranges(array.as_bytes()).map_while(|range| {
        let start = range.start;
        Some(Element { text: array.get(range)?, start })
    })
}

/// Where the elements of an array lie in its text; none if it is no array.
pub(super) fn element_ranges<'a>(array: &'a [u8]) -> impl Iterator<Item = Range<usize>> + use<'a> {
    let mut cursor = Cursor::new(array);
    let mut more = cursor.eat(b'[');
    std::iter::from_fn(move || {
        more.take()?;
        let element = cursor.value()?;
        more = cursor.eat(b',');
        Some(element)
    })
}

/// How many arrays and objects are open at the deepest place of a value.
pub(crate) fn depth_of(value: &str) -> usize {
    let mut cursor = Cursor::new(value.as_bytes());
    let (mut open, mut deepest) = (0_usize, 0);
    while let Some(byte) = cursor.peek() {
        match byte {
            b'"' if cursor.string().is_none() => break,
            b'"' => continue,
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
        cursor.at += 1;
    }
    deepest
}

/// So many digits always fit the 53 bits of a double.
const EXACT_DIGITS_MAX: usize = 15;

/// The number of a literal that has nothing but a few digits.
pub(super) fn short_integer(literal: &[u8]) -> Option<i64> {
    let few = (1..=EXACT_DIGITS_MAX).contains(&literal.len());
    if !few || !literal.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(literal.iter().fold(0, |int, digit| int * 10 + i64::from(digit - b'0')))
}

/// The double of a number literal. Most numbers in documents are short integers, which need no
/// rounding.
pub(super) fn parse_number(literal: &[u8]) -> Option<f64> {
    if let Some(int) = short_integer(literal) {
        return Some(int as f64);
    }
    let literal = std::str::from_utf8(literal).ok()?;
    literal.parse().ok().filter(|double: &f64| double.is_finite())
}
