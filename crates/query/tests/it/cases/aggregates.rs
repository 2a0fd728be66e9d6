//! Aggregates and groups, answered by the service itself.

use partita_model::{ComputedProperty, Value};

use super::{
    Tally, agree, check_all, data, documents, list, rows, rows_with, same_bag, same_list, text,
};

/// No row, or one whose value is undefined.
fn expected_value(case: &Value) -> Vec<Value> {
    match case.get("expectedValue") {
        Some(value) if value.get("$undefined").is_none() => vec![value.clone()],
        _ => Vec::new(),
    }
}

#[test]
fn aggregates_over_mixed_types_are_the_services() {
    let file = data("cases-aggregate-mixed-types");
    let items = documents(list(&file, "documents"));
    let cases = list(&file, "cases").iter().map(|case| (text(case, "query").to_owned(), case));
    let passed = check_all(cases, &[], |case| {
        let found = rows(text(case, "query"), &items);
        match case.get("expected") {
            // MAKELIST and MAKESET: one row, an array in whatever order.
            Some(Value::Array(elements)) => agree(found, elements, |found, expected| match found {
                [Value::Array(found)] => same_bag(found, expected),
                _ => false,
            }),
            Some(value) => agree(found, std::slice::from_ref(value), same_list),
            None => agree(found, &[], same_list),
        }
    });
    assert_eq!(passed, Tally { agree: 123, refused: 0 });
}

#[test]
fn groups_are_the_services() {
    let file = data("cases-groupby-dotnet");
    let items = documents(list(&file, "documents"));
    let cases = list(&file, "cases").iter().map(|case| (text(case, "query").to_owned(), case));
    let passed = check_all(cases, &[], |case| {
        agree(rows(text(case, "query"), &items), list(case, "expected"), same_bag)
    });
    assert_eq!(passed.agree, 30);
}

#[test]
fn the_client_engines_queries_have_the_services_results() {
    let file = data("cases-client-engine");
    let items = documents(list(&data("client-engine-sqlSampleData"), "data"));
    let cases = list(&file, "cases").iter().map(|case| (text(case, "name").to_owned(), case));
    let passed = check_all(cases, &[], |case| {
        let mut expected = list(case, "expected").to_vec();
        // The items here have no system properties.
        for row in &mut expected {
            if let Value::Object(object) = row {
                object.remove("_attachments");
            }
        }
        agree(rows(text(case, "query"), &items), &expected, same_list)
    });
    assert_eq!(passed, Tally { agree: 16, refused: 11 });
}

#[test]
fn the_python_clients_aggregates_come_out() {
    let file = data("cases-python-sdk");
    let aggregate = file.get("aggregate").unwrap();
    let items = documents(list(aggregate, "documents"));
    let cases = list(aggregate, "cases").iter().map(|case| (text(case, "query").to_owned(), case));
    let passed = check_all(cases, &[], |case| {
        agree(rows(text(case, "query"), &items), &expected_value(case), same_list)
    });
    assert_eq!(passed.agree, 19);
}

#[test]
fn computed_properties_are_used_like_stored_ones() {
    let file = data("cases-python-sdk");
    let cases = list(&file, "computedPropertyCases");
    for case in cases {
        let computed: Vec<ComputedProperty> = list(case, "computedProperties")
            .iter()
            .map(|property| ComputedProperty {
                name: text(property, "name").to_owned(),
                query: text(property, "query").to_owned(),
            })
            .collect();
        let items = documents(list(case, "documents"));
        let found = rows_with(text(case, "query"), &[], &computed, &items).unwrap();
        let expected = case.get("expectedCount").and_then(Value::as_i64);
        assert_eq!(i64::try_from(found.len()).ok(), expected, "{}", text(case, "query"));
        assert!(found.iter().all(|row| row.get("cp_lower").is_none()), "they are not in SELECT *");
    }
    assert_eq!(cases.len(), 7);
}
