//! Without ORDER BY items come in the order in which they were made, partition after partition: in
//! queries and feeds, by scan and by index, inside a key, on pages of any size, and when a
//! partition is split between two pages.

use std::collections::BTreeSet;

use partita_engine::{Partition, QuerySettings, SplitAt};

use super::*;

pub(super) const FILTERS: [&str; 8] = [
    "",
    "WHERE c.n >= 10",
    "WHERE c.m = 1",
    "WHERE c.m IN (0, 3) AND c.n < 50",
    "WHERE c.n % 7 < 4",
    "WHERE c.pk = 'k3'",
    "WHERE c.pk IN ('k1', 'k5', 'k9')",
    "WHERE IS_DEFINED(c.a)",
];

/// Settings that choose different plans: scans, indexes, walks, the order of keys.
pub(super) fn settings() -> [QuerySettings; 3] {
    let usual = QuerySettings::default();
    let indexes = QuerySettings { scan_items: 0, sample_items: 0, ..usual.clone() };
    // So few rows are wanted that walking along resource ids is the shortest way.
    [usual, indexes.clone(), QuerySettings { page_rows_default: 1, ..indexes }]
}

/// Ids in the order of partitions, and of age within each.
pub(super) fn by_age(bench: &Bench, text: &str) -> Vec<String> {
    let partitions = bench.partitions();
    let part = |partition: &Partition| {
        let scope = Scope::Range { id: partition.range_id.to_string(), within: None };
        let mut items: Vec<(u64, String)> = bench
            .list(&scope, 1_000)
            .iter()
            .map(|item| (ItemRid::parse(&self::text(item, "_rid")).unwrap().item, item.to_json()))
            .collect();
        items.sort();
        items.into_iter().map(|(_, item)| item).collect::<Vec<_>>()
    };
    let items: Vec<String> = partitions.iter().flat_map(part).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    evaluate(&Query::parse(text, &[], &[]).unwrap(), &items, &ScopeSettings::default()).unwrap()
}

#[test]
fn queries_give_the_oldest_first_whatever_the_plan_and_the_page() {
    for settings in settings() {
        for throughput in THROUGHPUTS {
            let bench = Bench::with_queries(settings.clone());
            fill(&bench, throughput);
            for filter in FILTERS {
                let text = format!("SELECT VALUE c.id FROM c {filter}");
                let expected = by_age(&bench, &text);
                for query in [global(&text), scan_only(global(&text)), as_service(&text)] {
                    for rows_max in [1, 2, 5, 59, 100] {
                        let found = all_in_pages(&bench, &query, rows_max);
                        assert_eq!(found, expected, "{text} in pages of {rows_max}");
                    }
                }
                let top = format!("SELECT TOP 3 VALUE c.id FROM c {filter}");
                let first: Vec<String> = expected.iter().take(3).cloned().collect();
                assert_eq!(all(&bench, &global(&top)), first, "{top}");
            }
        }
    }
}

#[test]
fn feeds_and_keys_give_the_oldest_first() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        let ids = |scope: &Scope, rows: usize| -> Vec<String> {
            bench.list(scope, rows).iter().map(|item| format!("{:?}", text(item, "id"))).collect()
        };
        let everything = by_age(&bench, "SELECT VALUE c.id FROM c");
        for rows in [1, 4, 100] {
            assert_eq!(ids(&Scope::All, rows), everything);
            let of_key = ids(&key(r#"["k5"]"#), rows);
            assert_eq!(of_key.join(","), r#""i5","i18","i31","i44","i57""#);
        }
        let scope = key(r#"["k5"]"#);
        let query = QueryRequest { scope, ..as_service("SELECT VALUE c.n FROM c WHERE c.n > 5") };
        assert_eq!(all_in_pages(&bench, &query, 2), ["18", "31", "44", "57"]);
    }
}

#[test]
fn groups_and_lists_are_as_first_met() {
    for throughput in THROUGHPUTS {
        let bench = filled(throughput);
        for text in [
            "SELECT c.m, COUNT(1) AS k FROM c GROUP BY c.m",
            "SELECT c.m, c.a, MAX(c.n) AS k FROM c WHERE c.n > 7 GROUP BY c.m, c.a",
            "SELECT VALUE MAKELIST(c.n) FROM c",
            "SELECT c.m, MAKELIST(c.id) AS ids FROM c WHERE c.n > 7 GROUP BY c.m",
            "SELECT DISTINCT c.m, c.a FROM c",
        ] {
            let expected = by_age(&bench, text);
            for query in [global(text), scan_only(global(text))] {
                for rows_max in [1, 3, 100] {
                    assert_eq!(all_in_pages(&bench, &query, rows_max), expected, "{text}");
                }
            }
        }
    }
}

#[test]
fn paging_goes_on_in_the_halves_of_a_partition() {
    for settings in settings() {
        for text in ["SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c WHERE c.n > 3"] {
            let bench = Bench::with_queries(settings.clone());
            fill(&bench, 400);
            let mut expected: BTreeSet<String> = by_age(&bench, text).into_iter().collect();
            let before = by_age(&bench, text);
            let (mut found, mut continuation, mut pages) = (Vec::new(), None, 0);
            loop {
                let next = PageRequest { items_max: Some(7), continuation };
                let got = page(&bench, QueryRequest { page: next, ..global(text) });
                found.extend(got.rows);
                pages += 1;
                if pages == 2 {
                    assert_eq!(found[..], before[..14], "{text}");
                    bench.split(0, SplitAt::Midpoint).result.unwrap();
                    bench.settle();
                }
                continuation = got.continuation;
                if continuation.is_none() {
                    break;
                }
            }
            for id in &found {
                assert!(expected.remove(id), "{id} came twice");
            }
            assert!(expected.is_empty(), "{expected:?} did not come");
            // Each half goes on from the place of the whole, in the order of age.
            let after = by_age(&bench, text);
            let rest: Vec<&String> = after.iter().filter(|id| !before[..14].contains(id)).collect();
            assert_eq!(found[14..].iter().collect::<Vec<_>>(), rest, "{text}");
            assert_eq!(all(&bench, &global(text)), after, "{text}");
        }
    }
}

#[test]
fn partitions_that_are_too_large_give_the_order_of_keys_and_go_on_in_it() {
    let large =
        QuerySettings { age_order_items_max: 10, scan_items: 0, ..QuerySettings::default() };
    let bench = Bench::with_queries(large);
    fill(&bench, 400);
    let text = "SELECT VALUE c.id FROM c";
    let whole = all(&bench, &global(text));
    assert_ne!(whole, by_age(&bench, text));
    assert_eq!(sorted(whole.clone()), sorted(by_age(&bench, text)));
    for rows_max in [1, 7, 59] {
        assert_eq!(all_in_pages(&bench, &global(text), rows_max), whole);
    }
    // An index that finds few still gives the oldest first, and so does a key.
    let few = "SELECT VALUE c.id FROM c WHERE c.n IN (3, 17, 40)";
    assert_eq!(all_in_pages(&bench, &global(few), 1), by_age(&bench, few));
    let scope = key(r#"["k5"]"#);
    let keyed = QueryRequest { scope, ..as_service("SELECT VALUE c.n FROM c") };
    assert_eq!(all_in_pages(&bench, &keyed, 2), ["5", "18", "31", "44", "57"]);
}
