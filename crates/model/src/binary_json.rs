//! Cosmos binary JSON, in which some clients send items: from it to JSON text.
//!
//! A body in this format begins with the byte 0x80, which no UTF-8 text begins with, and holds one
//! value. A value is a marker and what the marker announces; all numbers are little-endian.
//!
//! | marker | value |
//! |---|---|
//! | 00–1F | the integer that the marker is |
//! | 20–3F | a string of a fixed dictionary: the names that every item has, and GeoJSON's |
//! | 40–67 | a string of a dictionary that is not in the body: refused |
//! | 71–7F | a string packed by what it consists of: base64, GUID, few distinct characters |
//! | 80–BF | a string of 0 to 63 bytes |
//! | C0–C2 | a string with its length in 1, 2 or 4 bytes |
//! | C3–C6 | an earlier string, by its position in the body, in 1 to 4 bytes |
//! | C7–CE, D7–DC | a number of fixed width |
//! | D0, D1, D2 | null, false, true |
//! | D3, DD–DF | a GUID; bytes with their length: strings in JSON |
//! | E0–E7, E8–EF | an array, an object: empty, of one part, or with length and perhaps count |
//! | F0–F3 | an array of numbers, or of arrays of numbers, that share one marker |
//!
//! Everything else is reserved and refused, as are 16-bit floats (CF), which have no place in JSON,
//! and doubles that are not finite. A refusal names the byte. Positions of earlier strings let a
//! small body mean a large text, so the text is bounded by [`ITEM_BYTES_MAX`], and nesting by
//! [`DEPTH_MAX`]. Names that repeat are left to the reader of JSON text.
//!
//! The other direction ([`from_text`]) is for answers. Clients recognise text by its first byte and
//! take it, so nobody depends on it.

mod cursor;
mod numbers;
mod strings;
mod text;
mod write;

use self::cursor::{Cursor, malformed};
use self::text::Text;
use crate::error::Result;
use crate::json;
use crate::limits::DEPTH_MAX;
#[cfg(doc)]
use crate::limits::ITEM_BYTES_MAX;

/// The first byte of every body in this format.
const PREAMBLE: u8 = 0x80;

/// Is this binary JSON, going by its first byte?
pub fn is_binary(body: &[u8]) -> bool {
    body.first() == Some(&PREAMBLE)
}

/// The same value as compact JSON text.
pub fn to_text(body: &[u8]) -> Result<String> {
    let mut reader = Reader { cursor: Cursor::new(body), depth: 0, text: Text::default() };
    match reader.cursor.byte()? {
        PREAMBLE => {}
        other => return Err(malformed(0, format!("expected {PREAMBLE:#04x}, found {other:#04x}"))),
    }
    reader.value()?;
    match reader.cursor.left() {
        0 => Ok(reader.text.finish()),
        left => {
            Err(malformed(reader.cursor.at(), format!("{left} bytes are left after the value")))
        }
    }
}

/// A JSON text as binary JSON. Numbers become what they mean: how they were written is not kept.
pub fn from_text(text: &[u8]) -> Result<Vec<u8>> {
    let value = json::parse_carrier(text)?;
    let mut out = Vec::with_capacity(text.len());
    out.push(PREAMBLE);
    write::value(&mut out, &value);
    Ok(out)
}

/// Reads values by recursive descent, which [`DEPTH_MAX`] bounds, and writes them as it goes.
struct Reader<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    text: Text,
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    Object,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<()> {
        let at = self.cursor.at();
        let marker = self.cursor.byte()?;
        match marker {
            0x00..=0x1F => self.text.raw(&marker.to_string()),
            0x20..=0xC6 => {
                let string = strings::read(&mut self.cursor, at, marker)?;
                self.text.string(&string)
            }
            0xC7..=0xCF | 0xD7..=0xDC => self.number(at, marker),
            0xD0 => self.text.raw("null"),
            0xD1 => self.text.raw("false"),
            0xD2 => self.text.raw("true"),
            0xD3 => {
                let guid = strings::guid_value(&mut self.cursor)?;
                self.text.string(&guid)
            }
            0xDD => self.bytes(1),
            0xDE => self.bytes(2),
            0xDF => self.bytes(4),
            0xE0..=0xE7 => self.container(at, Container::Array, marker),
            0xE8..=0xEF => self.container(at, Container::Object, marker),
            0xF0 => self.uniform(at, 1),
            0xF1 => self.uniform(at, 2),
            0xF2 => self.uniform_of_uniform(at, 1, 0xF0),
            0xF3 => self.uniform_of_uniform(at, 2, 0xF1),
            0xD4..=0xD6 | 0xF4..=0xFF => Err(reserved(at, marker)),
        }
    }

    fn number(&mut self, at: usize, marker: u8) -> Result<()> {
        let number = numbers::read(&mut self.cursor, at, marker)?;
        self.text.number(number)
    }

    /// Bytes, with their length in so many bytes. JSON says them in base64.
    fn bytes(&mut self, width: usize) -> Result<()> {
        let length = self.cursor.unsigned(width)?;
        let bytes = self.cursor.take(length)?;
        self.text.string(&strings::base64(bytes, strings::Alphabet::Standard))
    }

    /// An array or an object. The low bits of both markers say alike how its end is found.
    fn container(&mut self, at: usize, kind: Container, marker: u8) -> Result<()> {
        self.open(at, kind)?;
        match marker & 7 {
            0 => {}
            1 => self.part(kind)?,
            2 => self.counted(at, kind, 1, Counted::No)?,
            3 => self.counted(at, kind, 2, Counted::No)?,
            4 => self.counted(at, kind, 4, Counted::No)?,
            5 => self.counted(at, kind, 1, Counted::Yes)?,
            6 => self.counted(at, kind, 2, Counted::Yes)?,
            _ => self.counted(at, kind, 4, Counted::Yes)?,
        }
        self.close(kind)
    }

    /// The parts of a container whose length, and perhaps count, come first.
    fn counted(
        &mut self,
        at: usize,
        kind: Container,
        width: usize,
        counted: Counted,
    ) -> Result<()> {
        let length = self.cursor.unsigned(width)?;
        let announced = match counted {
            Counted::Yes => Some(self.cursor.unsigned(width)?),
            Counted::No => None,
        };
        let outer = self.cursor.narrow(length)?;
        let mut count = 0;
        while self.cursor.left() > 0 {
            if count > 0 {
                self.text.raw(",")?;
            }
            self.part(kind)?;
            count += 1;
        }
        self.cursor.widen(outer);
        match announced {
            Some(announced) if announced != count => {
                let problem = format!("{announced} parts are announced and {count} are there");
                Err(malformed(at, problem))
            }
            _ => Ok(()),
        }
    }

    /// An element, or a name and its value.
    fn part(&mut self, kind: Container) -> Result<()> {
        if let Container::Object = kind {
            let at = self.cursor.at();
            let name = match self.cursor.byte()? {
                marker @ 0x20..=0xC6 => strings::read(&mut self.cursor, at, marker)?,
                other => {
                    let problem = format!("a member's name must be a string, not {other:#04x}");
                    return Err(malformed(at, problem));
                }
            };
            self.text.string(&name)?;
            self.text.raw(":")?;
        }
        self.value()
    }

    /// Numbers that share a marker, their count in so many bytes.
    fn uniform(&mut self, at: usize, width: usize) -> Result<()> {
        let (marker_at, marker) = self.shared_marker()?;
        let count = self.cursor.unsigned(width)?;
        self.numbers(at, (marker_at, marker), count)
    }

    /// Arrays of equally many numbers that all share a marker.
    fn uniform_of_uniform(&mut self, at: usize, width: usize, inner: u8) -> Result<()> {
        let inner_at = self.cursor.at();
        let found = self.cursor.byte()?;
        if found != inner {
            let problem = format!("the inner arrays must be {inner:#04x}, not {found:#04x}");
            return Err(malformed(inner_at, problem));
        }
        let marker = self.shared_marker()?;
        let inner_count = self.cursor.unsigned(width)?;
        let outer_count = self.cursor.unsigned(width)?;
        self.open(at, Container::Array)?;
        for n in 0..outer_count {
            if n > 0 {
                self.text.raw(",")?;
            }
            self.numbers(at, marker, inner_count)?;
        }
        self.close(Container::Array)
    }

    /// The marker of all numbers of an array, and where it is.
    fn shared_marker(&mut self) -> Result<(usize, u8)> {
        let at = self.cursor.at();
        match self.cursor.byte()? {
            marker @ (0xCD..=0xCF | 0xD7..=0xDC) => Ok((at, marker)),
            other => {
                let problem = format!("{other:#04x} is no type of numbers that share a marker");
                Err(malformed(at, problem))
            }
        }
    }

    fn numbers(&mut self, at: usize, marker: (usize, u8), count: usize) -> Result<()> {
        self.open(at, Container::Array)?;
        for n in 0..count {
            if n > 0 {
                self.text.raw(",")?;
            }
            self.number(marker.0, marker.1)?;
        }
        self.close(Container::Array)
    }

    fn open(&mut self, at: usize, kind: Container) -> Result<()> {
        if self.depth == DEPTH_MAX {
            let problem = format!("arrays and objects are nested deeper than {DEPTH_MAX} levels");
            return Err(malformed(at, problem));
        }
        self.depth += 1;
        self.text.raw(match kind {
            Container::Array => "[",
            Container::Object => "{",
        })
    }

    fn close(&mut self, kind: Container) -> Result<()> {
        self.depth -= 1;
        self.text.raw(match kind {
            Container::Array => "]",
            Container::Object => "}",
        })
    }
}

/// Does a container say how many parts it has?
#[derive(Clone, Copy)]
enum Counted {
    Yes,
    No,
}

fn reserved(at: usize, marker: u8) -> crate::error::Error {
    malformed(at, format!("the marker {marker:#04x} is reserved"))
}
