//! Binary JSON: every form that is public, every form that a client sends, and broken bodies.
//!
//! The vectors are the Rust SDK's. In its first revision of them the digits of packed GUIDs were in
//! the wrong order; the rows here have them as later revisions and the .NET SDK's tests do.

use partita_model::binary_json::{from_text, is_binary, to_text};
use partita_model::limits::{DEPTH_MAX, ITEM_BYTES_MAX};
use partita_model::{Entropy, ErrorKind, Number, Object, SeededEntropy, Value, json};
use proptest::prelude::*;

use crate::generate;

const VECTORS: &str = include_str!("../data/binary-json-vectors.json");
const ROWS: usize = 62;

/// As the Rust SDK writes: small integers in the marker, others wide, lengths as short as they fit,
/// every container with length and count.
fn encode(value: &Value) -> Vec<u8> {
    let mut out = vec![0x80];
    encode_value(&mut out, value);
    out
}

fn encode_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0xD0),
        Value::Bool(false) => out.push(0xD1),
        Value::Bool(true) => out.push(0xD2),
        Value::Number(Number::Int(small @ 0..32)) => out.push(u8::try_from(*small).unwrap()),
        Value::Number(Number::Int(int)) => {
            out.push(0xCB);
            out.extend(int.to_le_bytes());
        }
        Value::Number(Number::Double(double)) => {
            out.push(0xCC);
            out.extend(double.to_le_bytes());
        }
        Value::String(text) => encode_string(out, text),
        Value::Array(elements) => {
            let mut parts = Vec::new();
            elements.iter().for_each(|element| encode_value(&mut parts, element));
            encode_parts(out, 0xE5, &parts, elements.len());
        }
        Value::Object(members) => {
            let mut parts = Vec::new();
            for (name, member) in members.iter() {
                encode_string(&mut parts, name);
                encode_value(&mut parts, member);
            }
            encode_parts(out, 0xED, &parts, members.len());
        }
    }
}

fn encode_string(out: &mut Vec<u8>, text: &str) {
    match text.len() {
        short @ 0..64 => out.push(0x80 + u8::try_from(short).unwrap()),
        length => {
            let width = width(length);
            out.push([0xC0, 0xC1, 0xC2][width.ilog2() as usize]);
            out.extend(&length.to_le_bytes()[..width]);
        }
    }
    out.extend(text.as_bytes());
}

fn encode_parts(out: &mut Vec<u8>, least: u8, parts: &[u8], count: usize) {
    let width = width(parts.len().max(count));
    out.push(least + u8::try_from(width.ilog2()).unwrap());
    out.extend(&parts.len().to_le_bytes()[..width]);
    out.extend(&count.to_le_bytes()[..width]);
    out.extend(parts);
}

fn width(length: usize) -> usize {
    match length {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[track_caller]
fn means(hex: &str, text: &str) {
    assert_eq!(to_text(&bytes(hex)).as_deref(), Ok(text), "{hex}");
}

#[track_caller]
fn refused(body: &[u8], at: usize, problem: &str) {
    let error = to_text(body).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest, "{body:02x?}: {error}");
    let end = format!("(byte {at})");
    assert!(error.message.starts_with("invalid binary JSON: "), "{body:02x?}: {error}");
    assert!(error.message.contains(problem), "{body:02x?}: '{problem}' is not in: {error}");
    assert!(error.message.ends_with(&end), "{body:02x?}: '{end}' is not in: {error}");
}

#[test]
fn every_vector_reads_as_its_json_and_back_again() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(rows.len(), ROWS);
    for row in rows {
        let (name, expected) = (row["name"].as_str().unwrap(), &row["json"]);
        let binary = bytes(row["binary"].as_str().unwrap());
        assert!(is_binary(&binary), "{name}");
        let text = to_text(&binary).unwrap_or_else(|error| panic!("{name}: {error}"));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(&read, expected, "{name}");

        let value = Value::parse(expected.to_string().as_bytes()).unwrap();
        let again = to_text(&encode(&value)).unwrap();
        assert_eq!(Value::parse(again.as_bytes()), Ok(value.clone()), "{name}");
        let written = from_text(expected.to_string().as_bytes()).unwrap();
        let again = to_text(&written).unwrap();
        assert_eq!(Value::parse(again.as_bytes()), Ok(value), "{name}");
    }
}

#[test]
fn values_are_written_in_their_shortest_plain_form() {
    let long = "x".repeat(64);
    let hex_of = |text: &str| text.bytes().map(|byte| format!(" {byte:02X}")).collect::<String>();
    let many = format!("[{}]", ["0"; 16].join(","));
    for (text, hex) in [
        ("null", "80 D0".to_owned()),
        ("[true,false]", "80 E2 02 D2 D1".to_owned()),
        ("[0,31,32,255]", "80 E2 06 00 1F C8 20 C8 FF".to_owned()),
        ("[-1,256]", "80 E2 06 C9 FF FF C9 00 01".to_owned()),
        ("-32769", "80 CA FF 7F FF FF".to_owned()),
        ("5000000000", "80 CB 00 F2 05 2A 01 00 00 00".to_owned()),
        ("1.0", "80 CC 00 00 00 00 00 00 F0 3F".to_owned()),
        ("-0", "80 CC 00 00 00 00 00 00 00 80".to_owned()),
        ("{}", "80 E8".to_owned()),
        ("[]", "80 E0".to_owned()),
        ("[[]]", "80 E1 E0".to_owned()),
        (r#"{"id":"_ts"}"#, "80 E9 2C 27".to_owned()),
        (r#"{"id":"a","pk":1}"#, "80 EA 07 2C 81 61 82 70 6B 01".to_owned()),
        (&many, format!("80 E5 10 10{}", " 00".repeat(16))),
        (&format!("\"{long}\""), format!("80 C0 40{}", hex_of(&long))),
    ] {
        assert_eq!(from_text(text.as_bytes()).unwrap(), bytes(&hex), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 2), "]".repeat(DEPTH_MAX + 2));
    assert!(from_text(deep.as_bytes()).is_ok(), "an answer has levels around an item");
    assert!(from_text(b"{").is_err());
}

#[test]
fn text_is_not_binary() {
    for body in ["", "{}", "[1]", "\"\\u0080\"", "\u{80}"] {
        assert!(!is_binary(body.as_bytes()), "{body}");
    }
    refused(b"", 0, "expected 1 more bytes, found 0");
    refused(b"{}", 0, "expected 0x80, found 0x7b");
}

#[test]
fn the_dictionary_has_all_its_strings_in_order() {
    const WORDS: &str = "$s $t $v _attachments _etag _rid _self _ts attachments/ coordinates \
        geometry GeometryCollection id url Value label LineString link MultiLineString MultiPoint \
        MultiPolygon name Name Type Point Polygon properties type value Feature FeatureCollection \
        _id";
    assert_eq!(WORDS.split(' ').count(), 32);
    for (marker, word) in (0x20..).zip(WORDS.split(' ')) {
        assert_eq!(to_text(&[0x80, marker]).unwrap(), format!("\"{word}\""));
        let object = to_text(&[0x80, 0xE9, marker, 0xD0]).unwrap();
        assert_eq!(object, format!("{{\"{word}\":null}}"));
    }
}

#[test]
fn wide_lengths_read_like_narrow_ones() {
    for hex in ["E2 03", "E3 03 00", "E4 03 00 00 00"] {
        means(&format!("80 {hex} 00 01 D0"), "[0,1,null]");
    }
    for hex in ["E5 03 03", "E6 03 00 03 00", "E7 03 00 00 00 03 00 00 00"] {
        means(&format!("80 {hex} 00 01 D0"), "[0,1,null]");
    }
    for hex in ["EA 04", "EB 04 00", "EC 04 00 00 00"] {
        means(&format!("80 {hex} 2C 00 3B 01"), r#"{"id":0,"type":1}"#);
    }
    for hex in ["ED 04 02", "EE 04 00 02 00", "EF 04 00 00 00 02 00 00 00"] {
        means(&format!("80 {hex} 2C 00 3B 01"), r#"{"id":0,"type":1}"#);
    }
    for hex in ["85", "C0 05", "C1 05 00", "C2 05 00 00 00"] {
        means(&format!("80 {hex} 68 65 6C 6C 6F"), r#""hello""#);
    }
    for hex in ["DD 04", "DE 04 00", "DF 04 00 00 00"] {
        means(&format!("80 {hex} DE AD BE EF"), r#""3q2+7w==""#);
    }
    means("80 74 01 00 00 FB FF FE", r#""-__-""#);
    means("80 71 01 FE 66 6F", r#""Zm8""#);
    means("80 71 01 FF 66 6F 6F", r#""Zm9v""#);
    means("80 71 00 00", r#""""#);
}

#[test]
fn packed_strings_of_other_writers_read_back() {
    means(
        "80 75 DE E7 83 AA 70 E4 A4 47 AB 0B A2 F4 14 70 B9 AA",
        r#""ed7e38aa-074e-4a74-bab0-2a4f41079baa""#,
    );
    means(
        "80 77 00 00 84 21 00 00 20 00 00 00 A6 F7 9A A8 00 00",
        r#""\"00004812-0000-0200-0000-6a7fa98a0000\"""#,
    );
    // The last byte has bits to spare, and they are not zero.
    means(
        "80 7C 24 2D 78 91 7C 8A 3D 00 A7 42 C1 B1 A4 80 9A 30 01 80 AD B2 86 59 46 1D 3C",
        r#""E81F42C4-E62A-4C12-B6E1--9828038374E""#,
    );
}

#[test]
fn arrays_of_numbers_have_any_type_that_can_be_shared() {
    means("80 F0 D8 03 FB 00 05", "[-5,0,5]");
    means("80 F0 DB 01 FE FF FF FF FF FF FF FF", "[-2]");
    means("80 F0 DC 02 FE FF FF FF 00 00 00 00", "[4294967294,0]");
    means("80 F0 CE 02 00 00 00 00 00 00 F8 3F 00 00 00 00 00 00 02 C0", "[1.5,-2.25]");
    means("80 F3 F1 D7 02 00 02 00 01 02 03 04", "[[1,2],[3,4]]");
    means("80 F2 F0 D7 00 03", "[[],[],[]]");
    means("80 F2 F0 D7 03 00", "[]");
    refused(&bytes("80 F0 C8 01 00"), 2, "0xc8 is no type");
    refused(&bytes("80 F0 CF 01 00 00"), 2, "16-bit floats");
    refused(&bytes("80 F2 F1 D7 01 01 00"), 2, "must be 0xf0, not 0xf1");
    refused(&bytes("80 F0 DA 02 01 00 00 00"), 8, "expected 4 more bytes, found 0");
}

#[test]
fn numbers_keep_their_value() {
    means("80 CC 00 00 00 00 00 00 08 40", "3");
    means("80 CC 00 00 00 00 00 00 00 80", "-0");
    means("80 CC 9A 99 99 99 99 99 B9 3F", "0.1");
    means("80 CB FF FF FF FF FF FF FF 7F", "9223372036854775807");
    means("80 CB 00 00 00 00 00 00 00 80", "-9223372036854775808");
    means("80 C7 FF FF FF FF FF FF FF FF", "18446744073709551615");
    refused(&bytes("80 CC 00 00 00 00 00 00 F8 7F"), 1, "JSON has no number NaN");
    refused(&bytes("80 CC 00 00 00 00 00 00 F0 FF"), 1, "JSON has no number -inf");
    refused(&bytes("80 E1 CD 00 00 80 7F"), 2, "JSON has no number inf");
    refused(&bytes("80 CF 00 3C"), 1, "16-bit floats (0xcf) are not supported");
}

#[test]
fn a_reference_stands_for_an_earlier_string() {
    for reference in ["C3 03", "C4 03 00", "C5 03 00 00", "C6 03 00 00 00"] {
        let length = 3 + reference.split(' ').count();
        means(&format!("80 E2 {length:02X} 82 68 69 {reference}"), r#"["hi","hi"]"#);
    }
    means("80 EA 07 82 68 69 01 2C C3 03", r#"{"hi":1,"id":"hi"}"#);
    // A name can be one, and what it stands for can be packed or of the dictionary.
    means("80 E2 08 7E 02 C8 34 E9 C3 03 00", r#"["Hi",{"Hi":0}]"#);
    means("80 E2 03 2C C3 03", r#"["id","id"]"#);
}

#[test]
fn a_reference_to_anything_else_is_refused() {
    for (hex, at, position) in [
        ("80 C3 00", 1, 0),
        ("80 C3 01", 1, 1),
        ("80 C3 C8", 1, 200),
        ("80 C6 FF FF FF FF", 1, 4_294_967_295_u32),
        ("80 E2 03 00 C3 03", 4, 3),
        ("80 E2 05 C3 06 82 68 69", 3, 6),
        ("80 E2 07 82 68 69 C3 03 C3 06", 8, 6),
    ] {
        let problem = format!("no earlier string begins at byte {position}");
        refused(&bytes(hex), at, &problem);
    }
    refused(&bytes("80 E2 05 C9 85 00 C3 04"), 5, "expected 5 more bytes, found 1");
    refused(&bytes("80 E2 04 81 45 C3 04"), 4, "in a dictionary that is not part of the body");
}

#[test]
fn what_is_not_in_the_format_is_refused_where_it_stands() {
    for marker in (0x68..=0x70).chain(0xD4..=0xD6).chain(0xF4..=0xFF) {
        refused(&[0x80, 0xE1, marker], 2, &format!("the marker {marker:#04x} is reserved"));
    }
    for marker in 0x40..=0x67 {
        refused(&[0x80, marker, 0], 1, "in a dictionary that is not part of the body");
    }
    refused(&bytes("80 D0 D0 D0"), 2, "2 bytes are left after the value");
    refused(&bytes("80 82 68 FF"), 3, "invalid UTF-8 in a string");
    refused(&bytes("80 E9 01 D0"), 2, "a member's name must be a string, not 0x01");
    refused(&bytes("80 E9 D3 D0"), 2, "a member's name must be a string, not 0xd3");
    refused(&bytes("80 E5 01 05 00"), 1, "5 parts are announced and 1 are there");
    refused(&bytes("80 ED 04 01 2C 00 3B 01"), 1, "1 parts are announced and 2 are there");
    refused(&bytes("80 E2 01 C9 05 00"), 4, "expected 2 more bytes, found 0");
    refused(&bytes("80 E2 09 00"), 3, "expected 9 more bytes, found 1");
    refused(&bytes("80 EA 01 2C 00"), 4, "expected 1 more bytes, found 0");
    refused(&bytes("80 71 00 01"), 3, "0x01 is no padding of 0 groups");
    refused(&bytes("80 71 01 80 00 00 00"), 3, "0x80 is no padding of 1 groups");
    refused(&bytes("80 7B 01 7F 01"), 3, "packed from 0x7f is not ASCII");
    refused(&bytes("80 7B 01 FF 01"), 3, "packed from 0xff is not ASCII");
}

#[test]
fn nesting_ends_where_it_does_in_texts() {
    let nested = |levels: usize, innermost: &[u8]| {
        let mut body = vec![0x80];
        body.resize(1 + levels, 0xE1);
        body.extend(innermost);
        body
    };
    let deepest = to_text(&nested(DEPTH_MAX, &[0xD0])).unwrap();
    json::parse(deepest.as_bytes()).unwrap();
    let too_deep = "nested deeper than 128 levels";
    refused(&nested(DEPTH_MAX + 1, &[0xD0]), DEPTH_MAX + 1, too_deep);
    refused(&nested(100_000, &[0xD0]), DEPTH_MAX + 1, too_deep);
    refused(&nested(DEPTH_MAX, &[0xE8]), DEPTH_MAX + 1, too_deep);
    to_text(&nested(DEPTH_MAX - 1, &[0xF0, 0xD7, 1, 1])).unwrap();
    refused(&nested(DEPTH_MAX, &[0xF0, 0xD7, 1, 1]), DEPTH_MAX + 1, too_deep);
    refused(&nested(DEPTH_MAX - 1, &[0xF2, 0xF0, 0xD7, 1, 1, 1]), DEPTH_MAX, too_deep);
}

/// An array of these parts.
fn array_of(parts: &[u8]) -> Vec<u8> {
    let mut body = vec![0x80, 0xE4];
    body.extend(u32::try_from(parts.len()).unwrap().to_le_bytes());
    body.extend(parts);
    body
}

#[test]
fn a_small_body_cannot_mean_a_huge_text() {
    let mut referring = vec![0xC1, 0xFF, 0xFF];
    referring.resize(3 + 0xFFFF, b'a');
    referring.extend([0xC3, 6].repeat(10_000));
    let escaped = [&[0xC2, 0, 0, 8, 0][..], &vec![1; 0x8_0000]].concat();
    let empty_arrays = [0xF3, 0xF1, 0xD7, 0, 0, 0xFF, 0xFF].repeat(100);
    for parts in [referring, escaped, empty_arrays] {
        let error = to_text(&array_of(&parts)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
        assert!(error.message.contains("longer than 2097152 bytes"), "{error}");
    }
    let fits = "a".repeat(ITEM_BYTES_MAX - 2);
    let text = to_text(&encode(&Value::String(fits))).unwrap();
    assert_eq!(text.len(), ITEM_BYTES_MAX);
    let exceeds = "a".repeat(ITEM_BYTES_MAX - 1);
    let error = to_text(&encode(&Value::String(exceeds))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}

#[test]
fn strings_and_containers_of_every_length_read_back() {
    for length in [0, 1, 63, 64, 255, 256, 65_535, 65_536, 70_000] {
        let string = Value::String("é".repeat(length / 2) + &"x".repeat(length % 2));
        let zeros = Value::Array(vec![Value::from(0); length]);
        let members = (0..length.min(300)).map(|n| (format!("name {n}"), Value::Null));
        for value in [string, zeros, Value::Object(Object::from_iter(members))] {
            let text = to_text(&encode(&value)).unwrap();
            let written = from_text(text.as_bytes()).unwrap();
            assert_eq!(to_text(&written), Ok(text.clone()));
            assert_eq!(Value::parse(text.as_bytes()), Ok(value));
        }
    }
}

/// Whatever is accepted is JSON, and compact, but for names that occur twice.
fn check_any(body: &[u8]) {
    if let Ok(text) = to_text(body) {
        json::parse(text.as_bytes()).unwrap();
        if json::check_names(text.as_bytes()).is_ok() {
            assert_eq!(json::compact_object(text.as_bytes()).unwrap_or(text.clone()), text)
        }
    }
}

proptest! {
    #[test]
    fn a_value_reads_back_from_its_binary_form(value in generate::value()) {
        let text = to_text(&encode(&value)).unwrap();
        prop_assert_eq!(&text, &value.to_json());
        prop_assert_eq!(to_text(&from_text(text.as_bytes()).unwrap()), Ok(text.clone()));
        prop_assert_eq!(Value::parse(text.as_bytes()), Ok(value));
    }

    #[test]
    fn a_body_that_was_cut_off_is_refused(value in generate::value()) {
        let body = encode(&value);
        for end in 0..body.len() {
            let error = to_text(&body[..end]).unwrap_err();
            prop_assert_eq!(error.kind, ErrorKind::BadRequest);
        }
    }

    #[test]
    fn a_changed_body_is_refused_or_still_json(value in generate::value(), seed: u64) {
        let entropy = SeededEntropy::new(seed);
        let mut body = encode(&value);
        for _ in 0..16 {
            let random = entropy.next_u64();
            let at = usize::try_from(random >> 32).unwrap() % body.len();
            match random % 3 {
                0 => body[at] = random.to_le_bytes()[1],
                1 => body.insert(at, random.to_le_bytes()[1]),
                _ => body[at] ^= 1 << (random >> 8 & 7),
            }
            body[0] = 0x80;
            check_any(&body);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_json(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        check_any(&bytes);
        check_any(&[&[0x80][..], &bytes].concat());
        check_any(&array_of(&bytes));
    }

    #[test]
    fn changed_vectors_are_refused_or_json(row in 0..ROWS, at: prop::sample::Index, to: u8) {
        let rows: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        let mut body = bytes(rows[row]["binary"].as_str().unwrap());
        let at = at.index(body.len());
        body[at] = to;
        check_any(&body);
        body.truncate(at);
        check_any(&body);
    }
}
