//! What is told about partitions: their contents, the largest logical partitions, homes of keys.

use partita_engine::{
    Access, Alert, AlertKind, Context, EngineSettings, KeyLocation, Op, Outcome, PartitionReport,
    PartitionSettings, QueryRequest, RecentQuery, Scope, Watch,
};
use partita_model::{ErrorKind, PartitionKeyHeader, Value};

use crate::harness::{Bench, KEY_PK, PARTITIONS, error, path};

const KEY_HIERARCHY: &str =
    r#""partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}"#;

fn describe(bench: &Bench, top: usize) -> PartitionReport {
    match bench.run(Op::DescribePartitions { container: path(), top }).result {
        Ok(Outcome::PartitionReport(report)) => *report,
        other => panic!("no report: {other:?}"),
    }
}

fn locate(bench: &Bench, key: &str) -> KeyLocation {
    let key = PartitionKeyHeader::parse(key).unwrap();
    match bench.run(Op::LocateKey { container: path(), key }).result {
        Ok(Outcome::KeyLocation(location)) => *location,
        other => panic!("no location: {other:?}"),
    }
}

/// Key `k3` has three items, `k2` two … `k0` none; all of one size.
fn with_items(bench: &Bench) {
    for key in 0..20 {
        for item in 0..key {
            let created = bench.create(&format!(r#"{{"id":"{item:03}","pk":"k{key:02}"}}"#));
            assert!(created.result.is_ok(), "{created:?}");
        }
    }
}

#[test]
fn a_description_adds_up_to_what_was_written() {
    for (count, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        with_items(&bench);
        let report = describe(&bench, 3);
        assert_eq!(report.partitions.len(), count);
        assert_eq!(report.partitions.iter().map(|p| p.figures.items).sum::<u64>(), 190);
        let logical: u64 = report.partitions.iter().map(|p| p.logical_partitions.unwrap()).sum();
        assert_eq!(logical, 19);
        for (at, partition) in report.partitions.iter().enumerate() {
            assert_eq!(partition.range_id, u32::try_from(at).unwrap());
            assert!(partition.parents.is_empty());
            assert_eq!(partition.figures.bytes > 0, partition.figures.items > 0);
        }
        assert!(report.partitions.windows(2).all(|pair| pair[0].epks.max == pair[1].epks.min));
    }
}

#[test]
fn the_largest_logical_partitions_come_first_and_only_so_many() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        with_items(&bench);
        let report = describe(&bench, 3);
        assert!(report.largest_complete);
        let largest: Vec<(String, u64)> =
            report.largest.iter().map(|found| (found.key.to_header_json(), found.items)).collect();
        let expected = [(r#"["k19"]"#, 19), (r#"["k18"]"#, 18), (r#"["k17"]"#, 17)]
            .map(|(k, n)| (k.into(), n));
        assert_eq!(largest, expected);
        for found in &report.largest {
            let home = locate(&bench, &found.key.to_header_json());
            assert_eq!(home.partitions.len(), 1);
            assert_eq!(home.partitions[0].0, found.range_id);
            assert_eq!(home.stored.as_ref(), Some(found));
        }
    }
}

#[test]
fn without_a_top_nothing_is_walked_over() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    with_items(&bench);
    let report = describe(&bench, 0);
    assert!(report.largest.is_empty());
    assert!(report.partitions.iter().all(|partition| partition.logical_partitions.is_none()));
    assert_eq!(report.partitions.iter().map(|p| p.figures.items).sum::<u64>(), 190);
}

#[test]
fn a_logical_partition_whose_items_are_gone_is_not_counted() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"1","pk":"a"}"#).result.unwrap();
    bench.create(r#"{"id":"1","pk":"b"}"#).result.unwrap();
    bench.delete("1", r#"["a"]"#).result.unwrap();
    let report = describe(&bench, 5);
    assert_eq!(report.partitions[0].logical_partitions, Some(1));
    assert_eq!(report.largest.len(), 1);
    assert_eq!(report.largest[0].key.to_header_json(), r#"["b"]"#);
    let stored = locate(&bench, r#"["a"]"#).stored.unwrap();
    assert_eq!((stored.items, stored.bytes), (0, 0));
}

#[test]
fn the_beginning_of_a_hierarchical_key_has_a_range_and_no_contents_of_its_own() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_HIERARCHY);
    bench.create(r#"{"id":"1","tenant":"t","user":"u"}"#).result.unwrap();
    let whole = locate(&bench, r#"["t","u"]"#);
    assert_eq!(whole.stored.unwrap().items, 1);
    let prefix = locate(&bench, r#"["t"]"#);
    assert!(prefix.stored.is_none());
    assert!(prefix.epks.contains(&whole.epks.min));
    assert_eq!(prefix.partitions, whole.partitions);
    assert_eq!(locate(&bench, "[]").partitions.len(), 5);
    let key = PartitionKeyHeader::parse(r#"["t","u","v"]"#).unwrap();
    let refused = bench.run(Op::LocateKey { container: path(), key });
    assert_eq!(error(&refused), ErrorKind::PartitionKeyMismatch);
}

#[test]
fn a_read_only_key_may_look() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let context = Context { access: Access::ReadOnly, ..Context::default() };
    let op = Op::DescribePartitions { container: path(), top: 1 };
    assert!(bench.run_with(op, &context).result.is_ok());
}

#[test]
fn metrics_name_every_partition_of_every_container() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    assert!(bench.create_container("other", 400, KEY_PK).result.is_ok());
    with_items(&bench);
    let metrics = bench.database.partition_metrics();
    let names: Vec<(&str, u32)> =
        metrics.iter().map(|found| (found.container.as_str(), found.range_id)).collect();
    assert_eq!(names.iter().filter(|(name, _)| *name == "c").count(), 5);
    assert!(names.contains(&("other", 0)) && names.len() == 6);
    assert_eq!(metrics.iter().map(|found| found.figures.items).sum::<u64>(), 190);
}

fn recent(bench: &Bench) -> Vec<RecentQuery> {
    match bench.run(Op::RecentQueries { container: path() }).result {
        Ok(Outcome::RecentQueries { queries }) => queries,
        other => panic!("no queries: {other:?}"),
    }
}

#[test]
fn queries_are_remembered_without_the_values_of_their_parameters() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    with_items(&bench);
    let ask = |query: QueryRequest| {
        let op = Op::Query { container: path(), query: Box::new(query) };
        bench.run(op).result.unwrap();
    };
    for tenant in ["secret-1", "secret-2", "secret-3"] {
        let parameters = vec![("@t".to_owned(), Value::from(tenant))];
        let text = "SELECT * FROM c WHERE c.pk = @t";
        ask(QueryRequest { parameters, ..QueryRequest::new(text) });
    }
    let all = QueryRequest::new("SELECT VALUE c.id FROM c");
    // A client that asks the partitions one by one asks one query.
    for id in 0..5 {
        let scope = Scope::Range { id: id.to_string(), within: None };
        ask(QueryRequest { scope, ..all.clone() });
    }
    let key = PartitionKeyHeader::parse(r#"["k01"]"#).unwrap();
    ask(QueryRequest { scope: Scope::PartitionKey(key), ..all });
    let found: Vec<(String, usize, u64)> = recent(&bench)
        .into_iter()
        .map(|query| (query.text, query.key_parts, query.count))
        .collect();
    let expected = [
        ("SELECT * FROM c WHERE c.pk = @t", 0, 3),
        ("SELECT VALUE c.id FROM c", 0, 1),
        ("SELECT VALUE c.id FROM c", 1, 1),
    ];
    assert_eq!(found, expected.map(|(text, parts, count)| (text.to_owned(), parts, count)));
    let parameters = &recent(&bench)[0].parameters;
    assert_eq!(parameters, &[("@t".to_owned(), "string".to_owned())]);
}

#[test]
fn a_description_tells_what_was_used_and_by_which_keys() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    with_items(&bench);
    for _ in 0..200 {
        bench.read("000", r#"["k07"]"#).result.unwrap();
    }
    let home = locate(&bench, r#"["k07"]"#).partitions[0].0;
    let report = describe(&bench, 3);
    let used: f64 = report.partitions.iter().map(|p| p.figures.consumed_ru).sum();
    assert!(used >= 200.0 + 190.0 * 5.0, "{used}");
    for partition in &report.partitions {
        let figures = &partition.figures;
        assert_eq!(figures.provisioned_ru, Some(6_000.0));
        assert_eq!(figures.throttled, 0);
        assert!(figures.ru_peak <= figures.consumed_ru + 0.01);
        assert_eq!(partition.range_id == home, figures.requests >= 200);
    }
    assert!(!report.hottest.is_empty());
    let share: f64 = report.hottest.iter().map(|hot| hot.share).sum();
    assert!(share <= 1.0 + 1e-9, "{share}");
    assert!(report.hottest.windows(2).all(|pair| pair[0].ru >= pair[1].ru));
    assert!(report.hottest.iter().any(|hot| hot.key == r#"["k07"]"# && hot.range_id == home));
}

/// A bench with logical partitions of at most 1 MB.
fn small() -> Bench {
    let partitions = PartitionSettings { logical_bytes_max: 1 << 20, ..Default::default() };
    Bench::with_settings(EngineSettings { partitions, ..EngineSettings::default() })
}

fn kinds(alerts: &[Alert]) -> Vec<AlertKind> {
    alerts.iter().map(|alert| alert.kind).collect()
}

#[test]
fn a_logical_partition_that_is_nearly_full_is_told_once_until_it_shrank() {
    let bench = small();
    bench.make_container(60_000, KEY_PK);
    let mut watch = Watch::default();
    let filler = "x".repeat(100_000);
    let write = |id: usize| {
        let created = bench.create(&format!(r#"{{"id":"{id}","pk":"a","f":"{filler}"}}"#));
        bench.clock.advance_millis(1_000);
        created.result.unwrap();
    };
    (0..7).for_each(write);
    assert_eq!(bench.database.watch(&mut watch), []);
    (7..9).for_each(write);
    let alerts = bench.database.watch(&mut watch);
    assert_eq!(kinds(&alerts), [AlertKind::LogicalPartitionSize]);
    assert_eq!(alerts[0].key.as_deref(), Some(r#"["a"]"#));
    assert!((0.8..1.0).contains(&alerts[0].share), "{alerts:?}");
    assert!(alerts[0].message.contains("db/c"), "{alerts:?}");
    write(9);
    assert_eq!(bench.database.watch(&mut watch), [], "it was told before");
    for id in 7..10 {
        bench.delete(&id.to_string(), r#"["a"]"#).result.unwrap();
    }
    assert_eq!(bench.database.watch(&mut watch), []);
    (7..9).for_each(write);
    assert_eq!(kinds(&bench.database.watch(&mut watch)), [AlertKind::LogicalPartitionSize]);
}

#[test]
fn a_partition_that_turns_requests_away_is_told_once_until_it_is_calm() {
    let bench = Bench::with_settings(EngineSettings::default());
    bench.make_container(400, KEY_PK);
    // A read of 100 KB costs ten request units.
    let filler = "x".repeat(100 * 1_024);
    bench.create(&format!(r#"{{"id":"1","pk":"a","f":"{filler}"}}"#)).result.unwrap();
    let mut watch = Watch::default();
    let mut minute = |reads_per_second: usize| {
        for _ in 0..61 {
            for _ in 0..reads_per_second {
                drop(bench.read("1", r#"["a"]"#));
            }
            bench.clock.advance_millis(1_000);
        }
        bench.database.watch(&mut watch)
    };
    assert_eq!(minute(1), [], "the first look begins to count");
    assert_eq!(minute(10), []);
    // What was saved while it was idle is used up first.
    let alerts: Vec<Alert> = (0..5).flat_map(|_| minute(90)).collect();
    assert_eq!(kinds(&alerts), [AlertKind::Throttling], "{alerts:?}");
    assert!(alerts[0].share > 0.01 && alerts[0].message.contains("429"), "{alerts:?}");
    assert_eq!(minute(1), [], "calm again");
    let again: Vec<Alert> = (0..5).flat_map(|_| minute(90)).collect();
    assert_eq!(kinds(&again), [AlertKind::Throttling]);
}
