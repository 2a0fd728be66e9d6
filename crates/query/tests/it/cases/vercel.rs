//! The suite of another emulator, written from observation of the service.

use std::sync::Arc;

use partita_model::{Number, Result, Value};
use partita_query::{Functions, Query, ScopeSettings};

use super::{Tally, agree, check_all, data, documents, list, rows_of, same_list, text};

const INDEX: &str = "is decided by the container's indexing policy, not by the language";
const UNDEFINED: &str = "the emulator leaves items without the sort key out, the service does not";

const EXCEPTIONS: &[(&str, &str)] = &[
    ("builtin-functions.ts ATN2", "exchanges the arguments; a validated sample says otherwise"),
    ("errors.ts multipleOrderByWithoutCompositeIndexes", INDEX),
    ("errors.ts multipleOrderByWithoutCorrespondingCompositeIndexes1", INDEX),
    ("errors.ts multipleOrderByWithoutCorrespondingCompositeIndexes2", INDEX),
    ("misc.ts arrayContains", "partial matches are not documented to reach into nested values"),
    ("misc.ts orderByWithEmptyNestedProperty", UNDEFINED),
    ("misc.ts filterUndefinedOrderBy", UNDEFINED),
    ("misc.ts orderTypes", "arrays and objects sort by the clients' hash, not by what is in them"),
];

/// The functions that the suite wrote in JavaScript.
struct Suite;

impl Functions for Suite {
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>> {
        let first = arguments.first().and_then(Option::as_ref);
        Ok(match (name, first) {
            ("REGEX_MATCH", Some(input)) => {
                Some(Value::Bool(input.as_str().is_some_and(|text| text.contains("eattle"))))
            }
            ("SEALEVEL", Some(city)) => Some(Value::from(match city.as_str() {
                Some("seattle") => 520,
                Some("NY") => 410,
                Some("Chicago") => 673,
                _ => -1,
            })),
            ("GetMaxNutritionValue", Some(Value::Array(nutrients))) => {
                let values = nutrients.iter().filter_map(|n| n.get("nutritionValue")?.as_f64());
                values.reduce(f64::max).map(|max| Value::Number(Number::Double(max)))
            }
            _ => None,
        })
    }
}

fn parameters(case: &Value) -> Vec<(String, Value)> {
    let named = |parameter: &Value| {
        let value = parameter.get("value").cloned().unwrap_or(Value::Null);
        (text(parameter, "name").to_owned(), value)
    };
    list(case, "parameters").iter().map(named).collect()
}

#[test]
fn another_emulators_suite_agrees() {
    let file = data("cases-vercel");
    let cases = list(&file, "cases").iter();
    let named = cases.map(|case| (format!("{} {}", text(case, "file"), text(case, "name")), case));
    let settings = ScopeSettings { functions: Some(Arc::new(Suite)), ..ScopeSettings::default() };
    let passed = check_all(named, EXCEPTIONS, |case| {
        let items = documents(list(case, "documents"));
        let query = Query::parse(text(case, "query"), &parameters(case), &[]);
        let found = query.and_then(|query| rows_of(&query, &items, &settings));
        match case.get("expectedError") {
            Some(_) if found.is_err() => Ok(()),
            Some(error) => Err(format!("was accepted, expected {error}")),
            None => agree(found, list(case, "expected"), same_list),
        }
    });
    assert_eq!(passed, Tally { agree: 216, refused: 6 });
}
