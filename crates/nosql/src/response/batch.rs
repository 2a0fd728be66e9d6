//! The results of a batch, one for each operation: an array, or rows if the batch came as rows.
//!
//! An item's text is copied into its element or row as it is stored.

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use partita_engine::{BatchDone, BatchResult};
use partita_gateway::{Lines, Response};
use partita_model::{Charge, Error, ErrorKind, json};

use super::{bare, quoted, status_of, with_body};
use crate::error::Failure;
use crate::headers;
use crate::hybrid_row::{self, ResultRow};
use crate::request::ResponseOptions;
use crate::text::number;

/// Bytes of a result beside its item.
const RESULT_BYTES: usize = 160;

/// The least wait of each of many refused operations, unless less is enough.
const WAIT_SHARE_MS_MIN: u64 = 50;

pub(super) fn reply(
    mut results: Vec<BatchResult>,
    mut headers: Lines,
    options: ResponseOptions,
) -> Response {
    if options.bare {
        results.iter_mut().for_each(strip);
    }
    let status = if results.iter().all(|result| result.result.is_ok()) {
        StatusCode::OK
    } else {
        StatusCode::MULTI_STATUS
    };
    headers.push(&headers::ITEM_COUNT, number(results.len() as u64));
    let body = if options.hybrid_row {
        rows(results)
    } else {
        divide_waiting(&mut results);
        body(results)
    };
    with_body(status, headers, body)
}

/// Takes what the system has added off the item that a result tells.
fn strip(result: &mut BatchResult) {
    if let Ok(BatchDone::Item { body: Some(body), .. }) = &mut result.result {
        body.0 = bare(&body.0);
    }
}

/// The JavaScript SDK sleeps for one refused operation after the other: its sleeps shall add up to
/// what each would have had to wait. Others that send JSON sleep once for all; they must not use up
/// their retries in the blink of an eye.
fn divide_waiting(results: &mut [BatchResult]) {
    let waiting = |result: &mut BatchResult| match &mut result.result {
        Err(Error { kind: ErrorKind::Throttled { retry_after_ms, .. }, .. }) => {
            Some(std::mem::take(retry_after_ms))
        }
        _ => None,
    };
    let waits: Vec<u64> = results.iter_mut().filter_map(waiting).collect();
    let Some(longest) = waits.iter().copied().max() else { return };
    let share = longest.div_ceil(waits.len() as u64);
    let wait = share.max(longest.min(WAIT_SHARE_MS_MIN)).max(1);
    for result in results {
        if let Err(Error { kind: ErrorKind::Throttled { retry_after_ms, .. }, .. }) =
            &mut result.result
        {
            *retry_after_ms = wait;
        }
    }
}

/// The same in HybridRow. The reason why an operation failed is where its item would be: the client
/// shows nothing else.
fn rows(results: Vec<BatchResult>) -> Bytes {
    let mut out = hybrid_row::Writer::new(results.len(), results.iter().map(item_bytes).sum());
    for BatchResult { result, charge } in results {
        let charge = (charge.0 * 100.0).round() / 100.0;
        let row = |status: StatusCode| ResultRow {
            status: status.as_u16(),
            substatus: 0,
            etag: None,
            body: None,
            retry_after_ms: 0,
            charge,
        };
        match result {
            Ok(BatchDone::Item { etag, body, change }) => out.push(&ResultRow {
                etag: Some(&etag.quoted()),
                body: body.as_ref().map(|body| &body.0[..]),
                ..row(status_of(change))
            }),
            Ok(BatchDone::NotModified { etag }) => {
                out.push(&ResultRow { etag: Some(&quoted(&etag)), ..row(StatusCode::NOT_MODIFIED) })
            }
            Ok(BatchDone::Deleted) => out.push(&row(StatusCode::NO_CONTENT)),
            Err(error) => {
                let failure = Failure::from(error);
                log_failure(&failure);
                // The operation that made this one fail has the reason.
                let has_reason = failure.status != StatusCode::FAILED_DEPENDENCY;
                let text = has_reason.then(|| reason(&failure));
                let retry_after_ms = failure.retry_after_ms.map_or(0, |ms| ms.max(1));
                out.push(&ResultRow {
                    substatus: failure.substatus,
                    body: text.as_ref().map(|text| text.as_bytes()),
                    retry_after_ms: u32::try_from(retry_after_ms).unwrap_or(u32::MAX),
                    ..row(failure.status)
                });
            }
        }
    }
    out.finish()
}

/// Why an operation failed: `{"code":…,"message":…}`.
fn reason(failure: &Failure) -> String {
    let mut text = String::with_capacity(failure.message.len() + 64);
    text.push_str("{\"code\":");
    json::write_string(&mut text, failure.code);
    text.push_str(",\"message\":");
    json::write_string(&mut text, &failure.message);
    text.push('}');
    text
}

fn item_bytes(result: &BatchResult) -> usize {
    match &result.result {
        Ok(BatchDone::Item { body: Some(body), .. }) => body.0.len(),
        _ => 0,
    }
}

fn body(results: Vec<BatchResult>) -> Bytes {
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

fn log_failure(failure: &Failure) {
    if failure.status.is_server_error() && failure.status != StatusCode::NOT_IMPLEMENTED {
        let (status, message) = (failure.status.as_u16(), &failure.message);
        tracing::error!(status, message, "an operation of a batch failed");
    }
}

fn put_failure(out: &mut BytesMut, failure: &Failure, charge: Charge) {
    log_failure(failure);
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
    use partita_model::Etag;

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
