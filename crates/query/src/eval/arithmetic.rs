//! Numbers: `+ - * / %` and the bit operators.
//!
//! Two exact integers stay exact while the result fits 64 bits, and become doubles when it does
//! not; division is exact only when nothing remains. Everything else is IEEE double arithmetic,
//! infinity and NaN included. Bit operators follow JavaScript: both sides become 32 bits first.

use partita_model::Number;

use crate::ir::{BinaryOperator, Expr};

/// Does a chain consist of arithmetic alone?
pub(super) fn is_arithmetic(chain: &[(BinaryOperator, Expr)]) -> bool {
    use BinaryOperator as Op;
    !chain.is_empty()
        && chain.iter().all(|(operator, _)| match operator {
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder => true,
            Op::BitAnd | Op::BitOr | Op::BitXor => true,
            Op::ShiftLeft | Op::ShiftRight | Op::ShiftRightUnsigned => true,
            Op::Or | Op::And | Op::Concat | Op::Equal | Op::NotEqual => false,
            Op::Less | Op::LessOrEqual | Op::Greater | Op::GreaterOrEqual => false,
        })
}

/// None if the operator is no arithmetic.
pub(super) fn binary(operator: BinaryOperator, left: Number, right: Number) -> Option<Number> {
    let exact = match (left, right) {
        (Number::Int(a), Number::Int(b)) => exact(operator, a, b),
        (Number::Int(_) | Number::Double(_), Number::Int(_) | Number::Double(_)) => None,
    };
    match exact {
        Some(integer) => Some(Number::Int(integer)),
        None => inexact(operator, left.as_f64(), right.as_f64()),
    }
}

pub(crate) fn negate(operand: Number) -> Number {
    match operand {
        Number::Int(integer) => {
            integer.checked_neg().map_or(Number::Double(-operand.as_f64()), Number::Int)
        }
        Number::Double(value) => Number::Double(-value),
    }
}

pub(super) fn bit_not(operand: f64) -> Number {
    integer(i64::from(!to_int32(operand)))
}

fn exact(operator: BinaryOperator, a: i64, b: i64) -> Option<i64> {
    match operator {
        BinaryOperator::Add => a.checked_add(b),
        BinaryOperator::Subtract => a.checked_sub(b),
        BinaryOperator::Multiply => a.checked_mul(b),
        BinaryOperator::Divide if a.checked_rem(b) == Some(0) => a.checked_div(b),
        BinaryOperator::Remainder => a.checked_rem(b),
        _ => None,
    }
}

fn inexact(operator: BinaryOperator, a: f64, b: f64) -> Option<Number> {
    let (left, right) = (to_int32(a), to_int32(b));
    // As in JavaScript, only the low five bits of a shift distance count.
    let distance = right.cast_unsigned() & 31;
    Some(match operator {
        BinaryOperator::Add => double(a + b),
        BinaryOperator::Subtract => double(a - b),
        BinaryOperator::Multiply => double(a * b),
        BinaryOperator::Divide => double(a / b),
        BinaryOperator::Remainder => double(a % b),
        BinaryOperator::BitAnd => integer(i64::from(left & right)),
        BinaryOperator::BitOr => integer(i64::from(left | right)),
        BinaryOperator::BitXor => integer(i64::from(left ^ right)),
        BinaryOperator::ShiftLeft => integer(i64::from(left.wrapping_shl(distance))),
        BinaryOperator::ShiftRight => integer(i64::from(left.wrapping_shr(distance))),
        BinaryOperator::ShiftRightUnsigned => {
            integer(i64::from(left.cast_unsigned().wrapping_shr(distance)))
        }
        _ => return None,
    })
}

fn double(value: f64) -> Number {
    Number::Double(value)
}

fn integer(value: i64) -> Number {
    Number::Int(value)
}

/// JavaScript's ToInt32: truncate, then keep the low 32 bits; NaN and infinity are 0.
fn to_int32(value: f64) -> i32 {
    if !value.is_finite() {
        return 0;
    }
    let low = value.trunc().rem_euclid(4_294_967_296.0);
    // Between 0 and 2^32 after the line above, so the cast loses nothing.
    (low as u32).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_to_32_bits_as_in_javascript() {
        for (value, expected) in [
            (0.0, 0),
            (3.7, 3),
            (-3.7, -3),
            (2_147_483_648.0, i32::MIN),
            (4_294_967_297.0, 1),
            (-4_294_967_297.0, -1),
            (f64::NAN, 0),
            (f64::INFINITY, 0),
        ] {
            assert_eq!(to_int32(value), expected, "{value}");
        }
    }

    #[test]
    fn integers_stay_exact_until_they_overflow() {
        let add = |a, b| binary(BinaryOperator::Add, integer(a), integer(b)).unwrap();
        assert_eq!(add(9_007_199_254_740_993, 1), integer(9_007_199_254_740_994));
        assert_eq!(add(i64::MAX, 1).as_f64(), 9_223_372_036_854_775_808.0);
    }
}
