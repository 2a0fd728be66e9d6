//! Arithmetic and bits of 64-bit integers.
//!
//! Arguments are numbers that are exactly such integers; a fraction or a number out of range makes
//! the result undefined. What overflows wraps around.

use super::arguments::{Arguments, int};
use crate::cell::Cell;

fn of_two<'a>(arguments: &Arguments<'a>, compute: fn(i64, i64) -> i64) -> Option<Cell<'a>> {
    Some(int(compute(arguments.integer(0)?, arguments.integer(1)?)))
}

pub(super) fn add<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, i64::wrapping_add)
}

pub(super) fn subtract<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, i64::wrapping_sub)
}

pub(super) fn multiply<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, i64::wrapping_mul)
}

/// Towards zero; undefined by zero.
pub(super) fn divide<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let by = arguments.integer(1).filter(|by| *by != 0)?;
    Some(int(arguments.integer(0)?.wrapping_div(by)))
}

/// With the sign of the dividend; undefined by zero.
pub(super) fn remainder<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let by = arguments.integer(1).filter(|by| *by != 0)?;
    Some(int(arguments.integer(0)?.wrapping_rem(by)))
}

pub(super) fn bit_and<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, |a, b| a & b)
}

pub(super) fn bit_or<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, |a, b| a | b)
}

pub(super) fn bit_xor<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, |a, b| a ^ b)
}

pub(super) fn bit_not<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(!arguments.integer(0)?))
}

/// Only the lower six bits of the distance count, as in C#.
pub(super) fn left_shift<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, |bits, distance| bits.wrapping_shl(distance as u32))
}

/// Keeps the sign.
pub(super) fn right_shift<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_two(arguments, |bits, distance| bits.wrapping_shr(distance as u32))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::expect;

    #[test]
    fn integers_are_computed_exactly_and_wrap_around() {
        expect(&[
            ("INTADD 9007199254740993 1", "9007199254740994"),
            ("INTADD 9223372036854775807 1", "-9223372036854775808"),
            ("INTADD 1.0 2", "3"),
            ("INTADD 1.5 2", "undefined"),
            ("INTADD 1e30 2", "undefined"),
            ("INTADD \"1\" 2", "undefined"),
            ("INTADD undefined 2", "undefined"),
            ("INTSUB 5 7", "-2"),
            ("INTMUL 5 -7", "-35"),
            ("INTMULTIPLY 5 -7", "-35"),
            ("INTDIV -7 2", "-3"),
            ("INTDIV 7 0", "undefined"),
            ("INTDIV min -1", "-9223372036854775808"),
            ("INTMOD -7 2", "-1"),
            ("INTMOD 7 0", "undefined"),
            ("INTMOD min -1", "0"),
        ]);
    }

    #[test]
    fn bits_are_those_of_sixty_four() {
        expect(&[
            ("INTBITAND 15 25", "9"),
            ("INTBITOR 56 100", "124"),
            ("INTBITXOR 56 100", "92"),
            ("INTBITXOR 56 0.1", "undefined"),
            ("INTBITNOT 65", "-66"),
            ("IntBitwiseNot 0", "-1"),
            ("INTBITLEFTSHIFT 16 4", "256"),
            ("INTBITLEFTSHIFT 1 40", "1099511627776"),
            ("INTBITLEFTSHIFT 1 64", "1"),
            ("INTBITRIGHTSHIFT 16 4", "1"),
            ("INTBITRIGHTSHIFT -16 2", "-4"),
        ]);
    }
}
