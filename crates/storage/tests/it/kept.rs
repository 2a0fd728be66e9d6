//! Items that are kept in one piece are those of the view, whoever writes meanwhile.
//!
//! A scan reads the engine's blocks, a read by key may find a kept item: on one view both have to
//! say the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedSettings, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Snapshot,
    Space, Store,
};

use crate::dir::{TempDir, lanes, relaxed};

const P: PartitionId = PartitionId(1);
const KEYS: u64 = 40;

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Changes some items at once, each in another way than the time before.
fn change(store: &dyn Store, round: u64) {
    let mut batch = Batch::new();
    for number in (0..KEYS).filter(|number| (number * 7 + round).is_multiple_of(5)) {
        match (number + round) % 4 {
            0 => batch.delete(Space::Items, key(number)),
            _ => batch.put(Space::Items, key(number), round.to_be_bytes().repeat(20)),
        };
    }
    store.submit(P, batch).wait().unwrap();
}

/// Compares what is found by keys with what a scan says. How many items there are.
fn compare(snapshot: &dyn Snapshot) -> usize {
    let limit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };
    let page = snapshot.scan(Space::Items, &KeyRange::all(), Direction::Forward, limit).unwrap();
    let mut scanned = page.entries.into_iter().peekable();
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let found = snapshot.get_many(Space::Items, &keys).unwrap();
    let count = found.iter().flatten().count();
    for (key, found) in keys.iter().zip(found) {
        let expected = scanned.next_if(|entry| entry.key == key[..]);
        assert_eq!(found, expected.map(|entry| entry.record), "{key:?}");
    }
    count
}

fn store(dir: &TempDir, cache_bytes: u64) -> EmbeddedStore {
    let settings = EmbeddedSettings { cache_bytes, ..lanes(1) };
    let store = EmbeddedStore::open(dir.path(), relaxed(settings)).unwrap();
    store.create_partitions(&[P], Lsn(0)).unwrap();
    store
}

#[test]
fn views_of_all_ages_find_their_own_items() {
    let dir = TempDir::new();
    let store = store(&dir, 1 << 20);
    let mut views = Vec::new();
    for round in 0..60 {
        change(&store, round);
        views.push(store.snapshot(P).unwrap());
        // The old ones after the new ones, and the other way round.
        let counts: Vec<usize> = views.iter().map(|view| compare(&**view)).collect();
        let again: Vec<usize> = views.iter().rev().map(|view| compare(&**view)).collect();
        assert!(counts.iter().eq(again.iter().rev()));
    }
}

#[test]
fn readers_find_the_items_of_their_views_while_others_write() {
    // With the smaller one, items go as fast as they come.
    for cache_bytes in [1 << 20, 1 << 12] {
        let dir = TempDir::new();
        let store = store(&dir, cache_bytes);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let view = store.snapshot(P).unwrap();
                        let first = compare(&*view);
                        assert_eq!(compare(&*view), first);
                    }
                });
            }
            (0..2_000).for_each(|round| change(&store, round));
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
