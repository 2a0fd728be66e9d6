//! Cases for stores that remember: what was acknowledged is there after a restart, and goes on.

use super::{Case, P, Rig, commit, get, keys, open_with_partition, put, snapshot};
use crate::contract::StorageError;
use crate::contract::{Batch, PartitionId, Space, counter};
use partita_model::Lsn;

pub(super) const CASES: &[Case] = &[
    ("what was committed is there again", what_was_committed_is_there_again),
    ("partitions stay as they were", partitions_stay_as_they_were),
    ("LSNs go on after a gap, and nothing is sealed", lsns_go_on_after_a_gap_and_nothing_is_sealed),
    ("a store without a commit reopens", a_store_without_a_commit_reopens),
];

fn what_was_committed_is_there_again(rig: &dyn Rig) {
    if !rig.is_durable() {
        return;
    }
    let mut store = open_with_partition(rig);
    for round in 1..=5u64 {
        let mut batch = Batch::new();
        batch.put(Space::Items, b"n".to_vec(), round.to_string().into_bytes());
        batch.add(Space::Meta, b"sum".to_vec(), 10);
        batch.log(vec![], vec![]);
        assert_eq!(commit(&*store, P, batch), Ok(Lsn(round)));
        store.close().expect("closing");
        drop(store);
        store = rig.open();
        let now = snapshot(&*store, P);
        assert_eq!(now.lsn(), Lsn(round));
        assert_eq!(get(&*now, "n"), Some((round.to_string(), Lsn(round))));
        let sum = now.get(Space::Meta, b"sum").expect("a read").expect("a counter");
        assert_eq!(counter(&sum.value), Ok(10 * round as i64));
        assert_eq!(keys(&*now, Space::Feed).len() as u64, round);
    }
}

fn partitions_stay_as_they_were(rig: &dyn Rig) {
    if !rig.is_durable() {
        return;
    }
    let store = open_with_partition(rig);
    let [silent, dropped] = [20, 21].map(PartitionId);
    store.create_partitions(&[silent, dropped], Lsn(1000)).expect("partitions");
    put(&*store, "a", "1");
    store.drop_partitions(&[dropped]).expect("a drop");
    store.close().expect("closing");
    drop(store);
    let store = rig.open();
    assert_eq!(store.partitions(), Ok(vec![P, silent]));
    assert_eq!(snapshot(&*store, silent).lsn(), Lsn(1000));
    assert_eq!(commit(&*store, silent, Batch::new()), Ok(Lsn(1001)));
    assert_eq!(store.snapshot(dropped).err(), Some(StorageError::PartitionGone(dropped)));
    for id in [silent, dropped] {
        let again = store.create_partitions(&[id], Lsn(0));
        assert_eq!(again, Err(StorageError::PartitionExists(id)));
    }
}

fn lsns_go_on_after_a_gap_and_nothing_is_sealed(rig: &dyn Rig) {
    if !rig.is_durable() {
        return;
    }
    let store = open_with_partition(rig);
    let late = Batch { lsn_min: Some(Lsn(500)), ..Batch::new() };
    assert_eq!(commit(&*store, P, late), Ok(Lsn(500)));
    assert_eq!(store.seal(P), Ok(Lsn(500)));
    store.close().expect("closing");
    drop(store);
    let store = rig.open();
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(500));
    assert_eq!(put(&*store, "a", "1"), Lsn(501));
}

fn a_store_without_a_commit_reopens(rig: &dyn Rig) {
    if !rig.is_durable() {
        return;
    }
    for _ in 0..3 {
        let store = rig.open();
        assert_eq!(store.partitions(), Ok(vec![]));
        store.close().expect("closing");
    }
}
