//! What the fuzz targets do with their input. Compiled for fuzzing only: the syntax tree is not
//! public, and its laws cannot be seen from outside.

use crate::sql::check::check;
use crate::sql::error::SqlError;
use crate::sql::parser::{parse_condition, parse_query};
use crate::sql::print;
use crate::{PlanKind, PlanRequest, Query, ScopeSettings, plan};
use partita_model::{Geospatial, PartitionKeyDefinition, Value};

/// Parses and checks a text. What is printed of it must be a query again, one that prints the same
/// and is judged the same, unless the brackets of the print make it too deep.
pub fn parse(text: &str) {
    let _ = parse_condition(text);
    let Ok(query) = parse_query(text, &[]) else { return };
    let judged = check(&query, text, &[]).map_err(|error| error.into_error(text));
    let printed = print::query(&query);
    let again = match parse_query(&printed, &[]) {
        Ok(again) => again,
        Err(SqlError::Plain(deep)) if deep.contains("levels deep") => return,
        Err(error) => panic!("{printed}\nis no query: {}", error.into_error(&printed)),
    };
    assert_eq!(print::query(&again), printed);
    let judged_again = check(&again, &printed, &[]).map_err(|error| error.into_error(&printed));
    assert_eq!(judged_again.is_ok(), judged.is_ok(), "{printed}");
}

/// Runs a query over two small items, the first of which may follow it after a zero byte. Every
/// result is JSON. A plan can be made or is refused, and what it tells clients to send can be run.
pub fn evaluate(input: &str) {
    const ITEM: &str = r#"{"id":"1","a":1,"b":"x","t":[1,"y",null,{"a":2.5}],"o":{"a":true}}"#;
    let (text, item) = input.split_once('\0').unwrap_or((input, "{}"));
    let item = if Value::parse(item.as_bytes()).is_ok() { item } else { "{}" };
    let parameters = [("@p".to_owned(), Value::from(1i64)), ("@q".to_owned(), Value::from("x"))];
    let Ok(query) = Query::parse(text, &parameters, &[]) else { return };
    if let Ok(rows) = crate::evaluate(&query, &[item, ITEM], &ScopeSettings::default()) {
        for row in rows {
            assert!(Value::parse(row.as_bytes()).is_ok(), "{row}");
        }
    }
    planned(text, &parameters);
}

fn planned(text: &str, parameters: &[(String, Value)]) {
    let key = Value::parse(br#"{"paths":["/a"],"kind":"Hash","version":2}"#);
    let Ok(key) = key.and_then(|key| PartitionKeyDefinition::parse(&key)) else { return };
    let request = PlanRequest {
        text,
        parameters,
        partition_key: &key,
        features: None,
        has_logical_partition_key: false,
        vector: None,
        geospatial: Geospatial::Geography,
    };
    let Ok(plan) = plan(&request) else { return };
    let _ = plan.to_value();
    let PlanKind::Query(info) = plan.kind else { return };
    if !info.rewritten.is_empty() {
        let filter = "{documentdb-formattableorderbyquery-filter}";
        let rewritten = info.rewritten.replace(filter, "true");
        match Query::parse(&rewritten, parameters, &[]) {
            Err(error) if !error.message.contains("levels deep") => {
                panic!("{text}\n{rewritten}\n{error}");
            }
            Ok(_) | Err(_) => {}
        }
    }
}
