//! A query that was prepared before means what it would mean if it were prepared now.

use partita_engine::{ContainerPath, Op};
use partita_model::Value;

use super::*;

fn replace(bench: &Bench, fields: &str) {
    let body = json(&format!(r#"{{"id":"c",{KEY_PK},{fields}}}"#));
    let replace = Op::ReplaceContainer { container: path(), body, condition: None };
    bench.run(replace).result.unwrap();
}

fn rows(bench: &Bench, text: &str) -> Vec<String> {
    page(bench, global(text)).rows
}

#[test]
fn a_change_of_computed_properties_is_seen_at_once() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"1","pk":"k","n":5}"#);
    let text = "SELECT VALUE c.x FROM c";
    let computed = |query: &str| {
        replace(&bench, &format!(r#""computedProperties":[{{"name":"x","query":"{query}"}}]"#));
    };
    assert_eq!(rows(&bench, text), [""; 0]);
    computed("SELECT VALUE c.n * 2 FROM c");
    assert_eq!(rows(&bench, text), ["10"]);
    assert_eq!(rows(&bench, text), ["10"]);
    computed("SELECT VALUE c.n * 3 FROM c");
    assert_eq!(rows(&bench, text), ["15"]);
    replace(&bench, r#""computedProperties":[]"#);
    assert_eq!(rows(&bench, text), [""; 0]);
}

#[test]
fn a_change_of_the_indexing_policy_is_seen_at_once() {
    let bench = Bench::with_queries(partita_engine::QuerySettings {
        scan_items: 0,
        ..partita_engine::QuerySettings::default()
    });
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"1","pk":"k","n":5}"#);
    let uses_index = || {
        let page = page(&bench, global("SELECT VALUE c.id FROM c WHERE c.n = 5"));
        assert_eq!(page.rows, [r#""1""#]);
        page.report.leaves.iter().any(|leaf| !leaf.indexes_used.is_empty())
    };
    assert!(uses_index() && uses_index());
    replace(&bench, r#""indexingPolicy":{"excludedPaths":[{"path":"/n/?"}]}"#);
    assert!(!uses_index() && !uses_index());
}

#[test]
fn a_text_means_in_each_container_what_it_means_there() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let twice = r#"{"name":"x","query":"SELECT VALUE c.n * 2 FROM c"}"#;
    let fields = format!(r#"{KEY_PK},"computedProperties":[{twice}]"#);
    bench.create_container("other", 400, &fields).result.unwrap();
    let other = ContainerPath { container: "other".into(), ..path() };
    let ask = |container: ContainerPath| {
        let query = Box::new(global("SELECT VALUE c.x FROM c"));
        match bench.run(Op::Query { container, query }).result {
            Ok(Outcome::Query { rows, .. }) => rows,
            result => panic!("no rows: {result:?}"),
        }
    };
    for container in [path(), other.clone()] {
        let item = item(r#"{"id":"1","pk":"k","n":5,"x":7}"#, None);
        bench.run(Op::CreateItem { container, item }).result.unwrap();
    }
    for _ in 0..2 {
        assert_eq!((ask(path()), ask(other.clone())), (vec!["7".into()], vec!["10".into()]));
    }
    // Another container of the same name.
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    bench.make_container(400, &fields);
    bench.create(r#"{"id":"1","pk":"k","n":6}"#);
    assert_eq!(ask(path()), ["12"]);
}

#[test]
fn parameters_of_one_name_are_told_apart_by_type_value_and_order() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let large = format!(r#""{}""#, "x".repeat(5_000));
    let values = [
        "1",
        "1.5",
        "-1",
        r#""1""#,
        "true",
        "false",
        "null",
        "[1]",
        "[[1]]",
        "[1,1]",
        r#"["1"]"#,
        r#"{"a":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"b":2,"a":1}"#,
        r#"{"b":{"a":1}}"#,
        r#""""#,
        "[]",
        "{}",
        &large,
    ];
    for _ in 0..2 {
        for value in values {
            let parameters = vec![("@p".to_owned(), json(value))];
            let query = QueryRequest { parameters, ..global("SELECT VALUE @p") };
            assert_eq!(page(&bench, query).rows, [value]);
        }
    }
    let pair = |a: &str, b: &str| {
        let value = |text: &str| Value::String(text.to_owned());
        let parameters = vec![("@a".to_owned(), value(a)), ("@b".to_owned(), value(b))];
        page(&bench, QueryRequest { parameters, ..global("SELECT VALUE @a || '-' || @b") }).rows
    };
    assert_eq!(
        (pair("x", "yz"), pair("xy", "z")),
        (vec![r#""x-yz""#.into()], vec![r#""xy-z""#.into()])
    );
}
