//! Every way through the index, compared with the scan and with the plain evaluation of all items.

use partita_engine::{Indexing, NewItem, Op, PageRequest, QueryRequest, QuerySettings};

use super::*;

/// No partition is too small for an index, and nothing is sorted that an index has in order.
fn always() -> QuerySettings {
    QuerySettings { scan_items: 0, sort_items: 0, ..QuerySettings::default() }
}

/// As above, but what an index found is sorted.
fn sorting() -> QuerySettings {
    QuerySettings { scan_items: 0, ..QuerySettings::default() }
}

const THROUGHPUTS_HERE: [u32; 2] = [400, 42_000];

const VALUES: [&str; 30] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "1.5",
    "2",
    "-1",
    "-1.5",
    "5",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "\"\"",
    "\"a\"",
    "\"A\"",
    "\"ab\"",
    "\"abc\"",
    "\"b\"",
    "\"a\\u0000\"",
    "\"\u{E000}\"",
    "\"\u{10000}\"",
    "[]",
    "[1,2]",
    "[\"a\",\"b\",null]",
    "[{\"n\":1,\"s\":\"a\"},{\"n\":2}]",
    "{}",
    "{\"y\":1}",
];

/// Items with values of all kinds at `x`, other ones at `w`, long strings, and nothing at all.
fn fill_with_kinds(bench: &Bench) {
    let mut number = 0;
    let mut create = |members: String| {
        number += 1;
        let comma = if members.is_empty() { "" } else { "," };
        let body = format!(r#"{{"id":"i{number}","pk":"k{}"{comma}{members}}}"#, number % 11);
        bench.create(&body).result.unwrap();
    };
    create(String::new());
    for round in 0..2 {
        for (at, value) in VALUES.iter().enumerate() {
            let other = VALUES[(at * 7 + 3 + round) % VALUES.len()];
            let n = at % 4;
            // Values that are written in one way only, so that a group of them has one name.
            let g = if value.contains(['.', '-']) || value.len() > 15 { "7" } else { value };
            create(format!(
                r#""x":{value},"w":{other},"g":{g},"n":{n},"d":{{"e":{{"f":{value}}}}}"#
            ));
        }
        create(format!(r#""w":{round},"n":{round}"#));
    }
    let long = "ä".repeat(700);
    for end in ["", "b", "a", "ö", "\u{E000}", "\u{10000}", "b"] {
        create(format!(r#""x":"{long}{end}","w":"{long}","n":9"#));
    }
    // More paths than a shape remembers.
    let many: Vec<String> = (0..300).map(|n| format!(r#""p{n}":{n}"#)).collect();
    create(format!(r#""x":3,{}"#, many.join(",")));
    create(format!(r#""w":3,{}"#, many.join(",")));
}

fn bench_with_kinds(settings: QuerySettings, throughput: u32, fields: &str) -> Bench {
    let bench = Bench::with_queries(settings);
    bench.make_container(throughput, &format!("{KEY_PK}{fields}"));
    fill_with_kinds(&bench);
    bench
}

/// Index plan = scan = plain evaluation, whole and in pages.
#[track_caller]
fn check(bench: &Bench, query: &str) {
    let is_ordered = query.contains("ORDER BY");
    let norm = |rows: Vec<String>| if is_ordered { rows } else { sorted(rows) };
    let expected = norm(expected(bench, query));
    // Pages of one row only where that is soon over.
    let least = if expected.len() < 12 { 1 } else { 17 };
    for rows in [100_000, least] {
        let found = norm(all_in_pages(bench, &global(query), rows));
        assert_eq!(found, expected, "{query} in pages of {rows}");
    }
    let scanned = norm(all(bench, &scan_only(global(query))));
    assert_eq!(scanned, expected, "{query} by scan");
}

const CONDITIONS: [&str; 60] = [
    "c.x = 1",
    "c.x = 1.5",
    "c.x = null",
    "c.x = \"a\"",
    "c.x = [1,2]",
    "c.x = {\"y\":1}",
    "c.x = 9007199254740993",
    "c.x > 9007199254740992",
    "c.x != 1",
    "c.x != null",
    "NOT (c.x = 1)",
    "c.x > 1",
    "c.x <= 1",
    "NOT (c.x > 1)",
    "c.x > \"a\"",
    "c.x < \"\u{E000}\"",
    "c.x >= \"\u{10000}\"",
    "c.x <= false",
    "c.x BETWEEN 1 AND 2",
    "c.x NOT BETWEEN 1 AND 2",
    "c.x IN (1, \"a\", null, [1,2])",
    "c.x NOT IN (1, \"a\")",
    "ARRAY_CONTAINS([1, \"a\", {\"y\":1}], c.x)",
    "c.x = 1 OR c.x = 2 OR c.w = \"a\"",
    "c.x > 0 AND c.x < 2 AND c.n = 1",
    "c.x = 1 AND c.w = 5",
    "c.n = 1 AND c.x = 1 AND c.w > \"\"",
    "c.x = 1 AND c.x = \"a\"",
    "NOT (c.x > 1 OR c.w > 2)",
    "c.x",
    "NOT c.x",
    "IS_DEFINED(c.x)",
    "NOT IS_DEFINED(c.x)",
    "IS_DEFINED(c.x.y)",
    "NOT IS_DEFINED(c.d.e.f)",
    "IS_NULL(c.x)",
    "NOT IS_NUMBER(c.x)",
    "IS_STRING(c.x)",
    "IS_PRIMITIVE(c.x)",
    "IS_ARRAY(c.x) OR IS_OBJECT(c.w)",
    "STARTSWITH(c.x, \"a\")",
    "NOT STARTSWITH(c.x, \"a\")",
    "STARTSWITH(c.x, \"A\", true)",
    "STARTSWITH(c.x, \"ää\")",
    "StringEquals(c.x, \"a\", true)",
    "CONTAINS(c.x, \"b\")",
    "NOT CONTAINS(c.x, \"b\")",
    "ENDSWITH(c.x, \"ö\")",
    "LOWER(c.x) = \"a\"",
    "c.x LIKE \"a%\"",
    "c.x LIKE \"%b%\"",
    "REGEXMATCH(c.x, \"^ä+b$\")",
    "ABS(c.x) = 1",
    "FLOOR(c.x) = 1",
    "c.x % 2 = 0",
    "c.x[0] = 1",
    "ARRAY_CONTAINS(c.x, \"b\")",
    "ARRAY_CONTAINS(c.x, {\"n\":1}, true)",
    "EXISTS(SELECT VALUE t FROM t IN c.x WHERE t.n = 1 AND t.s = \"a\")",
    "c.d.e.f = 1 AND c.x = c.d.e.f",
];

#[test]
fn every_kind_of_condition_finds_what_the_scan_finds() {
    for throughput in THROUGHPUTS_HERE {
        let bench = bench_with_kinds(always(), throughput, "");
        for condition in CONDITIONS {
            check(&bench, &format!("SELECT VALUE c.id FROM c WHERE {condition}"));
        }
        let long = "ä".repeat(700);
        for operator in ["=", "!=", "<", "<=", ">", ">="] {
            for end in ["", "b", "c"] {
                check(&bench, &format!("SELECT c.id FROM c WHERE c.x {operator} \"{long}{end}\""));
            }
        }
        for join in ["t.n = 1", "t = \"b\" OR t.n > 1", "t > 1 AND t < 3"] {
            check(&bench, &format!("SELECT c.id, t FROM c JOIN t IN c.x WHERE {join}"));
        }
    }
}

#[test]
fn every_kind_of_condition_is_counted_as_the_scan_counts() {
    for throughput in THROUGHPUTS_HERE {
        let bench = bench_with_kinds(always(), throughput, "");
        for condition in CONDITIONS {
            check(&bench, &format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}"));
            check(
                &bench,
                &format!("SELECT COUNT(c.w) AS n, MAX(c.n) AS m FROM c WHERE {condition}"),
            );
        }
    }
}

#[test]
fn aggregates_of_the_index_are_those_of_the_items() {
    for throughput in THROUGHPUTS_HERE {
        let bench = bench_with_kinds(always(), throughput, "");
        for query in [
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT COUNT(c.x) AS n FROM c",
            "SELECT VALUE SUM(c.n) FROM c",
            "SELECT VALUE AVG(c.n) FROM c WHERE c.n < 3",
            "SELECT VALUE SUM(c.x) FROM c",
            "SELECT VALUE SUM(c.x) FROM c WHERE IS_NUMBER(c.x) AND c.x < 100 AND c.x > -100",
            "SELECT VALUE MIN(c.n) FROM c",
            "SELECT MIN(c.n) AS a, MAX(c.n) AS b FROM c",
            "SELECT VALUE MIN(c.x) FROM c",
            "SELECT VALUE MAX(c.w) FROM c",
            "SELECT VALUE MAX(c.x) FROM c WHERE IS_PRIMITIVE(c.x)",
            "SELECT VALUE MIN(c.missing) FROM c",
            "SELECT VALUE MAX(c.id) FROM c",
            "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
            "SELECT c.g, COUNT(1) AS k, SUM(c.n) AS s FROM c GROUP BY c.g",
            "SELECT c.n, c.g, MAX(c.g) AS s FROM c GROUP BY c.n, c.g",
            "SELECT c.g.y, COUNT(1) AS k FROM c GROUP BY c.g.y",
            "SELECT c.g, c.g.y, COUNT(1) AS k FROM c GROUP BY c.g, c.g.y",
            "SELECT c.n, COUNT(1) AS k FROM c WHERE LENGTH(c.x) > 0 GROUP BY c.n",
            "SELECT c.n % 2 AS odd, COUNT(1) AS k FROM c WHERE c.n + 1 > 1 GROUP BY c.n % 2",
            "SELECT VALUE COUNT(1) FROM c WHERE c.pk = \"k3\"",
        ] {
            check(&bench, query);
        }
    }
}

const ORDERS: [&str; 16] = [
    "ORDER BY c.x",
    "ORDER BY c.x DESC",
    "ORDER BY c.w",
    "ORDER BY c.n DESC",
    "ORDER BY c.n",
    "ORDER BY c.d.e.f",
    "ORDER BY c.missing",
    "ORDER BY c._ts DESC",
    "WHERE c.x > 0 ORDER BY c.x",
    "WHERE c.x > 0 AND c.x < 3 ORDER BY c.x DESC",
    "WHERE c.n = 1 ORDER BY c.x",
    "WHERE c.n IN (1, 2) ORDER BY c.x DESC",
    "WHERE c.x IN (\"a\", 1, null) ORDER BY c.x DESC",
    "WHERE IS_DEFINED(c.w) ORDER BY c.w DESC",
    "WHERE NOT IS_DEFINED(c.x) ORDER BY c.x",
    "WHERE CONTAINS(c.x, \"ä\") ORDER BY c.x",
];

#[test]
fn an_order_is_the_same_from_an_index_as_from_a_sort() {
    for settings in [always(), sorting()] {
        for throughput in THROUGHPUTS_HERE {
            let bench = bench_with_kinds(settings.clone(), throughput, "");
            for order in ORDERS {
                check(&bench, &format!("SELECT VALUE c.id FROM c {order}"));
                check(&bench, &format!("SELECT c.id, c.n, c.w FROM c {order}"));
            }
            for select in ["VALUE c.x", "c._rid, [{\"item\": c.x}] AS o, c.pk, c.id"] {
                check(&bench, &format!("SELECT {select} FROM c ORDER BY c.x"));
                check(&bench, &format!("SELECT TOP 70 {select} FROM c ORDER BY c.x DESC"));
            }
            check(&bench, "SELECT c.id, t FROM c JOIN t IN c.x ORDER BY c.w");
            check(&bench, "SELECT TOP 5 c.id FROM c WHERE c.n > 0 ORDER BY c.x");
            check(&bench, "SELECT c.id FROM c ORDER BY c.x DESC OFFSET 3 LIMIT 9");
        }
    }
}

const COMPOSITES: &str = r#","indexingPolicy":{"compositeIndexes":[
    [{"path":"/n"},{"path":"/x","order":"descending"}],
    [{"path":"/x","order":"descending"},{"path":"/n","order":"ascending"}],
    [{"path":"/w"},{"path":"/d/e/f"},{"path":"/n"}]]}"#;

#[test]
fn several_columns_come_from_a_composite_index_in_both_directions() {
    for settings in [always(), sorting()] {
        for throughput in THROUGHPUTS_HERE {
            let bench = bench_with_kinds(settings.clone(), throughput, COMPOSITES);
            for order in [
                "ORDER BY c.n, c.x DESC",
                "ORDER BY c.n DESC, c.x",
                "ORDER BY c.x DESC, c.n",
                "ORDER BY c.x, c.n DESC",
                "ORDER BY c.w, c.d.e.f, c.n",
                "ORDER BY c.w DESC, c.d.e.f DESC, c.n DESC",
                "WHERE c.n = 1 ORDER BY c.n, c.x DESC",
                "WHERE c.n = 1 AND c.x > 0 ORDER BY c.n DESC, c.x ASC",
                "WHERE c.n >= 1 AND c.n < 3 ORDER BY c.n DESC, c.x ASC",
                "WHERE c.x IN (1, \"a\") ORDER BY c.x, c.n DESC",
                "WHERE STARTSWITH(c.x, \"ää\") ORDER BY c.x DESC, c.n",
                "WHERE c.n = 1 AND c.x = 1",
                "WHERE c.n = 1 AND c.x > 0",
                "WHERE c.n = 2 AND c.x >= \"A\" AND c.x <= \"b\"",
                "WHERE c.x = 1 AND c.n IN (0, 1, 3)",
                "WHERE c.n = 1 AND c.x = 1 AND c.w > 0",
                "WHERE c.n = 9 AND c.x > \"b\" AND c.w > \"\"",
                "WHERE c.w = 1 AND c.d.e.f = \"ab\" AND c.n = 2",
            ] {
                check(&bench, &format!("SELECT VALUE c.id FROM c {order}"));
                check(&bench, &format!("SELECT c.n, c.x, c.w FROM c {order}"));
            }
        }
    }
}

fn refusal(bench: &Bench, query: &str) -> String {
    let error = run(bench, global(query)).result.unwrap_err();
    let scanned = run(bench, scan_only(global(query))).result.unwrap_err();
    assert_eq!(error, scanned, "{query}");
    error.message
}

#[test]
fn an_order_without_an_index_is_refused_in_the_service_s_words() {
    let policy = r#","indexingPolicy":{"excludedPaths":[{"path":"/w/*"}],"compositeIndexes":[
        [{"path":"/n"},{"path":"/x","order":"descending"}]]}"#;
    let bench = bench_with_kinds(always(), 400, policy);
    let excluded = "The index path corresponding to the specified order-by item is excluded.";
    let composite = "The order by query does not have a corresponding composite index that it can \
                     be served from.";
    for (order, message) in [
        ("c.w", excluded),
        ("c.n, c.x", composite),
        ("c.x DESC, c.n", composite),
        ("c.n, c.x DESC, c.id", composite),
    ] {
        let said = refusal(&bench, &format!("SELECT * FROM c ORDER BY {order}"));
        assert_eq!(said, format!(r#"{{"Errors":["{message}"]}}"#), "{order}");
    }
    check(&bench, "SELECT c.id FROM c WHERE c.w = 1 AND c.n = 1");
    check(&bench, "SELECT c.n, COUNT(c.w) AS k FROM c GROUP BY c.n");
}

#[test]
fn without_an_index_filters_scan() {
    let policy = r#","indexingPolicy":{"indexingMode":"none","automatic":false}"#;
    let bench = bench_with_kinds(always(), 400, policy);
    for condition in CONDITIONS {
        check(&bench, &format!("SELECT VALUE c.id FROM c WHERE {condition}"));
    }
    check(&bench, "SELECT VALUE COUNT(1) FROM c");
    refusal(&bench, "SELECT * FROM c ORDER BY c.n");
}

#[test]
fn items_that_are_to_stay_out_of_the_index_are_seen_by_every_plan() {
    let bench = bench_with_kinds(always(), 400, "");
    let count = || all(&bench, &global("SELECT VALUE COUNT(1) FROM c"));
    let before: u64 = count()[0].parse().unwrap();
    let hidden = item(r#"{"id":"hidden","pk":"k1","x":1,"n":1}"#, None);
    let hidden = NewItem { indexing: Indexing::Exclude, ..hidden };
    bench.run(Op::CreateItem { container: path(), item: hidden }).result.unwrap();
    assert_eq!(count(), [(before + 1).to_string()]);
    bench.assert_whole();
    for query in [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE c.id FROM c WHERE c.x = 1",
        "SELECT VALUE c.id FROM c ORDER BY c.x",
        "SELECT VALUE MAX(c.n) FROM c",
        "SELECT DISTINCT VALUE c.x FROM c",
    ] {
        check(&bench, query);
        let query = global(query);
        assert_eq!(sorted(all(&bench, &query)), sorted(all(&bench, &scan_only(query.clone()))));
    }
    bench.delete("hidden", r#"["k1"]"#).result.unwrap();
    bench.assert_whole();
}

#[test]
fn a_count_under_one_key_looks_at_no_item() {
    for throughput in THROUGHPUTS_HERE {
        let bench = bench_with_kinds(QuerySettings::default(), throughput, "");
        let query =
            QueryRequest { scope: key(r#"["k3"]"#), ..global("SELECT VALUE COUNT(1) FROM c") };
        let counted = page(&bench, query.clone());
        assert_eq!(counted.rows, all(&bench, &scan_only(query)));
        let loaded: u64 = counted.report.leaves.iter().map(|leaf| leaf.documents_loaded).sum();
        assert_eq!(loaded, 0, "{:?}", counted.report.leaves);
    }
}

#[test]
fn an_index_saves_looking_at_items() {
    let bench = bench_with_kinds(always(), 400, COMPOSITES);
    for (query, most) in [
        ("SELECT * FROM c WHERE c.x = 1", 4),
        ("SELECT * FROM c WHERE c.x = 1 AND c.n = 1", 2),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.x = 1 AND c.n = 1", 0),
        ("SELECT * FROM c WHERE c.x > 1 AND c.x < 3", 4),
        ("SELECT * FROM c WHERE LOWER(c.x) = \"abc\"", 15),
        ("SELECT * FROM c WHERE ARRAY_CONTAINS(c.x, \"b\")", 2),
        ("SELECT VALUE c FROM c JOIN t IN c.x WHERE t.n = 2", 2),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.x > 1", 1),
        ("SELECT VALUE MAX(c.n) FROM c", 2),
        ("SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n", 2),
    ] {
        let report = page(&bench, global(query)).report;
        let loaded: u64 = report.leaves.iter().map(|leaf| leaf.documents_loaded).sum();
        assert!(loaded <= most, "{query} looked at {loaded} items: {:?}", report.leaves);
        assert!(report.leaves.iter().all(|leaf| !leaf.indexes_used.is_empty()), "{query}");
    }
    let few = PageRequest { items_max: Some(3), continuation: None };
    for order in ["c.x", "c.x DESC", "c.n, c.x DESC"] {
        let query = global(&format!("SELECT * FROM c ORDER BY {order}"));
        let report = page(&bench, QueryRequest { page: few.clone(), ..query }).report;
        let loaded: u64 = report.leaves.iter().map(|leaf| leaf.documents_loaded).sum();
        assert!(loaded <= 24, "ORDER BY {order} looked at {loaded} items");
    }
}

#[test]
fn partitions_load_only_the_rows_that_are_left_after_merging() {
    let bench = Bench::with_queries(always());
    fill(&bench, 42_000);
    for (text, rows) in [
        ("SELECT TOP 10 * FROM c WHERE c.n > 20 ORDER BY c.n", 10),
        ("SELECT TOP 10 * FROM c WHERE c.n < 40 ORDER BY c.n DESC", 10),
        ("SELECT TOP 10 * FROM c WHERE c.n IN (3, 5, 7, 50) ORDER BY c.n DESC", 4),
        ("SELECT * FROM c WHERE c.n >= 50 ORDER BY c.n OFFSET 2 LIMIT 3", 3),
        ("SELECT TOP 10 * FROM c ORDER BY c.n", 10),
        ("SELECT TOP 10 * FROM c ORDER BY c.n DESC", 10),
        ("SELECT TOP 9 * FROM c ORDER BY c.missing DESC", 9),
        ("SELECT TOP 9 * FROM c ORDER BY c.missing", 9),
        ("SELECT TOP 10 * FROM c ORDER BY c.m, c.n DESC", 10),
        ("SELECT TOP 10 * FROM c ORDER BY c.m DESC, c.n", 10),
        ("SELECT TOP 10 * FROM c ORDER BY c.s DESC, c.n", 10),
        ("SELECT TOP 10 * FROM c ORDER BY c.s, c.n DESC", 10),
    ] {
        let whole = page(&bench, global(text));
        assert_eq!(whole.rows, expected(&bench, text), "{text}");
        assert_eq!(whole.rows.len(), rows, "{text}");
        let loaded: u64 = whole.report.leaves.iter().map(|leaf| leaf.documents_loaded).sum();
        let passed_over = if text.contains("OFFSET") { 2 } else { 0 };
        assert_eq!(loaded, rows as u64 + passed_over, "{text}: {:?}", whole.report.leaves);
        for rows_max in [1, 3, 7] {
            assert_eq!(all_in_pages(&bench, &global(text), rows_max), whole.rows, "{text}");
        }
    }
}

#[test]
fn no_item_is_loaded_for_what_keys_tell() {
    for throughput in THROUGHPUTS_HERE {
        let bench = Bench::with_queries(always());
        fill(&bench, throughput);
        for text in [
            "SELECT TOP 10 c.id FROM c ORDER BY c.n",
            "SELECT c.id, c.pk, c._rid FROM c WHERE c.n > 20 ORDER BY c.n DESC",
            "SELECT TOP 9 c.m, c.n, c.id FROM c ORDER BY c.m DESC, c.n",
            "SELECT VALUE {\"double\": c.n * 2, \"none\": c.missing ?? 0} FROM c \
             ORDER BY c.n OFFSET 3 LIMIT 5",
            "SELECT VALUE c.id FROM c ORDER BY c.missing DESC",
        ] {
            let whole = page(&bench, global(text));
            // Only the columns of the order and the keys are known.
            let is_known = !text.contains("?? 0");
            assert_eq!(whole.rows, expected(&bench, text), "{text}");
            let loaded: u64 = whole.report.leaves.iter().map(|leaf| leaf.documents_loaded).sum();
            assert_eq!(loaded == 0, is_known, "{text}: {:?}", whole.report.leaves);
            for rows_max in [1, 3, 7] {
                assert_eq!(all_in_pages(&bench, &global(text), rows_max), whole.rows, "{text}");
            }
        }
    }
}

#[test]
fn a_range_of_its_own_gives_the_rows_of_keys_in_order() {
    let bench = Bench::with_queries(always());
    fill(&bench, 42_000);
    for text in ["SELECT c.id, c.n FROM c ORDER BY c.n DESC", "SELECT c.m FROM c ORDER BY c.m, c.a"]
    {
        for id in 0..7 {
            let query = QueryRequest { scope: range(id), ..as_service(text) };
            let scanned = all(&bench, &scan_only(query.clone()));
            for rows_max in [1, 2, 1_000] {
                assert_eq!(all_in_pages(&bench, &query, rows_max), scanned, "{text} of {id}");
            }
        }
    }
}

#[test]
fn a_place_whose_item_has_expired_has_no_row() {
    for throughput in THROUGHPUTS_HERE {
        let bench = Bench::with_queries(always());
        bench.make_container(throughput, &format!(r#"{KEY_PK},"defaultTtl":10"#));
        for n in 0..60 {
            let ttl = if n % 3 == 0 { r#","ttl":-1"# } else { "" };
            let body = format!(r#"{{"id":"i{n}","pk":"k{}","n":{n}{ttl}}}"#, n % 13);
            bench.create(&body).result.unwrap();
        }
        bench.clock.advance_millis(11_000);
        for text in [
            "SELECT TOP 7 VALUE c.n FROM c WHERE c.n > 4 ORDER BY c.n",
            "SELECT TOP 7 VALUE c.n FROM c WHERE c.n < 44 ORDER BY c.n DESC",
            "SELECT VALUE c.n FROM c WHERE c.n > 30 ORDER BY c.n",
            "SELECT TOP 7 VALUE c.id FROM c ORDER BY c.n",
            "SELECT VALUE c.id FROM c ORDER BY c.n DESC",
        ] {
            let expected = all(&bench, &scan_only(global(text)));
            assert!(expected.len() >= 7, "{text}");
            for rows_max in [1, 2, 5, 100] {
                assert_eq!(all_in_pages(&bench, &global(text), rows_max), expected, "{text}");
            }
        }
    }
}

#[test]
fn an_item_that_is_made_again_is_found_where_it_is_now() {
    for throughput in THROUGHPUTS_HERE {
        let bench = Bench::with_queries(always());
        fill(&bench, throughput);
        for text in [
            "SELECT VALUE c.id FROM c WHERE c.n = 7",
            "SELECT VALUE c.id FROM c WHERE c.n > 6 AND c.n < 8 ORDER BY c.n",
        ] {
            let query = global(text);
            for _ in 0..3 {
                assert_eq!(all(&bench, &query), [r#""i7""#]);
                bench.delete("i7", r#"["k7"]"#).result.unwrap();
                assert_eq!(all(&bench, &query), [] as [&str; 0]);
                bench.create(r#"{"id":"i7","pk":"k7","n":7}"#).result.unwrap();
                assert_eq!(all(&bench, &query), [r#""i7""#]);
            }
        }
    }
}

/// The length of the longest key in the index.
fn longest_key(bench: &Bench) -> usize {
    bench.index_keys().iter().map(Vec::len).max().unwrap()
}

#[test]
fn a_container_of_old_keeps_its_long_terms_and_answers_alike() {
    for throughput in THROUGHPUTS_HERE {
        let bench = Bench::with_queries(always());
        bench.make_container(throughput, KEY_PK);
        let bench = bench.with_long_terms();
        fill_with_kinds(&bench);
        let long = "ä".repeat(700);
        let middle = "m".repeat(300);
        for n in 0..6 {
            let body = format!(r#"{{"id":"m{n}","pk":"k{n}","x":"{middle}{}","w":{n}}}"#, n % 4);
            bench.create(&body).result.unwrap();
        }
        for query in [
            format!("SELECT VALUE c.id FROM c WHERE c.x = '{middle}1'"),
            format!("SELECT VALUE c.id FROM c WHERE c.x > '{middle}1'"),
            format!("SELECT VALUE c.id FROM c WHERE c.x <= '{long}b'"),
            format!("SELECT VALUE c.id FROM c WHERE STARTSWITH(c.x, '{middle}')"),
            "SELECT VALUE c.id FROM c WHERE c.x > 'b' ORDER BY c.x".to_owned(),
            "SELECT VALUE c.id FROM c ORDER BY c.x DESC".to_owned(),
            format!("SELECT VALUE COUNT(1) FROM c WHERE c.x > '{middle}'"),
            "SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.x) AND NOT IS_DEFINED(c.d.e.f)".to_owned(),
        ] {
            check(&bench, &query);
        }
        assert!(longest_key(&bench) > 1_024);
        bench.upsert(r#"{"id":"m1","pk":"k1","x":"short"}"#, None).result.unwrap();
        bench.delete("m2", r#"["k2"]"#).result.unwrap();
        let bench = bench.reopened();
        bench.upsert(&format!(r#"{{"id":"m3","pk":"k3","x":"{long}"}}"#), None).result.unwrap();
        bench.assert_whole();
        let new = bench_with_kinds(always(), throughput, "");
        assert!(longest_key(&new) < 256);
    }
}
