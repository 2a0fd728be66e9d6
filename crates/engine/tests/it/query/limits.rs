//! Queries that would take too much: they end in pages, or with an error that says why.

use partita_engine::{PageRequest, QueryRequest, QuerySettings};
use partita_model::ErrorKind;

use super::*;

#[test]
fn a_page_ends_on_its_bytes() {
    let settings = QuerySettings { page_bytes_max: 10_000, ..QuerySettings::default() };
    for throughput in THROUGHPUTS {
        let bench = Bench::with_queries(settings.clone());
        bench.make_container(throughput, KEY_PK);
        for n in 0..20 {
            let body = format!(r#"{{"id":"i{n}","pk":{n},"s":"{}"}}"#, "x".repeat(3_000));
            bench.create(&body).result.unwrap();
        }
        for text in [
            "SELECT VALUE c.s FROM c",
            "SELECT VALUE c.s FROM c ORDER BY c.id",
            "SELECT DISTINCT c.id, c.s FROM c",
            "SELECT c.id, c.s FROM c GROUP BY c.id, c.s",
        ] {
            let mut continuation = None;
            let mut rows = 0;
            loop {
                let next = PageRequest { items_max: Some(1_000), continuation };
                let got = page(&bench, QueryRequest { page: next, ..global(text) });
                assert!(got.rows.iter().map(String::len).sum::<usize>() <= 10_000, "{text}");
                rows += got.rows.len();
                continuation = got.continuation;
                if continuation.is_none() {
                    break;
                }
                assert_eq!(got.rows.len(), 3, "{text}");
            }
            assert_eq!(rows, 20, "{text}");
        }
    }
}

#[test]
fn one_row_is_delivered_however_large() {
    let settings =
        QuerySettings { page_bytes_max: 10, sort_bytes_max: 10, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    fill(&bench, 30_000);
    for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT DISTINCT * FROM c"] {
        assert_eq!(all(&bench, &global(text)).len(), 60, "{text}");
    }
}

#[test]
fn a_sort_of_large_rows_takes_several_passes() {
    let settings = QuerySettings { sort_bytes_max: 4_000, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    fill(&bench, 30_000);
    let text = "SELECT * FROM c ORDER BY c.m, c.n DESC";
    assert_eq!(all(&bench, &scan_only(global(text))), expected(&bench, text));
}

#[test]
fn what_needs_all_items_and_gets_too_many_is_an_error() {
    let settings =
        QuerySettings { whole_entries_max: 20, page_entries_max: 5, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    fill(&bench, 400);
    for text in [
        "SELECT * FROM c ORDER BY c.n",
        "SELECT c.m, MAX(c.n) FROM c GROUP BY c.m",
        "SELECT DISTINCT c.m FROM c",
    ] {
        assert_eq!(error(&run(&bench, scan_only(global(text)))), ErrorKind::Timeout, "{text}");
    }
    let plain = scan_only(global("SELECT * FROM c"));
    assert_eq!(all(&bench, &plain).len(), 60, "pages need no limit");
}

#[test]
fn too_many_different_rows_are_an_error() {
    let settings = QuerySettings { distinct_rows_max: 10, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    fill(&bench, 30_000);
    let text = "SELECT DISTINCT c.id, c.n FROM c";
    assert_eq!(error(&run(&bench, global(text))), ErrorKind::BadRequest);
    assert_eq!(all(&bench, &global("SELECT DISTINCT c.m FROM c")).len(), 4);
    let in_order = "SELECT DISTINCT c.id FROM c";
    assert_eq!(all_in_pages(&bench, &global(in_order), 7).len(), 60, "it goes on by its order");
}

#[test]
fn a_large_result_comes_whole() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..3_000 {
        let body = format!(r#"{{"id":"i{n}","pk":{n},"s":"{}"}}"#, "x".repeat(2_000));
        bench.create(&body).result.unwrap();
    }
    let mut continuation = None;
    let mut pages = Vec::new();
    loop {
        let next = PageRequest { items_max: Some(100_000), continuation };
        let got = page(&bench, QueryRequest { page: next, ..as_service("SELECT * FROM c") });
        pages.push(got.rows.len());
        continuation = got.continuation;
        if continuation.is_none() {
            break;
        }
    }
    assert_eq!(pages.iter().sum::<usize>(), 3_000);
    assert!(pages.len() >= 2, "4 MB hold fewer than 2 000 of them: {pages:?}");
}
