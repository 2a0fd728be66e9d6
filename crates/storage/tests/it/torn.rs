//! Nobody sees half a batch, however busy the engine is with flushes and compactions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedSettings, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Space,
    Store,
};

use crate::dir::{TempDir, lanes, relaxed};

const SPACES: [Space; 3] = [Space::Items, Space::Index, Space::Meta];
const KEYS: u8 = 40;

/// A batch that gives every key of every space the same value.
fn equal(round: u64) -> Batch {
    let mut batch = Batch::new();
    for space in SPACES {
        for key in 0..KEYS {
            let mut value = round.to_be_bytes().to_vec();
            value.resize(64, 0);
            batch.put(space, vec![key], value);
        }
    }
    batch
}

fn write(store: &dyn Store, partition: PartitionId, done: &AtomicBool) -> u64 {
    let mut round = 0;
    while !done.load(Ordering::Acquire) {
        round += 1;
        store.submit(partition, equal(round)).wait().unwrap();
    }
    round
}

/// One look at a partition: everything must be of the round that the LSN says.
fn look(store: &dyn Store, partition: PartitionId) {
    let snapshot = store.snapshot(partition).unwrap();
    let limit = ScanLimit { entries_max: 1000, bytes_max: usize::MAX };
    let expected = snapshot.lsn();
    for space in SPACES {
        let page = snapshot.scan(space, &KeyRange::all(), Direction::Forward, limit).unwrap();
        let expected_len = if expected == Lsn(0) { 0 } else { usize::from(KEYS) };
        assert_eq!(page.entries.len(), expected_len, "{space:?} at {expected}");
        for entry in page.entries {
            let round = u64::from_be_bytes(*entry.record.value.first_chunk().unwrap());
            assert_eq!((Lsn(round), entry.record.lsn), (expected, expected), "{space:?}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "runs for a fixed time")]
fn no_snapshot_shows_half_a_batch() {
    let dir = TempDir::new();
    // Write buffers of a few batches: the engine flushes and compacts all the time.
    let settings = EmbeddedSettings { memtable_bytes: Some(64 * 1024), ..relaxed(lanes(2)) };
    let store = EmbeddedStore::open(dir.path(), settings).unwrap();
    let partitions = [1, 2].map(PartitionId);
    store.create_partitions(&partitions, Lsn(0)).unwrap();
    let (store, done, looks) = (&store, &AtomicBool::new(false), &AtomicU64::new(0));
    let commits: u64 = thread::scope(|scope| {
        let writers =
            partitions.map(|partition| scope.spawn(move || write(store, partition, done)));
        for partition in [partitions, partitions].into_iter().flatten() {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    look(store, partition);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        let enough = || store.status().commits > 200 && looks.load(Ordering::Relaxed) > 100;
        let (least, most) = (Duration::from_secs(4), Duration::from_secs(60));
        while (start.elapsed() < least || (!enough() && start.elapsed() < most))
            && writers.iter().all(|writer| !writer.is_finished())
        {
            thread::sleep(Duration::from_millis(50));
        }
        done.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let looks = looks.load(Ordering::Relaxed);
    assert!(commits > 100 && looks > 100, "too little happened: {commits} commits, {looks} looks");
    store.close().unwrap();
}
