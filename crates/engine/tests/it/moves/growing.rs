//! Partitions that outgrow their size, in the order of production: the server is up and has nothing
//! to do, then a container is made, then it is filled, in each of the ways to write.

use partita_engine::{
    BatchOperation, EngineSettings, Existing, OnError, Op, Outcome, PartitionSettings, Reply,
    TriggerNames,
};
use partita_model::{PartitionKeyHeader, ScriptKind};

use crate::batches::{self, atomic, bulk, summary, under};
use crate::harness::*;
use crate::imports::{count, import, into_range};
use crate::scripts::{self, scripted};

pub(super) const BYTES_MAX: u64 = 20_000;

/// Of items that are filled in, each about this large with its system properties.
const ITEM_BYTES: usize = 800;
const KEYS: usize = 20;

pub(super) fn settings() -> EngineSettings {
    let partitions = PartitionSettings { bytes_max: BYTES_MAX, ..PartitionSettings::default() };
    EngineSettings { partitions, ..unthrottled() }
}

/// A server that has looked for something to do and found nothing, and then a container.
fn bench() -> Bench {
    let (bench, _) = scripted(settings());
    bench.settle();
    bench.make_container(400, KEY_PK);
    bench
}

pub(super) fn item(n: usize, bytes: usize) -> String {
    format!(r#"{{"id":"{n}","pk":{},"v":"{}"}}"#, n % KEYS, "x".repeat(bytes))
}

pub(super) fn sizes(bench: &Bench) -> Vec<u64> {
    let reply = bench.run(Op::ContainerStatistics { container: path() });
    match reply.result {
        Ok(Outcome::Statistics { partitions }) => {
            partitions.iter().map(|partition| partition.bytes).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The container was filled beyond what a partition may hold, and is divided now.
#[track_caller]
pub(super) fn assert_divided(bench: &Bench) {
    bench.settle();
    let sizes = sizes(bench);
    let total: u64 = sizes.iter().sum();
    assert!(total > 3 * BYTES_MAX, "there is too little to divide: {sizes:?}");
    assert!(sizes.iter().all(|bytes| *bytes <= BYTES_MAX), "{sizes:?}");
    assert_meters(bench);
    bench.assert_whole();
}

/// What meters count along is what is stored.
#[track_caller]
fn assert_meters(bench: &Bench) {
    for (meter, bytes) in bench.container().meters().zip(sizes(bench)) {
        assert_eq!(meter.bytes().unwrap_or(bytes), bytes, "{meter:?}");
    }
}

#[test]
fn by_creates() {
    let bench = bench();
    for n in 0..100 {
        bench.create(&item(n, ITEM_BYTES)).result.unwrap();
    }
    assert_divided(&bench);
}

#[test]
fn by_upserts_of_what_is_not_there_and_of_what_is() {
    for before in [0, 100] {
        let bench = bench();
        for n in 0..before {
            bench.upsert(&item(n, 1), None).result.unwrap();
        }
        for n in 0..100 {
            bench.upsert(&item(n, ITEM_BYTES), None).result.unwrap();
        }
        assert_divided(&bench);
    }
}

/// A container that has all items, but small ones, and has been looked at since.
fn filled_with_small_ones() -> Bench {
    let bench = bench();
    for n in 0..KEYS * 2 {
        bench.create(&item(n, 1)).result.unwrap();
    }
    bench.settle();
    assert_eq!(bench.range_ids(), [0]);
    bench
}

#[test]
fn by_replaces() {
    let bench = filled_with_small_ones();
    for n in 0..KEYS * 2 {
        let (id, key) = (n.to_string(), format!("[{}]", n % KEYS));
        bench.replace(&id, &key, &item(n, 3 * ITEM_BYTES), None).result.unwrap();
    }
    assert_divided(&bench);
}

#[test]
fn by_patches() {
    let bench = filled_with_small_ones();
    let text = "x".repeat(3 * ITEM_BYTES);
    for n in 0..KEYS * 2 {
        let patch = format!(r#"[{{"op":"set","path":"/w","value":"{text}"}}]"#);
        bench.patch(&n.to_string(), &format!("[{}]", n % KEYS), &patch).result.unwrap();
    }
    assert_divided(&bench);
}

#[test]
fn by_batches() {
    let bench = bench();
    for key in 0..KEYS {
        let creates =
            (0..5).map(|n| batches::create(&item(key + n * KEYS, ITEM_BYTES))).collect::<Vec<_>>();
        let reply = atomic(&bench, &format!("[{key}]"), creates);
        assert_eq!(summary(&reply), "CCCCC");
    }
    assert_divided(&bench);
}

#[test]
fn by_bulks() {
    let bench = bench();
    for first in (0..100).step_by(10) {
        let creates = (first..first + 10)
            .map(|n| under(batches::upsert(&item(n, ITEM_BYTES)), &format!("[{}]", n % KEYS)));
        let reply = bulk(&bench, 0, OnError::Continue, creates.collect());
        assert_eq!(summary(&reply), "CCCCCCCCCC");
    }
    assert_divided(&bench);
}

#[test]
fn by_imports() {
    let bench = bench();
    for first in (0..100).step_by(20) {
        let items: Vec<String> = (first..first + 20).map(|n| item(n, ITEM_BYTES)).collect();
        let reply = bench.run(import(into_range(0), &items, Existing::Fails));
        assert_eq!(count(&reply), 20);
    }
    assert_divided(&bench);
}

#[test]
fn by_scripts() {
    let bench = bench();
    let steps: Vec<String> = (0..5)
        .map(|n| format!(r#"["create",{{"id":"{n}","pk":"$0","v":"{}"}}]"#, "x".repeat(ITEM_BYTES)))
        .collect();
    let source = format!("[{}]", steps.join(","));
    scripts::create(&bench, ScriptKind::Procedure, "fill", &source).result.unwrap();
    for key in 0..KEYS {
        let run = scripts::call("fill", &format!(r#"["{key}"]"#), &format!(r#"["{key}"]"#));
        bench.run(run).result.unwrap();
    }
    assert_divided(&bench);
}

#[test]
fn by_triggers() {
    let bench = bench();
    let large = format!(r#"[["document",{{"v":"{}"}}]]"#, "x".repeat(3 * ITEM_BYTES));
    scripts::create(&bench, ScriptKind::Trigger, "enlarge", &large).result.unwrap();
    for n in 0..KEYS * 2 {
        let triggers = TriggerNames { pre: vec!["enlarge".into()], post: Vec::new() };
        let create = under(batches::create(&item(n, 1)), &format!("[{}]", n % KEYS));
        let reply = match n % 2 {
            0 => {
                let write = Op::CreateItem {
                    container: path(),
                    item: crate::harness::item(&item(n, 1), None),
                };
                bench.run(Op::Triggered { write: Box::new(write), triggers })
            }
            _ => bulk(&bench, 0, OnError::Stop, vec![BatchOperation { triggers, ..create }]),
        };
        reply.result.unwrap();
    }
    assert_divided(&bench);
}

#[test]
fn what_is_deleted_under_a_partition_key_or_expires_is_counted() {
    let bench = bench();
    drop(bench.run(Op::DeleteContainer { container: path(), condition: None }));
    bench.make_container(400, &format!(r#"{KEY_PK},"defaultTtl":-1"#));
    for n in 0..40 {
        let ttl = if n % 2 == 0 { 10 } else { -1 };
        let body = item(n, 100).replace(r#""v""#, &format!(r#""ttl":{ttl},"v""#));
        bench.create(&body).result.unwrap();
    }
    assert_meters(&bench);
    let before = sizes(&bench);
    let key = PartitionKeyHeader::parse("[1]").unwrap();
    let deleted: Reply =
        bench.run(Op::DeletePartitionKey { container: path(), partition_key: Some(key) });
    deleted.result.unwrap();
    assert_meters(&bench);
    bench.clock.advance_millis(3_600_000);
    bench.settle();
    assert!(sizes(&bench)[0] < before[0] / 2, "{before:?} became {:?}", sizes(&bench));
    assert_meters(&bench);
}
