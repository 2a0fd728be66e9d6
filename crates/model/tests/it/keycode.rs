//! Key codes: the order of bytes is the order of values.

use std::cmp::Ordering;

use partita_model::{KeyPart, Scalar, keycode};
use proptest::collection::vec;
use proptest::prelude::*;

/// Strings in which the bytes that matter occur: 00, 01, FF-like letters, and shared beginnings.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(prop::sample::select(&['\0', '\u{1}', 'a', 'ÿ', '\u{10FFFF}'][..]), 0..5)
            .prop_map(String::from_iter),
        any::<String>(),
    ]
}

/// Strings with characters around those that UTF-8 and UTF-16 sort differently.
fn texts_of_all_planes() -> impl Strategy<Value = String> {
    let near = &['\0', 'a', '\u{D7FF}', '\u{E000}', '\u{F123}', '\u{FFFF}', '\u{10000}'][..];
    let far = &['\u{4F000}', '\u{8F000}', '\u{CF000}', '\u{10FFFF}', 'ÿ', '\u{1}'][..];
    prop_oneof![
        vec(prop_oneof![prop::sample::select(near), prop::sample::select(far)], 0..6)
            .prop_map(String::from_iter),
        any::<String>(),
    ]
}

fn utf16(text: &str, bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    keycode::put_utf16_order_cut(&mut out, text, bytes_max);
    out
}

fn part() -> impl Strategy<Value = KeyPart> {
    let doubles = prop::num::f64::NORMAL
        | prop::num::f64::SUBNORMAL
        | prop::num::f64::ZERO
        | prop::num::f64::INFINITE
        | prop::num::f64::POSITIVE
        | prop::num::f64::NEGATIVE;
    prop_oneof![
        Just(KeyPart::Undefined),
        Just(KeyPart::Null),
        any::<bool>().prop_map(KeyPart::Bool),
        (-3_i32..3).prop_map(|n| KeyPart::Number(f64::from(n) / 2.0)),
        doubles.prop_map(KeyPart::Number),
        text().prop_map(KeyPart::String),
    ]
}

fn rank(part: &KeyPart) -> u8 {
    match part {
        KeyPart::Undefined => 0,
        KeyPart::Null => 1,
        KeyPart::Bool(_) => 2,
        KeyPart::Number(_) => 3,
        KeyPart::String(_) => 4,
    }
}

fn compare(a: &KeyPart, b: &KeyPart) -> Ordering {
    match (a, b) {
        (KeyPart::Bool(a), KeyPart::Bool(b)) => a.cmp(b),
        (KeyPart::Number(a), KeyPart::Number(b)) => a.partial_cmp(b).unwrap(),
        (KeyPart::String(a), KeyPart::String(b)) => a.cmp(b),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn compare_all(a: &[KeyPart], b: &[KeyPart]) -> Ordering {
    let unequal = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    unequal.unwrap_or(a.len().cmp(&b.len()))
}

fn encode(parts: &[KeyPart]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        keycode::put_key_part(&mut out, part);
    }
    out
}

#[test]
fn the_stored_bytes_are_as_documented() {
    let mut out = Vec::new();
    keycode::put_bytes(&mut out, b"a\0b");
    assert_eq!(out, [b'a', 0, 0xFF, b'b', 0, 1]);
    for (part, bytes) in [
        (KeyPart::Undefined, &[0_u8][..]),
        (KeyPart::Null, &[1]),
        (KeyPart::Bool(false), &[2]),
        (KeyPart::Bool(true), &[3]),
        (KeyPart::Number(1.0), &[5, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0]),
        (KeyPart::Number(-1.0), &[5, 0x40, 0x0F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
        (KeyPart::Number(-0.0), &[5, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        (KeyPart::String("é".to_owned()), &[8, 0xC3, 0xA9, 0, 1]),
    ] {
        assert_eq!(encode(std::slice::from_ref(&part)), bytes, "{part:?}");
    }
}

#[test]
fn broken_bytes_read_as_none_and_move_nothing() {
    for bytes in
        [&[][..], &[4], &[5, 1, 2], &[8, b'a'], &[8, b'a', 0], &[8, 0, 2], &[8, 0xFF, 0, 1]]
    {
        let mut reader = keycode::Reader::new(bytes);
        assert_eq!(reader.key_part(), None, "{bytes:?}");
        assert_eq!(reader.rest(), bytes);
    }
    // Who passes over a part does not look whether it is a text.
    for bytes in [&[][..], &[4], &[5, 1, 2], &[8, b'a'], &[8, b'a', 0], &[8, 0, 2]] {
        let mut reader = keycode::Reader::new(bytes);
        assert_eq!(reader.skip_key_part(), None, "{bytes:?}");
        assert_eq!(reader.rest(), bytes);
    }
    let mut undefined = keycode::Reader::new(&[0]);
    assert_eq!(undefined.scalar(), None);
    assert_eq!(undefined.rest(), [0]);
    assert_eq!(undefined.key_part(), Some(KeyPart::Undefined));
    assert!(undefined.is_empty());
}

proptest! {
    #[test]
    fn parts_sort_as_their_bytes(a in vec(part(), 0..4), b in vec(part(), 0..4)) {
        prop_assert_eq!(compare_all(&a, &b), encode(&a).cmp(&encode(&b)));
    }

    #[test]
    fn no_part_begins_with_another(a in part(), b in part()) {
        let (long, short) = (encode(std::slice::from_ref(&b)), encode(std::slice::from_ref(&a)));
        prop_assert_eq!(long.starts_with(&short), a == b);
    }

    #[test]
    fn parts_read_back(parts in vec(part(), 0..4)) {
        let bytes = encode(&parts);
        let mut reader = keycode::Reader::new(&bytes);
        let mut passing = keycode::Reader::new(&bytes);
        for part in &parts {
            prop_assert_eq!(reader.key_part(), Some(part.clone()));
            prop_assert_eq!(passing.skip_key_part(), Some(()));
            prop_assert_eq!(reader.rest(), passing.rest());
        }
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn scalars_are_encoded_as_key_parts(text in text(), double in -1e9..1e9) {
        let (number, string) = (Scalar::Number(double), Scalar::String(text.into()));
        for scalar in [Scalar::Null, Scalar::Bool(true), number, string] {
            let mut bytes = Vec::new();
            keycode::put_scalar(&mut bytes, &scalar);
            prop_assert_eq!(&bytes, &encode(&[KeyPart::from(scalar.clone())]));
            prop_assert_eq!(keycode::Reader::new(&bytes).scalar(), Some(scalar));
        }
    }

    #[test]
    fn strings_in_the_order_of_utf16_units(a in texts_of_all_planes(), b in texts_of_all_planes()) {
        let (first, second) = (utf16(&a, usize::MAX), utf16(&b, usize::MAX));
        prop_assert_eq!(a.encode_utf16().cmp(b.encode_utf16()), first.cmp(&second));
        prop_assert_eq!(keycode::Reader::new(&first).utf16_order_str(), Some(a));
    }

    #[test]
    fn cut_strings_stay_in_order_and_say_so(
        a in texts_of_all_planes(),
        b in texts_of_all_planes(),
        bytes_max in 0..12_usize,
    ) {
        let (first, second) = (utf16(&a, bytes_max), utf16(&b, bytes_max));
        let order = a.encode_utf16().cmp(b.encode_utf16());
        prop_assert!(order == first.cmp(&second) || first == second);
        let (kept, is_cut) = keycode::Reader::new(&first).utf16_order_cut().unwrap();
        prop_assert_eq!(is_cut, a.len() > bytes_max);
        prop_assert!(a.starts_with(&kept) && (is_cut || a == kept));
        prop_assert!(!is_cut || kept.len() + 3 >= bytes_max);
        prop_assert_eq!(keycode::Reader::new(&first).utf16_order_str().is_none(), is_cut);
        prop_assert!(first == second || !is_cut || !second.starts_with(&first));
    }

    #[test]
    fn bytes_and_integers_read_back_in_order(a: Vec<u8>, b: Vec<u8>, int: u64, other: u64) {
        let encode = |bytes: &[u8], int| {
            let mut out = Vec::new();
            keycode::put_bytes(&mut out, bytes);
            keycode::put_u64(&mut out, int);
            out
        };
        let bytes = encode(&a, int);
        let mut reader = keycode::Reader::new(&bytes);
        prop_assert_eq!((reader.bytes(), reader.u64()), (Some(a.clone()), Some(int)));
        prop_assert_eq!((&a, int).cmp(&(&b, other)), bytes.cmp(&encode(&b, other)));
    }

    #[test]
    fn reading_any_bytes_never_panics(bytes: Vec<u8>) {
        let mut reader = keycode::Reader::new(&bytes);
        while reader.key_part().is_some() {}
        let mut reader = keycode::Reader::new(&bytes);
        while reader.str().is_some() || reader.f64().is_some() {}
    }
}
