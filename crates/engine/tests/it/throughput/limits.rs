//! How large a logical partition, and a container without a key, may become.

use partita_engine::{
    BatchMode, DatabasePath, EngineSettings, KeyRequired, Meter, Op, Outcome, PartitionSettings,
};
use partita_model::{ErrorKind, PartitionKeyHeader, Throughput};

use super::{container, created};
use crate::harness::*;

/// A megabyte for each partition key.
fn bench(throughput: u32, fields: &str) -> Bench {
    let partitions =
        PartitionSettings { logical_bytes_max: 1 << 20, ..PartitionSettings::default() };
    let bench = Bench::with_settings(EngineSettings { partitions, ..unthrottled() });
    bench.make_container(throughput, fields);
    bench
}

fn write(bench: &Bench, id: &str, key: &str, bytes: usize) -> Result<(), ErrorKind> {
    let item = format!(r#"{{"id":"{id}","pk":"{key}","s":"{}"}}"#, "x".repeat(bytes));
    bench.upsert(&item, None).result.map(|_| ()).map_err(|error| error.kind)
}

/// Writes items of 10 KB until no more are taken.
fn fill(bench: &Bench, key: &str) -> usize {
    (0..1_000).take_while(|n| write(bench, &format!("i{n}"), key, 10_000).is_ok()).count()
}

#[test]
fn a_full_logical_partition_takes_no_more_but_lets_go() {
    for (_, throughput) in PARTITIONS {
        let bench = bench(throughput, KEY_PK);
        let taken = fill(&bench, "a");
        assert!((95..=104).contains(&taken), "{taken}");
        let item = format!(r#"{{"id":"more","pk":"a","s":"{}"}}"#, "x".repeat(10_000));
        let error = bench.create(&item).result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::LogicalPartitionFull);
        assert!(error.message.starts_with("Partition key reached maximum size of 1 MB"));
        assert_eq!(write(&bench, "more", "b", 10_000), Ok(()), "another key has room");
        assert_eq!(write(&bench, "i0", "a", 9_000), Ok(()), "it may shrink");
        assert_eq!(write(&bench, "i1", "a", 30_000), Err(ErrorKind::LogicalPartitionFull));
        bench.delete("i2", r#"["a"]"#).result.unwrap();
        assert_eq!(write(&bench, "more", "a", 9_000), Ok(()));
        bench.assert_whole();
        let bench = bench.reopened();
        assert_eq!(write(&bench, "i3", "a", 40_000), Err(ErrorKind::LogicalPartitionFull));
        let large: Vec<_> = container(&bench).meters().flat_map(Meter::large_keys).collect();
        assert_eq!(large.len(), 1);
        assert_eq!(large[0].key, r#"["a"]"#);
    }
}

#[test]
fn a_batch_counts_what_it_has_written_itself() {
    let bench = bench(30_000, KEY_PK);
    fill(&bench, "a");
    for n in 0..3 {
        bench.delete(&format!("i{n}"), r#"["a"]"#).result.unwrap();
    }
    let key = PartitionKeyHeader::parse(r#"["a"]"#).unwrap();
    let run = |count: usize| {
        let operation = |n| {
            let mut operation = created(&format!("b{n}"), "a");
            if let partita_engine::BatchAction::Create { body, .. } = &mut operation.action {
                *body =
                    format!(r#"{{"id":"b{n}","pk":"a","s":"{}"}}"#, "x".repeat(9_000)).into_bytes();
            }
            operation
        };
        let operations = (0..count).map(operation).collect();
        let mode = BatchMode::Atomic { partition_key: Some(key.clone()) };
        let reply = bench.run(Op::Batch { container: path(), operations, mode });
        let Ok(Outcome::Batch { results }) = reply.result else { panic!("{reply:?}") };
        results.into_iter().find_map(|result| {
            let error = result.result.err()?;
            (error.kind != ErrorKind::FailedDependency).then_some(error.kind)
        })
    };
    assert_eq!(run(10), Some(ErrorKind::LogicalPartitionFull));
    assert_eq!(run(3), None);
    bench.assert_whole();
}

#[test]
fn the_limit_is_for_a_full_key_of_a_hierarchy() {
    let fields = r#""partitionKey":{"paths":["/pk","/id"],"kind":"MultiHash","version":2}"#;
    let bench = bench(400, fields);
    for n in 0..300 {
        assert_eq!(write(&bench, &format!("i{n}"), "a", 10_000), Ok(()));
    }
    assert!(container(&bench).meters().all(|meter| meter.large_keys().is_empty()));
}

#[test]
fn a_container_without_a_key_has_one_partition_and_no_more_throughput() {
    let bench = Bench::new();
    bench.make_database("db");
    let create = |name: &str, throughput| {
        bench.run(Op::CreateContainer {
            database: DatabasePath("db".into()),
            body: json(&format!(r#"{{"id":"{name}"}}"#)),
            throughput: Some(Throughput::Manual(throughput)),
            key_required: KeyRequired::No,
        })
    };
    let container = create("c", 10_000).container.unwrap();
    assert_eq!(container.partitions.len(), 1);
    let refused = create("d", 10_100).result.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
    assert!(refused.message.contains("10000 RU/s at most"), "{refused}");
}
