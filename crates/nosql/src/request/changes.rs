//! Reading the change feed: a read of the items' feed that says in `A-IM` which changes it wants,
//! in `If-None-Match` how far it is, and in `If-Modified-Since` how far it looks back. The same
//! with POST has a query as its body, which filters the feed.

use std::borrow::Cow;

use partita_engine::{
    ChangesFrom, ChangesMode, ChangesQuery, ChangesRequest, ContainerPath, EtagPattern, Op,
};
use partita_gateway::auth::parse_http_date;
use partita_model::Result;

use super::items::scope;
use crate::headers::{self, Headers, bad_value};

/// A page of the change feed, or of what a query finds in it.
pub(super) fn changes(
    container: ContainerPath,
    headers: Headers<'_>,
    query: Option<ChangesQuery>,
) -> Result<Op> {
    let request = ChangesRequest {
        scope: scope(headers)?,
        mode: mode(headers)?,
        from: match headers.etag(&http::header::IF_NONE_MATCH)? {
            None => ChangesFrom::Beginning,
            Some(EtagPattern::Any) => ChangesFrom::Now,
            Some(EtagPattern::Exact(etag)) => ChangesFrom::Etag(etag),
        },
        since: since(headers)?,
        query,
        items_max: headers.page()?.items_max,
        listen: false,
    };
    Ok(Op::ReadChanges { container, request: Box::new(request) })
}

fn mode(headers: Headers<'_>) -> Result<ChangesMode> {
    match headers.text(&headers::A_IM)?.unwrap_or_default() {
        text if text.eq_ignore_ascii_case("Incremental Feed") => Ok(ChangesMode::LatestVersion),
        text if text.eq_ignore_ascii_case("Full-Fidelity Feed") => Ok(ChangesMode::AllVersions),
        text => {
            let rule = "must be 'Incremental Feed' or 'Full-Fidelity Feed'";
            Err(bad_value(&headers::A_IM, text, rule))
        }
    }
}

fn since(headers: Headers<'_>) -> Result<Option<u64>> {
    let name = http::header::IF_MODIFIED_SINCE;
    let Some(text) = headers.text(&name)? else { return Ok(None) };
    let rule = "must be a date like 'Thu, 27 Apr 2017 00:51:12 GMT'";
    moment(text).map(Some).ok_or_else(|| bad_value(&name, text, rule))
}

/// A date of HTTP whose zone is written in any of the ways that clients have for it, and whose day
/// may have one digit, as in mail. What is before 1970 by its zone is as good as 1970.
fn moment(text: &str) -> Option<u64> {
    let text = &with_two_digits(text.trim());
    let (local, zone) = text.rsplit_once(' ')?;
    let greenwich = ["GMT", "UTC", "UT", "Z"].iter().any(|name| zone.eq_ignore_ascii_case(name));
    let ahead_seconds = match offset_seconds(zone) {
        _ if greenwich => 0,
        Some(seconds) => seconds,
        // A form without a zone.
        None => return parse_http_date(text),
    };
    let seconds = i64::try_from(parse_http_date(&format!("{local} GMT"))?).ok()?;
    u64::try_from(seconds.saturating_sub(ahead_seconds).max(0)).ok()
}

/// The same date, its day of the month with two digits: `Thu, 1 Jan …` is `Thu, 01 Jan …`.
fn with_two_digits(text: &str) -> Cow<'_, str> {
    match text.split_once(", ") {
        Some((weekday, day)) if matches!(day.as_bytes(), [b'0'..=b'9', b' ', ..]) => {
            format!("{weekday}, 0{day}").into()
        }
        _ => text.into(),
    }
}

/// `+hhmm` or `+hh:mm`, how far a zone's clocks are ahead.
fn offset_seconds(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None => digits.split_at_checked(2)?,
    };
    let number = |text: &str, limit: i64| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number < limit)
    };
    Some(sign * (number(hours, 24)? * 3_600 + number(minutes, 60)? * 60))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Uri};
    use partita_gateway::Head;
    use partita_model::ErrorKind;

    use super::*;

    fn read(pairs: &[(HeaderName, &'static str)]) -> Result<ChangesRequest> {
        let mut map =
            HeaderMap::from_iter([(headers::A_IM, HeaderValue::from_static("incremental feed"))]);
        for (name, text) in pairs {
            map.insert(name.clone(), HeaderValue::from_static(text));
        }
        let container = ContainerPath { database: "d".into(), container: "c".into() };
        let head = Head::new(&Uri::from_static("/"), &map);
        match changes(container, Headers::new(&head), None)? {
            Op::ReadChanges { request, .. } => Ok(*request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_begins_at_the_beginning_now_or_where_it_was() {
        let from = |text| read(&[(http::header::IF_NONE_MATCH, text)]).map(|r| r.from);
        assert_eq!(read(&[]).map(|request| request.from), Ok(ChangesFrom::Beginning));
        assert_eq!(from("*"), Ok(ChangesFrom::Now));
        assert_eq!(from("\"12\""), Ok(ChangesFrom::Etag("12".into())));
        assert_eq!(from("12"), Ok(ChangesFrom::Etag("12".into())));
    }

    #[test]
    fn a_time_is_a_date_of_http() {
        let since = |text| read(&[(http::header::IF_MODIFIED_SINCE, text)]).map(|r| r.since);
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:01:00 GMT", 60),
            ("Thu, 01 Jan 1970 00:01:00 UTC", 60),
            ("Thu, 01 Jan 1970 00:01:00 utc", 60),
            ("Thu, 01 Jan 1970 00:01:00 Z", 60),
            ("Thu, 01 Jan 1970 01:01:00 +0100", 60),
            ("Thu, 01 Jan 1970 05:31:00 +05:30", 60),
            ("Thu, 01 Jan 1970 00:01:00 -0200", 7_260),
            ("Thu, 01 Jan 1970 00:01:00 +0100", 0),
            ("Thu Jan  1 00:01:00 1970", 60),
            ("Thursday, 01-Jan-70 00:01:00 UTC", 60),
            ("Thu, 1 Jan 1970 00:01:00 GMT", 60),
            ("Thu, 1 Jan 1970 01:01:00 +0100", 60),
            ("Thu, 1 Jan 1998 00:00:00 -0000", 883_612_800),
        ] {
            assert_eq!(since(text), Ok(Some(seconds)), "{text}");
        }
        for text in [
            "yesterday",
            "Thu,  1 Jan 1970 00:01:00 GMT",
            "Thu, 0 Jan 1970 00:01:00 GMT",
            "Wed, 31 Dec 1969 22:01:00 -0200",
            "Thu, 01 Jan 1970 00:01:00",
            "Thu, 01 Jan 1970 00:01:00 CET",
            "Thu, 01 Jan 1970 00:01:00 +1",
            "Thu, 01 Jan 1970 00:01:00 +2400",
            "Thu, 01 Jan 1970 00:01:00 +01:60",
            "Thu, 01 Jan 1970 00:01:00 ++100",
        ] {
            let message = since(text).unwrap_err().message;
            assert!(message.contains(&format!("'{text}'")), "{message}");
        }
    }

    #[test]
    fn another_way_to_manipulate_instances_is_refused() {
        let error = read(&[(headers::A_IM, "vcdiff")]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
    }
}
