//! Queries made at random from the grammar: they run, and every way to run them agrees.

use std::ops::ControlFlow;

use partita_model::{Document, ErrorKind, MemoryShare, Value};
use partita_query::{Filter, Groups, Query, Row, ScopeSettings, evaluate};
use proptest::prelude::*;

const ITEMS: [&str; 6] = [
    r#"{"id":"1","a":[1,"x",null,{"d":2}],"b":{"d":1.5,"e":[true]},"n":3,"s":"text"}"#,
    r#"{"id":"2","a":[],"b":null,"n":-0.5,"s":"TEXT"}"#,
    r#"{"id":"3","a":"no array","n":9007199254740993,"s":"é\"\u00e9"}"#,
    r#"{"id":"4","b":{"d":[1,2]},"n":true,"s":{"d":"x"}}"#,
    r#"{"id":"5","a":[[1],[2,[3]]],"n":null}"#,
    r#"{"id":"6","a":[{"d":1},{"d":1},{"e":2}],"n":3.0,"s":"text"}"#,
];

/// Expressions over `c` and `it`, which both are in scope wherever these are used.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "c",
        "c.a",
        "c.b.d",
        "c.n",
        "c['s']",
        "c.a[0]",
        "c.a[3].d",
        "c.missing",
        "it",
        "it.d",
        "1",
        "2.5",
        "-3",
        "'x'",
        "'text'",
        "true",
        "false",
        "null",
        "undefined",
        "[1, it]",
        "@p",
        "{d: c.n, e: it}",
        "RAND() < 2",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "=", "!=", "<", ">=", "AND", "OR", "||", "&", ">>", "??",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("(NOT {a})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} IN (1, {b}, 'x'))")),
            inner.clone().prop_map(|a| format!("({a} NOT IN (1, null, 'text', [1]))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} BETWEEN 1 AND {b})")),
            inner.clone().prop_map(|a| format!("({a} LIKE '%e_t')")),
            inner.clone().prop_map(|a| format!("IS_DEFINED({a})")),
            inner.clone().prop_map(|a| format!("ARRAY_LENGTH({a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("ARRAY_CONTAINS({a}, {b})")),
            inner.clone().prop_map(|a| format!("ARRAY(SELECT VALUE {a} FROM it IN c.a)")),
            inner.clone().prop_map(|a| format!("EXISTS(SELECT VALUE 1 FROM it IN c.a WHERE {a})")),
            inner.clone().prop_map(|a| format!("(SELECT VALUE COUNT({a}) FROM it IN c.a)")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("(LET it = ({a}) IN ({b}))")),
        ]
    })
}

fn parameters() -> [(String, Value); 1] {
    [("@p".to_owned(), Value::from(3))]
}

/// None where the service would refuse the text as well, or a row asks for too much.
fn parse(text: &str) -> Option<Query> {
    match Query::parse(text, &parameters(), &[]) {
        Ok(query) => Some(query),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::BadRequest, "{text}: {error}");
            None
        }
    }
}

fn rows(query: &Query, item: &str) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    let mut run = query.start(&ScopeSettings::default());
    let emit = &mut |row| {
        rows.push(row);
        ControlFlow::Continue(())
    };
    run.rows(Document::new(item), emit).ok()?;
    Some(rows)
}

proptest! {
    #[test]
    fn texts_and_trees_pass_the_same_filters(condition in expressions()) {
        let text = format!("SELECT * FROM c WHERE (LET it = (c.n) IN ({condition}))");
        let Some(query) = parse(&text) else { return Ok(()) };
        let filter = Filter::parse_query(&text, &parameters()).unwrap();
        for item in ITEMS {
            let of_text = query.start(&ScopeSettings::default()).matches(Document::new(item));
            let of_tree = filter.matches(&Value::parse(item.as_bytes()).unwrap());
            prop_assert_eq!(of_text.unwrap(), of_tree.unwrap(), "{} of {}", text, item);
        }
    }

    #[test]
    fn rows_are_json_and_the_same_whatever_the_form(expr in expressions()) {
        let direct = format!("SELECT VALUE {{v: {expr}}} FROM c JOIN it IN c.a");
        // Through a subquery the row is a tree before it is a text.
        let built = format!(
            "SELECT VALUE y FROM c JOIN it IN c.a JOIN (SELECT VALUE {{v: {expr}}}) y"
        );
        let (Some(direct), Some(built)) = (parse(&direct), parse(&built)) else { return Ok(()) };
        for item in ITEMS {
            let (Some(a), Some(b)) = (rows(&direct, item), rows(&built, item)) else { continue };
            let values = |rows: &[Row]| -> Vec<Value> {
                rows.iter().map(|row| Value::parse(row.text.as_bytes()).unwrap()).collect()
            };
            prop_assert_eq!(values(&a), values(&b), "{} of {}", expr, item);
        }
    }

    #[test]
    fn groups_do_not_depend_on_how_items_are_divided(expr in expressions(), cut in 0..6_usize) {
        let expr = format!("(LET it = (c.n) IN ({expr}))");
        let text = format!(
            "SELECT c.n, COUNT({expr}) AS a, MIN({expr}) AS b, MAKESET({expr}) AS d FROM c \
             GROUP BY c.n"
        );
        let Some(query) = parse(&text) else { return Ok(()) };
        let Ok(whole) = evaluate(&query, &ITEMS, &ScopeSettings::default()) else { return Ok(()) };
        let mut merged = Groups::new(&query, &MemoryShare::default());
        for part in [&ITEMS[..cut], &ITEMS[cut..]] {
            let mut groups = Groups::new(&query, &MemoryShare::default());
            let mut run = query.start(&ScopeSettings::default());
            for item in part {
                run.gather(Document::new(item), &mut groups).unwrap();
            }
            merged.merge(groups, &run).unwrap();
        }
        let rows = merged.finish(&mut query.start(&ScopeSettings::default())).unwrap().0;
        let texts: Vec<String> = rows.into_iter().map(|row| row.text).collect();
        prop_assert_eq!(texts, whole, "{}", text);
    }
}

#[test]
fn queries_nested_as_deep_as_they_may_fit_a_small_stack() {
    for (open, close) in [
        ("(SELECT VALUE ", ")"),
        ("ARRAY(SELECT VALUE ", " FROM it IN c.a)"),
        ("EXISTS(SELECT VALUE 1 FROM it IN c.a JOIN y IN c.a WHERE ", ")"),
        ("(LET y = 1 IN ", ")"),
        ("[{a: ABS(", ")}]"),
    ] {
        let nested = |depth: usize| {
            format!("SELECT VALUE {}c.n{} FROM c", open.repeat(depth), close.repeat(depth))
        };
        let deepest = (1..80).take_while(|depth| Query::parse(&nested(*depth), &[], &[]).is_ok());
        let deepest = deepest.last().expect("one level is no problem");
        let text = nested(deepest);
        let settings = ScopeSettings { steps_max: Some(10_000), ..ScopeSettings::default() };
        let work = move || {
            let query = Query::parse(&text, &[], &[]).expect("parsed before");
            drop(evaluate(&query, &ITEMS, &settings));
        };
        let small_stack = std::thread::Builder::new().stack_size(1536 << 10);
        small_stack.spawn(work).expect("a thread starts").join().expect("no overflow");
    }
}
