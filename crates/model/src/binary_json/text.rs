//! The JSON text in the making, which never grows much beyond what an item may have.

use super::numbers::Literal;
use crate::error::{Error, Result};
use crate::json::write::{write_number, write_string};
use crate::limits::ITEM_BYTES_MAX;
use crate::value::Number;

#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Appends a piece that is JSON already.
    pub(super) fn raw(&mut self, piece: &str) -> Result<()> {
        self.0.push_str(piece);
        self.check(0)
    }

    /// Appends a string literal.
    pub(super) fn string(&mut self, string: &str) -> Result<()> {
        // Before it is copied as well as after: a string may be long, and mean itself many times.
        self.check(string.len())?;
        write_string(&mut self.0, string);
        self.check(0)
    }

    /// Appends a number literal.
    pub(super) fn number(&mut self, literal: Literal) -> Result<()> {
        match literal {
            Literal::Int(int) => write_number(&mut self.0, Number::Int(int)),
            Literal::Unsigned(int) => self.0.push_str(&int.to_string()),
            Literal::Double(double) => write_number(&mut self.0, Number::Double(double)),
        }
        self.check(0)
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn check(&self, more: usize) -> Result<()> {
        if self.0.len() + more > ITEM_BYTES_MAX {
            return Err(Error::too_large(format!(
                "Request size is too large: as JSON text, this binary JSON is longer than \
                 {ITEM_BYTES_MAX} bytes, the limit of an item"
            )));
        }
        Ok(())
    }
}
