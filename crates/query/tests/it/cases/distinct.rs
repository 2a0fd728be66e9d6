//! The identity of a row is the hash of the .NET client.

use std::ops::ControlFlow;

use partita_model::{Document, Value};
use partita_query::{Query, ScopeSettings};

use super::{data, list, text};

fn hash_of(value: &Value) -> u128 {
    let query = Query::parse("SELECT DISTINCT VALUE c.v FROM c", &[], &[]).expect("a query");
    let item = format!("{{\"v\":{value}}}");
    let mut hash = 0;
    let mut run = query.start(&ScopeSettings::default());
    run.rows(Document::new(&item), &mut |row| {
        hash = row.hash;
        ControlFlow::Break(())
    })
    .expect("a row");
    hash
}

#[test]
fn rows_are_identified_as_the_client_identifies_them() {
    let file = data("distinct-hash-baselines");
    let mut compared = 0;
    for case in list(&file, "cases") {
        // The others are types that JSON does not have, such as D1337.42.
        let Ok(value) = Value::parse(text(case, "value").as_bytes()) else { continue };
        let found = hash_of(&value);
        assert_eq!(format!("{found:032X}"), text(case, "hash128"), "{value}");
        compared += 1;
    }
    assert_eq!(compared, 40);
}

#[test]
fn equal_values_are_one_and_unequal_ones_are_not() {
    let hash = |text: &str| hash_of(&Value::parse(text.as_bytes()).unwrap());
    for (a, b) in [
        ("1", "1.0"),
        ("0", "-0.0"),
        ("9007199254740992", "9007199254740992.0"),
        (r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1}"#),
    ] {
        assert_eq!(hash(a), hash(b), "{a} and {b}");
    }
    for (a, b) in [
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854775806"),
        ("-9223372036854775807", "9223372036854775807"),
        (r#"{"a":{"x":1},"b":{"x":1}}"#, r#"{"a":{"x":2},"b":{"x":2}}"#),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
        (r#""1""#, "1"),
    ] {
        assert_ne!(hash(a), hash(b), "{a} and {b}");
    }
}
