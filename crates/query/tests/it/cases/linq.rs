//! What the LINQ provider of the .NET client and the Cosmos provider of EF Core send.
//!
//! Few of these have documents beside them. Those that have must give the right number of rows (the
//! results were printed as .NET objects); those that the service refused must be refused with the
//! same code; all others must run.

use partita_model::Value;

use super::{check_all, data, documents, list, rows, rows_with, text};

/// An item that has something of most things the queries ask for.
const ITEM: &str = r#"{"id":"a","Int":3,"FamilyId":"f","Children":[{"Grade":7,"Pets":[]}],
    "Parents":[{"FamilyName":"x"}],"$type":"Customer","Values":[1,2,3],"Pk":"p"}"#;

fn code_of(message: &str) -> Option<&str> {
    let at = message.find("\"code\":")? + "\"code\":".len();
    let rest = message.get(at..)?.trim_start_matches('"');
    rest.split(['"', ',']).next()
}

#[test]
fn queries_with_documents_have_as_many_rows_as_the_services() {
    let file = data("linq-sql");
    let cases = list(&file, "cases").iter().filter(|case| case.get("InputData").is_some());
    let named = cases.map(|case| (text(case, "sql").to_owned(), case));
    let passed = check_all(named, &[], |case| {
        let items = documents(list(case, "InputData"));
        let found = rows(text(case, "sql"), &items).map_err(|error| error.to_string())?;
        let expected = list(case, "Results").len();
        if found.len() == expected {
            Ok(())
        } else {
            Err(format!("found {} rows, expected {expected}", found.len()))
        }
    });
    assert_eq!(passed.agree, 94);
}

#[test]
fn what_the_service_refuses_with_a_code_is_refused_with_it() {
    let file = data("linq-sql");
    let with_code = |case: &&Value| code_of(text(case, "errorMessage")).is_some();
    let cases = list(&file, "cases").iter().filter(with_code);
    let named = cases.map(|case| (text(case, "sql").to_owned(), case));
    let passed = check_all(named, &[], |case| {
        let expected = code_of(text(case, "errorMessage")).unwrap_or_default();
        match rows(text(case, "sql"), &[]) {
            Err(error) if error.message.contains(expected) => Ok(()),
            Err(error) => Err(format!("expected {expected}, found {error}")),
            Ok(_) => Err(format!("was accepted, expected {expected}")),
        }
    });
    assert_eq!(passed.agree, 145);
}

/// Clauses that only the translation to SQL was tested with.
const NOT_IN_SUBQUERIES: [&str; 3] = ["SC2202", "SC2203", "SC2204"];

#[test]
fn what_clients_send_runs() {
    let item = [Value::parse(ITEM.as_bytes()).unwrap().to_json()];
    let file = data("linq-sql");
    let cases = list(&file, "cases").iter().filter(|case| case.get("errorMessage").is_none());
    let named = cases.map(|case| (text(case, "sql").to_owned(), case));
    let run = |case: &Value| match rows(text(case, "sql"), &item) {
        Err(error) if error.message.contains("udf.") => Ok(()),
        Err(error) if NOT_IN_SUBQUERIES.iter().any(|code| error.message.contains(code)) => Ok(()),
        other => other.map(drop).map_err(|error| error.to_string()),
    };
    let passed = check_all(named, &[], run);
    assert_eq!(passed.agree + passed.refused, 969);
}

#[test]
fn what_ef_core_sends_runs() {
    let item = [Value::parse(ITEM.as_bytes()).unwrap().to_json()];
    let file = data("efcore-sql");
    let runs = |case: &&Value| text(case, "kind") == "query" && text(case, "outcome") != "rejected";
    let cases = list(&file, "cases").iter().filter(runs);
    let named = cases.map(|case| (text(case, "sql").to_owned(), case));
    let run = |case: &Value| {
        let parameters = match case.get("parameters") {
            Some(Value::Object(members)) => {
                members.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
            }
            _ => Vec::new(),
        };
        let found = rows_with(text(case, "sql"), &parameters, &[], &item);
        found.map(drop).map_err(|error| error.to_string())
    };
    let cut_off = [("SELECT VALUE s\nFROM (", "is cut off")];
    let passed = check_all(named, &cut_off, run);
    assert_eq!(passed.agree + passed.refused, 1088);
}
