//! Public hash baselines: raw hashes, before they are made into effective partition keys.
//!
//! `hashBaselines` in `tests/data/epk-baselines.json` comes from a test-only hash that leaves the
//! byte behind a string away. So the rows of its suites "Numbers" and "Singletons" hold for our
//! hashes as they are, and the rows of "Strings" and "Lists" (lists of strings) only for the
//! suffix-less variant written out here. They still pin MurmurHash3 on long inputs, the marker,
//! and the cut after 100 units.

use super::*;
use crate::value::Value;

const DATA: &str = include_str!("../../tests/data/epk-baselines.json");

#[test]
fn raw_hashes_of_numbers_and_singletons_match_the_baselines() {
    let mut checked = 0;
    for row in rows().iter().filter(|row| ["Numbers", "Singletons"].contains(&row.suite.as_str())) {
        let [part] = row.parts.as_slice() else { panic!("one value in {row:?}") };
        let mut input = Vec::new();
        put_hash_input(&mut input, part, STRING_END_V1);
        check(row, &[murmur3_32(&input)], &[murmur3_128(&input)]);
        checked += 1;
    }
    assert_eq!(checked, 20);
}

#[test]
fn raw_hashes_of_strings_match_the_baselines_without_the_byte_behind_the_string() {
    let mut checked = 0;
    for row in rows().iter().filter(|row| ["Strings", "Lists"].contains(&row.suite.as_str())) {
        let hash_v1 = |part| murmur3_32(&without_end(&cut_v1(part)));
        let v1: Vec<u32> = row.parts.iter().map(hash_v1).collect();
        let v2: Vec<u128> = row.parts.iter().map(|part| murmur3_128(&without_end(part))).collect();
        check(row, &v1, &v2);
        // And not with it: the trap this test is about.
        assert_ne!(hash_v2(&row.parts).to_string(), mask(&row.v2), "{row:?}");
        checked += 1;
    }
    assert_eq!(checked, 9);
}

#[track_caller]
fn check(row: &Row, v1: &[u32], v2: &[u128]) {
    let v1: String = v1.iter().map(|hash| format!("{hash:032X}")).collect();
    let v2: String = v2.iter().map(|hash| format!("{hash:032X}")).collect();
    assert_eq!((&v1, &v2), (&row.v1, &row.v2), "{row:?}");
}

/// The test-only variant: marker and text, no byte behind.
fn without_end(part: &KeyPart) -> Vec<u8> {
    let KeyPart::String(text) = part else { panic!("a string, not {part:?}") };
    [&[marker::STRING], text.as_bytes()].concat()
}

/// A raw version 2 hash as an effective partition key shows it.
fn mask(hash: &str) -> String {
    let bits = u128::from_str_radix(&hash[..32], 16).unwrap() & (u128::MAX >> 2);
    format!("{bits:032X}")
}

#[derive(Debug)]
struct Row {
    suite: String,
    parts: Vec<KeyPart>,
    v1: String,
    v2: String,
}

fn rows() -> Vec<Row> {
    let data = Value::parse(DATA.as_bytes()).unwrap();
    let rows = data.get("hashBaselines").unwrap().as_array().unwrap();
    let text = |row: &Value, name: &str| row.get(name).unwrap().as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| Row {
            suite: text(row, "suite"),
            parts: parts(&text(row, "suite"), &text(row, "partitionKeyValue")),
            v1: text(row, "hashV1"),
            v2: text(row, "hashV2"),
        })
        .collect()
}

fn parts(suite: &str, text: &str) -> Vec<KeyPart> {
    if text == "UNDEFINED" {
        return vec![KeyPart::Undefined];
    }
    // The baseline's 2 KB string is one letter repeated, so nothing in it needs an escape.
    match Value::parse(text.as_bytes()).unwrap() {
        Value::Array(values) => values.iter().map(part).collect(),
        Value::String(name) if suite == "Numbers" => vec![KeyPart::Number(special(&name))],
        value => vec![part(&value)],
    }
}

fn part(value: &Value) -> KeyPart {
    match value {
        Value::Null => KeyPart::Null,
        Value::Bool(value) => KeyPart::Bool(*value),
        Value::Number(number) => KeyPart::Number(number.as_f64()),
        Value::String(text) => KeyPart::String(text.clone()),
        Value::Array(_) | Value::Object(_) => panic!("a scalar, not {value}"),
    }
}

/// Numbers that JSON cannot write. .NET's NaN has its sign bit set.
fn special(name: &str) -> f64 {
    match name {
        "NaN" => f64::from_bits(0xFFF8_0000_0000_0000),
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        other => panic!("an unknown number {other}"),
    }
}
