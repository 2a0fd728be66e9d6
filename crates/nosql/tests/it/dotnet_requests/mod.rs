//! Every request that the .NET SDKs sent in their recorded runs is answered so that they go on.
//!
//! The recording (`sdk-requests-dotnet.json`) has requests of the SDKs v2 and v3, of v3 with binary
//! JSON, and of the Table SDK's SQL protocol, each with the answer of the time. It is no part of
//! this repository; where it is not beside it, nothing is replayed, and the test says so.
//!
//! Each run of a client is a *section*: a world of its own, with what the run relied on made
//! before. Requests are signed anew, and what the recording calls its resources (resource ids,
//! ETags, session tokens, continuations) is replaced by our own names for them (`names.rs`). Items
//! that were created in a loop are created again, all of them (`fill.rs`). An answer must have the
//! status and sub-status of the recording, the headers it had, the properties of its body
//! (`checks.rs`), its rows (`rows.rs`) and the results of its batch (`batches.rs`), unless the
//! recorded answer was wrong, which `expected` knows. `LEFT_OUT` lists what is not replayed.

#![allow(clippy::print_stdout, reason = "what was not replayed is listed in the test's output")]

mod batches;
mod checks;
mod fill;
mod names;
mod rows;

use std::io::Write as _;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Method;
use partita_model::{Value, binary_json};

use crate::support::{Answer, World};
use checks::Expectation;
use names::Names;

const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/sdk-requests-dotnet.json");

/// One recorded exchange.
pub(crate) struct Record {
    index: usize,
    client: String,
    kind: String,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    status: u16,
    answer_headers: Vec<(String, String)>,
    answer: Vec<u8>,
}

/// A run of one client: its records, by their places in the recording.
struct Section {
    client: &'static str,
    records: std::ops::RangeInclusive<usize>,
    /// Records of another section that make what this one relies on.
    before: &'static [usize],
    /// What the recording calls resources that were there before, with their paths.
    known: &'static [(&'static str, &'static str)],
}

const SECTIONS: [Section; 6] = [
    Section {
        client: "dotnet-v2-2.11.6",
        records: 0..=132,
        before: &[12, 13, 22, 23],
        known: &[("dRIiMQ==", "/dbs/db"), ("dRIiMcrE9tI=", "/dbs/db/colls/coll")],
    },
    Section { client: "dotnet-v3-3.64.0", records: 133..=520, before: &[136], known: &[] },
    Section {
        client: "dotnet-v3-3.64.0+binary",
        records: 521..=579,
        before: &[136, 142, 150, 151, 176, 187, 192, 193, 214],
        known: &[
            ("pL8m7A==", "/dbs/v3db"),
            ("pL8m7Mh05yo=", "/dbs/v3db/colls/items"),
            ("pL8m7N0vP4c=", "/dbs/v3db/colls/hier"),
        ],
    },
    Section {
        client: "dotnet-v3-3.64.0",
        records: 580..=589,
        before: &[136, 142, 150, 151, 176, 187, 192, 193, 307],
        known: &[],
    },
    Section {
        client: "dotnet-v3-3.64.0-direct",
        records: 590..=597,
        before: &[],
        known: &[("6vLhYw==", "/dbs/shop"), ("6vLhY7tNw98=", "/dbs/shop/colls/orders")],
    },
    Section {
        client: "dotnet-table-1.0.8-cosmos-gateway",
        records: 598..=644,
        before: &[],
        known: &[],
    },
];

/// The record that reads a feed of all versions after an item has expired.
const EXPIRED_IN_FEED: usize = 353;
/// The record that lists the databases of other clients, too.
const OTHER_DATABASES: usize = 139;

#[test]
fn recorded_dotnet_requests_are_answered() {
    let Some(records) = recording() else { return };
    let mut left_out: Vec<(&Record, &'static str)> = Vec::new();
    let mut failures = Vec::new();
    let mut replayed = 0;
    for section in &SECTIONS {
        let mut replay = Replay::new(section, &records);
        for record in &records[section.records.clone()] {
            assert_eq!(record.client, section.client, "record {}", record.index);
            if let Some(reason) = checks::left_out(record) {
                left_out.push((record, reason));
                continue;
            }
            replayed += 1;
            failures.extend(replay.step(record, &records));
        }
    }
    let rest = &records[SECTIONS[SECTIONS.len() - 1].records.end() + 1..];
    left_out.extend(rest.iter().map(|record| (record, checks::left_out(record).unwrap())));
    println!("replayed {replayed} of {} records; left out {}:", records.len(), left_out.len());
    for (record, reason) in &left_out {
        println!("  {} {} {}: {reason}", record.index, record.client, record.kind);
    }
    let listed = checks::LEFT_OUT.iter().flat_map(|(reason, ranges)| {
        ranges.iter().cloned().flatten().map(move |index| (index, *reason))
    });
    let left_out = left_out.iter().map(|(record, reason)| (record.index, *reason));
    assert_eq!(left_out.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
    assert_eq!(replayed, checks::REPLAYED);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The recorded 429 came after 400 RU/s were used up. Elsewhere in these tests time stands still,
/// and throughput with it; here writes go on until one is refused.
#[test]
fn the_recorded_refusal_for_throughput_is_given() {
    let Some(records) = recording() else { return };
    let (container, write) = (&records[495], &records[499]);
    assert_eq!(write.status, 429);
    let world = World::throttled();
    world.post("/dbs", r#"{"id":"v3db"}"#).expect(201);
    let mut names = Names::default();
    send(&world, &mut names, container, container.body.clone().into());
    for n in 0..1000 {
        let body = String::from_utf8_lossy(&write.body).replace("s142", &format!("s{n}"));
        let answer = send(&world, &mut names, write, body.into());
        if answer.status == 429 {
            let recorded = String::from_utf8_lossy(&write.answer);
            let expectation = Expectation::recorded(write);
            let failures = checks::check(write, Some((write, &recorded)), &answer, &expectation);
            assert!(failures.is_empty(), "{failures:?}");
            let wait: f64 = answer.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
            assert!(wait > 0.0);
            return;
        }
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    panic!("400 RU/s were enough for all writes");
}

/// The recording, where it is there.
fn recording() -> Option<Vec<Record>> {
    let Ok(text) = std::fs::read(RECORDING) else {
        #[allow(clippy::explicit_write, reason = "of a test that passes nobody sees `eprintln`")]
        writeln!(std::io::stderr(), "skipped: there is no recording at {RECORDING}").unwrap();
        return None;
    };
    let rows = Value::parse(&text).unwrap();
    Some(rows.as_array().unwrap().iter().enumerate().map(Record::of).collect())
}

impl Record {
    fn of((index, row): (usize, &Value)) -> Record {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        let bytes = |name: &str| BASE64_STANDARD.decode(text(name)).unwrap();
        let headers = |name: &str| {
            let fields = row.get(name).and_then(Value::as_object).unwrap().iter();
            let pair = |(name, value): (&str, &Value)| {
                (name.to_ascii_lowercase(), value.as_str().unwrap().to_owned())
            };
            fields.map(pair).collect()
        };
        let status = row.get("response_status").and_then(Value::as_i64).unwrap();
        Record {
            index,
            client: text("client"),
            kind: text("kind"),
            method: text("method").parse().unwrap(),
            path: text("path"),
            headers: headers("headers"),
            body: bytes("body_base64"),
            status: u16::try_from(status).unwrap(),
            answer_headers: headers("response_headers"),
            answer: bytes("response_body_base64"),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    fn answer_header(&self, name: &str) -> Option<&str> {
        find(&self.answer_headers, name)
    }

    fn is_batch(&self) -> bool {
        self.header("x-ms-cosmos-is-batch-request").is_some()
    }

    fn answer_json(&self) -> Option<Value> {
        Value::parse(&self.answer).ok()
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

/// The body of an answer as JSON, also where it is binary.
fn json_of(answer: &Answer) -> Option<Value> {
    if binary_json::is_binary(&answer.body) {
        return Value::parse(binary_json::to_text(&answer.body).ok()?.as_bytes()).ok();
    }
    Value::parse(&answer.body).ok()
}

/// A section under way.
struct Replay {
    world: World,
    names: Names,
}

impl Replay {
    fn new(section: &Section, records: &[Record]) -> Replay {
        let mut replay = Replay { world: World::new(), names: Names::default() };
        for &index in section.before {
            replay.step(&records[index], records);
        }
        if section.client.ends_with("direct") {
            let key = r#"{"paths":["/tenant"],"kind":"Hash"}"#;
            let container = format!(r#"{{"id":"orders","partitionKey":{key}}}"#);
            replay.world.post("/dbs", r#"{"id":"shop"}"#).expect(201);
            replay.world.post("/dbs/shop/colls", &container).expect(201);
        }
        for (recorded, path) in section.known {
            let own = replay.world.get(path).expect(200).member("_rid");
            replay.names.same(recorded, &own);
        }
        replay
    }

    /// Sends a record's request and compares. What is wrong, in words.
    fn step(&mut self, record: &Record, records: &[Record]) -> Vec<String> {
        self.prepare(record);
        let body = self.body(record);
        let answer = send(&self.world, &mut self.names, record, body);
        let expectation = checks::expected(record, records);
        let model = expectation.model().map(|index| &records[index]);
        let body = model.map_or_else(String::new, |model| {
            self.names.translate(&String::from_utf8_lossy(&model.answer))
        });
        let model = model.map(|model| (model, body.as_str()));
        let failures = checks::check(record, model, &answer, &expectation);
        self.names.learn(record, &answer);
        fill::follow(&self.world, record);
        let what = format!("{} {}: {} {}", record.index, record.kind, record.method, record.path);
        failures.into_iter().map(|failure| format!("{what}: {failure}")).collect()
    }

    /// What has to be so before a request.
    fn prepare(&mut self, record: &Record) {
        if record.kind == "TTL on the item" && record.method == Method::GET {
            self.world.clock.advance_millis(10_000);
        }
        if record.index == EXPIRED_IN_FEED {
            self.world.clock.advance_millis(2_000);
            self.world.settle();
        }
        if record.index == OTHER_DATABASES {
            for id in ["dbshared", "linq", "shop"] {
                self.world.post("/dbs", &format!(r#"{{"id":"{id}"}}"#)).expect(201);
            }
        }
        if let (Some(etag), true) = (record.header("if-none-match"), checks::is_change_feed(record))
        {
            self.names.place_in_feed(&self.world, record, etag);
        }
        if record.path.contains("/leases") && matches!(record.status, 200 | 412) {
            self.make_lease(record);
        }
        // The record before that in which the client learnt the ETag is not in the recording.
        for etag in record.header("if-match").into_iter().filter(|_| record.status < 400) {
            if !self.names.knows(etag) && etag != "*" {
                let mut read = self.world.get(&self.names.translate(&record.path));
                if let Some(key) = record.header("x-ms-documentdb-partitionkey") {
                    read = read.key(&self.names.translate(key));
                }
                let own = read.expect(200).header("etag").unwrap().to_owned();
                self.names.same(etag, &own);
            }
        }
        if record.is_batch() && record.kind.contains("etag") {
            let item = self.world.get("/dbs/v3db/colls/items/docs/bo").key(r#"["pb"]"#).expect(200);
            for etag in batches::etags(&record.body) {
                self.names.same(&etag, item.header("etag").unwrap());
            }
        }
    }

    /// Of a change feed processor's leases the recording has some being made; the others are made
    /// when they are first asked for.
    fn make_lease(&self, record: &Record) {
        let Some(key) = record.header("x-ms-documentdb-partitionkey") else { return };
        let (path, key) = (self.names.translate(&record.path), self.names.translate(key));
        let (container, lease) = path.split_once("/docs/").unwrap();
        if self.world.get(&path).key(&key).send().status == 404 {
            let mut body = match record.body.is_empty() {
                true => self.names.translate(&String::from_utf8_lossy(&record.answer)),
                false => self.names.translate(&String::from_utf8_lossy(&record.body)),
            };
            if !body.contains(lease) {
                body = format!(r#"{{"id":"{lease}"}}"#);
            }
            self.world.post(&format!("{container}/docs"), &body).key(&key).expect(201);
        }
    }

    fn body(&self, record: &Record) -> Bytes {
        match std::str::from_utf8(&record.body) {
            _ if record.is_batch() => batches::translate(&record.body, &self.names).into(),
            Ok(text) => self.names.translate(text).into(),
            Err(_) => record.body.clone().into(),
        }
    }
}

/// Sends a request of the recording with our own names for things, signed anew.
fn send(world: &World, names: &mut Names, record: &Record, body: Bytes) -> Answer {
    let path = names.translate(&record.path);
    let mut ask = world.ask(record.method.clone(), &path, body);
    for (name, value) in &record.headers {
        let own = match name.as_str() {
            "authorization" | "x-ms-date" | "host" | "content-length" => continue,
            "x-ms-session-token" => match names.session(record, value) {
                Some(token) => token,
                None => continue,
            },
            // An hour before the request was sent.
            "if-modified-since" => "Wed, 26 Apr 2017 23:51:12 GMT".to_owned(),
            "if-none-match" if checks::is_change_feed(record) => names.feed_etag(record, value),
            _ => names.translate(value),
        };
        ask = ask.header(name, &own);
    }
    let authorization = record.header("authorization").unwrap_or_default();
    if authorization.contains("resource") {
        return ask.token(names.token()).send();
    }
    if let Some((kind, link)) = names::signed(&path) {
        ask = ask.signing(&kind, &link);
    }
    ask.send()
}
