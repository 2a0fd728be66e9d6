//! No item is lost by looking only under the partition keys that a condition names.

use partita_model::{
    Document, HashVersion, KeyKind, KeyWriting, PartitionKeyDefinition, PropertyPath, Value,
};
use partita_query::{PartitionFilter, Query, ScopeSettings, evaluate};
use proptest::prelude::*;

/// Values that keys are compared with, and that items have.
const VALUES: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "1.5",
    "1e300",
    "null",
    "true",
    "false",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"b%\"",
    "[]",
    "[1]",
    "{}",
    "{\"a\":1}",
    "undefined",
];

fn value() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(VALUES)
}

fn path() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&["c.a", "c[\"b\"]", "c.a", "c.x", "c.a.z"][..])
}

fn test() -> impl Strategy<Value = String> {
    let operator = proptest::sample::select(&["=", "=", "!=", "<", "<=", ">", ">="][..]);
    prop_oneof![
        4 => (path(), operator.clone(), value()).prop_map(|(p, o, v)| format!("{p} {o} {v}")),
        2 => (path(), operator, value()).prop_map(|(p, o, v)| format!("{v} {o} {p}")),
        2 => (path(), value(), value(), any::<bool>()).prop_map(|(p, v, w, negated)| {
            format!("{p} {}IN ({v}, {w})", if negated { "NOT " } else { "" })
        }),
        1 => (value(), value(), path()).prop_map(|(v, w, p)| {
            format!("ARRAY_CONTAINS([{v}, {w}], {p}, true)")
        }),
        1 => (path(), value(), value())
            .prop_map(|(p, v, w)| format!("({p} BETWEEN {v} AND {w})")),
        1 => (path(), value()).prop_map(|(p, v)| format!("ABS({p}) = {v}")),
        1 => (path(), value()).prop_map(|(p, v)| format!("STARTSWITH({p}, {v})")),
        1 => (path(), value()).prop_map(|(p, v)| format!("{p} LIKE {v}")),
        1 => path().prop_map(|p| format!("{p} LIKE 'b!%' ESCAPE '!'")),
        1 => path().prop_map(|p| format!("IS_NULL({p})")),
        1 => path().prop_map(|p| format!("IS_BOOL({p})")),
        1 => path().prop_map(str::to_owned),
        1 => (path(), value()).prop_map(|(p, v)| format!("(SELECT VALUE 1 WHERE {p} = {v}) = 1")),
        1 => (path(), value())
            .prop_map(|(p, v)| format!("EXISTS(SELECT COUNT(1) FROM c WHERE {p} = {v})")),
        1 => (value(), value()).prop_map(|(v, w)| format!("{v} = {w}")),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    test().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("(NOT ({a}))")),
        ]
    })
}

fn item() -> impl Strategy<Value = String> {
    (value(), value(), value()).prop_map(|(a, b, x)| {
        let members = [("a", a), ("b", b), ("x", x)];
        let defined = members.iter().filter(|(_, value)| *value != "undefined");
        let members: Vec<String> =
            defined.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    })
}

fn keys() -> Vec<PartitionKeyDefinition> {
    let key = |kind, version, paths: &[&str]| PartitionKeyDefinition {
        paths: paths.iter().map(|path| PropertyPath::parse(path).expect("a path")).collect(),
        kind,
        version,
        system_key: false,
        written: KeyWriting::default(),
    };
    vec![
        key(KeyKind::Hash, HashVersion::V2, &["/a"]),
        key(KeyKind::Hash, HashVersion::V1, &["/b"]),
        key(KeyKind::Range, HashVersion::V1, &["/a"]),
        key(KeyKind::MultiHash, HashVersion::V2, &["/a", "/b"]),
    ]
}

/// Would the item be looked at?
fn is_asked(filter: &PartitionFilter, key: &PartitionKeyDefinition, item: &str) -> bool {
    let own = key.extract(Document::new(item));
    match filter {
        PartitionFilter::All => true,
        PartitionFilter::Nothing => false,
        PartitionFilter::Keys(keys) => keys
            .iter()
            .any(|one| one.range.contains(&key.epk(&own)) && own.0.starts_with(&one.parts)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_item_that_matches_has_a_key_that_is_asked(condition in condition(), item in item()) {
        let text = format!("SELECT VALUE 1 FROM c WHERE {condition}");
        let query = Query::parse(&text, &[], &[]).expect(&text);
        let rows = evaluate(&query, &[&item], &ScopeSettings::default()).expect(&text);
        for key in keys() {
            let filter = query.partition_filter(&key);
            prop_assert!(rows.is_empty() || is_asked(&filter, &key, &item), "{text}: {item}");
        }
    }
}

#[test]
fn a_computed_property_hides_the_key() {
    let key = keys().remove(0);
    let parse = |computed: &[partita_model::ComputedProperty]| {
        Query::parse("SELECT * FROM c WHERE c.a = 1", &[], computed).expect("a query")
    };
    let computed = partita_model::ComputedProperty {
        name: "a".to_owned(),
        query: "SELECT VALUE LOWER(c.b) FROM c".to_owned(),
    };
    assert!(matches!(parse(&[]).partition_filter(&key), PartitionFilter::Keys(_)));
    assert_eq!(parse(&[computed]).partition_filter(&key), PartitionFilter::All);
}

#[test]
fn a_query_knows_its_parameters_when_it_routes() {
    let parameters = [("@p".to_owned(), Value::from("x"))];
    let query = Query::parse("SELECT * FROM c WHERE c.a = UPPER(@p)", &parameters, &[]);
    let filter = query.expect("a query").partition_filter(&keys().remove(0));
    let PartitionFilter::Keys(keys) = filter else { panic!("{filter:?}") };
    assert_eq!(keys.len(), 1);
    assert_eq!(format!("{:?}", keys.first().map(|key| &key.parts)), r#"Some([String("X")])"#);
}
