//! Numbers as the service's planner prints them into a query.
//!
//! Integers keep all their digits. A double has 15 significant digits if it can be read back from
//! them, else 17, in the style of C's `%g`: trailing zeros dropped, an exponent where the number is
//! very small or very large.

use partita_model::Number;

pub(crate) fn write(out: &mut String, number: Number) {
    match number {
        Number::Int(int) => out.push_str(&int.to_string()),
        Number::Double(double) => write_double(out, double),
    }
}

fn write_double(out: &mut String, double: f64) {
    if double.is_nan() {
        return out.push_str("NaN");
    }
    if double.is_infinite() {
        return out.push_str(if double > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if double == 0.0 && double.is_sign_negative() {
        // As `-0` it would be read back as the integer, which has no sign.
        return out.push_str("-0.0");
    }
    let short = general(double, 15);
    match short.parse::<f64>() {
        Ok(read) if read == double => out.push_str(&short),
        _ => out.push_str(&general(double, 17)),
    }
}

/// C's `%.{digits}g`.
fn general(double: f64, digits: usize) -> String {
    let scientific = format!("{double:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let precision = i32::try_from(digits).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= precision {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(precision - 1 - exponent).unwrap_or_default();
    without_zeros(&format!("{double:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
