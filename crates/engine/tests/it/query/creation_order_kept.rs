//! What does not disturb the order of age: items that are written again, a restart, splits, merges
//! and many new items between two pages.

use partita_engine::{QuerySettings, SplitAt};

use super::creation_order::{FILTERS, by_age, settings};
use super::*;
use crate::batches::{self, atomic};

const IDS: &str = "SELECT VALUE c.id FROM c";

/// All rows in pages of this many; something happens behind the page with this number.
#[track_caller]
fn pages(bench: &Bench, query: &QueryRequest, rows_max: usize, at: usize, act: impl Fn()) -> Paged {
    let (mut rows, mut continuation, mut before) = (Vec::new(), None, 0);
    for number in 1..1_000 {
        let request = PageRequest { items_max: Some(rows_max), continuation };
        let got = page(bench, QueryRequest { page: request, ..query.clone() });
        rows.extend(got.rows);
        continuation = got.continuation;
        if number == at {
            before = rows.len();
            act();
        }
        if continuation.is_none() {
            return Paged { rows, before };
        }
    }
    panic!("{query:?} does not end");
}

struct Paged {
    rows: Vec<String>,
    /// How many of them came before it happened.
    before: usize,
}

fn without(all: &[String], gone: &[String]) -> Vec<String> {
    all.iter().filter(|row| !gone.contains(row)).cloned().collect()
}

fn split(bench: &Bench) {
    bench.split(bench.range_ids()[0], SplitAt::Midpoint).result.unwrap();
    bench.settle();
}

#[test]
fn who_is_written_again_keeps_its_place_and_who_is_made_again_comes_last() {
    for settings in settings() {
        let bench = Bench::with_queries(settings);
        fill(&bench, 400);
        bench.upsert(r#"{"id":"i7","pk":"k7","n":7}"#, None).result.unwrap();
        bench.replace("i3", r#"["k3"]"#, r#"{"id":"i3","pk":"k3","n":3}"#, None).result.unwrap();
        let patch = r#"[{"op":"set","path":"/w","value":1}]"#;
        bench.patch("i11", r#"["k11"]"#, patch).result.unwrap();
        bench.delete("i5", r#"["k5"]"#).result.unwrap();
        let create = |id: &str| batches::create(&format!(r#"{{"id":"{id}","pk":"k5","n":5}}"#));
        atomic(&bench, r#"["k5"]"#, ["z", "y", "i5", "x"].map(create).into()).result.unwrap();
        let kept = (0..60).filter(|n| *n != 5).map(|n| format!("i{n}"));
        let ids = kept.chain(["z", "y", "i5", "x"].map(str::to_owned));
        let ids: Vec<String> = ids.map(|id| format!("{id:?}")).collect();
        let check = |bench: &Bench| {
            for text in [IDS, "SELECT VALUE c.id FROM c WHERE c.n >= 0"] {
                for rows_max in [1, 7, 100] {
                    assert_eq!(all_in_pages(bench, &global(text), rows_max), ids, "{text}");
                }
            }
            let scope = key(r#"["k5"]"#);
            let keyed = QueryRequest { scope: scope.clone(), ..global(IDS) };
            let of_key: Vec<String> = ["i18", "i31", "i44", "i57", "z", "y", "i5", "x"]
                .map(|id| format!("{id:?}"))
                .into();
            assert_eq!(all_in_pages(bench, &keyed, 3), of_key);
            let fed = bench.list(&scope, 3);
            let fed: Vec<String> =
                fed.iter().map(|item| format!("{:?}", text(item, "id"))).collect();
            assert_eq!(fed, of_key);
        };
        check(&bench);
        check(&bench.reopened());
    }
}

#[test]
fn whatever_the_filter_a_split_between_two_pages_leaves_the_rest_in_order() {
    for settings in settings() {
        for filter in FILTERS {
            let text = format!("{IDS} {filter}");
            for (rows_max, at) in [(1, 1), (1, 5), (7, 1), (7, 3)] {
                let bench = Bench::with_queries(settings.clone());
                fill(&bench, 400);
                let before = by_age(&bench, &text);
                let paged = pages(&bench, &global(&text), rows_max, at, || split(&bench));
                let (first, rest) = paged.rows.split_at(paged.before);
                assert_eq!(first, &before[..first.len()], "{text}");
                assert_eq!(rest, without(&by_age(&bench, &text), first), "{text}, {rows_max}");
            }
        }
    }
}

#[test]
fn a_merge_between_two_pages_changes_nothing() {
    for settings in settings() {
        for filter in FILTERS {
            let text = format!("{IDS} {filter}");
            for (rows_max, at) in [(1, 1), (7, 2), (7, 5)] {
                let bench = Bench::with_queries(settings.clone());
                fill(&bench, 400);
                split(&bench);
                let expected = by_age(&bench, &text);
                let merge = || {
                    let ids = bench.range_ids();
                    bench.merge([ids[0], ids[1]]).result.unwrap();
                    bench.settle();
                };
                let paged = pages(&bench, &global(&text), rows_max, at, merge);
                assert_eq!(paged.rows, expected, "{text} in pages of {rows_max}");
            }
        }
    }
}

#[test]
fn equal_keys_of_an_order_stay_in_the_order_of_age_when_a_partition_is_split() {
    for settings in settings() {
        for order in ["c.m", "c.m DESC", "c.a DESC", "c.a", "c.m DESC, c.a"] {
            let text = format!("{IDS} ORDER BY {order}");
            for (rows_max, at) in [(1, 9), (7, 1), (7, 4)] {
                let bench = Bench::with_queries(settings.clone());
                fill(&bench, 400);
                let expected = expected(&bench, &text);
                let paged = pages(&bench, &global(&text), rows_max, at, || split(&bench));
                assert_eq!(paged.rows, expected, "{text} in pages of {rows_max}");
            }
        }
    }
}

#[test]
fn groups_come_once_and_in_the_order_of_age_when_a_partition_is_split() {
    for settings in settings() {
        for text in [
            "SELECT c.m, COUNT(1) AS k FROM c GROUP BY c.m",
            "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
            "SELECT c.pk, MAX(c.n) AS k FROM c WHERE c.n > 7 GROUP BY c.pk",
        ] {
            for (rows_max, at) in [(1, 1), (1, 2), (3, 1)] {
                let bench = Bench::with_queries(settings.clone());
                fill(&bench, 400);
                let expected = expected(&bench, text);
                let paged = pages(&bench, &global(text), rows_max, at, || split(&bench));
                assert_eq!(paged.rows, expected, "{text} in pages of {rows_max}");
            }
        }
    }
}

#[test]
fn different_rows_come_once_when_a_partition_is_split() {
    for settings in settings() {
        for text in [
            "SELECT DISTINCT VALUE c.m FROM c",
            "SELECT DISTINCT c.m, c.a FROM c",
            "SELECT DISTINCT c.pk, c.m FROM c WHERE c.n > 7",
            "SELECT DISTINCT c.m, c.a FROM c ORDER BY c.m",
        ] {
            for (rows_max, at) in [(1, 1), (1, 3), (3, 1)] {
                let bench = Bench::with_queries(settings.clone());
                fill(&bench, 400);
                let expected = expected(&bench, text);
                let paged = pages(&bench, &global(text), rows_max, at, || split(&bench));
                assert_eq!(sorted(paged.rows), sorted(expected), "{text} in pages of {rows_max}");
            }
        }
    }
}

#[test]
fn a_feed_goes_on_in_order_when_a_partition_is_split() {
    for at in [1, 3, 8] {
        let bench = filled(400);
        let (mut found, mut continuation, mut number) = (Vec::new(), None, 0);
        let mut before = 0;
        loop {
            let page = PageRequest { items_max: Some(4), continuation };
            let op = Op::ListItems { container: path(), scope: Scope::All, page };
            let Ok(Outcome::Items { items, continuation: next }) = bench.run(op).result else {
                panic!("no page");
            };
            let id = |text: &[u8]| text_of(text, "id");
            found.extend(items.iter().map(|item| format!("{:?}", id(&item.0))));
            number += 1;
            if number == at {
                before = found.len();
                assert_eq!(found, by_age(&bench, IDS)[..before]);
                split(&bench);
            }
            continuation = next;
            if continuation.is_none() {
                break;
            }
        }
        assert_eq!(found[before..], without(&by_age(&bench, IDS), &found[..before]));
    }
}

fn text_of(item: &[u8], name: &str) -> String {
    text(&partita_model::Value::parse(item).unwrap(), name)
}

#[test]
fn the_order_of_a_first_page_is_that_of_the_last_though_a_partition_grows_or_shrinks() {
    let of_at_most = |age_order_items_max| {
        let usual = QuerySettings::default();
        let bench =
            Bench::with_queries(QuerySettings { age_order_items_max, scan_items: 0, ..usual });
        fill(&bench, 400);
        bench
    };
    for rows_max in [1, 7] {
        // By age, though there are too many by now to begin so.
        let bench = of_at_most(70);
        let grow = || {
            for n in 60..90 {
                let body = format!(r#"{{"id":"i{n}","pk":"k{}","n":{n}}}"#, n % 13);
                bench.create(&body).result.unwrap();
            }
        };
        let paged = pages(&bench, &global(IDS), rows_max, 2, grow);
        assert_eq!(paged.rows, by_age(&bench, IDS));
        assert_ne!(all(&bench, &global(IDS)), paged.rows, "who begins now gets another order");
        // By key, though there are few enough by now.
        let bench = of_at_most(40);
        let whole = all(&bench, &global(IDS));
        assert_ne!(whole, by_age(&bench, IDS));
        let gone: Vec<String> = (30..60).map(|n| format!("\"i{n}\"")).collect();
        let shrink = || {
            for n in 30..60 {
                bench.delete(&format!("i{n}"), &format!(r#"["k{}"]"#, n % 13)).result.unwrap();
            }
        };
        let paged = pages(&bench, &global(IDS), rows_max, 2, shrink);
        let (first, rest) = paged.rows.split_at(paged.before);
        assert_eq!(first, &whole[..first.len()]);
        assert_eq!(rest, without(&without(&whole, first), &gone));
    }
}

#[test]
fn limits_and_lists_take_the_oldest() {
    for settings in settings() {
        for throughput in THROUGHPUTS {
            let bench = Bench::with_queries(settings.clone());
            fill(&bench, throughput);
            for filter in FILTERS {
                let expected = by_age(&bench, &format!("{IDS} {filter}"));
                let limited = format!("{IDS} {filter} OFFSET 2 LIMIT 9");
                let slice: Vec<String> = expected.iter().skip(2).take(9).cloned().collect();
                for rows_max in [1, 4, 100] {
                    assert_eq!(
                        all_in_pages(&bench, &global(&limited), rows_max),
                        slice,
                        "{limited}"
                    );
                }
                let list = format!("SELECT VALUE MAKELIST(c.id) FROM c {filter}");
                assert_eq!(all(&bench, &global(&list)), [format!("[{}]", expected.join(","))]);
            }
        }
    }
}

#[test]
fn below_a_part_of_a_hierarchical_key_the_oldest_come_first() {
    for settings in settings() {
        let bench = Bench::with_queries(settings);
        let levels = r#""partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}"#;
        bench.make_container(400, levels);
        for n in 0..60 {
            let body = format!(r#"{{"id":"i{n}","t":"t{}","u":"u{}","n":{n}}}"#, n % 2, n % 5);
            bench.create(&body).result.unwrap();
        }
        let ids = |ends: fn(&usize) -> bool| -> Vec<String> {
            (0..60).filter(ends).map(|n| format!("\"i{n}\"")).collect()
        };
        let (odd, sevens) = (ids(|n| n % 2 == 1), ids(|n| n % 10 == 7));
        for rows_max in [1, 7, 100] {
            for (scope, filter, expected) in [
                (Scope::All, "WHERE c.t = 't1'", &odd),
                (Scope::All, "WHERE c.t = 't1' AND c.n >= 0", &odd),
                (key(r#"["t1"]"#), "", &odd),
                (key(r#"["t1"]"#), "WHERE c.n >= 0", &odd),
                (key(r#"["t1","u2"]"#), "", &sevens),
            ] {
                let query = QueryRequest { scope, ..global(&format!("{IDS} {filter}")) };
                assert_eq!(all_in_pages(&bench, &query, rows_max), *expected, "{query:?}");
            }
        }
    }
}
