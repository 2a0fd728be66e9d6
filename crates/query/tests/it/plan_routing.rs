//! Which partition keys a plan asks, against another planner's idea of it.

use crate::data;
use crate::plan::{Question, key_of, parameters_of};
use partita_model::{PartitionKeyDefinition, Value};
use partita_query::{DistinctType, PlanKind, QueryInfo, QueryPlan};

/// Queries that the other planner takes, for it only plans, and that the service refuses.
const REFUSED: &[(&str, &str)] = &[
    ("pk_is_null", "near 'IS'"),
    ("is_null_in_where", "near 'IS'"),
    ("is_not_null_in_where", "near 'IS'"),
    ("hpk_is_null_on_component_no_extract", "near 'IS'"),
    ("join_simple", "single input set"),
    ("multiple_joins_plan", "single input set"),
    ("join_with_nested_path", "single input set"),
    ("regression_join_with_array_contains", "single input set"),
    ("aggregate_array_agg", "'ARRAY_AGG' is not a recognized"),
    ("complex_everything_with_hpk", "TOP and OFFSET LIMIT"),
    ("offset_limit_with_top_precedence", "TOP and OFFSET LIMIT"),
    ("hpk_wrong_root_on_second_component", "Identifier 'd' could not be resolved"),
];

/// Objects and arrays have the undefined key: so say the service's plans, and so are items stored.
const UNDEFINED_KEY: &[&str] =
    &["pk_eq_array_literal_no_extract", "pk_eq_object_literal_no_extract"];

fn definition(case: &Value) -> PartitionKeyDefinition {
    let paths: Vec<&str> =
        data::array(case, "partitionKeyPaths").iter().filter_map(Value::as_str).collect();
    match paths.len() {
        0 | 1 => key_of(&paths, "Hash"),
        _ => key_of(&paths, "MultiHash"),
    }
}

/// The parameters that a case leaves open get their own names for values.
fn with_parameters(case: &Value, question: &mut Question<'_>) {
    question.parameters = parameters_of(case);
    for name in ["@val", "@t", "@u", "@uid", "@s"] {
        if question.text.contains(name) {
            question.parameters.push((name.to_owned(), Value::from(name)));
        }
    }
}

/// The keys that a plan asks; `None` is everything.
fn asked(plan: &QueryPlan) -> Option<Vec<Value>> {
    let is_all = |range: &partita_query::PlanRange| range.max == Value::from("Infinity");
    match plan.ranges.as_slice() {
        [range] if is_all(range) => None,
        [range] if range.min == Value::from(Vec::new()) => Some(Vec::new()),
        ranges => Some(ranges.iter().map(|range| range.min.clone()).collect()),
    }
}

/// The case file has lost values that are false, empty or too large; the others are in order.
fn without_lost(key: &Value) -> Value {
    let lost = |part: &Value| match part {
        Value::Object(_) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == 0.0 || number.as_f64() > 9e15,
        _ => false,
    };
    let parts = key.as_array().expect("a key").iter();
    Value::from(parts.filter(|part| !lost(part)).cloned().collect::<Vec<_>>())
}

fn with_names_for_parameters(values: &Value) -> Value {
    let value = |part: &Value| part.get("$parameter").unwrap_or(part).clone();
    Value::from(values.as_array().expect("values").iter().map(value).collect::<Vec<_>>())
}

fn sorted(mut keys: Vec<Value>) -> Vec<Value> {
    keys.sort_by_key(Value::to_json);
    keys
}

fn routing_complaint(case: &Value, plan: &QueryPlan) -> Option<String> {
    let asked = asked(plan);
    let has_from = data::text(case, "query").to_ascii_uppercase().contains(" FROM ");
    let values = || case.get("values").expect("values");
    let expected = match data::text(case, "partitionKeyFilter") {
        _ if UNDEFINED_KEY.contains(&data::text(case, "name")) => {
            Some(vec![Value::from(Vec::new())])
        }
        "Unconstrained" | "NotEvaluated" if has_from => None,
        "Unconstrained" | "Contradictory" => Some(Vec::new()),
        "Equality" => Some(vec![with_names_for_parameters(values())]),
        "InList" => Some(values().as_array().expect("keys").to_vec()),
        other => panic!("a filter {other}"),
    };
    let told = asked.clone().map(|keys| sorted(keys.iter().map(without_lost).collect()));
    (told != expected.clone().map(sorted)).then(|| format!("asks {asked:?}, not {expected:?}"))
}

fn structure_complaint(case: &Value, info: &QueryInfo) -> Option<String> {
    let empty = Value::from(partita_model::Object::new());
    let structure = case.get("structure").unwrap_or(&empty);
    let texts = |name: &str| -> Vec<String> {
        let texts = structure.get(name).and_then(Value::as_array).unwrap_or_default();
        texts.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let number = |name: &str| structure.get(name).and_then(Value::as_i64).map(|n| n as u64);
    let columns: Vec<String> = info.order_by.iter().map(|one| one.expression.clone()).collect();
    let orders: Vec<String> = info
        .order_by
        .iter()
        .map(|one| if one.descending { "Descending" } else { "Ascending" }.to_owned())
        .collect();
    let named = info.aliases.iter().filter_map(|(_, aggregate)| *aggregate);
    let aggregates: Vec<String> = named
        .chain(info.aggregates.iter().copied())
        .map(|name| name.replace("Average", "Avg"))
        .collect();
    let distinct = structure.get("distinctType").and_then(Value::as_str).unwrap_or("None");
    // Measured at the service: only a bare value that is the one ORDER BY column comes in order.
    let is_ordered = distinct == "Ordered" && info.has_select_value;
    let expected_distinct = match distinct {
        "None" => DistinctType::None,
        _ if is_ordered => DistinctType::Ordered,
        _ => DistinctType::Unordered,
    };
    // Groups come in no order, so there is nothing to merge by.
    let order = |texts: Vec<String>| if info.group_by.is_empty() { texts } else { Vec::new() };
    let checks = [
        ("distinctType", info.distinct == expected_distinct),
        ("hasSelectValue", info.has_select_value == structure.get("hasSelectValue").is_some()),
        ("top", info.top == number("top")),
        ("offset", info.offset.is_none() || info.offset == number("offset")),
        ("limit", info.limit.is_none() || info.limit == number("limit")),
        ("orderBy", orders == order(texts("orderBy"))),
        ("orderByExpressions", columns == order(texts("orderByExpressions"))),
        ("groupByExpressions", info.group_by == texts("groupByExpressions")),
        ("aggregates", aggregates == texts("aggregates")),
    ];
    let wrong: Vec<&str> =
        checks.iter().filter(|(_, right)| !right).map(|(name, _)| *name).collect();
    (!wrong.is_empty()).then(|| format!("{wrong:?}: {info:?}"))
}

fn complaint(case: &Value) -> Option<String> {
    let mut question = Question::new(data::text(case, "query"), definition(case));
    with_parameters(case, &mut question);
    let refused = REFUSED.iter().find(|(name, _)| *name == data::text(case, "name"));
    let plan = match (question.answer(), refused) {
        (Ok(plan), None) => plan,
        (Ok(_), Some(_)) => return Some("is not refused".to_owned()),
        (Err(message), Some((_, why))) if message.contains(why) => return None,
        (Err(message), _) => return Some(message),
    };
    let PlanKind::Query(info) = &plan.kind else { return Some("a hybrid plan".to_owned()) };
    routing_complaint(case, &plan).or_else(|| structure_complaint(case, info))
}

#[test]
fn plans_ask_the_partition_keys_that_the_condition_names() {
    let file = data::load("pk-filter-cases.json");
    let cases = data::array(&file, "cases");
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let (name, query) = (data::text(case, "name"), data::text(case, "query"));
            Some(format!("{name}: {query}\n    {}", complaint(case)?))
        })
        .collect();
    assert_eq!(cases.len(), 257);
    assert!(failures.is_empty(), "{} of 257:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_planner_takes_what_the_gateway_takes() {
    let file = data::load("gateway-accepted-queries.json");
    let cases = data::array(&file, "cases");
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let query = data::text(case, "query");
            let question = Question {
                parameters: parameters_of(case),
                ..Question::new(query, definition(case))
            };
            match (data::text(case, "expect"), question.answer()) {
                ("accept", Err(message)) => Some(format!("{query}\n    {message}")),
                ("reject400", Ok(_)) => Some(format!("{query}\n    is taken")),
                _ => None,
            }
        })
        .collect();
    assert_eq!(cases.len(), 276);
    assert!(failures.is_empty(), "{} of 276:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn another_emulator_sees_the_same_queries_pinned() {
    let file = data::load("cases-vercel.json");
    let cases = data::array(&file, "partitionKeyCases");
    for case in cases {
        let query = data::text(case, "query");
        let parameters = vec![("@pkValue".to_owned(), Value::from("x"))];
        let question = Question { parameters, ..Question::new(query, definition(case)) };
        let plan = question.answer().expect("a plan");
        // A container without a key has one partition, so everything is in one place.
        let is_pinned = asked(&plan).is_some() || question.key.paths.is_empty();
        let expected = case.get("queryPinsPartitionKey").and_then(Value::as_bool);
        assert_eq!(Some(is_pinned), expected, "{query}");
    }
    assert_eq!(cases.len(), 11);
}
