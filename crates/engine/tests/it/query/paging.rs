//! Every row comes once and in order, whatever the size of the pages.

use partita_engine::{PageRequest, QueryRequest, QuerySettings};

use super::*;

const UNORDERED: [&str; 7] = [
    "SELECT * FROM c",
    "SELECT c.id FROM c WHERE c.n % 3 = 0",
    "SELECT VALUE c.n FROM c WHERE c.pk = 'k3'",
    "SELECT c.id, t FROM c JOIN t IN c.tags",
    "SELECT VALUE t FROM t IN c.tags",
    "SELECT VALUE c.a FROM c",
    "SELECT * FROM c WHERE false",
];

const ORDERED: [&str; 8] = [
    "SELECT VALUE c.id FROM c ORDER BY c.n",
    "SELECT VALUE c.id FROM c ORDER BY c.n DESC",
    "SELECT c.id, c.a FROM c ORDER BY c.a",
    "SELECT c.id, c.a FROM c ORDER BY c.a DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.m, c.n DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.m DESC, c.a ASC",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.m",
    "SELECT VALUE c.id FROM c WHERE c.n > 20 ORDER BY c.m OFFSET 3 LIMIT 30",
];

#[test]
fn every_row_comes_once_whatever_the_page_size() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in UNORDERED {
            let expected = sorted(expected(&bench, text));
            for query in [global(text), scan_only(global(text)), as_service(text)] {
                let whole = all(&bench, &query);
                assert_eq!(sorted(whole.clone()), expected, "{text}");
                for rows_max in [1, 2, 3, 7, 59, 60, 61] {
                    assert_eq!(all_in_pages(&bench, &query, rows_max), whole, "{text}");
                }
            }
        }
    }
}

#[test]
fn the_order_holds_across_partitions_and_pages() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in ORDERED {
            let expected = expected(&bench, text);
            for query in [global(text), scan_only(global(text))] {
                for rows_max in [1, 2, 3, 7, 59, 60, 61, 1_000] {
                    assert_eq!(all_in_pages(&bench, &query, rows_max), expected, "{text}");
                }
            }
        }
    }
}

#[test]
fn top_and_limit_count_over_all_pages() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in [
            "SELECT TOP 10 VALUE c.id FROM c ORDER BY c.n",
            "SELECT TOP 0 VALUE c.id FROM c ORDER BY c.n",
            "SELECT TOP 1000 VALUE c.id FROM c ORDER BY c.n",
            "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 55 LIMIT 10",
            "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 10 LIMIT 5",
            "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 100 LIMIT 5",
            "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 0 LIMIT 0",
        ] {
            let expected = expected(&bench, text);
            for rows_max in [1, 3, 5, 10, 100] {
                assert_eq!(all_in_pages(&bench, &global(text), rows_max), expected, "{text}");
            }
        }
        for rows_max in [1, 4, 100] {
            let top = global("SELECT TOP 9 c.id FROM c");
            assert_eq!(all_in_pages(&bench, &top, rows_max).len(), 9);
            let window = global("SELECT c.id FROM c OFFSET 50 LIMIT 100");
            assert_eq!(all_in_pages(&bench, &window, rows_max).len(), 10);
        }
    }
}

#[test]
fn a_full_page_that_is_the_last_has_no_continuation() {
    let bench = filled(400);
    for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT TOP 60 * FROM c"] {
        let sixty = PageRequest { items_max: Some(60), continuation: None };
        let query = scan_only(global(text));
        let page = page(&bench, QueryRequest { page: sixty, ..query });
        assert_eq!((page.rows.len(), page.continuation), (60, None), "{text}");
    }
}

#[test]
fn the_server_chooses_a_hundred_rows() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..150 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":1}}"#)).result.unwrap();
    }
    let page = page(&bench, global("SELECT * FROM c"));
    assert_eq!(page.rows.len(), 100);
    assert!(page.continuation.is_some());
}

#[test]
fn items_that_stay_come_once_while_others_come_and_go() {
    for throughput in THROUGHPUTS {
        for text in ["SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c ORDER BY c.m DESC, c.n"]
        {
            let bench = filled(throughput);
            let mut seen: Vec<String> = Vec::new();
            let mut continuation = None;
            let mut round = 0;
            loop {
                let next = PageRequest { items_max: Some(4), continuation };
                let got = page(&bench, QueryRequest { page: next, ..global(text) });
                seen.extend(got.rows.iter().map(|row| row.trim_matches('"').to_owned()));
                continuation = got.continuation;
                if continuation.is_none() {
                    break;
                }
                // The item that the page ended with goes, and new ones come.
                let last = seen.last().unwrap();
                if let Ok(n) = last[1..].parse::<u32>() {
                    bench.delete(last, &format!(r#"["k{}"]"#, n % 13)).result.unwrap();
                }
                let body =
                    format!(r#"{{"id":"x{round}","pk":"k{}","m":{}}}"#, round % 13, round % 4);
                bench.create(&body).result.unwrap();
                round += 1;
                assert!(round < 500);
            }
            let olds = seen.iter().filter(|id| id.starts_with('i'));
            let mut olds: Vec<u32> = olds.map(|id| id[1..].parse().unwrap()).collect();
            olds.sort();
            assert_eq!(olds, (0..60).collect::<Vec<_>>(), "{text}");
            let mut unique = seen.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), seen.len(), "{text}");
        }
    }
}

#[test]
fn rows_of_one_item_may_fall_on_several_pages() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let tags: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    for id in ["a", "b"] {
        let body = format!(r#"{{"id":"{id}","pk":1,"tags":[{}]}}"#, tags.join(","));
        bench.create(&body).result.unwrap();
    }
    for text in [
        "SELECT VALUE t FROM t IN c.tags",
        "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.id",
        "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.pk DESC",
    ] {
        let expected = [tags.clone(), tags.clone()].concat();
        for rows_max in [1, 7, 49, 50, 51, 100] {
            assert_eq!(all_in_pages(&bench, &global(text), rows_max), expected, "{text}");
        }
    }
}

#[test]
fn a_page_that_finds_little_is_short_and_goes_on() {
    let settings = QuerySettings { page_entries_max: 3, ..QuerySettings::default() };
    for throughput in THROUGHPUTS {
        let bench = Bench::with_queries(settings.clone());
        fill(&bench, throughput);
        let query = scan_only(as_service("SELECT VALUE c.n FROM c WHERE c.n = 17"));
        let first = page(&bench, query.clone());
        let whole = all(&bench, &query);
        assert_eq!(whole, ["17"]);
        if throughput == 400 {
            assert!(first.continuation.is_some(), "60 items take more than one page");
        }
        let everything = scan_only(global("SELECT VALUE c.n FROM c"));
        assert_eq!(all_in_pages(&bench, &everything, 5).len(), 60);
    }
}
