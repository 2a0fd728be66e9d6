//! Triggers that batches and bulks name, in headers for all writes and in operations for
//! themselves.

use partita_model::Value;

use crate::batches::{atomic, bulk, statuses};
use crate::scripts::trigger;
use crate::support::{Answer, PARTITIONS, READONLY, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = r#"["a"]"#;
const PRE: &str = "x-ms-documentdb-pre-trigger-include";
const POST: &str = "x-ms-documentdb-post-trigger-include";

/// Writes down which operation it was, and that there is one more of them in this batch.
const MARK: &str = r#"function () {
    var body = __.request.getBody();
    body.by = __.request.getOperationType();
    __.request.setBody(body);
}"#;
/// Counts the items that it sees, and refuses those that say so.
const COUNT: &str = r#"function () {
    var written = __.response.getBody();
    if (written && written.bad) throw new Error(409, 'bad one');
    __.queryDocuments(__.getSelfLink(), 'SELECT VALUE COUNT(1) FROM c WHERE c.id != "count"',
        function (error, rows) {
            if (error) throw error;
            __.upsertDocument(__.getSelfLink(), { id: 'count', pk: 'a', n: rows[0] });
        });
}"#;

fn world(throughput: &str) -> World {
    let world = World::with_container(throughput);
    trigger(&world, "mark", "Pre", "All", MARK);
    trigger(&world, "count", "Post", "All", COUNT);
    trigger(&world, "creates", "Pre", "Create", MARK);
    world
}

fn bodies(answer: &Answer) -> Vec<String> {
    let results = answer.json();
    let by = |result: &Value| {
        let body = result.get("resourceBody").and_then(|body| body.get("by"));
        body.and_then(Value::as_str).unwrap_or("-").to_owned()
    };
    results.as_array().unwrap().iter().map(by).collect()
}

fn count(world: &World) -> String {
    let item = world.get(&format!("{DOCS}/count")).key(KEY).expect(200);
    item.json().get("n").unwrap().to_json()
}

#[test]
fn the_headers_of_a_batch_name_triggers_for_all_of_its_writes() {
    for (throughput, _) in PARTITIONS {
        let world = world(throughput);
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"1","pk":"a"}},
            {"operationType":"Read","id":"1"},
            {"operationType":"Upsert","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Replace","id":"2","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Patch","id":"2","resourceBody":[{"op":"set","path":"/v","value":1}]},
            {"operationType":"Delete","id":"1"},
            {"operationType":"Read","id":"count"}
        ]"#;
        let answer = atomic(&world, body).header(PRE, "mark").header(POST, "count").expect(200);
        assert_eq!(statuses(&answer), [201, 200, 201, 200, 200, 204, 200]);
        assert_eq!(bodies(&answer), ["Create", "Create", "Upsert", "Replace", "Replace", "-", "-"]);
        assert_eq!(count(&world), "1", "after the last write");
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(charge > 40.0, "the triggers' own operations are paid, too: {charge}");
    }
}

#[test]
fn an_operation_names_its_own_triggers_and_they_win() {
    for (throughput, _) in PARTITIONS {
        let world = world(throughput);
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"1","pk":"a"},
                "preTriggerInclude":"mark","postTriggerInclude":["count"]},
            {"operationType":"Create","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Upsert","resourceBody":{"id":"3","pk":"a"},
                "preTriggerInclude":["mark"],"postTriggerInclude":null}
        ]"#;
        let answer = atomic(&world, body).expect(200);
        assert_eq!(bodies(&answer), ["Create", "-", "Upsert"]);
        assert_eq!(count(&world), "1", "one item was there when it was counted");
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"4","pk":"a"}},
            {"operationType":"Delete","id":"4","preTriggerInclude":[]},
            {"operationType":"Upsert","resourceBody":{"id":"5","pk":"a"},
                "preTriggerInclude":"mark"}
        ]"#;
        let answer = atomic(&world, body).header(PRE, "creates").expect(200);
        assert_eq!(bodies(&answer), ["Create", "-", "Upsert"]);
    }
}

#[test]
fn a_trigger_that_fails_is_its_operations_result_and_nothing_is_written() {
    for (throughput, _) in PARTITIONS {
        let world = world(throughput);
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"1","pk":"a"}},
            {"operationType":"Create","resourceBody":{"id":"2","pk":"a","bad":true}},
            {"operationType":"Read","id":"1"}
        ]"#;
        let answer = atomic(&world, body).header(POST, "count").expect(207);
        assert_eq!(statuses(&answer), [424, 400, 424]);
        let failed = answer.json().as_array().unwrap()[1].clone();
        assert_eq!(failed.get("subStatusCode").and_then(Value::as_i64), Some(409));
        assert!(failed.get("message").unwrap().to_json().contains("bad one"), "{failed:?}");
        assert!(world.get(DOCS).expect(200).feed("Documents").is_empty());
        for (operation, told) in [
            (r#"{"operationType":"Delete","id":"1"}"#, "Create"),
            (
                r#"{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"},
                    "preTriggerInclude":"nobody"}"#,
                "nobody",
            ),
            (
                r#"{"operationType":"Create","resourceBody":{"id":"1","pk":"a"},
                    "preTriggerInclude":["mark","creates"]}"#,
                "one pre-trigger",
            ),
            (r#"{"operationType":"Read","id":"1","preTriggerInclude":"mark"}"#, "reads"),
            (
                r#"{"operationType":"Delete","id":"1","postTriggerInclude":[1]}"#,
                "'postTriggerInclude' of the operation 0 must be a string or an array",
            ),
            (r#"{"operationType":"Delete","id":"1","preTriggerInclude":{}}"#, "must be a string"),
            (
                r#"{"operationType":"Create","resourceBody":{"id":"1","pk":"b"}}"#,
                "different partition key value",
            ),
        ] {
            let answer = atomic(&world, &format!("[{operation}]")).header(PRE, "creates");
            let answer = answer.expect(207);
            assert_eq!(statuses(&answer), [400], "{operation}");
            assert!(answer.text().contains(told), "{operation}: {}", answer.text());
        }
    }
}

#[test]
fn a_bulk_runs_triggers_with_each_operation_for_itself() {
    for (throughput, _) in PARTITIONS {
        let world = world(throughput);
        let range = world.get(&format!("{DOCS}/1")).key(KEY).expect(404);
        let range = range.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        let body = r#"[
            {"operationType":"Create","resourceBody":{"id":"1","pk":"a"},"partitionKey":"[\"a\"]"},
            {"operationType":"Create","resourceBody":{"id":"2","pk":"a","bad":true},
                "partitionKey":"[\"a\"]"},
            {"operationType":"Upsert","resourceBody":{"id":"3","pk":"a"},"partitionKey":"[\"a\"]",
                "preTriggerInclude":"mark"},
            {"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}
        ]"#;
        let answer = bulk(&world, range, body).header(POST, "count").expect(207);
        assert_eq!(statuses(&answer), [201, 400, 201, 200]);
        assert_eq!(bodies(&answer), ["-", "-", "Upsert", "-"]);
        assert_eq!(count(&world), "2");
    }
}

#[test]
fn who_may_not_write_runs_no_triggers_in_batches_either() {
    let world = world("400");
    let body = r#"[{"operationType":"Create","resourceBody":{"id":"1","pk":"a"}}]"#;
    atomic(&world, body).header(PRE, "mark").signed_by(READONLY).refused(403, "0", "");
    assert!(world.get(DOCS).expect(200).feed("Documents").is_empty());
}
