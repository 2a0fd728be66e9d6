//! Users, permissions, and what resource tokens open.

use http::Method;
use partita_model::Value;

use crate::support::{Answer, PARTITIONS, PRIMARY, READONLY, World};

const USERS: &str = "/dbs/d/users";
const PERMISSIONS: &str = "/dbs/d/users/u/permissions";
const CONTAINER: &str = "/dbs/d/colls/c";
const DOCS: &str = "/dbs/d/colls/c/docs";
const QUERY: &str = "application/query+json";

/// A world with the container `c`, an item in each of two logical partitions, and the user `u`.
fn world_with_user(throughput: &str) -> World {
    let world = World::with_container(throughput);
    for (id, pk) in [("1", "a"), ("2", "b")] {
        let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
        world.post(DOCS, &body).key(&format!(r#"["{pk}"]"#)).expect(201);
    }
    world.post(USERS, r#"{"id":"u"}"#).expect(201);
    world
}

/// A token of a new permission.
fn token(world: &World, name: &str, mode: &str, resource: &str, more: &str) -> String {
    let body = permission(name, mode, resource, more);
    world.post(PERMISSIONS, &body).expect(201).member("_token")
}

fn permission(name: &str, mode: &str, resource: &str, more: &str) -> String {
    format!(r#"{{"id":"{name}","permissionMode":"{mode}","resource":"{resource}"{more}}}"#)
}

fn ids(answer: &Answer, kind: &str) -> Vec<String> {
    let id = |row: &Value| row.get("id").and_then(Value::as_str).unwrap().to_owned();
    answer.feed(kind).iter().map(id).collect()
}

#[test]
fn a_user_lives_from_create_to_delete() {
    let world = World::with_container("400");
    let created = world.post(USERS, r#"{"id":"my user"}"#).expect(201);
    let database = world.get("/dbs/d").expect(200).member("_rid");
    let rid = created.member("_rid");
    assert_eq!(rid.len(), 12);
    assert_eq!(created.member("_self"), format!("dbs/{database}/users/{rid}/"));
    assert_eq!(created.member("_permissions"), "permissions/");
    assert_eq!(created.header("etag"), Some(created.member("_etag").as_str()));
    world.post(USERS, r#"{"id":"my user"}"#).refused(409, "0", "my user");

    assert_eq!(world.get("/dbs/d/users/my%20user/").expect(200).body, created.body);
    let by_rid = format!("/dbs/{database}/users/{rid}");
    let read = world.get(&by_rid).signing("users", &rid.to_lowercase()).expect(200);
    assert_eq!(read.body, created.body);

    let again = world
        .post(USERS, r#"{"id":"my user"}"#)
        .header("x-ms-documentdb-is-upsert", "True")
        .expect(200);
    assert_eq!(again.member("_rid"), rid);
    assert_ne!(again.member("_etag"), created.member("_etag"));
    world.post(USERS, r#"{"id":"v"}"#).header("x-ms-documentdb-is-upsert", "True").expect(201);

    world.put("/dbs/d/users/my%20user", r#"{"id":"v"}"#).refused(409, "0", "'v'");
    let renamed = world.put("/dbs/d/users/my%20user", r#"{"id":"w"}"#).expect(200);
    assert_eq!((renamed.member("id"), renamed.member("_rid")), ("w".into(), rid));
    world.get("/dbs/d/users/my%20user").refused(404, "0", "my user");
    world.delete("/dbs/d/users/w").header("if-match", "\"other\"").expect(412);
    world.delete("/dbs/d/users/w").expect(204);
    world.delete("/dbs/d/users/w").refused(404, "0", "'w'");
    world.post("/dbs/x/users", r#"{"id":"u"}"#).refused(404, "1003", "'x'");
    world.post(USERS, r#"{"id":"a/b"}"#).refused(400, "0", "a/b");
    world.post(USERS, "{}").refused(400, "0", "'id; '");
}

#[test]
fn users_are_listed_queried_and_paged() {
    let world = World::with_container("400");
    for n in 0..5 {
        world.post(USERS, &format!(r#"{{"id":"u{n}"}}"#)).expect(201);
    }
    let all = world.get(USERS).expect(200);
    assert_eq!(all.member("_rid"), world.get("/dbs/d").expect(200).member("_rid"));
    assert_eq!(ids(&all, "Users").len(), 5);
    let first = world.get(USERS).header("x-ms-max-item-count", "3").expect(200);
    let rest = first.header("x-ms-continuation").unwrap();
    let second = world.get(USERS).header("x-ms-continuation", rest).expect(200);
    let mut paged = [ids(&first, "Users"), ids(&second, "Users")].concat();
    paged.sort();
    assert_eq!(paged, ["u0", "u1", "u2", "u3", "u4"]);
    let query = r#"{"query":"SELECT * FROM root r WHERE r.id=@id","parameters":[{"name":"@id","value":"u3"}]}"#;
    let found = world.post(USERS, query).header("content-type", QUERY).expect(200);
    assert_eq!(ids(&found, "Users"), ["u3"]);
}

#[test]
fn a_permission_lives_from_create_to_delete() {
    let world = world_with_user("400");
    let body = permission("p", "read", "dbs/d/colls/c", r#","resourcePartitionKey":[1]"#);
    let created = world.post(PERMISSIONS, &body).expect(201);
    let user = world.get("/dbs/d/users/u").expect(200);
    let rid = created.member("_rid");
    assert_eq!(rid.len(), 24);
    assert_eq!(created.member("_self"), format!("{}permissions/{rid}/", user.member("_self")));
    assert_eq!(created.member("permissionMode"), "read", "as it was sent");
    assert_eq!(created.member("resource"), "dbs/d/colls/c");
    assert_eq!(created.json().get("resourcePartitionKey").unwrap().to_json(), "[1]");
    assert!(created.member("_token").starts_with("type=resource&ver=1&sig="));

    let path = format!("{PERMISSIONS}/p");
    let read = world.get(&path).expect(200);
    assert_eq!(read.member("_etag"), created.member("_etag"));
    let database = world.get("/dbs/d").expect(200).member("_rid");
    let by_rid = format!("/dbs/{database}/users/{}/permissions/{rid}", user.member("_rid"));
    let read = world.get(&by_rid).signing("permissions", &rid.to_lowercase()).expect(200);
    assert_eq!(read.member("id"), "p");
    let listed = world.get(PERMISSIONS).expect(200);
    assert_eq!(listed.member("_rid"), user.member("_rid"));
    assert!(listed.feed("Permissions")[0].get("_token").is_some());
    let query = r#"{"query":"SELECT * FROM root r WHERE r.id='p'"}"#;
    let found = world.post(PERMISSIONS, query).header("content-type", QUERY).expect(200);
    assert_eq!(ids(&found, "Permissions"), ["p"]);

    let changed = permission("q", "All", "dbs/d/colls/c/docs/1", "");
    let replaced = world.put(&path, &changed).expect(200);
    assert_eq!((replaced.member("id"), replaced.member("_rid")), ("q".into(), rid));
    world.get(&path).refused(404, "0", "'p'");
    world.delete(&format!("{PERMISSIONS}/q")).expect(204);
    world.delete(&format!("{PERMISSIONS}/q")).refused(404, "0", "'q'");
    world.get("/dbs/d/users/nobody/permissions").refused(404, "1003", "nobody");
}

#[test]
fn a_user_has_one_permission_of_a_name_and_for_a_resource() {
    let world = world_with_user("400");
    token(&world, "p", "All", "dbs/d/colls/c", "");
    let other = permission("p", "All", "dbs/d/colls/c/docs/1", "");
    world.post(PERMISSIONS, &other).refused(409, "0", "'p'");
    let same = permission("q", "Read", "/dbs/d/colls/c/", "");
    world.post(PERMISSIONS, &same).refused(409, "0", "'p'");
    let upserted = world
        .post(PERMISSIONS, &permission("p", "Read", "dbs/d/colls/c", ""))
        .header("x-ms-documentdb-is-upsert", "True")
        .expect(200);
    assert_eq!(upserted.member("permissionMode"), "Read");
    token(&world, "q", "All", "dbs/d/colls/c/docs/1", "");
    world.put(&format!("{PERMISSIONS}/q"), &same).refused(409, "0", "'p'");
    world.post(USERS, r#"{"id":"v"}"#).expect(201);
    world.post("/dbs/d/users/v/permissions", &same).expect(201);
}

#[test]
fn a_user_may_have_a_permission_for_each_partition_key() {
    let world = world_with_user("400");
    let key = |key: &str| format!(r#","resourcePartitionKey":[{key}]"#);
    let a = token(&world, "a", "Read", "dbs/d/colls/c", &key(r#""a""#));
    let b = token(&world, "b", "Read", "dbs/d/colls/c", &key(r#""b""#));
    token(&world, "whole", "Read", "dbs/d/colls/c", "");
    for (name, more) in [("x", key(r#""a""#)), ("y", key(r#""b""#)), ("z", String::new())] {
        let same = permission(name, "All", "/dbs/d/colls/c/", &more);
        world.post(PERMISSIONS, &same).refused(409, "0", "already");
    }
    let world = world.restarted(PRIMARY);
    let feed = |key: &str, token: &str| world.get(DOCS).key(key).token(token).send().status;
    assert_eq!([feed(r#"["a"]"#, &a), feed(r#"["b"]"#, &a)], [200, 403]);
    assert_eq!([feed(r#"["a"]"#, &b), feed(r#"["b"]"#, &b)], [403, 200]);
    let moved = permission("b", "Read", "dbs/d/colls/c", &key(r#""a""#));
    world.put(&format!("{PERMISSIONS}/b"), &moved).refused(409, "0", "already");
    world.delete(&format!("{PERMISSIONS}/a")).expect(204);
    world.put(&format!("{PERMISSIONS}/b"), &moved).expect(200);
    assert_eq!(feed(r#"["b"]"#, &b), 403, "the permission is about something else by now");
}

#[test]
fn a_permission_for_a_container_to_come_opens_the_one_that_gets_the_name() {
    let world = world_with_user("400");
    let later = token(&world, "p", "All", "dbs/d/colls/later", "");
    let item = token(&world, "i", "Read", "dbs/d/colls/later/docs/1", "");
    let only = r#","resourcePartitionKey":["a"]"#;
    let keyed = token(&world, "k", "Read", "dbs/d/colls/later", only);
    let four = r#","resourcePartitionKey":[1,2,3,4]"#;
    world.post(PERMISSIONS, &permission("q", "All", "dbs/d/colls/l", four)).refused(400, "0", "");
    for (link, status) in [("dbs/none/colls/later", "1003"), ("dbs/d/colls/later/sprocs/s", "0")] {
        world.post(PERMISSIONS, &permission("q", "All", link, "")).refused(404, status, "");
    }
    let docs = "/dbs/d/colls/later/docs";
    world.get(docs).token(&later).refused(403, "0", "another resource");
    world.get(DOCS).token(&later).refused(403, "0", "another resource");
    let definition = r#"{"id":"later","partitionKey":{"paths":["/pk"],"version":2}}"#;
    world.post("/dbs/d/colls", definition).expect(201);
    world.post("/dbs/d/colls", &definition.replace("later", "other")).expect(201);
    let world = world.restarted(PRIMARY);
    let body = r#"{"id":"1","pk":"a"}"#;
    world.post(docs, body).key(r#"["a"]"#).token(&later).expect(201);
    world.get(&format!("{docs}/1")).key(r#"["a"]"#).token(&item).expect(200);
    world.get(docs).key(r#"["a"]"#).token(&item).expect(403);
    world.get(docs).key(r#"["a"]"#).token(&keyed).expect(200);
    world.get(docs).key(r#"["b"]"#).token(&keyed).expect(403);
    world.post(docs, body).key(r#"["a"]"#).token(&keyed).refused(403, "0", "Read");
    for foreign in [DOCS, "/dbs/d/colls/other/docs"] {
        world.get(foreign).token(&later).refused(403, "0", "another resource");
    }
    // By its resource id it is the same container, and the same resource for a second permission.
    let container = world.get("/dbs/d/colls/later").expect(200);
    let rid = container.member("_rid");
    let by_rid = format!("/{}docs", container.member("_self"));
    world.get(&by_rid).signing("docs", &rid.to_lowercase()).token(&later).expect(200);
    let same = permission("q", "All", "dbs/d/colls/later", "");
    world.post(PERMISSIONS, &same).refused(409, "0", "'p'");

    // Another database of the same name is another database.
    let known = token(&world, "known", "All", "dbs/d/colls/other", "");
    world.delete("/dbs/d/colls/other").expect(204);
    world.post("/dbs/d/colls", &definition.replace("later", "other")).expect(201);
    world.get("/dbs/d/colls/other/docs").token(&known).expect(403);
    world.delete("/dbs/d").expect(204);
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    world.post("/dbs/d/colls", definition).expect(201);
    world.get(docs).token(&later).expect(403);
}

#[test]
fn an_all_token_of_a_whole_container_writes_its_scripts() {
    let world = world_with_user("400");
    let all = token(&world, "p", "All", "dbs/d/colls/c", "");
    let only = r#","resourcePartitionKey":["a"]"#;
    let keyed = token(&world, "k", "All", "dbs/d/colls/c", only);
    let item = token(&world, "i", "All", "dbs/d/colls/c/docs/1", "");
    world.post(USERS, r#"{"id":"reader"}"#).expect(201);
    let body = permission("p", "Read", "dbs/d/colls/c", "");
    let read = world.post("/dbs/d/users/reader/permissions", &body).expect(201).member("_token");
    let scripts = [
        ("sprocs", ""),
        ("udfs", ""),
        ("triggers", r#","triggerType":"Pre","triggerOperation":"All""#),
    ];
    for (kind, more) in scripts {
        let feed = format!("/dbs/d/colls/c/{kind}");
        let script = format!("{feed}/s");
        let body = format!(r#"{{"id":"s","body":"function () {{}}"{more}}}"#);
        for token in [&keyed, &item, &read] {
            world.post(&feed, &body).token(token).refused(403, "0", "can't serve");
        }
        world.post(&feed, &body).token(&all).expect(201);
        for token in [&keyed, &item, &read] {
            world.put(&script, &body).token(token).refused(403, "0", "can't serve");
            world.delete(&script).token(token).refused(403, "0", "can't serve");
        }
        world.put(&script, &body).token(&all).expect(200);
        let upsert = world.post(&feed, &body).header("x-ms-documentdb-is-upsert", "True");
        upsert.token(&all).expect(200);
        world.delete(&script).token(&all).expect(204);
    }
}

#[test]
fn an_all_token_of_a_script_replaces_and_deletes_it() {
    let scripts = [
        ("sprocs", ""),
        ("udfs", ""),
        ("triggers", r#","triggerType":"Pre","triggerOperation":"All""#),
    ];
    for (kind, more) in scripts {
        let world = world_with_user("400");
        let feed = format!("/dbs/d/colls/c/{kind}");
        let body = |id: &str, source: &str| format!(r#"{{"id":"{id}","body":"{source}"{more}}}"#);
        world.post(&feed, &body("s", "function () {}")).expect(201);
        world.post(&feed, &body("t", "function () {}")).expect(201);
        let link = |id: &str| format!("dbs/d/colls/c/{kind}/{id}");
        let all = token(&world, "all", "All", &link("s"), "");
        let read = token(&world, "read", "Read", &link("t"), "");
        let only = r#","resourcePartitionKey":["a"]"#;
        let keyed = token(&world, "keyed", "All", &link("t"), only);
        let (script, other) = (format!("{feed}/s"), format!("{feed}/t"));
        let changed = body("s", "function () { return 1; }");
        // Another script, a mode that does not write, a key that is not all keys; no new scripts.
        for token in [&all, &read, &keyed] {
            world.put(&other, &body("t", "no")).token(token).refused(403, "0", "can't serve");
            world.delete(&other).token(token).refused(403, "0", "can't serve");
            world.post(&feed, &body("u", "no")).token(token).refused(403, "0", "can't serve");
        }
        let replaced = world.put(&script, &changed).token(&all).expect(200);
        assert_eq!(replaced.member("body"), "function () { return 1; }");
        world.delete(&script).token(&all).expect(204);
        world.get(&script).expect(404);
        // What is made anew under the name is another script.
        world.post(&feed, &changed).expect(201);
        world.put(&script, &changed).token(&all).refused(403, "0", "can't serve");
    }
}

#[test]
fn permissions_that_make_no_sense_are_refused() {
    let world = world_with_user("400");
    let cases = [
        (permission("p", "none", "dbs/d/colls/c", ""), 400, "none"),
        (permission("p", "All", "dbs/d", ""), 400, "'dbs/d'"),
        (permission("p", "All", "dbs/d/colls/c/docs", ""), 400, "docs"),
        (permission("p", "All", "dbs/d/colls/a?b", ""), 400, "a?b"),
        (permission("p", "All", "dbs/d/colls/c/sprocs/s", ""), 404, "stored procedure 's'"),
        (permission("p", "All", "dbs/d/colls/c", r#","resourcePartitionKey":[]"#), 400, "[]"),
        (permission("p", "All", "dbs/d/colls/c", r#","resourcePartitionKey":[1,2]"#), 400, "[1,2]"),
        (permission("p/q", "All", "dbs/d/colls/c", ""), 400, "p/q"),
    ];
    for (body, status, text) in cases {
        world.post(PERMISSIONS, &body).refused(status, "0", text);
    }
    let unknown = permission("p", "All", "dbs/AQAAAA==/colls/AQAAAJ0fgTc=", "");
    world.post(PERMISSIONS, &unknown).expect(201);
}

#[test]
fn a_token_lives_as_long_as_asked_for() {
    let world = world_with_user("400");
    let body = permission("p", "Read", "dbs/d/colls/c", "");
    let header = "x-ms-documentdb-expiry-seconds";
    for bad in ["9", "86401", "-1", "x"] {
        world.post(PERMISSIONS, &body).header(header, bad).refused(400, "0", bad);
    }
    let short = world.post(PERMISSIONS, &body).header(header, "10").expect(201).member("_token");
    let usual = world.get(&format!("{PERMISSIONS}/p")).expect(200).member("_token");
    world.get(CONTAINER).token(&short).expect(200);
    world.clock.advance_millis(10_000);
    world.get(CONTAINER).token(&short).refused(403, "0", "ended");
    world.get(CONTAINER).token(&usual).expect(200);
    world.clock.advance_millis(3_590_000);
    world.get(CONTAINER).token(&usual).refused(403, "0", "ended");
}

#[test]
fn a_read_token_reads_its_container_and_changes_nothing() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        let token = token(&world, "p", "read", "dbs/d/colls/c", "");
        world.get("/").token(&token).expect(200);
        world.get(CONTAINER).token(&token).expect(200);
        world.get("/dbs/d/colls/c/pkranges").token(&token).expect(200);
        assert_eq!(ids(&world.get(DOCS).token(&token).expect(200), "Documents").len(), 2);
        let item = "/dbs/d/colls/c/docs/1";
        world.get(item).key(r#"["a"]"#).token(&token).expect(200);
        let new = r#"{"id":"3","pk":"a"}"#;
        let patch = r#"{"operations":[{"op":"add","path":"/x","value":1}]}"#;
        for ask in [
            world.post(DOCS, new).key(r#"["a"]"#),
            world.post(DOCS, new).key(r#"["a"]"#).header("x-ms-documentdb-is-upsert", "True"),
            world.put(item, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#),
            world.patch(item, patch).key(r#"["a"]"#),
            world.delete(item).key(r#"["a"]"#),
        ] {
            ask.token(&token).refused(403, "0", "Read");
        }
        assert_eq!(ids(&world.get(DOCS).expect(200), "Documents").len(), 2);
    }
}

#[test]
fn an_all_token_writes_items_and_nothing_else() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        world
            .post("/dbs/d/colls", r#"{"id":"other","partitionKey":{"paths":["/pk"]}}"#)
            .expect(201);
        let token = token(&world, "p", "All", "dbs/d/colls/c", "");
        let key = r#"["a"]"#;
        world.post(DOCS, r#"{"id":"3","pk":"a"}"#).key(key).token(&token).expect(201);
        world.delete("/dbs/d/colls/c/docs/3").key(key).token(&token).expect(204);
        let offer = world.get("/offers").expect(200).feed("Offers")[0].clone();
        let offer = format!("/offers/{}", offer.get("id").and_then(Value::as_str).unwrap());
        let container = world.get(CONTAINER).expect(200).text();
        for ask in [
            world.delete(CONTAINER),
            world.put(CONTAINER, &container),
            world.get("/dbs"),
            world.post("/dbs", r#"{"id":"e"}"#),
            world.get("/dbs/d"),
            world.delete("/dbs/d"),
            world.get("/dbs/d/colls"),
            world.post("/dbs/d/colls", r#"{"id":"e","partitionKey":{"paths":["/a"]}}"#),
            world.get("/offers"),
            world.get(&offer),
            world.get(USERS),
            world.post(USERS, r#"{"id":"e"}"#),
            world.get("/dbs/d/users/u"),
            world.get(PERMISSIONS),
            world.get(&format!("{PERMISSIONS}/p")),
            world.delete(&format!("{PERMISSIONS}/p")),
            world.get("/dbs/d/colls/other"),
            world.get("/dbs/d/colls/other/pkranges"),
            world.get("/dbs/d/colls/other/docs"),
            world.get("/dbs/d/colls/missing"),
            world.get("/dbs/missing/colls/c"),
        ] {
            let answer = ask.token(&token).refused(403, "0", "can't serve the request");
            assert_eq!(answer.member("code"), "Forbidden");
        }
        assert_eq!(ids(&world.get("/dbs/d/colls").expect(200), "DocumentCollections").len(), 2);
    }
}

#[test]
fn a_token_for_a_partition_key_opens_that_key_only() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        let only = r#","resourcePartitionKey":["a"]"#;
        let token = token(&world, "p", "all", "dbs/d/colls/c", only);
        let (own, foreign) = (r#"["a"]"#, r#"["b"]"#);
        world.get(CONTAINER).token(&token).expect(200);
        world.get("/dbs/d/colls/c/pkranges").token(&token).expect(200);
        let feed = world.get(DOCS).key(own).token(&token).expect(200);
        assert_eq!(ids(&feed, "Documents"), ["1"]);
        world.post(DOCS, r#"{"id":"3","pk":"a"}"#).key(own).token(&token).expect(201);
        world.post(DOCS, r#"{"id":"4","pk":"b"}"#).key(own).token(&token).expect(400);
        let quota = "x-ms-documentdb-populatequotainfo";
        for ask in [
            world.get(DOCS),
            world.get(DOCS).key(foreign),
            world.get(DOCS).key("[]"),
            world.get(DOCS).header("x-ms-documentdb-partitionkeyrangeid", "0"),
            world.get("/dbs/d/colls/c/docs/2").key(foreign),
            world.delete("/dbs/d/colls/c/docs/2").key(foreign),
            world.post(DOCS, r#"{"id":"5","pk":"b"}"#).key(foreign),
            world.get(CONTAINER).header(quota, "True"),
        ] {
            ask.token(&token).refused(403, "0", "another item or partition key");
        }
    }
}

#[test]
fn batches_are_opened_by_their_keys() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        let only = r#","resourcePartitionKey":["a"]"#;
        let all = token(&world, "all", "All", "dbs/d/colls/c", only);
        world.post(USERS, r#"{"id":"reader"}"#).expect(201);
        let body = permission("p", "Read", "dbs/d/colls/c", "");
        let read = world.post("/dbs/d/users/reader/permissions", &body).expect(201);
        let read = read.member("_token");
        let batch = |body: &str| {
            world
                .post(DOCS, body)
                .header("x-ms-cosmos-is-batch-request", "True")
                .header("x-ms-cosmos-batch-atomic", "True")
        };
        let reads = r#"[{"operationType":"Read","id":"1"}]"#;
        let writes = r#"[{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"}}]"#;
        batch(reads).key(r#"["a"]"#).token(&read).expect(200);
        batch(writes).key(r#"["a"]"#).token(&read).refused(403, "0", "Read");
        batch(writes).key(r#"["a"]"#).token(&all).expect(200);
        batch(reads).key(r#"["b"]"#).token(&all).refused(403, "0", "another item");
    }
}

#[test]
fn a_token_for_a_prefix_opens_what_is_under_it() {
    let world = world_with_user("400");
    let definition = r#"{"id":"h","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash"}}"#;
    world.post("/dbs/d/colls", definition).expect(201);
    let docs = "/dbs/d/colls/h/docs";
    for (t, u) in [("a", "1"), ("a", "2"), ("b", "1")] {
        let body = format!(r#"{{"id":"{t}{u}","t":"{t}","u":"{u}"}}"#);
        world.post(docs, &body).key(&format!(r#"["{t}","{u}"]"#)).expect(201);
    }
    let token = token(&world, "p", "All", "dbs/d/colls/h", r#","resourcePartitionKey":["a"]"#);
    let feed = world.get(docs).key(r#"["a"]"#).token(&token).expect(200);
    assert_eq!(ids(&feed, "Documents").len(), 2);
    world.get("/dbs/d/colls/h/docs/a2").key(r#"["a","2"]"#).token(&token).expect(200);
    world.get("/dbs/d/colls/h/docs/b1").key(r#"["b","1"]"#).token(&token).expect(403);
    world.get(docs).key(r#"["b"]"#).token(&token).expect(403);
    world.get(docs).token(&token).expect(403);
}

#[test]
fn a_token_for_an_item_opens_that_item_only() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        let token = token(&world, "p", "All", "dbs/d/colls/c/docs/1", "");
        let key = r#"["a"]"#;
        world.get("/").token(&token).expect(200);
        world.get(CONTAINER).token(&token).expect(200);
        world.get("/dbs/d/colls/c/pkranges").token(&token).expect(200);
        let item = "/dbs/d/colls/c/docs/1";
        let read = world.get(item).key(key).token(&token).expect(200);
        let (link, other) =
            (read.member("_self"), world.get("/dbs/d/colls/c/docs/2").key(r#"["b"]"#).expect(200));
        world.get(&format!("/{link}")).key(key).token(&token).expect(200);
        world.put(item, r#"{"id":"1","pk":"a","x":1}"#).key(key).token(&token).expect(200);
        for ask in [
            world.get(DOCS),
            world.get(DOCS).key(key),
            world.get("/dbs/d/colls/c/docs/2").key(r#"["b"]"#),
            world.get(&format!("/{}", other.member("_self"))).key(r#"["b"]"#),
            world.post(DOCS, r#"{"id":"1","pk":"z"}"#).key(r#"["z"]"#),
            world.put(item, r#"{"id":"3","pk":"a"}"#).key(key),
            world.delete("/dbs/d/colls/c/docs/3").key(key),
        ] {
            ask.token(&token).refused(403, "0", "another item or partition key");
        }
        world.delete(item).key(key).token(&token).expect(204);
    }
}

#[test]
fn a_permission_by_resource_ids_means_the_same() {
    for (throughput, _) in PARTITIONS {
        let world = world_with_user(throughput);
        let item = world.get("/dbs/d/colls/c/docs/1").key(r#"["a"]"#).expect(200);
        let own = token(&world, "p", "Read", &item.member("_self"), "");
        let path = "/dbs/d/colls/c/docs/1";
        world.get(path).key(r#"["a"]"#).token(&own).expect(200);
        world.post(DOCS, r#"{"id":"1","pk":"z"}"#).key(r#"["z"]"#).expect(201);
        world.get(path).key(r#"["z"]"#).token(&own).expect(403);
        let container = world.get(CONTAINER).expect(200).member("_self");
        let all = token(&world, "q", "Read", &container, "");
        assert_eq!(ids(&world.get(DOCS).token(&all).expect(200), "Documents").len(), 3);
    }
}

#[test]
fn a_token_ends_with_its_permission_its_user_and_its_container() {
    let world = world_with_user("400");
    let old = token(&world, "p", "All", "dbs/d/colls/c", "");
    let path = format!("{PERMISSIONS}/p");
    world.put(&path, &permission("p", "Read", "dbs/d/colls/c", "")).expect(200);
    world.get(DOCS).token(&old).expect(200);
    world.delete("/dbs/d/colls/c/docs/1").key(r#"["a"]"#).token(&old).expect(403);
    world.delete(&path).expect(204);
    world.get(DOCS).token(&old).refused(403, "0", "deleted");
    world.get("/").token(&old).refused(403, "0", "deleted");

    let old = token(&world, "p", "All", "dbs/d/colls/c", "");
    world.delete("/dbs/d/users/u").expect(204);
    world.get(DOCS).token(&old).refused(403, "0", "deleted");
    world.post(USERS, r#"{"id":"u"}"#).expect(201);
    assert!(world.get(PERMISSIONS).expect(200).feed("Permissions").is_empty());

    let old = token(&world, "p", "All", "dbs/d/colls/c", "");
    world.delete(CONTAINER).expect(204);
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#;
    world.post("/dbs/d/colls", definition).expect(201);
    world.get(CONTAINER).token(&old).refused(403, "0", "another resource");
}

#[test]
fn tokens_survive_a_restart_and_end_with_the_key() {
    let world = world_with_user("400");
    let token = token(&world, "p", "All", "dbs/d/colls/c", r#","resourcePartitionKey":["a"]"#);
    let before = world.get(&format!("{PERMISSIONS}/p")).expect(200);
    let world = world.restarted(PRIMARY);
    world.get("/dbs/d/colls/c/docs/1").key(r#"["a"]"#).token(&token).expect(200);
    let after = world.get(&format!("{PERMISSIONS}/p")).expect(200);
    assert_eq!(after.member("_etag"), before.member("_etag"));
    let world = world.restarted(&"A".repeat(88));
    world.get(CONTAINER).token(&token).refused(401, "5001", "resource token");
}

#[test]
fn what_is_no_token_is_refused() {
    let world = world_with_user("400");
    let token = token(&world, "p", "All", "dbs/d/colls/c", "");
    world.get("/").unsigned().refused(401, "5000", "authorization");
    for bad in ["type=resource", "type=resource&ver=1&sig=x;y;", "type=resource&ver=2&sig=;;"] {
        world.get("/").token(bad).refused(401, "5001", "resource token");
    }
    let forged = token.replacen("sig=", "sig=AAAA", 1);
    world.get(CONTAINER).token(&forged).refused(401, "5001", "resource token");
    let cut = token.get(..token.len() - 8).unwrap();
    world.get(CONTAINER).token(cut).refused(401, "5001", "resource token");
    world.ask(Method::GET, CONTAINER, "").unsigned().header("authorization", &token).expect(200);
}

#[test]
fn a_read_only_key_sees_no_users_and_no_tokens() {
    let world = world_with_user("400");
    token(&world, "p", "All", "dbs/d/colls/c", "");
    for path in [USERS, "/dbs/d/users/u", PERMISSIONS, "/dbs/d/users/u/permissions/p"] {
        world.get(path).signed_by(READONLY).refused(403, "0", "read-only");
    }
}

#[test]
fn how_a_query_ran_is_not_for_tokens() {
    let world = world_with_user("30000");
    let token = token(&world, "p", "Read", "dbs/d/colls/c", r#","resourcePartitionKey":["a"]"#);
    let query = || {
        let ask = world.post(DOCS, r#"{"query":"SELECT * FROM c"}"#).key(r#"["a"]"#);
        ask.header("content-type", QUERY)
    };
    let explained = || query().header("x-partita-explain", "true");
    query().token(&token).expect(200);
    explained().token(&token).refused(403, "0", "under all partition keys");
    explained().expect(200);
}
