//! Writers, readers, queries and batches go on while partitions split and merge.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use partita_engine::{
    BatchAction, BatchMode, BatchOperation, Indexing, MaintenanceBudget, Op, Outcome, Returns,
    Scope, SplitAt, TriggerNames,
};
use partita_model::{ErrorKind, PartitionKeyHeader, Value};

use crate::harness::*;

const WRITERS: usize = 4;
const KEYS: usize = 13;
const MOVES: usize = 12;
/// What a writer may do for each move: every move copies the whole feed, which must not run away.
const WRITES_PER_MOVE: usize = 40;

/// Splits and merges.
fn shake(bench: &Bench, writes_max: &AtomicUsize) {
    let mut moves = 0;
    while moves < MOVES {
        writes_max.store((moves + 1) * WRITES_PER_MOVE, Ordering::Release);
        let ids = bench.range_ids();
        // A reply holds the container as it was, and with it the partitions.
        let has_begun = match ids.as_slice() {
            [left, .., right] if ids.len() > 3 => {
                drop(bench.split(*left, SplitAt::Midpoint));
                let at = ids.len() - 2;
                bench.merge([ids[at], *right]).result.is_ok()
            }
            ids => bench.split(ids[moves % ids.len()], SplitAt::Storage).result.is_ok(),
        };
        let budget = MaintenanceBudget { items_max: 16, bytes_max: 1 << 20 };
        while bench.database.maintain(&budget).unwrap() != partita_engine::Maintenance::Idle {
            thread::yield_now();
        }
        moves += usize::from(has_begun);
    }
}

/// Writes items of its own, one after the other, and checks that it reads them back.
fn write(bench: &Bench, writer: usize, writes_max: &AtomicUsize) -> BTreeMap<String, i64> {
    let mut known = BTreeMap::new();
    for n in 0..MOVES * WRITES_PER_MOVE {
        while n >= writes_max.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let key = n % KEYS;
        let id = format!("{writer}-{}", n % 40);
        let document = format!(r#"{{"id":"{id}","pk":{key},"v":{n}}}"#);
        match n % 5 {
            4 => {
                let reply = bench.delete(&id, &format!("[{key}]"));
                match reply.result {
                    Ok(_) => drop(known.remove(&format!("{key}/{id}"))),
                    Err(error) => assert_eq!(error.kind, ErrorKind::NotFound),
                }
            }
            3 => {
                let create = |suffix: &str| BatchOperation {
                    action: BatchAction::Upsert {
                        body: document.replace(&id, &format!("{id}{suffix}")).into_bytes(),
                        indexing: Indexing::ByPolicy,
                    },
                    partition_key: None,
                    condition: None,
                    ttl_seconds: None,
                    triggers: TriggerNames::default(),
                    returns: Returns::Etag,
                };
                let partition_key = PartitionKeyHeader::parse(&format!("[{key}]")).unwrap();
                let reply = bench.run(Op::Batch {
                    container: path(),
                    operations: vec![create("a"), create("b")],
                    mode: BatchMode::Atomic { partition_key: Some(partition_key) },
                });
                let Ok(Outcome::Batch { results }) = reply.result else { panic!("{reply:?}") };
                assert!(results.iter().all(|result| result.result.is_ok()));
                known.insert(format!("{key}/{id}a"), n as i64);
                known.insert(format!("{key}/{id}b"), n as i64);
            }
            _ => {
                let reply = bench.upsert(&document, None);
                assert!(reply.result.is_ok(), "{reply:?}");
                known.insert(format!("{key}/{id}"), n as i64);
                let read = bench.read(&id, &format!("[{key}]"));
                assert_eq!(body(&read).get("v").and_then(Value::as_i64), Some(n as i64));
            }
        }
    }
    known
}

#[test]
fn nobody_notices_moves() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..200 {
        bench.create(&format!(r#"{{"id":"old{n}","pk":{},"old":true}}"#, n % KEYS)).result.unwrap();
    }
    let (done, writes_max) = (AtomicBool::new(false), AtomicUsize::new(0));
    let known: Vec<_> = thread::scope(|scope| {
        let (bench, writes_max) = (&bench, &writes_max);
        let start = |writer| scope.spawn(move || write(bench, writer, writes_max));
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let old = bench.list(&Scope::All, 50).into_iter();
                let old = old.filter(|item| item.get("old").is_some()).count();
                assert_eq!(old, 200, "a feed sees every item that was there all the time, once");
            }
        });
        let moved = scope.spawn(|| shake(bench, writes_max)).join();
        // Whatever happened, nobody waits for more.
        writes_max.store(usize::MAX, Ordering::Release);
        done.store(true, Ordering::Release);
        moved.unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    bench.settle();
    let mut expected = BTreeMap::new();
    known.into_iter().for_each(|known| expected.extend(known));
    let found = bench.list(&Scope::All, 100).into_iter().filter(|item| item.get("old").is_none());
    let found: BTreeMap<String, i64> = found
        .map(|item| {
            let key = item.get("pk").and_then(Value::as_i64).unwrap();
            let v = item.get("v").and_then(Value::as_i64).unwrap();
            (format!("{key}/{}", text(&item, "id")), v)
        })
        .collect();
    assert_eq!(found, expected);
    bench.assert_whole();
}
