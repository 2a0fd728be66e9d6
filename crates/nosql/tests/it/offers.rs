//! Throughput: how it is asked for, found and replaced.

use partita_engine::{DefaultThroughput, EngineSettings};
use partita_model::Value;

use crate::support::{Answer, World};

fn offers_of(world: &World, owner: &str) -> Vec<Value> {
    let link = world.get(owner).expect(200).member("_self");
    let query = format!(
        r#"{{"query":"SELECT * FROM root r WHERE r.resource=@link","parameters":[{{"name":"@link","value":"{link}"}}]}}"#
    );
    world
        .post("/offers", &query)
        .header("x-ms-documentdb-isquery", "true")
        .expect(200)
        .feed("Offers")
}

fn throughput(offer: &Value) -> Option<i64> {
    offer.get("content")?.get("offerThroughput")?.as_i64()
}

fn text<'a>(offer: &'a Value, name: &str) -> &'a str {
    offer.get(name).and_then(Value::as_str).unwrap()
}

fn replace(world: &World, offer: &Value, from: &str, to: &str) -> Answer {
    let rid = text(offer, "id");
    let body = offer.to_json();
    assert!(body.contains(from), "{body}");
    world
        .put(&format!("/offers/{rid}/"), &body.replace(from, to))
        .signing("offers", &rid.to_lowercase())
        .send()
}

#[test]
fn a_manual_offer_is_found_by_its_owner_and_replaced() {
    let world = World::with_container("400");
    let container = world.get("/dbs/d/colls/c").expect(200);
    let offers = offers_of(&world, "/dbs/d/colls/c");
    let [offer] = offers.as_slice() else { panic!("one offer, not {offers:?}") };
    let rid = text(offer, "id").to_owned();
    assert_eq!(rid.len(), 4);
    assert_eq!(text(offer, "_self"), format!("offers/{rid}/"));
    assert_eq!(text(offer, "resource"), container.member("_self"));
    assert_eq!(text(offer, "offerResourceId"), container.member("_rid"));
    assert_eq!((text(offer, "offerVersion"), text(offer, "offerType")), ("V2", "Invalid"));
    assert_eq!(throughput(offer), Some(400));

    let answer = replace(&world, offer, r#""offerThroughput":400"#, r#""offerThroughput":500"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-ms-offer-replace-pending"), Some("false"));
    assert_eq!(throughput(&answer.json()), Some(500));
    let read = world.get(&format!("/offers/{rid}")).expect(200);
    assert_eq!(read.json(), answer.json());
    assert_eq!(world.get("/offers").expect(200).feed("Offers"), [read.json()]);

    world.delete("/dbs/d/colls/c").expect(204);
    world.get(&format!("/offers/{rid}")).refused(404, "0", "");
}

#[test]
fn an_autoscale_offer_tells_its_settings() {
    let world = World::new();
    let settings = r#"{"maxThroughput": 5000, "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 3}}}"#;
    world
        .post("/dbs", r#"{"id":"d"}"#)
        .header("x-ms-cosmos-offer-autopilot-settings", settings)
        .expect(201);
    let offers = offers_of(&world, "/dbs/d");
    assert_eq!(throughput(&offers[0]), Some(500));
    let shown =
        offers[0].get("content").and_then(|content| content.get("offerAutopilotSettings")).unwrap();
    assert_eq!(shown.get("maxThroughput").and_then(Value::as_i64), Some(5000));
    assert!(shown.to_json().contains(r#""incrementPercent":3"#));

    let answer = replace(&world, &offers[0], r#""maxThroughput":5000"#, r#""maxThroughput":7000"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(throughput(&answer.json()), Some(700));
}

#[test]
fn a_replaced_autoscale_offer_grows_only_if_it_says_so_again() {
    let world = World::new();
    let settings =
        r#"{"maxThroughput":5000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":0}}}"#;
    world
        .post("/dbs", r#"{"id":"d"}"#)
        .header("x-ms-cosmos-offer-autopilot-settings", settings)
        .expect(201);
    let offers = offers_of(&world, "/dbs/d");
    let policy = r#","autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":0}}"#;
    let answer = replace(&world, &offers[0], policy, "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!answer.text().contains("autoUpgradePolicy"), "{}", answer.text());
    assert!(!offers_of(&world, "/dbs/d")[0].to_json().contains("autoUpgradePolicy"));
}

#[test]
fn a_container_made_without_throughput_shows_400() {
    let world = World::new();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let body = r#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2}}"#;
    world.post("/dbs/d/colls", body).expect(201);
    assert!(offers_of(&world, "/dbs/d").is_empty(), "a database has none");
    let offers = offers_of(&world, "/dbs/d/colls/c");
    assert_eq!(throughput(&offers[0]), Some(400));
    let path = "/_partita/databases/d/containers/c/partitions";
    let partitions = world.get(path).signing("_partita", path.trim_start_matches('/')).expect(200);
    assert!(partitions.text().contains(r#""provisioned":400"#), "{}", partitions.text());
    let answer =
        replace(&world, &offers[0], r#""offerThroughput":400"#, r#""offerThroughput":900"#);
    assert_eq!((answer.status, throughput(&answer.json())), (200, Some(900)));
    assert_eq!(throughput(&offers_of(&world, "/dbs/d/colls/c")[0]), Some(900));
    let etag = text(&offers[0], "_etag");
    let late = world.put(&format!("/offers/{}", text(&offers[0], "id")), &offers[0].to_json());
    late.header("if-match", etag).expect(412);
}

#[test]
fn throughput_changes_its_kind_only_when_asked_to() {
    let world = World::with_container("1000");
    let offers = offers_of(&world, "/dbs/d/colls/c");
    let rid = text(&offers[0], "id");
    let mut offer = offers[0].to_json();
    let manual = r#""offerThroughput":1000"#;
    offer = offer
        .replace(manual, &format!(r#"{manual},"offerAutopilotSettings":{{"maxThroughput":1000}}"#));
    let put = || world.put(&format!("/offers/{rid}"), &offer);
    put().refused(400, "0", "");
    let migrated = put().header("x-ms-cosmos-migrate-offer-to-autopilot", "true").expect(200);
    assert!(migrated.text().contains("offerAutopilotSettings"));
    let back = put().header("x-ms-cosmos-migrate-offer-to-manual-throughput", "true").expect(200);
    assert!(!back.text().contains("offerAutopilotSettings"), "{}", back.text());
}

#[test]
fn bad_offers_are_refused() {
    let world = World::with_container("400");
    let offers = offers_of(&world, "/dbs/d/colls/c");
    let bad = |from, to| replace(&world, &offers[0], from, to).status;
    assert_eq!(bad(r#""offerThroughput":400"#, r#""offerThroughput":"400""#), 400);
    assert_eq!(bad(r#""offerThroughput":400"#, r#""offerThroughput":450"#), 400);
    assert_eq!(bad(r#""offerThroughput":400"#, r#""other":400"#), 400);
    assert_eq!(bad(r#""content":{"#, r#""contents":{"#), 400);
    let rid = text(&offers[0], "id");
    assert_eq!(bad(&format!(r#""id":"{rid}""#), r#""id":"AAAA""#), 400);
    world.get("/offers/not-an-offer").refused(400, "0", "not-an-offer");
    world.post("/offers", "{}").refused(400, "0", "only a query");
    world.delete(&format!("/offers/{rid}")).refused(405, "0", "DELETE");
}

#[test]
fn throughput_headers_are_checked() {
    let world = World::new();
    let create = || world.post("/dbs", r#"{"id":"x"}"#);
    let manual = "x-ms-offer-throughput";
    let autoscale = "x-ms-cosmos-offer-autopilot-settings";
    create().header(manual, "400").header(autoscale, r#"{"maxThroughput":1000}"#).refused(
        400,
        "0",
        "exclude each other",
    );
    create().header(manual, "many").refused(400, "0", "'many'");
    create().header(manual, "450").refused(
        400,
        "0",
        "between 400 and 1000000 inclusive in increments of 100",
    );
    create().header(autoscale, "{").refused(400, "0", "must be JSON");
    let low = r#"{"maxThroughput": -200, "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 0}}}"#;
    let text = "Requested throughput -200 is less than required minimum throughput 1000";
    create().header(autoscale, low).refused(400, "0", text);
    world.get("/dbs/x").expect(404);
}

#[test]
fn whoever_uses_more_than_was_provisioned_is_asked_to_wait() {
    let world = World::throttled();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    world.post("/dbs/d/colls", definition).header("x-ms-offer-throughput", "400").expect(201);
    let write = |n: u32| {
        world
            .post("/dbs/d/colls/c/docs", &format!(r#"{{"id":"i{n}","pk":"a"}}"#))
            .header("x-ms-documentdb-partitionkey", r#"["a"]"#)
    };
    let first = (0..1_000).find(|n| write(*n).send().status == 429).unwrap();
    let refused = write(first).refused(429, "3200", "Request rate is large");
    assert!(refused.text().starts_with(r#"{"code":"TooManyRequests""#), "{}", refused.text());
    assert_eq!(refused.header("x-ms-request-charge"), Some("0"));
    let wait: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    assert!((1..=1_000).contains(&wait), "{wait}");
    world.get("/dbs/d/colls/c").expect(200);
    world.clock.advance_millis(wait);
    write(first).expect(201);
}

#[test]
fn throughput_buckets_and_priorities_are_checked_and_honoured() {
    let world = World::throttled();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    world.post("/dbs/d/colls", definition).header("x-ms-offer-throughput", "400").expect(201);
    let offers = offers_of(&world, "/dbs/d/colls/c");
    let buckets = r#""throughputBuckets":[{"id":2,"maxThroughputPercentage":10}]"#;
    let content = r#""offerThroughput":400"#;
    let answer = replace(&world, &offers[0], content, &format!("{content},{buckets}"));
    assert_eq!(answer.header("x-ms-cosmos-min-throughput"), Some("400"));
    assert!(answer.text().contains(buckets), "{}", answer.text());
    let bad = r#""throughputBuckets":[{"id":9,"maxThroughputPercentage":10}]"#;
    assert_eq!(replace(&world, &offers[0], content, &format!("{content},{bad}")).status, 400);
    let read = |name: &str, value: &str| {
        world
            .get("/dbs/d/colls/c/docs/x")
            .header("x-ms-documentdb-partitionkey", r#"["a"]"#)
            .header(name, value)
    };
    let bucket = "x-ms-cosmos-throughput-bucket";
    let served = (0..1_000).take_while(|_| read(bucket, "2").send().status == 404).count();
    assert!((39..=41).contains(&served), "{served}");
    read(bucket, "2").refused(429, "3212", "bucket 2");
    read(bucket, "3").expect(404);
    read(bucket, "6").refused(400, "0", "is invalid.");
    read("x-ms-cosmos-priority-level", "Low").expect(404);
    read("x-ms-cosmos-priority-level", "medium").refused(400, "0", "must be High or Low");
}

#[test]
fn a_container_without_throughput_has_no_offer_where_it_is_serverless() {
    let default_throughput = DefaultThroughput::None;
    let world =
        World::with_settings(EngineSettings { default_throughput, ..EngineSettings::default() });
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    world.post("/dbs/d/colls", definition).expect(201);
    assert_eq!(offers_of(&world, "/dbs/d/colls/c"), []);
}
