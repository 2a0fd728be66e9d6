//! Results that need all partitions: the server puts them together.

use partita_engine::QuerySettings;

use super::*;

const WHOLE: [&str; 12] = [
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT COUNT(1) AS n, SUM(c.n) AS s, MIN(c.n) AS low, MAX(c.n) AS high FROM c",
    "SELECT VALUE AVG(c.n) FROM c WHERE c.n > 30",
    "SELECT VALUE SUM(c.a) FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE false",
    "SELECT c.m, COUNT(1) AS n FROM c GROUP BY c.m",
    "SELECT c.a, c.m, MAX(c.n) AS high FROM c GROUP BY c.a, c.m",
    "SELECT DISTINCT VALUE c.m FROM c",
    "SELECT DISTINCT c.a FROM c",
    "SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.m FROM c)",
    "SELECT c.pk, SUM(c.n) AS s FROM c GROUP BY c.pk",
];

#[test]
fn the_whole_is_the_sum_of_the_partitions() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in WHOLE {
            let expected = sorted(expected(&bench, text));
            for query in [global(text), scan_only(global(text))] {
                let whole = all(&bench, &query);
                assert_eq!(sorted(whole.clone()), expected, "{text}");
                for rows_max in [1, 2, 3] {
                    assert_eq!(all_in_pages(&bench, &query, rows_max), whole, "{text}");
                }
            }
        }
    }
}

#[test]
fn distinct_rows_keep_their_order() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in [
            "SELECT DISTINCT VALUE c.m FROM c ORDER BY c.m DESC",
            "SELECT DISTINCT c.a, c.m FROM c ORDER BY c.m, c.a",
            "SELECT DISTINCT VALUE c.m FROM c ORDER BY c.m OFFSET 1 LIMIT 2",
        ] {
            let expected = expected(&bench, text);
            for rows_max in [1, 2, 100] {
                assert_eq!(all_in_pages(&bench, &global(text), rows_max), expected, "{text}");
            }
        }
    }
}

#[test]
fn groups_are_counted_by_top_and_limit() {
    let bench = filled(30_000);
    for text in [
        "SELECT TOP 3 c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
        "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk OFFSET 11 LIMIT 10",
        "SELECT DISTINCT VALUE c.pk FROM c OFFSET 5 LIMIT 4",
        "SELECT DISTINCT TOP 4 c.pk FROM c",
    ] {
        let whole = all(&bench, &global(text));
        assert_eq!(whole.len(), expected(&bench, text).len(), "{text}");
        for rows_max in [1, 2, 3] {
            assert_eq!(all_in_pages(&bench, &global(text), rows_max), whole, "{text}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let with_threads = |parallelism| {
        let settings =
            QuerySettings { parallelism, helpers_after_micros: 0, ..QuerySettings::default() };
        let bench = Bench::with_queries(settings);
        fill(&bench, 42_000);
        bench
    };
    let serial = with_threads(1);
    for threads in [2, 3, 16] {
        let parallel = with_threads(threads);
        let texts = WHOLE.iter().chain(&[
            "SELECT * FROM c",
            "SELECT * FROM c WHERE c.n = 59",
            "SELECT * FROM c ORDER BY c.m DESC",
            "SELECT c.id, t FROM c JOIN t IN c.tags WHERE c.n > 5",
        ]);
        for text in texts {
            for rows_max in [2, 1_000] {
                let request = || QueryRequest {
                    page: PageRequest { items_max: Some(rows_max), continuation: None },
                    ..global(text)
                };
                let (one, many) = (page(&serial, request()), page(&parallel, request()));
                assert_eq!(one.rows, many.rows, "{text}");
                assert_eq!(one.continuation, many.continuation, "{text}");
                assert_eq!(one.report.charge, many.report.charge, "{text}");
            }
        }
    }
}

#[test]
fn an_aggregate_of_nothing_is_still_a_row() {
    for throughput in THROUGHPUTS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        assert_eq!(all(&bench, &global("SELECT VALUE COUNT(1) FROM c")), ["0"]);
        assert!(all(&bench, &global("SELECT VALUE MAX(c.n) FROM c")).is_empty());
        let nowhere = "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 1 AND c.pk = 2";
        assert_eq!(all(&bench, &global(nowhere)), ["0"]);
    }
}
