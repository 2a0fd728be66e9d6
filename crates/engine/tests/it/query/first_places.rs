//! The first rows of an order come from places that are remembered until their partition is written
//! to: the rows are those of the items as they are, and cost the same whoever asked before.

use partita_engine::QuerySettings;

use super::*;

/// No partition is too small, and little is worth remembering.
fn bench() -> Bench {
    Bench::with_queries(QuerySettings {
        scan_items: 0,
        cache_entries_min: 1,
        ..QuerySettings::default()
    })
}

const QUERIES: [&str; 9] = [
    "SELECT TOP 20 c.id FROM c ORDER BY c.a DESC",
    // Fewer than are remembered, and more.
    "SELECT TOP 5 c.id FROM c ORDER BY c.a DESC",
    "SELECT TOP 70 c.id, c.a AS amount, c.pk, c._rid FROM c ORDER BY c.a DESC",
    "SELECT TOP 1000 VALUE c.a FROM c ORDER BY c.a DESC",
    "SELECT TOP 30 VALUE c.a FROM c ORDER BY c.a",
    "SELECT TOP 30 * FROM c WHERE c.a > 3 ORDER BY c.a",
    "SELECT TOP 30 c.id, c.gone, c.a FROM c WHERE c.a > 3 ORDER BY c.a DESC",
    "SELECT TOP 30 c.a + 1 AS next FROM c ORDER BY c.a",
    "SELECT DISTINCT TOP 3 c.a FROM c ORDER BY c.a",
];

fn body(n: usize, a: usize) -> String {
    let a = match a % 23 {
        7 => String::new(),
        11 => r#","a":"text""#.to_owned(),
        13 => r#","a":9007199254740993"#.to_owned(),
        19 => r#","a":1.50"#.to_owned(),
        a => format!(r#","a":{a}"#),
    };
    format!(r#"{{"id":"i{n}","pk":"k{}"{a}}}"#, n % 13)
}

#[track_caller]
fn assert_right(bench: &Bench) {
    for text in QUERIES {
        let expected = expected(bench, text);
        let first = page(bench, all_of(text));
        let again = page(bench, all_of(text));
        assert_eq!(first.rows, expected, "{text}");
        assert_eq!(again.rows, expected, "{text}, remembered");
        let cost = |page: &Page| (page.report.charge, page.report.leaves.len());
        assert_eq!(cost(&first), cost(&again), "{text}");
        assert_eq!(all_in_pages(bench, &global(text), 7), expected, "{text}, in pages");
    }
}

fn all_of(text: &str) -> QueryRequest {
    let page = PageRequest { items_max: Some(10_000), continuation: None };
    QueryRequest { page, ..global(text) }
}

#[test]
fn what_is_remembered_ends_with_a_write_to_its_partition() {
    for throughput in THROUGHPUTS {
        let bench = bench();
        bench.make_container(throughput, KEY_PK);
        for n in 0..200 {
            bench.create(&body(n, n * 31)).result.unwrap();
        }
        assert_right(&bench);
        for n in 0..8 {
            bench.create(&body(1_000 + n, n * 5)).result.unwrap();
            bench.upsert(&body(n, n * 17 + 1), None).result.unwrap();
            let gone = 50 + n * 3;
            bench.delete(&format!("i{gone}"), &format!(r#"["k{}"]"#, gone % 13)).result.unwrap();
            assert_right(&bench);
        }
    }
}

#[test]
fn rows_are_right_where_only_some_partitions_can_tell_places() {
    for throughput in THROUGHPUTS {
        let bench = bench();
        bench.make_container(throughput, KEY_PK);
        for n in 0..120 {
            bench.create(&body(n, n * 31)).result.unwrap();
        }
        // Where arrays are in the order only their items know, and they are under one key.
        for n in 0..10 {
            let array = format!(r#"{{"id":"t{n}","pk":"k4","a":[{n}]}}"#);
            bench.create(&array).result.unwrap();
        }
        assert_right(&bench);
    }
}
