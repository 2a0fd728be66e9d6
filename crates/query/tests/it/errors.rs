//! What is refused, and in which words.

use partita_model::{Error, ErrorKind, Value};
use partita_query::Filter;

fn query_error(text: &str) -> Error {
    match Filter::parse_query(text, &[]) {
        Ok(_) => panic!("{text} was accepted"),
        Err(error) => error,
    }
}

#[track_caller]
fn assert_coded(error: &Error, code: &str, start: usize, end: usize, message: &str) {
    assert_eq!(error.kind, ErrorKind::BadRequest);
    let body = Value::parse(error.message.as_bytes()).expect("the message is JSON");
    let expected = format!(
        r#"{{"errors":[{{"severity":"Error","location":{{"start":{start},"end":{end}}},"code":"{code}","message":{}}}]}}"#,
        Value::from(message)
    );
    assert_eq!(error.message, expected);
    assert!(body.get("errors").is_some());
}

#[test]
fn a_syntax_error_points_at_the_offending_token() {
    for (text, start, end, token) in [
        ("SELEC * FROM c", 0, 5, "SELEC"),
        ("SELECT * FROM c WHERE c.a = = 1", 28, 29, "="),
        ("SELECT * FROM c WHERE c.value = 1", 24, 29, "value"),
        ("SELECT * FROM c WHERE c.a IS NULL", 26, 28, "IS"),
        ("SELECT * FROM c WHERE c.12a = 1", 23, 26, ".12"),
        ("SELECT * FROM order", 14, 19, "order"),
        ("SELECT * FROM c WHERE c.a IN (SELECT 1)", 30, 36, "SELECT"),
        ("SELECT * FROM c WHERE 1 1", 24, 25, "1"),
        ("SELECT * FROM c WHERE c.a LIKE 'x' ESCAPE 'ab'", 42, 46, "'ab'"),
        ("SELECT * FROM c WHERE \"\u{1F600}\" !  1", 27, 28, "!"),
    ] {
        let (code, message) = match token {
            "!" => ("SC1010", format!("Syntax error, invalid token '{token}'.")),
            _ => ("SC1001", format!("Syntax error, incorrect syntax near '{token}'.")),
        };
        assert_coded(&query_error(text), code, start, end, &message);
    }
}

#[test]
fn an_end_too_early_and_bad_literals_have_their_own_codes() {
    let end = "Syntax error, unexpected end-of-file.";
    assert_coded(&query_error("SELECT"), "SC1002", 6, 6, end);
    assert_coded(&query_error(""), "SC1002", 0, 0, end);
    assert_coded(&query_error("SELECT * FROM c WHERE (1"), "SC1002", 24, 24, end);
    let error = query_error("SELECT * FROM c WHERE c.a = 'x");
    assert_coded(&error, "SC1012", 28, 30, "Syntax error, invalid string literal token ''x'.");
    assert_coded(
        &query_error("SELECT * FROM c;"),
        "SC1010",
        15,
        16,
        "Syntax error, invalid token ';'.",
    );
}

#[test]
fn names_arguments_and_indexers_are_checked() {
    let error = query_error("SELECT * FROM root r WHERE root.a = 1");
    assert_coded(&error, "SC2001", 27, 31, "Identifier 'root' could not be resolved.");
    let error = query_error("SELECT VALUE d FROM c");
    assert_coded(&error, "SC2001", 13, 14, "Identifier 'd' could not be resolved.");
    let error = query_error("SELECT * FROM c WHERE startswith(c.a)");
    let message = "The STARTSWITH function requires 2 to 3 argument(s).";
    assert_coded(&error, "SC2050", 22, 37, message);
    let error = query_error("SELECT * FROM c WHERE c.list[c.n] = 1");
    let message = "The specified query includes 'member indexer' which is currently not supported.";
    assert_coded(&error, "SC2990", 22, 33, message);
}

#[test]
fn complaints_without_a_code_are_plain_texts() {
    let error = query_error("SELECT *");
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.contains("'SELECT *' is not valid if FROM clause is omitted."));
    let twice = [("@a".to_owned(), Value::Null), ("@a".to_owned(), Value::Null)];
    let error = Filter::parse_query("SELECT * FROM c", &twice).unwrap_err();
    let expected = r#"{"Errors":["Invalid query. Specified duplicate parameter name '@a'."]}"#;
    assert_eq!(error.message, expected);
}

#[test]
fn the_rest_of_the_language_is_unsupported_by_name() {
    for (text, feature) in [
        ("SELECT c.id FROM c", "SELECT list"),
        ("SELECT VALUE c.id FROM c", "SELECT VALUE"),
        ("SELECT VALUE 1", "without FROM"),
        ("SELECT DISTINCT * FROM c", "DISTINCT"),
        ("SELECT TOP 1 * FROM c", "TOP"),
        ("SELECT VALUE c FROM c JOIN t IN c.tags", "JOIN"),
        ("SELECT * FROM t IN c.tags", "array iteration"),
        ("SELECT * FROM c.tags", "path in FROM"),
        ("SELECT * FROM (SELECT * FROM c)", "subquery in FROM"),
        ("SELECT VALUE c.a FROM c GROUP BY c.a", "GROUP BY"),
        ("SELECT * FROM c WHERE true ORDER BY c.a", "ORDER BY"),
        ("SELECT * FROM c OFFSET 1 LIMIT 2", "OFFSET"),
        ("SELECT * FROM c WHERE udf.mine(c.a)", "user-defined function mine"),
        ("SELECT * FROM c WHERE ST_DISTANCE(c.a, c.b) < 1", "function ST_DISTANCE"),
    ] {
        let error = query_error(text);
        assert_eq!(error.kind, ErrorKind::Unsupported, "{text}: {error}");
        assert!(error.message.contains(feature), "{text}: {error}");
    }
}

#[test]
fn a_condition_starts_with_from() {
    for text in ["SELECT * FROM c WHERE true", "WHERE c.a = 1", "c.a = 1", ""] {
        let error = Filter::parse_condition(text).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{text}");
    }
    assert!(Filter::parse_condition("from c where c.a = 1").is_ok());
}
