//! Moves that are cut off: at every step, at every write, and by reads that fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_engine::SplitAt;
use partita_model::Value;
use partita_storage::{FaultPlan, FaultStore, MemoryStore, Store};

use super::STEP;
use crate::harness::*;

fn filled(store: &Arc<dyn Store>) -> Bench {
    let bench = Bench::on(Arc::clone(store), 1);
    bench.make_container(400, KEY_PK);
    for n in 0..24 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{},"v":0}}"#, n % 7)).result.unwrap();
    }
    bench
}

/// Reopening a store ends the rest of its partitions; this one is only wrapped anew.
fn unseal_all(store: &Arc<dyn Store>) {
    for id in store.partitions().unwrap() {
        store.unseal(id).unwrap();
    }
}

/// Whatever was cut off, it comes to an end, and no partition is left over.
fn assert_comes_to_rest(bench: Bench, expected: &BTreeMap<String, Value>) -> Bench {
    bench.settle();
    assert_eq!(bench.everything(), *expected);
    bench.assert_whole();
    bench.partitions();
    let bench = bench.reopened();
    assert_eq!(bench.everything(), *expected);
    let status = bench.database.status();
    assert_eq!(status.store.partitions as usize, status.partitions + 1);
    bench
}

#[test]
fn a_move_goes_on_after_a_restart_at_every_step() {
    for steps in 0..40 {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let bench = filled(&store);
        bench.split(0, SplitAt::Midpoint).result.unwrap();
        for n in 0..steps {
            bench.database.maintain(&STEP).unwrap();
            bench.upsert(&format!(r#"{{"id":"{n}","pk":{},"v":1}}"#, n % 7), None).result.unwrap();
        }
        let expected = bench.everything();
        let bench = assert_comes_to_rest(bench.reopened(), &expected);
        assert_eq!(bench.range_ids(), [1, 2]);
        bench.merge([1, 2]).result.unwrap();
        for n in 0..steps {
            bench.database.maintain(&STEP).unwrap();
            drop(bench.delete(&n.to_string(), &format!("[{}]", n % 7)));
        }
        let expected = bench.everything();
        let bench = assert_comes_to_rest(bench.reopened(), &expected);
        assert_eq!(bench.range_ids(), [3]);
    }
}

/// A life with a split and a merge under writes, up to the first failure. Returns the item whose
/// write failed, if it was one.
fn live(bench: &Bench) -> Option<u32> {
    let mut n = 0;
    for round in 0..2 {
        let ids = bench.range_ids();
        let begun = match (round, ids.as_slice()) {
            (1, [left, right, ..]) => bench.merge([*left, *right]),
            (_, ids) => bench.split(ids[0], SplitAt::Midpoint),
        };
        if begun.result.is_err() {
            return None;
        }
        for _ in 0..40 {
            if bench.database.maintain(&STEP).is_err() {
                return None;
            }
            n = (n + 5) % 24;
            let body = format!(r#"{{"id":"{n}","pk":{},"v":{round}}}"#, n % 7);
            if bench.upsert(&body, None).result.is_err() {
                return Some(n);
            }
        }
    }
    None
}

#[test]
fn a_crash_at_any_write_of_a_move_loses_nothing() {
    for crash_at in 1..150 {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        drop(filled(&inner));
        let plan =
            FaultPlan { seed: crash_at, crash_at_write: Some(crash_at), ..Default::default() };
        let failing = Bench::on(Arc::new(FaultStore::new(Arc::clone(&inner), plan)), 2);
        let in_flight = live(&failing);
        unseal_all(&inner);
        let bench = Bench::on(inner, 3);
        let mut expected = bench.everything();
        assert_eq!(expected.len(), 24, "crash at {crash_at}, in flight {in_flight:?}");
        bench.assert_whole();
        // The database goes on, also while the move does.
        for n in 0..24 {
            let body = format!(r#"{{"id":"{n}","pk":{},"v":9}}"#, n % 7);
            expected.insert(n.to_string(), crate::harness::body(&bench.upsert(&body, None)));
            bench.database.maintain(&STEP).unwrap();
        }
        assert_comes_to_rest(bench, &expected);
    }
}

#[test]
fn reads_that_fail_delay_a_move_and_nothing_else() {
    for seed in 0..30 {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        drop(filled(&inner));
        let plan = FaultPlan { seed, failed_reads_per_mille: 30, ..Default::default() };
        let store = Arc::new(FaultStore::new(Arc::clone(&inner), plan));
        let Some(bench) = Bench::try_on(store, 2) else { continue };
        if bench.split(0, SplitAt::Midpoint).result.is_err() {
            continue;
        }
        let mut expected = BTreeMap::new();
        for n in 0..24 {
            drop(bench.database.maintain(&STEP));
            let document = format!(r#"{{"id":"{n}","pk":{},"v":{seed}}}"#, n % 7);
            // A failed read may fail the write, or leave its partition sealed until the next step.
            let mut attempts = (0..200).map(|_| {
                drop(bench.database.maintain(&STEP));
                bench.upsert(&document, None)
            });
            let written = attempts.find(|reply| reply.result.is_ok()).unwrap();
            expected.insert(n.to_string(), body(&written));
        }
        (0..3_000).for_each(|_| drop(bench.database.maintain(&STEP)));
        drop(bench);
        unseal_all(&inner);
        let bench = Bench::on(inner, 3);
        assert_eq!(bench.everything(), expected, "seed {seed}");
        let bench = assert_comes_to_rest(bench, &expected);
        assert_eq!(bench.range_ids(), [1, 2], "seed {seed}");
    }
}
