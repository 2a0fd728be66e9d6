//! Client encryption keys: kept, wrapped anew, and given back as they were sent.

use partita_model::Value;

use crate::support::{Answer, PRIMARY, READONLY, World};

const KEYS: &str = "/dbs/d/clientencryptionkeys";
const KEY: &str = "/dbs/d/clientencryptionkeys/k";

fn body(id: &str, wrapped: &str) -> String {
    format!(
        r#"{{"id":"{id}","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
        "wrappedDataEncryptionKey":"{wrapped}","keyWrapMetadata":{{"type":"AZURE_KEY_VAULT",
        "name":"n","value":"https://v/keys/n","algorithm":"RSA-OAEP"}}}}"#
    )
}

#[test]
fn a_key_is_kept_as_it_was_sent() {
    let world = World::with_container("400");
    let created = world.post(KEYS, &body("k", "AAEC")).expect(201);
    let database = world.get("/dbs/d").expect(200).member("_rid");
    let rid = created.member("_rid");
    assert_eq!(created.member("_self"), format!("dbs/{database}/clientencryptionkeys/{rid}/"));
    assert_eq!(created.header("etag"), Some(created.member("_etag").as_str()));
    assert_eq!(created.member("wrappedDataEncryptionKey"), "AAEC");
    let metadata = created.json().get("keyWrapMetadata").unwrap().to_json();
    assert!(metadata.contains(r#""value":"https://v/keys/n""#), "{metadata}");
    assert_eq!(world.get(KEY).expect(200).body, created.body);
    world.post(KEYS, &body("k", "AAEC")).refused(409, "0", "'k'");
    let by_rid = format!("/dbs/{database}/clientencryptionkeys/{rid}");
    let read = world.get(&by_rid).signing("clientencryptionkeys", &rid.to_lowercase());
    assert_eq!(read.expect(200).body, created.body);
    world.get(KEY).header("if-none-match", &created.member("_etag")).expect(304);

    let world = world.restarted(PRIMARY);
    assert_eq!(world.get(KEY).expect(200).body, created.body);
    world.delete("/dbs/d").expect(204);
    world.get(KEY).refused(404, "1003", "");
}

#[test]
fn a_key_is_wrapped_anew_under_its_etag() {
    let world = World::with_container("400");
    let first = world.post(KEYS, &body("k", "AAEC")).expect(201);
    let etag = first.member("_etag");
    let replaced = world.put(KEY, &body("k", "AwQF")).header("if-match", &etag).expect(200);
    assert_eq!(replaced.member("wrappedDataEncryptionKey"), "AwQF");
    let created = |answer: &Answer| answer.json().get("_cts").and_then(Value::as_i64);
    assert_eq!(created(&replaced), created(&first));
    assert_eq!(created(&first), first.json().get("_ts").and_then(Value::as_i64));
    world.put(KEY, &body("k", "AAEC")).header("if-match", &etag).expect(412);
    assert_eq!(world.get(KEY).expect(200).body, replaced.body);
    world.put(KEY, &body("other", "AAEC")).refused(400, "0", "cannot be changed");
    let none = format!("{KEYS}/none");
    let text = "ClientEncryptionKey with id '[none]' does not exist.";
    world.put(&none, &body("none", "AAEC")).refused(404, "0", text);
    world.get(&none).refused(404, "0", text);
    world.delete(KEY).refused(405, "0", "GET or PUT");
}

#[test]
fn a_container_is_encrypted_with_keys_that_are_there() {
    let world = World::with_container("400");
    world.post(KEYS, &body("k", "AAEC")).expect(201);
    let encrypted = |path: &str, key: &str| {
        format!(
            r#"{{"path":"{path}","clientEncryptionKeyId":"{key}","encryptionType":"Randomized",
            "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}}"#
        )
    };
    let container = |paths: &[String]| {
        let paths = paths.join(",");
        format!(
            r#"{{"id":"e","partitionKey":{{"paths":["/pk"],"version":2}},"clientEncryptionPolicy":{{
            "includedPaths":[{paths}],"policyFormatVersion":1}}}}"#
        )
    };
    let unknown = container(&[encrypted("/a", "k"), encrypted("/b", "x")]);
    let text = "ClientEncryptionKey with id '[x]' does not exist.";
    world.post("/dbs/d/colls", &unknown).refused(400, "0", text);
    world.post("/dbs/d/colls", &container(&[encrypted("/a", "k")])).expect(201);
}

#[test]
fn keys_are_listed_and_queried() {
    let world = World::with_container("400");
    for n in 0..3 {
        world.post(KEYS, &body(&format!("k{n}"), "AAEC")).expect(201);
    }
    let listed = world.get(KEYS).header("x-ms-max-item-count", "2").expect(200);
    assert_eq!(listed.feed("ClientEncryptionKeys").len(), 2);
    let next = listed.header("x-ms-continuation").unwrap();
    let rest = world.get(KEYS).header("x-ms-continuation", next).expect(200);
    assert_eq!(rest.feed("ClientEncryptionKeys").len(), 1);
    let query = r#"{"query":"SELECT * FROM c WHERE c.id = 'k1'"}"#;
    let found = world.post(KEYS, query).header("content-type", "application/query+json");
    let found = found.header("x-ms-documentdb-isquery", "True").expect(200);
    let rows = found.feed("ClientEncryptionKeys");
    let ids: Vec<_> = rows.iter().map(|row| row.get("id").and_then(Value::as_str)).collect();
    assert_eq!(ids, [Some("k1")]);
    world.get(KEY).signed_by(READONLY).expect(404);
    world.post(KEYS, &body("k", "AAEC")).signed_by(READONLY).expect(403);
}

#[test]
fn what_is_no_key_is_refused() {
    let world = World::with_container("400");
    for (from, to, named) in [
        (r#""id":"k","#, "", "id"),
        ("AEAD_AES_256_CBC_HMAC_SHA256", "AES", "encryptionAlgorithm"),
        ("AAEC", "", "wrappedDataEncryptionKey"),
        ("AAEC", "%%", "wrappedDataEncryptionKey"),
        (r#""value":"https://v/keys/n","#, "", "value"),
        ("keyWrapMetadata", "other", "keyWrapMetadata"),
    ] {
        world.post(KEYS, &body("k", "AAEC").replace(from, to)).refused(400, "0", named);
    }
    world.post("/dbs/none/clientencryptionkeys", &body("k", "AAEC")).refused(404, "1003", "");
}
