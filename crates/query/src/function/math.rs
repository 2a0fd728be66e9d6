//! Mathematics: numbers in, a number out, by the rules of IEEE 754.
//!
//! Integers stay exact where a function keeps them whole. What has no finite answer is NaN or an
//! infinity, which are numbers of the language; only a wrong type is undefined.

use super::arguments::{Arguments, double, int};
use crate::cell::Cell;
use crate::scope::Scope;
use partita_model::{Number, Result};

fn of_double<'a>(arguments: &Arguments<'a>, compute: fn(f64) -> f64) -> Option<Cell<'a>> {
    Some(double(compute(arguments.double(0)?)))
}

/// For functions that leave whole numbers as they are.
fn of_fraction<'a>(arguments: &Arguments<'a>, compute: fn(f64) -> f64) -> Option<Cell<'a>> {
    Some(match arguments.number(0)? {
        Number::Int(whole) => int(whole),
        Number::Double(fraction) => double(compute(fraction)),
    })
}

pub(super) fn abs<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(match arguments.number(0)? {
        Number::Int(whole) => match whole.checked_abs() {
            Some(positive) => int(positive),
            None => double((whole as f64).abs()),
        },
        Number::Double(fraction) => double(fraction.abs()),
    })
}

pub(super) fn acos<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::acos)
}

pub(super) fn asin<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::asin)
}

pub(super) fn atan<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::atan)
}

/// `ATN2(y, x)`
pub(super) fn atn2<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(double(arguments.double(0)?.atan2(arguments.double(1)?)))
}

pub(super) fn ceiling<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_fraction(arguments, f64::ceil)
}

pub(super) fn cos<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::cos)
}

pub(super) fn cot<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, |angle| 1.0 / angle.tan())
}

pub(super) fn degrees<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, |angle| angle * 180.0 / std::f64::consts::PI)
}

pub(super) fn exp<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::exp)
}

pub(super) fn floor<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_fraction(arguments, f64::floor)
}

/// `LOG(number [, base])`
pub(super) fn log<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let number = arguments.double(0)?;
    if !arguments.is_written(1) {
        return Some(double(number.ln()));
    }
    let base = arguments.double(1)?;
    // The quotient of two rounded logarithms misses the last digit of common ones.
    Some(double(match base {
        10.0 => number.log10(),
        2.0 => number.log2(),
        _ => number.ln() / base.ln(),
    }))
}

pub(super) fn log10<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::log10)
}

pub(super) fn pi<'a>(_arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(double(std::f64::consts::PI))
}

pub(super) fn power<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(double(arguments.double(0)?.powf(arguments.double(1)?)))
}

pub(super) fn radians<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, |angle| angle * std::f64::consts::PI / 180.0)
}

pub(super) fn rand<'a>(_arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    Ok(Some(double(scope.random_f64())))
}

/// To the nearest whole number; halves go away from zero.
pub(super) fn round<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_fraction(arguments, f64::round)
}

pub(super) fn sign<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(match arguments.number(0)? {
        Number::Int(whole) => int(whole.signum()),
        Number::Double(fraction) => match fraction.partial_cmp(&0.0) {
            Some(order) => int(order as i64),
            None => double(fraction),
        },
    })
}

pub(super) fn sin<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::sin)
}

pub(super) fn sqrt<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::sqrt)
}

pub(super) fn square<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, |number| number * number)
}

pub(super) fn tan<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_double(arguments, f64::tan)
}

pub(super) fn trunc<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    of_fraction(arguments, f64::trunc)
}

/// `NUMBERBIN(number [, size])`: the largest multiple of the size that is not above the number.
pub(super) fn number_bin<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let number = arguments.number(0)?;
    let size = if arguments.is_written(1) { arguments.number(1)? } else { Number::Int(1) };
    if size.as_f64() == 0.0 {
        return None;
    }
    if let (Number::Int(number), Number::Int(size)) = (number, size)
        && let Some(below) = number.checked_rem_euclid(size)
        && size > 0
    {
        return number.checked_sub(below).map(int);
    }
    let (number, size) = (number.as_f64(), size.as_f64());
    Some(double(with_decimals_of(size, (number / size).floor() * size)))
}

/// The value rounded to as many decimals as the size has when it is written: a multiple of 0.1 has
/// one, though the product may have sixteen.
fn with_decimals_of(size: f64, value: f64) -> f64 {
    let written = size.to_string();
    let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};

    #[test]
    fn whole_numbers_stay_exact() {
        expect(&[
            ("ABS -5", "5"),
            ("ABS min", "9.223372036854776e18"),
            ("ABS -5.5", "5.5"),
            ("CEILING 1.2", "2"),
            ("CEILING 9007199254740993", "9007199254740993"),
            ("FLOOR -1.2", "-2"),
            ("ROUND 4840904997601420", "4840904997601420"),
            ("ROUND 2.5", "3"),
            ("ROUND -2.5", "-3"),
            ("ROUND 0.5", "1"),
            ("ROUND 0.49999999999999994", "0"),
            ("TRUNC -2.7", "-2"),
            ("SIGN -2.7", "-1"),
            ("SIGN 0.0", "0"),
            ("SIGN Infinity", "1"),
            ("SIGN NaN", "NaN"),
            ("SQUARE 3", "9"),
        ]);
    }

    #[test]
    fn results_may_be_no_finite_numbers_but_never_guesses() {
        expect(&[
            ("SQRT -1", "NaN"),
            ("LOG 0", "-inf"),
            ("LOG10 1000", "3"),
            ("LOG 100 10", "2"),
            ("LOG 2 10", "0.3010299956639812"),
            ("LOG 8 2", "3"),
            ("LOG 9 3", "2"),
            ("LOG 9 1", "inf"),
            ("LOG 100 undefined", "undefined"),
            ("EXP 1", "2.718281828459045"),
            ("POWER 2 10", "1024"),
            ("POWER 2 \"10\"", "undefined"),
            ("PI", "3.141592653589793"),
            ("DEGREES 3.141592653589793", "180"),
            ("RADIANS 180", "3.141592653589793"),
            ("ATN2 35.175643 129.44", "0.265344532064832"),
            ("COS \"0\"", "undefined"),
            ("COS undefined", "undefined"),
            ("COT 1", "0.6420926159343306"),
        ]);
    }

    #[test]
    fn bins_have_the_decimals_of_their_size() {
        expect(&[
            ("NUMBERBIN 37.752 -100", "100"),
            ("NUMBERBIN 37.752 10", "30"),
            ("NUMBERBIN 37.752 1", "37"),
            ("NUMBERBIN 37.752", "37"),
            ("NUMBERBIN 37.752 0", "undefined"),
            ("NUMBERBIN 37.752 0.1", "37.7"),
            ("NUMBERBIN 37.752 0.01", "37.75"),
            ("NUMBERBIN -37 10", "-40"),
            ("NUMBERBIN 9007199254740993 1", "9007199254740993"),
            ("NUMBERBIN 9007199254740993 10", "9007199254740990"),
            ("NUMBERBIN min 10", "undefined"),
            ("NUMBERBIN 7 NaN", "NaN"),
            ("NUMBERBIN 7 null", "undefined"),
        ]);
    }

    #[test]
    fn random_numbers_lie_between_zero_and_one() {
        let number: f64 = call("RAND").parse().unwrap();
        assert!((0.0..1.0).contains(&number), "{number}");
    }
}
