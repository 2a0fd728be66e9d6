//! Date and time, as strings of ISO 8601, as ticks of 100 ns and as milliseconds since 1970.
//!
//! A string that is no moment, a part that does not exist or a number that is not whole make the
//! result undefined, and so does a moment outside the years 1601 to 9999, given or computed. The
//! clock is the scope's.

mod calendar;
mod format;

use super::arguments::{Arguments, double, int};
use crate::cell::Cell;
use crate::scope::Scope;
use calendar::{Fields, Moment, Part, TICKS_PER_MILLISECOND};
use partita_model::Result;
use std::borrow::Cow;

/// 1601-01-01, where the service's time begins: what is earlier is undefined.
const TICKS_1601: i64 = -116_444_736_000_000_000;

fn moment(arguments: &Arguments<'_>, at: usize) -> Option<Moment> {
    Moment::parse(arguments.text(at)?).and_then(in_time)
}

fn in_time(moment: Moment) -> Option<Moment> {
    (moment.ticks() >= TICKS_1601).then_some(moment)
}

fn part_name(arguments: &Arguments<'_>, at: usize) -> Option<Part> {
    Part::by_name(arguments.text(at)?)
}

fn shown<'a>(moment: Moment) -> Option<Cell<'a>> {
    in_time(moment).map(|moment| Cell::String(Cow::Owned(moment.to_string())))
}

/// A date of the year 1500 is one, though nothing can be computed with it.
pub(super) fn is_date_time<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let is_moment = arguments.text(0).is_some_and(|text| Moment::parse(text).is_some());
    Some(Cell::Bool(is_moment))
}

/// `DATETIMEADD(part, number, moment)`
pub(super) fn add<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let (part, number) = (part_name(arguments, 0)?, arguments.integer(1)?);
    moment(arguments, 2)?.plus(part, number).and_then(shown)
}

/// `DATETIMEDIFF(part, start, end)`
pub(super) fn difference<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let part = part_name(arguments, 0)?;
    let boundaries = moment(arguments, 1)?.boundaries_to(moment(arguments, 2)?, part);
    // Nanoseconds of centuries do not fit an integer.
    Some(i64::try_from(boundaries).map_or_else(|_| double(boundaries as f64), int))
}

/// `DATETIMEPART(part, moment)`
pub(super) fn part<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let part = part_name(arguments, 0)?;
    Some(int(moment(arguments, 1)?.fields().part(part)))
}

pub(super) fn year<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(moment(arguments, 0)?.fields().year))
}

pub(super) fn month<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(moment(arguments, 0)?.fields().month))
}

pub(super) fn day<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(moment(arguments, 0)?.fields().day))
}

/// `DATETIMEBIN(moment, part [, size [, origin]])`
pub(super) fn bin<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let (moment_, part) = (moment(arguments, 0)?, part_name(arguments, 1)?);
    let size = if arguments.is_written(2) { arguments.integer(2)? } else { 1 };
    let origin = if arguments.is_written(3) { moment(arguments, 3)? } else { Moment::of_ticks(0)? };
    if size <= 0 {
        return None;
    }
    moment_.binned(part, size, origin).and_then(shown)
}

/// `DATETIMEFROMPARTS(year, month, day [, hour, minute, second, ticks])`
pub(super) fn from_parts<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let number = |at| if arguments.is_written(at) { arguments.integer(at) } else { Some(0) };
    let fields = Fields {
        year: number(0)?,
        month: number(1)?,
        day: number(2)?,
        hour: number(3)?,
        minute: number(4)?,
        second: number(5)?,
        fraction: number(6)?,
    };
    fields.moment().and_then(shown)
}

/// `DATETIMEFORMAT(moment, format)`
pub(super) fn format<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let Some((moment, format)) = moment(arguments, 0).zip(arguments.text(1)) else {
        return Ok(None);
    };
    // One letter may become a year of four digits, or one digit of it.
    scope.reserve(format.len().saturating_mul(4))?;
    let text = format::format(&moment.fields(), format)?;
    Ok(Some(Cell::String(Cow::Owned(text))))
}

pub(super) fn to_ticks<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(moment(arguments, 0)?.ticks()))
}

pub(super) fn to_timestamp<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Some(int(moment(arguments, 0)?.ticks().div_euclid(TICKS_PER_MILLISECOND)))
}

pub(super) fn of_ticks<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    Moment::of_ticks(arguments.integer(0)?).and_then(shown)
}

pub(super) fn of_timestamp<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let ticks = arguments.integer(0)?.checked_mul(TICKS_PER_MILLISECOND)?;
    Moment::of_ticks(ticks).and_then(shown)
}

fn clock(ticks: u64) -> Option<Moment> {
    Moment::of_ticks(i64::try_from(ticks).ok()?)
}

pub(super) fn current<'a>(_: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.now_ticks).and_then(shown))
}

pub(super) fn current_static<'a>(_: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.static_now_ticks).and_then(shown))
}

pub(super) fn current_ticks<'a>(_: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.now_ticks).map(|now| int(now.ticks())))
}

pub(super) fn current_ticks_static<'a>(
    _: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.static_now_ticks).map(|now| int(now.ticks())))
}

pub(super) fn current_timestamp<'a>(
    _: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.now_ticks).map(|now| int(now.ticks() / TICKS_PER_MILLISECOND)))
}

pub(super) fn current_timestamp_static<'a>(
    _: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    Ok(clock(scope.static_now_ticks).map(|now| int(now.ticks() / TICKS_PER_MILLISECOND)))
}

/// `NOW([part, number])`: so much later than now.
pub(super) fn now<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    if !arguments.is_written(0) {
        return current(arguments, scope);
    }
    let span = part_name(arguments, 0).zip(arguments.integer(1));
    Ok(from_now(scope, span))
}

/// `AGO(part, number)`: so much earlier than now.
pub(super) fn ago<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    let number = arguments.integer(1).and_then(i64::checked_neg);
    Ok(from_now(scope, part_name(arguments, 0).zip(number)))
}

fn from_now<'a>(scope: &Scope, span: Option<(Part, i64)>) -> Option<Cell<'a>> {
    let (part, number) = span?;
    clock(scope.now_ticks)?.plus(part, number).and_then(shown)
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};

    #[test]
    fn adding_clamps_the_day_and_stays_in_the_calendar() {
        expect(&[
            (r#"DATETIMEADD "mm" 1 "2020-01-31""#, r#""2020-02-29T00:00:00.0000000Z""#),
            (r#"DATETIMEADD "YYYY" -1 "2020-02-29""#, r#""2019-02-28T00:00:00.0000000Z""#),
            (r#"DATETIMEADD "m" -13 "2020-01-31""#, r#""2018-12-31T00:00:00.0000000Z""#),
            (r#"DATETIMEADD "ss" -25 "2020-07-03""#, r#""2020-07-02T23:59:35.0000000Z""#),
            (r#"DATETIMEADD "ns" 199 "2020-07-03""#, r#""2020-07-03T00:00:00.0000001Z""#),
            (r#"DATETIMEADD "ns" -99 "2020-07-03""#, r#""2020-07-03T00:00:00.0000000Z""#),
            (r#"DATETIMEADD "mcs" 1 "2020-07-03""#, r#""2020-07-03T00:00:00.0000010Z""#),
            (r#"DATETIMEADD "ss" 1.5 "2020-07-03""#, "undefined"),
            (r#"DATETIMEADD "ww" 1 "2020-07-03""#, "undefined"),
            (r#"DATETIMEADD "yyyy" 9000 "2020-07-03""#, "undefined"),
            (r#"DATETIMEADD "yyyy" 9223372036854775807 "2020-07-03""#, "undefined"),
            (r#"DATETIMEADD "dd" 9223372036854775807 "2020-07-03""#, "undefined"),
            (r#"DATETIMEADD "dd" 1 "2020-7-3""#, "undefined"),
            (r#"DATETIMEADD "dd" 1 undefined"#, "undefined"),
        ]);
    }

    #[test]
    fn differences_count_boundaries() {
        let (a, b) = (r#""2018-03-05T05:00:00""#, r#""2019-02-04T16:00:00""#);
        for (part, expected) in
            [("yyyy", 1), ("mm", 11), ("dd", 336), ("hh", 8075), ("ss", 29_070_000)]
        {
            assert_eq!(call(&format!(r#"DATETIMEDIFF "{part}" {a} {b}"#)), expected.to_string());
            let back = call(&format!(r#"DATETIMEDIFF "{part}" {b} {a}"#));
            assert_eq!(back, (-expected).to_string());
        }
        expect(&[
            (r#"DATETIMEDIFF "yyyy" "2019-12-31T23:59:59.9999999Z" "2020-01-01""#, "1"),
            (r#"DATETIMEDIFF "ss" "2020-01-01T00:00:00.9" "2020-01-01T00:00:01.0""#, "1"),
            (r#"DATETIMEDIFF "ns" "2020-01-01" "2020-01-01T00:00:00.0000001""#, "100"),
            (r#"DATETIMEDIFF "dd" "1969-12-31T23:00:00" "1970-01-01""#, "1"),
            (r#"DATETIMEDIFF "dd" "2020-01-01" "x""#, "undefined"),
        ]);
        let long = call(r#"DATETIMEDIFF "ns" "1601-01-01" "9999-12-31""#);
        assert_eq!(long, "2.65046688e20");
    }

    #[test]
    fn parts_are_numbers() {
        let moment = r#""2016-05-29T08:30:00.1301617""#;
        for (part, expected) in [
            ("year", 2016),
            ("month", 5),
            ("d", 29),
            ("hour", 8),
            ("n", 30),
            ("s", 0),
            ("ms", 130),
            ("mcs", 130_161),
            ("ns", 130_161_700),
        ] {
            let found = call(&format!(r#"DATETIMEPART "{part}" {moment}"#));
            assert_eq!(found, expected.to_string(), "{part}");
        }
        expect(&[
            (r#"YEAR "2016-05-29""#, "2016"),
            (r#"MONTH "2016-05-29""#, "5"),
            (r#"DAY "2016-05-29""#, "29"),
            (r#"DAY "2016-05-32""#, "undefined"),
            ("DAY 5", "undefined"),
            (r#"IS_DATETIME "2016-05-29""#, "true"),
            (r#"IS_DATETIME undefined"#, "false"),
            (r#"IS_DATETIME 5"#, "false"),
        ]);
    }

    #[test]
    fn bins_begin_at_multiples_from_the_origin() {
        expect(&[
            (r#"DATETIMEBIN "2021-01-08T18:35:00" "dd""#, r#""2021-01-08T00:00:00.0000000Z""#),
            (r#"DATETIMEBIN "2021-01-08T18:35:00" "hh" 5"#, r#""2021-01-08T15:00:00.0000000Z""#),
            (r#"DATETIMEBIN "2021-01-08T18:35:00" "dd" 7"#, r#""2021-01-07T00:00:00.0000000Z""#),
            (
                r#"DATETIMEBIN "2021-01-08T18:35:00" "dd" 7 "1601-01-01T00:00:00""#,
                r#""2021-01-04T00:00:00.0000000Z""#,
            ),
            (r#"DATETIMEBIN "2021-05-08" "mm" 3"#, r#""2021-04-01T00:00:00.0000000Z""#),
            (r#"DATETIMEBIN "2021-05-08" "yyyy" 10"#, r#""2020-01-01T00:00:00.0000000Z""#),
            (
                r#"DATETIMEBIN "2021-05-08" "mm" 1 "2021-01-15""#,
                r#""2021-04-15T00:00:00.0000000Z""#,
            ),
            (r#"DATETIMEBIN "1969-12-31" "mm" 5"#, r#""1969-08-01T00:00:00.0000000Z""#),
            (r#"DATETIMEBIN "2021-01-08" "dd" 0"#, "undefined"),
            (r#"DATETIMEBIN "2021-01-08" "dd" -1"#, "undefined"),
            (r#"DATETIMEBIN "2021-01-08" "dd" 1.5"#, "undefined"),
            (r#"DATETIMEBIN "2021-01-08" "dd" 1 "1600-12-31""#, "undefined"),
            (r#"DATETIMEBIN "2021-01-08" "dd" 1 undefined"#, "undefined"),
        ]);
    }

    #[test]
    fn moments_are_made_of_numbers_and_become_numbers() {
        expect(&[
            ("DATETIMEFROMPARTS 2017 4 20", r#""2017-04-20T00:00:00.0000000Z""#),
            ("DATETIMEFROMPARTS 2017 4 20 13 15 20 3456789", r#""2017-04-20T13:15:20.3456789Z""#),
            ("DATETIMEFROMPARTS 2017 4 20 13 15", r#""2017-04-20T13:15:00.0000000Z""#),
            ("DATETIMEFROMPARTS -2000 -1 -1", "undefined"),
            ("DATETIMEFROMPARTS 2017 2 29", "undefined"),
            ("DATETIMEFROMPARTS 2017 2 28 24", "undefined"),
            ("DATETIMEFROMPARTS 2017 2 28 0 0 0 10000000", "undefined"),
            ("DATETIMEFROMPARTS 2017 2 1.5", "undefined"),
            ("DATETIMEFROMPARTS 2017 2 1 undefined", "undefined"),
            ("DATETIMEFROMPARTS 9223372036854775807 1 1", "undefined"),
            ("DATETIMEFROMPARTS 2017 1 1 9223372036854775807", "undefined"),
            ("TICKSTODATETIME 15973607943002652", r#""2020-08-13T23:19:54.3002652Z""#),
            ("TICKSTODATETIME -116444736000000000", r#""1601-01-01T00:00:00.0000000Z""#),
            ("TICKSTODATETIME -116444736000000001", "undefined"),
            ("TICKSTODATETIME 1e300", "undefined"),
            ("TICKSTODATETIME 0.5", "undefined"),
            ("TIMESTAMPTODATETIME 1597360794300", r#""2020-08-13T23:19:54.3000000Z""#),
            ("TIMESTAMPTODATETIME -11644473600000", r#""1601-01-01T00:00:00.0000000Z""#),
            ("TIMESTAMPTODATETIME 9223372036854775807", "undefined"),
            (r#"DATETIMETOTICKS "2020-01-02T03:04:05.6789123Z""#, "15779342456789123"),
            (r#"DATETIMETOTIMESTAMP "2020-07-09T23:20:13.4575530Z""#, "1594336813457"),
            (r#"DATETIMETOTIMESTAMP "1969-12-31T23:59:59.9999999Z""#, "-1"),
        ]);
    }

    #[test]
    fn an_offset_is_converted_to_utc() {
        let seconds = |text: &str| call(&format!(r#"DATETIMETOTIMESTAMP "{text}""#));
        for (text, expected) in [
            ("1998-05-04T15:30:10+01:30", "1998-05-04T14:00:10Z"),
            ("1998-05-04 15:30:10-01:30", "1998-05-04T17:00:10Z"),
            ("1998-05-04T00:30:10.1234567+01:00", "1998-05-03T23:30:10.1234567Z"),
            ("1998-12-31T23:30:10-23:59", "1999-01-01T23:29:10Z"),
            ("1998-05-04T15:30:10+00:00", "1998-05-04T15:30:10Z"),
            ("1601-01-01T00:00:00-00:01", "1601-01-01T00:01:00Z"),
        ] {
            assert_eq!(seconds(text), seconds(expected), "{text}");
            assert_ne!(seconds(text), "undefined", "{text}");
        }
        expect(&[
            (r#"DATETIMEPART "hour" "1998-05-04T15:30:10+01:30""#, "14"),
            (r#"DATETIMEDIFF "mi" "1998-05-04T15:30:10+01:30" "1998-05-04T15:30:10Z""#, "90"),
            (
                r#"DATETIMEADD "dd" 1 "1998-05-04T15:30:10+01:30""#,
                r#""1998-05-05T14:00:10.0000000Z""#,
            ),
        ]);
        for text in [
            "1998-05-04T15:30:10+24:00",
            "1998-05-04T15:30:10+01:60",
            "1998-05-04T15:30:10+0130",
            "1998-05-04T15:30:10+01",
            "1998-05-04T15:30:10+1:30",
            "1998-05-04T15:30:10+01:30Z",
            "1998-05-04T15:30:10+",
            "1998-05-04T15:30:10.+01:30",
            "1998-05-04+01:30",
            "9999-12-31T23:59:59-00:01",
        ] {
            assert_eq!(seconds(text), "undefined", "{text}");
        }
    }

    #[test]
    fn moments_before_1601_are_undefined() {
        expect(&[
            (r#"DATETIMEPART "yyyy" "1600-12-31T23:59:59.9999999Z""#, "undefined"),
            (r#"DATETIMEPART "yyyy" "1601-01-01""#, "1601"),
            (r#"DATETIMEPART "yyyy" "1601-01-01T00:00:00+00:01""#, "undefined"),
            (r#"DATETIMEDIFF "dd" "1600-12-31" "2020-01-01""#, "undefined"),
            (r#"DATETIMEDIFF "dd" "2020-01-01" "1600-12-31""#, "undefined"),
            (r#"DATETIMEADD "yyyy" 500 "1600-01-01""#, "undefined"),
            (r#"DATETIMEADD "dd" -1 "1601-01-01""#, "undefined"),
            (r#"DATETIMEBIN "1600-01-01" "dd""#, "undefined"),
            (r#"DATETIMEBIN "1601-01-02" "yyyy" 400"#, "undefined"),
            (r#"DATETIMEFORMAT "1600-01-01" "yyyy""#, "undefined"),
            (r#"DATETIMETOTICKS "1600-01-01""#, "undefined"),
            (r#"DATETIMETOTIMESTAMP "0001-01-01""#, "undefined"),
            ("DATETIMEFROMPARTS 1600 12 31", "undefined"),
            (r#"YEAR "1600-01-01""#, "undefined"),
            (r#"MONTH "1600-01-01""#, "undefined"),
            (r#"DAY "1600-01-01""#, "undefined"),
            (r#"AGO "yyyy" 500"#, "undefined"),
            (r#"IS_DATETIME "1600-01-01""#, "true"),
        ]);
    }

    #[test]
    fn the_clock_is_the_one_of_the_scope() {
        expect(&[
            ("GETCURRENTDATETIME", r#""2024-10-14T14:20:30.6668888Z""#),
            ("GETCURRENTDATETIMESTATIC", r#""2024-10-14T14:20:30.6668888Z""#),
            ("GETCURRENTTICKS", "17289156306668888"),
            ("GETCURRENTTIMESTAMP", "1728915630666"),
            ("NOW", r#""2024-10-14T14:20:30.6668888Z""#),
            (r#"NOW "yyyy" 1"#, r#""2025-10-14T14:20:30.6668888Z""#),
            (r#"AGO "yyyy" 1"#, r#""2023-10-14T14:20:30.6668888Z""#),
            (r#"AGO "yyyy" -1"#, r#""2025-10-14T14:20:30.6668888Z""#),
            (r#"AGO "ss" 30"#, r#""2024-10-14T14:20:00.6668888Z""#),
            (r#"AGO "ms" 4"#, r#""2024-10-14T14:20:30.6628888Z""#),
            (r#"AGO "xx" 4"#, "undefined"),
        ]);
    }
}
