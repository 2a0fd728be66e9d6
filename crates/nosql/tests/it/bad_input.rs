//! What clients get wrong: the service's status, a clear message, and no change.

use http::Method;
use partita_model::{KEY_MISMATCH, limits};

use crate::support::{PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";

#[test]
fn malformed_bodies_are_refused_with_their_position() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for (body, text) in [
            ("", ""),
            (r#"{"id":"1","pk":"a""#, "column 19"),
            ("[1]", ""),
            (r#"{"id":1,"pk":"a"}"#, "id"),
            (r#"{"pk":"a"}"#, "id"),
            (r#"{"id":"","pk":"a"}"#, "id"),
            (r#"{"id":"1","pk":"a"} x"#, "column 21"),
        ] {
            let answer = world.post(DOCS, body).key(r#"["a"]"#).refused(400, "0", text);
            assert_eq!(answer.member("code"), "BadRequest", "{body}");
        }
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 0);
    }
}

#[test]
fn deep_and_large_bodies_are_refused() {
    let world = World::with_container("400");
    let nested = |depth: usize| {
        format!(r#"{{"id":"1","pk":"a","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth))
    };
    world.post(DOCS, &nested(limits::DEPTH_MAX)).key(r#"["a"]"#).refused(400, "0", "128");
    world.post(DOCS, &nested(limits::DEPTH_MAX - 1)).key(r#"["a"]"#).expect(201);

    let sized = |bytes: usize| {
        let frame = r#"{"id":"2","pk":"a","x":""}"#.len();
        format!(r#"{{"id":"2","pk":"a","x":"{}"}}"#, "x".repeat(bytes - frame))
    };
    let large = world.post(DOCS, &sized(limits::REQUEST_BYTES_MAX + 1)).key(r#"["a"]"#);
    let answer = large.refused(413, "0", "Request size is too large");
    assert_eq!(answer.member("code"), "RequestEntityTooLarge");
    world.post(DOCS, &sized(limits::REQUEST_BYTES_MAX)).key(r#"["a"]"#).expect(201);
}

#[test]
fn bad_headers_are_refused_by_name_and_value() {
    let world = World::with_container("400");
    for (name, value) in [
        ("x-ms-version", "2021-01-01"),
        ("x-ms-consistency-level", "Strong"),
        ("x-ms-consistency-level", "Weak"),
        ("x-ms-max-item-count", "-2"),
        ("x-ms-max-item-count", "ten"),
    ] {
        world.get("/dbs").header(name, value).refused(400, "0", value);
    }
    let quota = "x-ms-documentdb-populatequotainfo";
    world.get("/dbs/d/colls/c").header(quota, "perhaps").refused(400, "0", "perhaps");
    let create = || world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#);
    create().header("x-ms-indexing-directive", "Sometimes").refused(400, "0", "Sometimes");
    create().header("x-ms-documentdb-is-upsert", "maybe").refused(400, "0", "maybe");
    world
        .post("/dbs", r#"{"id":"x"}"#)
        .header("x-ms-consistency-level", "Strong")
        .refused(400, "0", "stronger");
    for key in ["", "a", r#"[["a"]]"#, r#"[{"x":1}]"#, "[NaN]", r#"{"a":1}"#] {
        create().key(key).expect(400);
    }
    create().key(r#"["b"]"#).refused(400, "1001", KEY_MISMATCH);
    create().key(r#"["a","b"]"#).refused(400, "1001", KEY_MISMATCH);
    world.get(DOCS).header("x-ms-continuation", "junk").refused(
        400,
        "0",
        "Invalid Continuation Token",
    );
    create().expect(201);
    world
        .put(&format!("{DOCS}/1"), r#"{"id":"1","pk":"b"}"#)
        .key(r#"["a"]"#)
        .refused(400, "1001", "");
    let renamed = world.put(&format!("{DOCS}/1"), r#"{"id":"2","pk":"a"}"#).key(r#"["a"]"#);
    assert_eq!(renamed.expect(200).member("id"), "2");
}

#[test]
fn a_prefix_of_a_hierarchical_key_reads_feeds_and_no_items() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;
    world.post("/dbs/d/colls", body).header("x-ms-offer-throughput", "30000").expect(201);
    for n in 0..4 {
        let body = format!(r#"{{"id":"1","t":"a","u":{n}}}"#);
        world.post(DOCS, &body).key(&format!(r#"["a",{n}]"#)).expect(201);
    }
    world.get(&format!("{DOCS}/1")).key(r#"["a",2]"#).expect(200);
    world.get(&format!("{DOCS}/1")).key(r#"["a"]"#).refused(400, "1001", KEY_MISMATCH);
    assert_eq!(world.get(DOCS).key(r#"["a"]"#).expect(200).feed("Documents").len(), 4);
    assert_eq!(world.get(DOCS).key(r#"["a",3]"#).expect(200).feed("Documents").len(), 1);
    assert_eq!(world.get(DOCS).key(r#"["b"]"#).expect(200).feed("Documents").len(), 0);
}

#[test]
fn bad_names_are_refused() {
    let world = World::with_container("400");
    let long = "x".repeat(256);
    for name in ["", "a/b", r"a\\b", "a?b", "a#b", "a ", long.as_str()] {
        world.post("/dbs", &format!(r#"{{"id":"{name}"}}"#)).refused(400, "0", "");
        let body = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"]}}}}"#);
        world.post("/dbs/d/colls", &body).refused(400, "0", "");
    }
    let missing =
        "The input content is invalid because the required properties - 'id; ' - are missing";
    world.post("/dbs", "{}").refused(400, "0", missing);
    world.post("/dbs", "[]").refused(400, "0", "must be a JSON object");
    world.post("/dbs", r#"{"id":7}"#).refused(400, "0", "must be a string");
    world.post("/dbs", r#"{"id":"x""#).refused(400, "0", "column");
    assert_eq!(world.get("/dbs").expect(200).feed("Databases").len(), 1);
}

#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let world = World::with_container("400");
    for path in ["/x", "/dbs/d/x", "/dbs/d/colls/c/x", "/dbs/d/colls/c/docs/1/x/y/z/w"] {
        world.get(path).refused(404, "0", "no resource with this path");
    }
    for (method, path) in [
        (Method::POST, "/"),
        (Method::DELETE, "/dbs"),
        (Method::PUT, "/dbs/d"),
        (Method::PATCH, "/dbs/d/colls"),
        (Method::POST, "/dbs/d/colls/c"),
        (Method::PUT, "/dbs/d/colls/c/docs"),
        (Method::POST, "/dbs/d/colls/c/docs/1"),
        (Method::POST, "/dbs/d/colls/c/pkranges"),
        (Method::HEAD, "/dbs/d/colls/c/docs/1"),
        (Method::PUT, "/offers"),
    ] {
        let text = method.as_str().to_owned();
        let answer = world.ask(method, path, "").refused(405, "0", &text);
        assert_eq!(answer.member("code"), "MethodNotAllowed", "{path}");
    }
    world.get("/dbs/%ff").refused(400, "0", "UTF-8");
    world.get("/dbs/%zz").refused(400, "0", "%zz");
}

#[test]
fn features_of_later_are_refused_by_name() {
    let world = World::without_scripts();
    world.make_container("400");
    let post = |path: &str| world.post(path, r#"{"id":"s","body":"x"}"#).key(r#"["a"]"#);
    for (ask, feature) in [
        (post(DOCS).header("x-ms-documentdb-pre-trigger-include", "t"), "triggers"),
        (
            world
                .post(DOCS, r#"[{"operationType":"Delete","id":"1","preTriggerInclude":"t"}]"#)
                .key(r#"["a"]"#)
                .header("x-ms-cosmos-is-batch-request", "True")
                .header("x-ms-cosmos-batch-atomic", "True"),
            "triggers",
        ),
        (post("/dbs/d/colls/c/sprocs"), "stored procedures"),
        (world.post("/dbs/d/colls/c/sprocs/s", "[]").key(r#"["a"]"#), "stored procedures"),
        (post("/dbs/d/colls/c/triggers"), "triggers"),
        (post("/dbs/d/colls/c/udfs"), "user-defined functions"),
        (world.get("/dbs/d/colls/c/docs/1/attachments"), "attachments"),
        (world.get("//addresses/"), "Direct mode"),
        (post("/operations/dtc"), "distributed transactions"),
    ] {
        let answer = ask.refused(501, "0", feature);
        assert_eq!(answer.member("code"), "NotImplemented");
    }
}

#[test]
fn a_partition_key_is_deleted_under_both_signatures() {
    for throughput in ["400", "30000"] {
        let world = World::with_container(throughput);
        for kind in ["colls", "partitionkey"] {
            for id in ["1", "2", "3"] {
                world
                    .post(DOCS, &format!(r#"{{"id":"{id}","pk":"a"}}"#))
                    .key(r#"["a"]"#)
                    .expect(201);
            }
            let path = "/dbs/d/colls/c/operations/partitionkeydelete";
            let delete = world.post(path, "").signing(kind, "dbs/d/colls/c");
            delete.key(r#"["a"]"#).expect(200);
            assert!(world.get(DOCS).expect(200).feed("Documents").is_empty());
        }
    }
}

#[test]
fn the_conflicts_of_a_container_are_none() {
    let world = World::with_container("30000");
    assert!(world.get("/dbs/d/colls/c/conflicts").expect(200).feed("Conflicts").is_empty());
    world.get("/dbs/d/colls/c/conflicts/x").key(r#"["a"]"#).refused(404, "0", "no conflict 'x'");
    world.delete("/dbs/d/colls/c/conflicts/x").key(r#"["a"]"#).refused(404, "0", "no conflict 'x'");
    let query = || {
        let body = r#"{"query":"SELECT * FROM r WHERE r.id = 'x'"}"#;
        world.post("/dbs/d/colls/c/conflicts", body).header("x-ms-documentdb-isquery", "True")
    };
    query().refused(400, "0", "Cross partition query is required but disabled");
    query().header("x-ms-documentdb-query-enablecrosspartition", "True").expect(200);
    world.get("/dbs/d/colls/gone/conflicts").refused(404, "1003", "");
}
