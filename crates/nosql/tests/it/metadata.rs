//! Databases and containers.

use partita_model::Value;

use crate::support::{PARTITIONS, World};

#[test]
fn a_database_lives_from_create_to_delete() {
    let world = World::new();
    let created = world.post("/dbs/", r#"{"id":"my db"}"#).expect(201);
    let rid = created.member("_rid");
    assert_eq!(rid.len(), 8);
    assert_eq!(created.member("_self"), format!("dbs/{rid}/"));
    assert_eq!(
        (created.member("_colls"), created.member("_users")),
        ("colls/".into(), "users/".into())
    );
    assert_eq!(created.json().get("_ts").and_then(Value::as_i64), Some(1_493_254_272));
    assert_eq!(created.header("etag"), Some(created.member("_etag").as_str()));
    world.post("/dbs", r#"{"id":"my db"}"#).refused(409, "0", "");

    let read = world.get("/dbs/my%20db/").expect(200);
    assert_eq!(read.body, created.body);
    let by_rid = world.get(&format!("/dbs/{rid}")).signing("dbs", &rid.to_lowercase()).expect(200);
    assert_eq!(by_rid.body, created.body);

    let all = world.get("/dbs").expect(200);
    assert_eq!(all.feed("Databases").len(), 1);
    assert_eq!(all.member("_rid"), "");
    world.delete("/dbs/my%20db").expect(204);
    world.get("/dbs/my%20db").refused(404, "0", "");
    world
        .post("/dbs/my%20db/colls", r#"{"id":"c","partitionKey":{"paths":["/a"]}}"#)
        .refused(404, "1003", "");
}

#[test]
fn databases_and_containers_are_found_by_query() {
    let world = World::with_container("400");
    world.post("/dbs", r#"{"id":"other"}"#).expect(201);
    let query = r#"{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"d"}]}"#;
    let found =
        world.post("/dbs", query).header("content-type", "application/query+json").expect(200);
    let rows = found.feed("Databases");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].get("id").and_then(Value::as_str), Some("d"));
    let query = r#"{"query":"SELECT * FROM c WHERE c.id = 'c'"}"#;
    let found =
        world.post("/dbs/d/colls", query).header("x-ms-documentdb-isquery", "True").expect(200);
    assert_eq!(found.feed("DocumentCollections").len(), 1);
    let broken = r#"{"query":"SELECT * FORM c"}"#;
    let answer = world.post("/dbs", broken).header("x-ms-documentdb-isquery", "True").expect(400);
    assert!(answer.member("message").starts_with("Message: {\"errors\":["), "{}", answer.text());
}

#[test]
fn feeds_of_metadata_come_in_pages() {
    let world = World::new();
    for n in 0..5 {
        world.post("/dbs", &format!(r#"{{"id":"d{n}"}}"#)).expect(201);
    }
    let first = world.get("/dbs").header("x-ms-max-item-count", "3").expect(200);
    assert_eq!(first.feed("Databases").len(), 3);
    let token = first.header("x-ms-continuation").unwrap();
    let second = world.get("/dbs").header("x-ms-continuation", token).expect(200);
    assert_eq!(second.feed("Databases").len(), 2);
    assert_eq!(second.header("x-ms-continuation"), None);
}

#[test]
fn a_container_comes_back_complete() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let read = world.get("/dbs/d/colls/c/").expect(200);
        let body = read.json();
        let database = world.get("/dbs/d").expect(200).member("_rid");
        let rid = read.member("_rid");
        assert_eq!(rid.len(), 12);
        assert_eq!(read.member("_self"), format!("dbs/{database}/colls/{rid}/"));
        for name in ["_docs", "_sprocs", "_triggers", "_udfs", "_conflicts"] {
            assert_eq!(
                body.get(name).and_then(Value::as_str),
                Some(format!("{}/", &name[1..]).as_str())
            );
        }
        let policy = body.get("indexingPolicy").unwrap();
        assert_eq!(policy.get("indexingMode").and_then(Value::as_str), Some("consistent"));
        assert!(body.get("statistics").is_none());
        assert_eq!(read.header("x-ms-resource-usage"), None);
        let listed = world.get("/dbs/d/colls").expect(200);
        assert_eq!(listed.member("_rid"), database);
        assert_eq!(listed.feed("DocumentCollections"), [body]);
    }
}

#[test]
fn sizes_are_told_on_request() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..10 {
            let body = format!(r#"{{"id":"{n}","pk":{n}}}"#);
            world.post("/dbs/d/colls/c/docs", &body).key(&format!("[{n}]")).expect(201);
        }
        let read = world
            .get("/dbs/d/colls/c")
            .header("x-ms-documentdb-populatequotainfo", "True")
            .header("x-ms-documentdb-populatepartitionstatistics", "True")
            .expect(200);
        let progress = "x-ms-documentdb-collection-index-transformation-progress";
        assert_eq!(read.header(progress), Some("100"));
        assert_eq!(read.header("x-ms-documentdb-collection-lazy-indexing-progress"), None);
        let usage = read.header("x-ms-resource-usage").unwrap();
        assert!(usage.contains("documentsCount=10;"), "{usage}");
        assert!(read.header("x-ms-resource-quota").unwrap().contains("collectionSize="));
        let statistics = read.json();
        let statistics = statistics.get("statistics").and_then(Value::as_array).unwrap();
        assert_eq!(statistics.len(), partitions);
        let count = |row: &Value| row.get("documentCount").and_then(Value::as_i64).unwrap();
        assert_eq!(statistics.iter().map(count).sum::<i64>(), 10);
    }
}

#[test]
fn a_container_is_replaced_and_keeps_its_identity() {
    let world = World::with_container("400");
    let before = world.get("/dbs/d/colls/c").expect(200);
    let body =
        r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":5}"#;
    let after = world.put("/dbs/d/colls/c", body).expect(200);
    assert_eq!(after.json().get("defaultTtl").and_then(Value::as_i64), Some(5));
    assert_eq!(after.member("_rid"), before.member("_rid"));
    assert_ne!(after.member("_etag"), before.member("_etag"));
    let moved = r#"{"id":"c","partitionKey":{"paths":["/other"],"kind":"Hash","version":2}}"#;
    world.put("/dbs/d/colls/c", moved).refused(400, "0", "");
    world.put("/dbs/d/colls/x", body).expect(404);
}
