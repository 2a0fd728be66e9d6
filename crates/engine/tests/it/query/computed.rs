//! Computed properties in the index: what it finds is what evaluating every item finds.

use partita_engine::{Maintenance, MaintenanceBudget, Op, Outcome, QuerySettings, Reply, SplitAt};
use partita_model::{ComputedProperty, ErrorKind};

use super::*;

const PROPERTIES: [(&str, &str); 3] = [
    ("lower", "SELECT VALUE LOWER(c.name) FROM c"),
    ("twice", "SELECT VALUE c.n * 2 FROM c"),
    ("parts", "SELECT VALUE {n: c.n, list: c.tags} FROM c"),
];

const INDEXED: &str = r#"{"includedPaths":[{"path":"/*"},{"path":"/lower/?"},{"path":"/twice/?"},
    {"path":"/parts/*"}],"compositeIndexes":[[{"path":"/lower"},{"path":"/twice","order":"descending"}]]}"#;

const QUERIES: [&str; 16] = [
    "SELECT VALUE c.id FROM c WHERE c.lower = 'ada'",
    "SELECT VALUE c.lower FROM c WHERE STARTSWITH(c.lower, 'b')",
    "SELECT VALUE c.id FROM c WHERE c.lower > 'ada' AND c.twice < 20",
    "SELECT VALUE c.id FROM c WHERE c.lower IN ('ada', 'cy') OR c.twice = 4",
    "SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.lower)",
    "SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.twice) AND NOT IS_DEFINED(c.lower)",
    "SELECT VALUE c.id FROM c WHERE c.parts.n = 3",
    "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.parts.list, 't1')",
    "SELECT VALUE t FROM c JOIN t IN c.parts.list WHERE t = 't2'",
    "SELECT VALUE c.id FROM c WHERE LENGTH(c.lower) = 2",
    "SELECT VALUE COUNT(1) FROM c WHERE c.lower = 'bo'",
    "SELECT c.lower, COUNT(1) AS n, SUM(c.twice) AS s FROM c GROUP BY c.lower",
    "SELECT VALUE MAX(c.twice) FROM c",
    "SELECT VALUE c.id FROM c ORDER BY c.lower",
    "SELECT VALUE c.id FROM c WHERE c.twice >= 4 ORDER BY c.twice DESC",
    "SELECT VALUE c.id FROM c ORDER BY c.lower, c.twice DESC",
];

fn properties(list: &[(&str, &str)]) -> Vec<ComputedProperty> {
    let property = |(name, query): &(&str, &str)| ComputedProperty {
        name: (*name).to_owned(),
        query: (*query).to_owned(),
    };
    list.iter().map(property).collect()
}

fn fields(policy: &str, list: &[(&str, &str)]) -> String {
    let list: Vec<String> = list
        .iter()
        .map(|(name, query)| format!(r#"{{"name":"{name}","query":"{query}"}}"#))
        .collect();
    format!(r#"{KEY_PK},"indexingPolicy":{policy},"computedProperties":[{}]"#, list.join(","))
}

/// No partition is too small for an index, and nothing is sorted that an index has in order.
fn bench() -> Bench {
    Bench::with_queries(QuerySettings { scan_items: 0, sort_items: 0, ..QuerySettings::default() })
}

fn create(bench: &Bench, n: usize) {
    let name = match n % 6 {
        0 => r#","name":"Ada""#,
        1 => r#","name":"BO","lower":"ada""#,
        2 => r#","name":"Cy""#,
        3 => r#","name":7,"lower":"ada""#,
        4 => r#","name":"bob""#,
        _ => "",
    };
    let number = if n % 5 == 4 { String::new() } else { format!(r#","n":{}"#, n % 7) };
    let body = format!(
        r#"{{"id":"i{n}","pk":"k{}","tags":["t{}","t{}"]{name}{number},"twice":1}}"#,
        n % 13,
        n % 3,
        n % 4
    );
    bench.create(&body).result.unwrap();
}

#[track_caller]
fn assert_right(bench: &Bench, list: &[(&str, &str)]) {
    let items = items(bench);
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    for text in QUERIES {
        let query = Query::parse(text, &[], &properties(list)).unwrap();
        let naive = evaluate(&query, &items, &ScopeSettings::default()).unwrap();
        let ordered = text.contains("ORDER BY");
        let same = |rows: Vec<String>| if ordered { rows } else { sorted(rows) };
        for rows_max in [1_000, 7] {
            let found = all_in_pages(bench, &global(text), rows_max);
            assert_eq!(same(found), same(naive.clone()), "{text}");
        }
        assert_eq!(same(all(bench, &scan_only(global(text)))), same(naive), "{text}");
    }
}

fn uses(bench: &Bench, text: &str) -> bool {
    let report = page(bench, global(text)).report;
    report.leaves.iter().any(|leaf| !leaf.indexes_used.is_empty())
}

fn replace(bench: &Bench, policy: &str, list: &[(&str, &str)]) -> Reply {
    let body = format!(r#"{{"id":"c",{}}}"#, fields(policy, list));
    bench.run(Op::ReplaceContainer { container: path(), body: json(&body), condition: None })
}

/// Takes a step of what is to be done in the background; whether there is more.
fn step(bench: &Bench) -> bool {
    let budget = MaintenanceBudget { items_max: 10, bytes_max: 1 << 20 };
    !matches!(bench.database.maintain(&budget).unwrap(), Maintenance::Idle)
}

#[test]
fn the_index_has_the_values_that_queries_see() {
    for throughput in THROUGHPUTS {
        let bench = bench();
        bench.make_container(throughput, &fields(INDEXED, &PROPERTIES));
        for n in 0..60 {
            create(&bench, n);
        }
        assert_right(&bench, &PROPERTIES);
        for text in &QUERIES[..4] {
            assert!(uses(&bench, text), "{text}");
        }
        // A change of what a value is computed from changes its entry.
        bench.upsert(r#"{"id":"i0","pk":"k0","name":"ZOE","n":50}"#, None).result.unwrap();
        bench.delete("i2", r#"["k2"]"#).result.unwrap();
        assert_eq!(
            all(&bench, &global("SELECT VALUE c.id FROM c WHERE c.lower='zoe'")),
            [r#""i0""#]
        );
        assert_right(&bench, &PROPERTIES);
        bench.assert_whole();
        let bench = bench.reopened();
        assert_right(&bench, &PROPERTIES);
        bench.assert_whole();
        // Entries go with their items to other partitions.
        bench.split(0, SplitAt::Midpoint).result.unwrap();
        create(&bench, 61);
        bench.settle();
        assert!(bench.range_ids().len() > 1);
        assert_right(&bench, &PROPERTIES);
        bench.assert_whole();
    }
}

#[test]
fn a_wildcard_does_not_index_them() {
    let bench = bench();
    bench.make_container(30_000, &fields("{}", &PROPERTIES));
    for n in 0..60 {
        create(&bench, n);
    }
    // A search by what a value is computed from is possible all the same.
    let text = "SELECT VALUE c.id FROM c WHERE c.twice = 4";
    let plan = |leaf: &partita_engine::LeafReport| leaf.plan.contains("/twice");
    assert!(!page(&bench, global(text)).report.leaves.iter().any(plan));
    let unordered = QUERIES.iter().filter(|text| !text.contains("c.lower, c.twice DESC"));
    for text in unordered {
        let rows = all(&bench, &global(text));
        assert_eq!(sorted(rows), sorted(all(&bench, &scan_only(global(text)))), "{text}");
    }
    bench.assert_whole();
}

#[test]
fn they_can_be_indexed_and_given_another_meaning_while_items_are_there() {
    let bench = bench();
    bench.make_container(30_000, &fields("{}", &PROPERTIES));
    for n in 0..60 {
        create(&bench, n);
    }
    let longer =
        [("lower", "SELECT VALUE LOWER(CONCAT(c.name, 'x')) FROM c"), PROPERTIES[1], PROPERTIES[2]];
    let fewer = [PROPERTIES[0], ("twice", "SELECT VALUE c.n * 2.0 FROM c"), PROPERTIES[2]];
    for (round, list) in [&PROPERTIES[..], &longer, &fewer, &PROPERTIES].into_iter().enumerate() {
        replace(&bench, INDEXED, list).result.unwrap();
        create(&bench, 100 + round);
        // The order of several needs its index, which is there when all items are in it.
        let at_any_time = &QUERIES[..15];
        loop {
            for text in at_any_time {
                let rows = all(&bench, &global(text));
                let scanned = all(&bench, &scan_only(global(text)));
                assert_eq!(sorted(rows), sorted(scanned), "{text}");
            }
            if !step(&bench) {
                break;
            }
        }
        assert_right(&bench, list);
        assert!(uses(&bench, QUERIES[0]));
        bench.assert_whole();
    }
    replace(&bench, "{}", &PROPERTIES).result.unwrap();
    while step(&bench) {}
    bench.assert_whole();
}

#[test]
fn what_is_no_computed_property_is_refused_when_it_is_defined() {
    let bench = bench();
    bench.make_database("db");
    for query in [
        "SELECT VALUE RAND() FROM c",
        "SELECT VALUE c.a FROM c WHERE true",
        "SELECT VALUE c.( FROM c",
    ] {
        let reply = bench.create_container("c", 400, &fields("{}", &[("x", query)]));
        let refused = reply.result.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest, "{query}");
        assert!(refused.message.starts_with("One of the specified inputs is invalid"), "{refused}");
    }
    let reply = bench.create_container("c", 400, &fields("{}", &PROPERTIES));
    assert!(matches!(reply.result, Ok(Outcome::Container { .. })));
    let reply = replace(&bench, "{}", &[("x", "SELECT VALUE udf.f(c.a) FROM c")]);
    assert_eq!(reply.result.unwrap_err().kind, ErrorKind::BadRequest);
}
