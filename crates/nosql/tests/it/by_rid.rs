//! Everything that can be created, read, changed and deleted, by paths of resource ids.
//!
//! Clients that remember `_self` know no names. Each row of the table is one step in the life of a
//! resource, with the answer that the same step has by name.

use http::Method;
use partita_model::Value;

use crate::support::{PARTITIONS, PRIMARY, World};

const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["a"]"#);
const WRAPPED: &str = r#"{"id":"k","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
    "wrappedDataEncryptionKey":"AAEC","keyWrapMetadata":{"type":"t","name":"n","value":"v"}}"#;

/// A kind of resource below a parent: where it is made, as what, as what it is replaced, whether
/// there are upserts, what an upsert makes, and how many of them can be deleted.
struct Kind {
    segment: &'static str,
    feed: &'static str,
    body: &'static str,
    changed: Option<&'static str>,
    upserted: Option<&'static str>,
    deletes: bool,
}

const IN_DATABASE: [Kind; 3] = [
    Kind {
        segment: "colls",
        feed: "DocumentCollections",
        body: r#"{"id":"n","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
        changed: Some(
            r#"{"id":"n","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
                "defaultTtl":7}"#,
        ),
        upserted: None,
        deletes: true,
    },
    Kind {
        segment: "users",
        feed: "Users",
        body: r#"{"id":"n"}"#,
        changed: Some(r#"{"id":"renamed"}"#),
        upserted: Some(r#"{"id":"m"}"#),
        deletes: true,
    },
    Kind {
        segment: "clientencryptionkeys",
        feed: "ClientEncryptionKeys",
        body: WRAPPED,
        changed: Some(WRAPPED),
        upserted: None,
        deletes: false,
    },
];

const SCRIPT: &str = r#"{"id":"n","body":"function f() { return 1; }","triggerType":"Pre",
    "triggerOperation":"All"}"#;
const SCRIPT_CHANGED: &str = r#"{"id":"renamed","body":"function g() { return 2; }",
    "triggerType":"Pre","triggerOperation":"All"}"#;
const SCRIPT_UPSERTED: &str = r#"{"id":"m","body":"function f() { return 1; }",
    "triggerType":"Post","triggerOperation":"All"}"#;

const fn script(segment: &'static str, feed: &'static str) -> Kind {
    let (changed, upserted) = (Some(SCRIPT_CHANGED), Some(SCRIPT_UPSERTED));
    Kind { segment, feed, body: SCRIPT, changed, upserted, deletes: true }
}

const IN_CONTAINER: [Kind; 4] = [
    script("sprocs", "StoredProcedures"),
    script("triggers", "Triggers"),
    script("udfs", "UserDefinedFunctions"),
    Kind {
        segment: "docs",
        feed: "Documents",
        body: r#"{"id":"n","pk":"a"}"#,
        changed: Some(r#"{"id":"renamed","pk":"a","n":2}"#),
        upserted: Some(r#"{"id":"m","pk":"a"}"#),
        deletes: true,
    },
];

fn link(of: &Value) -> String {
    format!("/{}", of.get("_self").and_then(Value::as_str).unwrap().trim_end_matches('/'))
}

/// Lives a resource's life below this link.
fn live(world: &World, parent: &str, kind: &Kind) {
    let ask = |method: Method, path: &str, body: &str| {
        let ask = world.ask(method, path, body.to_owned());
        if kind.segment == "docs" { ask.header(KEY.0, KEY.1) } else { ask }
    };
    let feed = format!("{parent}/{}", kind.segment);
    let count = || ask(Method::GET, &feed, "").expect(200).feed(kind.feed).len();
    let before = count();

    let created = ask(Method::POST, &feed, kind.body).expect(201);
    let one = link(&created.json());
    assert!(one.starts_with(&feed), "{one} is in {feed}");
    assert_eq!(ask(Method::GET, &one, "").expect(200).body, created.body);
    ask(Method::POST, &feed, kind.body).expect(409);
    if let Some(upserted) = kind.upserted {
        let upsert = |body: &str| ask(Method::POST, &feed, body).header(UPSERT.0, UPSERT.1);
        upsert(kind.body).expect(200);
        upsert(upserted).expect(201);
        upsert(upserted).expect(200);
        assert_eq!(count(), before + 2, "{feed}");
    }
    if let Some(changed) = kind.changed {
        let replaced = ask(Method::PUT, &one, changed).expect(200);
        assert_eq!(replaced.member("_rid"), created.member("_rid"));
        let id = Value::parse(changed.as_bytes()).unwrap();
        assert_eq!(Some(replaced.member("id").as_str()), id.get("id").and_then(Value::as_str));
        assert_eq!(ask(Method::GET, &one, "").expect(200).body, replaced.body);
        let stale = created.header("etag").unwrap();
        ask(Method::PUT, &one, changed).header("if-match", stale).expect(412);
    }
    if kind.deletes {
        ask(Method::DELETE, &one, "").expect(204);
        ask(Method::GET, &one, "").expect(404);
        ask(Method::DELETE, &one, "").expect(404);
    }
}

#[test]
fn every_resource_lives_by_resource_ids_as_it_does_by_name() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let database = link(&world.get("/dbs/d").expect(200).json());
        let container = link(&world.get("/dbs/d/colls/c").expect(200).json());
        for kind in &IN_DATABASE {
            live(&world, &database, kind);
        }
        for kind in &IN_CONTAINER {
            live(&world, &container, kind);
        }
        let user = world.post(&format!("{database}/users"), r#"{"id":"u"}"#).expect(201);
        let permission = Kind {
            segment: "permissions",
            feed: "Permissions",
            body: r#"{"id":"n","permissionMode":"All","resource":"dbs/d/colls/c"}"#,
            changed: Some(r#"{"id":"renamed","permissionMode":"Read","resource":"dbs/d/colls/c"}"#),
            upserted: Some(
                r#"{"id":"m","permissionMode":"Read","resource":"dbs/d/colls/c",
                    "resourcePartitionKey":["a"]}"#,
            ),
            deletes: true,
        };
        live(&world, &link(&user.json()), &permission);
        world.delete(&link(&user.json())).expect(204);

        // Patches, procedures and offers are written in ways of their own.
        let docs = format!("{container}/docs");
        let item = world.post(&docs, r#"{"id":"p","pk":"a"}"#).key(KEY.1).expect(201);
        let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
        let patched = world.patch(&link(&item.json()), patch).key(KEY.1).expect(200);
        assert_eq!(patched.json().get("n").and_then(Value::as_i64), Some(1));
        let body =
            r#"{"id":"run","body":"function f() { getContext().getResponse().setBody(3); }"}"#;
        let procedure = world.post(&format!("{container}/sprocs"), body).expect(201);
        let ran = world.post(&link(&procedure.json()), "[]").key(KEY.1).expect(200);
        assert_eq!(ran.text(), "3");
        let offers = world.get("/offers").expect(200).feed("Offers");
        let own = Some(container.as_str().trim_start_matches('/'));
        let is_own = |offer: &&Value| {
            let resource = offer.get("resource").and_then(Value::as_str);
            resource.map(|link| link.trim_end_matches('/')) == own
        };
        let offer = offers.iter().find(is_own).unwrap();
        let (from, to) = (format!(":{throughput},"), ":700,");
        let changed = world.put(&link(offer), &offer.to_json().replacen(&from, to, 1)).expect(200);
        let read = world.get(&link(offer)).expect(200);
        assert_eq!(changed.json().get("content"), read.json().get("content"));
        let content = read.json().get("content").cloned().unwrap();
        assert_eq!(content.get("offerThroughput").and_then(Value::as_i64), Some(700));

        let world = world.restarted(PRIMARY);
        world.delete(&container).expect(204);
        world.get(&container).refused(404, "0", "");
        world.delete(&database).expect(204);
        world.get(&database).refused(404, "0", "");
    }
}

#[test]
fn a_container_made_by_resource_id_is_what_the_answer_says() {
    let world = World::new();
    let database = world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let colls = format!("{}/colls", link(&database.json()));
    let rid = database.member("_rid");
    for (name, throughput, ranges) in [("one", "400", 1), ("five", "30000", 5)] {
        let body = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"]}}}}"#);
        let created = world
            .post(&colls, &body)
            .header("x-ms-offer-throughput", throughput)
            .signing("colls", &rid.to_lowercase())
            .expect(201);
        assert_eq!(created.member("id"), name);
        assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/d"));
        assert_eq!(world.get(&format!("/dbs/d/colls/{name}")).expect(200).body, created.body);
        let found = world.get(&format!("{}/pkranges", link(&created.json()))).expect(200);
        assert_eq!(found.feed("PartitionKeyRanges").len(), ranges);
    }
    // One whose name is another's resource id is found, too.
    let body = format!(r#"{{"id":"{rid}"}}"#);
    let namesake = world.post("/dbs", &body).expect(201);
    assert_ne!(namesake.member("_rid"), rid);
}
