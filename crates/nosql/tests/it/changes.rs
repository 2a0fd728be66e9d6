//! The change feed on the wire: headers, ETags, 304.

use partita_model::Value;

use crate::support::{Answer, Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";

fn put(world: &World, id: &str, pk: &str) {
    let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
    let upsert = world.post(DOCS, &body).header("x-ms-documentdb-is-upsert", "True");
    assert!(upsert.key(&format!(r#"["{pk}"]"#)).send().status < 300);
}

fn feed(world: &World) -> Ask<'_> {
    world.get(DOCS).header("a-im", "Incremental Feed")
}

fn of_range<'w>(world: &'w World, id: &str) -> Ask<'w> {
    feed(world).header("x-ms-documentdb-partitionkeyrangeid", id)
}

fn ids(answer: &Answer) -> Vec<String> {
    let id = |row: &Value| row.get("id").and_then(Value::as_str).unwrap().to_owned();
    answer.feed("Documents").iter().map(id).collect()
}

#[test]
fn a_page_tells_how_far_it_is_and_the_end_is_not_modified() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let feed = || feed(&world).key(r#"["a"]"#);
        let empty = feed().expect(304);
        assert!(empty.body.is_empty());
        let start = empty.header("etag").unwrap().to_owned();
        assert!(start.starts_with('"') && start.ends_with('"') && start.len() > 2, "{start}");
        put(&world, "1", "a");
        put(&world, "2", "a");
        put(&world, "1", "a");
        let first = feed().header("x-ms-max-item-count", "1").expect(200);
        assert_eq!(ids(&first), ["2"]);
        assert_eq!(first.header("x-ms-item-count"), Some("1"));
        assert_eq!(first.header("x-ms-continuation"), None);
        let range = first.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
        let lsn = first.header("lsn").unwrap();
        let token = format!("{range}:-1#{lsn}");
        assert_eq!(first.header("x-ms-session-token"), Some(token.as_str()));
        let next = feed().header("if-none-match", first.header("etag").unwrap()).expect(200);
        assert_eq!(ids(&next), ["1"]);
        assert_eq!(next.header("etag"), Some(format!("\"{lsn}\"").as_str()));
        let end = feed().header("if-none-match", next.header("etag").unwrap()).expect(304);
        assert_eq!(end.header("etag"), next.header("etag"));
        assert_eq!(end.header("x-ms-request-charge"), Some("1"));
        let all = feed().header("if-none-match", &start).expect(200);
        assert_eq!(ids(&all), ["2", "1"]);
        let zero = feed().header("if-none-match", &start).header("x-ms-max-item-count", "0");
        assert_eq!(ids(&zero.expect(200)), ["2", "1"], "as if it were not there");
    }
}

#[test]
fn a_changed_item_is_the_item_and_its_lsn() {
    let world = World::with_container("30000");
    let body = r#"{"id":"x","pk":"a","_lsn":"mine","n":1.50}"#;
    world.post(DOCS, body).key(r#"["a"]"#).expect(201);
    let answer = feed(&world).key(r#"["a"]"#).expect(200);
    let (text, lsn) = (answer.text(), answer.header("lsn").unwrap());
    assert!(text.contains(r#"[{"id":"x","pk":"a","n":1.50,"_rid":"#), "{text}");
    assert!(text.contains(&format!(r#","_lsn":{lsn}}}]"#)), "{text}");
    let format = "x-ms-cosmos-changefeed-wire-format-version";
    let answer = feed(&world).key(r#"["a"]"#).header(format, "2021-09-15").expect(200);
    let text = answer.text();
    assert!(text.contains(r#"[{"current":{"id":"x","pk":"a","_lsn":"mine","n":1.50,"#), "{text}");
    assert!(
        text.contains(&format!(r#","metadata":{{"lsn":{lsn},"crts":1493254272}}}}]"#)),
        "{text}"
    );
}

#[test]
fn a_reader_from_now_sees_what_comes_after() {
    let world = World::with_container("30000");
    put(&world, "before", "a");
    let feed = || feed(&world).key(r#"["a"]"#);
    let now = feed().header("if-none-match", "*").expect(304);
    put(&world, "after", "a");
    let etag = now.header("etag").unwrap();
    assert_eq!(ids(&feed().header("if-none-match", etag).expect(200)), ["after"]);
}

#[test]
fn a_reader_from_a_time_sees_what_is_younger() {
    let world = World::with_container("400");
    put(&world, "old", "a");
    world.clock.advance_millis(60_000);
    put(&world, "new", "a");
    let since = |date: &str| of_range(&world, "0").header("if-modified-since", date);
    for zone in ["GMT", "UTC", "+0000", "-00:00"] {
        let since = |time| since(&format!("Thu, 27 Apr 2017 {time} {zone}"));
        assert_eq!(ids(&since("00:51:11").expect(200)), ["old", "new"]);
        assert_eq!(ids(&since("00:51:12").expect(200)), ["new"], "not of the same second");
        let later = since("00:52:12").expect(304);
        assert!(later.header("etag").is_some());
    }
    assert_eq!(ids(&since("Thu, 27 Apr 2017 02:51:12 +0200").expect(200)), ["new"]);
    since("last week").refused(400, "0", "last week");
}

#[test]
fn a_range_and_the_epks_in_it_are_asked_by_headers() {
    let world = World::with_container("30000");
    for n in 0..40 {
        put(&world, &n.to_string(), &format!("k{n}"));
    }
    let mut whole = Vec::new();
    for id in 0..5 {
        let part = ids(&of_range(&world, &id.to_string()).expect(200));
        let within = |min: &str, max: &str| {
            of_range(&world, &id.to_string())
                .header("x-ms-start-epk", min)
                .header("x-ms-end-epk", max)
                .header("x-ms-read-key-type", "EffectivePartitionKeyRange")
        };
        assert_eq!(ids(&within("00", "FF").expect(200)), part);
        within("FE", "FF").expect(304);
        whole.extend(part);
    }
    assert_eq!(whole.len(), 40);
    of_range(&world, "7").refused(410, "1002", "'7'");
    assert_eq!(ids(&feed(&world).expect(200)).len(), 40, "all of the container");
}

#[test]
fn all_versions_come_in_envelopes() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk","/b/c"],"kind":"MultiHash","version":2},
        "changeFeedPolicy":{"retentionDuration":5},"defaultTtl":-1}"#;
    world.post("/dbs/d/colls", body).expect(201);
    let key = r#"["a",1]"#;
    let put = |v: u32, ttl: i32| {
        let body = format!(r#"{{"id":"x","pk":"a","b":{{"c":1}},"v":{v},"ttl":{ttl}}}"#);
        let upsert = world.post(DOCS, &body).header("x-ms-documentdb-is-upsert", "True");
        assert!(upsert.key(key).send().status < 300);
    };
    let feed = |etag: &str| {
        let ask = world.get(DOCS).header("a-im", "Full-Fidelity Feed").key(key);
        ask.header("if-none-match", etag)
            .header("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15")
    };
    let now = feed("*").expect(304);
    put(1, -1);
    put(2, -1);
    world.delete("/dbs/d/colls/c/docs/x").key(key).expect(204);
    put(3, 10);
    world.clock.advance_millis(10_000);
    put(4, -1);
    let rows = feed(now.header("etag").unwrap()).expect(200).feed("Documents");
    let told: Vec<String> = rows.iter().map(summary).collect();
    let identity = r#"x {"pk":"a","b/c":1}"#;
    let expected = [
        "create: 1 after -".to_owned(),
        "replace: 2 after -".to_owned(),
        format!("delete: - after 2 {identity}"),
        "create: 3 after -".to_owned(),
        format!("delete: - after - {identity} expired"),
        "create: 4 after -".to_owned(),
    ];
    assert_eq!(told, expected);
    let metadata = |row: usize, name: &str| {
        rows[row].get("metadata").unwrap().get(name).and_then(Value::as_i64)
    };
    assert_eq!(metadata(1, "previousImageLSN"), metadata(0, "lsn"));
    assert_eq!(metadata(0, "previousImageLSN"), None);
    assert_eq!(metadata(0, "crts"), Some(1_493_254_272));
    assert!(rows[2].get("current").is_some(), "present and empty");
    world.get(DOCS).header("a-im", "Full-Fidelity Feed").key(key).refused(400, "0", "retention");
}

/// A change in short.
fn summary(row: &Value) -> String {
    let v = |name: &str| {
        let version = row.get(name).and_then(|item| item.get("v")).and_then(Value::as_i64);
        version.map_or("-".to_owned(), |v| v.to_string())
    };
    let metadata = row.get("metadata").unwrap();
    let operation = metadata.get("operationType").and_then(Value::as_str).unwrap();
    let mut out = format!("{operation}: {} after {}", v("current"), v("previous"));
    if let Some(id) = metadata.get("id").and_then(Value::as_str) {
        out.push_str(&format!(" {id} {}", metadata.get("partitionKey").unwrap().to_json()));
    }
    if metadata.get("timeToLiveExpired").is_some() {
        out.push_str(" expired");
    }
    out
}

#[test]
fn all_versions_are_refused_where_they_are_not_kept() {
    let world = World::with_container("400");
    let ask = world.get(DOCS).header("a-im", "Full-Fidelity Feed").header("if-none-match", "*");
    let answer = ask.refused(400, "0", "All Versions and Deletes");
    assert!(answer.member("message").contains("must be enabled"));
}

#[test]
fn a_reader_can_be_wrong() {
    let world = World::with_container("400");
    of_range(&world, "0").header("if-none-match", "\"x\"").refused(400, "0", "Continuation");
    let ahead = of_range(&world, "0").header("if-none-match", "\"77\"").expect(304);
    assert_eq!(ahead.header("etag"), of_range(&world, "0").expect(304).header("etag"));
    world.get(DOCS).header("a-im", "gdiff").refused(400, "0", "gdiff");
    feed(&world).header("x-ms-max-item-count", "-2").refused(400, "0", "max-item-count");
}

#[test]
fn a_query_with_the_change_feeds_header_filters_the_feed() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        for id in ["1", "2", "3"] {
            put(&world, id, "a");
        }
        let ask = |query: &str| {
            world
                .post(DOCS, query)
                .key(r#"["a"]"#)
                .header("a-im", "Incremental Feed")
                .header("x-ms-documentdb-isquery", "True")
                .header("content-type", "application/query+json")
        };
        let two = r#"{"query":"SELECT * FROM c WHERE c.id = @id","parameters":[{"name":"@id","value":"2"}],
            "enableQueryOnPreviousImage":false}"#;
        let page = ask(two).expect(200);
        assert_eq!(ids(&page), ["2"]);
        assert!(page.text().contains(r#""_lsn":"#), "{}", page.text());
        assert_eq!(page.header("x-ms-item-count"), Some("1"));
        let etag = page.header("etag").unwrap();
        let end = ask(two).header("if-none-match", etag).expect(304);
        assert!(end.header("etag").is_some());
        put(&world, "2", "a");
        put(&world, "3", "a");
        assert_eq!(ids(&ask(two).header("if-none-match", etag).expect(200)), ["2"]);
        let names = ask(r#"{"query":"SELECT VALUE c.id FROM c WHERE c.id != '3'"}"#).expect(200);
        assert_eq!(names.feed("Documents"), [Value::from("1"), Value::from("2")]);
        let none = ask(r#"{"query":"SELECT * FROM c WHERE c.id = 'none'"}"#).expect(304);
        assert!(none.header("etag").is_some());
        ask(r#"{"query":"SELECT * FROM c ORDER BY c.id"}"#).refused(400, "0", "ORDER BY");
        ask(r#"{"query":"SELECT * FROM c","enableQueryOnPreviousImage":1}"#).refused(
            400,
            "0",
            "enableQueryOnPreviousImage",
        );
        ask("{}").refused(400, "0", "query");
    }
}
