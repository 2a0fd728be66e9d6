//! No text and no row takes the parser or the evaluator down.

use partita_model::{ErrorKind, Value};
use partita_query::Filter;
use proptest::prelude::*;

/// Parses and, if that works, evaluates on a stack somewhat smaller than the default.
fn survives(text: String) -> Result<bool, ErrorKind> {
    let small_stack = std::thread::Builder::new().stack_size(1536 << 10);
    let work = move || match Filter::parse_query(&text, &[]) {
        Ok(filter) => filter.clone().matches(&Value::Null).map_err(|error| error.kind),
        Err(error) => Err(error.kind),
    };
    small_stack.spawn(work).expect("a thread starts").join().expect("no panic, no overflow")
}

#[test]
fn chains_of_any_length_cost_no_stack() {
    for (link, count) in [("1+", 200_000), ("1=", 200_000), ("true AND ", 50_000), ("1??", 100_000)]
    {
        let text = format!("SELECT * FROM c WHERE {}1", link.repeat(count));
        assert!(survives(text).is_ok(), "{count} times {link}");
    }
    let text = format!("SELECT * FROM c WHERE c{}", ".a".repeat(200_000));
    assert_eq!(survives(text), Ok(false));
}

#[test]
fn nesting_is_limited() {
    for (open, close) in [
        ("1+(", ")"),
        ("[", "]"),
        ("- ", ""),
        ("NOT ", ""),
        ("{a:", "}"),
        ("ABS(", ")"),
        ("1?1:", ""),
    ] {
        let nested = |depth: usize| {
            format!("SELECT * FROM c WHERE {}1{}", open.repeat(depth), close.repeat(depth))
        };
        assert!(survives(nested(30)).is_ok(), "30 levels of {open}");
        assert_eq!(survives(nested(10_000)), Err(ErrorKind::BadRequest), "levels of {open}");
    }
}

#[test]
fn a_text_may_have_512_ki_units_and_no_more() {
    let padded = |length: usize| {
        let query = "SELECT * FROM c WHERE true";
        format!("{query}{}", " ".repeat(length - query.len()))
    };
    assert_eq!(survives(padded(524_288)), Ok(true));
    let error = Filter::parse_query(&padded(524_289), &[]).unwrap_err();
    assert!(error.message.contains("SC3020"), "{error}");
    // Units are counted, not bytes: this one has more bytes than the limit.
    let wide = format!("SELECT * FROM c WHERE '{}' != ''", "é".repeat(300_000));
    assert_eq!(survives(wide), Ok(true));
}

#[test]
fn a_condition_cannot_copy_a_row_without_end() {
    let row = Value::String("x".repeat(1 << 20));
    let many: String = (0..1000).map(|n| format!("a{n}: c,")).collect();
    for text in [
        format!("FROM c WHERE IS_DEFINED([{}1])", "c,".repeat(100_000)),
        format!("FROM c WHERE IS_DEFINED({{{many}a: 1}})"),
        format!("FROM c WHERE IS_DEFINED({}c)", "c||".repeat(100_000)),
    ] {
        let error = Filter::parse_condition(&text).unwrap().matches(&row).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{error}");
    }
    let modest = Filter::parse_condition("FROM c WHERE LENGTH(c || c || c) = 3145728").unwrap();
    assert!(modest.matches(&row).unwrap());
}

fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "SELECT",
        "*",
        "VALUE",
        "FROM",
        "c",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "ESCAPE",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        ":",
        "?",
        "??",
        "=",
        "!=",
        "<",
        ">>>",
        "+",
        "-",
        "~",
        "||",
        "%",
        "'a'",
        "\"b\"",
        "'",
        "1",
        "0.5",
        "1e9",
        "0x",
        "@p",
        "true",
        "null",
        "undefined",
        "IS_DEFINED",
        "ABS",
        "LENGTH",
        "ARRAY_CONTAINS",
        "udf",
        "é",
        "\\",
        "/*",
        "--",
        "\u{1F600}",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.join(" "))
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = Filter::parse_query(&text, &[]);
        let _ = Filter::parse_condition(&text);
        let _ = Filter::parse_condition(&format!("FROM c WHERE {text}"));
    }

    #[test]
    fn scrambled_sentences_never_panic(text in fragments()) {
        let row = Value::parse(br#"{"c":1,"a":[1,"x",null],"b":{"d":1.5}}"#).unwrap();
        for query in [text.clone(), format!("SELECT * FROM c WHERE {text}")] {
            match Filter::parse_query(&query, &[("@p".to_owned(), Value::Bool(true))]) {
                Ok(filter) => drop(filter.matches(&row)),
                Err(error) => prop_assert!(
                    matches!(error.kind, ErrorKind::BadRequest | ErrorKind::Unsupported)
                ),
            }
        }
    }
}
