//! Faults on order and a clock that can be put forward.

use std::time::Duration;

use partita_model::Value;

use crate::support::{Answer, World};

const FAULTS: &str = "/_partita/faults";
const CLOCK: &str = "/_partita/clock";
const ITEM: &str = "/dbs/d/colls/c/docs/1";

fn world() -> World {
    let world = World::controlled();
    world.post("/dbs", r#"{"id":"d"}"#).expect(201);
    for name in ["c", "other"] {
        let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1"#;
        let body = format!(r#"{{"id":"{name}",{key}}}"#);
        let made = world.post("/dbs/d/colls", &body).header("x-ms-offer-throughput", "30000");
        made.expect(201);
        let items = format!("/dbs/d/colls/{name}/docs");
        world.post(&items, r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).expect(201);
    }
    world
}

fn order(world: &World, fault: &str) -> Answer {
    let ask = world.post(FAULTS, fault).header("content-type", "application/json");
    ask.unsigned().expect(201)
}

fn read(world: &World) -> Answer {
    world.get(ITEM).key(r#"["a"]"#).send()
}

fn struck(world: &World) -> Vec<i64> {
    let listed = world.get(FAULTS).unsigned().expect(200).json();
    let faults = listed.get("faults").and_then(Value::as_array).unwrap().to_vec();
    faults.iter().map(|fault| fault.get("struck").and_then(Value::as_i64).unwrap()).collect()
}

#[test]
fn an_error_strikes_as_often_as_it_was_ordered() {
    let world = world();
    let fault = r#"{"status":429,"retry_after_ms":20,"operation":"ReadItem","count":2}"#;
    assert_eq!(order(&world, fault).member("id"), "1");
    for _ in 0..2 {
        let answer = read(&world);
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("x-ms-substatus"), Some("3200"));
        assert_eq!(answer.header("x-ms-retry-after-ms"), Some("20"));
        assert!(answer.member("message").contains("was ordered"), "{}", answer.text());
    }
    assert_eq!(read(&world).status, 200);
    assert_eq!(struck(&world), [2]);
}

#[test]
fn a_fault_strikes_only_what_it_names() {
    for (named, strikes) in [
        (r#""container":"c""#, true),
        (r#""container":"other""#, false),
        (r#""database":"d""#, true),
        (r#""database":"x""#, false),
        (r#""operation":"ReadItem""#, true),
        (r#""operation":"CreateItem""#, false),
        (r#""client":"python""#, true),
        (r#""client":"java""#, false),
        (r#""probability":0"#, false),
        (r#""count":0"#, false),
        (r#""database":"d","container":"c","operation":"ReadItem","client":"azsdk""#, true),
    ] {
        let world = world();
        order(&world, &format!(r#"{{"status":503,{named}}}"#));
        let read = world.get(ITEM).key(r#"["a"]"#).header("user-agent", "azsdk-python/1").send();
        assert_eq!(read.status, if strikes { 503 } else { 200 }, "{named}");
    }
}

#[test]
fn a_chance_strikes_some() {
    let world = world();
    order(&world, r#"{"status":449,"probability":0.5}"#);
    let struck = (0..200).filter(|_| read(&world).status == 449).count();
    assert!((60..140).contains(&struck), "{struck}");
}

#[test]
fn a_dropped_request_is_not_served_and_a_dropped_answer_was() {
    let world = world();
    let create = |id: &str| {
        let body = format!(r#"{{"id":"{id}","pk":"a"}}"#);
        world.post("/dbs/d/colls/c/docs", &body).key(r#"["a"]"#).send()
    };
    order(&world, r#"{"drop":"request","count":1}"#);
    assert!(create("2").delivery.dropped);
    order(&world, r#"{"drop":"answer","count":1,"latency_ms":7}"#);
    let dropped = create("3").delivery;
    assert!(dropped.dropped);
    assert_eq!(dropped.delay, Duration::from_millis(7));
    world.get("/dbs/d/colls/c/docs/2").key(r#"["a"]"#).expect(404);
    world.get("/dbs/d/colls/c/docs/3").key(r#"["a"]"#).expect(200);
}

#[test]
fn a_delay_changes_nothing_but_the_time() {
    let world = world();
    order(&world, r#"{"latency_ms":250,"container":"c"}"#);
    let answer = read(&world);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.delivery.delay, Duration::from_millis(250));
    assert!(!answer.delivery.dropped);
}

#[test]
fn faults_end_by_time_by_name_and_all_at_once() {
    let world = world();
    order(&world, r#"{"status":503,"seconds":10}"#);
    assert_eq!(read(&world).status, 503);
    world.clock.advance_millis(10_000);
    assert_eq!(read(&world).status, 200);
    assert!(struck(&world).is_empty());
    let first = order(&world, r#"{"status":503}"#).member("id");
    order(&world, r#"{"status":408}"#);
    assert_eq!(read(&world).status, 503);
    world.delete(&format!("{FAULTS}/{first}")).unsigned().expect(204);
    assert_eq!(read(&world).status, 408);
    world.delete(&format!("{FAULTS}/{first}")).unsigned().expect(404);
    world.delete(FAULTS).unsigned().expect(204);
    assert_eq!(read(&world).status, 200);
}

#[test]
fn a_fault_hides_no_other_error() {
    let world = world();
    order(&world, r#"{"status":503}"#);
    world.get(ITEM).unsigned().expect(401);
    world.get(ITEM).header("x-ms-version", "1999-01-01").expect(400);
    assert_eq!(struck(&world), [0]);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let world = world();
    for (fault, text) in [
        ("[]", "a JSON object"),
        ("{}", "what goes wrong"),
        (r#"{"status":404}"#, "cannot be ordered"),
        (r#"{"status":"429"}"#, "whole number"),
        (r#"{"status":429,"drop":"answer"}"#, "not both"),
        (r#"{"retry_after_ms":5}"#, "need a"),
        (r#"{"drop":"both"}"#, "request"),
        (r#"{"latency_ms":-1}"#, "whole number"),
        (r#"{"status":429,"probability":2}"#, "from 0 to 1"),
        (r#"{"status":429,"colour":"red"}"#, "has no 'colour'"),
        ("{", ""),
    ] {
        let ask = world.post(FAULTS, fault).header("content-type", "application/json");
        ask.refused(400, "0", text);
    }
    let as_a_page_could =
        world.post(FAULTS, r#"{"status":429}"#).header("content-type", "text/plain");
    as_a_page_could.refused(400, "0", "content-type");
    world.put(FAULTS, "{}").expect(405);
    world.put(CLOCK, "{}").expect(405);
    world.get(&format!("{FAULTS}/1")).expect(405);
    assert!(struck(&world).is_empty());
}

#[test]
fn items_expire_when_the_clock_is_put_forward() {
    let world = world();
    let short = r#"{"id":"2","pk":"a","ttl":3600}"#;
    world.post("/dbs/d/colls/c/docs", short).key(r#"["a"]"#).expect(201);
    let two = "/dbs/d/colls/c/docs/2";
    let advance = |seconds: &str| {
        let body = format!(r#"{{"advance_seconds":{seconds}}}"#);
        world.post(CLOCK, &body).header("content-type", "application/json").unsigned().send()
    };
    assert_eq!(advance("3599.5").status, 200);
    world.get(two).key(r#"["a"]"#).expect(200);
    let time = advance("1").json();
    assert_eq!(time.get("ahead_seconds").and_then(Value::as_f64), Some(3_600.5));
    assert_eq!(world.get(CLOCK).unsigned().expect(200).json(), time);
    world.get(two).key(r#"["a"]"#).expect(404);
    // Clients still sign with the real time, and a new item has the database's.
    let fresh = world.post("/dbs/d/colls/c/docs", short).key(r#"["a"]"#).expect(201).json();
    assert_eq!(fresh.get("_ts").and_then(Value::as_i64), Some(1_493_254_272 + 3_600));
    for wrong in ["-1", "\"1\"", "1e300", "null"] {
        assert_eq!(advance(wrong).status, 400, "{wrong}");
    }
}

#[test]
fn controls_are_for_this_machine_and_for_servers_that_have_them() {
    let controlled = world();
    for peer in ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
        controlled.get(FAULTS).from(peer).expect(403);
    }
    for peer in ["127.0.0.9", "::1", "::ffff:127.0.0.1"] {
        controlled.get(FAULTS).from(peer).expect(200);
    }
    let without = World::with_container("400");
    for path in [FAULTS, CLOCK] {
        without.get(path).refused(403, "0", "--test-controls");
    }
}
