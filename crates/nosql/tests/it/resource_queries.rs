//! Queries over databases, containers, users and other resources that do more than pick some.

use partita_model::Value;

use crate::support::{Answer, Ask, World};

fn ask<'w>(world: &'w World, feed: &str, text: &str) -> Ask<'w> {
    let body = format!(r#"{{"query":"{text}","parameters":[{{"name":"@n","value":2}}]}}"#);
    world.post(feed, &body).header("x-ms-documentdb-isquery", "True")
}

fn rows(answer: &Answer, kind: &str) -> String {
    Value::from(answer.feed(kind)).to_json()
}

fn world() -> World {
    let world = World::with_container("400");
    for name in ["b", "a"] {
        world.post("/dbs", &format!(r#"{{"id":"{name}"}}"#)).expect(201);
        let container =
            format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"],"version":2}}}}"#);
        world.post("/dbs/d/colls", &container).expect(201);
        world.post("/dbs/d/users", &format!(r#"{{"id":"{name}"}}"#)).expect(201);
        let script = format!(r#"{{"id":"{name}","body":"function () {{}}"}}"#);
        world.post("/dbs/d/colls/c/sprocs", &script).expect(201);
    }
    world
}

#[test]
fn resources_are_projected_ordered_and_cut() {
    let world = world();
    let containers = "/dbs/d/colls";
    for (feed, kind, text, expected) in [
        ("/dbs", "Databases", "SELECT VALUE d.id FROM d ORDER BY d.id", r#"["a","b","d"]"#),
        ("/dbs", "Databases", "SELECT TOP 1 d.id FROM d ORDER BY d.id DESC", r#"[{"id":"d"}]"#),
        ("/dbs", "Databases", "SELECT VALUE COUNT(1) FROM d", "[3]"),
        (
            containers,
            "DocumentCollections",
            "SELECT c.id, c.partitionKey.paths[0] AS k FROM c WHERE c.id > 'a' ORDER BY c.id",
            r#"[{"id":"b","k":"/pk"},{"id":"c","k":"/pk"}]"#,
        ),
        (
            containers,
            "DocumentCollections",
            "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 1 LIMIT @n",
            r#"["b","c"]"#,
        ),
        ("/dbs/d/users", "Users", "SELECT VALUE u.id FROM u ORDER BY u.id DESC", r#"["b","a"]"#),
        (
            "/dbs/d/colls/c/sprocs",
            "StoredProcedures",
            "SELECT DISTINCT VALUE s.body FROM s",
            r#"["function () {}"]"#,
        ),
        ("/offers", "Offers", "SELECT VALUE o.content.offerThroughput FROM o", "[400,400,400]"),
        ("/dbs/d/clientencryptionkeys", "ClientEncryptionKeys", "SELECT TOP 1 k.id FROM k", "[]"),
    ] {
        let answer = ask(&world, feed, text).expect(200);
        assert_eq!(rows(&answer, kind), expected, "{text}");
        assert_eq!(answer.header("x-ms-continuation"), None);
        let parent = world.get(feed).expect(200).member("_rid");
        assert_eq!(answer.member("_rid"), parent, "{feed}");
    }
    let whole = ask(&world, "/dbs", "SELECT * FROM d ORDER BY d.id").expect(200);
    let listed = world.get("/dbs/a").expect(200).json();
    assert_eq!(whole.feed("Databases")[0], listed, "as in a list");
}

#[test]
fn rows_of_resources_come_in_pages() {
    let world = world();
    let text = "SELECT VALUE d.id FROM d ORDER BY d.id";
    let first = ask(&world, "/dbs", text).header("x-ms-max-item-count", "2").expect(200);
    assert_eq!(rows(&first, "Databases"), r#"["a","b"]"#);
    let next = first.header("x-ms-continuation").unwrap().to_owned();
    let rest = ask(&world, "/dbs", text).header("x-ms-continuation", &next).expect(200);
    assert_eq!(rows(&rest, "Databases"), r#"["d"]"#);
    assert_eq!(rest.header("x-ms-continuation"), None);
    let junk = ask(&world, "/dbs", text).header("x-ms-continuation", "junk");
    junk.refused(400, "0", "Invalid Continuation Token");
    let all = ask(&world, "/dbs", text).header("x-ms-max-item-count", "0").expect(200);
    assert_eq!(all.feed("Databases").len(), 3, "0 is as if it were absent");
    assert_eq!(
        world.get("/dbs").header("x-ms-max-item-count", "0").expect(200).feed("Databases").len(),
        3
    );
}

#[test]
fn a_whole_permission_has_its_token_in_any_order() {
    let world = world();
    for n in 1..4 {
        let body = format!(
            r#"{{"id":"p{n}","permissionMode":"Read","resource":"dbs/d/colls/c/docs/{n}"}}"#
        );
        world.post("/dbs/d/users/a/permissions", &body).expect(201);
    }
    let feed = "/dbs/d/users/a/permissions";
    let found = ask(&world, feed, "SELECT TOP @n * FROM p ORDER BY p.id DESC").expect(200);
    let found = found.feed("Permissions");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].get("id").and_then(Value::as_str), Some("p3"));
    assert!(found.iter().all(|row| row.get("_token").is_some()));
    let ids = ask(&world, feed, "SELECT p.id FROM p").expect(200);
    assert!(!ids.text().contains("_token"));
}

#[test]
fn what_is_no_query_over_resources_is_refused() {
    let world = world();
    ask(&world, "/dbs", "SELECT d.id FORM d").expect(400);
    ask(&world, "/dbs/none/colls", "SELECT c.id FROM c").refused(404, "1003", "");
    let unknown = ask(&world, "/dbs", "SELECT udf.f(d.id) FROM d").send();
    assert!(unknown.status >= 400, "{}", unknown.text());
}
