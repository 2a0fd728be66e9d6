//! The answers to queries: rows, and in headers what the client wanted to know beside them.
//!
//! Rows are texts already and are put into the envelope as they are. The two forms of index metrics
//! say the same in two layouts and two encodings, since SDKs of different age read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use partita_engine::{Container, IndexUse, LeafReport, QueryReport, TieOrder};
use partita_gateway::{Lines, Response};
use partita_model::{Object, PropertyPath, Value};

use super::{envelope, put_page, with_body};
use crate::headers;
use crate::link::encode;
use crate::request::{IndexMetrics, QueryOptions};

/// How much an index helps. We tell only of those that save a scan.
const IMPACT: &str = "High";

/// A page of rows.
pub(super) fn rows(
    rows: &[String],
    continuation: Option<String>,
    report: &QueryReport,
    container: Option<&Container>,
    mut headers: Lines,
    options: QueryOptions,
) -> Response {
    if options.explain {
        return with_body(StatusCode::OK, headers, explain(report).to_json());
    }
    put_page(&mut headers, rows.len(), continuation);
    if let Some(order) = report.tie_order {
        headers.push(&headers::QUERY_EXECUTION_INFO, execution_info(order));
    }
    if options.metrics {
        headers.push(&headers::QUERY_METRICS, metrics(report));
    }
    if let Some(form) = options.index_metrics {
        let key = container.filter(|_| options.keyed).map(key_index).unwrap_or_default();
        headers.push(&headers::INDEX_UTILIZATION, index_metrics(report, &key, form));
    }
    with_body(StatusCode::OK, headers, envelope(rows, container))
}

/// How the page was made: the report for tools, and in `text` for people.
fn explain(report: &QueryReport) -> Value {
    let text = report.to_string();
    match report.to_value() {
        Value::Object(members) => members.with("text", text).into(),
        other => other,
    }
}

/// In which direction rows of equal rank come, for clients that resume between two of them.
fn execution_info(order: TieOrder) -> String {
    let reverse = order == TieOrder::RidDescending;
    format!("{{\"reverseRidEnabled\":true,\"reverseIndexScan\":{reverse}}}")
}

/// Times and counts as `name=value;…`. What we do not measure on its own is 0 here and part of the
/// whole; what took any time at all is not 0.
fn metrics(report: &QueryReport) -> String {
    let sum = |count: fn(&LeafReport) -> u64| report.leaves.iter().map(count).sum::<u64>();
    let loaded = sum(|leaf| leaf.documents_loaded);
    let running = sum(|leaf| leaf.nanos);
    let times = [
        ("totalExecutionTimeInMs", report.total_nanos),
        ("queryCompileTimeInMs", report.compile_nanos),
        ("queryLogicalPlanBuildTimeInMs", 0),
        ("queryPhysicalPlanBuildTimeInMs", report.route_nanos),
        ("queryOptimizationTimeInMs", 0),
        ("VMExecutionTimeInMs", running),
        ("indexLookupTimeInMs", sum(|leaf| leaf.lookup_nanos)),
        ("documentLoadTimeInMs", sum(|leaf| leaf.load_nanos)),
        ("systemFunctionExecuteTimeInMs", 0),
        ("userFunctionExecuteTimeInMs", 0),
        ("writeOutputTimeInMs", 0),
    ];
    let counts = [
        ("instructionCount", sum(|leaf| leaf.rows_evaluated)),
        ("retrievedDocumentCount", loaded),
        ("retrievedDocumentSize", sum(|leaf| leaf.document_bytes)),
        ("outputDocumentCount", report.rows),
        ("outputDocumentSize", report.bytes),
    ];
    let mut text = String::new();
    for (name, nanos) in times {
        let hundredths = nanos.div_ceil(10_000);
        text += &format!("{name}={}.{:02};", hundredths / 100, hundredths % 100);
    }
    for (name, count) in counts {
        text += &format!("{name}={count};");
    }
    let ratio = match loaded {
        0 => 1.0,
        loaded => (sum(|leaf| leaf.rows_out) as f64 / loaded as f64).min(1.0),
    };
    text + &format!("indexUtilizationRatio={ratio:.2}")
}

/// Items lie in the order of their keys, so a key in the request is looked up like in an index.
fn key_index(container: &Container) -> Vec<IndexUse> {
    let paths = container.definition.partition_key.paths.iter();
    let index = |path: &PropertyPath| IndexUse {
        paths: vec![format!("{}/?", path.text())],
        composite: false,
        precise: true,
    };
    paths.map(index).collect()
}

fn index_metrics(report: &QueryReport, key: &[IndexUse], form: IndexMetrics) -> String {
    let mut used: Vec<&IndexUse> = key.iter().collect();
    let by_partitions = report.leaves.iter().flat_map(|leaf| &leaf.indexes_used);
    // What partitions have used is known exactly: it comes first, and for each index counts once.
    for index in by_partitions.chain(&report.indexes_serving) {
        if !used.iter().any(|known| known.paths == index.paths) {
            used.push(index);
        }
    }
    let missing: Vec<&IndexUse> = report.indexes_missing.iter().collect();
    match form {
        IndexMetrics::V1 => {
            let body = Object::new()
                .with("UtilizedSingleIndexes", entries(&used, false, single_v1))
                .with("PotentialSingleIndexes", entries(&missing, false, single_v1))
                .with("UtilizedCompositeIndexes", entries(&used, true, composite_v1))
                .with("PotentialCompositeIndexes", entries(&missing, true, composite_v1));
            STANDARD.encode(Value::from(body).to_json())
        }
        IndexMetrics::V2 => {
            let body = Object::new()
                .with("UtilizedIndexes", both_v2(&used, false))
                .with("PotentialIndexes", both_v2(&missing, true));
            encode(&Value::from(body).to_json())
        }
    }
}

fn entries(indexes: &[&IndexUse], composite: bool, entry: fn(&IndexUse) -> Object) -> Vec<Value> {
    let kind = indexes.iter().filter(|index| index.composite == composite);
    kind.map(|index| Value::from(entry(index))).collect()
}

fn single_v1(index: &IndexUse) -> Object {
    Object::new()
        .with("FilterExpression", "")
        .with("IndexSpec", spec(index))
        .with("FilterPreciseSet", index.precise)
        .with("IndexPreciseSet", index.precise)
        .with("IndexImpactScore", IMPACT)
}

fn composite_v1(index: &IndexUse) -> Object {
    Object::new()
        .with("IndexSpecs", specs(index))
        .with("IndexPreciseSet", index.precise)
        .with("IndexImpactScore", IMPACT)
}

/// The newer form. It weighs only the indexes that are not there yet.
fn both_v2(indexes: &[&IndexUse], weighed: bool) -> Object {
    let single = if weighed { weighed_single_v2 } else { single_v2 };
    let composite = if weighed { weighed_composite_v2 } else { composite_v2 };
    Object::new()
        .with("SingleIndexes", entries(indexes, false, single))
        .with("CompositeIndexes", entries(indexes, true, composite))
}

fn single_v2(index: &IndexUse) -> Object {
    Object::new().with("IndexSpec", spec(index))
}

fn weighed_single_v2(index: &IndexUse) -> Object {
    single_v2(index).with("IndexImpactScore", IMPACT)
}

fn composite_v2(index: &IndexUse) -> Object {
    Object::new().with("IndexSpecs", specs(index))
}

fn weighed_composite_v2(index: &IndexUse) -> Object {
    composite_v2(index).with("IndexImpactScore", IMPACT)
}

fn spec(index: &IndexUse) -> &str {
    index.paths.first().map(String::as_str).unwrap_or_default()
}

fn specs(index: &IndexUse) -> Vec<Value> {
    index.paths.iter().map(|path| Value::from(path.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(path: &str) -> IndexUse {
        IndexUse { paths: vec![path.into()], composite: false, precise: true }
    }

    fn report() -> QueryReport {
        let composite = IndexUse {
            paths: vec!["/a ASC".into(), "/b DESC".into()],
            composite: true,
            precise: false,
        };
        let leaf = LeafReport {
            indexes_used: vec![single("/pk/?")],
            load_nanos: 1,
            documents_loaded: 4,
            document_bytes: 100,
            rows_out: 1,
            ..LeafReport::default()
        };
        QueryReport {
            leaves: vec![leaf.clone(), leaf],
            rows: 2,
            bytes: 50,
            total_nanos: 1_500_000,
            compile_nanos: 300,
            route_nanos: 10_001,
            indexes_serving: vec![single("/pk/?"), single("/n/?")],
            indexes_missing: vec![composite],
            ..QueryReport::default()
        }
    }

    #[test]
    fn metrics_add_up_the_partitions() {
        let text = metrics(&report());
        let value = |name: &str| {
            let pairs = text.split(';').map(|pair| pair.split_once('=').unwrap());
            pairs.filter(|pair| pair.0 == name).map(|pair| pair.1).collect::<Vec<_>>().join(",")
        };
        assert_eq!(value("totalExecutionTimeInMs"), "1.50");
        for (name, expected) in [
            ("queryCompileTimeInMs", "0.01"),
            ("queryPhysicalPlanBuildTimeInMs", "0.02"),
            ("documentLoadTimeInMs", "0.01"),
            ("indexLookupTimeInMs", "0.00"),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
        assert_eq!(value("retrievedDocumentCount"), "8");
        assert_eq!(value("retrievedDocumentSize"), "200");
        assert_eq!(value("outputDocumentCount"), "2");
        assert_eq!(value("indexUtilizationRatio"), "0.25");
        assert!(metrics(&QueryReport::default()).ends_with("indexUtilizationRatio=1.00"));
    }

    #[test]
    fn index_metrics_name_each_index_once_in_both_forms() {
        let bytes = STANDARD
            .decode(index_metrics(&report(), &[single("/pk/?")], IndexMetrics::V1))
            .unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            r#"{"UtilizedSingleIndexes":[{"FilterExpression":"","IndexSpec":"/pk/?","FilterPreciseSet":true,"IndexPreciseSet":true,"IndexImpactScore":"High"},{"FilterExpression":"","IndexSpec":"/n/?","FilterPreciseSet":true,"IndexPreciseSet":true,"IndexImpactScore":"High"}],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[{"IndexSpecs":["/a ASC","/b DESC"],"IndexPreciseSet":false,"IndexImpactScore":"High"}]}"#
        );
        let expected = r#"{"UtilizedIndexes":{"SingleIndexes":[{"IndexSpec":"/pk/?"},{"IndexSpec":"/n/?"}],"CompositeIndexes":[]},"PotentialIndexes":{"SingleIndexes":[],"CompositeIndexes":[{"IndexSpecs":["/a ASC","/b DESC"],"IndexImpactScore":"High"}]}}"#;
        assert_eq!(index_metrics(&report(), &[], IndexMetrics::V2), encode(expected));
    }
}
