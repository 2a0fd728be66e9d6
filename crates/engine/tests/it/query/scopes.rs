//! The parts of a container that a query may be about.

use partita_engine::QueryRequest;
use partita_model::{Epk, EpkRange, ErrorKind};

use super::*;

fn ids(bench: &Bench, scope: Scope, rows_max: usize) -> Vec<String> {
    let query = QueryRequest { scope, ..as_service("SELECT VALUE c.id FROM c") };
    all_in_pages(bench, &query, rows_max)
}

#[test]
fn a_partition_key_has_its_own_items() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let own = sorted(expected(&bench, "SELECT VALUE c.id FROM c WHERE c.pk = 'k4'"));
        for rows_max in [1, 2, 100] {
            assert_eq!(sorted(ids(&bench, key(r#"["k4"]"#), rows_max)), own);
        }
        assert!(ids(&bench, key(r#"["nobody"]"#), 10).is_empty());
    }
}

#[test]
fn keys_that_share_a_hash_have_results_of_their_own() {
    for throughput in THROUGHPUTS {
        let bench = Bench::new();
        let definition = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}"#;
        bench.make_container(throughput, definition);
        let common = "x".repeat(150);
        for last in ["a", "b"] {
            for n in 0..3 {
                let body = format!(r#"{{"id":"{last}{n}","pk":"{common}{last}"}}"#);
                bench.create(&body).result.unwrap();
            }
        }
        let found = ids(&bench, key(&format!(r#"["{common}b"]"#)), 2);
        assert_eq!(sorted(found), [r#""b0""#, r#""b1""#, r#""b2""#]);
    }
}

#[test]
fn a_prefix_of_a_hierarchical_key_covers_its_tenants() {
    for throughput in THROUGHPUTS {
        let bench = Bench::new();
        let definition = r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
        bench.make_container(throughput, definition);
        for n in 0..40 {
            bench.create(&format!(r#"{{"id":"i{n}","t":"t{}","u":{n}}}"#, n % 4)).result.unwrap();
        }
        assert_eq!(ids(&bench, key(r#"["t2"]"#), 3).len(), 10);
        assert_eq!(ids(&bench, key(r#"["t2",6]"#), 3), [r#""i6""#]);
        let too_long =
            QueryRequest { scope: key(r#"["t2",6,1]"#), ..as_service("SELECT * FROM c") };
        assert_eq!(error(&run(&bench, too_long)), ErrorKind::PartitionKeyMismatch);
        // A prefix may have its items in several partitions: then nobody merges for the client.
        let counted = as_service("SELECT VALUE COUNT(1) FROM c");
        let counted = QueryRequest { scope: key(r#"["t2"]"#), ..counted };
        assert_eq!(all(&bench, &counted), ["10"], "these are all in one partition");
    }
}

#[test]
fn the_partitions_divide_the_rows() {
    let bench = filled(30_000);
    let parts: Vec<Vec<String>> = (0..5).map(|id| ids(&bench, range(id), 4)).collect();
    assert!(parts.iter().filter(|part| !part.is_empty()).count() > 2, "the hash spreads the keys");
    assert_eq!(parts.concat(), ids(&bench, Scope::All, 1_000));
    let query = QueryRequest { scope: range(5), ..as_service("SELECT * FROM c") };
    assert_eq!(error(&run(&bench, query)), ErrorKind::RangeGone);
}

#[test]
fn a_range_may_be_narrowed_and_epks_may_be_named_alone() {
    let bench = filled(30_000);
    let epk = |hex: &str| Epk::parse_hex(hex).unwrap();
    let first = ids(&bench, range(0), 100);
    let half = |min: &str, max: &str| EpkRange::new(epk(min), epk(max));
    let (low, high) = (half("", "06"), half("06", "FF"));
    let within = |range: EpkRange| Scope::Range { id: "0".into(), within: Some(range) };
    let parts = [ids(&bench, within(low.clone()), 3), ids(&bench, within(high), 3)].concat();
    assert_ne!(parts, first, "each part is in the order of age");
    assert_eq!(sorted(parts), sorted(first));
    assert_eq!(ids(&bench, Scope::Epks(low.clone()), 3), ids(&bench, within(low), 3));
    let everything =
        QueryRequest { scope: Scope::Epks(EpkRange::all()), ..as_service("SELECT * FROM c") };
    assert_eq!(error(&run(&bench, everything)), ErrorKind::RangeGone);
}

#[test]
fn a_filter_on_the_partition_key_asks_only_where_the_keys_are() {
    let bench = filled(42_000);
    for (text, units_max) in [
        ("SELECT * FROM c WHERE c.pk = 'k1'", 1),
        ("SELECT * FROM c WHERE c.pk IN ('k1','k2')", 2),
        ("SELECT * FROM c WHERE c.pk = 'k1' AND c.n > 3 OR c.pk = 'k7'", 2),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'k1'", 1),
        ("SELECT * FROM c WHERE c.pk = 'k1' AND c.pk = 'k2'", 0),
    ] {
        let page = page(&bench, scan_only(global(text)));
        assert!(page.report.leaves.len() <= units_max, "{text}: {}", page.report);
        assert_eq!(sorted(page.rows), sorted(expected(&bench, text)), "{text}");
    }
}

#[test]
fn a_query_without_from_has_one_row_and_needs_no_item() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for scope in [Scope::All, key(r#"["k1"]"#), range(0)] {
            let query =
                QueryRequest { scope, cross_partition: false, ..as_service("SELECT 1 + 1 AS two") };
            assert_eq!(all(&bench, &query), [r#"{"two":2}"#]);
        }
    }
}

#[test]
fn a_container_without_partition_key_is_asked_without_one() {
    let bench = Bench::new();
    bench.make_database("db");
    let op = Op::CreateContainer {
        database: partita_engine::DatabasePath("db".into()),
        body: json(r#"{"id":"c"}"#),
        throughput: None,
        key_required: partita_engine::KeyRequired::No,
    };
    bench.run(op).result.unwrap();
    for n in 0..3 {
        bench.create(&format!(r#"{{"id":"i{n}"}}"#)).result.unwrap();
    }
    for scope in [Scope::All, key("[]")] {
        let query = as_service("SELECT VALUE COUNT(1) FROM c");
        let query = QueryRequest { scope, cross_partition: false, ..query };
        assert_eq!(all(&bench, &query), ["3"]);
    }
}
