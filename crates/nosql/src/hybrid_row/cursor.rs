//! A place in a stream or in one of its rows, from which nothing is read that is not there.

use partita_model::{Error, Result};

use super::VERSION;

/// What is left to read, and where that is in the body, for errors.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { rest, at }
    }

    /// The position in the body, counted from 0.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            let problem = format!("expected {count} more bytes, found {}", self.rest.len());
            return Err(malformed(self.at, problem));
        };
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes were taken"))
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn int32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// A length in four bytes.
    pub(super) fn length(&mut self) -> Result<usize> {
        let at = self.at;
        let length = self.int32()?;
        usize::try_from(length).map_err(|_| malformed(at, format!("{length} is no length")))
    }

    /// A number in seven bits a byte.
    pub(super) fn varuint(&mut self) -> Result<usize> {
        let at = self.at;
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7F);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).map_err(|_| malformed(at, "a number is too large"));
            }
        }
        Err(malformed(at, "a number is too large"))
    }

    /// Bytes with their length before them.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varuint()?;
        self.take(length)
    }

    /// Text with its length before it.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        let start = self.at - bytes.len();
        std::str::from_utf8(bytes)
            .map_err(|error| malformed(start + error.valid_up_to(), "invalid UTF-8 in a text"))
    }

    /// Steps over the beginning of a row, which must have this schema.
    pub(super) fn header(&mut self, schema: i32, what: &str) -> Result<()> {
        let at = self.at;
        let found = self.schema()?;
        if found != schema {
            return Err(malformed(
                at,
                format!("expected {what}, found the unknown schema {found}"),
            ));
        }
        Ok(())
    }

    /// The schema of the row that begins here.
    pub(super) fn peek_schema(&self) -> Result<i32> {
        self.clone().schema()
    }

    fn schema(&mut self) -> Result<i32> {
        let at = self.at;
        match self.byte()? {
            VERSION => self.int32(),
            other => {
                let problem = format!("expected a row ({VERSION:#04x}), found {other:#04x}");
                Err(malformed(at, problem))
            }
        }
    }
}

/// The error for a body that is not what it should be at this byte.
pub(super) fn malformed(at: usize, problem: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("The batch is no valid HybridRow: {problem} (byte {at})."))
}
