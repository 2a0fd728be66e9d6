//! Stored procedures, triggers and user-defined functions over the wire, in JavaScript.

use http::Method;
use partita_model::Value;

use crate::support::{Ask, PARTITIONS, READONLY, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const KINDS: [(&str, &str); 3] =
    [("sprocs", "StoredProcedures"), ("triggers", "Triggers"), ("udfs", "UserDefinedFunctions")];
const LOGGING: &str = "x-ms-documentdb-script-enable-logging";
const LOG: &str = "x-ms-documentdb-script-log-results";
const PRE: &str = "x-ms-documentdb-pre-trigger-include";
const POST: &str = "x-ms-documentdb-post-trigger-include";

fn at(segment: &str) -> String {
    format!("/dbs/d/colls/c/{segment}")
}

fn script(id: &str, source: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","body":{}{more}}}"#, Value::from(source).to_json())
}

fn procedure(world: &World, id: &str, source: &str) {
    world.post(&at("sprocs"), &script(id, source, "")).expect(201);
}

fn run<'w>(world: &'w World, id: &str, arguments: &str) -> Ask<'w> {
    world.post(&at(&format!("sprocs/{id}")), arguments).key(r#"["a"]"#)
}

fn trigger(world: &World, id: &str, moment: &str, operation: &str, source: &str) {
    let more = format!(r#","triggerType":"{moment}","triggerOperation":"{operation}""#);
    world.post(&at("triggers"), &script(id, source, &more)).expect(201);
}

#[test]
fn scripts_live_from_create_to_delete() {
    for (segment, kind) in KINDS {
        let world = World::with_container("400");
        let (feed, one) = (at(segment), at(&format!("{segment}/s")));
        let more = r#","triggerType":"pre","triggerOperation":"all""#;
        let body = script("s", "function f() { return 1; }", more);
        let created = world.post(&feed, &body).expect(201);
        let container = world.get("/dbs/d/colls/c").expect(200);
        let rid = created.member("_rid");
        assert_eq!(rid.len(), 24);
        assert!(rid.starts_with(&container.member("_rid")[..10]), "{rid}");
        assert_eq!(
            created.member("_self"),
            format!("{}{segment}/{rid}/", container.member("_self"))
        );
        assert_eq!(created.header("etag"), Some(created.member("_etag").as_str()));
        assert_eq!(created.member("body"), "function f() { return 1; }");
        assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
        if segment == "triggers" {
            assert_eq!(created.member("triggerType"), "pre", "as it was sent");
            assert_eq!(created.member("triggerOperation"), "all");
        }
        world.post(&feed, &body).refused(409, "0", "'s'");
        world.post(&feed, &body).header("x-ms-documentdb-is-upsert", "True").expect(200);
        let read = world.get(&one).expect(200);
        assert_eq!(read.member("_rid"), rid);
        let by_rid = format!("/{}", read.member("_self"));
        let signed = world.get(&by_rid).signing(segment, &rid.to_lowercase());
        assert_eq!(signed.expect(200).body, read.body);
        let etag = read.member("_etag");
        world.get(&one).header("if-none-match", &etag).expect(304);

        let changed = script("s", "function g() {}", more);
        world.put(&one, &changed).header("if-match", "\"other\"").refused(412, "0", "");
        let replaced = world.put(&one, &changed).header("if-match", &etag).expect(200);
        assert_eq!(
            (replaced.member("body"), replaced.member("_rid")),
            ("function g() {}".into(), rid)
        );
        let listed = world.get(&feed).expect(200);
        assert_eq!(listed.member("_rid"), container.member("_rid"));
        assert_eq!(listed.feed(kind).len(), 1);
        let query = r#"{"query":"SELECT * FROM r WHERE r.id = @id","parameters":[{"name":"@id","value":"x"}]}"#;
        let found = world.post(&feed, query).header("content-type", "application/query+json");
        assert!(found.expect(200).feed(kind).is_empty());
        world.delete(&one).expect(204);
        world.get(&one).refused(404, "0", "'s'");
        world.post(&feed, r#"{"id":"s"}"#).refused(400, "0", "'body; '");
        world.ask(Method::PATCH, &one, "{}").refused(405, "0", "PATCH");
        world.get(&at(segment).replace("/c/", "/gone/")).refused(404, "1003", "gone");
    }
}

#[test]
fn a_procedure_answers_with_what_it_set() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for (source, arguments, body) in [
            ("function () { getContext().getResponse().setBody('text'); }", "[]", r#""text""#),
            ("function (a, b) { __.response.setBody(a + b); }", "[1, 2]", "3"),
            (
                "function (a) { __.response.setBody(a); }",
                r#"[{"x":[1,null]}]"#,
                r#"{"x":[1,null]}"#,
            ),
            ("function () { }", "", ""),
        ] {
            let upsert = world.post(&at("sprocs"), &script("s", source, ""));
            upsert.header("x-ms-documentdb-is-upsert", "true").send();
            let answer = run(&world, "s", arguments).expect(200);
            assert_eq!(answer.text(), body, "{source}");
            let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
            assert!(charge > 0.0);
            assert!(answer.header("x-ms-session-token").is_some());
            assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
            assert_eq!(answer.header(LOG), None, "nobody asked for it");
        }
    }
}

const MOVES: &str = r#"
    function (ids, fail) {
        ids.forEach(function (id) {
            __.createDocument(__.getSelfLink(), { id: id, pk: 'a', n: 1 }, function (error) {
                if (error) throw error;
                if (id === fail) throw new Error('enough at ' + id);
                __.queryDocuments(__.getAltLink(), 'SELECT VALUE COUNT(1) FROM c',
                    function (error, found) { __.response.setBody(found[0]); });
            });
        });
        console.log('made ' + ids.length + ' & more');
    }"#;

#[test]
fn a_procedure_is_all_or_nothing() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        procedure(&world, "s", MOVES);
        let failed = run(&world, "s", r#"[["1","2","3"],"3"]"#).header(LOGGING, "True");
        let failed = failed.refused(400, "0", "enough at 3");
        assert!(failed.member("message").contains("Encountered exception while executing"));
        assert_eq!(failed.header(LOG), Some("made%203%20%26%20more"), "also on errors");
        assert!(world.get(DOCS).expect(200).feed("Documents").is_empty());

        let before = session_lsn(&run(&world, "s", "[[]]").expect(200));
        let done = run(&world, "s", r#"[["1","2","3"]]"#).header(LOGGING, "true").expect(200);
        assert_eq!(done.text(), "3", "a query sees what the script wrote");
        assert_eq!(session_lsn(&done), before + 1, "one commit");
        assert_eq!(done.header(LOG), Some("made%203%20%26%20more"));
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 3);
        run(&world, "s", r#"[["4","1"]]"#).refused(400, "0", "already exists");
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 3);
    }
}

fn session_lsn(answer: &crate::support::Answer) -> u64 {
    answer.header("lsn").unwrap().parse().unwrap()
}

#[test]
fn a_procedure_stays_within_its_partition_key() {
    let world = World::with_container("30000");
    let source = "function (pk) { __.createDocument(__.getSelfLink(), { id: '1', pk: pk }); }";
    procedure(&world, "s", source);
    run(&world, "s", r#"["b"]"#).refused(400, "0", "cannot reference partition keys other");
    run(&world, "s", r#"["a"]"#).expect(200);
    let keyless = world.post(&at("sprocs/s"), r#"["a"]"#);
    keyless.refused(400, "0", "PartitionKey value must be supplied");
    run(&world, "s", r#"{"not":"a list"}"#).refused(400, "0", "must be an array");
    run(&world, "nobody", "[]").refused(404, "0", "'nobody'");
    run(&world, "s", r#"["a"]"#).signed_by(READONLY).refused(403, "0", "read-only key");
}

#[test]
fn triggers_run_with_the_write_that_names_them() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let pre = "function () { var r = __.request, b = r.getBody(); if (b) { b.id += '!'; r.setBody(b); } }";
        trigger(&world, "pre", "Pre", "All", pre);
        let post = r#"function () {
            var b = getContext().getResponse().getBody();
            b.told = true;
            getContext().getResponse().setBody(b);
            __.createDocument(__.getSelfLink(), { id: 'log', pk: 'a' });
        }"#;
        trigger(&world, "post", "post", "create", post);
        let create = |id: &str| {
            let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
            world.post(DOCS, &body).key(r#"["a"]"#)
        };
        let made = create("1").header(PRE, "pre").header(POST, "post").expect(201);
        assert_eq!(made.member("id"), "1!");
        assert_eq!(made.json().get("told"), Some(&Value::Bool(true)));
        let path = format!("{DOCS}/1!");
        let stored = world.get(&path).key(r#"["a"]"#).expect(200);
        assert_eq!(stored.json().get("told"), None);
        assert_eq!(made.header("etag"), stored.header("etag"));
        create("2").header(POST, "post").refused(400, "0", "already exists");
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 2);

        create("2").header(PRE, "nobody").refused(400, "0", "nobody");
        create("2").header(PRE, "post").refused(400, "0", "post");
        create("2").header(PRE, "pre, pre").refused(400, "0", "one pre-trigger");
        let delete = || world.delete(&path).key(r#"["a"]"#);
        delete().header(POST, "post").refused(400, "0", "create");
        let quiet = create("3").header(PRE, "pre").header("prefer", "return=minimal").expect(201);
        assert!(quiet.body.is_empty());
        delete().header(PRE, "pre").expect(204);
        let patch = world.patch(&path, r#"[{"op":"set","path":"/v","value":1}]"#);
        patch.key(r#"["a"]"#).header(PRE, "pre").refused(501, "0", "triggers");
    }
}

#[test]
fn queries_call_functions() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..6 {
            let body = format!(r#"{{"id":"{n}","pk":"k{n}","n":{n}}}"#);
            world.post(DOCS, &body).key(&format!(r#"["k{n}"]"#)).expect(201);
        }
        let source = "function twice(n) { return n * 2; }";
        world.post(&at("udfs"), &script("twice", source, "")).expect(201);
        let bad = "function () { throw new Error('no'); }";
        world.post(&at("udfs"), &script("bad", bad, "")).expect(201);
        let query = |text: &str| {
            let body = format!(r#"{{"query":"{text}"}}"#);
            world
                .post(DOCS, &body)
                .header("content-type", "application/query+json")
                .header("x-ms-documentdb-query-enablecrosspartition", "True")
                .header("x-ms-documentdb-partitionkey", r#"["k3"]"#)
        };
        let rows = query("SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) > 4");
        assert_eq!(rows.expect(200).feed("Documents"), [Value::from(6_i64)]);
        query("SELECT VALUE udf.nobody(c.n) FROM c").refused(400, "0", "nobody");
        query("SELECT VALUE udf.bad(c.n) FROM c").refused(400, "0", "no");
    }
}

#[test]
fn a_token_for_a_procedure_runs_it_and_nothing_else() {
    let world = World::with_container("400");
    procedure(&world, "s", "function () { __.response.setBody(1); }");
    procedure(&world, "t", "function () { __.response.setBody(2); }");
    world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
    let token = |name: &str, mode: &str, link: &str| {
        let body = format!(r#"{{"id":"{name}","permissionMode":"{mode}","resource":"{link}"}}"#);
        world.post("/dbs/d/users/u/permissions", &body).expect(201).member("_token")
    };
    let one = token("p", "All", "dbs/d/colls/c/sprocs/s");
    assert_eq!(run(&world, "s", "[]").token(&one).expect(200).text(), "1");
    run(&world, "t", "[]").token(&one).refused(403, "0", "");
    world.get(DOCS).token(&one).refused(403, "0", "");
    world.get(&at("sprocs/s")).token(&one).expect(200);
    world.delete(&at("sprocs/s")).token(&one).refused(403, "0", "");
    let reading = token("q", "Read", "dbs/d/colls/c/sprocs/t");
    run(&world, "t", "[]").token(&reading).refused(403, "0", "mode is Read");
}
