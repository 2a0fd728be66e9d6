//! Batches and bulks in HybridRow, as the .NET SDK and EF Core send them.

mod recorded;
pub(crate) mod wire;

use http::Method;

use self::wire::{Told, Wanted};
use crate::scripts::trigger;
use crate::support::{Answer, Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = r#"["a"]"#;

const CREATE: i32 = 0;
const PATCH: i32 = 1;
const READ: i32 = 2;
const DELETE: i32 = 4;
const REPLACE: i32 = 5;
const UPSERT: i32 = 20;

fn atomic<'w>(world: &'w World, body: Vec<u8>) -> Ask<'w> {
    world
        .ask(Method::POST, DOCS, body)
        .key(KEY)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-ordered", "True")
}

fn bulk<'w>(world: &'w World, range: &str, body: Vec<u8>) -> Ask<'w> {
    world
        .ask(Method::POST, DOCS, body)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", range)
}

/// The range of the partition key `a`.
fn range(world: &World) -> String {
    let missing = world.get(&format!("{DOCS}/none")).key(KEY).expect(404);
    missing.header("x-ms-documentdb-partitionkeyrangeid").unwrap().to_owned()
}

/// Results, each of which says what it cost.
#[track_caller]
fn results(answer: &Answer) -> Vec<Told> {
    let results = wire::results(&answer.body);
    assert_eq!(answer.header("x-ms-item-count"), Some(results.len().to_string().as_str()));
    // What was not done costs nothing.
    let is_charged = |told: &Told| told.charge.is_some_and(|c| c > 0.0 || told.status >= 400);
    assert!(results.iter().all(is_charged), "{results:?}");
    results
}

fn statuses(results: &[Told]) -> Vec<i32> {
    results.iter().map(|told| told.status).collect()
}

fn text(told: &Told) -> &str {
    std::str::from_utf8(told.body.as_deref().unwrap_or_default()).unwrap()
}

#[test]
fn headers_name_triggers_for_the_rows_of_a_batch() {
    let world = World::with_container("400");
    let source = "function () { var b = __.request.getBody(); b.by = 1; __.request.setBody(b); }";
    trigger(&world, "mark", "Pre", "Create", source);
    let pre = "x-ms-documentdb-pre-trigger-include";
    let create = Wanted::new(CREATE).body(r#"{"id":"1","pk":"a"}"#);
    let body = wire::request(&[create, Wanted::new(READ).id("1")]);
    let told = results(&atomic(&world, body).header(pre, "mark").expect(200));
    assert_eq!(statuses(&told), [201, 200]);
    assert!(told.iter().all(|told| text(told).contains(r#""by":1"#)), "{told:?}");
    let body = wire::request(&[Wanted::new(DELETE).id("1")]);
    let told = results(&atomic(&world, body).header(pre, "mark").expect(207));
    assert_eq!(statuses(&told), [400]);
    assert!(text(&told[0]).contains("'mark' is for the operation Create"), "{told:?}");
}

#[test]
fn a_batch_is_answered_in_rows() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
        let operations = [
            Wanted::new(CREATE).body(r#"{"id":"1", "pk":"a","n":1.00}"#),
            Wanted::new(READ).id("1"),
            Wanted::new(UPSERT).body(r#"{"id":"2","pk":"a"}"#),
            Wanted { minimal: Some(true), ..Wanted::new(REPLACE) }
                .id("2")
                .body(r#"{"id":"2","pk":"a","n":2}"#),
            Wanted::new(PATCH).id("2").body(patch),
            Wanted::new(DELETE).id("1"),
        ];
        let answer = atomic(&world, wire::request(&operations)).expect(200);
        let results = results(&answer);
        assert_eq!(statuses(&results), [201, 200, 201, 200, 200, 204]);
        assert!(answer.header("x-ms-session-token").is_some());
        assert!(text(&results[0]).starts_with(r#"{"id":"1","pk":"a","n":1.00,"_rid":""#));
        assert_eq!(results[1].body, results[0].body);
        assert_eq!((results[3].body.is_some(), results[3].etag.is_some()), (false, true));
        assert_eq!((results[5].body.is_some(), results[5].etag.is_some()), (false, false));
        let stored = world.get(&format!("{DOCS}/2")).key(KEY).expect(200);
        assert_eq!(text(&results[4]), stored.text());
        assert_eq!(results[4].etag.as_deref(), stored.header("etag"));
        let total: f64 = results.iter().filter_map(|told| told.charge).sum();
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!((total - charge).abs() < 0.05, "{total} {charge}");

        let etag = stored.header("etag").unwrap().to_owned();
        let conditional = [
            Wanted { if_none_match: Some(etag.clone()), ..Wanted::new(READ).id("2") },
            Wanted { if_match: Some(etag), ..Wanted::new(DELETE).id("2") },
        ];
        let answer = atomic(&world, wire::request(&conditional)).expect(200);
        assert_eq!(statuses(&wire::results(&answer.body)), [304, 204]);
    }
}

#[test]
fn a_failed_batch_tells_why_in_its_row() {
    let world = World::with_container("400");
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    let stale = Wanted { if_match: Some("\"x\"".to_owned()), ..Wanted::new(DELETE).id("1") };
    let ttl = Wanted { ttl_seconds: Some(0), ..Wanted::new(DELETE).id("1") };
    for (operation, status, code, told) in [
        (Wanted::new(CREATE).body(r#"{"id":"1","pk":"a"}"#), 409, "Conflict", "already exists"),
        (Wanted::new(CREATE).body(r#"{"id":"3","pk":"b"}"#), 400, "BadRequest", "different"),
        (Wanted::new(CREATE).body("{"), 400, "BadRequest", "invalid JSON"),
        (Wanted::new(CREATE), 400, "BadRequest", "'resourceBody' of the operation 1 is missing"),
        (Wanted::new(READ), 400, "BadRequest", "'id' of the operation 1 is missing"),
        (Wanted::new(READ).id("none"), 404, "NotFound", ""),
        (stale, 412, "PreconditionFailed", "precondition"),
        (ttl, 400, "BadRequest", "The input ttl '0' is invalid"),
    ] {
        let first = Wanted::new(CREATE).body(r#"{"id":"2","pk":"a"}"#);
        let body = wire::request(&[first, operation.clone(), Wanted::new(DELETE).id("1")]);
        let results = results(&atomic(&world, body).expect(207));
        assert_eq!(statuses(&results), [424, status, 424], "{operation:?}");
        assert_eq!((&results[0].body, &results[2].body), (&None, &None));
        let reason = partita_model::Value::parse(results[1].body.as_deref().unwrap()).unwrap();
        let member = |name: &str| reason.get(name).unwrap().as_str().unwrap().to_owned();
        assert_eq!(member("code"), code);
        assert!(member("message").contains(told), "{operation:?}: {reason:?}");
        world.get(&format!("{DOCS}/2")).key(KEY).expect(404);
    }
}

#[test]
fn what_is_no_batch_is_refused_in_json() {
    let world = World::with_container("400");
    atomic(&world, wire::request(&[])).refused(400, "0", "Batch request has no operations.");
    let read = Wanted::new(READ).id("1");
    let many = wire::request(&vec![read.clone(); 101]);
    let told = "Batch request has more operations than what is supported.";
    atomic(&world, many).refused(400, "0", told);
    let mut broken = wire::request(&[read]);
    broken[30] ^= 1;
    atomic(&world, broken).refused(400, "0", "checksum");
    atomic(&world, wire::request(&[Wanted::new(3)])).refused(400, "0", "unknown operationType 3");
    atomic(&world, vec![0x81, 0, 0]).refused(400, "0", "no valid HybridRow");
    // The SDK fills a bulk a little beyond two megabytes, and the service takes it.
    let sized = |bytes: usize| {
        let item = |length: usize| {
            let filled = format!(r#"{{"id":"1","pk":"a","s":"{}"}}"#, "x".repeat(length));
            Wanted::new(UPSERT).key(KEY).body(filled)
        };
        let empty = wire::request(&[item(1_100_000), item(1_000_000)]).len();
        wire::request(&[item(1_100_000), item(1_000_000 + bytes - empty)])
    };
    let fits = sized(2_202_010);
    assert_eq!(fits.len(), 2_202_010);
    bulk(&world, &range(&world), fits).expect(200);
    let large = bulk(&world, &range(&world), sized(2_202_011));
    let refused = large.refused(413, "0", "Request size is too large");
    assert_eq!(refused.member("code"), "RequestEntityTooLarge");
    // A transactional batch is a request like any other.
    atomic(&world, sized(2_097_152)).expect(200);
    atomic(&world, sized(2_097_153)).refused(413, "0", "Request size is too large");
}

#[test]
fn a_bulk_answers_each_row_for_itself() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let range = range(&world);
        // {"id":"3","pk":"a"} in binary JSON.
        let binary = b"\x80\xEA\x08\x2C\x813\x82pk\x81a";
        let operations = [
            Wanted::new(CREATE).key(KEY).body(r#"{"id":"1","pk":"a"}"#),
            Wanted::new(CREATE).key(KEY).body(r#"{"id":"1","pk":"a"}"#),
            Wanted::new(READ).key(KEY).id("none"),
            Wanted::new(UPSERT).key(KEY).body(binary),
            Wanted::new(UPSERT).key(r#"["b"]"#).body(r#"{"id":"2","pk":"a"}"#),
            Wanted::new(CREATE).key(KEY).body(b"\x80\xEA\x09\x2C"),
            Wanted::new(DELETE).key(KEY).id("1"),
        ];
        let answer = bulk(&world, &range, wire::request(&operations)).expect(207);
        let results = results(&answer);
        assert_eq!(statuses(&results), [201, 409, 404, 201, 400, 400, 204]);
        assert!(text(&results[1]).starts_with(r#"{"code":"Conflict","message":"Entity"#));
        assert!(text(&results[3]).starts_with(r#"{"id":"3","pk":"a","_rid":"#));
        assert_eq!(results[4].substatus, 1001);
        assert!(text(&results[5]).contains("invalid binary JSON"), "{}", text(&results[5]));
        bulk(&world, "99", wire::request(&operations)).refused(410, "1002", "'99'");
    }
}

#[test]
fn a_bulk_whose_results_are_too_large_answers_what_fits() {
    let world = World::with_container("400");
    let large = format!(r#"{{"id":"1","pk":"a","s":"{}"}}"#, "x".repeat(1_500_000));
    world.post(DOCS, &large).key(KEY).expect(201);
    let read = Wanted::new(READ).key(KEY).id("1");
    let body = wire::request(&[read.clone(), read.clone(), read]);
    let answer = bulk(&world, &range(&world), body.clone()).expect(207);
    let bulk_results = results(&answer);
    assert_eq!(statuses(&bulk_results), [200, 200, 413]);
    assert_eq!(bulk_results[2].substatus, 3402);
    assert!(answer.body.len() <= 4 * 1024 * 1024);
    let atomic_results = results(&atomic(&world, body).expect(207));
    assert_eq!(statuses(&atomic_results), [424, 424, 413]);
}

#[test]
fn a_throttled_row_says_how_long_to_wait() {
    let world = World::throttled();
    world.make_container("400");
    let create = |n: usize| {
        let body = format!(r#"{{"id":"{n}","pk":"a"}}"#);
        Wanted::new(CREATE).key(KEY).body(body)
    };
    let mut waiting: Vec<usize> = (0..100).collect();
    for _ in 0..9 {
        let operations: Vec<Wanted> = waiting.iter().copied().map(create).collect();
        let answer = bulk(&world, "0", wire::request(&operations)).send();
        let (sent, results) = (std::mem::take(&mut waiting), results(&answer));
        for (n, told) in sent.into_iter().zip(&results) {
            match (told.status, told.substatus) {
                (201, 0) => assert_eq!(told.retry_after_ms, None),
                (429, 3200) => waiting.push(n),
                _ => panic!("{told:?}"),
            }
        }
        let Some(refused) = results.iter().find(|told| told.status == 429) else { break };
        assert!(text(refused).contains("Request rate is large"), "{}", text(refused));
        let mut all = results.iter().filter(|told| told.status == 429);
        assert!(all.all(|told| told.retry_after_ms == refused.retry_after_ms));
        let wait = refused.retry_after_ms.unwrap();
        assert!((1..=2_000).contains(&wait), "{wait}");
        // They come again together, and there is room for all of them.
        world.clock.advance_millis(wait.into());
    }
    assert!(waiting.is_empty(), "{waiting:?}");
}

#[test]
fn a_row_for_another_range_is_told_to_ask_there() {
    let world = World::with_container("30000");
    let range = range(&world);
    let range_of = |key: &str| {
        let missing = world.get(&format!("{DOCS}/none")).key(key).expect(404);
        missing.header("x-ms-documentdb-partitionkeyrangeid").unwrap().to_owned()
    };
    let keys = (0..).map(|n| format!(r#"["k{n}"]"#));
    let other = keys.into_iter().find(|key| range_of(key) != range).unwrap();
    let name = other.trim_matches(['[', ']', '"']);
    let operations = [
        Wanted::new(UPSERT).key(KEY).body(r#"{"id":"1","pk":"a"}"#),
        Wanted::new(UPSERT).key(&other).body(format!(r#"{{"id":"1","pk":"{name}"}}"#)),
        Wanted::new(READ).key(KEY).id("1"),
    ];
    let results = results(&bulk(&world, &range, wire::request(&operations)).expect(207));
    assert_eq!(statuses(&results), [201, 410, 200]);
    assert_eq!(results[1].substatus, 1002);
    world.get(&format!("{DOCS}/1")).key(&other).expect(404);
}

#[test]
fn a_time_to_live_in_a_row_takes_effect() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1}"#;
    world.post("/dbs/d/colls", body).expect(201);
    let write = |id: &str, seconds: Option<i32>| {
        let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
        Wanted { ttl_seconds: seconds, ..Wanted::new(CREATE) }.key(KEY).body(body)
    };
    let rows = [write("1", Some(10)), write("2", None)];
    atomic(&world, wire::request(&rows)).expect(200);
    let rows = [write("3", Some(10)), write("4", Some(60))];
    bulk(&world, "0", wire::request(&rows)).expect(200);
    let there = |date: &str| -> Vec<bool> {
        let read = |id| world.get(&format!("{DOCS}/{id}")).key(KEY).header("x-ms-date", date);
        ["1", "2", "3", "4"].map(|id| read(id).send().status == 200).to_vec()
    };
    assert_eq!(there("Thu, 27 Apr 2017 00:51:12 GMT"), [true; 4]);
    world.clock.advance_millis(11_000);
    assert_eq!(there("Thu, 27 Apr 2017 00:51:23 GMT"), [false, true, false, true]);
}
