//! No text takes the parser or the checks down, and none makes them work without end.

use super::check::check;
use super::parser::{parse_condition, parse_query};
use super::print;
use crate::{Query, ScopeSettings, evaluate};
use proptest::prelude::*;

/// Parses and checks on a stack that is somewhat smaller than the default. Overflowing it would
/// abort the whole test run.
fn survives(text: String) -> Result<(), String> {
    let small_stack = std::thread::Builder::new().stack_size(1536 << 10);
    let work = move || judge(&text);
    small_stack.spawn(work).expect("a thread starts").join().expect("no panic")
}

fn judge(text: &str) -> Result<(), String> {
    let checked = parse_query(text, &[]).and_then(|query| check(&query, text, &[]));
    checked.map_err(|error| error.into_error(text).message)
}

/// Goes all the way, on the same stack: plans, prints and runs what is accepted.
fn runs(text: String) {
    let small_stack = std::thread::Builder::new().stack_size(1536 << 10);
    let work = move || {
        let printed = parse_query(&text, &[]).map(|query| print::query(&query));
        let ran = Query::parse(&text, &[], &[])
            .and_then(|query| evaluate(&query, &["{}"], &ScopeSettings::default()));
        (printed.is_ok(), ran.is_ok())
    };
    small_stack.spawn(work).expect("a thread starts").join().expect("no panic");
}

/// What can be inside itself: what opens a level, and what closes it.
const LEVELS: [(&str, &str); 22] = [
    ("1+(", ")"),
    ("(-", ")"),
    ("- ", ""),
    ("NOT ", ""),
    ("[", "]"),
    ("{a:", "}"),
    ("ABS(", ")"),
    ("udf.f(", ")"),
    ("[1][", "]"),
    ("1?1:", ""),
    ("1?", ":1"),
    ("1 IN (", ")"),
    ("1 BETWEEN 1 AND (", ")"),
    ("'a' LIKE (", ")"),
    ("ARRAY(SELECT VALUE ", ")"),
    ("(SELECT VALUE ", ")"),
    ("EXISTS(SELECT VALUE 1 WHERE ", ")"),
    ("(SELECT VALUE 1 GROUP BY ", ")"),
    ("(SELECT VALUE x FROM (SELECT VALUE ", ") x)"),
    ("(SELECT VALUE 1 FROM ABS(", "))"),
    ("(LET x = 1 IN ", ")"),
    ("(1 ?? 1 OR 1 AND 1 = 1 || 1 + 1 * ", " IN (1) ? 1 : 1)"),
];

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("SELECT VALUE {}1{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn every_depth_is_survived_and_great_depth_refused() {
    for (open, close) in LEVELS {
        for depth in 1..=70 {
            let _ = survives(nested(open, close, depth));
            runs(nested(open, close, depth));
        }
        for depth in [5_000, 10_000] {
            let complaint = survives(nested(open, close, depth)).expect_err(open);
            assert!(complaint.contains("levels deep"), "{depth} times {open}: {complaint}");
        }
        assert!(parse_query(&nested(open, close, 6), &[]).is_ok(), "6 times {open}");
    }
}

#[test]
fn sources_are_nested_no_deeper() {
    let nested = |depth: usize| {
        format!("{}SELECT * FROM c{}", "SELECT * FROM (".repeat(depth), ")".repeat(depth))
    };
    assert_eq!(survives(nested(30)), Ok(()));
    for depth in [60, 61, 62, 63, 64, 65, 5_000] {
        let _ = survives(nested(depth));
    }
    assert!(survives(nested(5_000)).expect_err("refused").contains("levels deep"));
}

/// The brackets that a provider writes around every operation of a long filter.
#[test]
fn brackets_at_the_left_end_are_no_depth() {
    let left = |link: &str, count: usize| {
        format!("SELECT * FROM c WHERE {}c.a = 0{}", "(".repeat(count), link.repeat(count))
    };
    for link in [" OR c.a = 1)", " OR (c.a = 1))", ")", " OR NOT c.b)", " OR ((c.a = 2) AND c.b))"]
    {
        assert_eq!(survives(left(link, 5_000)), Ok(()), "{link}");
    }
    let flat = parse_query("SELECT VALUE a OR b OR c", &[]).map(|query| query.select.selection);
    let bracketed =
        parse_query("SELECT VALUE ((a) OR b) OR c", &[]).map(|query| query.select.selection);
    let (flat, bracketed) = (format!("{flat:?}"), format!("{bracketed:?}"));
    assert_eq!(flat.matches("Chain").count(), 1);
    assert_eq!(bracketed.matches("Chain").count(), 1);
    // Here the operators are on different levels, so the tree really is deep.
    for link in [" = 1 AND 1)", " IN (1))", "[0])", " ?? 1)", " ? 1 : 1)", " LIKE 'a')"] {
        for count in [30, 60, 61, 62, 63, 70] {
            let _ = survives(left(link, count));
            runs(left(link, count));
        }
        assert!(survives(left(link, 5_000)).expect_err(link).contains("levels deep"), "{link}");
    }
}

/// One such tree inside the other, at every level of nesting.
#[test]
fn depth_to_the_left_and_to_the_right_adds_up() {
    let level = format!("[{}", "(".repeat(25));
    let end = format!("{}]", "[0])".repeat(25));
    for depth in [1, 2, 3, 10, 60] {
        let text = nested(&level, &end, depth);
        assert_eq!(survives(text).is_ok(), depth < 3, "{depth}");
    }
}

#[test]
fn long_texts_take_time_that_grows_with_them() {
    let items = |count: usize| format!("SELECT * FROM c WHERE c.a IN (0{})", ",1".repeat(count));
    assert_eq!(survives(items(15_999)), Ok(()));
    for text in [
        items(200_000),
        format!("SELECT {}1 FROM c", "x, ".repeat(150_000)),
        format!("SELECT VALUE c{} FROM c GROUP BY c.b", ".a".repeat(200_000)),
        format!("SELECT VALUE 1 FROM c{}", " JOIN x IN y".repeat(40_000)),
        format!("SELECT c.b FROM c GROUP BY {}c.a", "c.a, ".repeat(90_000)),
        format!("SELECT VALUE [{}1]", "udf.f(), ".repeat(50_000)),
        format!("SELECT VALUE '{}", "\\n".repeat(200_000)),
        format!("SELECT 1 {}", "/* ".repeat(150_000)),
        format!("SELECT {}", "all".repeat(150_000)),
        format!("SELECT VALUE {}", "ALL (".repeat(100_000)),
        format!("SELECT VALUE 1 ORDER BY {}c", "rank, ".repeat(80_000)),
        "(".repeat(500_000),
        "SELECT ".repeat(70_000),
    ] {
        let start: String = text.chars().take(60).collect();
        assert!(survives(text).is_err(), "{start}");
    }
}

/// Words, signs and literals; together they make sentences now and then.
const TOKENS: [&str; 84] = [
    "SELECT",
    "SELECT",
    "DISTINCT",
    "TOP",
    "VALUE",
    "*",
    "FROM",
    "FROM",
    "c",
    "c",
    "JOIN",
    "IN",
    "AS",
    "WHERE",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "RANK",
    "ASC",
    "DESC",
    "OFFSET",
    "LIMIT",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "ESCAPE",
    "EXISTS",
    "ARRAY",
    "ALL",
    "FIRST",
    "LAST",
    "LET",
    "udf",
    "LEFT",
    "COUNT",
    "SUM",
    "ABS",
    "RRF",
    "FullTextScore",
    "VectorDistance",
    "(",
    "(",
    ")",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ",",
    ".",
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
    "é",
    "\\",
    "/*",
    "--",
    "\u{1F600}",
    "GROUP BY c.a",
];

fn soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(&TOKENS[..]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.join(" "))
}

proptest! {
    #[test]
    fn token_soup_never_panics(text in soup()) {
        let _ = judge(&text);
        let _ = judge(&format!("SELECT {text}"));
        let _ = judge(&format!("SELECT * FROM c WHERE {text}"));
        let _ = parse_condition(&format!("FROM c WHERE {text}"));
    }
}

/// Every query of a public collection, cut off and with a piece left out.
#[test]
fn damaged_queries_never_panic() {
    let path = format!("{}/tests/data/gateway-accepted-queries.json", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read_to_string(path).expect("the file is there");
    for query in file.split(r#""query": ""#).skip(1).filter_map(|rest| rest.split('"').next()) {
        for (at, _) in query.char_indices() {
            let (start, end) = query.split_at(at);
            let _ = judge(start);
            let _ = judge(end);
            let _ = judge(&format!("{start}{}", end.get(3..).unwrap_or_default()));
        }
    }
}
