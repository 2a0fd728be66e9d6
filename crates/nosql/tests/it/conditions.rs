//! `If-Match` and `If-None-Match`, on items and on everything else.

use crate::support::World;

const DOCS: &str = "/dbs/d/colls/c/docs";
const ITEM: &str = "/dbs/d/colls/c/docs/1";
const BODY: &str = r#"{"id":"1","pk":"a"}"#;
const KEY: &str = r#"["a"]"#;

#[test]
fn a_read_of_what_the_client_has_is_not_repeated() {
    let world = World::with_container("400");
    let created = world.post(DOCS, BODY).key(KEY).expect(201);
    let etag = created.header("etag").unwrap();
    let same = world.get(ITEM).key(KEY).header("if-none-match", etag).expect(304);
    assert!(same.body.is_empty() && same.header("content-type").is_none());
    assert_eq!(same.header("etag"), Some(etag));
    assert!(same.header("x-ms-session-token").is_some());
    world.get(ITEM).key(KEY).header("if-none-match", "\"other\"").expect(200);
    world.get(ITEM).key(KEY).header("if-match", "\"other\"").refused(412, "0", "");
}

#[test]
fn a_change_of_another_version_fails() {
    let world = World::with_container("30000");
    let created = world.post(DOCS, BODY).key(KEY).expect(201);
    let etag = created.header("etag").unwrap();
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
    for ask in [
        world.put(ITEM, BODY),
        world.patch(ITEM, patch),
        world.delete(ITEM),
        world.post(DOCS, BODY).header("x-ms-documentdb-is-upsert", "true"),
    ] {
        let answer = ask.key(KEY).header("if-match", "\"other\"").refused(412, "0", "");
        assert_eq!(answer.member("code"), "PreconditionFailed");
        assert!(answer.header("x-ms-session-token").is_some());
    }
    let read = world.get(ITEM).key(KEY).expect(200);
    assert_eq!(read.body, created.body, "a failed condition changes nothing");
    let unquoted = etag.trim_matches('"');
    let replaced = world.put(ITEM, BODY).key(KEY).header("if-match", unquoted).expect(200);
    world.delete(ITEM).key(KEY).header("if-match", replaced.header("etag").unwrap()).expect(204);
    world.put(ITEM, BODY).key(KEY).header("if-match", "*").expect(404);
}

#[test]
fn a_patch_is_bound_to_its_filter() {
    let world = World::with_container("400");
    world.post(DOCS, r#"{"id":"1","pk":"a","n":5}"#).key(KEY).expect(201);
    let patch = |condition: &str| {
        let body = format!(
            r#"{{"condition":"{condition}","operations":[{{"op":"incr","path":"/n","value":1}}]}}"#
        );
        world
            .patch(ITEM, &body)
            .key(KEY)
            .header("content-type", "application/json-patch+json")
            .send()
    };
    assert_eq!(patch("from c where c.n = 4").status, 412);
    let done = patch("from c where c.n = 5");
    assert_eq!((done.status, done.text().contains(r#""n":6"#)), (200, true));
    let broken = patch("from c where");
    assert_eq!(broken.status, 400);
}

#[test]
fn databases_and_containers_have_conditions_too() {
    let world = World::with_container("400");
    for path in ["/dbs/d", "/dbs/d/colls/c"] {
        let read = world.get(path).expect(200);
        let etag = read.header("etag").unwrap();
        assert_eq!(read.member("_etag"), etag);
        let same = world.get(path).header("if-none-match", etag).expect(304);
        assert!(same.body.is_empty());
        world.delete(path).header("if-match", "\"other\"").refused(412, "0", "");
    }
    let body = world.get("/dbs/d/colls/c").expect(200).text();
    world.put("/dbs/d/colls/c", &body).header("if-match", "\"other\"").refused(412, "0", "");
    world.put("/dbs/d/colls/c", &body).header("if-match", "*").expect(200);
}
