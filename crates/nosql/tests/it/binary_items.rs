//! Items in binary JSON, as the Rust SDK sends them: they become the items that the same texts are.

use http::Method;
use partita_model::Value;

use crate::support::{Ask, PARTITIONS, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const ITEM: &str = "/dbs/d/colls/c/docs/a";

/// `{"id":"a","pk":"key","n":…,"list":[true,-2],"text":"ä"}`
fn item(n: u8) -> Vec<u8> {
    let parts = [
        &b"\x82id\x81a\x82pk\x83key\x81n"[..],
        &[n],
        b"\x84list\xE5\x0A\x02\xD2\xCB\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x84text\x82\xC3\xA4",
    ]
    .concat();
    [&[0x80, 0xED, u8::try_from(parts.len()).unwrap(), 5], &parts[..]].concat()
}

fn send<'w>(world: &'w World, method: Method, path: &str, body: Vec<u8>) -> Ask<'w> {
    let ask = world.ask(method, path, body).key(r#"["key"]"#);
    ask.header("x-ms-cosmos-supported-serialization-formats", "JsonText,CosmosBinary")
}

#[test]
fn a_binary_item_is_created_upserted_and_replaced_like_its_text() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let text = |n: u8| {
            format!(r#"{{"id":"a","pk":"key","n":{n},"list":[true,-2],"text":"ä","_rid":""#)
        };
        let created = send(&world, Method::POST, DOCS, item(1)).expect(201);
        assert!(created.text().starts_with(&text(1)), "{}", created.text());
        let read = send(&world, Method::GET, ITEM, Vec::new()).expect(200);
        assert_eq!(read.body, created.body);

        send(&world, Method::POST, DOCS, item(2)).refused(409, "0", "");
        let upsert = send(&world, Method::POST, DOCS, item(2));
        let upserted = upsert.header("x-ms-documentdb-is-upsert", "True").expect(200);
        assert!(upserted.text().starts_with(&text(2)), "{}", upserted.text());

        let replaced = send(&world, Method::PUT, ITEM, item(3)).expect(200);
        assert!(replaced.text().starts_with(&text(3)), "{}", replaced.text());
        let feed = world.get(DOCS).key(r#"["key"]"#).expect(200).feed("Documents");
        let numbers: Vec<_> = feed.iter().map(|row| row.get("n").and_then(Value::as_i64)).collect();
        assert_eq!(numbers, [Some(3)]);
    }
}

#[test]
fn a_broken_binary_item_is_refused_with_the_byte() {
    let world = World::with_container("400");
    let cut = item(1)[..9].to_vec();
    let refusal = "invalid binary JSON: expected 41 more bytes, found 5 (byte 4)";
    send(&world, Method::POST, DOCS, cut.clone()).refused(400, "0", refusal);
    send(&world, Method::PUT, ITEM, cut).refused(400, "0", refusal);
    let no_object = send(&world, Method::POST, DOCS, vec![0x80, 0xD2]);
    no_object.refused(400, "0", "expected an object");
    send(&world, Method::GET, ITEM, Vec::new()).expect(404);
}

#[test]
fn a_binary_item_is_limited_as_it_is_sent_and_as_text() {
    let world = World::with_container("400");
    let sized = |length: u32, fill: u8| {
        let parts = [&b"\x82id\x81a\x82pk\x83key\x81s\xC2"[..], &length.to_le_bytes()].concat();
        let parts = [parts, vec![fill; usize::try_from(length).unwrap()]].concat();
        let announced = u32::try_from(parts.len()).unwrap().to_le_bytes();
        [&[0x80, 0xEC][..], &announced, &parts].concat()
    };
    send(&world, Method::POST, DOCS, sized(2 * 1024 * 1024 - 100, b'x')).expect(201);
    for large in [sized(2 * 1024 * 1024, b'x'), sized(1024 * 1024, b'\n')] {
        let answer =
            send(&world, Method::PUT, ITEM, large).refused(413, "0", "Request size is too large");
        assert_eq!(answer.member("code"), "RequestEntityTooLarge");
    }
}
