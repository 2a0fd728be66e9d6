//! Skipping through a JSON text that was checked before.
//!
//! Nothing is validated again: a value's end is found by counting brackets and jumping over
//! strings. Every read is bounded by the text, so a text that was not checked gives None.

use crate::json::scan::{Quoted, plain_until};

/// A place in a text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A string literal.
    pub(super) fn string(&mut self) -> Option<Quoted<'a>> {
        let start = self.at + 1;
        let escaped = self.skip_string()?;
        let raw = self.text.get(start..self.at - 1)?;
        Some(Quoted { raw, escaped })
    }

    /// To the end of a string literal; says whether it has escapes.
    fn skip_string(&mut self) -> Option<bool> {
        self.eat(b'"')?;
        let mut escaped = false;
        loop {
            self.at = plain_until(self.text.as_bytes(), self.at);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                _control => return None,
            }
        }
    }

    /// A member's name and the colon after it.
    pub(super) fn name(&mut self) -> Option<Quoted<'a>> {
        let name = self.string()?;
        self.eat(b':')?;
        Some(name)
    }

    /// The text of a whole value.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip_value()?;
        self.text.get(start..self.at)
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
    let mut cursor = Cursor::new(object);
    let mut more = cursor.eat(b'{');
    std::iter::from_fn(move || {
        more.take()?;
        let start = cursor.at;
        let name = cursor.name()?;
        let value = cursor.value()?;
        let text = object.get(start..cursor.at)?;
        more = cursor.eat(b',');
        Some(Member { name, value, text, start })
    })
}

/// The value of the first member of this name in an object's text. Filters ask this of every item:
/// the members before it are passed over without being taken apart.
pub(crate) fn member_value<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut cursor = Cursor::new(object);
    cursor.eat(b'{')?;
    loop {
        let start = cursor.at + 1;
        let escaped = cursor.skip_string()?;
        let raw = object.as_bytes().get(start..cursor.at - 1)?;
        let is_it = match escaped {
            false => raw == name.as_bytes(),
            true => Quoted { raw: object.get(start..cursor.at - 1)?, escaped }.means(name),
        };
        cursor.eat(b':')?;
        if is_it {
            return cursor.value();
        }
        cursor.skip_value()?;
        cursor.eat(b',')?;
    }
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
    let mut cursor = Cursor::new(array);
    let mut more = cursor.eat(b'[');
    std::iter::from_fn(move || {
        more.take()?;
        let start = cursor.at;
        let text = cursor.value()?;
        more = cursor.eat(b',');
        Some(Element { text, start })
    })
}

/// How many arrays and objects are open at the deepest place of a value.
pub(crate) fn depth_of(value: &str) -> usize {
    let mut cursor = Cursor::new(value);
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

/// The double of a number literal. Most numbers in documents are short integers, which need no
/// rounding.
pub(super) fn parse_number(literal: &str) -> Option<f64> {
    /// So many digits always fit the 53 bits of a double.
    const EXACT_DIGITS_MAX: usize = 15;
    if literal.len() <= EXACT_DIGITS_MAX && literal.bytes().all(|b| b.is_ascii_digit()) {
        let int = literal.bytes().fold(0_u64, |int, digit| int * 10 + u64::from(digit - b'0'));
        return (!literal.is_empty()).then_some(int as f64);
    }
    literal.parse().ok().filter(|double: &f64| double.is_finite())
}
