//! Batches that EF Core 11 sent, as recorded: every one of them is answered row by row.
//!
//! The recording lies beside the repository, not in it; without it there is nothing to replay. It
//! does not say how the containers were made, so a partition key is found whose paths have the
//! values that the first operation was sent under.

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use partita_model::{Document, Value, compact_object};

use super::wire::{self, Told};
use crate::support::World;

const RECORDING: &str = "../../../shared/data/ef-hybridrow-samples.json";
const SAMPLES: usize = 40;

#[test]
fn recorded_batches_of_ef_core_are_answered() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    let Ok(recording) = std::fs::read(&path) else {
        #[allow(clippy::explicit_write, reason = "of a test that passes nobody sees `eprintln`")]
        writeln!(std::io::stderr(), "skipped: there is no {}", path.display()).unwrap();
        return;
    };
    let recording = Value::parse(&recording).unwrap();
    let samples = recording.as_array().unwrap();
    assert_eq!(samples.len(), SAMPLES);
    for (at, sample) in samples.iter().enumerate() {
        replay(at, sample);
    }
}

/// Sends one recorded batch into a world of its own.
fn replay(at: usize, sample: &Value) {
    let member = |name: &str| sample.get(name).and_then(Value::as_str).unwrap();
    let (uri, body) = (member("uri"), STANDARD.decode(member("body_base64")).unwrap());
    let headers = sample.get("headers").and_then(Value::as_object).unwrap();
    let mut rows = items(&body);
    let deletes = rows.iter().filter(|row| row.item.is_none()).count();
    let first = rows.remove(0);
    let key = first.key.clone().or_else(|| {
        let header = headers.iter().find(|(name, _)| *name == "x-ms-documentdb-partitionkey");
        header.and_then(|(_, value)| value.as_str()).map(str::to_owned)
    });
    let paths = paths(&key.unwrap(), first.item.as_deref());
    let world = World::new();
    let names: Vec<&str> = uri.split('/').collect();
    world.post("/dbs", &format!(r#"{{"id":"{}"}}"#, names[2])).expect(201);
    let kind = if paths.contains(',') { "MultiHash" } else { "Hash" };
    let container = format!(
        r#"{{"id":"{}","partitionKey":{{"paths":[{paths}],"kind":"{kind}","version":2}}}}"#,
        names[4]
    );
    world.post(&format!("/dbs/{}/colls", names[2]), &container).expect(201);

    let mut ask = world.ask(Method::POST, uri, body);
    for (name, value) in headers.iter() {
        ask = ask.header(name, value.as_str().unwrap());
    }
    let answer = ask.expect(if deletes > 0 { 207 } else { 200 });
    let results = wire::results(&answer.body);
    assert_eq!(results.len(), rows.len() + 1, "sample {at}");
    // There is nothing to delete in this world.
    let is_right = |told: &Told| match deletes {
        0 => told.status == 201 && told.etag.is_some(),
        _ => told.status == 404 && told.body.is_some(),
    };
    assert!(results.iter().all(is_right), "sample {at}: {results:?}");
    let is_charged = |told: &Told| told.charge.is_some_and(|charge| charge > 0.0);
    assert!(results.iter().all(is_charged), "sample {at}: {results:?}");
    assert!(results.iter().all(|told| told.retry_after_ms.is_none()), "sample {at}: {results:?}");
    let stored = world.get(uri).expect(200).feed("Documents");
    assert_eq!(stored.len(), results.len() - deletes, "sample {at}");
}

/// What is needed of a row: the key and the item that it carries.
struct Row {
    key: Option<String>,
    item: Option<String>,
}

/// The rows of a request that nobody damaged.
fn items(body: &[u8]) -> Vec<Row> {
    let mut rest = &body[10..];
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
        let (row, after) = rest[13..].split_at(length);
        let presence = row[5];
        let mut columns = &row[14..];
        let mut column = |bit: u8| {
            let is_there = presence & 1 << bit != 0;
            is_there.then(|| String::from_utf8(wire::bytes(&mut columns)).unwrap())
        };
        let key = column(2);
        let _ids = [column(3), column(4), column(5)];
        rows.push(Row { key, item: column(6) });
        rest = after;
    }
    rows
}

/// Paths under which the item has the values of the key, in JSON.
fn paths(key: &str, item: Option<&str>) -> String {
    let key = Value::parse(key.as_bytes()).unwrap();
    let text = item.map_or("{}".to_owned(), |item| compact_object(item.as_bytes()).unwrap());
    let members: Vec<(String, Value)> = Document::new(&text)
        .members()
        .map(|(name, raw)| (name.into_owned(), raw.to_value()))
        .collect();
    let mut used = vec!["id".to_owned()];
    let mut path = |part: &Value| {
        let fits = |name: &String, value: &Value| value == part && !used.contains(name);
        let found = members.iter().find(|(name, value)| fits(name, value));
        let name = match found {
            Some((name, _)) => name.clone(),
            None if members.iter().any(|(name, value)| name == "id" && value == part) => {
                "id".to_owned()
            }
            None => "absent".to_owned(),
        };
        used.push(name.clone());
        format!("\"/{name}\"")
    };
    let parts: Vec<String> = key.as_array().unwrap().iter().map(&mut path).collect();
    parts.join(",")
}
