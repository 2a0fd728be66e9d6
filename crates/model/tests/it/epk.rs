//! Effective partition keys against public vectors: what clients compute, we compute.

use partita_model::{
    Epk, EpkRange, HashVersion, KeyKind, KeyPart, KeyWriting, PartitionKey, PartitionKeyDefinition,
    PartitionKeyHeader, PropertyPath, Value,
};

const VECTORS: &str = include_str!("../data/epk-vectors.json");
const BASELINES: &str = include_str!("../data/epk-baselines.json");

#[test]
fn every_vector_holds_for_version_1_version_2_and_multihash() {
    let data = parse(VECTORS);
    let vectors = list(&data, "vectors");
    for vector in vectors {
        let header = PartitionKeyHeader::parse(text(vector, "partitionKeyHeader")).unwrap();
        let components: Vec<KeyPart> = list(vector, "components").iter().map(component).collect();
        assert_eq!(header.0, components, "the header of {vector}");
        let key = PartitionKey(header.0);
        for (name, kind, version) in [
            ("v1", KeyKind::Hash, HashVersion::V1),
            ("v2", KeyKind::Hash, HashVersion::V2),
            ("multihash", KeyKind::MultiHash, HashVersion::V2),
        ] {
            let epk = definition(kind, version, key.0.len()).epk(&key);
            assert_eq!(epk.to_string(), text(vector, name), "{name} of {vector}");
        }
    }
    assert_eq!(vectors.len(), 64);
}

#[test]
fn every_published_final_key_is_reproduced() {
    let data = parse(BASELINES);
    let rows = list(&data, "epk");
    for row in rows {
        let key = PartitionKey(list(row, "values").iter().map(part).collect());
        let kind = match text(row, "kind") {
            "Hash" => KeyKind::Hash,
            "MultiHash" => KeyKind::MultiHash,
            other => panic!("an unknown kind {other}"),
        };
        let version = match row.get("version").unwrap().as_i64() {
            Some(1) => HashVersion::V1,
            Some(2) => HashVersion::V2,
            other => panic!("an unknown version {other:?}"),
        };
        let epk = definition(kind, version, key.0.len()).epk(&key);
        assert_eq!(epk.to_string(), text(row, "epk"), "{row}");
    }
    assert_eq!(rows.len(), 34);
}

#[test]
fn a_prefix_of_a_hierarchical_key_is_the_range_of_all_keys_below_it() {
    let data = parse(VECTORS);
    let rows = list(&data, "prefixRanges");
    for row in rows {
        let paths = row.get("paths").unwrap().as_i64().unwrap() as usize;
        let definition = definition(KeyKind::MultiHash, HashVersion::V2, paths);
        let header = PartitionKeyHeader::parse(text(row, "header")).unwrap();
        let range = definition.range_of(&header).unwrap();
        assert_eq!(
            (range.min.to_string().as_str(), range.max.to_string().as_str()),
            (text(row, "min"), text(row, "max"))
        );
    }
    assert_eq!(rows.len(), 2);
}

#[test]
fn the_range_kind_keeps_the_values_in_order() {
    let data = parse(VECTORS);
    let rows = list(&data, "rangeKind");
    for row in rows {
        let key = PartitionKey(PartitionKeyHeader::parse(text(row, "header")).unwrap().0);
        let definition = definition(KeyKind::Range, HashVersion::V1, key.0.len());
        assert_eq!(definition.epk(&key).to_string(), text(row, "epk"), "{row}");
    }
    assert_eq!(rows.len(), 4);
}

/// The key of the Python SDK's own hashing test. (Its constant for version 2 takes every letter as
/// a component; ours is what that SDK computes for the whole string as one.)
#[test]
fn a_long_key_is_cut_by_version_1_only() {
    let alphabet = "abcdefghijklmnopqrstuvwxyz";
    let key = PartitionKey(vec![KeyPart::String(alphabet.repeat(5))]);
    let v1 = definition(KeyKind::Hash, HashVersion::V1, 1).epk(&key).to_string();
    assert!(v1.starts_with("05C1DD5D81496408626364"), "{v1}");
    assert!(v1.ends_with("72737475767700"), "{v1}");
    let v2 = definition(KeyKind::Hash, HashVersion::V2, 1).epk(&key).to_string();
    assert_eq!(v2, "31AF8C86DBBBD030D9F9EDE9FB36FD51");
    let letters = alphabet.repeat(5).chars().map(|letter| KeyPart::String(letter.into())).collect();
    let letters = definition(KeyKind::Hash, HashVersion::V2, 130).epk(&PartitionKey(letters));
    assert_eq!(letters.to_string(), "2032D236DA8678BFB900E866D7EBCE76");
}

#[test]
fn an_empty_component_list_is_the_minimum() {
    for (kind, version) in [
        (KeyKind::Hash, HashVersion::V1),
        (KeyKind::Hash, HashVersion::V2),
        (KeyKind::MultiHash, HashVersion::V2),
        (KeyKind::Range, HashVersion::V1),
    ] {
        assert_eq!(definition(kind, version, 1).epk(&PartitionKey(Vec::new())), Epk::min());
    }
}

#[test]
fn new_containers_divide_the_hash_space_evenly() {
    let boundaries = |kind, version, n| -> Vec<String> {
        let ranges = definition(kind, version, 1).initial_ranges(n);
        ranges[1..].iter().map(|range| range.min.to_string()).collect()
    };
    // The constants of the Python SDK's tests for 5 and 4 partitions.
    let fifths = [
        "0CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC",
        "19999999999999999999999999999998",
        "26666666666666666666666666666664",
        "33333333333333333333333333333330",
    ];
    for kind in [KeyKind::Hash, KeyKind::MultiHash] {
        assert_eq!(boundaries(kind, HashVersion::V2, 5), fifths);
        assert_eq!(
            boundaries(kind, HashVersion::V2, 4)[..2],
            ["0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE"]
        );
    }
    // As recorded from the service for a version 1 container with two partitions.
    assert_eq!(boundaries(KeyKind::Hash, HashVersion::V1, 2), ["05C1DFFFFFFFFC"]);
    assert!(boundaries(KeyKind::Range, HashVersion::V1, 5).is_empty());
}

#[test]
fn initial_ranges_cover_everything_once() {
    for (kind, version) in [
        (KeyKind::Hash, HashVersion::V1),
        (KeyKind::Hash, HashVersion::V2),
        (KeyKind::MultiHash, HashVersion::V2),
        (KeyKind::Range, HashVersion::V1),
    ] {
        for n in [0, 1, 2, 3, 7, 25, 167] {
            let ranges = definition(kind, version, 1).initial_ranges(n);
            let expected = if kind == KeyKind::Range { 1 } else { n.max(1) };
            assert_eq!(ranges.len(), expected);
            assert_eq!(ranges.first().map(|range| &range.min), Some(&Epk::min()));
            assert_eq!(ranges.last().map(|range| &range.max), Some(&Epk::max()));
            assert!(ranges.iter().all(|range| !range.is_empty()));
            assert!(ranges.windows(2).all(|pair| pair[0].max == pair[1].min));
        }
    }
}

#[test]
fn every_key_falls_into_exactly_one_initial_range() {
    for version in [HashVersion::V1, HashVersion::V2] {
        let definition = definition(KeyKind::Hash, version, 1);
        let ranges = definition.initial_ranges(5);
        let mut counts = [0; 5];
        for i in 0..1000 {
            let key = PartitionKey(vec![KeyPart::String(format!("key{i}"))]);
            let epk = definition.epk(&key);
            let homes: Vec<usize> = (0..5).filter(|at| ranges[*at].contains(&epk)).collect();
            assert_eq!(homes.len(), 1, "{epk}");
            counts[homes[0]] += 1;
        }
        assert!(counts.iter().all(|count| (150..250).contains(count)), "{version:?} {counts:?}");
    }
}

#[test]
fn the_range_of_a_full_key_holds_that_key_alone() {
    let definition = definition(KeyKind::Hash, HashVersion::V2, 1);
    let header = PartitionKeyHeader::parse(r#"["a"]"#).unwrap();
    let range = definition.range_of(&header).unwrap();
    let epk = definition.epk(&definition.resolve(&header).unwrap());
    assert!(range.contains(&epk));
    assert_eq!(range.max.to_string(), format!("{epk}00"));
    let everything = definition.range_of(&PartitionKeyHeader(Vec::new())).unwrap();
    assert_eq!(everything, EpkRange::all());
}

#[test]
fn a_padded_bound_of_a_hierarchical_range_is_the_short_one() {
    let multi = definition(KeyKind::MultiHash, HashVersion::V2, 3);
    let short = "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF";
    let padded = |zeros: usize| Epk::parse_hex(&format!("{short}{}", "00".repeat(zeros))).unwrap();
    for zeros in [0, 16, 32] {
        assert_eq!(multi.unpadded(padded(zeros)).to_string(), short);
    }
    assert_eq!(multi.unpadded(padded(1)), padded(1), "not a whole component");
    assert_eq!(multi.unpadded(Epk::max()), Epk::max());
    let zero = Epk::parse_hex(&"00".repeat(16)).unwrap();
    assert_eq!(multi.unpadded(zero.clone()), zero, "the first component stays");
    let single = definition(KeyKind::Hash, HashVersion::V2, 1);
    assert_eq!(single.unpadded(padded(16)), padded(16));
}

fn definition(kind: KeyKind, version: HashVersion, paths: usize) -> PartitionKeyDefinition {
    let path = |at| PropertyPath::parse(&format!("/k{at}")).unwrap();
    let paths = (0..paths).map(path).collect();
    PartitionKeyDefinition {
        paths,
        kind,
        version,
        system_key: false,
        written: KeyWriting::default(),
    }
}

fn component(value: &Value) -> KeyPart {
    match value.get("value") {
        Some(value) => part(value),
        None => {
            assert_eq!(value.get("undefined"), Some(&Value::from(true)));
            KeyPart::Undefined
        }
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

fn parse(data: &str) -> Value {
    Value::parse(data.as_bytes()).unwrap()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{name} in {value}"))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).unwrap_or_else(|| panic!("{name} in {value}"))
}
