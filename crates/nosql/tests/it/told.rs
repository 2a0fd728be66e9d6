//! What answers tell beside their bodies, and the sentences that suites of SDKs look for.

use partita_model::Value;

use crate::batches::{atomic, bulk, statuses};
use crate::scripts::{procedure, run, trigger};
use crate::support::{Answer, Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const ITEM: &str = "/dbs/d/colls/c/docs/1";
const A: &str = r#"["a"]"#;
const SESSION: &str = "x-ms-session-token";
const LINK: &str = "https://aka.ms/cosmosdb-tsg-not-found";

fn world_with_item(throughput: &str) -> World {
    let world = World::with_container(throughput);
    world.post(DOCS, r#"{"id":"1","pk":"a","n":{"m":1}}"#).key(A).expect(201);
    world
}

#[track_caller]
fn contains(answer: &Answer, texts: &[&str]) {
    let message = answer.member("message");
    for text in texts {
        assert!(message.contains(text), "'{text}' is not in: {message}");
    }
}

#[test]
fn errors_of_items_have_the_sentences_of_the_service() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let body = r#"{"id":"1","pk":"a"}"#;
        let missing = [
            "Resource Not Found",
            "Entity with the specified id does not exist in the system.",
            LINK,
        ];
        let gone = format!("{DOCS}/2");
        contains(&world.get(&gone).key(A).expect(404), &missing);
        contains(&world.delete(&gone).key(A).expect(404), &missing);
        contains(&world.put(&gone, r#"{"id":"2","pk":"a"}"#).key(A).expect(404), &missing);
        contains(&world.get("/dbs/d/colls/x").expect(404), &["Resource Not Found", LINK]);
        contains(&world.get("/dbs/x/colls/x/docs/1").key(A).expect(404), &[LINK]);
        world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
        for gone in [
            "/dbs/x",
            "/dbs/d/colls/c/sprocs/x",
            "/dbs/d/colls/c/triggers/x",
            "/dbs/d/colls/c/udfs/x",
            "/dbs/d/users/x",
            "/dbs/d/users/u/permissions/x",
            "/dbs/d/users/x/permissions/x",
        ] {
            contains(&world.get(gone).expect(404), &["Resource Not Found", LINK]);
            contains(&world.delete(gone).expect(404), &["Resource Not Found", LINK]);
        }
        let unmet = [
            "Operation cannot be performed because one of the specified precondition is not met",
            "One of the specified pre-condition is not met",
        ];
        contains(&world.put(ITEM, body).key(A).header("if-match", "\"x\"").expect(412), &unmet);
        contains(&world.delete("/dbs/d").header("if-match", "\"x\"").expect(412), &unmet);
        contains(
            &world.post(DOCS, body).key(r#"["b"]"#).expect(400),
            &[
                "PartitionKey extracted from document doesn't match the one specified in the header.",
            ],
        );
        contains(
            &world.post(DOCS, body).key(A).expect(409),
            &["Entity with the specified id already exists in the system."],
        );
        for (patch, name) in [
            (r#"[{"op":"add","path":"/no/such","value":1}]"#, "no"),
            (r#"[{"op":"replace","path":"/n/none","value":1}]"#, "none"),
            (r#"[{"op":"remove","path":"/none"}]"#, "none"),
            (r#"[{"op":"set","path":"/n/m/x","value":1}]"#, "x"),
        ] {
            let text = format!("no path found beyond: '{name}'");
            contains(&world.patch(ITEM, patch).key(A).expect(400), &[&text]);
        }
        let session =
            world.get(ITEM).key(A).header(SESSION, "0:-1#99,1:-1#99,2:-1#99,3:-1#99,4:-1#99");
        let refused = session.refused(404, "1002", "The read/write session is not available");
        contains(&refused, &["The read session is not available for the input session token. "]);
        assert!(!refused.member("message").contains(LINK));
    }
}

#[test]
fn a_unique_key_that_is_taken_is_told_in_the_words_of_the_service() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"]},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;
    world.post("/dbs/d/colls", body).expect(201);
    world.post(DOCS, r#"{"id":"1","pk":"a","u":1}"#).key(A).expect(201);
    let taken = world.post(DOCS, r#"{"id":"2","pk":"a","u":1}"#).key(A);
    taken.refused(409, "0", "Unique index constraint violation.");
}

/// An upsert of the item in a bulk on its range.
fn bulk_upsert(world: &World) -> Ask<'_> {
    let range = world.get("/dbs/d/colls/c/docs/none").key(A).expect(404);
    let range = range.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
    let body = r#"[{"operationType":"Upsert","partitionKey":"[\"a\"]",
        "resourceBody":{"id":"1","pk":"a"}}]"#;
    let ask = world.post(DOCS, body).header("x-ms-cosmos-is-batch-request", "True");
    let ask = ask.header("x-ms-cosmos-batch-continue-on-error", "True");
    ask.header("x-ms-documentdb-partitionkeyrangeid", range)
}

#[test]
fn a_malformed_session_token_refuses_a_write_and_a_future_one_does_not() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let gone = format!("{DOCS}/2");
        let body = r#"{"id":"1","pk":"a"}"#;
        let batch = r#"[{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"}}]"#;
        let both = r#"[{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"}},
            {"operationType":"Read","id":"1"}]"#;
        let script = r#"{"id":"s","body":"function f() { }","triggerType":"Pre",
            "triggerOperation":"All"}"#;
        world.post("/dbs/d/colls/c/sprocs", script).expect(201);
        world.post("/dbs/d/colls/c/triggers", script).expect(201);
        let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
        let upsert = ("x-ms-documentdb-is-upsert", "True");
        let trigger = ("x-ms-documentdb-pre-trigger-include", "s");
        let atomic = |body: &str| {
            let ask = world.post(DOCS, body).header("x-ms-cosmos-is-batch-request", "True");
            ask.header("x-ms-cosmos-batch-atomic", "True")
        };
        // The status with a good token; where nothing is there, the token comes first all the same.
        let writes = || {
            [
                (409, world.post(DOCS, body)),
                (200, world.post(DOCS, body).header(upsert.0, upsert.1)),
                (200, world.put(ITEM, body)),
                (200, world.put(ITEM, body).header(trigger.0, trigger.1)),
                (404, world.put(&gone, r#"{"id":"2","pk":"a"}"#)),
                (200, world.patch(ITEM, patch)),
                (404, world.patch(&gone, patch)),
                (404, world.delete(&gone)),
                (200, atomic(batch)),
                (200, atomic(both)),
                (200, world.post("/dbs/d/colls/c/sprocs/s", "[]")),
                (200, bulk_upsert(&world)),
                (201, world.post(DOCS, r#"{"id":"new","pk":"a"}"#)),
                (
                    200,
                    world
                        .post("/dbs/d/colls/c/operations/partitionkeydelete", "")
                        .signing("colls", "dbs/d/colls/c"),
                ),
            ]
        };
        for bad in ["garbage", "0:x", "0:-1#1,nonsense", "\"", "0:-1#1#x"] {
            for (_, write) in writes() {
                let answer = write.key(A).header(SESSION, bad).expect(400);
                contains(&answer, &["The session token provided '", "' is invalid"]);
            }
            let read = world.get(ITEM).key(A).header(SESSION, bad).expect(400);
            contains(&read, &["The session token provided '", "' is invalid"]);
        }
        let future = "0:-1#999,1:-1#999,2:-1#999,3:-1#999,4:-1#999";
        for (status, write) in writes() {
            write.key(A).header(SESSION, future).expect(status);
        }
        world.post(DOCS, body).key(A).expect(201);
        let reads = atomic(r#"[{"operationType":"Read","id":"1"}]"#).key(A);
        reads.header(SESSION, future).refused(404, "1002", "");
        // Under another consistency nobody looks at it.
        let eventual = world.put(ITEM, body).key(A).header("x-ms-consistency-level", "Eventual");
        eventual.header(SESSION, "garbage").expect(200);
    }
}

#[test]
fn answers_about_items_and_scripts_tell_quota_and_usage() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
        for answer in [
            world.get(ITEM).key(A).expect(200),
            world.put(ITEM, r#"{"id":"1","pk":"a"}"#).key(A).expect(200),
            world.patch(ITEM, patch).key(A).header("prefer", "return=minimal").expect(200),
        ] {
            assert!(answer.header("x-ms-resource-quota").unwrap().contains("documentSize=2048;"));
            assert!(answer.header("x-ms-resource-usage").unwrap().contains("documentsCount="));
            assert_eq!(answer.header("x-ms-current-write-quorum"), Some("3"));
            assert_eq!(answer.header("x-ms-current-replica-set-size"), Some("4"));
            assert!(answer.header("x-ms-content-path").is_some());
        }
        let missing = world.get(&format!("{DOCS}/2")).key(A).expect(404);
        assert_eq!(missing.header("x-ms-content-path"), None);
        assert_eq!(missing.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
        assert!(missing.header(SESSION).is_some());

        for (segment, name, most) in [
            ("triggers", "triggers", 100),
            ("udfs", "functions", 50),
            ("sprocs", "storedProcedures", 100),
        ] {
            let feed = format!("/dbs/d/colls/c/{segment}");
            for n in 1..=2 {
                let body = format!(
                    r#"{{"id":"s{n}","body":"function f() {{ }}","triggerType":"Pre",
                        "triggerOperation":"All"}}"#
                );
                let created = world.post(&feed, &body).expect(201);
                let quota = format!("{name}={most};");
                assert_eq!(created.header("x-ms-resource-quota"), Some(quota.as_str()));
                let usage = format!("{name}={n};");
                assert_eq!(created.header("x-ms-resource-usage"), Some(usage.as_str()));
            }
            let read = world.get(&format!("{feed}/s1")).expect(200);
            assert_eq!(read.header("x-ms-resource-usage"), Some(format!("{name}=2;").as_str()));
        }
    }
}

#[test]
fn containers_that_share_throughput_say_so() {
    let world = World::new();
    let shared = world.post("/dbs", r#"{"id":"shared"}"#).header("x-ms-offer-throughput", "400");
    shared.expect(201);
    world.post("/dbs", r#"{"id":"own"}"#).expect(201);
    let body = |id: &str| format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"]}}}}"#);
    for (database, throughput, told) in
        [("shared", None, Some("true")), ("shared", Some("400"), None), ("own", Some("400"), None)]
    {
        let name = throughput.unwrap_or("none");
        let ask = world.post(&format!("/dbs/{database}/colls"), &body(name));
        let created = match throughput {
            Some(ru) => ask.header("x-ms-offer-throughput", ru),
            None => ask,
        };
        let path = format!("/dbs/{database}/colls/{name}");
        for answer in [
            created.expect(201),
            world.get(&path).expect(200),
            world.put(&path, &body(name)).expect(200),
        ] {
            assert_eq!(answer.header("x-ms-share-throughput"), told, "{path}");
        }
    }
}

#[test]
fn what_is_created_comes_with_a_session_that_is_available() {
    for (throughput, _) in PARTITIONS {
        let world = World::new();
        let database = world.post("/dbs", r#"{"id":"d"}"#).expect(201);
        assert!(database.header(SESSION).unwrap().starts_with("0:-1#"));
        assert_eq!(world.get("/dbs/d").expect(200).header(SESSION), None);
        let body = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
        let ask = world.post("/dbs/d/colls", body).header("x-ms-offer-throughput", throughput);
        let container = ask.expect(201);
        let token = container.header(SESSION).unwrap();
        assert_eq!(token, "0:-1#1");
        // Clients send it with the first read.
        world.get(DOCS).header(SESSION, token).expect(200);
        world.get(ITEM).key(A).header(SESSION, token).refused(404, "0", "");
    }
}

#[test]
fn the_account_tells_of_media() {
    let world = World::new();
    let account = world.get("/").expect(200);
    for name in ["x-ms-max-media-storage-usage-mb", "x-ms-media-storage-usage-mb"] {
        assert!(account.header(name).unwrap().parse::<u64>().is_ok(), "{name}");
    }
}

/// Says that nobody wants the system's properties of items.
const BARE: (&str, &str) = ("x-ms-exclude-system-properties", "True");

#[test]
fn system_properties_are_left_out_where_nobody_wants_them() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let bare = r#"{"id":"1","pk":"a","n":{"m":1}}"#;
        let read = world.get(ITEM).key(A).header(BARE.0, BARE.1).expect(200);
        assert_eq!(read.text(), bare);
        assert!(read.header("etag").is_some());
        let written = world.put(ITEM, bare).key(A).header(BARE.0, BARE.1).expect(200);
        assert_eq!(written.text(), bare);
        let feed = world.get(DOCS).header(BARE.0, BARE.1).expect(200).feed("Documents");
        assert_eq!(feed, [Value::parse(bare.as_bytes()).unwrap()]);
        let whole = world.get(ITEM).key(A).header(BARE.0, "False").expect(200);
        assert!(whole.json().get("_etag").is_some());
        world.get(ITEM).key(A).header(BARE.0, "maybe").refused(400, "0", BARE.0);
    }
}

#[test]
fn system_properties_are_left_out_of_what_batches_tell() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let body = r#"[{"operationType":"Read","id":"1"},
            {"operationType":"Upsert","resourceBody":{"id":"2","pk":"a"}},
            {"operationType":"Delete","id":"2"}]"#;
        let batch = || world.post(DOCS, body).key(A).header("x-ms-cosmos-is-batch-request", "True");
        let atomic = batch().header("x-ms-cosmos-batch-atomic", "True").header(BARE.0, BARE.1);
        let results = atomic.expect(200).json();
        let [read, upserted, deleted] = results.as_array().unwrap() else { panic!("{results:?}") };
        let body = |result: &Value| result.get("resourceBody").map(Value::to_json);
        assert_eq!(body(read).unwrap(), r#"{"id":"1","pk":"a","n":{"m":1}}"#);
        assert_eq!(body(upserted).unwrap(), r#"{"id":"2","pk":"a"}"#);
        assert_eq!(body(deleted), None);
        assert!(read.get("eTag").is_some() && upserted.get("eTag").is_some());
        let bulk = r#"[{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}]"#;
        let range = world.get(ITEM).key(A).expect(200);
        let range = range.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        let bulk = world.post(DOCS, bulk).header("x-ms-cosmos-is-batch-request", "True");
        let bulk = bulk.header("x-ms-documentdb-partitionkeyrangeid", range);
        let told = bulk.header(BARE.0, BARE.1).expect(200).text();
        assert!(told.contains(r#""resourceBody":{"id":"1","pk":"a","n":{"m":1}}}]"#), "{told}");
    }
}

#[test]
fn system_properties_are_left_out_of_rows_that_are_items_and_of_no_others() {
    let bare = r#"{"id":"1","pk":"a","n":{"m":1}}"#;
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let etag = world.get(ITEM).key(A).expect(200).member("_etag");
        let rows = |text: &str| {
            let body = format!(r#"{{"query":"{text}"}}"#);
            let ask = world.post(DOCS, &body).header("x-ms-documentdb-isquery", "True").key(A);
            let ask = ask.header("content-type", "application/query+json").header(BARE.0, BARE.1);
            ask.expect(200).feed("Documents").iter().map(Value::to_json).collect::<Vec<_>>()
        };
        for text in [
            "select * from c",
            "select value c from c",
            "select value x from root as x where x._etag > '' order by x._ts",
        ] {
            assert_eq!(rows(text), [bare], "{text}");
        }
        for (text, expected) in [
            ("select c._etag from c", format!(r#"{{"_etag":{}}}"#, Value::from(&*etag).to_json())),
            ("select value c._etag from c", Value::from(&*etag).to_json()),
            ("select value {_ts: 1, id: c.id} from c", r#"{"_ts":1,"id":"1"}"#.into()),
        ] {
            assert_eq!(rows(text), [expected], "{text}");
        }
        // Clients that merge need the whole of what they asked for.
        let merged = rows("select c._rid, [{item: c.id}] as orderByItems, c as payload from c");
        assert!(merged[0].contains(&etag.replace('"', "\\\"")), "{merged:?}");
    }
}

#[test]
fn system_properties_are_left_out_of_the_change_feed_but_not_its_place() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_item(throughput);
        let feed = || {
            let ask = world.get(DOCS).key(A).header("a-im", "Incremental Feed");
            ask.header(BARE.0, BARE.1)
        };
        let answer = feed().expect(200);
        let lsn = answer.header("lsn").unwrap();
        let item = format!(r#"[{{"id":"1","pk":"a","n":{{"m":1}},"_lsn":{lsn}}}]"#);
        assert!(answer.text().contains(&item), "{}", answer.text());
        let format = "x-ms-cosmos-changefeed-wire-format-version";
        let wrapped = feed().header(format, "2021-09-15").expect(200).text();
        let item = r#"{"current":{"id":"1","pk":"a","n":{"m":1}},"metadata":{"lsn":"#;
        assert!(wrapped.contains(item), "{wrapped}");
        for (text, expected) in [
            ("select * from c", r#"[{"id":"1","pk":"a","n":{"m":1},"_lsn":"#),
            ("select value {_ts: c.n.m} from c", r#"[{"_ts":1}]"#),
        ] {
            let query = world.post(DOCS, &format!(r#"{{"query":"{text}"}}"#)).key(A);
            let query = query.header("a-im", "Incremental Feed").header(BARE.0, BARE.1);
            let query = query.header("x-ms-documentdb-isquery", "True");
            let told = query.header("content-type", "application/query+json").expect(200).text();
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}

#[test]
fn replacing_what_is_not_there_is_not_found_whatever_it_is_replaced_by() {
    let misfit = |id: &str| format!(r#"{{"id":"{id}","pk":"other"}}"#);
    let source = r#"function (id) {
        __.replaceDocument(__.getAltLink() + '/docs/' + id, { id: id, pk: 'other' },
            function (error) { __.response.setBody(error.number); });
    }"#;
    let cases = [("gone", 404, "0", "Resource Not Found"), ("there", 400, "1001", "doesn't match")];
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let there = world.post(DOCS, r#"{"id":"there","pk":"a"}"#).key(A).expect(201);
        let range = there.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        trigger(&world, "idle", "Pre", "All", "function () { }");
        procedure(&world, "replace", source);
        for (id, status, substatus, text) in cases {
            let alone = || world.put(&format!("{DOCS}/{id}"), &misfit(id)).key(A);
            let triggered = alone().header("x-ms-documentdb-pre-trigger-include", "idle");
            alone().refused(status, substatus, text);
            triggered.refused(status, substatus, text);
            let operation = format!(
                r#"[{{"operationType":"Replace","id":"{id}","partitionKey":"[\"a\"]",
                    "resourceBody":{}}}]"#,
                misfit(id)
            );
            let together = || bulk(&world, range, &operation);
            assert_eq!(statuses(&together().expect(207)), [i64::from(status)]);
            let triggered = together().header("x-ms-documentdb-pre-trigger-include", "idle");
            assert_eq!(statuses(&triggered.expect(207)), [i64::from(status)]);
            let told = run(&world, "replace", &format!(r#"["{id}"]"#)).expect(200).text();
            assert_eq!(told, status.to_string());
            // In a transactional batch another key is wrong whatever is there.
            assert_eq!(statuses(&atomic(&world, &operation).expect(207)), [400]);
        }
    }
}

#[test]
fn ids_that_no_path_can_name_are_stored_and_found_by_other_ways() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for (id, path) in
            [("a/b", "a%2Fb"), ("/", "%2F"), ("a\\\\b", "a%5Cb"), ("x/../y", "x%2F..%2Fy")]
        {
            let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
            let created = world.post(DOCS, &body).key(A).expect(201);
            for ask in [
                world.get(&format!("{DOCS}/{path}")),
                world.put(&format!("{DOCS}/{path}"), &body),
                world.patch(
                    &format!("{DOCS}/{path}"),
                    r#"{"operations":[{"op":"set","path":"/n","value":1}]}"#,
                ),
                world.delete(&format!("{DOCS}/{path}")),
            ] {
                ask.key(A).refused(404, "0", "Entity with the specified id does not exist");
            }
            let text = r#"{"query":"select * from c where c.id = @id","parameters":[{"name":"@id",
                "value":"ID"}]}"#
                .replace("ID", id);
            let query = world.post(DOCS, &text).key(A).header("x-ms-documentdb-isquery", "True");
            let rows = query.header("content-type", "application/query+json").expect(200);
            assert_eq!(rows.feed("Documents").len(), 1, "{id}");
            let link = format!("/{}", created.member("_self"));
            assert_eq!(world.get(&link).key(A).expect(200).body, created.body);
            let batch = format!(
                r#"[{{"operationType":"Read","id":"{id}"}},{{"operationType":"Replace","id":"{id}",
                    "resourceBody":{{"id":"{id}","pk":"a","n":1}}}}]"#
            );
            let batched =
                world.post(DOCS, &batch).key(A).header("x-ms-cosmos-is-batch-request", "True");
            batched.header("x-ms-cosmos-batch-atomic", "True").expect(200);
            world.post(DOCS, &body).key(A).refused(409, "0", "already exists");
            world.delete(&link).key(A).expect(204);
        }
        // Control characters are no trouble: a path writes them in hexadecimal.
        for (id, path) in
            [("a\\tb", "a%09b"), ("a\\r\\nb", "a%0D%0Ab"), ("\\n", "%0A"), ("q?#", "q%3F%23")]
        {
            let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
            let created = world.post(DOCS, &body).key(A).expect(201);
            let path = format!("{DOCS}/{path}");
            assert_eq!(world.get(&path).key(A).expect(200).body, created.body, "{path}");
            world.delete(&path).key(A).expect(204);
        }
    }
}
