//! A disk that is full, and a store that fails and is opened again while the database serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_engine::{
    BatchMode, ContainerPath, DatabasePath, Maintenance, Op, Outcome, Scope, SplitAt,
};
use partita_model::{ErrorKind, PartitionKeyHeader, ScriptKind, Value};
use partita_storage::{FaultPlan, FaultStore, MemoryStore, Store};

use crate::batches::delete;
use crate::harness::*;
use crate::moves::STEP;
use crate::scripts::{call, create, scripted_on};

fn failing(plan: FaultPlan) -> Arc<FaultStore> {
    Arc::new(FaultStore::new(Arc::new(MemoryStore::new()), plan))
}

/// Maintains until the store is open again; time passes meanwhile.
fn reopen(bench: &Bench, store: &FaultStore) {
    for _ in 0..100 {
        if !store.is_stopped() {
            return;
        }
        bench.database.maintain(&STEP).unwrap();
        bench.clock.advance_millis(31_000);
    }
    panic!("it stays stopped");
}

fn document(n: u64, value: u64) -> String {
    format!(r#"{{"id":"{n}","pk":{n},"v":{value},"ttl":-1}}"#)
}

fn delete_all(ids: &[u64]) -> Op {
    Op::Batch {
        container: path(),
        operations: ids.iter().map(|id| delete(&id.to_string())).collect(),
        mode: BatchMode::Atomic { partition_key: PartitionKeyHeader::parse("[7]").ok() },
    }
}

#[test]
fn a_full_disk_refuses_what_is_new_and_lets_deletes_reads_and_expiry_go_on() {
    for (_, throughput) in PARTITIONS {
        let store = failing(FaultPlan::default());
        let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, 1);
        bench.make_container(throughput, &format!(r#"{KEY_PK},"defaultTtl":-1"#));
        bench.create_container("other", 400, KEY_PK).result.unwrap();
        for n in 0..20 {
            bench.create(&document(n, 1)).result.unwrap();
        }
        for n in [70, 71, 72] {
            bench.create(&format!(r#"{{"id":"{n}","pk":7}}"#)).result.unwrap();
        }
        bench.create(r#"{"id":"mortal","pk":1,"ttl":5}"#).result.unwrap();
        store.set_full(true);
        let full = |reply| assert_eq!(error(&reply), ErrorKind::DiskFull);
        full(bench.create(&document(99, 1)));
        full(bench.upsert(&document(1, 2), None));
        full(bench.replace("1", "[1]", &document(1, 2), None));
        full(bench.patch("1", "[1]", r#"[{"op":"set","path":"/v","value":2}]"#));
        full(bench.create_container("third", 400, KEY_PK));
        full(bench.run(Op::CreateDatabase { name: "more".into(), throughput: None }));
        assert_eq!(bench.list(&Scope::All, 100).len(), 24);
        assert_eq!(body(&bench.read("1", "[1]")).get("v"), Some(&Value::from(1)));

        bench.delete("0", "[0]").result.unwrap();
        bench.run(delete_all(&[70, 71])).result.unwrap();
        let key = PartitionKeyHeader::parse("[7]").unwrap();
        let deleted =
            bench.run(Op::DeletePartitionKey { container: path(), partition_key: Some(key) });
        deleted.result.unwrap();
        let other = ContainerPath { database: "db".into(), container: "other".into() };
        bench.run(Op::DeleteContainer { container: other, condition: None }).result.unwrap();
        // What outlived its time goes, too; a split waits.
        bench.split(0, SplitAt::Midpoint).result.unwrap_err();
        let stored = bench.items_stored();
        bench.clock.advance_millis(60_000);
        while bench.items_stored() == stored {
            bench.database.maintain(&STEP).unwrap();
            bench.clock.advance_millis(1_000);
        }
        bench.assert_whole();

        store.set_full(false);
        bench.create(&document(99, 1)).result.unwrap();
        bench.upsert(&document(1, 2), None).result.unwrap();
        bench.create_container("third", 400, KEY_PK).result.unwrap();
        assert_eq!(bench.list(&Scope::All, 100).len(), 19, "0, 7 and 70 to 72 and the mortal went");
        let gone =
            bench.run(Op::DeleteDatabase { database: DatabasePath("db".into()), condition: None });
        gone.result.unwrap();
    }
}

#[test]
fn a_write_that_fails_is_not_said_to_be_undone_and_those_after_it_are() {
    let store = failing(FaultPlan::default());
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, 1);
    bench.make_container(400, KEY_PK);
    bench.create(&document(1, 1)).result.unwrap();
    store.fail_next_write();
    let message = |reply: partita_engine::Reply| reply.result.unwrap_err().message;
    let unknown = message(bench.create(&document(2, 1)));
    assert!(unknown.contains("Whether this write was done is known when"), "{unknown}");
    let refused = bench.create(&document(3, 1));
    assert_eq!(error(&refused), ErrorKind::Unavailable);
    let refused = message(refused);
    assert!(refused.contains("was not done, retry later"), "{refused}");
    bench.read("1", "[1]").result.unwrap();
    assert_eq!(bench.database.maintain(&STEP), Ok(Maintenance::Busy));
    assert_eq!(bench.database.status().store.reopenings, 1);
    bench.create(&document(3, 1)).result.unwrap();
    bench.assert_whole();
}

#[test]
fn a_stopped_store_waits_for_room_and_is_then_opened_at_once() {
    let store = failing(FaultPlan::default());
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, 1);
    bench.make_container(400, KEY_PK);
    store.fail_next_write();
    bench.create(&document(1, 1)).result.unwrap_err();
    store.set_full(true);
    for _ in 0..3 {
        let step = bench.database.maintain(&STEP);
        assert!(matches!(step, Ok(Maintenance::Resting(_))), "{step:?}");
        bench.clock.advance_millis(50);
    }
    assert!(store.is_stopped());
    store.set_full(false);
    assert_eq!(bench.database.maintain(&STEP), Ok(Maintenance::Busy));
    bench.create(&document(2, 1)).result.unwrap();
}

/// An operation that began before a split ended, and writes after the store was opened again: the
/// seal that kept it from what the split replaced went with the failure.
#[test]
fn what_was_replaced_before_a_failure_takes_no_write_after_it() {
    let store = failing(FaultPlan::default());
    let (bench, steps) = scripted_on(Arc::clone(&store) as Arc<dyn Store>, unthrottled());
    let bench = Arc::new(bench);
    bench.make_container(400, KEY_PK);
    (0..8).for_each(|n| drop(bench.create(&document(n, 1)).result.unwrap()));
    let source = r#"[["create",{"id":"late","pk":1}],["hook"]]"#;
    create(&bench, ScriptKind::Procedure, "slow", source).result.unwrap();
    let (meanwhile, mut runs) = (Arc::clone(&bench), 0);
    steps.on_hook(move || {
        runs += 1;
        if runs > 1 {
            return;
        }
        meanwhile.split(0, SplitAt::Midpoint).result.unwrap();
        while meanwhile.range_ids() == [0] {
            meanwhile.database.maintain(&STEP).unwrap();
        }
        meanwhile.upsert(&document(1, 2), None).result.unwrap();
        store.fail_next_write();
        meanwhile.create(&document(9, 1)).result.unwrap_err();
        assert_eq!(meanwhile.database.maintain(&STEP), Ok(Maintenance::Busy), "it is open again");
    });
    let reply = bench.run(call("slow", "[1]", "[]"));
    reply.result.unwrap();
    let (written, now) = (reply.served.unwrap(), bench.read("1", "[1]").served.unwrap());
    assert_eq!((written.range_id, written.lsn), (now.range_id, now.lsn), "where the key lives");
    bench.read("late", "[1]").result.unwrap();
    bench.settle();
    bench.read("late", "[1]").result.unwrap();
    bench.assert_whole();
}

/// What the items may be: as acknowledged last, or as a write said whose end is unknown.
#[derive(Default)]
struct Model {
    known: BTreeMap<u64, Option<u64>>,
    unknown: BTreeMap<u64, Vec<Option<u64>>>,
    lsns: BTreeMap<u32, u64>,
}

impl Model {
    /// One write; false if it failed.
    fn write(&mut self, bench: &Bench, n: u64, value: Option<u64>) -> bool {
        let reply = match value {
            Some(value) => bench.upsert(&document(n, value), None),
            None => bench.delete(&n.to_string(), &format!("[{n}]")),
        };
        if let (Ok(_), Some(served)) = (&reply.result, &reply.served) {
            let before = self.lsns.insert(served.range_id, served.lsn.0);
            assert!(before.is_none_or(|before| before < served.lsn.0), "LSNs grow");
        }
        match reply.result {
            Ok(_) => {
                self.known.insert(n, value);
                self.unknown.remove(&n);
                true
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.check_one(bench, n);
                true
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
                self.unknown.entry(n).or_default().push(value);
                false
            }
        }
    }

    fn check_one(&mut self, bench: &Bench, n: u64) {
        let read = bench.read(&n.to_string(), &format!("[{n}]"));
        let found = match &read.result {
            Ok(Outcome::Item { .. }) => {
                body(&read).get("v").and_then(Value::as_i64).map(|v| v as u64)
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
                None
            }
        };
        let known = self.known.get(&n).copied().flatten();
        let unknown = self.unknown.remove(&n).unwrap_or_default();
        assert!(found == known || unknown.contains(&found), "{n}: {found:?}, not {known:?}");
        self.known.insert(n, found);
    }
}

/// Splits and merges go on under it, and every commit of the catalog may be the one that fails.
#[test]
fn whatever_write_fails_the_database_goes_on_with_all_that_was_acknowledged() {
    let mut reopenings = 0;
    for seed in 0..40 {
        let plan = FaultPlan { seed, failed_writes_per_mille: 25, ..FaultPlan::default() };
        let store = failing(FaultPlan::default());
        let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, 1);
        bench.make_container(400, KEY_PK);
        store.set_plan(plan);
        let mut model = Model::default();
        for step in 0..250_u64 {
            let n = (step * 7 + seed) % 24;
            if step % 60 == 20 {
                let ids = bench.range_ids();
                drop(match ids.as_slice() {
                    [left, right, ..] if step % 120 == 80 => bench.merge([*left, *right]),
                    [first, ..] => bench.split(*first, SplitAt::Midpoint),
                    [] => panic!("no range"),
                });
            }
            drop(bench.database.maintain(&STEP));
            let value = (step % 5 != 0).then_some(step);
            if !model.write(&bench, n, value) {
                reopen(&bench, &store);
                (0..24).for_each(|n| model.check_one(&bench, n));
            }
        }
        reopenings += bench.database.status().store.reopenings;
        store.set_plan(FaultPlan::default());
        reopen(&bench, &store);
        bench.settle();
        bench.assert_whole();
        (0..24).for_each(|n| model.check_one(&bench, n));
        let left = bench.reopened();
        left.assert_whole();
        (0..24).for_each(|n| model.check_one(&left, n));
        let status = left.database.status();
        assert_eq!(status.store.partitions as usize, status.partitions + 1, "seed {seed}");
    }
    assert!(reopenings > 100, "{reopenings}");
}
