//! Filters that no index answers, decided on columns of the index: the rows are those of a scan,
//! whatever happens between two pages, and cost the same whatever is remembered.

use partita_engine::{Maintenance, MaintenanceBudget, QuerySettings, SplitAt};

use super::*;

/// No partition is too small, and nothing is looked at before.
fn bench() -> Bench {
    Bench::with_queries(QuerySettings {
        scan_items: 0,
        sample_items: 0,
        cache_entries_min: 1,
        ..QuerySettings::default()
    })
}

const QUERIES: [&str; 16] = [
    "SELECT VALUE c.id FROM c WHERE c.a * 3 + c.b = 12",
    "SELECT c.id, c.a, c.o FROM c WHERE c.a * 3 + c.b = 12",
    "SELECT c.id, c.pk, c._rid FROM c WHERE c.a + c.b > 5",
    "SELECT VALUE c.a FROM c WHERE c.a != 3",
    "SELECT VALUE c.id FROM c WHERE c.a != c.b",
    "SELECT VALUE c.id FROM c WHERE 1 / c.a > 0 OR c.b = 1",
    "SELECT VALUE c.id FROM c WHERE c.a * c.b = 27021597764222979 OR c.a - c.b = 2",
    "SELECT VALUE c.id FROM c WHERE NOT (c.a + c.b > 3)",
    "SELECT VALUE c.id FROM c WHERE c.s || 'x' = 'ax' OR c.a + c.b = 3",
    "SELECT VALUE c.id FROM c WHERE LENGTH(c.s) > c.a",
    "SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.a) OR c.a + c.b = 1",
    "SELECT VALUE c.id FROM c WHERE c.o.x + c.a > 4",
    "SELECT VALUE c.pk FROM c WHERE c.a ?? c.b",
    "SELECT TOP 7 VALUE c.id FROM c WHERE c.a + c.b >= 0",
    "SELECT DISTINCT VALUE c.b FROM c WHERE c.a + c.b >= 2",
    "SELECT VALUE 1 FROM c WHERE c.a + c.b < 9",
];

/// What indexes find hard is here and there among plain numbers.
fn body(n: usize) -> String {
    let a = match n % 17 {
        3 => String::new(),
        5 => r#","a":null"#.to_owned(),
        7 => r#","a":[1,2]"#.to_owned(),
        8 => r#","a":9007199254740993"#.to_owned(),
        11 => r#","a":-0.0"#.to_owned(),
        12 => r#","a":"text""#.to_owned(),
        13 => r#","a":true"#.to_owned(),
        _ => format!(r#","a":{}"#, n % 5),
    };
    let s = match n % 6 {
        0 => r#","s":"a""#.to_owned(),
        1 => format!(r#","s":"{}{n}""#, "lang".repeat(260)),
        2 => r#","s":"\ud800""#.to_owned(),
        _ => String::new(),
    };
    let o = if n % 4 == 1 { format!(r#","o":{{"x":{}}}"#, n % 7) } else { String::new() };
    format!(r#"{{"id":"i{n}","pk":"k{}","b":{}{a}{s}{o}}}"#, n % 13, n % 7)
}

fn fill(bench: &Bench, throughput: u32, items: usize) {
    bench.make_container(throughput, KEY_PK);
    for n in 0..items {
        bench.create(&body(n)).result.unwrap();
    }
}

fn is_sifted(page: &Page) -> bool {
    page.report.leaves.iter().all(|leaf| leaf.plan.contains("filter "))
}

#[track_caller]
fn assert_right(bench: &Bench) {
    for text in QUERIES {
        let scanned = all_in_pages(bench, &scan_only(global(text)), 9);
        for rows in [3, 1_000] {
            let found = all_in_pages(bench, &global(text), rows);
            if text.contains("TOP") {
                assert_eq!(found.len(), scanned.len(), "{text}");
            } else {
                assert_eq!(sorted(found), sorted(scanned.clone()), "{text}");
            }
        }
    }
}

#[test]
fn the_rows_are_those_of_a_scan() {
    for throughput in THROUGHPUTS {
        let bench = bench();
        fill(&bench, throughput, 120);
        assert_right(&bench);
        let sifted = QUERIES.iter().filter(|text| is_sifted(&page(&bench, global(text))));
        assert!(sifted.count() >= 9, "an index answers the others");
    }
}

#[test]
fn a_query_costs_the_same_whoever_asked_before() {
    let bench = bench();
    fill(&bench, 42_000, 150);
    for text in QUERIES {
        let first = page(&bench, global(text)).report;
        let second = page(&bench, global(text)).report;
        assert_eq!(first.charge, second.charge, "{text}");
        bench.upsert(&body(1), None).result.unwrap();
        assert_eq!(page(&bench, global(text)).report.charge, first.charge, "{text}");
    }
}

#[test]
fn items_are_loaded_only_where_columns_and_keys_do_not_tell() {
    let bench = bench();
    bench.make_container(400, KEY_PK);
    for n in 0..100 {
        let body = format!(r#"{{"id":"i{n}","pk":"k","a":{},"b":{}}}"#, n % 10, n % 4);
        bench.create(&body).result.unwrap();
    }
    let loaded = |text: &str| page(&bench, global(text)).report.leaves[0].documents_loaded;
    assert_eq!(loaded("SELECT VALUE c.id FROM c WHERE c.a * 3 + c.b = 6"), 0);
    assert_eq!(loaded("SELECT * FROM c WHERE c.a * 3 + c.b = 6"), 10);
    assert_eq!(loaded("SELECT VALUE c.id FROM c WHERE 1 / c.b > c.a"), 25, "zeros");
    let body = r#"{"id":"j","pk":"k","a":[1],"b":1}"#;
    bench.create(body).result.unwrap();
    assert_eq!(loaded("SELECT VALUE c.id FROM c WHERE c.a * 3 + c.b = 6"), 1, "an array");
}

#[test]
fn a_filter_that_most_items_pass_is_left_to_a_scan() {
    let settings = QuerySettings { sample_items: 64, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    bench.make_container(400, KEY_PK);
    for n in 0..1_300 {
        let body = format!(r#"{{"id":"i{n}","pk":"k{n}","a":{},"b":{}}}"#, n % 10, n % 4);
        bench.create(&body).result.unwrap();
    }
    let most = page(&bench, global("SELECT VALUE c.id FROM c WHERE c.a + c.b >= 0"));
    assert!(!is_sifted(&most), "{}", most.report.leaves[0].plan);
    assert_eq!(most.report.leaves[0].documents_loaded, 101, "the page, and one more");
    let few = page(&bench, global("SELECT VALUE c.id FROM c WHERE c.a + c.b = 12.5"));
    assert!(is_sifted(&few), "{}", few.report.leaves[0].plan);
    assert_eq!(few.report.leaves[0].documents_loaded, 40, "the sample");
}

#[test]
fn pages_go_on_through_writes_splits_and_other_policies() {
    for (throughput, text) in THROUGHPUTS.iter().flat_map(|t| QUERIES[..3].iter().map(|q| (*t, q)))
    {
        let bench = bench();
        fill(&bench, throughput, 120);
        let mut rows = Vec::new();
        let mut continuation = None;
        for step in 0.. {
            let request = PageRequest { items_max: Some(2), continuation };
            let page = page(&bench, QueryRequest { page: request, ..global(text) });
            rows.extend(page.rows);
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
            match step {
                // What passes the filter is left as it is.
                0 => drop(bench.create(r#"{"id":"new","pk":"k1","a":0,"b":0}"#).result.unwrap()),
                1 => {
                    let op = Op::SplitPartition {
                        container: path(),
                        range_id: "0".into(),
                        at: SplitAt::Midpoint,
                    };
                    bench.run(op).result.unwrap();
                    settle(&bench);
                }
                2 => {
                    let policy =
                        r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#;
                    let body = format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{policy}}}"#);
                    let (container, body) = (path(), json(&body));
                    let op = Op::ReplaceContainer { container, body, condition: None };
                    bench.run(op).result.unwrap();
                }
                3 => settle(&bench),
                _ => {}
            }
        }
        assert_eq!(sorted(rows), sorted(expected(&bench, text)), "{text}");
        bench.assert_whole();
    }
}

fn settle(bench: &Bench) {
    let budget = MaintenanceBudget::default();
    while bench.database.maintain(&budget).unwrap() != Maintenance::Idle {}
}

#[test]
fn expired_items_are_not_seen_and_those_that_are_to_stay_out_of_the_index_are() {
    let bench = bench();
    bench.make_container(42_000, &format!(r#"{KEY_PK},"defaultTtl":10"#));
    for n in 0..60 {
        let ttl = if n % 2 == 0 { r#","ttl":-1"# } else { "" };
        let body = format!(r#"{{"id":"i{n}","pk":{n},"a":{},"b":1{ttl}}}"#, n % 3);
        let mut new = item(&body, None);
        if n >= 40 {
            new.indexing = partita_engine::Indexing::Exclude;
        }
        bench.run(Op::CreateItem { container: path(), item: new }).result.unwrap();
    }
    for (millis, count) in [(0, 20), (11_000, 10)] {
        bench.clock.advance_millis(millis);
        for text in
            ["SELECT VALUE c.id FROM c WHERE c.a + c.b = 1", "SELECT * FROM c WHERE c.a + c.b = 1"]
        {
            let found = page(&bench, global(text));
            assert!(is_sifted(&found), "{text}");
            assert_eq!(all_in_pages(&bench, &global(text), 4).len(), count, "{text}");
            assert_eq!(all(&bench, &scan_only(global(text))).len(), count, "{text}");
        }
    }
}

#[test]
fn what_columns_do_not_have_is_scanned() {
    let bench = Bench::with_queries(QuerySettings {
        scan_items: 0,
        cache_entries_min: 1,
        ..QuerySettings::default()
    });
    bench.make_container(400, KEY_PK);
    for n in 0..1_300 {
        let long = "lang".repeat(100);
        let body = format!(
            r#"{{"id":"i{n}","pk":"k{}","a":-{n}.5,"short":"s{n}","long":"{long}{n}","list":[{n}]}}"#,
            n % 13
        );
        bench.create(&body).result.unwrap();
    }
    let sifted = |path: &str| {
        let text = format!("SELECT VALUE c.id FROM c WHERE LENGTH({path}) = c.a");
        is_sifted(&page(&bench, global(&text)))
    };
    assert!(sifted("c.short"));
    assert!(!sifted("c.long"), "strings that the index cuts");
    assert!(!sifted("c.list"), "arrays");
}
