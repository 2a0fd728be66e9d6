//! Moments in time: counted in ticks of 100 ns since 1970, written as ISO 8601 in UTC.
//!
//! The calendar is the Gregorian one, extended to all years from 1 to 9999; there are no leap
//! seconds. Days and dates are converted by counting years from the first of March, so that the
//! leap day is the last day of its year and no table of months is needed.

use std::fmt;

pub(super) const TICKS_PER_MICROSECOND: i64 = 10;
pub(super) const TICKS_PER_MILLISECOND: i64 = 1000 * TICKS_PER_MICROSECOND;
pub(super) const TICKS_PER_SECOND: i64 = 1000 * TICKS_PER_MILLISECOND;
const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
const TICKS_PER_HOUR: i64 = 60 * TICKS_PER_MINUTE;
const TICKS_PER_DAY: i64 = 24 * TICKS_PER_HOUR;

/// 0001-01-01T00:00:00.0000000Z.
const TICKS_MIN: i64 = -719_162 * TICKS_PER_DAY;
/// 9999-12-31T23:59:59.9999999Z.
const TICKS_MAX: i64 = 2_932_897 * TICKS_PER_DAY - 1;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// Days in 400 years.
const DAYS_PER_CYCLE: i64 = 146_097;

/// A moment of the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(i64);

/// A moment, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// In ticks.
    pub(super) fraction: i64,
}

/// A part of a moment, or a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

const PART_NAMES: [(Part, &[&str]); 9] = [
    (Part::Year, &["year", "yyyy", "yy"]),
    (Part::Month, &["month", "mm", "m"]),
    (Part::Day, &["day", "dd", "d"]),
    (Part::Hour, &["hour", "hh"]),
    (Part::Minute, &["minute", "mi", "n"]),
    (Part::Second, &["second", "ss", "s"]),
    (Part::Millisecond, &["millisecond", "ms"]),
    (Part::Microsecond, &["microsecond", "mcs"]),
    (Part::Nanosecond, &["nanosecond", "ns"]),
];

impl Part {
    pub(super) fn by_name(name: &str) -> Option<Part> {
        let is_named = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        PART_NAMES.iter().find(|(_, names)| is_named(names)).map(|(part, _)| *part)
    }

    /// How long it is, if that is always the same and at least a tick.
    fn ticks(self) -> Option<i64> {
        match self {
            Part::Year | Part::Month | Part::Nanosecond => None,
            Part::Day => Some(TICKS_PER_DAY),
            Part::Hour => Some(TICKS_PER_HOUR),
            Part::Minute => Some(TICKS_PER_MINUTE),
            Part::Second => Some(TICKS_PER_SECOND),
            Part::Millisecond => Some(TICKS_PER_MILLISECOND),
            Part::Microsecond => Some(TICKS_PER_MICROSECOND),
        }
    }

    /// How many months it is, if it is counted in months.
    fn months(self) -> Option<i64> {
        match self {
            Part::Year => Some(12),
            Part::Month => Some(1),
            _ => None,
        }
    }
}

impl Moment {
    pub(super) fn of_ticks(ticks: i64) -> Option<Moment> {
        (TICKS_MIN..=TICKS_MAX).contains(&ticks).then_some(Moment(ticks))
    }

    /// Since 1970.
    pub(super) fn ticks(self) -> i64 {
        self.0
    }

    /// A date, or a date and a time: in UTC, unless it says how far it is ahead of that.
    pub(super) fn parse(text: &str) -> Option<Moment> {
        let is_zulu = text.ends_with('Z');
        let text = text.strip_suffix('Z').unwrap_or(text).as_bytes();
        let (date, time) = text.split_at_checked(10)?;
        let mut ahead = 0;
        let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
        let mut fields = Fields {
            year: digits(&[*y1, *y2, *y3, *y4])?,
            month: digits(&[*m1, *m2])?,
            day: digits(&[*d1, *d2])?,
            hour: 0,
            minute: 0,
            second: 0,
            fraction: 0,
        };
        if let [b'T' | b' ', h1, h2, b':', mi1, mi2, b':', s1, s2, rest @ ..] = time {
            let (fraction, offset) = split_offset(rest);
            // What ends in Z is ahead of nothing.
            ahead = parse_offset(offset).filter(|_| offset.is_empty() || !is_zulu)?;
            fields.hour = digits(&[*h1, *h2])?;
            fields.minute = digits(&[*mi1, *mi2])?;
            fields.second = digits(&[*s1, *s2])?;
            fields.fraction = parse_fraction(fraction)?;
        } else if !time.is_empty() {
            return None;
        }
        Moment::of_ticks(fields.moment()?.0 - ahead)
    }

    pub(super) fn fields(self) -> Fields {
        let (year, month, day) = date_of(self.0.div_euclid(TICKS_PER_DAY));
        let of_day = self.0.rem_euclid(TICKS_PER_DAY);
        Fields {
            year,
            month,
            day,
            hour: of_day / TICKS_PER_HOUR,
            minute: of_day % TICKS_PER_HOUR / TICKS_PER_MINUTE,
            second: of_day % TICKS_PER_MINUTE / TICKS_PER_SECOND,
            fraction: of_day % TICKS_PER_SECOND,
        }
    }

    /// So many parts later, or earlier. Months keep the day where the other month has it, and else
    /// end on its last.
    pub(super) fn plus(self, part: Part, number: i64) -> Option<Moment> {
        if let Some(months) = part.months() {
            return self.plus_months(number.checked_mul(months)?);
        }
        let ticks = match part.ticks() {
            Some(ticks) => number.checked_mul(ticks)?,
            // What is less than a tick is lost.
            None => number / 100,
        };
        Moment::of_ticks(self.0.checked_add(ticks)?)
    }

    fn plus_months(self, number: i64) -> Option<Moment> {
        let mut fields = self.fields();
        let months = (fields.year * 12 + fields.month - 1).checked_add(number)?;
        fields.year = months.div_euclid(12);
        fields.month = months.rem_euclid(12) + 1;
        if !(1..=9999).contains(&fields.year) {
            return None;
        }
        fields.day = fields.day.min(days_in(fields.year, fields.month));
        fields.moment()
    }

    /// How many times such a part begins on the way from here to there.
    pub(super) fn boundaries_to(self, end: Moment, part: Part) -> i128 {
        if let Some(months) = part.months() {
            let counted = |fields: Fields| (fields.year * 12 + fields.month - 1).div_euclid(months);
            return i128::from(counted(end.fields()) - counted(self.fields()));
        }
        match part.ticks() {
            Some(ticks) => i128::from(end.0.div_euclid(ticks) - self.0.div_euclid(ticks)),
            None => (i128::from(end.0) - i128::from(self.0)) * 100,
        }
    }

    /// The last moment not after this one that is a multiple of so many parts from the origin.
    pub(super) fn binned(self, part: Part, size: i64, origin: Moment) -> Option<Moment> {
        if let Some(months) = part.months() {
            let step = size.checked_mul(months)?;
            let passed = i64::try_from(origin.boundaries_to(self, Part::Month)).ok()?;
            let bins = passed.div_euclid(step);
            // Counted by the calendar alone, the bin may still begin later in its month.
            let begin = |bins: i64| origin.plus_months(bins.checked_mul(step)?);
            return begin(bins).filter(|begin| *begin <= self).or_else(|| begin(bins - 1));
        }
        let nanoseconds = i128::from(part.ticks().unwrap_or(0)) * 100;
        let step = i128::from(size) * nanoseconds.max(1);
        let passed = (i128::from(self.0) - i128::from(origin.0)) * 100;
        let begin = passed.div_euclid(step) * step;
        let ticks = i64::try_from(begin.div_euclid(100)).ok()?.checked_add(origin.0)?;
        Moment::of_ticks(ticks)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields { year, month, day, hour, minute, second, fraction } = self.fields();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
    }
}

impl Fields {
    /// The moment; None if there is no such date or time.
    pub(super) fn moment(self) -> Option<Moment> {
        let exists = (1..=9999).contains(&self.year)
            && (1..=12).contains(&self.month)
            && (1..=days_in(self.year, self.month)).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..TICKS_PER_SECOND).contains(&self.fraction);
        exists.then(|| {
            let time = self.hour * TICKS_PER_HOUR
                + self.minute * TICKS_PER_MINUTE
                + self.second * TICKS_PER_SECOND
                + self.fraction;
            Moment(days_of(self.year, self.month, self.day) * TICKS_PER_DAY + time)
        })
    }

    pub(super) fn part(&self, part: Part) -> i64 {
        match part {
            Part::Year => self.year,
            Part::Month => self.month,
            Part::Day => self.day,
            Part::Hour => self.hour,
            Part::Minute => self.minute,
            Part::Second => self.second,
            Part::Millisecond => self.fraction / TICKS_PER_MILLISECOND,
            Part::Microsecond => self.fraction / TICKS_PER_MICROSECOND,
            Part::Nanosecond => self.fraction * 100,
        }
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    text.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
}

/// What is behind the seconds: the fraction, and from a sign on the offset.
fn split_offset(text: &[u8]) -> (&[u8], &[u8]) {
    let at = text.iter().position(|byte| matches!(byte, b'+' | b'-'));
    text.split_at_checked(at.unwrap_or(text.len())).unwrap_or((text, &[]))
}

/// `+hh:mm` or `-hh:mm` in ticks, or nothing at all.
fn parse_offset(text: &[u8]) -> Option<i64> {
    let [sign, h1, h2, b':', m1, m2] = text else { return text.is_empty().then_some(0) };
    let hours = digits(&[*h1, *h2]).filter(|hours| *hours < 24)?;
    let minutes = digits(&[*m1, *m2]).filter(|minutes| *minutes < 60)?;
    let ticks = hours * TICKS_PER_HOUR + minutes * TICKS_PER_MINUTE;
    Some(if *sign == b'-' { -ticks } else { ticks })
}

/// `.` and one to seven digits, or nothing at all.
fn parse_fraction(text: &[u8]) -> Option<i64> {
    match text {
        [] => Some(0),
        [b'.', decimals @ ..] if (1..=7).contains(&decimals.len()) => {
            let missing = u32::try_from(7 - decimals.len()).ok()?;
            Some(digits(decimals)? * 10_i64.pow(missing))
        }
        _ => None,
    }
}

/// Days since 1970.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let since_march = (month + 9) % 12;
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + days_before(since_march) + day - 1 - DAYS_TO_1970
}

/// Year, month and day of a number of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let (cycle, of_cycle) = (days.div_euclid(DAYS_PER_CYCLE), days.rem_euclid(DAYS_PER_CYCLE));
    // Leap days taken out: one in 4 years, not in 100, again in 400.
    let of_year = of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096;
    let year_of_cycle = of_year / 365;
    let day_of_year = of_cycle - (year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100);
    let since_march = (day_of_year * 5 + 2) / 153;
    let month = (since_march + 2) % 12 + 1;
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day_of_year - days_before(since_march) + 1)
}

/// Days from the first of March to the first of the month that is so many later: five months, from
/// March or from August, have 153 days.
fn days_before(since_march: i64) -> i64 {
    (since_march * 153 + 2) / 5
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_day_of_ten_thousand_years_follows_the_day_before() {
        let (mut year, mut month, mut day) = (1, 1, 1);
        let (first, last) = (TICKS_MIN / TICKS_PER_DAY, TICKS_MAX / TICKS_PER_DAY);
        for days in first..=last {
            assert_eq!(date_of(days), (year, month, day));
            assert_eq!(days_of(year, month, day), days);
            day += 1;
            if day > days_in(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
        assert_eq!(Moment(TICKS_MIN).to_string(), "0001-01-01T00:00:00.0000000Z");
        assert_eq!(Moment(TICKS_MAX).to_string(), "9999-12-31T23:59:59.9999999Z");
    }

    #[test]
    fn only_one_syntax_is_a_moment() {
        for (text, expected) in [
            ("2024-12-12", Some("2024-12-12T00:00:00.0000000Z")),
            ("2024-12-12Z", Some("2024-12-12T00:00:00.0000000Z")),
            ("2024-12-12 20:21:25", Some("2024-12-12T20:21:25.0000000Z")),
            ("2024-12-12T20:21:25.1Z", Some("2024-12-12T20:21:25.1000000Z")),
            ("2024-12-12T20:21:25.1234567", Some("2024-12-12T20:21:25.1234567Z")),
            ("2024-02-29", Some("2024-02-29T00:00:00.0000000Z")),
            ("2023-02-29", None),
            ("2024-12-12T20Z", None),
            ("2024-12-12T20:21Z", None),
            ("2024-12-12 20:21:25.", None),
            ("2024-12-12 20:21:25.12345678", None),
            ("2024-12-12T20:21:25+01:00", Some("2024-12-12T19:21:25.0000000Z")),
            ("2024-12-12T20:21:25.5-01:00", Some("2024-12-12T21:21:25.5000000Z")),
            ("2024-12-12T20:21:25+01:00Z", None),
            ("2024-12-12T20:21:25+0100", None),
            ("0001-01-01T00:00:00+00:01", None),
            ("2024-12-12T24:00:00", None),
            ("2024-12-12T20:21:60", None),
            ("2024-13-12", None),
            ("0000-01-01", None),
            ("2024-1-1", None),
            ("2024-12-12ZZ", None),
            ("2024-12-12T", None),
            ("２０２４-12-12", None),
            ("", None),
        ] {
            let found = Moment::parse(text).map(|moment| moment.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ticks in TICKS_MIN..=TICKS_MAX) {
            let moment = Moment(ticks);
            prop_assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        }

        #[test]
        fn a_bin_holds_its_moment(
            ticks in -116_444_736_000_000_000..=TICKS_MAX,
            origin in -116_444_736_000_000_000_i64..100_000_000_000_000_000,
            at in 0_usize..9,
            size in 1_i64..200,
        ) {
            let (moment, origin, part) = (Moment(ticks), Moment(origin), PART_NAMES[at].0);
            if let Some(begin) = moment.binned(part, size, origin) {
                prop_assert!(begin <= moment);
                // A bin of nanoseconds begins where its tick does, so that it seems longer.
                let size = if part == Part::Nanosecond { size + 200 } else { size };
                if let Some(next) = begin.plus(part, size + i64::from(part == Part::Month)) {
                    prop_assert!(next > moment, "{begin} {moment} {next}");
                }
            }
        }
    }
}
