//! What .NET v2 and clients like it need: ranges named with their container, containers that show
//! no system key, and answers that come slower to those who ask the same for ever.

use http::Method;
use partita_model::Value;

use crate::support::{Answer, Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const OLD: &str = "2018-09-17";
const NEW: &str = "2018-12-31";

fn query<'w>(world: &'w World, text: &str, range: &str) -> Ask<'w> {
    world
        .post(DOCS, &format!(r#"{{"query":"{text}"}}"#))
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .header(RANGE, range)
}

fn ids(answer: &Answer) -> Vec<String> {
    let id = |row: &Value| row.get("id").and_then(Value::as_str).unwrap().to_owned();
    answer.feed("Documents").iter().map(id).collect()
}

/// The ways to name a range: each with the status of a good one.
fn asks<'w>(world: &'w World, range: &str) -> Vec<(&'static str, u16, Ask<'w>)> {
    let bulk = r#"[{"operationType":"Read","id":"1","partitionKey":"[\"a\"]"}]"#;
    let batch = world
        .post(DOCS, bulk)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True");
    let mut asks = vec![
        ("a feed", 200, world.get(DOCS)),
        ("the change feed", 200, world.get(DOCS).header("a-im", "Incremental Feed")),
        ("a bulk", 200, batch),
        ("conflicts", 200, world.get("/dbs/d/colls/c/conflicts")),
    ];
    for text in [
        "select * from c",
        "select * from c order by c.n",
        "select value count(1) from c",
        "select distinct value c.n from c",
        "select top 2 * from c",
        "select value sum(c.n) from c",
        "select c.n, count(1) as k from c group by c.n",
        "select * from c order by c.n offset 1 limit 3",
    ] {
        asks.push((text, 200, query(world, text, range)));
    }
    let named = |(what, status, ask): (&'static str, u16, Ask<'w>)| {
        (what, status, ask.header(RANGE, range))
    };
    asks.into_iter().map(named).collect()
}

#[test]
fn a_range_may_be_named_with_its_container() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::with_container(throughput);
        for n in 0..20 {
            let body = format!(r#"{{"id":"{n}","pk":"key{n}","n":{n}}}"#);
            world.post(DOCS, &body).key(&format!(r#"["key{n}"]"#)).expect(201);
        }
        let rid = world.get("/dbs/d/colls/c").expect(200).member("_rid");
        let mut found = Vec::new();
        for range in 0..partitions {
            let (short, long) = (range.to_string(), format!("{rid},{range}"));
            for ((what, _, short), (_, _, long)) in
                asks(&world, &short).into_iter().zip(asks(&world, &long))
            {
                let (short, long) = (short.send(), long.send());
                assert_eq!(short.status, long.status, "{what}: {}", long.text());
                assert!([200, 207, 304].contains(&long.status), "{what}: {}", long.text());
                assert_eq!(short.text(), long.text(), "{what}");
            }
            found.extend(ids(&query(&world, "select * from c order by c.n", &long).expect(200)));
        }
        assert_eq!(found.len(), 20);
        for (what, _, ask) in asks(&world, &format!("{rid},99")) {
            if what != "conflicts" {
                ask.refused(410, "1002", "'99'");
            }
        }
    }
}

#[test]
fn a_range_of_another_container_means_that_the_name_is_stale() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let old = world.get("/dbs/d/colls/c").expect(200).member("_rid");
        world.delete("/dbs/d/colls/c").expect(204);
        let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
        world.post("/dbs/d/colls", body).expect(201);
        for (what, _, ask) in asks(&world, &format!("{old},0")) {
            let answer = ask.refused(410, "1000", &old);
            assert_eq!(answer.member("code"), "Gone", "{what}");
        }
        for (_, _, ask) in asks(&world, "nonsense,0") {
            ask.refused(400, "0", "'nonsense,0'");
        }
    }
}

/// A container without a key, made by an old client.
fn keyless_world() -> World {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    world.post("/dbs/d/colls", r#"{"id":"c"}"#).header("x-ms-version", OLD).expect(201);
    let keyed = r#"{"id":"keyed","partitionKey":{"paths":["/pk"]}}"#;
    world.post("/dbs/d/colls", keyed).expect(201);
    world
}

#[test]
fn old_clients_see_no_key_of_containers_without_one() {
    let world = keyless_world();
    let has_key = |container: &Value| container.get("partitionKey").is_some();
    let created = world.post("/dbs/d/colls", r#"{"id":"e"}"#).header("x-ms-version", OLD);
    assert!(!has_key(&created.expect(201).json()));
    for (version, shown) in [(OLD, false), ("2014-08-21", false), (NEW, true), ("2020-07-15", true)]
    {
        let get = |path: &str| world.get(path).header("x-ms-version", version).expect(200);
        assert_eq!(has_key(&get("/dbs/d/colls/c").json()), shown, "{version}");
        assert!(has_key(&get("/dbs/d/colls/keyed").json()), "{version}");
        let query = world
            .post("/dbs/d/colls", r#"{"query":"select * from c"}"#)
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-version", version);
        for feed in [get("/dbs/d/colls"), query.expect(200)] {
            for row in feed.feed("DocumentCollections") {
                let is_keyed = row.get("id").and_then(Value::as_str) == Some("keyed");
                assert_eq!(has_key(&row), shown || is_keyed, "{version}: {row}");
            }
        }
        // Nor do their queries see it.
        for (text, ids) in [
            ("select * from c where is_defined(c.partitionKey)", ["c", "e", "keyed"].as_slice()),
            ("select value c.id from c where is_defined(c.partitionKey)", &["c", "e", "keyed"]),
            ("select * from c where c.partitionKey.systemKey", &["c", "e"]),
            (
                "select value c.partitionKey.paths[0] from c",
                &["/_partitionKey", "/_partitionKey", "/pk"],
            ),
        ] {
            let query = world
                .post("/dbs/d/colls", &format!(r#"{{"query":"{text}"}}"#))
                .header("content-type", "application/query+json")
                .header("x-ms-documentdb-isquery", "True")
                .header("x-ms-version", version);
            let rows = query.expect(200).feed("DocumentCollections");
            let id =
                |row: &Value| row.as_str().or_else(|| row.get("id")?.as_str()).unwrap().to_owned();
            let mut found: Vec<String> = rows.iter().map(id).collect();
            found.sort();
            let keyed = |name: &&str| shown || ["keyed", "/pk"].contains(name);
            let expected: Vec<&str> = ids.iter().copied().filter(keyed).collect();
            assert_eq!(found, expected, "{version}: {text}");
        }
        // What was read can be written back.
        let body = get("/dbs/d/colls/c").text();
        let replaced = world.put("/dbs/d/colls/c", &body).header("x-ms-version", version);
        assert_eq!(has_key(&replaced.expect(200).json()), shown, "{version}");
    }
    // Of a container with a key, it still cannot be left out.
    world.put("/dbs/d/colls/keyed", r#"{"id":"keyed"}"#).refused(400, "0", "partitionKey");
}

#[test]
fn no_key_is_a_key_in_containers_without_one() {
    let world = keyless_world();
    world.post(DOCS, r#"{"id":"old"}"#).header("x-ms-version", OLD).expect(201);
    world.post(DOCS, r#"{"id":"none"}"#).key("[]").expect(201);
    world.post(DOCS, r#"{"id":"x","_partitionKey":"x"}"#).key(r#"["x"]"#).expect(201);
    let sorted = |ask: Ask<'_>| {
        let mut ids = ids(&ask.expect(200));
        ids.sort();
        ids
    };
    assert_eq!(sorted(world.get(DOCS).key("[]")), ["none", "old"]);
    assert_eq!(sorted(world.get(DOCS).key(r#"["x"]"#)), ["x"]);
    assert_eq!(sorted(world.get(DOCS)), ["none", "old", "x"]);
    let text = r#"{"query":"select * from c"}"#;
    let query = |key: &str| {
        let ask = world.ask(Method::POST, DOCS, text).header("x-ms-documentdb-isquery", "True");
        sorted(ask.header("content-type", "application/query+json").key(key))
    };
    assert_eq!(query("[]"), ["none", "old"]);
    let mut pages = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let ask = world.get(DOCS).key("[]").header("x-ms-max-item-count", "1");
        let ask = match &next {
            Some(token) => ask.header("x-ms-continuation", token),
            None => ask,
        };
        let page = ask.expect(200);
        pages.extend(ids(&page));
        next = page.header("x-ms-continuation").map(str::to_owned);
        if next.is_none() {
            break;
        }
    }
    pages.sort();
    assert_eq!(pages, ["none", "old"]);
}

/// A key of the user's own that is called the system's.
#[test]
fn no_key_is_a_key_wherever_it_is_called_the_systems() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::new();
        world.post("/dbs", r#"{"id":"d"}"#).expect(201);
        let key = r#"{"paths":["/pk"],"kind":"Hash","version":2,"systemKey":true}"#;
        let body = format!(r#"{{"id":"c","partitionKey":{key}}}"#);
        let created = world.post("/dbs/d/colls", &body).header("x-ms-offer-throughput", throughput);
        assert_eq!(created.expect(201).json().get("partitionKey").unwrap().to_json(), key);
        let ranges = world.get("/dbs/d/colls/c/pkranges").expect(200);
        assert_eq!(ranges.feed("PartitionKeyRanges").len(), partitions, "it spreads items");

        world.post(DOCS, r#"{"id":"2"}"#).key("[]").expect(201);
        world.post(DOCS, r#"{"id":"3","pk":"x"}"#).key(r#"["x"]"#).expect(201);
        world.post(DOCS, r#"{"id":"4","pk":"x"}"#).key("[]").refused(400, "1001", "");
        let item = format!("{DOCS}/2");
        world.get(&item).key("[]").expect(200);
        world.get(&item).key("[{}]").expect(200);
        world.get(&format!("{DOCS}/3")).key("[]").expect(404);
        assert_eq!(ids(&world.get(DOCS).key("[]").expect(200)), ["2"]);
        let changes = world.get(DOCS).key("[]").header("a-im", "Incremental Feed");
        assert_eq!(ids(&changes.expect(200)), ["2"]);
        let query = world
            .post(DOCS, r#"{"query":"select * from c order by c.id"}"#)
            .header("x-ms-documentdb-isquery", "True")
            .header("content-type", "application/query+json");
        assert_eq!(ids(&query.key("[]").expect(200)), ["2"]);
        let batch = world
            .post(DOCS, r#"[{"operationType":"Create","resourceBody":{"id":"5"}}]"#)
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True");
        batch.key("[]").expect(200);
        world.delete(&item).key("[]").expect(204);
        // To old clients it is a key like others.
        let old = world.get("/dbs/d/colls/c").header("x-ms-version", OLD).expect(200);
        assert!(old.json().get("partitionKey").is_some());
    }
}

#[test]
fn a_client_that_asks_for_a_missing_range_for_ever_is_answered_ever_later() {
    let world = World::with_container("400");
    let delays = |count: usize, range: &str| -> Vec<u128> {
        let ask = |_| {
            let answer = query(&world, "select * from c", range).expect(410);
            world
                .clock
                .advance_millis(1 + u64::try_from(answer.delivery.delay.as_millis()).unwrap());
            answer.delivery.delay.as_millis()
        };
        (0..count).map(ask).collect()
    };
    assert_eq!(delays(19, "7"), [0; 19]);
    assert_eq!(delays(9, "7"), [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    // Another range is another matter; so is another connection.
    assert_eq!(delays(1, "8"), [0]);
    let other = query(&world, "select * from c", "7").from("127.0.0.2").expect(410);
    assert_eq!(other.delivery.delay.as_millis(), 0);
    // To read the ranges again is part of the loop.
    let ranges = world.get("/dbs/d/colls/c/pkranges").expect(200);
    assert_eq!(ranges.delivery.delay.as_millis(), 0);
    world.get("/dbs/d/colls/c").expect(200);
    assert_eq!(delays(1, "7"), [1000]);
    // Any other answer ends it.
    assert_eq!(query(&world, "select * from c", "0").expect(200).delivery.delay.as_millis(), 0);
    assert_eq!(delays(20, "7"), [[0; 19].as_slice(), &[10]].concat());
    // So does a rest.
    world.clock.advance_millis(5_000);
    assert_eq!(delays(20, "7"), [[0; 19].as_slice(), &[10]].concat());
}
