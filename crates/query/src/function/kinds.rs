//! What a value is (`IS_…`), and choosing between values (`IIF`, `CHOOSE`).
//!
//! Questions about a value have an answer for undefined too: it is none of the types.

use super::arguments::Arguments;
use crate::cell::{Cell, Kind};

fn test<'a>(arguments: &Arguments<'a>, holds: fn(&Cell<'a>) -> bool) -> Option<Cell<'a>> {
    Some(Cell::Bool(arguments.get(0).is_some_and(holds)))
}

pub(super) fn is_array<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::Array)
}

pub(super) fn is_bool<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::Bool)
}

pub(super) fn is_defined<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |_| true)
}

pub(super) fn is_finite_number<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.as_f64().is_some_and(f64::is_finite))
}

/// A whole number inside the range of 64 bits.
pub(super) fn is_integer<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.as_number().and_then(|number| number.as_i64()).is_some())
}

pub(super) fn is_null<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::Null)
}

pub(super) fn is_number<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::Number)
}

pub(super) fn is_object<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::Object)
}

pub(super) fn is_primitive<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() < Kind::Array)
}

pub(super) fn is_string<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    test(arguments, |cell| cell.kind() == Kind::String)
}

/// `CHOOSE(index, first, second, …)`, the index counted from 1.
pub(super) fn choose<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let index = usize::try_from(arguments.integer(0)?).ok().filter(|index| *index > 0)?;
    arguments.take(index)
}

/// `IIF(condition, then, otherwise)`: whatever is not true chooses the last.
pub(super) fn iif<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let holds = arguments.get(0).and_then(Cell::as_bool) == Some(true);
    arguments.take(if holds { 1 } else { 2 })
}
