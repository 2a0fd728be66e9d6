//! Index metrics against those that the service gave for the same queries.

use crate::data;
use partita_model::{IndexingPolicy, Value};
use partita_query::{IndexSpec, index_metrics};

fn policy(text: &str) -> IndexingPolicy {
    IndexingPolicy::parse(&Value::parse(text.as_bytes()).expect("JSON")).expect("a policy")
}

fn singles(indexes: &[IndexSpec]) -> Vec<&str> {
    let mut found = Vec::new();
    for index in indexes {
        if let IndexSpec::Single(path) = index {
            found.push(path.as_str());
        }
    }
    found
}

fn composites(indexes: &[IndexSpec]) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for index in indexes {
        if let IndexSpec::Composite(paths) = index {
            found.push(paths.iter().map(String::as_str).collect());
        }
    }
    found
}

fn expected_singles(list: &Value) -> Vec<&str> {
    data::array(list, "SingleIndexes").iter().map(|one| data::text(one, "IndexSpec")).collect()
}

fn expected_composites(list: &Value) -> Vec<Vec<&str>> {
    let paths = |one| data::array(one, "IndexSpecs").iter().filter_map(Value::as_str).collect();
    data::array(list, "CompositeIndexes").iter().map(paths).collect()
}

#[test]
fn index_metrics_are_those_of_the_service() {
    let policy = policy(r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[]}"#);
    let file = data::load("index-metrics-baselines.json");
    let cases = data::array(&file, "cases");
    let mut failures = Vec::new();
    for case in cases {
        let query = data::text(case, "query");
        let metrics = index_metrics(query, &[], &policy).expect("metrics");
        let expected = case.get("IndexMetric").expect("metrics");
        for (name, indexes) in
            [("UtilizedIndexes", &metrics.utilized), ("PotentialIndexes", &metrics.potential)]
        {
            let list = expected.get(name).expect("a list");
            if singles(indexes) != expected_singles(list)
                || composites(indexes) != expected_composites(list)
            {
                failures.push(format!("{query}\n    {name} {indexes:?}"));
            }
        }
    }
    assert_eq!(cases.len(), 43);
    assert!(failures.is_empty(), "{} of 43:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn an_index_that_is_not_there_is_only_potential() {
    let policy = policy(
        r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}],
            "compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]]}"#,
    );
    let text = "SELECT * FROM c WHERE c.a = 1 AND c.b > 2 AND c.d < 3";
    let metrics = index_metrics(text, &[], &policy).expect("metrics");
    assert_eq!(singles(&metrics.utilized), ["/a/?"]);
    assert_eq!(composites(&metrics.utilized), [["/a ASC", "/b DESC"]], "as the policy has it");
    assert_eq!(singles(&metrics.potential), ["/d/?", "/b/?"]);
    assert_eq!(composites(&metrics.potential), [["/a ASC", "/d ASC"]]);
}

#[test]
fn a_composite_index_is_named_where_it_serves() {
    let policy = policy(
        r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[],"compositeIndexes":[
            [{"path":"/n"},{"path":"/m"}],
            [{"path":"/m"},{"path":"/n","order":"descending"}],
            [{"path":"/a"},{"path":"/b"},{"path":"/\"c d\"/e","order":"descending"}]]}"#,
    );
    let nm = &["/n ASC", "/m ASC"][..];
    let mn = &["/m ASC", "/n DESC"][..];
    let abc = &["/a ASC", "/b ASC", "/\"c d\"/e DESC"][..];
    for (text, expected) in [
        // Of two that serve alike, the later one is taken.
        ("WHERE c.n = 2 AND c.m = 2", vec![mn]),
        ("WHERE c.m = 2 AND c.n > 2", vec![mn]),
        ("WHERE c.n = 2 AND c.m > 2", vec![nm]),
        ("WHERE c.n = 2 AND c.m IN (1, 2)", vec![nm]),
        ("WHERE c.n IN (1, 2) AND c.m IN (1, 2)", vec![]),
        ("WHERE c.n > 2 AND c.m > 2", vec![]),
        ("WHERE c.n = 2 OR c.m = 2", vec![]),
        ("WHERE c.n = 2", vec![]),
        ("WHERE c.a = 1 AND c.b = 2", vec![abc]),
        ("WHERE c.b = 1 AND c.a = 2 AND c['c d'].e < 7", vec![abc]),
        ("WHERE c.a = 1 AND c['c d'].e = 2", vec![]),
        ("ORDER BY c.n, c.m", vec![nm]),
        ("ORDER BY c.n DESC, c.m DESC", vec![nm]),
        ("ORDER BY c.m, c.n DESC", vec![mn]),
        ("ORDER BY c.m DESC, c.n", vec![mn]),
        ("ORDER BY c.n, c.m DESC", vec![]),
        ("ORDER BY c.a, c.b", vec![]),
        ("WHERE c.n = 2 ORDER BY c.n, c.m", vec![nm]),
        ("WHERE c.a = 1 AND c.b = 2 ORDER BY c.n, c.m", vec![nm, abc]),
        ("WHERE c.n = 2 ORDER BY c.m", vec![]),
    ] {
        let metrics = index_metrics(&format!("SELECT * FROM c {text}"), &[], &policy);
        assert_eq!(composites(&metrics.expect("metrics").utilized), expected, "{text}");
    }
    let permuted = "SELECT * FROM c WHERE c.b = 1 AND c.a = 2 AND c['c d'].e < 7";
    let metrics = index_metrics(permuted, &[], &policy).expect("metrics");
    assert_eq!(composites(&metrics.potential), Vec::<Vec<&str>>::new(), "it is there");
}

#[test]
fn indexes_that_only_decide_a_filter_are_named_too() {
    let all = r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/x/?"}]}"#;
    for (text, expected) in [
        ("SELECT * FROM c WHERE c.n + 0 = 2", &["/n/?"][..]),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n * 2 + c.m = 7", &["/n/?", "/m/?"]),
        ("SELECT * FROM c WHERE c.m > 1 AND c.n + 0 = 2", &["/m/?", "/n/?"]),
        ("SELECT * FROM c WHERE c.n + c.x = 2", &[]),
        ("SELECT * FROM c WHERE c.n + c.m + c.o + c.p = 2", &[]),
        ("SELECT c.n + 1 FROM c", &[]),
    ] {
        let metrics = index_metrics(text, &[], &policy(all)).expect("metrics");
        assert_eq!(singles(&metrics.utilized), expected, "{text}");
    }
}
