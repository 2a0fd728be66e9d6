//! What a restart keeps.

use std::collections::BTreeSet;

use partita_model::Lsn;
use partita_storage::{MemoryStore, PartitionId, Store};
use std::sync::Arc;

use crate::harness::*;

#[test]
fn everything_is_there_after_a_restart() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..50 {
        bench.create(&format!(r#"{{"id":"i{n}","pk":{n}}}"#)).result.unwrap();
    }
    let before = bench.list(&partita_engine::Scope::All, 100);
    let served = bench.read("i7", "[7]").served;
    let bench = bench.reopened();
    assert_eq!(bench.list(&partita_engine::Scope::All, 100), before);
    assert_eq!(bench.read("i7", "[7]").served, served, "LSNs go on where they were");
    bench.assert_whole();
}

#[test]
fn resource_ids_are_never_given_out_twice() {
    let mut bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let mut seen = BTreeSet::new();
    for round in 0..4 {
        for n in 0..30 {
            let stored = body(&bench.create(&format!(r#"{{"id":"{round}-{n}","pk":1}}"#)));
            assert!(seen.insert(text(&stored, "_rid")));
        }
        // The newest ones go, so that what is left says nothing about them.
        for n in 10..30 {
            bench.delete(&format!("{round}-{n}"), "[1]").result.unwrap();
        }
        bench = bench.reopened();
    }
}

#[test]
fn partitions_of_an_unfinished_creation_are_dropped() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store), 1);
    bench.make_container(400, KEY_PK);
    store.create_partitions(&[PartitionId(900)], Lsn(0)).unwrap();
    let bench = bench.reopened();
    assert_eq!(bench.database.status().store.partitions, 2);
    bench.create(r#"{"id":"x","pk":1}"#).result.unwrap();
}
