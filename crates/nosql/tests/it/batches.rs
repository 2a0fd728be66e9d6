//! Transactional batches and bulks, as SDKs send them.

use crate::support::{Answer, Ask, PARTITIONS, READONLY, World};

use partita_model::Value;

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = r#"["a"]"#;

pub(crate) fn atomic<'w>(world: &'w World, body: &str) -> Ask<'w> {
    world
        .post(DOCS, body)
        .key(KEY)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-continue-on-error", "False")
}

pub(crate) fn bulk<'w>(world: &'w World, range: &str, body: &str) -> Ask<'w> {
    world
        .post(DOCS, body)
        .header("x-ms-cosmos-is-batch-request", "true")
        .header("x-ms-cosmos-batch-atomic", "false")
        .header("x-ms-cosmos-batch-continue-on-error", "true")
        .header("x-ms-documentdb-partitionkeyrangeid", range)
}

fn number(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_i64)
}

/// The status of each result.
#[track_caller]
pub(crate) fn statuses(answer: &Answer) -> Vec<i64> {
    let body = answer.json();
    let results = body.as_array().unwrap();
    assert_eq!(answer.header("x-ms-item-count"), Some(results.len().to_string().as_str()));
    results.iter().map(|result| number(result, "statusCode").unwrap()).collect()
}

#[test]
fn a_time_to_live_makes_sense_even_where_nothing_expires() {
    let world = World::with_container("400");
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    let key = KEY.replace('"', "\\\"");
    for ttl in ["0", "-2", "0.5"] {
        for operation in [
            format!(r#""operationType":"Create","resourceBody":{{"id":"2","pk":"a","ttl":{ttl}}}"#),
            format!(r#""operationType":"Upsert","resourceBody":{{"id":"1","pk":"a","ttl":{ttl}}}"#),
            format!(
                r#""operationType":"Replace","id":"1","resourceBody":{{"id":"1","pk":"a","ttl":{ttl}}}"#
            ),
            format!(
                r#""operationType":"Patch","id":"1","resourceBody":{{"operations":[
                    {{"op":"set","path":"/ttl","value":{ttl}}}]}}"#
            ),
        ] {
            let whole = atomic(&world, &format!("[{{{operation}}}]")).send();
            assert_eq!(statuses(&whole), [400], "{operation}");
            let single = bulk(&world, "0", &format!(r#"[{{"partitionKey":"{key}",{operation}}}]"#));
            assert_eq!(statuses(&single.send()), [400], "{operation}");
        }
    }
    let read = world.get(&format!("{DOCS}/1")).key(KEY).expect(200);
    assert!(read.json().get("ttl").is_none());
    world.get(&format!("{DOCS}/2")).key(KEY).expect(404);
}

#[test]
fn a_batch_answers_each_operation() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"1","pk":"a","n":1.00,"s":"\u00e4"}},
            {"operationType":"Read","id":"1"},
            {"operationType":"Upsert","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Replace","id":"2","resourceBody":{"id":"2","pk":"a","n":2}},
            {"operationType":"Patch","id":"2","resourceBody":{"operations":[
                {"op":"incr","path":"/n","value":1}],"condition":"from c where c.n = 2"}},
            {"operationType":"Delete","id":"1"}
        ]"#;
        let before: u64 =
            world.get(&format!("{DOCS}/1")).key(KEY).expect(404).header("lsn").map_or(0, number_of);
        let answer = atomic(&world, body).expect(200);
        assert_eq!(statuses(&answer), [201, 200, 201, 200, 200, 204]);
        assert_eq!(answer.header("lsn").map(number_of), Some(before + 1));
        assert!(answer.header("x-ms-session-token").is_some());
        let text = answer.text();
        assert!(text.contains(r#""resourceBody":{"id":"1","pk":"a","n":1.00,"s":"\u00e4","_rid""#));
        assert!(!text.contains("message") && !text.contains("subStatusCode"), "{text}");
        let results = answer.json();
        let last = &results.as_array().unwrap()[4];
        let stored = world.get(&format!("{DOCS}/2")).key(KEY).expect(200);
        assert_eq!(last.get("resourceBody"), Some(&stored.json()));
        assert_eq!(last.get("eTag").and_then(Value::as_str), stored.header("etag"));
        world.get(&format!("{DOCS}/1")).key(KEY).expect(404);
    }
}

fn number_of(text: &str) -> u64 {
    text.parse().unwrap()
}

#[test]
fn a_failed_batch_says_which_operation_it_was() {
    let world = World::with_container("30000");
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    let body = r#"[
        {"operationType":"Create","resourceBody":{"id":"2","pk":"a"}},
        {"operationType":"Create","resourceBody":{"id":"1","pk":"a"}},
        {"operationType":"Delete","id":"1"}
    ]"#;
    let answer = atomic(&world, body).expect(207);
    assert_eq!(statuses(&answer), [424, 409, 424]);
    assert!(answer.text().contains("already exists"), "{}", answer.text());
    assert!(answer.header("x-ms-session-token").is_some() && answer.header("lsn").is_some());
    world.get(&format!("{DOCS}/2")).key(KEY).expect(404);
    let body = r#"[{"operationType":"Create","resourceBody":{"id":"2","pk":"b"}}]"#;
    let answer = atomic(&world, body).expect(207);
    assert_eq!(statuses(&answer), [400]);
    let told = "One or more operations within the batch request have a different partition key \
                value than the request.";
    assert!(answer.text().contains(told), "{}", answer.text());
    for (operation, status, told) in [
        (r#"{"operationType":"Destroy","id":"1"}"#, 400, "'Destroy'"),
        (r#"{"id":"1"}"#, 400, "'operationType' of the operation 0 is missing"),
        (r#"{"operationType":"Read"}"#, 400, "'id' of the operation 0 is missing"),
        (r#"{"operationType":"Read","id":1}"#, 400, "must be a string"),
        (r#"{"operationType":"Create"}"#, 400, "'resourceBody'"),
        (r#"{"operationType":"Create","resourceBody":[]}"#, 400, "expected an object"),
        (r#"{"operationType":"Patch","id":"1","resourceBody":[]}"#, 400, "1 to 10 operations"),
        (r#"{"operationType":"Read","id":"1","ifMatch":"\"x\""}"#, 412, "precondition"),
        (
            r#"{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"},"ifNoneMatch":"*"}"#,
            412,
            "the item exists",
        ),
        (
            r#"{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"},"timeToLiveInSeconds":"5"}"#,
            400,
            "'timeToLiveInSeconds' of the operation 0 must be an integer",
        ),
        (
            r#"{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"},"timeToLiveInSeconds":0}"#,
            400,
            "The input ttl '0' is invalid",
        ),
    ] {
        let answer = atomic(&world, &format!("[{operation}]")).expect(207);
        assert_eq!(statuses(&answer), [status], "{operation}");
        assert!(answer.text().contains(told), "{operation}: {}", answer.text());
    }
}

#[test]
fn a_request_that_is_no_batch_fails_as_a_whole() {
    let world = World::with_container("400");
    atomic(&world, "[]").refused(400, "0", "Batch request has no operations.");
    let operation = r#"{"operationType":"Read","id":"1"}"#;
    let many = format!("[{}]", vec![operation; 101].join(","));
    let told = "Batch request has more operations than what is supported.";
    atomic(&world, &many).refused(400, "0", told);
    atomic(&world, "{}").refused(400, "0", "expected an array");
    atomic(&world, "[1]").refused(400, "0", "operation 0 must be an object");
    atomic(&world, "[{}\n,]").refused(400, "0", "at line 2, column 2");
    let large = format!("[{operation}{}]", " ".repeat(2 * 1024 * 1024));
    let refused = atomic(&world, &large).refused(413, "0", "Request size is too large");
    assert_eq!(refused.member("code"), "RequestEntityTooLarge");
    let mismatch = "Partition key provided either doesn't correspond to definition";
    let two = atomic(&world, &format!("[{operation}]")).key(r#"["a","b"]"#);
    two.refused(400, "1001", mismatch);
    let keyless = atomic(&world, &format!("[{operation}]"));
    keyless.without("x-ms-documentdb-partitionkey").refused(400, "0", "must be supplied");
}

#[test]
fn an_item_in_a_batch_may_be_as_deep_as_alone() {
    let world = World::with_container("400");
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(
            r#"[{{"operationType":"Create","resourceBody":{{"id":"1","pk":"a","d":{open}{close}}}}}]"#
        )
    };
    let answer = atomic(&world, &nested(127)).expect(200).text();
    assert!(answer.starts_with(r#"[{"statusCode":201,"#), "{answer}");
    atomic(&world, &nested(128)).refused(400, "0", "nested deeper");
}

#[test]
fn minimal_results_tell_only_etags() {
    let world = World::with_container("400");
    let body = r#"[
        {"operationType":"Create","resourceBody":{"id":"1","pk":"a"}},
        {"operationType":"Read","id":"1"},
        {"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"},"minimalReturnPreference":false}
    ]"#;
    let answer = atomic(&world, body).header("prefer", "return=minimal").expect(200);
    let with_body: Vec<bool> = answer
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            assert!(result.get("eTag").is_some());
            result.get("resourceBody").is_some()
        })
        .collect();
    assert_eq!(with_body, [false, true, true]);
}

#[test]
fn only_reads_are_for_read_only_keys() {
    let world = World::with_container("400");
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    let read = r#"[{"operationType":"Read","id":"1"}]"#;
    atomic(&world, read).signed_by(READONLY).expect(200);
    let write = r#"[{"operationType":"Delete","id":"1"}]"#;
    atomic(&world, write).signed_by(READONLY).refused(403, "0", "read-only");
}

#[test]
fn a_bulk_answers_each_operation_for_itself() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::with_container(throughput);
        let missing = world.get(&format!("{DOCS}/1")).key(KEY).expect(404);
        let range = missing.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        let body = r#"[
            {"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{"id":"1","pk":"a"}},
            {"operationType":"Create","partitionKey":"[\"a\"]","resourceBody":{"id":"1","pk":"a"}},
            {"operationType":"Read","partitionKey":"[\"a\"]","id":"none"},
            {"operationType":"Upsert","partitionKey":"[\"a\"]","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Upsert","partitionKey":"[\"b\"]","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Delete","partitionKey":"a","id":"1"},
            {"operationType":"Delete","partitionKey":"[\"a\"]","id":"1"}
        ]"#;
        let answer = bulk(&world, range, body).expect(207);
        assert_eq!(statuses(&answer), [201, 409, 404, 201, 400, 400, 204]);
        assert_eq!(number(&answer.json().as_array().unwrap()[4], "subStatusCode"), Some(1001));
        assert_eq!(answer.header("x-ms-documentdb-partitionkeyrangeid"), Some(range));
        let stopped = bulk(&world, range, body)
            .header("x-ms-cosmos-batch-continue-on-error", "false")
            .expect(207);
        assert_eq!(statuses(&stopped), [201, 409, 424, 424, 424, 424, 424]);
        bulk(&world, "99", body).refused(410, "1002", "'99'");
        let nowhere = bulk(&world, range, body).without("x-ms-documentdb-partitionkeyrangeid");
        nowhere.refused(400, "0", "x-ms-documentdb-partitionkeyrangeid");
        if partitions == 5 {
            let other = if range == "0" { "1" } else { "0" };
            let answer = bulk(&world, other, body).expect(207);
            assert_eq!(number(&answer.json().as_array().unwrap()[0], "subStatusCode"), Some(1002));
        }
    }
}

#[test]
fn a_bulk_on_a_container_that_is_gone_says_so_and_no_more() {
    let world = World::with_container("400");
    world.delete("/dbs/d/colls/c").expect(204);
    let body = r#"[{"operationType":"Read","partitionKey":"[\"a\"]","id":"1"}]"#;
    bulk(&world, "0", body).refused(404, "0", "");
    let read = r#"[{"operationType":"Read","id":"1"}]"#;
    atomic(&world, read).refused(404, "1003", "");
}

#[test]
fn a_batch_whose_results_are_too_large_names_the_operation() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let large = format!(r#"{{"id":"1","pk":"a","s":"{}"}}"#, "x".repeat(1_500_000));
        let created = world.post(DOCS, &large).key(KEY).expect(201);
        let read = r#"{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}"#;
        let delete = r#"{"operationType":"Delete","id":"1","partitionKey":"[\"a\"]"}"#;
        let body = format!("[{read},{read},{read},{delete}]");
        let answer = atomic(&world, &body).expect(207);
        assert_eq!(statuses(&answer), [424, 424, 413, 424]);
        let results = answer.json();
        let failed = &results.as_array().unwrap()[2];
        assert_eq!(number(failed, "subStatusCode"), Some(3402));
        world.get(&format!("{DOCS}/1")).key(KEY).expect(200);

        let range = created.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        let answer = bulk(&world, range, &body).expect(207);
        assert_eq!(statuses(&answer), [200, 200, 413, 204]);
        let results = answer.json();
        let failed = &results.as_array().unwrap()[2];
        assert_eq!(number(failed, "subStatusCode"), Some(3402));
    }
}

/// A client of the JavaScript SDK: it sends 100 operations at once, and sleeps for those that are
/// refused one after the other before it sends them again, at most nine times each.
#[test]
fn a_bulk_over_the_throughput_ends_in_time_although_its_client_sleeps_one_by_one() {
    let world = World::throttled();
    world.make_container("400");
    let create = |n: usize| {
        format!(
            r#"{{"operationType":"Create","partitionKey":"[\"{n}\"]","resourceBody":{{"id":"{n}","pk":"{n}","a":"{n}","b":"{n}"}}}}"#
        )
    };
    let mut waiting: Vec<(usize, usize)> = (0..200).map(|n| (n, 0)).collect();
    let mut slept_ms = 0;
    while !waiting.is_empty() {
        let sent: Vec<(usize, usize)> = waiting.drain(..waiting.len().min(100)).collect();
        let operations: Vec<String> = sent.iter().map(|(n, _)| create(*n)).collect();
        let answer = bulk(&world, "0", &format!("[{}]", operations.join(","))).send();
        let results = answer.json();
        let refused = sent.iter().zip(results.as_array().unwrap()).filter(|(_, result)| {
            let status = number(result, "statusCode");
            assert!(matches!(status, Some(201 | 429)), "{result:?}");
            status == Some(429)
        });
        let mut waits = Vec::new();
        for ((n, retries), result) in refused {
            assert!(*retries < 9, "the operation {n} was refused too often");
            waits.push(u64::try_from(number(result, "retryAfterMilliseconds").unwrap()).unwrap());
            waiting.push((*n, retries + 1));
        }
        assert!(waits.iter().all(|wait| *wait == waits[0] && *wait > 0), "{waits:?}");
        let slept: u64 = waits.iter().sum();
        world.clock.advance_millis(slept);
        slept_ms += slept;
    }
    assert!(slept_ms < 8_000, "{slept_ms} ms");
}
