//! What the fault decorator does, and that it does it again with the same seed.

use std::sync::Arc;

use partita_model::Lsn;
use partita_storage::{
    Batch, FaultPlan, FaultStore, MemoryStore, PartitionId, Space, StorageError, Store,
};

const P: PartitionId = PartitionId(1);

fn wrap(inner: &Arc<MemoryStore>, plan: FaultPlan) -> FaultStore {
    FaultStore::new(Arc::clone(inner) as Arc<dyn Store>, plan)
}

fn memory() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    store.create_partitions(&[P], Lsn(0)).unwrap();
    Arc::new(store)
}

fn item(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Space::Items, number.to_be_bytes().to_vec(), vec![]);
    batch
}

/// How many writes are acknowledged before the first that fails, and how many the store holds then.
fn run(plan: FaultPlan) -> (u64, u64, StorageError) {
    let inner = memory();
    let store = wrap(&inner, plan);
    for number in 0..10_000 {
        if let Err(error) = store.submit(P, item(number)).wait() {
            return (number, inner.snapshot(P).unwrap().lsn().0, error);
        }
    }
    panic!("no write failed");
}

#[test]
fn a_failed_write_poisons_and_may_or_may_not_be_done() {
    let mut outcomes = [0, 0];
    for seed in 0..40 {
        let plan = FaultPlan { seed, failed_writes_per_mille: 20, ..FaultPlan::default() };
        let (acknowledged, held, error) = run(plan);
        assert!(matches!(error, StorageError::Poisoned(_)));
        assert!(held == acknowledged || held == acknowledged + 1);
        outcomes[usize::try_from(held - acknowledged).unwrap()] += 1;
        assert_eq!(run(plan), (acknowledged, held, error), "a seed decides everything");
    }
    assert!(outcomes.iter().all(|count| *count > 5), "{outcomes:?}");
}

#[test]
fn after_a_failed_write_everything_is_refused_and_reads_go_on() {
    let inner = memory();
    let plan = FaultPlan { failed_writes_per_mille: 1000, ..FaultPlan::default() };
    let store = wrap(&inner, plan);
    let answer = store.submit(P, item(1)).wait();
    assert!(matches!(answer, Err(StorageError::Poisoned(_))), "it may be done");
    for _ in 0..3 {
        let answer = store.submit(P, item(1)).wait();
        assert!(matches!(answer, Err(StorageError::Stopped(_))), "it is not done");
    }
    assert!(!store.status().healthy);
    assert!(store.snapshot(P).is_ok());
}

#[test]
fn a_crash_comes_at_its_write_and_a_restart_goes_on() {
    let inner = memory();
    let plan = FaultPlan { seed: 3, crash_at_write: Some(5), ..FaultPlan::default() };
    let store = wrap(&inner, plan);
    let answers: Vec<bool> = (0..7).map(|n| store.submit(P, item(n)).wait().is_ok()).collect();
    assert_eq!(answers, [true, true, true, true, false, false, false]);
    assert_eq!(store.snapshot(P).err(), Some(StorageError::Closed));
    let again = wrap(&inner, FaultPlan::default());
    let lsn = again.snapshot(P).unwrap().lsn().0;
    assert!(lsn == 4 || lsn == 5);
    assert_eq!(again.submit(P, item(9)).wait().unwrap().lsn, Lsn(lsn + 1));
}

#[test]
fn failed_reads_are_errors_and_pass() {
    let inner = memory();
    inner.submit(P, item(0)).wait().unwrap();
    let store = wrap(&inner, FaultPlan { failed_reads_per_mille: 300, ..FaultPlan::default() });
    let read = || store.snapshot(P)?.get(Space::Items, &0u64.to_be_bytes());
    let answers: Vec<_> = (0..200).map(|_| read()).collect();
    let failed = answers.iter().filter(|answer| matches!(answer, Err(StorageError::Io(_)))).count();
    assert!((40..160).contains(&failed), "{failed}");
    assert!(answers.iter().flatten().all(Option::is_some));
}
