//! Stored procedures, triggers and user-defined functions over the wire, in JavaScript.

use http::Method;
use partita_engine::{EngineSettings, ThroughputMode};
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

pub(crate) fn procedure(world: &World, id: &str, source: &str) {
    world.post(&at("sprocs"), &script(id, source, "")).expect(201);
}

pub(crate) fn run<'w>(world: &'w World, id: &str, arguments: &str) -> Ask<'w> {
    world.post(&at(&format!("sprocs/{id}")), arguments).key(r#"["a"]"#)
}

pub(crate) fn trigger(world: &World, id: &str, moment: &str, operation: &str, source: &str) {
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
            ("function () { __.response.setBody(arguments.length); }", "null", "0"),
            ("function () { __.response.setBody(arguments.length); }", "{}", "0"),
            ("function () { __.response.setBody(arguments.length); }", r#"{"length":-3}"#, "0"),
            (
                "function (a, b) { __.response.setBody([a, typeof b, arguments.length]); }",
                r#"{"0":"x","length":2.9}"#,
                r#"["x","undefined",2]"#,
            ),
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
        run(&world, "s", r#"[["4","1"]]"#).refused(400, "409", "already exists");
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
    run(&world, "s", r#"["b"]"#).refused(400, "400", "cannot reference partition keys other");
    run(&world, "s", r#"["a"]"#).expect(200);
    let keyless = world.post(&at("sprocs/s"), r#"["a"]"#);
    keyless.refused(400, "0", "PartitionKey value must be supplied");
    for no_list in ["1", "true", r#""text""#] {
        run(&world, "s", no_list).refused(400, "0", "must be an array");
    }
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
        create("2").header(POST, "post").refused(400, "409", "already exists");
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 2);

        create("2").header(PRE, "nobody").refused(400, "0", "nobody");
        create("2").header(PRE, "post").refused(400, "0", "post");
        create("2").header(PRE, "pre, pre").refused(400, "0", "one pre-trigger");
        let delete = || world.delete(&path).key(r#"["a"]"#);
        delete().header(POST, "post").refused(400, "0", "create");
        let quiet = create("3").header(PRE, "pre").header("prefer", "return=minimal").expect(201);
        assert!(quiet.body.is_empty());
        delete().header(PRE, "pre").expect(204);
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
        query("SELECT VALUE udf.bad(c.n) FROM c").refused(400, "32766", "no");
    }
}

#[test]
fn a_token_for_a_procedure_runs_it_and_changes_no_other() {
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
    world.delete(&at("sprocs/t")).token(&one).refused(403, "0", "");
    let reading = token("q", "Read", "dbs/d/colls/c/sprocs/t");
    run(&world, "t", "[]").token(&reading).refused(403, "0", "mode is Read");
}

#[test]
fn the_number_of_an_error_is_the_sub_status() {
    let world = World::with_container("400");
    procedure(&world, "s", "function (n) { throw new Error(n, 'as it says'); }");
    run(&world, "s", "[409]").refused(400, "409", "as it says");
    run(&world, "s", "[12345]").refused(400, "12345", "as it says");
    procedure(&world, "plain", "function (n) { throw new Error('just so'); }");
    run(&world, "plain", "[]").refused(400, "0", "just so");
    procedure(&world, "huge", "function () { }");
    run(&world, "huge", r#"{"length":1e9}"#).refused(400, "400", "arguments at most");
}

#[test]
fn a_pre_trigger_of_a_delete_sees_the_item() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let keep = r#"function () {
            var b = __.request.getBody();
            if (b && b.kept) throw new Error(403, 'kept: ' + b.id + ' ' + __.request.getOperationType());
        }"#;
        trigger(&world, "keep", "Pre", "Delete", keep);
        for (id, kept) in [("1", "true"), ("2", "false")] {
            let body = format!(r#"{{"id":"{id}","pk":"a","kept":{kept}}}"#);
            world.post(DOCS, &body).key(r#"["a"]"#).expect(201);
        }
        let delete =
            |id: &str| world.delete(&format!("{DOCS}/{id}")).key(r#"["a"]"#).header(PRE, "keep");
        delete("1").refused(400, "403", "kept: 1 Delete");
        delete("2").expect(204);
        delete("3").refused(404, "0", "");
        world.get(&format!("{DOCS}/1")).key(r#"["a"]"#).expect(200);
    }
}

#[test]
fn a_trigger_for_upserts_runs_with_upserts_only() {
    let world = World::with_container("400");
    let mark =
        "function () { var b = __.request.getBody(); b.marked = true; __.request.setBody(b); }";
    trigger(&world, "mark", "Pre", "Upsert", mark);
    let post = || world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).header(PRE, "mark");
    post().refused(400, "0", "Upsert");
    let upserted = post().header("x-ms-documentdb-is-upsert", "True").expect(201);
    assert_eq!(upserted.json().get("marked"), Some(&Value::Bool(true)));
    let listed = world.get(&at("triggers/mark")).expect(200);
    assert_eq!(listed.member("triggerOperation"), "Upsert");
}

#[test]
fn triggers_run_with_patches_as_with_replaces() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let pre = r#"function () {
            var b = __.request.getBody();
            b.seen = b.v + ' ' + __.request.getOperationType();
            __.request.setBody(b);
        }"#;
        trigger(&world, "pre", "Pre", "Replace", pre);
        let post = r#"function () {
            var b = getContext().getResponse().getBody();
            if (b.v > 2) throw new Error('too much');
            __.createDocument(__.getSelfLink(), { id: 'log' + b.v, pk: 'a' });
        }"#;
        trigger(&world, "post", "Post", "All", post);
        trigger(&world, "create", "Pre", "Create", pre);
        world.post(DOCS, r#"{"id":"1","pk":"a","v":1}"#).key(r#"["a"]"#).expect(201);
        let path = format!("{DOCS}/1");
        let patch = |body: &str| {
            let ask = world.patch(&path, body).key(r#"["a"]"#);
            ask.header(PRE, "pre").header(POST, "post")
        };
        let incr = r#"{"operations":[{"op":"incr","path":"/v","value":1}]}"#;
        let patched = patch(incr).expect(200);
        assert_eq!(patched.member("seen"), "2 Replace");
        let stored = world.get(&path).key(r#"["a"]"#).expect(200);
        assert_eq!(stored.member("seen"), "2 Replace");
        assert_eq!(stored.header("etag"), patched.header("etag"));
        world.get(&format!("{DOCS}/log2")).key(r#"["a"]"#).expect(200);
        patch(incr).refused(400, "0", "too much");
        assert_eq!(world.get(&path).key(r#"["a"]"#).expect(200).body, stored.body);
        patch(incr).header("if-match", "\"other\"").refused(412, "0", "");
        let untrue = r#"{"operations":[{"op":"incr","path":"/v","value":1}],"condition":"from c where c.v = 9"}"#;
        patch(untrue).refused(412, "0", "");
        let missing = world.patch(&format!("{DOCS}/none"), incr).key(r#"["a"]"#);
        missing.header(PRE, "pre").refused(404, "0", "");
        let other = world.patch(&path, incr).key(r#"["a"]"#).header(PRE, "create");
        other.refused(400, "0", "Create");
    }
}

#[test]
fn a_system_procedure_needs_not_be_stored() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        assert_eq!(run(&world, "__.sys.echo", r#"["foobar"]"#).expect(200).text(), r#""foobar""#);
        assert_eq!(run(&world, "__.sys.echo", "[]").expect(200).text(), "");
        run(&world, "__.sys.nothing", "[]").refused(404, "0", "");
        for name in ["__.sys.bulkPatch", "__.sys.commonDelete", "__.sys.tablesBatchOperation"] {
            run(&world, name, "[]").refused(501, "0", name);
        }
        assert!(world.get(&at("sprocs")).expect(200).feed("StoredProcedures").is_empty());
    }
}

#[test]
fn a_script_that_exceeds_its_limits_again_and_again_is_blocked() {
    for blocks in [true, false] {
        let mut settings =
            EngineSettings { throughput: ThroughputMode::Off, ..EngineSettings::default() };
        settings.scripts.blocks = blocks;
        let world = World::with_settings(settings);
        world.make_container("400");
        let hungry = "function () { let all = []; for (;;) all.push(new Array(100000).fill(1)); }";
        procedure(&world, "p", hungry);
        trigger(&world, "t", "Pre", "All", hungry);
        world.post(&at("udfs"), &script("f", hungry, "")).expect(201);
        let item = r#"{"id":"1","pk":"a"}"#;
        world.post(DOCS, item).key(r#"["a"]"#).expect(201);
        let call = || {
            let query = r#"{"query":"SELECT VALUE udf.f() FROM c"}"#;
            let query = world.post(DOCS, query).header("content-type", "application/query+json");
            [
                run(&world, "p", "[]"),
                world.put(&format!("{DOCS}/1"), item).key(r#"["a"]"#).header(PRE, "t"),
                query.header("x-ms-documentdb-isquery", "True").key(r#"["a"]"#),
            ]
        };
        for _ in 0..3 {
            for ask in call() {
                ask.refused(403, "0", "bytes of memory that it may use");
            }
        }
        let blocked = "is blocked for execution because it has violated its allowed resource limit \
                       several times.";
        let told = if blocks { blocked } else { "bytes of memory that it may use" };
        for ask in call() {
            let answer = ask.refused(403, "0", told);
            assert_eq!(answer.member("code"), "Forbidden");
        }
        world.put(&format!("{DOCS}/1"), item).key(r#"["a"]"#).expect(200);
        world.clock.advance_millis(5 * 60_000);
        for ask in call() {
            let date = "Thu, 27 Apr 2017 00:56:12 GMT";
            ask.header("x-ms-date", date).refused(403, "0", "bytes of memory that it may use");
        }
    }
}
