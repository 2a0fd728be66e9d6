//! The keys that a condition leaves possible, and that none is lost.

use super::PartitionFilter;
use crate::Query;
use crate::ir::{self, BinaryOperator, Expr, Projection, Source, Step};
use partita_model::{
    HashVersion, KeyKind, KeyPart, KeyWriting, MemberName, PartitionKeyDefinition,
    PartitionKeyHeader, PropertyPath, Value,
};

fn key(kind: KeyKind, paths: &[&str]) -> PartitionKeyDefinition {
    let paths = paths.iter().map(|path| PropertyPath::parse(path).expect("a path")).collect();
    PartitionKeyDefinition {
        paths,
        kind,
        version: HashVersion::V2,
        system_key: false,
        written: KeyWriting::default(),
    }
}

fn filter(condition: &str, key: &PartitionKeyDefinition) -> PartitionFilter {
    let text = format!("SELECT * FROM c WHERE {condition}");
    Query::parse(&text, &[], &[]).expect("a query").partition_filter(key)
}

/// The keys as headers would have them, in any order.
fn headers(filter: &PartitionFilter) -> Vec<String> {
    let PartitionFilter::Keys(keys) = filter else { panic!("no keys: {filter:?}") };
    let header = |parts: &Vec<KeyPart>| PartitionKeyHeader(parts.clone()).to_header_json();
    let mut headers: Vec<String> = keys.iter().map(|key| header(&key.parts)).collect();
    headers.sort();
    headers
}

#[test]
fn sixteen_thousand_keys_are_listed_each_once() {
    let key = key(KeyKind::Hash, &["/pk"]);
    let values: Vec<String> = (0..16_000).map(|number| format!("'{}'", number % 15_000)).collect();
    let listed = filter(&format!("c.pk IN ({})", values.join(", ")), &key);
    assert_eq!(headers(&listed).len(), 15_000);
    let terms: Vec<String> = values.iter().map(|value| format!("c.pk = {value}")).collect();
    let named = filter(&terms[..2000].join(" OR "), &key);
    assert_eq!(headers(&named).len(), 2000);
}

#[test]
fn too_many_combinations_are_cut_to_a_prefix() {
    let key = key(KeyKind::MultiHash, &["/a", "/b", "/c"]);
    let list: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let list = list.join(", ");
    let condition = format!("c.a IN ({list}) AND c.b IN ({list}) AND c.c IN ({list})");
    let PartitionFilter::Keys(keys) = filter(&condition, &key) else { panic!("no keys") };
    // 201 keys with both zeros: 200 × 200 would be too many.
    assert_eq!(keys.len(), 201);
    assert!(keys.iter().all(|key| key.parts.len() == 1));
}

#[test]
fn a_key_under_a_named_prefix_is_not_asked_again() {
    let key = key(KeyKind::MultiHash, &["/a", "/b"]);
    let both = filter("(c.a = 'x' AND c.b = 'y') OR c.a = 'x' OR (c.a = 'z' AND c.b = 1)", &key);
    assert_eq!(headers(&both), [r#"["x"]"#, r#"["z",1]"#]);
}

#[test]
fn ranges_are_in_order_and_lead_to_their_keys() {
    let key = key(KeyKind::Hash, &["/pk"]);
    let PartitionFilter::Keys(keys) = filter("c.pk IN (5, 'a', null, true, [1])", &key) else {
        panic!("no keys")
    };
    assert_eq!(keys.len(), 5);
    assert!(keys.iter().zip(keys.iter().skip(1)).all(|(a, b)| a.range.max <= b.range.min));
    for one in &keys {
        let range = key.range_of(&PartitionKeyHeader(one.parts.clone())).expect("a range");
        assert_eq!(range, one.range);
    }
}

#[test]
fn zero_has_two_keys() {
    let key = key(KeyKind::Hash, &["/pk"]);
    let PartitionFilter::Keys(keys) = filter("c.pk = 0", &key) else { panic!("no keys") };
    let is_negative = |part: &KeyPart| match part {
        KeyPart::Number(zero) => zero.is_sign_negative(),
        _ => panic!("no number"),
    };
    let negative: Vec<bool> = keys.iter().map(|one| one.parts.iter().any(is_negative)).collect();
    assert_eq!(negative.len(), 2);
    assert_ne!(negative.first(), negative.last());
}

#[test]
fn a_key_too_long_for_an_item_finds_nothing() {
    let key = key(KeyKind::Hash, &["/pk"]);
    let long = "x".repeat(3000);
    assert_eq!(filter(&format!("c.pk = '{long}'"), &key), PartitionFilter::Nothing);
}

#[test]
fn names_lead_to_the_item_only_where_they_mean_it() {
    let key = key(KeyKind::Hash, &["/a/b"]);
    let of = |text: &str| Query::parse(text, &[], &[]).expect(text).partition_filter(&key);
    for text in [
        "SELECT * FROM c WHERE c.a.b = 1",
        "SELECT * FROM root r WHERE r['a'].b = 1",
        "SELECT * FROM c.a WHERE a.b = 1",
        "SELECT * FROM c.a x WHERE x.b = 1",
        "SELECT VALUE x FROM c JOIN c.a x WHERE x.b = 1",
        "SELECT VALUE b FROM c.a.b WHERE b = 1",
    ] {
        assert_eq!(headers(&of(text)), ["[1]"], "{text}");
    }
    for text in [
        "SELECT * FROM c.c WHERE c.a.b = 1",
        "SELECT VALUE a FROM a IN c.a WHERE a.b = 1",
        "SELECT * FROM (SELECT * FROM c) x WHERE x.a.b = 1",
        "SELECT x FROM c JOIN x IN c.list WHERE x.a.b = 1",
        "SELECT * FROM c WHERE c.a.b[0] = 1",
        "SELECT * FROM c WHERE EXISTS(SELECT 1 FROM c IN c.list WHERE c.a.b = 1)",
    ] {
        assert_eq!(of(text), PartitionFilter::All, "{text}");
    }
}

#[test]
fn parameters_are_found_by_name() {
    let key = key(KeyKind::Hash, &["/pk"]);
    let parameters: Vec<(String, Value)> = [("@a", "x"), ("@b", "y"), ("@name", "pk")]
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .to_vec();
    let filter = |parameters: &[(String, Value)]| {
        let query = Query::parse("SELECT * FROM c WHERE c[@name] IN (@a, @b)", parameters, &[]);
        query.expect("a query").partition_filter(&key)
    };
    assert_eq!(headers(&filter(&parameters)), [r#"["x"]"#, r#"["y"]"#]);
    // What has no value is undefined: no choice of IN, and no name of a member.
    assert_eq!(headers(&filter(&parameters[1..])), [r#"["y"]"#]);
    assert_eq!(filter(&parameters[..2]), PartitionFilter::All);
}

#[test]
fn the_lowered_form_is_all_that_is_needed() {
    let path = Expr::path(Expr::Item, vec![Step::Member(MemberName::new("pk"))]);
    let equal = (BinaryOperator::Equal, Expr::Constant(Value::from("x")));
    let query = Query::from_ir(ir::Query {
        first_slot: 0,
        sources: vec![Source::Value(Expr::Item)],
        joined: None,
        filter: Some(Expr::Chain { first: Box::new(path), rest: vec![equal] }),
        grouping: None,
        projection: Projection::Value(Expr::Item),
        distinct: false,
        order_by: Vec::new(),
        top: None,
        offset_limit: None,
    });
    let of_sql = Query::parse("SELECT * FROM c WHERE c.pk = 'x'", &[], &[]).expect("a query");
    let key = key(KeyKind::Hash, &["/pk"]);
    assert_eq!(headers(&query.partition_filter(&key)), [r#"["x"]"#]);
    assert_eq!((query.facts(), query.access()), (of_sql.facts(), of_sql.access()));
}
