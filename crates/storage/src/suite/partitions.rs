//! Cases about making and dropping partitions, and about closing the store.

use super::{Case, P, Rig, commit, get, keys, open_with_partition, put, snapshot};
use crate::contract::StorageError;
use crate::contract::{Batch, PartitionId, Space};
use partita_model::Lsn;

pub(super) const CASES: &[Case] = &[
    ("a new store is empty and healthy", a_new_store_is_empty_and_healthy),
    ("partitions are made all or none", partitions_are_made_all_or_none),
    ("an id is never reused", an_id_is_never_reused),
    ("a partition starts where it is told", a_partition_starts_where_it_is_told),
    ("an unknown partition is gone", an_unknown_partition_is_gone),
    ("partitions do not share keys", partitions_do_not_share_keys),
    ("a dropped partition is gone at once", a_dropped_partition_is_gone_at_once),
    ("dropping an unknown partition is nothing", dropping_an_unknown_partition_is_nothing),
    ("many partitions live side by side", many_partitions_live_side_by_side),
    ("a sealed partition commits nothing", a_sealed_partition_commits_nothing),
    ("sealing decides what was submitted before", sealing_decides_what_was_submitted_before),
    ("a closed store answers nothing", a_closed_store_answers_nothing),
];

fn a_new_store_is_empty_and_healthy(rig: &dyn Rig) {
    let store = rig.open();
    assert_eq!(store.partitions(), Ok(vec![]));
    let status = store.status();
    assert!(status.healthy, "{status:?}");
    assert_eq!((status.partitions, status.commits), (0, 0));
}

fn partitions_are_made_all_or_none(rig: &dyn Rig) {
    let store = rig.open();
    let [a, b, c] = [5, 2, 900].map(PartitionId);
    store.create_partitions(&[a, b], Lsn(0)).expect("two partitions");
    let again = store.create_partitions(&[c, a], Lsn(0));
    assert_eq!(again, Err(StorageError::PartitionExists(a)));
    let twice = store.create_partitions(&[c, c], Lsn(0));
    assert_eq!(twice, Err(StorageError::PartitionExists(c)));
    assert_eq!(store.partitions(), Ok(vec![b, a]));
    assert_eq!(store.create_partitions(&[], Lsn(0)), Ok(()));
    let reserved = PartitionId::RESERVED;
    assert_eq!(
        store.create_partitions(&[reserved], Lsn(0)),
        Err(StorageError::PartitionExists(reserved))
    );
}

fn an_id_is_never_reused(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    store.drop_partitions(&[P]).expect("a drop");
    let again = store.create_partitions(&[P], Lsn(0));
    assert_eq!(again, Err(StorageError::PartitionExists(P)));
}

fn a_partition_starts_where_it_is_told(rig: &dyn Rig) {
    let store = rig.open();
    store.create_partitions(&[P], Lsn(41)).expect("a partition");
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(41));
    assert_eq!(put(&*store, "a", "1"), Lsn(42));
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(42));
}

fn an_unknown_partition_is_gone(rig: &dyn Rig) {
    let store = rig.open();
    let gone = StorageError::PartitionGone(P);
    assert_eq!(commit(&*store, P, Batch::new()), Err(gone.clone()));
    assert_eq!(store.snapshot(P).err(), Some(gone));
}

fn partitions_do_not_share_keys(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    // Neighbours of P in the order of ids and in that of bytes.
    let others = [6, 8, 7 << 8, 7 << 56].map(PartitionId);
    store.create_partitions(&others, Lsn(0)).expect("partitions");
    put(&*store, "mine", "1");
    for other in others {
        assert_eq!(keys(&*snapshot(&*store, other), Space::Items), Vec::<String>::new());
    }
    assert_eq!(keys(&*snapshot(&*store, P), Space::Items), ["mine"]);
}

fn a_dropped_partition_is_gone_at_once(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let other = PartitionId(8);
    store.create_partitions(&[other], Lsn(0)).expect("a partition");
    put(&*store, "a", "1");
    let before = snapshot(&*store, P);
    store.drop_partitions(&[P]).expect("a drop");
    let gone = StorageError::PartitionGone(P);
    assert_eq!(commit(&*store, P, Batch::new()), Err(gone.clone()));
    assert_eq!(store.snapshot(P).err(), Some(gone.clone()));
    assert_eq!(store.partitions(), Ok(vec![other]));
    match before.get(Space::Items, b"a") {
        Ok(record) => assert_eq!(record.map(|record| record.lsn), Some(Lsn(1))),
        Err(error) => assert_eq!(error, gone),
    }
}

fn dropping_an_unknown_partition_is_nothing(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    assert_eq!(store.drop_partitions(&[PartitionId(99)]), Ok(()));
    assert_eq!(store.drop_partitions(&[]), Ok(()));
    assert_eq!(store.create_partitions(&[PartitionId(99)], Lsn(0)), Ok(()));
    assert_eq!(store.partitions(), Ok(vec![P, PartitionId(99)]));
}

fn many_partitions_live_side_by_side(rig: &dyn Rig) {
    let store = rig.open();
    let ids: Vec<PartitionId> = (1..=300).map(PartitionId).collect();
    store.create_partitions(&ids, Lsn(0)).expect("partitions");
    let tickets: Vec<_> = ids.iter().map(|id| store.submit(*id, named(*id))).collect();
    for ticket in tickets {
        assert_eq!(ticket.wait().map(|commit| commit.lsn), Ok(Lsn(1)));
    }
    for id in &ids {
        assert_eq!(get(&*snapshot(&*store, *id), "id"), Some((id.0.to_string(), Lsn(1))));
    }
    assert_eq!(store.status().partitions, 300);
}

fn named(id: PartitionId) -> Batch {
    let mut batch = Batch::new();
    batch.put(Space::Items, b"id".to_vec(), id.0.to_string().into_bytes());
    batch
}

fn a_sealed_partition_commits_nothing(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let other = PartitionId(8);
    store.create_partitions(&[other], Lsn(0)).expect("a partition");
    put(&*store, "a", "1");
    assert_eq!(store.seal(P), Ok(Lsn(1)));
    assert_eq!(store.seal(P), Ok(Lsn(1)), "twice is once");
    assert_eq!(commit(&*store, P, named(P)), Err(StorageError::Sealed(P)));
    assert_eq!(commit(&*store, other, named(other)), Ok(Lsn(1)));
    let now = snapshot(&*store, P);
    assert_eq!((get(&*now, "a"), now.lsn()), (Some(("1".into(), Lsn(1))), Lsn(1)));
    assert_eq!(store.unseal(P), Ok(()));
    assert_eq!(store.unseal(P), Ok(()));
    assert_eq!(put(&*store, "a", "2"), Lsn(2));
    assert_eq!(store.seal(P), Ok(Lsn(2)));
    store.drop_partitions(&[P]).expect("a drop");
    let gone = StorageError::PartitionGone(P);
    assert_eq!(commit(&*store, P, Batch::new()), Err(gone.clone()));
    assert_eq!((store.seal(P), store.unseal(P)), (Err(gone.clone()), Err(gone)));
}

fn sealing_decides_what_was_submitted_before(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let tickets: Vec<_> = (0..100).map(|_| store.submit(P, named(P))).collect();
    assert_eq!(store.seal(P), Ok(Lsn(100)));
    assert_eq!(snapshot(&*store, P).lsn(), Lsn(100));
    for (expected, ticket) in (1..).zip(tickets) {
        assert_eq!(ticket.wait().map(|commit| commit.lsn), Ok(Lsn(expected)));
    }
}

fn a_closed_store_answers_nothing(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    put(&*store, "a", "1");
    let before = snapshot(&*store, P);
    store.close().expect("closing");
    let closed = StorageError::Closed;
    assert_eq!(commit(&*store, P, Batch::new()), Err(closed.clone()));
    assert_eq!(store.snapshot(P).err(), Some(closed.clone()));
    assert_eq!(before.get(Space::Items, b"a"), Err(closed.clone()));
    assert_eq!(store.partitions(), Err(closed.clone()));
    assert_eq!(store.create_partitions(&[PartitionId(1)], Lsn(0)), Err(closed.clone()));
    assert_eq!(store.drop_partitions(&[P]), Err(closed.clone()));
    assert_eq!(store.seal(P), Err(closed.clone()));
    assert_eq!(store.unseal(P), Err(closed.clone()));
    assert_eq!(store.close(), Err(closed));
}
