//! Cases with several threads: nothing is lost, nothing is seen half done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Case, P, Rig, commit, get, open_with_partition, put, snapshot};
use crate::contract::StorageError;
use crate::contract::{Batch, Direction, KeyRange, ScanLimit, Space, Store, counter};
use partita_model::Lsn;

pub(super) const CASES: &[Case] = &[
    ("every commit of many threads is there", every_commit_of_many_threads_is_there),
    ("optimistic updates lose nothing", optimistic_updates_lose_nothing),
    ("readers see whole batches only", readers_see_whole_batches_only),
    ("tickets can be awaited", tickets_can_be_awaited),
];

const THREADS: u64 = 4;
const ROUNDS: u64 = 25;

fn every_commit_of_many_threads_is_there(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let store = &*store;
    let mut lsns: Vec<Lsn> = thread::scope(|scope| {
        let write = |thread: u64| {
            move || -> Vec<Lsn> {
                (0..ROUNDS)
                    .map(|round| commit(store, P, numbered(thread, round)).expect("a commit"))
                    .collect()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(write(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    lsns.sort();
    assert_eq!(lsns, (1..=THREADS * ROUNDS).map(Lsn).collect::<Vec<_>>());
    let now = snapshot(store, P);
    for thread in 0..THREADS {
        for round in 0..ROUNDS {
            assert!(get(&*now, &format!("{thread}-{round}")).is_some(), "{thread}-{round}");
        }
    }
    let sum = now.get(Space::Meta, b"sum").expect("a read").expect("a counter");
    assert_eq!(counter(&sum.value), Ok((THREADS * ROUNDS) as i64));
}

fn numbered(thread: u64, round: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Space::Items, format!("{thread}-{round}").into_bytes(), vec![]);
    batch.add(Space::Meta, b"sum".to_vec(), 1);
    batch
}

fn optimistic_updates_lose_nothing(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let store = &*store;
    put(store, "n", "0");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| increment(store)));
        }
    });
    let value = get(&*snapshot(store, P), "n").map(|(value, _)| value);
    assert_eq!(value, Some((THREADS * ROUNDS).to_string()));
}

fn increment(store: &dyn Store) {
    loop {
        let (value, lsn) = get(&*snapshot(store, P), "n").expect("the item");
        let next = value.parse::<u64>().expect("a number") + 1;
        let mut batch = Batch::new();
        batch.expect_unchanged(Space::Items, b"n".to_vec(), lsn);
        batch.put(Space::Items, b"n".to_vec(), next.to_string().into_bytes());
        match commit(store, P, batch) {
            Ok(_) => return,
            Err(StorageError::Conflict { .. }) => {}
            Err(error) => panic!("an update failed: {error}"),
        }
    }
}

fn readers_see_whole_batches_only(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let store = &*store;
    commit(store, P, equal(0)).expect("a commit");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    assert_equal(store);
                }
            });
        }
        for round in 1..=100 {
            commit(store, P, equal(round)).expect("a commit");
        }
        done.store(true, Ordering::Release);
    });
}

/// The same value under ten keys in every space.
fn equal(round: u64) -> Batch {
    let mut batch = Batch::new();
    for space in [Space::Items, Space::Index, Space::Meta] {
        for key in 0..10 {
            batch.put(space, vec![key], round.to_be_bytes().to_vec());
        }
    }
    batch
}

fn assert_equal(store: &dyn Store) {
    let now = snapshot(store, P);
    let limit = ScanLimit { entries_max: 100, bytes_max: usize::MAX };
    for space in [Space::Items, Space::Index, Space::Meta] {
        let page = now.scan(space, &KeyRange::all(), Direction::Forward, limit).expect("a scan");
        assert_eq!(page.entries.len(), 10);
        // Round n is commit n + 1.
        let expected = (now.lsn().0 - 1).to_be_bytes();
        for entry in page.entries {
            assert_eq!((&entry.record.value[..], entry.record.lsn), (&expected[..], now.lsn()));
        }
    }
}

fn tickets_can_be_awaited(rig: &dyn Rig) {
    let store = open_with_partition(rig);
    let ticket = store.submit(P, numbered(0, 0));
    assert_eq!(block_on(ticket).map(|commit| commit.lsn), Ok(Lsn(1)));
}

/// Runs a future on this thread, sleeping until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
