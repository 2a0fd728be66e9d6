//! Every request that the Python and the JavaScript SDK sent for about 45 calls each, as recorded
//! from them, is answered as the SDK expects.
//!
//! The recordings were made against a stub that always gave the same resource ids, ETags and
//! session tokens; those are replaced by the real ones. Some of the items they read are made
//! before. The transcripts say what each request was answered with, for 501 which feature was
//! named, and for a query to be run in parts that it is one. There is one for a container of one
//! partition and one for five: there the client must merge.

use std::fmt::Write;

use partita_model::Value;

use crate::support::{Answer, World};

/// What the stub called things.
const STUB_CONTAINER_RID: &str = "AAAAAYAAAAE=";
const STUB_DATABASE_RID: &str = "AAAAAQ==";
const STUB_OFFER: &str = "o1";

/// A replay under way: the real names of what the stub made up.
struct Replay {
    world: World,
    throughput: &'static str,
    session: Option<String>,
    ranges_etag: Option<String>,
}

#[test]
fn recorded_python_requests_are_answered() {
    for (throughput, expected) in [
        ("400", include_str!("../data/sdk-requests-py-1.transcript")),
        ("30000", include_str!("../data/sdk-requests-py-5.transcript")),
    ] {
        let replay = Replay::new(throughput);
        let transcript = replay.run(include_bytes!("../data/sdk-requests-py.json"));
        assert_eq!(transcript, expected, "actual:\n{transcript}");
    }
}

#[test]
fn recorded_javascript_requests_are_answered() {
    for (throughput, expected) in [
        ("400", include_str!("../data/sdk-requests-js-1.transcript")),
        ("30000", include_str!("../data/sdk-requests-js-5.transcript")),
    ] {
        let replay = Replay::new(throughput);
        replay.world.post("/dbs", r#"{"id":"my db"}"#).expect(201);
        let transcript = replay.run(include_bytes!("../data/sdk-requests-js.json"));
        assert_eq!(transcript, expected, "actual:\n{transcript}");
    }
}

impl Replay {
    fn new(throughput: &'static str) -> Replay {
        Replay { world: World::new(), throughput, session: None, ranges_etag: None }
    }

    fn run(mut self, recording: &[u8]) -> String {
        let recording = Value::parse(recording).unwrap();
        let mut transcript = String::new();
        for (index, row) in recording.as_array().unwrap().iter().enumerate() {
            let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("account");
            let (call, method, path) = (text("sdkCall"), text("method"), text("path"));
            let answer = self.send(method, path, row);
            write!(transcript, "{index} {call}: {method} {path} → {}", answer.status).unwrap();
            if answer.status == 501 {
                let message = answer.member("message");
                let feature = message.split("yet: ").nth(1).unwrap().split('.').next().unwrap();
                write!(transcript, " {feature}").unwrap();
            }
            if answer.header("x-ms-substatus") == Some("1004") {
                transcript.push_str(" to be run in parts");
            }
            if let Some(count) = answer.header("x-ms-item-count") {
                write!(transcript, " with {count}").unwrap();
            }
            if answer.header("x-ms-continuation").is_some() {
                transcript.push_str(", and more to come");
            }
            transcript.push('\n');
            self.learn(method, path, &answer);
        }
        transcript
    }

    fn send(&self, method: &str, path: &str, row: &Value) -> Answer {
        let offer = self.offer_of("/dbs/my%20db");
        let path = path.replace(STUB_OFFER, &offer);
        let body = row.get("body").and_then(Value::as_str).unwrap();
        let body =
            self.translate(body).replace(&format!("\"{STUB_OFFER}\""), &format!("\"{offer}\""));
        let bulk = Value::parse(body.as_bytes()).ok().and_then(|body| {
            let first = body.as_array()?.first()?.get("partitionKey")?.as_str()?.to_owned();
            Some(first)
        });
        let mut ask = self.world.ask(method.parse().unwrap(), &path, body);
        if path.ends_with("partitionkeydelete") {
            ask = ask.signing("colls", "dbs/my db/colls/coll");
        }
        for (name, value) in row.get("headers").and_then(Value::as_object).unwrap().iter() {
            let value = value.as_str().unwrap();
            let real = match name {
                "x-ms-session-token" => self.session.clone().unwrap(),
                "if-none-match" if value == "\"pk1\"" => self.ranges_etag.clone().unwrap(),
                "if-match" => self.etag_of(&path),
                "x-ms-cosmos-intended-collection-rid" if path.contains("/hpk") => {
                    self.rid_of("/dbs/my%20db/colls/hpk")
                }
                "x-ms-cosmos-offer-autopilot-settings" if self.throughput == "30000" => {
                    value.replace("4000", "30000")
                }
                // Bulks go to the range of their keys, which the stub numbered in its own way.
                "x-ms-documentdb-partitionkeyrangeid" if bulk.is_some() => {
                    self.range_of(bulk.as_deref().unwrap())
                }
                // So does the prefix of a hierarchical key, which lies in the last range.
                "x-ms-documentdb-partitionkeyrangeid" if path.contains("/hpk") => {
                    let last = if self.throughput == "400" { "0" } else { "4" };
                    last.to_owned()
                }
                _ => self.translate(value),
            };
            ask = ask.header(name, &real);
        }
        ask.send()
    }

    /// After the container exists, what later requests expect to find in it.
    fn learn(&mut self, method: &str, path: &str, answer: &Answer) {
        if let Some(token) = answer.header("x-ms-session-token") {
            self.session = Some(token.to_owned());
        }
        if path.contains("pkranges") && answer.status == 200 {
            self.ranges_etag = answer.header("etag").map(str::to_owned);
        }
        if (method, path.trim_end_matches('/'), answer.status)
            == ("POST", "/dbs/my%20db/colls", 201)
        {
            let key = r#"{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
            let body = format!(r#"{{"id":"hpk","partitionKey":{key}}}"#);
            self.world
                .post("/dbs/my%20db/colls", &body)
                .header("x-ms-offer-throughput", self.throughput)
                .expect(201);
            for (key, item) in [
                (r#"["a"]"#, r#"{"id":"a b_é","pk":"a"}"#),
                (r#"["a"]"#, r#"{"id":"1","pk":"a","n":5}"#),
                (r#"["b"]"#, r#"{"id":"2","pk":"b"}"#),
            ] {
                self.world.post("/dbs/my%20db/colls/coll/docs", item).key(key).expect(201);
            }
        }
    }

    /// The range id of a partition key.
    fn range_of(&self, key: &str) -> String {
        let missing = self.world.get("/dbs/my%20db/colls/coll/docs/none").key(key).expect(404);
        missing.header("x-ms-documentdb-partitionkeyrangeid").unwrap().to_owned()
    }

    /// Replaces the stub's resource ids by the real ones, where the resources exist.
    fn translate(&self, text: &str) -> String {
        if !text.contains(STUB_DATABASE_RID) && !text.contains(STUB_CONTAINER_RID) {
            return text.to_owned();
        }
        let container = self.rid_of("/dbs/my%20db/colls/coll");
        let database = self.rid_of("/dbs/my%20db");
        text.replace(STUB_CONTAINER_RID, &container).replace(STUB_DATABASE_RID, &database)
    }

    fn rid_of(&self, path: &str) -> String {
        self.world.get(path).expect(200).member("_rid")
    }

    fn etag_of(&self, item: &str) -> String {
        self.world.get(item).key(r#"["a"]"#).expect(200).header("etag").unwrap().to_owned()
    }

    /// The offer of a database, or nothing that exists.
    fn offer_of(&self, owner: &str) -> String {
        let read = self.world.get(owner).send();
        if read.status != 200 {
            return STUB_OFFER.to_owned();
        }
        let rid = read.member("_rid");
        let offers = self.world.get("/offers").expect(200).feed("Offers");
        let text = |offer: &Value, name: &str| offer.get(name)?.as_str().map(str::to_owned);
        let own = offers.iter().find(|offer| text(offer, "offerResourceId").as_ref() == Some(&rid));
        own.and_then(|offer| text(offer, "id")).unwrap_or(STUB_OFFER.to_owned())
    }
}
