//! What clients carry from page to page stays good across splits and merges.

use partita_engine::{Op, Outcome, PageRequest, QueryRequest, Scope, SplitAt};
use partita_model::Value;

use crate::harness::*;

fn filled() -> Bench {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..90 {
        bench.create(&format!(r#"{{"id":"{n:02}","pk":{},"v":{n}}}"#, n % 23)).result.unwrap();
    }
    bench
}

/// Splits and merges a little more each time.
fn shake(bench: &Bench, round: usize) {
    let ids = bench.range_ids();
    let at = round % ids.len();
    match (round % 3, ids.get(at + 1)) {
        (2, Some(right)) => drop(bench.merge([ids[at], *right])),
        _ => drop(bench.split(ids[at], SplitAt::Midpoint)),
    }
    if round.is_multiple_of(2) {
        bench.settle();
    } else {
        for _ in 0..round {
            bench.database.maintain(&super::STEP).unwrap();
        }
    }
}

fn ids(rows: impl Iterator<Item = Value>) -> Vec<String> {
    rows.map(|row| text(&row, "id")).collect()
}

#[test]
fn a_feed_of_items_goes_on() {
    let bench = filled();
    let mut found = Vec::new();
    let mut continuation = None;
    for round in 0.. {
        let page = PageRequest { items_max: Some(4), continuation };
        let op = Op::ListItems { container: path(), scope: Scope::All, page };
        let Ok(Outcome::Items { items, continuation: next }) = bench.run(op).result else {
            panic!("no page");
        };
        found.extend(ids(items.iter().map(|item| Value::parse(&item.0).unwrap())));
        continuation = next;
        if continuation.is_none() {
            break;
        }
        shake(&bench, round);
    }
    found.sort();
    assert_eq!(found, (0..90).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    assert!(bench.partitions().len() > 1);
}

#[test]
fn queries_go_on_with_and_without_an_order() {
    for text in ["SELECT c.id FROM c", "SELECT c.id FROM c WHERE c.v >= 0 ORDER BY c.v"] {
        let bench = filled();
        let mut found = Vec::new();
        let mut page = PageRequest { items_max: Some(7), continuation: None };
        for round in 0.. {
            let request = QueryRequest { page: page.clone(), ..QueryRequest::new(text) };
            let op = Op::Query { container: path(), query: Box::new(request) };
            let Ok(Outcome::Query { rows, continuation, .. }) = bench.run(op).result else {
                panic!("no page of {text}");
            };
            found.extend(ids(rows.iter().map(|row| json(row))));
            page.continuation = continuation;
            if page.continuation.is_none() {
                break;
            }
            shake(&bench, round);
        }
        let all = (0..90).map(|n| format!("{n:02}")).collect::<Vec<_>>();
        if !text.contains("ORDER") {
            found.sort();
        }
        assert_eq!(found, all, "{text}");
    }
}
