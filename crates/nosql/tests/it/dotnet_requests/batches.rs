//! Batches in HybridRow: the recording's names inside of them, and what their answers must be.
//!
//! A result is held against the operation that it answers: what was written comes back, with an
//! ETag and a charge. Where the same batch was recorded with an answer that the client accepted,
//! the statuses are those of that answer; else every operation is to succeed.

use partita_model::{Value, binary_json};

use super::checks::covers;
use super::names::Names;
use super::rows::Page;
use crate::hybrid_row::wire::{self, Told};

const SEGMENT_HEADER_BYTES: usize = 10;
const RECORD_HEADER_BYTES: usize = 13;

const CREATE: i32 = 0;
const DELETE: i32 = 4;
const REPLACE: i32 = 5;
const UPSERT: i32 = 20;

/// What is read of an operation of a request.
struct Operation {
    kind: i32,
    id: Option<String>,
    body: Option<Value>,
    minimal: bool,
}

/// The texts in a stream that look like ETags of items.
pub(super) fn etags(stream: &[u8]) -> Vec<String> {
    let is_etag = |window: &&[u8]| {
        window[0] == b'"'
            && window[37] == b'"'
            && window[1..37].iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    };
    let text = |window: &[u8]| String::from_utf8_lossy(window).into_owned();
    stream.windows(38).filter(is_etag).map(text).collect()
}

/// A stream with our names in its rows.
pub(super) fn translate(stream: &[u8], names: &Names) -> Vec<u8> {
    if stream.first() != Some(&0x81) {
        return stream.to_vec();
    }
    let mut own = rows(stream);
    for row in &mut own {
        names.translate_bytes(row);
    }
    wire::stream(&own)
}

/// The results of a recorded answer, if it is a stream of results.
pub(super) fn results(stream: &[u8]) -> Option<Vec<Told>> {
    (stream.first() == Some(&0x81)).then(|| wire::results(stream))
}

/// Notes what is wrong with the answer to a batch.
pub(super) fn check(
    request: &[u8],
    answer: &[u8],
    recorded: Option<&[Told]>,
    wrong: &mut Vec<String>,
) {
    let Some(results) = results(answer) else {
        wrong.push("no stream of results".to_owned());
        return;
    };
    let operations: Vec<Operation> = rows(request).iter().map(|row| operation(row)).collect();
    if results.len() != operations.len() {
        wrong.push(format!("{} results of {} operations", results.len(), operations.len()));
        return;
    }
    for (at, (operation, told)) in operations.iter().zip(&results).enumerate() {
        let mut found = Vec::new();
        check_result(operation, told, recorded.map(|recorded| &recorded[at]), &mut found);
        wrong.extend(found.into_iter().map(|found| format!("result {at}: {found}")));
    }
}

fn check_result(
    operation: &Operation,
    told: &Told,
    recorded: Option<&Told>,
    wrong: &mut Vec<String>,
) {
    let succeeded = match operation.kind {
        CREATE | UPSERT => 201,
        DELETE => 204,
        _ => 200,
    };
    let expected = recorded.map_or((succeeded, 0), |told| (told.status, told.substatus));
    if (told.status, told.substatus) != expected {
        wrong.push(format!("{}/{} instead of {expected:?}", told.status, told.substatus));
        return;
    }
    if told.charge.is_none_or(|charge| charge <= 0.0) {
        wrong.push(format!("a charge of {:?}", told.charge));
    }
    if (told.status == 429) != told.retry_after_ms.is_some() {
        wrong.push(format!("retry after {:?}", told.retry_after_ms));
    }
    let body = told.body.as_deref().map(|body| json(body).map_err(|()| body));
    match told.status {
        // Told beside the operation that failed, with nothing to say of its own.
        424 => {}
        400.. => {
            let text = String::from_utf8_lossy(told.body.as_deref().unwrap_or_default());
            if !text.contains("Message:") && !text.contains("message") {
                wrong.push(format!("no text but '{text}'"));
            }
        }
        _ => {
            let deleted = operation.kind == DELETE;
            if told.etag.is_none() != deleted {
                wrong.push(format!("the ETag {:?}", told.etag));
            }
            match body {
                None if deleted || operation.minimal => {}
                Some(Ok(item)) if !deleted && !operation.minimal => {
                    check_item(operation, &item, told, wrong);
                }
                other => wrong.push(format!("the item {other:?}")),
            }
        }
    }
}

/// What was written comes back.
fn check_item(operation: &Operation, item: &Value, told: &Told, wrong: &mut Vec<String>) {
    if item.get("_etag").and_then(Value::as_str) != told.etag.as_deref() {
        wrong.push("the item has another ETag".to_owned());
    }
    let written = matches!(operation.kind, CREATE | UPSERT | REPLACE);
    if let Some(body) = operation.body.as_ref().filter(|_| written) {
        let mut sent = body.as_object().unwrap().clone();
        // A client sends the ETag it does not know yet as null.
        sent.remove("_etag");
        covers(Page::default(), &Value::Object(sent), item, "", wrong);
    }
    if let Some(id) = &operation.id
        && item.get("id").and_then(Value::as_str) != Some(id)
    {
        wrong.push(format!("another item than {id}"));
    }
}

/// Reads what is needed of a request's row: the columns that are there, then sparse fields.
fn operation(row: &[u8]) -> Operation {
    let presence = row[5];
    let kind = i32::from_le_bytes(row[6..10].try_into().unwrap());
    let mut rest = &row[14..];
    let mut column = |bit: u8| (presence >> bit & 1 == 1).then(|| wire::bytes(&mut rest));
    let columns: Vec<Option<Vec<u8>>> = (2..7).map(&mut column).collect();
    let id = columns[2].as_ref().map(|id| String::from_utf8_lossy(id).into_owned());
    let body = columns[4].as_ref().map(|body| json(body).unwrap());
    // The last of all fields, if it is there: true, and its token.
    Operation { kind, id, body, minimal: rest.ends_with(&[3, 12]) }
}

fn json(bytes: &[u8]) -> Result<Value, ()> {
    if binary_json::is_binary(bytes) {
        let text = binary_json::to_text(bytes).map_err(|_| ())?;
        return Value::parse(text.as_bytes()).map_err(|_| ());
    }
    Value::parse(bytes).map_err(|_| ())
}

/// The rows of a stream that nobody damaged.
fn rows(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    let mut rest = stream.get(SEGMENT_HEADER_BYTES..).unwrap_or_default();
    while rest.len() > RECORD_HEADER_BYTES {
        let length = u32::from_le_bytes(rest[5..9].try_into().unwrap());
        let end = RECORD_HEADER_BYTES + usize::try_from(length).unwrap();
        rows.push(rest[RECORD_HEADER_BYTES..end].to_vec());
        rest = &rest[end..];
    }
    rows
}
