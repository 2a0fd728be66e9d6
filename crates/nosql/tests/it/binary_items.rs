//! Items in binary JSON, as the Rust SDK sends them: they become the items that the same texts are.

use http::Method;
use partita_model::Value;
use partita_model::binary_json::{is_binary, to_text};

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

/// A client that understands nothing else: .NET with binary encoding.
#[test]
fn a_client_of_binary_json_only_is_answered_in_it() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let only = |ask: Ask<'_>| {
            let ask = ask.header("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
            ask.send()
        };
        let text_of = |path: &str| world.get(path).key(r#"["key"]"#).expect(200).text();
        let read_back = |answer: crate::support::Answer, text: &str| {
            assert!(is_binary(&answer.body), "{}", answer.text());
            assert_eq!(to_text(&answer.body).as_deref(), Ok(text));
            assert!(answer.header("x-ms-session-token").is_some());
        };
        read_back(only(send(&world, Method::POST, DOCS, item(1))), &text_of(ITEM));
        read_back(only(send(&world, Method::GET, ITEM, Vec::new())), &text_of(ITEM));
        read_back(only(send(&world, Method::PUT, ITEM, item(2))), &text_of(ITEM));
        let upsert = send(&world, Method::POST, DOCS, item(3));
        read_back(only(upsert.header("x-ms-documentdb-is-upsert", "True")), &text_of(ITEM));
        let patch = r#"[{"op":"set","path":"/n","value":7}]"#;
        read_back(only(send(&world, Method::PATCH, ITEM, patch.into())), &text_of(ITEM));
        read_back(only(send(&world, Method::GET, DOCS, Vec::new())), &text_of(DOCS));
        let query = |text: &str| {
            let body = format!(r#"{{"query":"{text}"}}"#).into_bytes();
            send(&world, Method::POST, DOCS, body)
                .header("x-ms-documentdb-isquery", "True")
                .header("content-type", "application/query+json")
        };
        let rows = query("SELECT VALUE c.list FROM c")
            .without("x-ms-cosmos-supported-serialization-formats");
        let text = rows.expect(200).text();
        read_back(only(query("SELECT VALUE c.list FROM c")), &text);
        let asked = query("SELECT VALUE c.list FROM c")
            .header("x-ms-documentdb-content-serialization-format", "CosmosBinary");
        read_back(asked.expect(200), &text);
        let changes = |ask: Ask<'_>| only(ask.header("a-im", "Incremental Feed"));
        let page = changes(send(&world, Method::GET, DOCS, Vec::new()));
        assert!(is_binary(&page.body) && to_text(&page.body).unwrap().contains("\"_lsn\":"));
        // What went wrong is told in text, and nothing in nothing.
        let missing = only(send(&world, Method::GET, "/dbs/d/colls/c/docs/none", Vec::new()));
        assert_eq!((missing.status, missing.member("code")), (404, "NotFound".to_owned()));
        let minimal = send(&world, Method::PUT, ITEM, item(4)).header("prefer", "return=minimal");
        assert_eq!(only(minimal).body, "");
        let wrong = query("SELECT * FROM c")
            .header("x-ms-documentdb-content-serialization-format", "Not a real format");
        wrong.refused(400, "0", "must be JsonText or CosmosBinary");
    }
}

/// Most requests leave it to what the client understands; any may say what it wants.
#[test]
fn any_request_may_say_which_json_it_wants_and_only_items_have_two() {
    let world = World::with_container("400");
    let patch = r#"[{"op":"set","path":"/n","value":7}]"#;
    let asks = |format: &str| {
        let ask = |method: Method, path: &str, body: Vec<u8>| {
            let ask = send(&world, method, path, body);
            ask.header("x-ms-documentdb-content-serialization-format", format)
        };
        [
            ask(Method::POST, DOCS, item(1)).header("x-ms-documentdb-is-upsert", "True"),
            ask(Method::GET, ITEM, Vec::new()),
            ask(Method::PUT, ITEM, item(2)),
            ask(Method::PATCH, ITEM, patch.into()),
            ask(Method::GET, DOCS, Vec::new()),
        ]
    };
    for ask in asks("Not a real format") {
        ask.refused(400, "0", "must be JsonText or CosmosBinary");
    }
    world.get(ITEM).key(r#"["key"]"#).expect(404);
    let wrong = send(&world, Method::DELETE, ITEM, Vec::new())
        .header("x-ms-documentdb-content-serialization-format", "x");
    wrong.refused(400, "0", "must be JsonText or CosmosBinary");
    for path in ["/dbs", "/dbs/d", "/dbs/d/colls/c", "/dbs/d/colls/c/sprocs", "/offers"] {
        let ask = |format| {
            let name = "x-ms-documentdb-content-serialization-format";
            world.get(path).header(name, format)
        };
        ask("Not a real format").refused(400, "0", "must be JsonText or CosmosBinary");
        assert!(!is_binary(&ask("CosmosBinary").expect(200).body), "{path}");
    }
    for (format, binary) in [("CosmosBinary", true), ("cosmosbinary", true), ("JsonText", false)] {
        for ask in asks(format) {
            // Who wants text gets it, whatever else it understands.
            let answer = ask.header("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
            let answer = answer.send();
            assert!([200, 201].contains(&answer.status), "{}", answer.text());
            assert_eq!(is_binary(&answer.body), binary, "{format}: {}", answer.text());
        }
    }
}
