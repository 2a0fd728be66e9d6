//! A place in a body of binary JSON, from which nothing is read that is not there.

use crate::error::{Error, Result};

/// A body, the next byte to read, and the end of the innermost container that is being read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
    end: usize,
}

/// The end of a container, to be put back when one inside it was read.
pub(super) struct Outer(usize);

impl<'a> Cursor<'a> {
    pub(super) fn new(body: &'a [u8]) -> Cursor<'a> {
        Cursor { body, at: 0, end: body.len() }
    }

    /// The position, counted from 0.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes there are up to the end.
    pub(super) fn left(&self) -> usize {
        self.end - self.at
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes were taken"))
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        self.check(count)?;
        let end = self.at + count;
        let bytes = self.body.get(self.at..end).expect("the end is never beyond the body");
        self.at = end;
        Ok(bytes)
    }

    /// An unsigned number of 1 to 4 bytes.
    pub(super) fn unsigned(&mut self, width: usize) -> Result<usize> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Ends the reading so many bytes from here, until [`widen`](Cursor::widen).
    pub(super) fn narrow(&mut self, count: usize) -> Result<Outer> {
        self.check(count)?;
        let outer = Outer(self.end);
        self.end = self.at + count;
        Ok(outer)
    }

    pub(super) fn widen(&mut self, outer: Outer) {
        self.end = outer.0;
    }

    /// Another cursor over a part of what was read already.
    pub(super) fn between(&self, at: usize, end: usize) -> Cursor<'a> {
        let end = end.min(self.at);
        Cursor { body: self.body, at: at.min(end), end }
    }

    fn check(&self, count: usize) -> Result<()> {
        match self.left() {
            left if left < count => {
                let problem = format!("expected {count} more bytes, found {left}");
                Err(malformed(self.at, problem))
            }
            _ => Ok(()),
        }
    }
}

/// The error for a body that is not what it should be at this byte.
pub(super) fn malformed(at: usize, problem: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("invalid binary JSON: {problem} (byte {at})"))
}
