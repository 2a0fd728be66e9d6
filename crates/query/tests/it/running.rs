//! How queries run: what each clause does to rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{
    ComputedProperty, Document, Error, ErrorKind, IndexStep, MemoryShare, Result, Value,
};
use partita_query::{Groups, Interrupt, Query, Reads, ScopeSettings, evaluate, sort_key};

fn parse(text: &str) -> Query {
    Query::parse(text, &[], &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn run(text: &str, items: &[&str]) -> Vec<String> {
    let rows = evaluate(&parse(text), items, &ScopeSettings::default());
    rows.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The rows as one JSON text.
fn rows(text: &str, items: &[&str]) -> String {
    format!("[{}]", run(text, items).join(","))
}

const FAMILY: &str = r#"{"id":"f","tags":["a","b"],"kids":[{"n":"x","pets":["p","q"]},{"n":"y"},
    {"n":"z","pets":["r"]}],"m":{"k":1,"l":2},"price":1.0,"big":9007199254740993,"s":"say \"hi\""}"#;

fn family() -> String {
    Value::parse(FAMILY.as_bytes()).unwrap_or(Value::Null).to_json()
}

#[test]
fn from_gives_a_row_per_combination_of_its_sources() {
    let family = family();
    for (text, expected) in [
        ("SELECT VALUE t FROM t IN c.tags", r#"["a","b"]"#),
        ("SELECT VALUE tags FROM c.tags", r#"[["a","b"]]"#),
        ("SELECT VALUE x FROM c.missing x", "[]"),
        ("SELECT VALUE x FROM x IN c.m", "[]"),
        ("SELECT VALUE x FROM x IN c.id", "[]"),
        ("SELECT VALUE k.n FROM c JOIN k IN c.kids JOIN p IN k.pets", r#"["x","x","z"]"#),
        (
            "SELECT VALUE t || p FROM c JOIN t IN c.tags JOIN k IN c.kids JOIN p IN k.pets",
            r#"["ap","aq","ar","bp","bq","br"]"#,
        ),
        ("SELECT VALUE kv.k FROM c JOIN kv IN OBJECTTOARRAY(c.m)", r#"["k","l"]"#),
        ("SELECT * FROM c.kids[1]", r#"[{"n":"y"}]"#),
        ("SELECT VALUE 1 FROM c JOIN (SELECT VALUE c.missing) m", "[]"),
        ("SELECT m FROM c JOIN (SELECT c.missing AS v) m", r#"[{"m":{}}]"#),
    ] {
        assert_eq!(rows(text, &[&family]), expected, "{text}");
    }
}

#[test]
fn subqueries_in_from_do_not_disturb_the_sources_around_them() {
    let family = family();
    for (text, expected) in [
        (
            "SELECT VALUE [k.n, s] FROM c JOIN k IN c.kids \
             JOIN (SELECT VALUE p || q FROM p IN k.pets JOIN q IN c.tags) s JOIN t IN c.tags \
             WHERE t = 'a'",
            r#"[["x","pa"],["x","pb"],["x","qa"],["x","qb"],["z","ra"],["z","rb"]]"#,
        ),
        ("SELECT VALUE x.id FROM (SELECT * FROM root c) x", r#"["f"]"#),
        ("SELECT VALUE e FROM c JOIN e IN (SELECT VALUE c.tags)", r#"["a","b"]"#),
        (
            "SELECT VALUE s FROM c JOIN (SELECT VALUE COUNT(1) FROM k IN c.kids \
             WHERE IS_DEFINED(k.pets)) s",
            "[2]",
        ),
        (
            "SELECT VALUE s FROM c JOIN (SELECT k.n, COUNT(1) AS c FROM k IN c.kids JOIN p IN \
             k.pets GROUP BY k.n) s",
            r#"[{"n":"x","c":2},{"n":"z","c":1}]"#,
        ),
        ("SELECT DISTINCT VALUE LENGTH(k.n) FROM k IN c.kids", "[1]"),
    ] {
        assert_eq!(rows(text, &[&family]), expected, "{text}");
    }
}

#[test]
fn subqueries_in_expressions_make_one_value_of_their_rows() {
    let family = family();
    for (expr, expected) in [
        ("(SELECT VALUE 1)", "[1]"),
        ("(SELECT VALUE t FROM c.tags t)[1]", r#"["b"]"#),
        ("(SELECT VALUE t FROM c.missing t)", "[]"),
        ("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'b')", "[true]"),
        ("EXISTS(SELECT VALUE undefined)", "[false]"),
        ("EXISTS(SELECT undefined)", "[true]"),
        ("ARRAY(SELECT VALUE UPPER(t) FROM t IN c.tags)", r#"[["A","B"]]"#),
        ("ARRAY(SELECT VALUE t FROM t IN c.missing)", "[[]]"),
        ("ARRAY(SELECT DISTINCT VALUE 1 FROM t IN c.tags)", "[[1]]"),
        ("ALL(SELECT VALUE t < 'c' FROM t IN c.tags)", "[true]"),
        ("ALL(SELECT VALUE t < 'b' FROM t IN c.tags)", "[false]"),
        ("ALL(SELECT VALUE false FROM t IN c.missing)", "[true]"),
        ("FIRST(SELECT VALUE t FROM t IN c.tags)", r#"["a"]"#),
        ("LAST(SELECT VALUE t FROM t IN c.tags)", r#"["b"]"#),
        ("LAST(SELECT VALUE t FROM t IN c.missing)", "[]"),
        ("(SELECT VALUE COUNT(1) FROM k IN c.kids)", "[3]"),
        ("(SELECT VALUE MAX(ARRAY_LENGTH(k.pets)) FROM k IN c.kids)", "[2]"),
        (
            "ARRAY(SELECT k.n, (SELECT VALUE COUNT(p) FROM p IN k.pets) AS c FROM k IN c.kids)[2].c",
            "[1]",
        ),
        ("(LET x = (1 + 2) IN x * x)", "[9]"),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE {expr} FROM c"), &[&family]), expected, "{expr}");
    }
    let several = "SELECT VALUE (SELECT VALUE t FROM t IN c.tags) FROM c";
    let error = Query::parse(several, &[], &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.contains("cardinality of a scalar subquery"), "{error}");
}

#[test]
fn members_are_named_by_alias_property_or_number() {
    let family = family();
    for (text, expected) in [
        (
            "SELECT c.id, c['tags'], c.kids[0], 1, c.id AS i FROM c",
            r#"[{"id":"f","tags":["a","b"],"$1":{"n":"x","pets":["p","q"]},"$2":1,"i":"f"}]"#,
        ),
        ("SELECT undefined", "[{}]"),
        ("SELECT VALUE undefined", "[]"),
        ("SELECT 1", r#"[{"$1":1}]"#),
        ("SELECT c.missing, c.id FROM c", r#"[{"id":"f"}]"#),
        ("SELECT VALUE [c.missing, c.id, [undefined], {a: undefined}] FROM c", r#"[["f",[],{}]]"#),
    ] {
        assert_eq!(rows(text, &[&family]), expected, "{text}");
    }
}

#[test]
fn numbers_are_written_as_the_language_writes_them() {
    let family = family();
    for (expr, expected) in [
        ("c.price", "[1]"),
        ("c.big", "[9007199254740993]"),
        ("[1/0, 0/0, 2]", "[[2]]"),
        ("{a: 1/0, b: -1/0, c: 1}", r#"[{"c":1}]"#),
        ("1/0", "[]"),
        ("-0.0", "[0]"),
        ("0.1 + 0.2", "[0.30000000000000004]"),
        ("4 / 2", "[2]"),
        ("1e300 * 10", "[1e301]"),
        ("c.s", r#"["say \"hi\""]"#),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE {expr} FROM c"), &[&family]), expected, "{expr}");
    }
}

#[test]
fn rows_are_ordered_by_type_then_value() {
    let items = [
        r#"{"id":"object","v":{}}"#,
        r#"{"id":"string","v":"a"}"#,
        r#"{"id":"two","v":2}"#,
        r#"{"id":"true","v":true}"#,
        r#"{"id":"undefined"}"#,
        r#"{"id":"array","v":[]}"#,
        r#"{"id":"null","v":null}"#,
        r#"{"id":"false","v":false}"#,
        r#"{"id":"half","v":0.5}"#,
        r#"{"id":"private","v":"\ue000"}"#,
        "{\"id\":\"astral\",\"v\":\"\u{1F600}\"}",
    ];
    let ascending = [
        "undefined",
        "null",
        "false",
        "true",
        "half",
        "two",
        "string",
        "astral",
        "private",
        "array",
        "object",
    ];
    let quoted = |names: &mut dyn Iterator<Item = &&str>| -> Vec<String> {
        names.map(|name| format!("\"{name}\"")).collect()
    };
    let found = run("SELECT VALUE c.id FROM c ORDER BY c.v", &items);
    assert_eq!(found, quoted(&mut ascending.iter()));
    let found = run("SELECT VALUE c.id FROM c ORDER BY c.v DESC", &items);
    assert_eq!(found, quoted(&mut ascending.iter().rev()));
}

#[test]
fn ties_follow_the_direction_of_the_first_column() {
    let items = [r#"{"a":1,"b":1,"i":1}"#, r#"{"a":1,"b":1,"i":2}"#, r#"{"a":0,"b":2,"i":3}"#];
    for (order, expected) in [
        ("c.a", "[3,1,2]"),
        ("c.a DESC", "[2,1,3]"),
        ("c.a, c.b DESC", "[3,1,2]"),
        ("c.b DESC, c.a", "[3,2,1]"),
    ] {
        assert_eq!(rows(&format!("SELECT VALUE c.i FROM c ORDER BY {order}"), &items), expected);
    }
}

#[test]
fn top_and_offset_count_rows_after_distinct() {
    let items = [r#"{"a":1}"#, r#"{"a":1.0}"#, r#"{"a":2}"#, r#"{"a":3}"#, "{}"];
    for (text, expected) in [
        ("SELECT DISTINCT TOP 2 VALUE c.a FROM c", "[1,2]"),
        ("SELECT DISTINCT VALUE c.a FROM c OFFSET 1 LIMIT 5", "[2,3]"),
        ("SELECT DISTINCT c.a FROM c OFFSET 2 LIMIT 9", r#"[{"a":3},{}]"#),
        ("SELECT TOP 0 VALUE c.a FROM c", "[]"),
    ] {
        assert_eq!(rows(text, &items), expected, "{text}");
    }
}

#[test]
fn groups_are_told_apart_by_undefined_and_null() {
    let items = [r#"{"g":1}"#, r#"{"g":null}"#, "{}", r#"{"g":1.0,"n":4}"#, "{}"];
    for (text, expected) in [
        (
            "SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g",
            r#"[{"g":1,"n":2},{"g":null,"n":1},{"n":2}]"#,
        ),
        ("SELECT VALUE c.g.x ?? 'no' FROM c GROUP BY c.g", r#"["no","no","no"]"#),
        ("SELECT VALUE FLOOR(AVG(c.n) / 3) FROM c", "[1]"),
        ("SELECT VALUE {sum: SUM(c.n), all: [COUNT(1)]} FROM c", r#"[{"sum":4,"all":[5]}]"#),
        ("SELECT COUNT(1) AS n, 'x' AS x FROM c WHERE false", r#"[{"n":0,"x":"x"}]"#),
        ("SELECT c.g FROM c WHERE false GROUP BY c.g", "[]"),
        ("SELECT DISTINCT VALUE COUNT(1) FROM c GROUP BY c.g", "[2,1]"),
        ("SELECT VALUE c.g FROM c GROUP BY c.g ORDER BY c.g DESC", "[1,null]"),
        ("SELECT COUNT(1)", r#"[{"$1":1}]"#),
    ] {
        assert_eq!(rows(text, &items), expected, "{text}");
    }
}

#[test]
fn queries_that_clients_rewrite_run() {
    let items = [r#"{"_rid":"r1","a":2,"g":"x"}"#, r#"{"_rid":"r2","g":"y"}"#];
    for (text, expected) in [
        (
            r#"SELECT c._rid, [{"item": c.a}] AS orderByItems, c AS payload FROM c WHERE (true) ORDER BY c.a"#,
            r#"[{"_rid":"r2","orderByItems":[{}],"payload":{"_rid":"r2","g":"y"}},{"_rid":"r1","orderByItems":[{"item":2}],"payload":{"_rid":"r1","a":2,"g":"x"}}]"#,
        ),
        (
            r#"SELECT VALUE [{"item": SUM(c.a)}, {"item": {"sum": SUM(c.a), "count": COUNT(c.a)}}] FROM c"#,
            r#"[[{"item":2},{"item":{"sum":2,"count":1}}]]"#,
        ),
        (
            r#"SELECT [{"item": c.g}] AS groupByItems, {"g": c.g, "n": {"item": COUNT(1)}} AS payload FROM c GROUP BY c.g"#,
            r#"[{"groupByItems":[{"item":"x"}],"payload":{"g":"x","n":{"item":1}}},{"groupByItems":[{"item":"y"}],"payload":{"g":"y","n":{"item":1}}}]"#,
        ),
        (r#"SELECT VALUE [{"item": SUM(c.g)}] FROM c"#, "[[{}]]"),
        (r#"SELECT VALUE [{"item": SUM(c.a)}] FROM c WHERE false"#, r#"[[{"item":0}]]"#),
        (
            "SELECT VALUE c._rid FROM c WHERE (c.a > 1 OR IS_STRING(c.a)) AND NOT IS_BOOLEAN(c.a)",
            r#"["r1"]"#,
        ),
    ] {
        assert_eq!(rows(text, &items), expected, "{text}");
    }
}

#[test]
fn groups_gathered_apart_are_merged() {
    let query = parse(
        "SELECT c.g, COUNT(1) AS n, SUM(c.v) AS s, MIN(c.v) AS l, MAKESET(c.v) AS all FROM c \
         GROUP BY c.g",
    );
    let mut halves = [["1", "\"x\""], ["2", "1"]].map(|values| {
        let mut run = query.start(&ScopeSettings::default());
        let mut groups = Groups::new(&query, &MemoryShare::default());
        for (g, v) in [("a", values[0]), ("b", values[1])] {
            let item = format!("{{\"g\":\"{g}\",\"v\":{v}}}");
            run.gather(Document::new(&item), &mut groups).unwrap();
        }
        Some(groups)
    });
    let mut all = halves[0].take().unwrap();
    let mut run = query.start(&ScopeSettings::default());
    all.merge(halves[1].take().unwrap(), &run).unwrap();
    let rows = all.finish(&mut run).unwrap().0;
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let expected =
        [r#"{"g":"a","n":2,"s":3,"l":1,"all":[1,2]}"#, r#"{"g":"b","n":2,"l":1,"all":["x",1]}"#];
    assert_eq!(texts, expected);
}

/// Never lets anything go on.
struct Enough;

impl Interrupt for Enough {
    fn check(&self, _: u64) -> Result<()> {
        Err(Error::timeout("enough"))
    }
}

#[test]
fn many_groups_are_merged_and_finished_only_while_somebody_wants_it() {
    let query = parse("SELECT c.g, COUNT(1) AS n FROM c GROUP BY c.g");
    let gathered = || {
        let mut groups = Groups::new(&query, &MemoryShare::default());
        let mut run = query.start(&ScopeSettings::default());
        for g in 0..3_000 {
            run.gather(Document::new(&format!("{{\"g\":{g}}}")), &mut groups).unwrap();
        }
        groups
    };
    let settings = ScopeSettings { interrupt: Some(Arc::new(Enough)), ..ScopeSettings::default() };
    let mut run = query.start(&settings);
    let merged = gathered().merge(gathered(), &run);
    assert_eq!(merged.unwrap_err().kind, ErrorKind::Timeout);
    let finished = gathered().finish(&mut run);
    assert_eq!(finished.err().map(|error| error.kind), Some(ErrorKind::Timeout));
    let free = gathered().finish(&mut query.start(&ScopeSettings::default()));
    assert_eq!(free.unwrap().0.len(), 3_000);
}

#[test]
fn keys_of_rows_are_the_keys_of_their_values() {
    let query = parse("SELECT VALUE c.i FROM c ORDER BY c.v, c.w DESC");
    let mut run = query.start(&ScopeSettings::default());
    let mut keys = Vec::new();
    run.rows(Document::new(r#"{"i":1,"v":"é"}"#), &mut |row| {
        keys = row.keys;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(keys, [sort_key(Some(&Value::from("é"))), sort_key(None)]);
}

#[test]
fn a_query_says_what_it_is_and_what_it_reads() {
    let member = |name: &str| IndexStep::Member(name.to_owned());
    let query = parse(
        "SELECT DISTINCT TOP 3 c.a FROM c JOIN t IN c.tags WHERE c.b.d = 1 AND c.l[0].x = 2 AND \
         udf.f(c.a) ORDER BY c.a, c.b.d DESC",
    );
    let facts = query.facts();
    assert!(facts.has_from && facts.joins && facts.distinct && facts.ordered);
    assert!(!facts.is_grouped);
    assert_eq!(facts.top, Some(3));
    assert_eq!(facts.udfs, ["f"]);
    let paths: Vec<_> = facts.order.iter().map(|column| column.path.clone()).collect();
    assert_eq!(paths, [Some(vec![member("a")]), Some(vec![member("b"), member("d")])]);
    let Reads::Paths(mut read) = facts.reads.clone() else { panic!("{:?}", facts.reads) };
    read.sort_by_key(|path| format!("{path:?}"));
    let expected = [
        vec![member("a")],
        vec![member("b"), member("d")],
        vec![member("l")],
        vec![member("tags")],
    ];
    assert_eq!(read, expected);
    assert_eq!(parse("SELECT * FROM c").facts().reads, Reads::Whole);
    assert_eq!(parse("SELECT VALUE COUNT(1) FROM c").facts().reads, Reads::Paths(Vec::new()));
}

#[test]
fn computed_properties_hide_stored_ones_but_not_in_select_star() {
    let computed = [
        ComputedProperty { name: "low".into(), query: "SELECT VALUE LOWER(c.n) FROM c".into() },
        ComputedProperty { name: "o".into(), query: "SELECT VALUE {a: c.n} FROM root c".into() },
        ComputedProperty { name: "bad".into(), query: "SELECT * FROM".into() },
    ];
    let items = [r#"{"n":"B","low":"stored"}"#, r#"{"n":"A"}"#];
    let rows = |text: &str| {
        let query = Query::parse(text, &[], &computed)?;
        evaluate(&query, &items, &ScopeSettings::default())
    };
    let found = rows("SELECT VALUE c.low FROM c ORDER BY c.low").unwrap();
    assert_eq!(found, [r#""a""#, r#""b""#]);
    assert_eq!(rows("SELECT VALUE x.o.a FROM x WHERE x['low'] = 'b'").unwrap(), [r#""B""#]);
    assert_eq!(rows("SELECT * FROM c WHERE c.low = 'b'").unwrap(), [items[0]]);
    let grouped = rows("SELECT c.low, COUNT(1) AS n FROM c GROUP BY c.low").unwrap();
    assert_eq!(grouped, [r#"{"low":"b","n":1}"#, r#"{"low":"a","n":1}"#]);
    assert!(rows("SELECT VALUE c.bad FROM c").unwrap_err().message.contains("'bad'"));
}

#[test]
fn long_lists_of_constants_are_searched_fast() {
    let list: Vec<String> = (0..16_000).map(|n| format!("'k{n}'")).collect();
    let query = parse(&format!("SELECT VALUE c.k FROM c WHERE c.k IN ({})", list.join(",")));
    let items: Vec<String> = (0..20_000).map(|n| format!("{{\"k\":\"k{n}\"}}")).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    // Walking the list for every item would be 320 million comparisons.
    let found = evaluate(&query, &items, &ScopeSettings::default()).unwrap();
    assert_eq!(found.len(), 16_000);
    for (list, value, expected) in [
        ("1, 2, 3", "2.0", true),
        ("9007199254740993", "9007199254740992", false),
        ("null, true, {a: [1]}", "{\"a\":[1.0]}", true),
        ("[1], [2]", "[3]", false),
        ("true", "false", false),
        ("undefined, null", "null", true),
    ] {
        let text = format!("SELECT VALUE c.v IN ({list}) FROM c");
        assert_eq!(run(&text, &[&format!("{{\"v\":{value}}}")]), [expected.to_string()], "{text}");
    }
}

#[test]
fn an_item_cannot_be_multiplied_without_end() {
    let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let item = format!("{{\"a\":[{}]}}", many.join(","));
    let settings = ScopeSettings { steps_max: Some(100_000), ..ScopeSettings::default() };
    for text in [
        "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a JOIN w IN c.a",
        "SELECT VALUE 1 FROM c WHERE EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.a JOIN z IN \
         c.a WHERE x < 0)",
        "SELECT VALUE ARRAY(SELECT VALUE c FROM x IN c.a JOIN y IN c.a) FROM c",
        "SELECT VALUE ARRAY(SELECT VALUE (SELECT VALUE MAKELIST(c) FROM y IN c.a) FROM x IN c.a) \
         FROM c",
    ] {
        let error = evaluate(&parse(text), &[&item], &settings).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest, "{text}: {error}");
    }
    // Whoever stops early pays for nothing more.
    let query = parse("SELECT VALUE 1 FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a");
    let mut seen = 0;
    query
        .start(&settings)
        .rows(Document::new(&item), &mut |_| {
            seen += 1;
            if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 10);
}

#[test]
fn user_defined_functions_are_refused_where_there_are_none() {
    let query = parse("SELECT VALUE udf.mine(c.a) FROM c");
    let error = evaluate(&query, &["{}"], &ScopeSettings::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("udf.mine"), "{error}");
}
