//! Feeds of items, whole and in parts.

use std::collections::BTreeSet;

use partita_engine::{Op, Outcome, PageRequest, QuerySettings, Scope};
use partita_model::{ErrorKind, PartitionKeyHeader};

use crate::harness::*;

fn ids(bench: &Bench, scope: &Scope, page_items: usize) -> Vec<String> {
    bench.list(scope, page_items).iter().map(|item| text(item, "id")).collect()
}

#[test]
fn every_item_comes_once_whatever_the_page_size() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for n in 0..57 {
            bench.create(&format!(r#"{{"id":"i{n}","pk":"k{}"}}"#, n % 13)).result.unwrap();
        }
        let whole = ids(&bench, &Scope::All, 1_000);
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 57);
        for page_items in [1, 2, 7, 56, 57] {
            assert_eq!(ids(&bench, &Scope::All, page_items), whole);
        }
        let key = Scope::PartitionKey(PartitionKeyHeader::parse(r#"["k3"]"#).unwrap());
        assert_eq!(ids(&bench, &key, 2).len(), 5);
    }
}

#[test]
fn the_partitions_of_a_container_divide_its_items() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..100 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":{n}}}"#)).result.unwrap();
    }
    let parts: Vec<Vec<String>> = (0..5)
        .map(|id| ids(&bench, &Scope::Range { id: id.to_string(), within: None }, 9))
        .collect();
    assert!(parts.iter().all(|part| part.len() > 5), "the hash spreads the keys");
    assert_eq!(parts.concat(), ids(&bench, &Scope::All, 1_000), "ranges are in EPK order");
    let op = Op::ListItems {
        container: path(),
        scope: Scope::Range { id: "5".into(), within: None },
        page: PageRequest::default(),
    };
    assert_eq!(error(&bench.run(op)), ErrorKind::RangeGone);
}

#[test]
fn a_prefix_of_a_hierarchical_key_covers_its_tenants() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(
            throughput,
            r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#,
        );
        for n in 0..40 {
            bench.create(&format!(r#"{{"id":"i{n}","t":"t{}","u":{n}}}"#, n % 4)).result.unwrap();
        }
        let scope = Scope::PartitionKey(PartitionKeyHeader::parse(r#"["t2"]"#).unwrap());
        assert_eq!(ids(&bench, &scope, 3).len(), 10);
    }
}

#[test]
fn a_page_survives_the_deletion_of_its_last_item() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..10 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":{n}}}"#)).result.unwrap();
    }
    let whole = ids(&bench, &Scope::All, 100);
    let page = PageRequest { items_max: Some(4), continuation: None };
    let op = Op::ListItems { container: path(), scope: Scope::All, page };
    let Ok(Outcome::Items { continuation, .. }) = bench.run(op).result else { panic!() };
    let last = &whole[3];
    bench.delete(last, &format!("[{}]", &last[1..])).result.unwrap();
    let page = PageRequest { items_max: None, continuation };
    let op = Op::ListItems { container: path(), scope: Scope::All, page };
    let Ok(Outcome::Items { items, continuation: None }) = bench.run(op).result else { panic!() };
    assert_eq!(items.len(), 6);
}

#[test]
fn junk_is_no_continuation() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for token in ["junk", "P1.!!!", "P1.AAAA", ""] {
        let page = PageRequest { items_max: None, continuation: Some(token.into()) };
        let op = Op::ListItems { container: path(), scope: Scope::All, page };
        assert_eq!(error(&bench.run(op)), ErrorKind::BadRequest, "{token}");
    }
}

#[test]
fn keys_that_share_a_hash_have_feeds_of_their_own() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        let definition = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}"#;
        bench.make_container(throughput, definition);
        // The first version of the hash looks at the first 100 characters only.
        let common = "x".repeat(150);
        for last in ["a", "b"] {
            for n in 0..3 {
                let body = format!(r#"{{"id":"{last}{n}","pk":"{common}{last}"}}"#);
                bench.create(&body).result.unwrap();
            }
        }
        let key = PartitionKeyHeader::parse(&format!(r#"["{common}b"]"#)).unwrap();
        assert_eq!(ids(&bench, &Scope::PartitionKey(key), 2), ["b0", "b1", "b2"]);
    }
}

#[test]
fn a_page_ends_also_when_it_finds_nothing_to_show() {
    let settings = QuerySettings { page_entries_max: 500, ..QuerySettings::default() };
    let bench = Bench::with_queries(settings);
    bench.make_container(400, &format!(r#"{KEY_PK},"defaultTtl":1"#));
    for n in 0..600 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":"a"}}"#)).result.unwrap();
    }
    bench.clock.advance_millis(2_000);
    bench.create(r#"{"id":"living","pk":"a"}"#).result.unwrap();
    let op = Op::ListItems { container: path(), scope: Scope::All, page: PageRequest::default() };
    let Ok(Outcome::Items { items, continuation }) = bench.run(op).result else { panic!() };
    assert!(items.is_empty() && continuation.is_some());
    assert_eq!(ids(&bench, &Scope::All, 100), ["living"]);
}
