//! What clients carry from page to page stays good across splits and merges.

use partita_engine::{Op, Outcome, PageRequest, QueryRequest, QuerySettings, Scope, SplitAt};
use partita_model::Value;

use crate::harness::*;

fn filled() -> Bench {
    filled_with(QuerySettings::default())
}

const COMPOSITES: &str = r#""indexingPolicy":{"compositeIndexes":[
    [{"path":"/t"},{"path":"/v"}],[{"path":"/t","order":"descending"},{"path":"/w"}]]}"#;

/// Ninety items in the order of their ids: `v` is the id, `t` a third of it, `w` has ties, types of
/// all kinds and sometimes nothing.
fn filled_with(queries: QuerySettings) -> Bench {
    let bench = Bench::with_queries(queries);
    bench.make_container(400, &format!("{KEY_PK},{COMPOSITES}"));
    for n in 0..90 {
        let w = match n % 7 {
            0 => String::new(),
            1 => r#","w":[1]"#.to_owned(),
            2 => r#","w":"x""#.to_owned(),
            3 => r#","w":null"#.to_owned(),
            _ => format!(r#","w":{}"#, n % 2),
        };
        let body = format!(r#"{{"id":"{n:02}","pk":{},"v":{n},"t":{}{w}}}"#, n % 23, n / 3);
        bench.create(&body).result.unwrap();
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

#[test]
fn an_order_that_an_index_has_goes_on_with_ties_and_values_of_all_kinds() {
    // No partition is too small for an index, and nothing is sorted that an index has in order.
    let settings = QuerySettings { scan_items: 0, sort_items: 0, ..QuerySettings::default() };
    for select in ["c.id", "*"] {
        for order in
            ["c.v DESC", "c.w", "c.w DESC", "c.t", "c.t, c.v", "c.t DESC, c.w", "c.t ASC, c.w DESC"]
        {
            let text = format!("SELECT {select} FROM c ORDER BY {order}");
            let bench = filled_with(settings.clone());
            let asked = |page: &PageRequest| {
                let request = QueryRequest { page: page.clone(), ..QueryRequest::new(&*text) };
                let op = Op::Query { container: path(), query: Box::new(request) };
                match bench.run(op).result {
                    Ok(Outcome::Query { rows, continuation, .. }) => {
                        (ids(rows.iter().map(|row| json(row))), continuation)
                    }
                    other => panic!("no page of {text}: {other:?}"),
                }
            };
            let (expected, _) = asked(&PageRequest { items_max: Some(1_000), continuation: None });
            assert_eq!(expected.len(), 90, "{text}");
            let mut found = Vec::new();
            let mut page = PageRequest { items_max: Some(7), continuation: None };
            for round in 0.. {
                let (rows, continuation) = asked(&page);
                found.extend(rows);
                page.continuation = continuation;
                if page.continuation.is_none() {
                    break;
                }
                shake(&bench, round);
            }
            assert_eq!(found, expected, "{text}");
        }
    }
}
