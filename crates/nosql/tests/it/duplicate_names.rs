//! Objects that have two members of the same name: the last one wins, wherever the item comes from,
//! or none of it is taken where the server was told to be strict.

use http::Method;

use crate::hybrid_row::wire::{self, Wanted};
use crate::support::{Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KEY: &str = r#"["a"]"#;

/// An item whose id, key and time to live are decided by the last members of these names.
const TWICE: &str = r#"{"id":"no","pk":"b","id":"1","n":{"x":1,"x":[{"y":1,"y":2.0}]},"pk":"a"}"#;
const ONCE: &str = r#"{"id":"1","n":{"x":[{"y":2.0}]},"pk":"a","_rid":""#;

/// `{"id":"no","pk":"a","id":"1","n":"x"}` in binary JSON.
const BINARY: &[u8] = b"\x80\xEA\x10\x2C\x82no\x82pk\x81a\x2C\x811\x81n\x81x";

fn batch<'w>(world: &'w World, body: Vec<u8>) -> Ask<'w> {
    world
        .ask(Method::POST, DOCS, body)
        .key(KEY)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
}

/// A bulk, which goes to the range of the key.
fn bulk<'w>(world: &'w World, body: Vec<u8>) -> Ask<'w> {
    let missing = world.get(&format!("{DOCS}/none")).key(KEY).expect(404);
    let range = missing.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
    world
        .ask(Method::POST, DOCS, body)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", range)
}

/// All ways to write the item `TWICE` or `BINARY` into a world in which it is not yet.
fn ways(world: &World) -> [(&'static str, Ask<'_>); 8] {
    fn upsert(ask: Ask<'_>) -> Ask<'_> {
        ask.key(KEY).header("x-ms-documentdb-is-upsert", "True")
    }
    let operation = format!(r#"[{{"operationType":"Upsert","resourceBody":{TWICE}}}]"#);
    let quoted = KEY.replace('"', "\\\"");
    let keyed = format!(
        r#"[{{"operationType":"Upsert","partitionKey":"{quoted}","resourceBody":{TWICE}}}]"#
    );
    let patch = r#"{"operations":[{"op":"set","path":"/n","value":{"x":1,"x":2}}]}"#;
    [
        ("an item", upsert(world.post(DOCS, TWICE))),
        ("a batch", batch(world, operation.into_bytes())),
        ("a bulk", bulk(world, keyed.into_bytes())),
        (
            "a bulk in HybridRow",
            bulk(world, wire::request(&[Wanted::new(20).key(KEY).body(TWICE)])),
        ),
        ("HybridRow", batch(world, wire::request(&[Wanted::new(20).body(TWICE)]))),
        ("binary JSON", upsert(world.ask(Method::POST, DOCS, BINARY.to_vec()))),
        ("binary JSON in HybridRow", batch(world, wire::request(&[Wanted::new(20).body(BINARY)]))),
        ("a patch", world.patch(&format!("{DOCS}/1"), patch).key(KEY)),
    ]
}

#[test]
fn the_last_of_duplicate_names_wins() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for (way, ask) in ways(&world) {
            let answer = ask.send();
            assert!(matches!(answer.status, 200 | 201), "{way}: {}", answer.text());
            let read = world.get(&format!("{DOCS}/1")).key(KEY).expect(200).text();
            let start = match way {
                "an item" | "a batch" | "a bulk" | "a bulk in HybridRow" | "HybridRow" => ONCE,
                "a patch" => r#"{"pk":"a","id":"1","n":{"x":2},"#,
                _ => r#"{"pk":"a","id":"1","n":"x","_rid":""#,
            };
            assert!(read.starts_with(start), "{way}: {read}");
        }
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 1);
    }
}

#[test]
fn a_procedure_is_called_with_the_last_one() {
    let world = World::with_container("400");
    let source = "function (a) { __.response.setBody(JSON.stringify(a)); }";
    let script = format!(r#"{{"id":"s","body":"{source}"}}"#);
    world.post("/dbs/d/colls/c/sprocs", &script).expect(201);
    let arguments = r#"[{"a":1,"b":{"c":1,"c":[{"d":1,"d":2}]},"a":3}]"#;
    let told = world.post("/dbs/d/colls/c/sprocs/s", arguments).key(KEY).expect(200);
    assert_eq!(told.json().as_str(), Some(r#"{"b":{"c":[{"d":2}]},"a":3}"#));
}

#[test]
fn unique_keys_times_to_live_and_triggers_see_the_last_one() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1}"#;
    world.post("/dbs/d/colls", container).expect(201);
    let create = |body: &str| world.post(DOCS, body).key(KEY).send().status;
    assert_eq!(create(r#"{"id":"1","pk":"a","u":1,"u":2,"ttl":"never","ttl":5}"#), 201);
    assert_eq!(create(r#"{"id":"2","pk":"a","u":2}"#), 409);
    assert_eq!(create(r#"{"id":"2","pk":"a","u":1,"ttl":5,"ttl":"never"}"#), 400);
    assert_eq!(create(r#"{"id":"2","pk":"a","u":1}"#), 201);
    world.clock.advance_millis(6_000);
    world.get(&format!("{DOCS}/1")).key(KEY).expect(404);

    let source = "function () { var request = getContext().getRequest(); var item = \
                  request.getBody(); item.names = Object.keys(item).join(); \
                  request.setBody(item); }";
    let trigger =
        format!(r#"{{"id":"t","triggerType":"Pre","triggerOperation":"All","body":"{source}"}}"#);
    world.post("/dbs/d/colls/c/triggers", &trigger).expect(201);
    let written = world
        .post(DOCS, r#"{"id":"no","pk":"a","id":"3","u":3}"#)
        .key(KEY)
        .header("x-ms-documentdb-pre-trigger-include", "t")
        .expect(201);
    assert_eq!((written.member("id"), written.member("names")), ("3".into(), "pk,id,u".into()));
}

#[test]
fn rights_are_looked_at_with_the_last_one() {
    let world = World::with_container("400");
    world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    let permission = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c/docs/1",
        "resourcePartitionKey":["a"]}"#;
    let token = world.post("/dbs/d/users/u/permissions", permission).expect(201).member("_token");
    let replace = |body: &str| world.put(&format!("{DOCS}/1"), body).key(KEY).token(&token).send();
    assert_eq!(replace(r#"{"id":"1","pk":"a","id":"2"}"#).status, 403, "it would be renamed");
    assert_eq!(replace(r#"{"id":"2","pk":"a","id":"1"}"#).status, 200);
}

#[test]
fn a_strict_server_takes_no_duplicate_names() {
    let world = World::strict();
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(KEY).expect(201);
    for (way, ask) in ways(&world) {
        let answer = ask.expect(400);
        assert!(answer.text().contains("duplicate name '"), "{way}: {}", answer.text());
    }
    let arguments = r#"[{"a":1,"a":2}]"#;
    let run = world.post("/dbs/d/colls/c/sprocs/none", arguments).key(KEY);
    run.refused(400, "0", "duplicate name 'a'");
    let item = r#"{"id":"2","pk":"a","n":[{"x":1},{"x":1}]}"#;
    world.post(DOCS, item).key(KEY).expect(201);
    world.post(DOCS, "{").key(KEY).refused(400, "0", "expected a member's name");
}
