//! Broken texts: nothing panics, and what is still accepted is still consistent.

use partita_model::{
    Document, Entropy, Etag, Patch, PropertyPath, SeededEntropy, SystemProperties, Value,
    compact_object, json, stamp, unstamp,
};
use proptest::prelude::*;

use crate::generate;

/// Everything that looks into texts, on one that was never checked.
fn look_into(text: &str) {
    let document = Document::new(text);
    document.walk(&mut |path, _leaf| assert!(path.len() <= 128));
    let path = PropertyPath::parse("/a/b").unwrap();
    for raw in [document.get(&path), document.member("a")].into_iter().flatten() {
        raw.to_value();
        raw.scalar();
    }
    for (_name, raw) in document.members() {
        raw.scalar();
    }
    document.to_value();
    let system = SystemProperties { rid: "r", self_link: "s", etag: Etag([0; 16]), ts: 1 };
    stamp(text, &system);
    unstamp(text);
    let patch = br#"[{"op":"set","path":"/a","value":[1]},{"op":"add","path":"/a/0","value":1},
        {"op":"incr","path":"/b","value":1},{"op":"move","from":"/a/0","path":"/c"},
        {"op":"remove","path":"/c"}]"#;
    let _refused_or_not = Patch::parse(patch).unwrap().apply(text);
}

/// Reads bytes in every way, and compares the ways with each other and with another parser.
fn read(bytes: &[u8]) {
    let compact = compact_object(bytes);
    let parsed = json::parse(bytes);
    match (&compact, &parsed) {
        (Ok(compact), Ok(value)) => {
            assert_eq!(json::parse(compact.as_bytes()).as_ref(), Ok(value));
            assert_eq!(compact_object(compact.as_bytes()).as_ref(), Ok(compact));
            assert_eq!(&Document::new(compact).to_value(), value);
        }
        (Err(_), Ok(value)) => assert!(value.as_object().is_none()),
        (Ok(compact), Err(error)) => panic!("accepted {compact}, refused it: {error}"),
        (Err(_), Err(_)) => {}
    }
    let _patch_or_not = Patch::parse(bytes);
    look_into(&String::from_utf8_lossy(bytes));
    compare_with_other_parser(bytes, &parsed);
}

/// Another parser agrees, except about lone surrogates.
fn compare_with_other_parser(bytes: &[u8], parsed: &Result<Value, json::JsonError>) {
    let other: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    match (parsed, other) {
        (Ok(_), Err(error)) => {
            assert!(error.to_string().contains("surrogate") || has_surrogate(bytes), "{error}");
        }
        (Err(error), Ok(other)) => panic!("refused {other}: {error}"),
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
    }
}

fn has_surrogate(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("\\ud")
}

fn mutate(bytes: &mut Vec<u8>, entropy: &SeededEntropy) {
    let pick = |end: usize| entropy.next_u64() as usize % end.max(1);
    let interesting = b"{}[]\",:\\ue0-1.tn \n\x00\x1f\x80\xed\xff";
    for _ in 0..1 + pick(3) {
        let at = pick(bytes.len());
        let byte = interesting[pick(interesting.len())];
        match pick(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] = byte,
            _ => {
                let piece = bytes[at..(at + pick(8)).min(bytes.len())].to_vec();
                let into = pick(bytes.len());
                bytes.splice(into..into, piece);
            }
        }
    }
}

#[test]
fn hostile_depth_is_survived() {
    for open in ["[", "{\"a\":", "[{\"a\":", "{"] {
        let text = open.repeat(200_000);
        look_into(&text);
        assert!(json::parse(text.as_bytes()).is_err());
    }
}

#[test]
fn strange_texts_are_survived() {
    for text in [
        "",
        "{",
        "}",
        "\"",
        "\\",
        "\"\\",
        "{\"",
        "{\"\\",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\":\"",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{\"a\":é}",
        "{\"a\\é\":1}",
        "{\"a\":-}",
        "{\"a\":]}",
        "{\"a\":[}",
        "[]]]",
        "{\"a\":tru}",
        "{ \"a\" : 1 }",
        "{\"\\u12\":1}",
        "{\"a\\ué\":\"\\ud800\\u\"}",
    ] {
        read(text.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        read(&bytes);
    }

    #[test]
    fn random_json_like_texts_never_panic(text in "[{}\\[\\]\",:\\\\ua0-2.e ]{0,24}") {
        read(text.as_bytes());
    }

    #[test]
    fn every_truncation_is_refused(object in generate::object(), seed: u64) {
        let text = generate::messy_text(&Value::Object(object), seed);
        let text = text.trim_end().as_bytes();
        for end in 0..text.len() {
            prop_assert!(compact_object(&text[..end]).is_err());
            look_into(&String::from_utf8_lossy(&text[..end]));
        }
    }

    #[test]
    fn mutations_are_read_consistently(value in generate::value(), seed: u64) {
        let entropy = SeededEntropy::new(seed);
        let original = generate::messy_text(&value, seed).into_bytes();
        for _ in 0..8 {
            let mut bytes = original.clone();
            mutate(&mut bytes, &entropy);
            read(&bytes);
        }
    }
}
