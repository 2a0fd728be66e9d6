//! What a store does when its disk gets full, on a disk that says what it is told to say.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use partita_model::Lsn;
use partita_storage::{
    Batch, Capacity, DiskLevel, DiskProbe, DiskSettings, EmbeddedSettings, EmbeddedStore,
    PartitionId, Space, StorageError, Store,
};

use crate::dir::{TempDir, lanes};

const P: PartitionId = PartitionId(1);
const MB: u64 = 1 << 20;
const RESERVE: u64 = 8 * MB;

/// A file system with a gigabyte, of which the store may have so much, with what it holds already.
pub(crate) struct Told {
    room: AtomicU64,
    fails: AtomicBool,
}

impl Told {
    pub(crate) fn new() -> Arc<Told> {
        Arc::new(Told { room: AtomicU64::new(512 * MB), fails: AtomicBool::new(false) })
    }

    pub(crate) fn set_room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::Release);
    }
}

impl DiskProbe for Told {
    fn capacity(&self, directory: &Path) -> io::Result<Capacity> {
        if self.fails.load(Ordering::Acquire) {
            return Err(io::Error::other("told to fail"));
        }
        let held = std::fs::metadata(directory.join("RESERVE")).map_or(0, |file| file.len());
        let free_bytes = self.room.load(Ordering::Acquire).saturating_sub(held);
        Ok(Capacity { total_bytes: 1024 * MB, free_bytes })
    }
}

fn open(path: &Path, told: &Arc<Told>) -> EmbeddedStore {
    let probe = Arc::clone(told) as Arc<dyn DiskProbe>;
    let disk = DiskSettings { reserve_bytes: Some(RESERVE), probe };
    EmbeddedStore::open(path, EmbeddedSettings { disk: Some(disk), ..lanes(2) }).unwrap()
}

fn item(key: u64, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(Space::Items, key.to_be_bytes().to_vec(), vec![7; bytes]);
    batch
}

fn removal(key: u64) -> Batch {
    let mut batch = Batch { frees: true, ..Batch::new() };
    batch.delete(Space::Items, key.to_be_bytes().to_vec());
    batch
}

fn level(store: &EmbeddedStore) -> DiskLevel {
    store.look_at_disk();
    store.disk().unwrap().level
}

fn is_full<T>(result: Result<T, StorageError>) -> bool {
    matches!(result, Err(StorageError::DiskFull(_)))
}

#[test]
fn writes_are_refused_before_deletes_and_reads_never() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = open(dir.path(), &told);
    store.create_partitions(&[P], Lsn(0)).unwrap();
    for key in 0..4 {
        store.submit(P, item(key, 10)).wait().unwrap();
    }
    assert_eq!((level(&store), store.disk().unwrap().held_bytes), (DiskLevel::Roomy, RESERVE / 2));
    told.set_room(80 * MB);
    assert_eq!(level(&store), DiskLevel::High);
    store.submit(P, item(4, 10)).wait().unwrap();

    told.set_room(RESERVE - 1);
    assert_eq!(level(&store), DiskLevel::Full);
    let before = store.snapshot(P).unwrap().lsn();
    let refused = store.submit(P, item(5, 10)).wait();
    let Err(StorageError::DiskFull(text)) = refused else { panic!("{refused:?}") };
    let free = store.disk().unwrap().free_bytes;
    for part in [&dir.path().display().to_string(), &free.to_string(), &RESERVE.to_string()] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(is_full(store.create_partitions(&[PartitionId(2)], Lsn(0))));
    assert_eq!(store.snapshot(P).unwrap().lsn(), before, "nothing was done");
    store.submit(P, removal(0)).wait().unwrap();
    assert!(store.snapshot(P).unwrap().get(Space::Items, &1u64.to_be_bytes()).unwrap().is_some());
    assert!(store.status().healthy && store.status().trouble.is_some());

    told.set_room(RESERVE / 2);
    assert_eq!(level(&store), DiskLevel::Full, "there is what is held");
    assert!(store.disk().unwrap().held_bytes < RESERVE / 2, "and that is given up");
    store.submit(P, removal(1)).wait().unwrap();
    told.set_room(RESERVE / 8);
    store.look_at_disk();
    assert_eq!((level(&store), store.disk().unwrap().held_bytes), (DiskLevel::Exhausted, 0));
    assert!(is_full(store.submit(P, removal(2)).wait()));
    assert!(store.snapshot(P).unwrap().get(Space::Items, &2u64.to_be_bytes()).unwrap().is_some());
    store.drop_partitions(&[P]).unwrap();
    store.close().unwrap();
}

#[test]
fn a_store_at_the_edge_does_not_take_turns_and_accepts_by_itself() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = open(dir.path(), &told);
    store.create_partitions(&[P], Lsn(0)).unwrap();
    told.set_room(RESERVE - MB);
    assert_eq!(level(&store), DiskLevel::Full);
    // As much as would not have been too little before is not enough now.
    told.set_room(RESERVE + MB);
    assert_eq!(level(&store), DiskLevel::Full);
    assert!(is_full(store.submit(P, item(1, 10)).wait()));
    told.set_room(RESERVE + RESERVE / 4 + MB);
    assert_eq!(level(&store), DiskLevel::High);
    store.submit(P, item(1, 10)).wait().unwrap();
    told.set_room(512 * MB);
    assert_eq!(level(&store), DiskLevel::Roomy);
    assert_eq!(store.disk().unwrap().held_bytes, RESERVE / 2, "it is held again");
    assert_eq!(store.status().trouble, None);
    drop(store);
    let store = open(dir.path(), &told);
    assert_eq!(store.disk().unwrap().held_bytes, RESERVE / 2, "as it was left");
}

#[test]
fn what_is_on_its_way_counts_as_taken() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = open(dir.path(), &told);
    store.create_partitions(&[P], Lsn(0)).unwrap();
    told.set_room(RESERVE + 2 * MB);
    store.look_at_disk();
    // The committer looks before it writes this much, however long ago the last look was.
    assert!(is_full(store.submit(P, item(1, 8 << 20)).wait()));
    assert_eq!(store.snapshot(P).unwrap().lsn(), Lsn(0));
    store.submit(P, removal(1)).wait().unwrap();
}

#[test]
fn who_cannot_see_the_disk_refuses_nothing() {
    let (dir, told) = (TempDir::new(), Told::new());
    told.fails.store(true, Ordering::Release);
    let store = open(dir.path(), &told);
    store.create_partitions(&[P], Lsn(0)).unwrap();
    store.look_at_disk();
    assert_eq!(store.disk(), None);
    store.submit(P, item(1, 10)).wait().unwrap();
}
