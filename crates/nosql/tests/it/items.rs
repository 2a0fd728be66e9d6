//! Items: the life of one, its headers, and feeds of them.

use partita_model::{KEY_MISMATCH, Value};

use crate::support::{Answer, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";

/// The headers that SDKs rely on in every answer about an item.
#[track_caller]
fn check_item_headers(answer: &Answer, partitions: usize) {
    check_partition_headers(answer, partitions);
    assert_eq!(answer.header("x-ms-content-path").unwrap().len(), 12);
}

/// The same, if the item is not there.
#[track_caller]
fn check_partition_headers(answer: &Answer, partitions: usize) {
    let range: usize =
        answer.header("x-ms-documentdb-partitionkeyrangeid").unwrap().parse().unwrap();
    assert!(range < partitions);
    let lsn: u64 = answer.header("lsn").unwrap().parse().unwrap();
    assert_eq!(answer.header("x-ms-session-token"), Some(format!("{range}:-1#{lsn}").as_str()));
    for name in [
        "x-ms-global-committed-lsn",
        "x-ms-quorum-acked-lsn",
        "x-ms-cosmos-llsn",
        "x-ms-cosmos-quorum-acked-llsn",
    ] {
        assert_eq!(answer.header(name), Some(lsn.to_string().as_str()), "{name}");
    }
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
    let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge > 0.0);
    let duration: f64 = answer.header("x-ms-request-duration-ms").unwrap().parse().unwrap();
    assert!(duration >= 0.0);
    for name in [
        "x-ms-activity-id",
        "x-ms-version",
        "x-ms-schemaversion",
        "x-ms-serviceversion",
        "x-ms-gatewayversion",
        "server",
    ] {
        assert!(answer.header(name).is_some(), "{name}");
    }
}

/// The headers of an answer, but for those that say how long it took and what is in it.
fn comparable_headers(answer: &Answer) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let all = answer.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let own = ["x-ms-request-duration-ms", "content-type"];
    let mut found: Vec<_> = all.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    found.sort();
    found
}

#[test]
fn an_answer_with_an_item_has_the_headers_of_one_without() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..20 {
            let (path, key) = (format!("{DOCS}/{n}"), format!(r#"["key{n}"]"#));
            let body = format!(r#"{{"id":"{n}","pk":"key{n}"}}"#);
            world.post(DOCS, &body).key(&key).expect(201);
            let get = || world.get(&path).key(&key).header("x-ms-activity-id", "mine");
            let whole = get().expect(200);
            let etag = whole.header("etag").unwrap();
            let unmodified = get().header("if-none-match", etag).expect(304);
            assert_eq!(comparable_headers(&whole), comparable_headers(&unmodified));
            assert_eq!(whole.header("content-type"), Some("application/json"));
            let location = format!("http://127.0.0.1:8081{path}");
            assert_eq!(whole.header("content-location"), Some(location.as_str()));
            assert_eq!(whole.header("x-ms-activity-id"), Some("mine"));

            let put = || world.put(&path, &body).key(&key);
            let names = |answer: &Answer| -> Vec<String> {
                comparable_headers(answer).into_iter().map(|(name, _)| name).collect()
            };
            let minimal = put().header("prefer", "return=minimal").expect(200);
            assert_eq!(names(&put().expect(200)), names(&minimal));
        }
    }
}

#[test]
fn an_item_lives_from_create_to_delete() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..20 {
            let (key, id) = (format!(r#"["key{n}"]"#), format!("item {n}"));
            let path = format!("{DOCS}/item%20{n}");
            let body = format!(r#"{{"id":"{id}","pk":"key{n}","n":{n}}}"#);

            let created = world.post(DOCS, &body).key(&key).expect(201);
            check_item_headers(&created, partitions);
            let etag = created.header("etag").unwrap();
            assert_eq!(created.member("_etag"), etag);
            assert!(etag.starts_with('"') && etag.ends_with('"'));
            let expected = format!(r#"{{"id":"{id}","pk":"key{n}","n":{n},"_rid":"#);
            assert!(created.text().starts_with(&expected), "{}", created.text());

            let read = world.get(&path).key(&key).expect(200);
            check_item_headers(&read, partitions);
            assert_eq!(read.body, created.body);
            assert_eq!(read.header("etag"), Some(etag));
            assert_eq!(read.header("x-ms-item-lsn"), created.header("lsn"));
            assert_eq!(read.header("x-ms-session-token"), created.header("x-ms-session-token"));

            let body = format!(r#"{{"id":"{id}","pk":"key{n}","n":"new"}}"#);
            let replaced = world.put(&path, &body).key(&key).expect(200);
            check_item_headers(&replaced, partitions);
            assert_ne!(replaced.header("etag"), Some(etag));
            assert_ne!(replaced.header("x-ms-session-token"), created.header("x-ms-session-token"));
            assert_eq!(replaced.member("_rid"), created.member("_rid"));

            let patch = r#"{"operations":[{"op":"set","path":"/m","value":1}]}"#;
            let patched = world.patch(&path, patch).key(&key).expect(200);
            check_item_headers(&patched, partitions);
            assert_eq!(patched.json().get("m").and_then(Value::as_i64), Some(1));

            let deleted = world.delete(&path).key(&key).expect(204);
            check_item_headers(&deleted, partitions);
            assert!(deleted.body.is_empty() && deleted.header("content-type").is_none());

            let gone = world.get(&path).key(&key).refused(404, "0", "Resource Not Found");
            check_partition_headers(&gone, partitions);
            assert_eq!(gone.header("x-ms-content-path"), None);
            assert_eq!(gone.member("code"), "NotFound");
        }
    }
}

#[test]
fn upsert_creates_and_then_replaces() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let upsert = |body| {
            world.post(DOCS, body).key("[1.0]").header("x-ms-documentdb-is-upsert", "True").send()
        };
        assert_eq!(upsert(r#"{"id":"1","pk":1}"#).status, 201);
        let second = upsert(r#"{"id":"1","pk":1.0,"again":true}"#);
        assert_eq!(second.status, 200);
        assert!(second.text().contains(r#""pk":1.0,"again":true"#));
        world.get(&format!("{DOCS}/1")).key("[1]").expect(200);
    }
}

#[test]
fn a_second_create_conflicts_and_says_where_the_partition_is() {
    let world = World::with_container("30000");
    let create = || world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#);
    create().expect(201);
    let conflict = create().refused(409, "0", "");
    assert_eq!(conflict.member("code"), "Conflict");
    check_item_headers(&conflict, 5);
    world.post(DOCS, r#"{"id":"1","pk":"b"}"#).key(r#"["b"]"#).expect(201);
}

#[test]
fn a_minimal_answer_has_all_headers_and_no_body() {
    let world = World::with_container("400");
    let key = r#"["a"]"#;
    let body = r#"{"id":"1","pk":"a"}"#;
    let path = format!("{DOCS}/1");
    let patch = r#"[{"op":"add","path":"/x","value":2}]"#;
    for (ask, status) in [
        (world.post(DOCS, body), 201),
        (world.post(DOCS, body).header("x-ms-documentdb-is-upsert", "true"), 200),
        (world.put(&path, body), 200),
        (world.patch(&path, patch), 200),
    ] {
        let answer = ask.key(key).header("prefer", "return=minimal").expect(status);
        assert!(answer.body.is_empty() && answer.header("content-type").is_none());
        assert!(answer.header("etag").is_some());
        check_item_headers(&answer, 1);
    }
    let quiet = world.put(&path, body).key(key);
    let answer =
        quiet.header("x-ms-cosmos-populate-content-response-on-write", "False").expect(200);
    assert!(answer.body.is_empty());
    let read = world.get(&path).key(key).header("prefer", "return=minimal").expect(200);
    assert!(!read.body.is_empty(), "a read is never minimal");
}

#[test]
fn undefined_null_and_empty_keys_are_three_keys() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for (key, body) in [
            ("[{}]", r#"{"id":"1"}"#),
            ("[null]", r#"{"id":"1","pk":null}"#),
            (r#"[""]"#, r#"{"id":"1","pk":""}"#),
            ("[{}]", r#"{"id":"2","pk":{"a":1}}"#),
            (r#"["\u00e9"]"#, r#"{"id":"1","pk":"é"}"#),
        ] {
            world.post(DOCS, body).key(key).expect(201);
        }
        world.post(DOCS, r#"{"id":"3"}"#).key("[null]").refused(400, "1001", KEY_MISMATCH);
        world.get(&format!("{DOCS}/2")).key("[null]").expect(404);
        world.get(&format!("{DOCS}/1")).key("[\"é\"]").expect(200);
    }
}

#[test]
fn ids_may_hold_almost_anything() {
    let world = World::with_container("400");
    for (id, path) in [
        (r" x ", "%20x%20"),
        (r"a+b", "a+b"),
        (r"%20", "%2520"),
        (r"鱀", "%E9%B1%80"),
        (r"a?b", "a%3Fb"),
        (r"~!@$^&*()_=[]{}|;',.<>:-", "~!@$%5E&*()_=%5B%5D%7B%7D%7C;',.%3C%3E:-"),
        (r"docs", "docs"),
    ] {
        let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
        world.post(DOCS, &body).key(r#"["a"]"#).expect(201);
        let read = world.get(&format!("{DOCS}/{path}/")).key(r#"["a"]"#).expect(200);
        assert_eq!(read.member("id"), id);
    }
}

#[test]
fn an_unescaped_question_mark_is_part_of_the_id() {
    let world = World::with_container("400");
    world.post(DOCS, r#"{"id":"a?b","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    let raw = world.get(&format!("{DOCS}/a?b")).signing("docs", "dbs/d/colls/c/docs/a?b");
    assert_eq!(raw.key(r#"["a"]"#).expect(200).member("id"), "a?b");
}

#[test]
fn resource_ids_address_items_and_name_their_container() {
    let world = World::with_container("30000");
    let created = world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    let path = format!("/{}", created.member("_self"));
    let rid = created.member("_rid").to_lowercase();
    let read = world.get(&path).signing("docs", &rid).key(r#"["a"]"#).expect(200);
    assert_eq!(read.body, created.body);
    assert_eq!(read.header("x-ms-alt-content-path"), Some("dbs/d/colls/c"));
    world.get(&path).key(r#"["a"]"#).expect(200);
}

#[test]
fn the_path_of_the_container_comes_back_as_it_was_written() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"my db"}"#).expect(201);
    let body = r#"{"id":"é(1)","partitionKey":{"paths":["/pk"]}}"#;
    world.post("/dbs/my%20db/colls", body).expect(201);
    let docs = "/dbs/my%20db/colls/%C3%A9(1)/docs";
    let answer = world.post(docs, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/my%20db/colls/%C3%A9(1)"));
    let doubled = "//dbs/my%20db//colls/%C3%A9(1)/docs/";
    let answer = world.post(doubled, r#"{"id":"2","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/my%20db/colls/%C3%A9%281%29"));
}

#[test]
fn a_feed_is_read_page_by_page() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..25 {
            let body = format!(r#"{{"id":"{n}","pk":"key{}"}}"#, n % 10);
            world.post(DOCS, &body).key(&format!(r#"["key{}"]"#, n % 10)).expect(201);
        }
        let mut ids = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let mut ask = world.get(DOCS).header("x-ms-max-item-count", "7");
            if let Some(token) = &continuation {
                ask = ask.header("x-ms-continuation", token);
            }
            let page = ask.expect(200);
            let rows = page.feed("Documents");
            assert!(rows.len() <= 7);
            ids.extend(
                rows.iter().map(|row| row.get("id").and_then(Value::as_str).unwrap().to_owned()),
            );
            match page.header("x-ms-continuation") {
                Some(token) => continuation = Some(token.to_owned()),
                None => break,
            }
        }
        ids.sort_by_key(|id| id.parse::<u32>().unwrap());
        assert_eq!(ids, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());

        let one_key = world.get(DOCS).key(r#"["key3"]"#).expect(200);
        assert_eq!(one_key.feed("Documents").len(), 3);
        assert!(one_key.header("x-ms-documentdb-partitionkeyrangeid").is_some());
        let zero = world.get(DOCS).header("x-ms-max-item-count", "0").expect(200);
        assert_eq!(zero.body, world.get(DOCS).expect(200).body, "as if it were not there");
        let all = world.get(DOCS).header("x-ms-max-item-count", "-1").expect(200);
        assert_eq!(zero.feed("Documents").len(), all.feed("Documents").len());
        assert_eq!(all.json().get("_rid").and_then(Value::as_str).unwrap().len(), 12);
    }
}

#[test]
fn a_feed_covers_a_range_or_a_part_of_it() {
    let world = World::with_container("30000");
    for n in 0..40 {
        let body = format!(r#"{{"id":"{n}","pk":"key{n}"}}"#);
        world.post(DOCS, &body).key(&format!(r#"["key{n}"]"#)).expect(201);
    }
    let count = |id: &str| {
        let ask = world.get(DOCS).header("x-ms-documentdb-partitionkeyrangeid", id);
        let page = ask.header("x-ms-max-item-count", "1000").expect(200);
        assert_eq!(page.header("x-ms-documentdb-partitionkeyrangeid"), Some(id));
        page.feed("Documents").len()
    };
    let counts: Vec<usize> = ["0", "1", "2", "3", "4"].into_iter().map(count).collect();
    assert_eq!(counts.iter().sum::<usize>(), 40);

    let within = |start: &str, end: &str| {
        world
            .get(DOCS)
            .header("x-ms-documentdb-partitionkeyrangeid", "0")
            .header("x-ms-start-epk", start)
            .header("x-ms-end-epk", end)
            .header("x-ms-read-key-type", "EffectivePartitionKeyRange")
    };
    assert_eq!(within("", "FF").expect(200).feed("Documents").len(), counts[0]);
    let low = within("", "06000000000000000000000000000000").expect(200).feed("Documents").len();
    let high = within("06000000000000000000000000000000", "ff").expect(200).feed("Documents").len();
    assert_eq!(low + high, counts[0]);

    let ask = world.get(DOCS).header("x-ms-documentdb-partitionkeyrangeid", "17");
    ask.refused(410, "1002", "");
    within("zz", "FF").refused(400, "0", "hexadecimal");
    within("00", "FF").without("x-ms-read-key-type").refused(
        400,
        "0",
        "One of the input values is invalid",
    );
    within("00", "FF").without("x-ms-end-epk").refused(
        400,
        "0",
        "One of the input values is invalid",
    );
}

#[test]
fn session_tokens_of_the_future_are_not_available() {
    let world = World::with_container("400");
    let created = world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    let read = |token: &str| {
        world.get(&format!("{DOCS}/1")).key(r#"["a"]"#).header("x-ms-session-token", token)
    };
    read(created.header("x-ms-session-token").unwrap()).expect(200);
    read("0:-1#999999").refused(404, "1002", "");
    read("nonsense").refused(400, "0", "session token");
}

#[test]
fn containers_without_a_key_serve_old_clients_and_new_ones() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let old = "2018-06-18";
    world.post("/dbs/d/colls", r#"{"id":"c"}"#).refused(400, "0", "");
    let created =
        world.post("/dbs/d/colls", r#"{"id":"c"}"#).header("x-ms-version", old).expect(201);
    assert_eq!(created.json().get("partitionKey"), None);
    let read = world.get("/dbs/d/colls/c").expect(200);
    let key = read.json().get("partitionKey").cloned().unwrap();
    assert_eq!(key.get("systemKey"), Some(&Value::Bool(true)));

    world.post(DOCS, r#"{"id":"1"}"#).header("x-ms-version", old).expect(201);
    world.get(&format!("{DOCS}/1")).header("x-ms-version", old).expect(200);
    world.get(&format!("{DOCS}/1")).key("[]").expect(200);
    world.post(DOCS, r#"{"id":"2"}"#).key("[]").expect(201);
    world.put(&format!("{DOCS}/2"), r#"{"id":"2"}"#).header("x-ms-version", old).expect(200);
    world.delete(&format!("{DOCS}/2")).header("x-ms-version", old).expect(204);
}

#[test]
fn new_clients_must_name_the_key() {
    let world = World::with_container("400");
    let text = "PartitionKey value must be supplied for this operation.";
    world.post(DOCS, r#"{"id":"1","pk":"a"}"#).refused(400, "0", text);
    world.get(&format!("{DOCS}/1")).refused(400, "0", text);
    world.get(&format!("{DOCS}/1")).without("x-ms-version").refused(400, "0", text);
    let old = world.post(DOCS, r#"{"id":"1","pk":"a"}"#).header("x-ms-version", "2017-02-22");
    old.expect(201);
    world.get(&format!("{DOCS}/1")).header("x-ms-version", "2017-02-22").refused(400, "0", text);
}

#[test]
fn a_container_made_again_is_told_to_clients_of_the_old_one() {
    let world = World::with_container("400");
    let old = world.get("/dbs/d/colls/c").expect(200).member("_rid");
    world.delete("/dbs/d/colls/c").expect(204);
    let body = r#"{"id":"c","partitionKey":{"paths":["/other"],"version":2}}"#;
    world.post("/dbs/d/colls", body).expect(201);
    let stale = world.post(DOCS, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#);
    stale.header("x-ms-cosmos-intended-collection-rid", &old).refused(400, "1024", "");
}
