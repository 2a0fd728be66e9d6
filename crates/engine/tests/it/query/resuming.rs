//! Clients that merge partitions themselves say where an ordered query begins.

use partita_engine::{PageRequest, QueryRequest, TieOrder};
use partita_model::ErrorKind;

use super::*;

fn resumed(text: &str, filter: &str) -> QueryRequest {
    QueryRequest { resume: Some(json(filter)), ..global(text) }
}

#[test]
fn a_query_begins_at_the_values_or_behind_them() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let up = "SELECT VALUE c.n FROM c ORDER BY c.n";
        let down = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
        let first = |text, filter| all(&bench, &resumed(text, filter))[0].clone();
        assert_eq!(first(up, r#"{"value":[30]}"#), "30");
        assert_eq!(first(up, r#"{"value":[30],"exclude":true}"#), "31");
        assert_eq!(first(up, r#"{"value":[30.5],"exclude":false}"#), "31");
        assert_eq!(first(down, r#"{"value":[30]}"#), "30");
        assert_eq!(first(down, r#"{"value":[30],"exclude":true}"#), "29");
        assert_eq!(first(up, r#"{"value":[[]],"exclude":true}"#), "0", "undefined comes first");
        assert!(all(&bench, &resumed(up, r#"{"value":["x"]}"#)).is_empty());
    }
}

#[test]
fn a_resource_id_tells_which_of_the_equal_rows_are_done() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for (text, order) in [
            ("SELECT VALUE {i: c._rid, m: c.m} FROM c ORDER BY c.m", TieOrder::RidAscending),
            ("SELECT VALUE {i: c._rid, m: c.m} FROM c ORDER BY c.m DESC", TieOrder::RidDescending),
        ] {
            let whole = all(&bench, &global(text));
            assert_eq!(page(&bench, global(text)).report.tie_order, Some(order));
            for at in [0, 7, 20, 59] {
                let row = json(&whole[at]);
                let rid = text_of(&row, "i");
                let value = row.get("m").unwrap().to_json();
                let at_row = format!(r#"{{"value":[{value}],"rid":"{rid}","exclude":false}}"#);
                assert_eq!(all(&bench, &resumed(text, &at_row)), whole[at..]);
                let behind = format!(r#"{{"value":[{value}],"rid":"{rid}","exclude":true}}"#);
                assert_eq!(all(&bench, &resumed(text, &behind)), whole[at + 1..]);
            }
        }
    }
}

fn text_of(value: &partita_model::Value, name: &str) -> String {
    text(value, name)
}

#[test]
fn of_a_token_and_a_resume_filter_the_later_place_counts() {
    let bench = filled(30_000);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let query = resumed(text, r#"{"value":[10]}"#);
    let first = PageRequest { items_max: Some(5), continuation: None };
    let got = page(&bench, QueryRequest { page: first, ..query.clone() });
    assert_eq!(got.rows, ["10", "11", "12", "13", "14"]);
    let next = PageRequest { items_max: Some(2), continuation: got.continuation };
    let got = page(&bench, QueryRequest { page: next.clone(), ..query });
    assert_eq!(got.rows, ["15", "16"]);
    let later = resumed(text, r#"{"value":[40]}"#);
    assert_eq!(page(&bench, QueryRequest { page: next, ..later }).rows, ["40", "41"]);
}

#[test]
fn several_columns_are_resumed_together() {
    let bench = filled(30_000);
    let text = "SELECT c.m, c.n FROM c ORDER BY c.m DESC, c.n";
    let whole = all(&bench, &global(text));
    let at = whole.iter().position(|row| row == r#"{"m":2,"n":22}"#).unwrap();
    let found = all(&bench, &resumed(text, r#"{"value":[2,22],"exclude":true}"#));
    assert_eq!(found, whole[at + 1..]);
}

#[test]
fn arrays_are_resumed_by_their_hash() {
    let bench = filled(30_000);
    let text = "SELECT VALUE c.a FROM c WHERE IS_ARRAY(c.a) ORDER BY c.a";
    let whole = all(&bench, &global(text));
    let none = r#"{"value":[{"type":"array","low":0,"high":0}]}"#;
    assert_eq!(all(&bench, &resumed(text, none)), whole, "every hash is larger");
    let end = r#"{"value":[{"type":"object","low":0,"high":0}]}"#;
    assert!(all(&bench, &resumed(text, end)).is_empty(), "objects come after arrays");
}

#[test]
fn a_resume_filter_that_makes_no_sense_is_refused() {
    let bench = filled(400);
    let ordered = "SELECT * FROM c ORDER BY c.n";
    for filter in [
        "1",
        "{}",
        r#"{"value":1}"#,
        r#"{"value":[]}"#,
        r#"{"value":[1,2]}"#,
        r#"{"value":[[1]]}"#,
        r#"{"value":[{"type":"date"}]}"#,
        r#"{"value":[{"type":"array","low":"x","high":1}]}"#,
        r#"{"value":[1],"rid":1}"#,
        r#"{"value":[1],"rid":"nobody"}"#,
        r#"{"value":[1],"exclude":"yes"}"#,
    ] {
        let reply = run(&bench, resumed(ordered, filter));
        assert_eq!(error(&reply), ErrorKind::BadRequest, "{filter}");
    }
    let unordered = run(&bench, resumed("SELECT * FROM c", r#"{"value":[1]}"#));
    assert_eq!(error(&unordered), ErrorKind::BadRequest);
}
