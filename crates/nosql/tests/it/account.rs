//! `GET /`, signatures, and who may do what.

use partita_gateway::{Door, Figures, Refusal};
use partita_model::{Consistency, Value};

use crate::support::{PRIMARY, READONLY, World};

#[test]
fn the_account_names_the_endpoint_that_the_client_used() {
    let answer = World::new().get("/").header("host", "localhost:8081").expect(200);
    let account = answer.json();
    assert_eq!(account.get("id").and_then(Value::as_str), Some("localhost"));
    let locations = account.get("writableLocations").and_then(Value::as_array).unwrap();
    let endpoint = locations[0].get("databaseAccountEndpoint").and_then(Value::as_str);
    assert_eq!(endpoint, Some("http://localhost:8081/"));
    assert_eq!(locations[0].get("name").and_then(Value::as_str), Some("South Central US"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-ms-gatewayversion"), Some("version=2.0.0"));
    assert!(account.get("thinClientReadableLocations").is_none());
}

#[test]
fn the_account_names_the_endpoint_that_it_was_told() {
    let mut world = World::new();
    world.set_public_endpoint("https://127.0.0.1:8081/");
    let account = world.get("/").header("host", "localhost:8081").expect(200).json();
    assert_eq!(account.get("id").and_then(Value::as_str), Some("localhost"));
    let locations = account.get("readableLocations").and_then(Value::as_array).unwrap();
    let endpoint = locations[0].get("databaseAccountEndpoint").and_then(Value::as_str);
    assert_eq!(endpoint, Some("https://127.0.0.1:8081/"));
}

#[test]
fn a_read_tells_where_it_found_what_it_returns() {
    let world = World::with_container("400");
    let answer = world.get("/dbs/d/colls/c").header("host", "localhost:8081").expect(200);
    assert_eq!(answer.header("content-location"), Some("http://localhost:8081/dbs/d/colls/c"));
    assert_eq!(answer.header("x-ms-alt-content-path"), Some("dbs/d"), "its owner");
}

#[test]
fn the_account_tells_its_consistency() {
    let answer = World::with_consistency(Consistency::Strong).get("/").expect(200).json();
    let policy = answer.get("userConsistencyPolicy").unwrap();
    assert_eq!(policy.get("defaultConsistencyLevel").and_then(Value::as_str), Some("Strong"));
}

#[test]
fn nothing_is_answered_without_a_signature() {
    let world = World::with_container("400");
    for path in ["/", "/dbs", "/dbs/d/colls/c/docs/1", "/offers", "/nowhere", "/dbs/%ff"] {
        let text = "Required Header authorization is missing";
        let answer = world.get(path).unsigned().refused(401, "5000", text);
        assert_eq!(answer.member("code"), "Unauthorized", "{path}");
    }
}

#[test]
fn a_wrong_signature_is_told_what_the_server_signed() {
    let world = World::new();
    let answer = world.get("/dbs/x").signing("dbs", "dbs/y").expect(401);
    assert!(
        answer.member("message").contains("get\\ndbs\\ndbs/x\\nthu, 27 apr"),
        "{}",
        answer.text()
    );
    world.get("/dbs").unsigned().header("authorization", "nonsense").refused(
        401,
        "5001",
        "malformed",
    );
    let token = "type=resource&ver=1&sig=x";
    world.get("/dbs").unsigned().header("authorization", token).refused(401, "5001", "resource");
}

#[test]
fn an_old_signature_is_forbidden() {
    let world = World::new();
    for date in ["Thu, 27 Apr 2017 01:06:13 GMT", "Thu, 27 Apr 2017 00:36:11 GMT"] {
        world.get("/").header("x-ms-date", date).refused(403, "0", "not valid at the current time");
    }
    world.get("/").header("x-ms-date", "Thu, 27 Apr 2017 01:06:12 GMT").expect(200);
    world.get("/").header("x-ms-date", "yesterday").refused(401, "5001", "yesterday");
}

#[test]
fn the_read_only_key_reads_and_does_not_write() {
    let world = World::with_container("400");
    let create = || world.post("/dbs/d/colls/c/docs", r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#);
    create().signed_by(READONLY).refused(403, "0", "");
    world.delete("/dbs/d").signed_by(READONLY).refused(403, "0", "");
    create().signed_by(PRIMARY).expect(201);
    world.get("/dbs/d/colls/c/docs/1").key(r#"["a"]"#).signed_by(READONLY).expect(200);
    world.get("/").signed_by(READONLY).expect(200);
    world
        .post("/dbs", r#"{"query":"SELECT * FROM r"}"#)
        .header("x-ms-documentdb-isquery", "true")
        .signed_by(READONLY)
        .expect(200);
}

#[test]
fn activity_ids_are_repeated_or_made() {
    let world = World::new();
    let given = world.get("/").header("x-ms-activity-id", "11111111-2222-4333-8444-555555555555");
    assert_eq!(
        given.expect(200).header("x-ms-activity-id"),
        Some("11111111-2222-4333-8444-555555555555")
    );
    let made = world.get("/").expect(200);
    let made = made.header("x-ms-activity-id").unwrap();
    assert_eq!(made.len(), 36);
    assert_eq!(made.as_bytes()[14], b'4');
    let long = "x".repeat(1_000);
    let answer = world.get("/").header("x-ms-activity-id", &long).expect(200);
    assert_eq!(answer.header("x-ms-activity-id").unwrap().len(), 36);
}

#[test]
fn refusals_of_the_gateway_are_worded_as_the_service_does() {
    let world = World::new();
    for (refusal, status, code, text) in [
        (
            Refusal::BodyTooLarge { announced: None, bytes_max: 1 },
            413,
            "RequestEntityTooLarge",
            "Message: {\"Errors\":[\"Request size is too large\"]}\r\n",
        ),
        (Refusal::BodyTimeout { seconds: 3 }, 408, "RequestTimeout", "3 seconds"),
        (Refusal::BodyBroken { reason: "cut".into() }, 400, "BadRequest", "cut"),
        (Refusal::Overloaded { bytes_max: 9 }, 503, "ServiceUnavailable", "retry later"),
        (Refusal::SentAhead { bytes_max: 9 }, 400, "BadRequest", "sent behind a request"),
        (Refusal::Panicked, 500, "InternalServerError", "internal error"),
    ] {
        let response = world.door().refuse(refusal);
        assert_eq!(response.status.as_u16(), status);
        let body = Value::parse(&response.body).unwrap();
        assert_eq!(body.get("code").and_then(Value::as_str), Some(code));
        let message = body.get("message").and_then(Value::as_str).unwrap();
        assert!(message.contains(text), "{message}");
        let headers = response.headers.to_map();
        assert!(headers.contains_key("x-ms-activity-id"));
        assert!(headers.contains_key("x-ms-substatus"));
        // When to try again, for SDKs and for all others.
        let waits = ["x-ms-retry-after-ms", "retry-after"].map(|name| headers.get(name).cloned());
        let expected = ["1000", "1"].map(|text| (status == 503).then(|| text.parse().unwrap()));
        assert_eq!(waits, expected, "{status}");
    }
}

#[test]
fn every_request_is_counted_under_its_operation() {
    let world = World::with_container("400");
    world.get("/dbs/d/colls/c/docs/1").key(r#"["a"]"#).expect(404);
    let metrics = world.telemetry.render(Figures::All);
    assert!(metrics.contains("ReadItem"), "{metrics}");
    assert!(metrics.contains("CreateContainer"), "{metrics}");
}
