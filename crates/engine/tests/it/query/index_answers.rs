//! What the index answers without the items: counts and groups under a partition key or with a time
//! to live, and different values.

use partita_engine::QueryReport;

use super::*;

const KEYS: usize = 3;
const ITEMS: usize = 600;

fn many(throughput: u32, fields: &str, more: impl Fn(usize) -> String) -> Bench {
    let bench = Bench::new();
    bench.make_container(throughput, &format!("{KEY_PK}{fields}"));
    for n in 0..ITEMS {
        let (pk, m) = (n % KEYS, n / KEYS % 4);
        let body = format!(r#"{{"id":"i{n}","pk":"k{pk}","n":{n},"m":{m}{}}}"#, more(n));
        bench.create(&body).result.unwrap();
    }
    bench
}

fn loaded(report: &QueryReport) -> u64 {
    report.leaves.iter().map(|leaf| leaf.documents_loaded).sum()
}

fn entries(report: &QueryReport) -> u64 {
    report.leaves.iter().map(|leaf| leaf.entries_scanned).sum()
}

#[test]
fn counts_under_a_partition_key_load_no_item() {
    for throughput in THROUGHPUTS {
        let bench = many(throughput, "", |_| String::new());
        let without = page(&bench, global("SELECT VALUE COUNT(1) FROM c WHERE c.m = 2"));
        assert_eq!(without.rows, ["150"]);
        for (text, scope) in [
            ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1' AND c.m = 2", Scope::All),
            ("SELECT VALUE COUNT(1) FROM c WHERE c.m = 2", key(r#"["k1"]"#)),
        ] {
            let counted = page(&bench, QueryRequest { scope, ..global(text) });
            assert_eq!(counted.rows, ["50"], "{text}");
            assert_eq!(loaded(&counted.report), 0, "{text}");
            assert!(counted.report.charge.0 < 3.0 * without.report.charge.0, "{text}");
        }
        let groups = "SELECT c.m, COUNT(1) AS k FROM c WHERE c.pk IN ('k0', 'k2') GROUP BY c.m";
        let found = page(&bench, global(groups));
        assert_eq!(sorted(found.rows), sorted(expected(&bench, groups)));
    }
}

#[test]
fn with_a_time_to_live_counts_and_groups_read_the_index() {
    let ttl = |n: usize| match n % 10 {
        0 => r#","ttl":5"#.to_owned(),
        1 => r#","ttl":-1"#.to_owned(),
        _ => String::new(),
    };
    let texts = [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.m = 2",
        "SELECT VALUE SUM(c.n) FROM c WHERE c.m > 1",
        "SELECT c.m, COUNT(1) AS k FROM c GROUP BY c.m",
    ];
    for (default, advance) in [(-1, 10), (60, 10), (60, 61), (3, 4), (60, 0)] {
        let bench = many(400, &format!(r#","defaultTtl":{default}"#), ttl);
        bench.clock.advance_millis(advance * 1_000);
        let body = r#"{"id":"late","pk":"k1","n":1000,"m":2}"#;
        bench.create(body).result.unwrap();
        for text in texts {
            let by_index = page(&bench, global(text));
            let by_scan = page(&bench, scan_only(global(text)));
            assert_eq!(by_index.rows, by_scan.rows, "{text} with {default} after {advance} s");
            let few = loaded(&by_scan.report) / 4;
            assert!(loaded(&by_index.report) <= few, "{text}: {}", by_index.report);
        }
    }
}

#[test]
fn different_values_come_from_the_index_and_go_on_where_a_page_ended() {
    for throughput in THROUGHPUTS {
        let bench = many(throughput, "", |n| match n % 7 {
            0 => r#","v":["x"]"#.to_owned(),
            1 => String::new(),
            kind => format!(r#","v":{}"#, kind % 3),
        });
        for text in ["SELECT DISTINCT VALUE c.m FROM c", "SELECT DISTINCT c.m FROM c WHERE c.m > 0"]
        {
            let found = page(&bench, global(text));
            assert_eq!(sorted(found.rows), sorted(expected(&bench, text)));
            assert_eq!(loaded(&found.report), 0, "{text}");
        }
        for text in ["SELECT DISTINCT VALUE c.v FROM c", "SELECT DISTINCT c.v FROM c"] {
            let whole = sorted(expected(&bench, text));
            for rows_max in [1, 2, 100] {
                let found = all_in_pages(&bench, &global(text), rows_max);
                assert_eq!(sorted(found), whole, "{text} in pages of {rows_max}");
            }
        }
        let pages = PageRequest { items_max: Some(2), continuation: None };
        let query = QueryRequest { page: pages, ..global("SELECT DISTINCT VALUE c.m FROM c") };
        let first = page(&bench, query);
        assert!(entries(&first.report) < ITEMS as u64, "{}", first.report);
    }
}

/// The pages of a query, of so many rows each.
fn reports(bench: &Bench, query: &QueryRequest, rows_max: usize) -> Vec<QueryReport> {
    let (mut reports, mut continuation) = (Vec::new(), None);
    loop {
        let request = PageRequest { items_max: Some(rows_max), continuation };
        let got = page(bench, QueryRequest { page: request, ..query.clone() });
        reports.push(*got.report);
        continuation = got.continuation;
        if continuation.is_none() {
            return reports;
        }
    }
}

#[test]
fn a_later_page_of_different_values_costs_no_more_than_the_first() {
    for throughput in THROUGHPUTS {
        let bench = many(throughput, "", |n| format!(r#","v":{}"#, n % 60));
        for (text, rows_max, pages) in [
            ("SELECT DISTINCT VALUE c.m FROM c", 1, 4),
            ("SELECT DISTINCT c.m FROM c", 1, 4),
            ("SELECT DISTINCT VALUE c.v FROM c", 5, 12),
            ("SELECT DISTINCT VALUE c.v FROM c WHERE c.v >= 10", 5, 10),
            ("SELECT DISTINCT VALUE c.n FROM c", 50, 12),
        ] {
            let reports = reports(&bench, &global(text), rows_max);
            assert!(reports.len() >= pages, "{text}");
            let whole = page(&bench, global(&text.replace("DISTINCT ", "")));
            let first = &reports[0];
            for report in &reports {
                assert_eq!(loaded(report), 0, "{text}: {report}");
                assert!(entries(report) <= entries(first) + 2, "{text}: {first}{report}");
                assert!(report.charge.0 <= first.charge.0 * 1.1, "{text}: {first}{report}");
            }
            let all: f64 = reports.iter().map(|report| report.charge.0).sum();
            let asked = 3.0 * reports.len() as f64 * bench.partitions().len() as f64;
            assert!(all <= asked + whole.report.charge.0, "{text}: {all} RU");
        }
    }
}

#[test]
fn under_a_partition_key_and_with_a_time_to_live_nothing_is_loaded_in_vain() {
    for throughput in [400, 30_000] {
        for fields in ["", r#","defaultTtl":-1"#, r#","defaultTtl":3600"#] {
            let bench = many(throughput, fields, |_| String::new());
            for (text, scope) in [
                ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", Scope::All),
                ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1' AND c.m = 2", Scope::All),
                ("SELECT VALUE COUNT(1) FROM c WHERE c.pk IN ('k0', 'k2') AND c.m > 1", Scope::All),
                ("SELECT VALUE SUM(c.n) FROM c WHERE c.pk = 'k1' AND c.m = 2", Scope::All),
                ("SELECT c.m, COUNT(1) AS k FROM c WHERE c.pk = 'k1' GROUP BY c.m", Scope::All),
                ("SELECT c.m, COUNT(1) AS k FROM c GROUP BY c.m", key(r#"["k1"]"#)),
                ("SELECT VALUE COUNT(1) FROM c", key(r#"["k1"]"#)),
                ("SELECT c.pk, COUNT(1) AS k FROM c GROUP BY c.pk", Scope::All),
            ] {
                let query = QueryRequest { scope, ..global(text) };
                let by_index = page(&bench, query.clone());
                let by_scan = page(&bench, scan_only(query));
                assert_eq!(by_index.rows, by_scan.rows, "{text}");
                assert_eq!(loaded(&by_index.report), 0, "{text}{fields}: {}", by_index.report);
            }
        }
    }
}
