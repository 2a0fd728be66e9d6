//! Reading the change feed: a read of the items' feed that says in `A-IM` which changes it wants,
//! in `If-None-Match` how far it is, and in `If-Modified-Since` how far it looks back.

use partita_engine::{ChangesFrom, ChangesMode, ChangesRequest, ContainerPath, EtagPattern, Op};
use partita_gateway::auth::parse_http_date;
use partita_model::Result;

use super::items::scope;
use crate::headers::{self, Headers, bad_value};

pub(super) fn changes(container: ContainerPath, headers: Headers<'_>) -> Result<Op> {
    let request = ChangesRequest {
        scope: scope(headers)?,
        mode: mode(headers)?,
        from: match headers.etag(&http::header::IF_NONE_MATCH)? {
            None => ChangesFrom::Beginning,
            Some(EtagPattern::Any) => ChangesFrom::Now,
            Some(EtagPattern::Exact(etag)) => ChangesFrom::Etag(etag),
        },
        since: since(headers)?,
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
    let seconds = parse_http_date(text);
    let rule = "must be a date like 'Thu, 27 Apr 2017 00:51:12 GMT'";
    seconds.map(Some).ok_or_else(|| bad_value(&name, text, rule))
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
        match changes(container, Headers::new(&head))? {
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
        assert_eq!(since("Thu, 01 Jan 1970 00:01:00 GMT"), Ok(Some(60)));
        assert!(since("yesterday").unwrap_err().message.contains("'yesterday'"));
    }

    #[test]
    fn another_way_to_manipulate_instances_is_refused() {
        let error = read(&[(headers::A_IM, "vcdiff")]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
    }
}
