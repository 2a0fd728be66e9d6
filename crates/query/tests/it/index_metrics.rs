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
    assert_eq!(composites(&metrics.utilized), [["/a ASC", "/b ASC"]]);
    assert_eq!(singles(&metrics.potential), ["/d/?", "/b/?"]);
    assert_eq!(composites(&metrics.potential), [["/a ASC", "/d ASC"]]);
}
