//! The evaluated arguments of one call, read by position and type.
//!
//! Every reader answers None for an argument that is missing, undefined or of another type, which
//! is just what makes the result of nearly every function undefined.

use crate::cell::Cell;
use partita_model::Number;
use std::borrow::Cow;

/// Evaluated arguments; `None` is undefined.
pub(super) struct Arguments<'a>(Vec<Option<Cell<'a>>>);

impl<'a> Arguments<'a> {
    pub(super) fn new(arguments: Vec<Option<Cell<'a>>>) -> Arguments<'a> {
        Arguments(arguments)
    }

    /// Was this one written, be it undefined?
    pub(super) fn is_written(&self, at: usize) -> bool {
        at < self.0.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Cell<'a>> {
        self.0.get(at)?.as_ref()
    }

    /// The argument itself, which is undefined from now on.
    pub(super) fn take(&mut self, at: usize) -> Option<Cell<'a>> {
        self.0.get_mut(at)?.take()
    }

    /// All from this position on.
    pub(super) fn from(&self, at: usize) -> impl Iterator<Item = Option<&Cell<'a>>> {
        self.0.iter().skip(at).map(Option::as_ref)
    }

    pub(super) fn text(&self, at: usize) -> Option<&str> {
        self.get(at)?.as_str()
    }

    pub(super) fn number(&self, at: usize) -> Option<Number> {
        self.get(at)?.as_number()
    }

    pub(super) fn double(&self, at: usize) -> Option<f64> {
        self.get(at)?.as_f64()
    }

    /// A number that is exactly an integer.
    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        self.number(at)?.as_i64()
    }

    /// A number without a fraction; one beyond all integers counts as the outermost.
    pub(super) fn whole(&self, at: usize) -> Option<i64> {
        match self.number(at)? {
            Number::Int(int) => Some(int),
            Number::Double(double) => (double.fract() == 0.0).then_some(double as i64),
        }
    }

    /// A string, to keep or to cut.
    pub(super) fn take_text(&mut self, at: usize) -> Option<Cow<'a, str>> {
        match self.take(at)? {
            Cell::String(text) => Some(text),
            _ => None,
        }
    }

    /// A boolean that need not be written, and is false then.
    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        if self.is_written(at) { self.get(at)?.as_bool() } else { Some(false) }
    }
}

/// A number of the language, of an integer.
pub(super) fn int<'a>(value: i64) -> Cell<'a> {
    Cell::Number(Number::Int(value))
}

/// A number of the language, of a length or position.
pub(super) fn count<'a>(value: usize) -> Cell<'a> {
    int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A number of the language, of a double.
pub(super) fn double<'a>(value: f64) -> Cell<'a> {
    Cell::Number(Number::Double(value))
}
