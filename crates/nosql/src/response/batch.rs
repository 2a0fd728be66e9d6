//! The results of a batch: an array, one element for each operation.
//!
//! An item's text is copied into its element as it is stored.

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use partita_engine::{BatchDone, BatchResult};
use partita_gateway::{Lines, Response};
use partita_model::{Charge, json};

use super::{quoted, status_of, with_body};
use crate::error::Failure;
use crate::headers;
use crate::text::number;

/// Bytes of a result beside its item.
const RESULT_BYTES: usize = 160;

pub(super) fn reply(results: Vec<BatchResult>, mut headers: Lines) -> Response {
    let status = match results.iter().all(|result| result.result.is_ok()) {
        true => StatusCode::OK,
        false => StatusCode::MULTI_STATUS,
    };
    headers.push(&headers::ITEM_COUNT, number(results.len() as u64));
    with_body(status, headers, body(results))
}

fn body(results: Vec<BatchResult>) -> Bytes {
    let item_bytes = |result: &BatchResult| match &result.result {
        Ok(BatchDone::Item { body: Some(body), .. }) => body.0.len(),
        _ => 0,
    };
    let bytes: usize = results.iter().map(|result| item_bytes(result) + RESULT_BYTES).sum();
    let mut out = BytesMut::with_capacity(bytes);
    out.put_u8(b'[');
    for (at, BatchResult { result, charge }) in results.into_iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        match result {
            Ok(done) => put_done(&mut out, &done, charge),
            Err(error) => put_failure(&mut out, &Failure::from(error), charge),
        }
        out.put_u8(b'}');
    }
    out.put_u8(b']');
    out.freeze()
}

fn put_done(out: &mut BytesMut, done: &BatchDone, charge: Charge) {
    match done {
        BatchDone::Item { etag, body, change } => {
            put_status(out, status_of(*change), charge);
            put_text(out, "eTag", &etag.quoted());
            if let Some(body) = body {
                out.put_slice(b",\"resourceBody\":");
                out.put_slice(&body.0);
            }
        }
        BatchDone::NotModified { etag } => {
            put_status(out, StatusCode::NOT_MODIFIED, charge);
            put_text(out, "eTag", &quoted(etag));
        }
        BatchDone::Deleted => put_status(out, StatusCode::NO_CONTENT, charge),
    }
}

fn put_failure(out: &mut BytesMut, failure: &Failure, charge: Charge) {
    if failure.status.is_server_error() && failure.status != StatusCode::NOT_IMPLEMENTED {
        let (status, message) = (failure.status.as_u16(), &failure.message);
        tracing::error!(status, message, "an operation of a batch failed");
    }
    put_status(out, failure.status, charge);
    if failure.substatus != 0 {
        put_number(out, "subStatusCode", &failure.substatus.to_string());
    }
    if let Some(retry_after_ms) = failure.retry_after_ms {
        put_number(out, "retryAfterMilliseconds", &retry_after_ms.to_string());
    }
    put_text(out, "message", &failure.message);
}

/// What every element begins with.
fn put_status(out: &mut BytesMut, status: StatusCode, charge: Charge) {
    out.put_slice(b"{\"statusCode\":");
    out.put_slice(status.as_str().as_bytes());
    put_number(out, "requestCharge", &charge.to_string());
}

fn put_number(out: &mut BytesMut, name: &str, number: &str) {
    out.put_slice(b",\"");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\":");
    out.put_slice(number.as_bytes());
}

fn put_text(out: &mut BytesMut, name: &str, text: &str) {
    let mut literal = String::with_capacity(text.len() + 8);
    json::write_string(&mut literal, text);
    put_number(out, name, &literal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_engine::{Change, ItemBody};
    use partita_model::{Error, ErrorKind, Etag};

    #[test]
    fn results_repeat_the_stored_texts_and_say_what_failed() {
        let etag = Etag([0; 16]);
        let item = |body: Option<&'static str>, change| {
            let body = body.map(|text| ItemBody(Bytes::from(text)));
            BatchResult {
                result: Ok(BatchDone::Item { etag, body, change }),
                charge: Charge(6.125),
            }
        };
        let failed =
            |kind| BatchResult { result: Err(Error::new(kind, "a \"b\"")), charge: Charge(1.0) };
        let results = vec![
            item(Some(r#"{"n":1.00}"#), Change::Created),
            item(None, Change::Replaced),
            BatchResult { result: Ok(BatchDone::Deleted), charge: Charge(0.0) },
            failed(ErrorKind::RangeGone),
            failed(ErrorKind::RetryWith),
        ];
        let tag = r#""eTag":"\"00000000-0000-0000-0000-000000000000\"""#;
        let expected = [
            r#"[{"statusCode":201,"requestCharge":6.12,"#.to_owned() + tag,
            r#""resourceBody":{"n":1.00}},{"statusCode":200,"requestCharge":6.12,"#.to_owned(),
            tag.to_owned() + r#"},{"statusCode":204,"requestCharge":0}"#,
            r#"{"statusCode":410,"requestCharge":1,"subStatusCode":1002,"message":"a \"b\""}"#
                .to_owned(),
            r#"{"statusCode":449,"requestCharge":1,"retryAfterMilliseconds":10,"message":"a \"b\""}]"#
                .to_owned(),
        ];
        let expected = format!(
            "{},{}{},{},{}",
            expected[0], expected[1], expected[2], expected[3], expected[4]
        );
        assert_eq!(body(results), expected);
    }
}
