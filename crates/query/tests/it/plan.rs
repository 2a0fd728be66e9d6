//! Plans against those that the service gave for the same queries.

use crate::data;
use partita_model::{
    ErrorKind, Geospatial, HashVersion, KeyKind, KeyWriting, PartitionKeyDefinition, PropertyPath,
    Value, VectorDistance, VectorElement, VectorEmbedding, VectorEmbeddingPolicy,
};
use partita_query::{PlanKind, PlanRequest, Query, QueryPlan, plan};

/// Everything a plan depends on, with nothing special about it.
pub(crate) struct Question<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: Vec<(String, Value)>,
    pub(crate) key: PartitionKeyDefinition,
    pub(crate) features: Option<&'a str>,
    pub(crate) vectors: Option<VectorEmbeddingPolicy>,
    pub(crate) geospatial: Geospatial,
}

impl<'a> Question<'a> {
    pub(crate) fn new(text: &'a str, key: PartitionKeyDefinition) -> Question<'a> {
        Question {
            text,
            parameters: Vec::new(),
            key,
            features: None,
            vectors: None,
            geospatial: Geospatial::Geography,
        }
    }

    pub(crate) fn answer(&self) -> Result<QueryPlan, String> {
        let request = PlanRequest {
            text: self.text,
            parameters: &self.parameters,
            partition_key: &self.key,
            features: self.features,
            has_logical_partition_key: false,
            vector: self.vectors.as_ref(),
            geospatial: self.geospatial,
        };
        plan(&request).map_err(|error| error.message)
    }
}

/// A definition as the planner's tests have it: any number of paths, of any kind.
pub(crate) fn key_of(paths: &[&str], kind: &str) -> PartitionKeyDefinition {
    let paths = paths.iter().map(|path| PropertyPath::parse(path).expect("a path")).collect();
    let (kind, version) = match kind {
        "Hash" => (KeyKind::Hash, HashVersion::V1),
        "MultiHash" => (KeyKind::MultiHash, HashVersion::V2),
        "Range" => (KeyKind::Range, HashVersion::V1),
        other => panic!("a key of kind {other}"),
    };
    PartitionKeyDefinition {
        paths,
        kind,
        version,
        system_key: false,
        written: KeyWriting::default(),
    }
}

pub(crate) fn parameters_of(case: &Value) -> Vec<(String, Value)> {
    let parameter = |parameter: &Value| {
        (data::text(parameter, "name").to_owned(), parameter.get("value").expect("a value").clone())
    };
    let parameters = case.get("parameters").and_then(Value::as_array).unwrap_or_default();
    parameters.iter().map(parameter).collect()
}

fn question(case: &Value) -> Question<'_> {
    let paths: Vec<&str> =
        data::array(case, "partitionKeyPaths").iter().filter_map(Value::as_str).collect();
    let geospatial = match case.get("geospatialType").and_then(Value::as_str) {
        Some("Geometry") => Geospatial::Geometry,
        _ => Geospatial::Geography,
    };
    Question {
        parameters: parameters_of(case),
        vectors: vectors(case),
        geospatial,
        ..Question::new(
            data::text(case, "query"),
            key_of(&paths, data::text(case, "partitionKeyKind")),
        )
    }
}

/// The vector policy of a case, or the one that its description means.
fn vectors(case: &Value) -> Option<VectorEmbeddingPolicy> {
    let (path, function) = match case.get("vectorEmbeddingPolicy") {
        Some(policy) => {
            let embedding = data::array(policy, "vectorEmbeddings").first()?;
            (data::text(embedding, "path"), data::text(embedding, "distanceFunction"))
        }
        None => ("/embedding", case.get("description")?.as_str()?.split(' ').next()?),
    };
    let distance = match function {
        "euclidean" | "Euclidean" => VectorDistance::Euclidean,
        "cosine" | "Cosine" => VectorDistance::Cosine,
        "dotproduct" | "Dot" => VectorDistance::DotProduct,
        _ => return None,
    };
    Some(VectorEmbeddingPolicy {
        embeddings: vec![VectorEmbedding {
            path: PropertyPath::parse(path).expect("a path"),
            element: VectorElement::Float32,
            dimensions: 8,
            distance,
        }],
    })
}

/// What is expected must be there; what is not mentioned must be nothing.
fn differences(place: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (name, value) in expected.iter() {
                let actual = actual.get(name).unwrap_or(&Value::Null);
                differences(&format!("{place}.{name}"), value, actual, found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                differences(&format!("{place}[{index}]"), expected, actual, found);
            }
        }
        // The native planner writes truth as a number.
        (Value::Number(number), Value::Bool(value))
            if number.as_f64() == f64::from(u8::from(*value)) => {}
        _ if expected == actual => {}
        _ => found.push(format!("{place}: {} instead of {}", actual.to_json(), expected.to_json())),
    }
}

/// The plan in the shape of the baselines: ranges are partition keys, in the order of their text.
fn comparable(plan: &QueryPlan) -> Value {
    let mut ranges: Vec<Value> = plan.ranges.iter().map(|range| range.to_key_value()).collect();
    ranges.sort_by_key(Value::to_json);
    let Value::Object(mut object) = plan.to_value() else { panic!("a plan is an object") };
    object.insert("queryRanges", ranges);
    let info = object.get("queryInfo").cloned();
    if let Some(rewritten) = info.as_ref().and_then(|info| info.get("rewrittenQuery")) {
        let rewritten = rewritten.as_str().filter(|text| !text.is_empty());
        object.insert("rewrittenQuery", rewritten.map_or(Value::Null, Value::from));
    }
    Value::Object(object)
}

fn normalized(expected: &Value) -> Value {
    let Value::Object(mut object) = expected.clone() else { panic!("a plan is an object") };
    if let Some(Value::Array(mut ranges)) = object.remove("queryRanges") {
        ranges.sort_by_key(Value::to_json);
        object.insert("queryRanges", ranges);
    }
    if object.get("rewrittenQuery").is_some_and(|text| text.as_str() == Some("")) {
        object.insert("rewrittenQuery", Value::Null);
    }
    Value::Object(object)
}

fn complaint(case: &Value) -> Option<String> {
    let answer = question(case).answer();
    if let Some(error) = case.get("expectedError") {
        return match answer {
            Ok(plan) => Some(format!("a plan instead of an error: {}", plan.to_value().to_json())),
            Err(message) => {
                let told = Value::parse(message.as_bytes()).ok();
                (told.as_ref() != Some(error))
                    .then(|| format!("{message} instead of {}", error.to_json()))
            }
        };
    }
    let plan = match answer {
        Ok(plan) => plan,
        Err(message) => return Some(message),
    };
    let expected = case.get("expected").or(case.get("expectedPlanJson")).expect("a plan");
    let mut found = Vec::new();
    differences("", &normalized(expected), &comparable(&plan), &mut found);
    (!found.is_empty()).then(|| found.join("; "))
}

#[test]
fn plans_are_those_of_the_service() {
    let file = data::load("query-plan-baselines.json");
    let cases = data::array(&file, "cases");
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}\n    {}", data::text(case, "query"), complaint(case)?)))
        .collect();
    assert_eq!(cases.len(), 400);
    assert!(failures.is_empty(), "{} of 400:\n{}", failures.len(), failures.join("\n"));
}

/// Where older plans differ from those of today, and why.
const OUTDATED: &[(&str, &str)] = &[
    ("ST_DISTANCE(r.a.b.c", "a spatial condition no longer says what the key is"),
    ("SELECT TOP 20 VALUE r.a FROM", "IS_DEFINED keeps undefined values out"),
    ("SELECT VALUE MAX(r)", "the number of values goes with the greatest"),
    ("SELECT VALUE MIN(r)", "the number of values goes with the smallest"),
    ("SELECT TOP 10 VALUE AVG(", "TOP is left to the client"),
    ("SELECT udf.func1(r.a), udf.func2(r.b)", "ten calls are allowed, not two"),
    ("STARTSWITH(r.key, 'a', 'b')", "there may be a third argument"),
    ("ORDER BY LOWER(root.field)", "the complaint has a number"),
    ("SELECT COUNT(r) From r", "aggregates need no VALUE"),
    ("SELECT VALUE {'sum': SUM(r), 'count'", "other words"),
    ("SELECT VALUE {'aggregates': [SUM(r)", "other words"),
    ("SELECT VALUE FLOOR(AVG(r))", "other words"),
];

/// Older plans name the line breaks of their host, and have fewer members.
fn legacy_complaint(case: &Value) -> Option<String> {
    let key = case.get("partitionKey").expect("a key");
    let paths: Vec<&str> = data::array(key, "paths").iter().filter_map(Value::as_str).collect();
    let question = Question {
        parameters: parameters_of(case),
        ..Question::new(data::text(case, "query"), key_of(&paths, data::text(key, "kind")))
    };
    let variants = case.get("expectedVariants").and_then(Value::as_array);
    let plan = match (question.answer(), variants) {
        (Ok(plan), Some(_)) => plan,
        (Err(message), None) if data::text(case, "expectedError").ends_with(&message) => {
            return None;
        }
        (Err(message), _) => return Some(message),
        (Ok(_), None) => return Some("a plan instead of an error".to_owned()),
    };
    // The third is for clients that put their own condition into the text, as all do.
    let expected = variants.and_then(|variants| variants.get(2)).expect("a variant");
    let expected = Value::parse(expected.to_json().replace("\\r\\n", "\\n").as_bytes());
    let mut found = Vec::new();
    differences("", &normalized(&expected.expect("JSON")), &comparable(&plan), &mut found);
    (!found.is_empty()).then(|| found.join("; "))
}

#[test]
fn older_plans_differ_only_where_the_service_has_changed() {
    let file = data::load("query-plan-legacy.json");
    let cases = data::array(&file, "cases");
    let mut failures = Vec::new();
    let mut outdated = 0;
    for case in cases {
        let query = data::text(case, "query");
        let known = OUTDATED.iter().find(|(part, _)| query.contains(part));
        match (legacy_complaint(case), known) {
            (Some(_), Some(_)) => outdated += 1,
            (Some(complaint), None) => failures.push(format!("{query}\n    {complaint}")),
            (None, Some((_, why))) => failures.push(format!("{query}\n    does not differ: {why}")),
            (None, None) => {}
        }
    }
    assert!(failures.is_empty(), "{} of 69:\n{}", failures.len(), failures.join("\n"));
    assert_eq!((cases.len(), outdated), (69, 13));
}

const PYTHON: &str = "Aggregate, CompositeAggregate, Distinct, MultipleOrderBy, OffsetAndLimit, \
    OrderBy, Top, NonStreamingOrderBy, HybridSearch, CountIf, WeightedRankFusion";

#[track_caller]
fn assert_missing(text: &str, features: &str, expected: &str) {
    let question =
        Question { features: Some(features), ..Question::new(text, key_of(&["/pk"], "Hash")) };
    let told = question.answer().map(|_| String::new()).unwrap_or_else(|message| message);
    let first = "Query contains the following features, which the calling client does not support:";
    let expected =
        if expected.is_empty() { String::new() } else { format!("{first}\nNone {expected}") };
    assert_eq!(told, expected, "{text}");
}

#[test]
fn a_plan_beyond_the_client_is_refused_by_the_names_of_what_is_missing() {
    for (text, missing) in [
        ("SELECT * FROM c WHERE c.x = 1", ""),
        ("SELECT VALUE COUNT(1) FROM c", ""),
        ("SELECT COUNT(1) FROM c", "NonValueAggregate"),
        ("SELECT COUNT(1), SUM(c.x) FROM c", "MultipleAggregates NonValueAggregate"),
        ("SELECT c.x, COUNT(1) AS n FROM c GROUP BY c.x", "GroupBy NonValueAggregate"),
        ("SELECT c.x FROM c GROUP BY c.x", "GroupBy"),
        ("SELECT VALUE MAKELIST(c.x) FROM c", "ListAndSetAggregate"),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c)", "DCount"),
        ("SELECT TOP 5 * FROM c ORDER BY RANK FullTextScore(c.t, 'a')", ""),
    ] {
        assert_missing(text, PYTHON, missing);
    }
    // Clients that merge several aggregates merge lists and sets, whether they say so or not.
    for text in ["SELECT VALUE MAKELIST(c.x) FROM c", "SELECT VALUE MAKESET(c.x) FROM c"] {
        assert_missing(text, "Aggregate, GroupBy, MultipleAggregates", "");
        assert_missing(text, "Aggregate, ListAndSetAggregate", "");
        assert_missing(text, "Aggregate, GroupBy", "ListAndSetAggregate");
    }
    for (text, missing) in [
        ("SELECT TOP 1 * FROM c", "Top"),
        ("SELECT DISTINCT c.x FROM c", "Distinct"),
        ("SELECT * FROM c OFFSET 1 LIMIT 1", "OffsetAndLimit"),
        ("SELECT * FROM c WHERE c.pk = 1 OFFSET 1 LIMIT 1", ""),
        ("SELECT * FROM c ORDER BY c.a, c.b", "MultipleOrderBy OrderBy"),
        ("SELECT VALUE COUNTIF(c.x) FROM c", "Aggregate CountIf"),
        (
            "SELECT TOP 1 * FROM c ORDER BY VectorDistance(c.v, [1])",
            "OrderBy Top NonStreamingOrderBy",
        ),
        (
            "SELECT TOP 1 * FROM c ORDER BY RANK RRF(VectorDistance(c.v, [1]), \
             FullTextScore(c.t, 'a'), [1, 2])",
            "HybridSearch WeightedRankFusion",
        ),
    ] {
        assert_missing(text, "None", missing);
    }
}

#[test]
fn a_client_may_ask_for_hybrid_queries_without_the_order_by_rewrite() {
    let text =
        "SELECT TOP 10 c.name FROM c WHERE c.x = 1 ORDER BY RANK VectorDistance(c.v, [1, 2])";
    let features = Some("HybridSearch,HybridSearchSkipOrderByRewrite");
    let question = Question { features, ..Question::new(text, key_of(&["/pk"], "Hash")) };
    let PlanKind::Hybrid(info) = question.answer().expect("a plan").kind else {
        panic!("not hybrid")
    };
    let component = info.components.first().expect("a component");
    assert_eq!(
        component.rewritten,
        "SELECT TOP 120 c._rid, {\"name\": c.name} AS payload, \
         [(_VectorScore(c.v, [1, 2]) ?? -1.79769e+308)] AS componentScores\nFROM c\n\
         WHERE (c.x = 1)\nORDER BY _VectorScore(c.v, [1, 2])"
    );
    assert!(component.order_by.is_empty() && !component.has_non_streaming_order_by);
}

#[test]
fn partitions_can_read_the_queries_they_are_sent() {
    let file = data::load("query-plan-baselines.json");
    let mut read = 0;
    for case in data::array(&file, "cases") {
        let question = question(case);
        let Ok(QueryPlan { kind: PlanKind::Query(info), .. }) = question.answer() else { continue };
        if info.rewritten.is_empty() {
            continue;
        }
        let text = info.rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true");
        match Query::parse(&text, &question.parameters, &[]) {
            Ok(_) => read += 1,
            Err(error) if error.kind == ErrorKind::Unsupported => {}
            Err(error) => panic!("{text}: {error}"),
        }
    }
    assert!(read > 100, "only {read}");
}

#[test]
fn rows_beyond_what_a_limit_can_say_are_asked_for_without_one() {
    let rewritten = |text: &str| {
        let plan = Question::new(text, key_of(&["/pk"], "Hash")).answer().unwrap();
        let PlanKind::Query(info) = plan.kind else { panic!("{text} has another plan") };
        assert_eq!((info.offset, info.limit), (Some(4_294_967_295), Some(10)));
        let filter = "{documentdb-formattableorderbyquery-filter}";
        let asked = info.rewritten.replace(filter, "true");
        Query::parse(&asked, &[], &[]).unwrap();
        info.rewritten
    };
    let plain = rewritten("SELECT c.name FROM c OFFSET 4294967295 LIMIT 10");
    assert_eq!(plain, "SELECT c.name\nFROM c");
    let ordered = rewritten("SELECT c.name FROM c ORDER BY c.name OFFSET 4294967295 LIMIT 10");
    assert!(ordered.ends_with("ORDER BY c.name"), "{ordered}");
}
