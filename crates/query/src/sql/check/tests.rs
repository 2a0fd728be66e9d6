//! Rules one by one, and public collections of queries: what must be accepted, and what must be
//! refused in which words.

use super::check;
use crate::sql::ast::OrderBy;
use crate::sql::parser::parse_query;
use crate::sql::print;
use partita_model::Value;

type Parameters = Vec<(String, Value)>;

fn complaint_with(query: &str, parameters: &[(String, Value)]) -> Option<String> {
    let checked = parse_query(query, &[]).and_then(|parsed| check(&parsed, query, parameters));
    checked.err().map(|error| error.into_error(query).message)
}

fn complaint(query: &str) -> Option<String> {
    complaint_with(query, &[])
}

#[track_caller]
fn assert_accepted(query: &str) {
    assert_eq!(complaint(query), None, "{query}");
}

/// The complaint must be one with this code about this piece of the text.
#[track_caller]
fn assert_coded(query: &str, code: &str, piece: &str) {
    let message = complaint(query).unwrap_or_else(|| panic!("{query} was accepted"));
    let complaints = Value::parse(message.as_bytes()).expect("a JSON text");
    let Some([complaint]) = complaints.get("errors").and_then(Value::as_array) else {
        panic!("{query}: one complaint expected, not {message}");
    };
    assert_eq!(complaint.get("code").and_then(Value::as_str), Some(code), "{query}: {message}");
    let place = |end: &str| {
        let offset = complaint.get("location").and_then(|location| location.get(end));
        usize::try_from(offset.and_then(Value::as_i64).expect("an offset")).expect("an offset")
    };
    assert_eq!(&query[place("start")..place("end")], piece, "{query}: {message}");
}

#[track_caller]
fn assert_plain(query: &str, words: &str) {
    let message = complaint(query).unwrap_or_else(|| panic!("{query} was accepted"));
    assert!(message.starts_with(r#"{"Errors":["#) && message.contains(words), "{query}: {message}");
}

#[test]
fn names_are_aliases_or_the_container() {
    for query in [
        "SELECT * FROM c",
        "SELECT VALUE r FROM root r",
        "SELECT VALUE children FROM Families.children",
        r#"SELECT VALUE x FROM c["x"]"#,
        "SELECT t, u FROM c JOIN t IN c.a JOIN u IN t.b",
        "SELECT VALUE s FROM (SELECT * FROM anything) s",
        "SELECT VALUE i FROM i IN (SELECT VALUE d.a FROM (SELECT * FROM c) d)",
        "SELECT VALUE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = c.x) FROM c",
        "SELECT VALUE c FROM c JOIN (SELECT VALUE u FROM c JOIN u IN c.us) AS t",
        "SELECT VALUE (LET x = 1 IN x + x)",
        "SELECT VALUE NaN",
        "SELECT VALUE [1, 2][@i]",
    ] {
        assert_accepted(query);
    }
    for (query, name) in [
        ("SELECT VALUE root FROM root r", "root"),
        ("SELECT VALUE d.a FROM c", "d"),
        ("SELECT VALUE Families FROM Families.children", "Families"),
        ("SELECT VALUE 1 FROM c JOIN t IN d.tags", "d"),
        ("SELECT VALUE 1 FROM c JOIN t IN t.tags", "t"),
        ("SELECT VALUE 1 FROM c JOIN (SELECT VALUE 1 FROM d) e", "d"),
        ("SELECT VALUE ARRAY(SELECT VALUE d FROM root d) FROM c", "root"),
        ("SELECT VALUE ARRAY(SELECT VALUE 1 FROM (SELECT * FROM root) d) FROM c", "root"),
        ("SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.ts)[0] = t FROM c", "t"),
        ("SELECT VALUE (LET x = 1 IN x) + x", "x"),
        ("SELECT VALUE 1 FROM c ORDER BY a", "a"),
        ("SELECT 1 AS a FROM c WHERE a = 1", "a"),
    ] {
        let at = query.rfind(name).expect("the name is there");
        let message = complaint(query).expect("refused");
        assert!(message.contains("SC2001"), "{query}: {message}");
        let quoted = format!("Identifier '{name}' could not be resolved.");
        assert!(message.contains(&quoted), "{query} {at}: {message}");
    }
    assert_coded("SELECT VALUE dd.a FROM c", "SC2001", "dd");
    assert_plain("SELECT VALUE 1 FROM c JOIN c IN c.a", "'c' is specified more than once");
}

#[test]
fn functions_and_their_arguments_are_known() {
    assert_coded("SELECT BADFUNC(r.age) FROM Root r", "SC2005", "BADFUNC");
    assert_coded("SELECT ABS(1, 2)", "SC2050", "ABS(1, 2)");
    assert_coded("SELECT VALUE COUNT(1, 2) FROM c", "SC2050", "COUNT(1, 2)");
    assert_coded("SELECT VALUE MAX(MIN(r)) FROM r", "SC2101", "MAX(MIN(r))");
    assert_coded("SELECT VALUE SUM((SELECT 1)) FROM r", "SC2101", "SUM((SELECT 1))");
    assert_coded("SELECT VALUE c.a[c.i].b[0] FROM c", "SC2990", "c.a[c.i]");
    assert_coded("SELECT VALUE c.a[1 + 1] FROM c", "SC2990", "c.a[1 + 1]");
    assert_accepted(r#"SELECT VALUE c.a[0]["b"][@i][-1] FROM c"#);
    assert_coded(
        r#"SELECT VALUE VectorDistance(c.v, [1, (2)], true, {"searchListSizeMultiplier": 101})
           FROM c"#,
        "SC2213",
        r#"{"searchListSizeMultiplier": 101}"#,
    );
}

#[test]
fn clauses_are_refused_where_they_do_not_belong() {
    assert_coded("SELECT * FROM c GROUP BY c.a", "SC2041", "*");
    assert_plain("SELECT *", "'SELECT *' is not valid if FROM clause is omitted.");
    assert_plain("SELECT * FROM c JOIN t IN c.ts", "'SELECT *' is only valid with a single input");
    assert_plain("SELECT TOP 1 c FROM c OFFSET 0 LIMIT 1", "TOP and OFFSET LIMIT");
    assert_plain("SELECT c.a, c.b.a FROM c", "'a' is specified more than once");
    assert_plain("SELECT VALUE 1 FROM c WHERE COUNT(1) > 1", "not allowed in the WHERE clause");
    assert_plain("SELECT VALUE 1 FROM c GROUP BY 1", "must have a property reference");
    assert_plain("SELECT VALUE 1 FROM c GROUP BY SUM(c.a)", "not allowed in the GROUP BY clause");
    assert_plain("SELECT VALUE 1 FROM c GROUP BY (SELECT 1)", "subquery is not allowed");
    let cardinality = "The cardinality of a scalar subquery";
    assert_plain("SELECT (SELECT l FROM l IN c.list) FROM c", cardinality);
    assert_accepted("SELECT (SELECT COUNT(l) FROM l IN c.list) FROM c");
    for (query, code, clause) in [
        ("SELECT ARRAY(SELECT 1 ORDER BY 1 ASC)", "SC2202", "ORDER BY 1 ASC"),
        ("SELECT ARRAY(SELECT DISTINCT TOP 1 2)", "SC2203", "TOP 1"),
        ("SELECT ARRAY(SELECT 1 OFFSET 1 LIMIT 2)", "SC2204", "OFFSET 1 LIMIT 2"),
        ("SELECT ARRAY(SELECT 1 ORDER BY RANK f(1))", "SC2228", "ORDER BY RANK f(1)"),
    ] {
        assert_coded(query, code, clause);
    }
}

#[test]
fn counts_are_integers_of_32_bits() {
    assert_accepted("SELECT TOP 4294967295 * FROM c");
    assert_coded("SELECT TOP 4294967296 * FROM c", "SC2060", "4294967296");
    assert_coded("SELECT TOP 1.5 * FROM c", "SC2060", "1.5");
    assert_coded("SELECT TOP @n * FROM c", "SC2060", "@n");
    assert_coded("SELECT * FROM c OFFSET 4294967296 LIMIT 1", "SC2062", "4294967296");
    assert_coded("SELECT * FROM c OFFSET 1 LIMIT 4294967296", "SC2061", "4294967296");
    assert_coded("SELECT TOP -1 * FROM c", "SC1001", "-");
    let supplied = |value: Value| vec![("@n".to_owned(), value)];
    let top = "SELECT TOP @n * FROM c";
    assert_eq!(complaint_with(top, &supplied(Value::from(3i64))), None);
    assert_eq!(complaint_with(top, &supplied(Value::from(3.0))), None);
    for value in [Value::from(-1i64), Value::from("3"), Value::from(0.5), Value::Null] {
        assert!(complaint_with(top, &supplied(value)).is_some_and(|m| m.contains("SC2060")));
    }
}

#[test]
fn a_grouped_select_list_refers_to_groups() {
    for query in [
        "SELECT c.a, COUNT(1) FROM c GROUP BY c.a",
        r#"SELECT c["a"], c.b.c FROM c GROUP BY c.a, c.b"#,
        "SELECT LOWER(c.a) || 'x', 1, @p FROM c GROUP BY lower(c.a)",
        "SELECT c.x & 1 AS parity FROM c GROUP BY c.x & 1",
        "SELECT VALUE {a: c.a, n: MAX(c.n + 1)} FROM c GROUP BY c.a",
        "SELECT ARRAY(SELECT VALUE t FROM t IN c.ts WHERE t = c.a) AS ts FROM c GROUP BY c.ts, c.a",
    ] {
        assert_accepted(query);
    }
    for (query, reference) in [
        ("SELECT c.b FROM c GROUP BY c.a", "c.b"),
        ("SELECT COUNT(1), c.b[0] FROM c", "c.b[0]"),
        ("SELECT VALUE c FROM c GROUP BY c.a", "c"),
        ("SELECT c.a FROM c GROUP BY c.a.b", "c.a"),
        ("SELECT UPPER(c.a) FROM c GROUP BY LOWER(c.a)", "c.a"),
        ("SELECT ARRAY(SELECT VALUE COUNT(c.b) FROM t IN c.a) FROM c GROUP BY c.a", "c.b"),
        ("SELECT ARRAY(SELECT VALUE t FROM t IN c.b[0]) FROM c GROUP BY c.a", "c.b[0]"),
    ] {
        assert_coded(query, "SC2102", reference);
    }
}

#[test]
fn a_query_is_ordered_by_places_in_the_item() {
    for query in [
        "SELECT * FROM c ORDER BY c",
        "SELECT * FROM c ORDER BY c.a.b[0], c['x'] DESC",
        "SELECT VALUE t FROM c JOIN t IN c.ts ORDER BY t.n",
        "SELECT VALUE AVG(c.age) FROM r JOIN c IN r.cs ORDER BY c.name",
        "SELECT VALUE s FROM (SELECT * FROM c) s ORDER BY s.id",
        "SELECT VALUE s FROM (SELECT VALUE {a: c.b} FROM c) s ORDER BY s.a.x",
        "SELECT VALUE s FROM (SELECT c.b AS a FROM c) s ORDER BY s.a",
        "SELECT * FROM c ORDER BY VectorDistance(c.v, [1])",
        "SELECT * FROM c ORDER BY _VectorScore(c.v, [1])",
        "SELECT c.a FROM c GROUP BY c.a ORDER BY c.a",
    ] {
        assert_accepted(query);
    }
    for query in [
        "SELECT * FROM c ORDER BY 1",
        "SELECT * FROM c ORDER BY @p",
        "SELECT * FROM c ORDER BY c.a + 1",
        "SELECT * FROM c ORDER BY c.a, LOWER(c.b)",
        "SELECT * FROM c ORDER BY VectorDistance(c.v, [1]), c.a",
        "SELECT VALUE s FROM (SELECT VALUE {a: c.b + 1} FROM c) s ORDER BY s.a",
        "SELECT VALUE s FROM (SELECT VALUE {a: c.b} FROM c) s ORDER BY s.b",
        "SELECT VALUE 1 FROM c JOIN (SELECT VALUE COUNT(1) FROM t IN c.ts) n ORDER BY n",
    ] {
        let expected = r#"{"errors":[{"severity":"Error","code":2206,"message":"Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."}]}"#;
        assert_eq!(complaint(query).as_deref(), Some(expected), "{query}");
    }
}

#[test]
fn ranking_has_rules_of_its_own() {
    for query in [
        "SELECT * FROM c ORDER BY RANK FullTextScore(c.t, 'a', @b, {term: 'c', distance: 1})",
        "SELECT * FROM c ORDER BY RANK FullTextScore(c.t, ['a', 'b'])",
        "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1]))",
        "SELECT * FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1]), [1, -2])",
    ] {
        assert_accepted(query);
    }
    for (clause, code) in [
        ("ORDER BY RANK ABS(1)", "SC2221"),
        ("ORDER BY RANK RRF(FullTextScore(c.t, 'a'))", "SC2221"),
        ("ORDER BY RANK FullTextScore(c.t, 'a'), FullTextScore(c.u, 'a')", "SC2221"),
        ("ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1]), [1])", "SC2229"),
        ("ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1]), @w)", "SC2229"),
    ] {
        assert_coded(&format!("SELECT * FROM c {clause}"), code, clause);
    }
    // Rank fusion is known to the clause alone, in no place of its arguments.
    let (one, two) = ("FullTextScore(c.t, 'a')", "FullTextScore(c.u, 'b')");
    for fused in [format!("RRF({one}, {two}), {one}"), format!("{one}, RRF({one}, {two})")] {
        let query = format!("SELECT * FROM c ORDER BY RANK rrf({fused})");
        assert_coded(&query, "SC2005", "RRF");
        let message = complaint(&query).unwrap_or_default();
        let expected = "'RRF' is not a recognized built-in function name.";
        assert!(message.contains(expected), "{message}");
    }
    assert_coded("SELECT * FROM c ORDER BY RANK c.a", "SC1001", "c");
    let rank = "ORDER BY RANK FullTextScore(c.t, 'a')";
    assert_coded(&format!("SELECT * FROM c IN d.e {rank}"), "SC2223", "c IN d.e");
    let from = "(SELECT * FROM d /* ) */ )";
    assert_coded(&format!("SELECT * FROM {from} c {rank}"), "SC2225", from);
    assert_coded("SELECT FullTextScore(c.t, 'a') FROM c", "SC2240", "FullTextScore(c.t, 'a')");
    assert_plain("SELECT * FROM c ORDER BY RANK FullTextScore(c.t, c.u)", "must be literals");
    assert_plain(&format!("SELECT * FROM c {rank} DESC"), "Specifying a sort order");
}

#[test]
fn limits_of_one_query() {
    let calls = |count: usize| format!("SELECT VALUE [{}1]", "udf.f(1), ".repeat(count));
    assert_accepted(&calls(10));
    assert_coded(&calls(11), "SC3005", &calls(11));
    let joins = |count: usize| {
        let join = |n: usize| format!(" JOIN t{n} IN c.t");
        format!("SELECT VALUE c FROM c{}", (0..count).map(join).collect::<String>())
    };
    assert_accepted(&joins(10));
    assert_plain(&joins(11), "maximum number of joins");
    let list = |count: usize| format!("SELECT VALUE 1 IN (0{})", ",1".repeat(count - 1));
    assert_accepted(&list(16_000));
    assert_plain(&list(16_001), "more than 16000 items");
}

#[test]
fn complaints_are_told_together_inside_out() {
    let query = "SELECT x, F(y, G(1)) FROM (SELECT TOP 1 z FROM c ORDER BY c.a) d WHERE w";
    let message = complaint(query).expect("refused");
    let codes: Vec<&str> = message.split(r#""code":""#).skip(1).map(|rest| &rest[..6]).collect();
    let expected = ["SC2001", "SC2202", "SC2203", "SC2001", "SC2001", "SC2001", "SC2005", "SC2005"];
    assert_eq!(codes, expected, "{message}");
    let many = format!("SELECT {}x FROM c", "x + ".repeat(1000));
    assert_eq!(complaint(&many).expect("refused").matches("SC2001").count(), 32);
}

fn cases(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    let root = Value::parse(&std::fs::read(path).expect("the file is there")).expect("JSON");
    root.get("cases").and_then(Value::as_array).expect("there are cases").to_vec()
}

fn text<'a>(case: &'a Value, member: &str) -> Option<&'a str> {
    case.get(member).and_then(Value::as_str)
}

/// Parameters come as `{"@name": value}` or as `[{"name": "@name", "value": value}]`.
fn parameters(case: &Value) -> Parameters {
    match case.get("parameters") {
        Some(Value::Object(members)) => {
            members.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
        }
        Some(Value::Array(list)) => {
            let name = |one: &Value| text(one, "name").expect("a name").to_owned();
            list.iter().map(|one| (name(one), one.get("value").expect("a value").clone())).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn what_the_gateway_accepts_is_accepted_and_what_it_rejects_is_not() {
    // Refused by query planning: aggregates cannot be part of other expressions.
    let refused_later = ["SELECT udf.foo(COUNT(c.x)) FROM c"];
    let mut counted = 0;
    for case in cases("gateway-accepted-queries.json") {
        let query = text(&case, "query").expect("a query");
        let complaint = complaint_with(query, &parameters(&case));
        match text(&case, "expect") {
            Some("accept") => assert_eq!(complaint, None, "{query}"),
            Some("reject400") => {
                assert!(complaint.is_some() || refused_later.contains(&query), "{query}");
            }
            _ => continue,
        }
        counted += 1;
    }
    assert_eq!(counted, 272);
}

#[test]
fn what_entity_framework_sends_is_accepted() {
    let (mut accepted, mut refused, mut later) = (0, 0, 0);
    for case in cases("efcore-sql.json") {
        let query = text(&case, "sql").expect("a query");
        // Point reads are in the collection, and a query that was cut off when it was made.
        if query.starts_with("ReadItem") || query == "SELECT VALUE s\nFROM (" {
            continue;
        }
        let complaint = complaint_with(query, &parameters(&case));
        if text(&case, "outcome") != Some("rejected") {
            assert_eq!(complaint, None, "{query}");
            accepted += 1;
        } else if complaint.is_some() {
            refused += 1;
        } else {
            // Two sort keys need a composite index. Whether there is one is seen later.
            let parsed = parse_query(query, &[]).expect("a query");
            let keys = match parsed.order_by {
                Some(OrderBy::Items(items)) => items.len(),
                _ => 0,
            };
            assert!(keys >= 2, "{query} is accepted");
            later += 1;
        }
    }
    assert_eq!((accepted, refused, later), (1088, 37, 13));
}

/// The collection has its queries with line breaks; the service saw them in one line, and its
/// complaints count so.
fn in_one_line(query: &str) -> String {
    let mut line = String::new();
    for part in query.lines().map(str::trim) {
        if !line.is_empty() && !line.ends_with('(') {
            line.push(' ');
        }
        line.push_str(part);
    }
    line
}

#[test]
fn what_the_linq_provider_sends_is_judged_as_by_the_service() {
    let (mut refused, mut answered) = (0, 0);
    for case in cases("linq-sql.json") {
        let query = in_one_line(text(&case, "sql").expect("a query"));
        assert!(parse_query(&query, &[]).is_ok(), "{query}");
        let complaint = complaint(&query);
        let expected = text(&case, "errorMessage").unwrap_or_default();
        if let Some(at) = expected.find(r#"{"errors""#) {
            let end = expected.rfind('}').expect("an object");
            assert_eq!(complaint.as_deref(), Some(&expected[at..=end]), "{query}");
            refused += 1;
        } else if case.get("Results").is_some() || case.get("SerializedResults").is_some() {
            assert_eq!(complaint, None, "{query}");
            answered += 1;
        }
    }
    assert_eq!((refused, answered), (145, 194));
}

#[test]
fn every_text_with_a_partition_key_filter_is_a_sentence() {
    for case in cases("pk-filter-cases.json") {
        let query = text(&case, "query").expect("a query");
        // Known to the client these come from, not to the service.
        let is_null = query.contains(" IS NULL") || query.contains(" IS NOT NULL");
        assert_eq!(parse_query(query, &[]).is_err(), is_null, "{query}");
    }
}

#[test]
fn the_parser_accepts_what_the_client_parser_accepts() {
    let mut exceptions = 0;
    for case in cases("sql-parser-baselines.json") {
        let query = text(&case, "query").expect("a query");
        let expected = match text(&case, "parsed") {
            // The service gives every order by rank its own direction and has a complaint for
            // those who write one.
            Some(parsed) if parsed.contains("ORDER BY RANK") => {
                !parsed.contains("ASC") && !parsed.contains("DESC")
            }
            Some(_) => true,
            // An alias may be a string, with and without AS.
            None => query == r#"SELECT c.age LIKE "a!%" "!""#,
        };
        exceptions += usize::from(expected != text(&case, "parsed").is_some());
        let parsed = parse_query(query, &[]);
        assert_eq!(parsed.is_ok(), expected, "{query}: {parsed:?}");
    }
    assert_eq!(exceptions, 6);
}

/// Both print a query in their own lines and with spaces of their own, and the client writes ASC
/// where nothing was written.
fn without_style(printed: &str) -> String {
    printed.replace(" ASC", "").split_whitespace().collect::<Vec<_>>().join("")
}

#[test]
fn a_query_is_printed_as_the_client_prints_it() {
    let mut compared = 0;
    for case in cases("sql-parser-baselines.json") {
        let query = text(&case, "query").expect("a query");
        let (Some(expected), Ok(parsed)) = (text(&case, "parsed"), parse_query(query, &[])) else {
            continue;
        };
        // The client ranks the bit operators as C does, the service puts them on one level.
        let bits = ["1 | 2 & 3 ^ 4", "1 = 2 & 3 != 4", "1 ^ 2 & 3 ^ 4", "1 | 2 ^ 3 | 4"];
        // The client quotes the backslash of an escape and loses what it meant.
        let escapes = query.contains(r"\u1234");
        // The minus of a number is part of it.
        let minus = query.contains("(- 42)");
        if escapes || minus || bits.iter().any(|bits| query.ends_with(bits)) {
            continue;
        }
        assert_eq!(without_style(&print::query(&parsed)), without_style(expected), "{query}");
        compared += 1;
    }
    assert_eq!(compared, 197);
}
