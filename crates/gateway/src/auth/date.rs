//! The date of a signature: RFC 1123, in any case.
//!
//! Some SDKs send the date in lower case, exactly as they signed it, which strict HTTP date parsers
//! refuse. The fixed 29-character form is read here; the two obsolete forms that HTTP still allows
//! are left to `httpdate`.

use std::time::UNIX_EPOCH;

/// Seconds since 1970 for an HTTP date; None if it is none, or lies before 1970.
pub fn parse_http_date(text: &str) -> Option<u64> {
    if let Ok(bytes) = <&[u8; 29]>::try_from(text.as_bytes()) {
        return parse_fixed(bytes);
    }
    let time = httpdate::parse_http_date(text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

const WEEKDAYS: [&[u8; 3]; 7] = [b"thu", b"fri", b"sat", b"sun", b"mon", b"tue", b"wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// `Thu, 27 Apr 2017 00:51:12 GMT`
fn parse_fixed(text: &[u8; 29]) -> Option<u64> {
    let [w1, w2, w3, b',', b' ', d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', rest @ ..] =
        text.map(|byte| byte.to_ascii_lowercase())
    else {
        return None;
    };
    let [h1, h2, b':', n1, n2, b':', s1, s2, b' ', b'g', b'm', b't'] = rest else { return None };
    let weekday = WEEKDAYS.iter().position(|name| **name == [w1, w2, w3])?;
    let month = MONTHS.iter().position(|name| **name == [m1, m2, m3])?;
    let (day, year) = (digits(&[d1, d2])?, digits(&[y1, y2, y3, y4])?);
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?);
    // Second 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 || year < 1970 {
        return None;
    }
    if day == 0 || day > days_of_month(year, month) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    // 1 January 1970 was a Thursday, the first of our weekdays.
    if days % 7 != weekday as u64 {
        return None;
    }
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number * 10 + digit)
    })
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// `month` counts from 0.
fn days_of_month(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: u64, month: usize, day: u64) -> u64 {
    /// Days of a common year before each month.
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // Leap days of all years before this one, less those before 1970.
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400 - 477;
    let months = BEFORE.get(month).copied().unwrap_or(0) + u64::from(month > 1 && is_leap(year));
    (year - 1970) * 365 + leap_days + months + day - 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_common_form_is_read_in_any_case() {
        assert_eq!(parse_http_date("Thu, 27 Apr 2017 00:51:12 GMT"), Some(1_493_254_272));
        assert_eq!(parse_http_date("thu, 27 apr 2017 00:51:12 gmt"), Some(1_493_254_272));
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    }

    #[test]
    fn it_agrees_with_httpdate_over_four_centuries() {
        let mut seconds = 0;
        while seconds < 400 * 366 * 86_400 {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(parse_http_date(&text), Some(seconds), "{text}");
            seconds += 86_400 * 5 + 12_345;
        }
    }

    #[test]
    fn the_obsolete_forms_are_read() {
        assert_eq!(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(parse_http_date("Sun Nov  6 08:49:37 1994"), Some(784_111_777));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "now",
            "Fri, 27 Apr 2017 00:51:12 GMT",
            "Thu, 31 Apr 2017 00:51:12 GMT",
            "Thu, 00 Apr 2017 00:51:12 GMT",
            "Thu, 27 Apr 2017 24:51:12 GMT",
            "Thu, 27 Apr 2017 00:51:12 CET",
            "Thu, 27 Apr 1917 00:51:12 GMT",
            "Thu, 2x Apr 2017 00:51:12 GMT",
            "2017-04-27T00:51:12Z",
        ] {
            assert_eq!(parse_http_date(text), None, "{text:?}");
        }
    }
}
