//! A disk that is nearly full is made room on: merges run with little room, and what was deleted
//! comes back.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use partita_model::Lsn;
use partita_storage::{
    Batch, DiskLevel, DiskProbe, DiskSettings, EmbeddedSettings, EmbeddedStore, PartitionId, Space,
    StorageError, Store,
};

use crate::dir::{TempDir, lanes};
use crate::disk::Told;

const P: PartitionId = PartitionId(1);
const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const RESERVE: u64 = 4 * MB;

/// Small tables and buffers, so that there are many of them.
fn open_with(
    reserve: u64,
    path: &Path,
    told: &Arc<Told>,
    buffer_bytes: u64,
    table_bytes: u64,
) -> EmbeddedStore {
    let probe = Arc::clone(told) as Arc<dyn DiskProbe>;
    let disk = DiskSettings { reserve_bytes: Some(reserve), probe };
    let settings = EmbeddedSettings {
        disk: Some(disk),
        memtable_bytes: Some(buffer_bytes),
        table_bytes: Some(table_bytes),
        ..lanes(1)
    };
    EmbeddedStore::open(path, settings).unwrap()
}

fn open(path: &Path, told: &Arc<Told>, buffer_bytes: u64) -> EmbeddedStore {
    open_with(RESERVE, path, told, buffer_bytes, 64 * KB)
}

/// Bytes that no compression makes fewer.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn items(keys: impl Iterator<Item = u64>, bytes: usize) -> Batch {
    let mut batch = Batch::new();
    for key in keys {
        batch.put(Space::Items, key.to_be_bytes().to_vec(), noise(key, bytes));
    }
    batch
}

fn removal(keys: impl Iterator<Item = u64>) -> Batch {
    let mut batch = Batch { frees: true, ..Batch::new() };
    for key in keys {
        batch.delete(Space::Items, key.to_be_bytes().to_vec());
    }
    batch
}

/// Makes a store with so many items, in the order of their keys: their tables go straight to the
/// last level. Each round leaves one table, if buffers are larger than it: a buffer that is full is
/// closed some time later, which may be long on a busy machine, but an end closes it for certain.
fn fill(path: &Path, told: &Arc<Told>, buffer_bytes: u64, rounds: u64, count: u64) {
    for round in 0..rounds {
        let store = open(path, told, buffer_bytes);
        if round == 0 {
            store.create_partitions(&[P], Lsn(0)).unwrap();
        }
        let end = (round + 1) * count;
        for first in (round * count..end).step_by(20) {
            store.submit(P, items(first..end.min(first + 20), 500)).wait().unwrap();
        }
        store.close().unwrap();
    }
}

/// The bytes of all tables.
fn table_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => table_bytes(&entry.path()),
        Ok(metadata) if directory.ends_with("tables") => metadata.len(),
        _ => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// Waits, for as long as it takes on a busy machine.
#[track_caller]
fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("it does not come about");
}

fn level(store: &EmbeddedStore) -> DiskLevel {
    store.look_at_disk();
    store.disk().unwrap().level
}

fn is_refused(store: &EmbeddedStore, batch: Batch) -> bool {
    match store.submit(P, batch).wait() {
        Ok(_) => false,
        Err(StorageError::DiskFull(_)) => true,
        Err(other) => panic!("{other}"),
    }
}

/// Deletes items of a store that was filled in such rounds, on a disk that is full and has room for
/// two megabytes, which is less than there is.
fn assert_deletes_free(rounds: u64, count: u64) {
    let (dir, told) = (TempDir::new(), Told::new());
    fill(dir.path(), &told, 4 * MB, rounds, count);
    let before = table_bytes(dir.path());
    assert!(before > 4 * MB, "{before}");
    told.set_room(RESERVE - 100 * KB);
    let store = open(dir.path(), &told, 4 * MB);
    assert_eq!(level(&store), DiskLevel::Full);
    store.submit(P, removal(2_000..3_000)).wait().unwrap();
    wait_until(|| {
        store.look_at_disk();
        table_bytes(dir.path()) < before * 97 / 100
    });
    assert_eq!(level(&store), DiskLevel::Full, "no more was free than that at any time");
}

#[test]
fn deletes_free_what_lies_in_the_last_level_with_less_room_than_that_has() {
    assert_deletes_free(16, 600);
}

#[test]
fn deletes_free_what_lies_in_tables_of_many_times_their_size() {
    assert_deletes_free(4, 2_000);
}

#[test]
fn what_a_merge_replaced_goes_also_if_there_is_no_room_to_make_one_run_of_all() {
    let (dir, told) = (TempDir::new(), Told::new());
    fill(dir.path(), &told, 4 * MB, 4, 2_000);
    let before = table_bytes(dir.path());
    // At first there is no room for the merge either.
    told.set_room(RESERVE / 2);
    let store = open(dir.path(), &told, 4 * MB);
    assert_eq!(level(&store), DiskLevel::Full);
    store.submit(P, removal(2_000..3_000)).wait().unwrap();
    // The lane has looked what there is to tidy up, and will look for a run of all from now on.
    let groups = store.status().groups;
    wait_until(|| store.status().groups > groups);
    assert!(table_bytes(dir.path()) >= before);
    told.set_room(RESERVE - 100 * KB);
    wait_until(|| {
        store.look_at_disk();
        table_bytes(dir.path()) < before * 97 / 100
    });
}

#[test]
fn a_merge_of_new_tables_is_not_taken_for_one_of_all_that_there_is() {
    let (dir, told) = (TempDir::new(), Told::new());
    fill(dir.path(), &told, 64 * KB, 1, 24_000);
    let store = open(dir.path(), &told, 64 * KB);
    told.set_room(RESERVE * 5 / 2);
    for key in 0..200 {
        let batch = items((key * 60..key * 60 + 60).step_by(6), 600);
        store.submit(P, batch).wait().unwrap();
        assert!(level(&store) < DiskLevel::Full, "there is more than twice the reserve");
    }
}

#[test]
fn a_merge_that_waited_is_forgotten_when_there_is_nothing_to_merge_any_more() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = open(dir.path(), &told, MB);
    let other = PartitionId(2);
    store.create_partitions(&[P, other], Lsn(0)).unwrap();
    // Less than eight new tables have, and more than the reserve and a buffer.
    told.set_room(RESERVE + 5 * MB / 2);
    let mut keys = (0..).map(|n: u64| n * 7_919 % 2_000);
    wait_until(|| {
        let refused = (0..50).any(|_| is_refused(&store, items(keys.by_ref().take(10), 8_000)));
        refused && table_bytes(dir.path()) > 8 * MB && level(&store) == DiskLevel::Full
    });
    store.drop_partitions(&[P]).unwrap();
    wait_until(|| {
        store.free_dropped().unwrap();
        level(&store) < DiskLevel::Full
    });
    store.submit(other, items(0..1, 10)).wait().unwrap();
}

/// Large items that are in tables, and so few that deleting some does not fill a buffer.
fn with_large_items(path: &Path, told: &Arc<Told>) -> EmbeddedStore {
    let store = open_with(4 * RESERVE, path, told, 128 * KB, 512 * KB);
    store.create_partitions(&[P], Lsn(0)).unwrap();
    for key in 0..60 {
        store.submit(P, items(key..key + 1, 100_000)).wait().unwrap();
    }
    store.close().unwrap();
    drop(store);
    open_with(4 * RESERVE, path, told, 128 * KB, 512 * KB)
}

const DELETED: std::ops::Range<u64> = 10..13;

/// Waits until the bytes of those that were deleted are free.
fn wait_until_freed(path: &Path, before: u64, again: impl Fn()) {
    wait_until(|| {
        again();
        table_bytes(path) < before - 250_000
    });
}

#[test]
fn a_few_deletes_free_what_they_delete() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = with_large_items(dir.path(), &told);
    told.set_room(4 * RESERVE - 100 * KB);
    assert_eq!(level(&store), DiskLevel::Full);
    let before = table_bytes(dir.path());
    store.submit(P, removal(DELETED)).wait().unwrap();
    wait_until_freed(dir.path(), before, || {});
}

#[test]
fn deletes_that_never_rest_free_what_they_delete() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = with_large_items(dir.path(), &told);
    told.set_room(4 * RESERVE - 100 * KB);
    assert_eq!(level(&store), DiskLevel::Full);
    let before = table_bytes(dir.path());
    wait_until_freed(dir.path(), before, || {
        store.submit(P, removal(DELETED)).wait().unwrap();
    });
}

#[test]
fn what_was_deleted_before_the_disk_got_full_is_freed_without_a_write() {
    let (dir, told) = (TempDir::new(), Told::new());
    let store = with_large_items(dir.path(), &told);
    let before = table_bytes(dir.path());
    store.submit(P, removal(DELETED)).wait().unwrap();
    told.set_room(4 * RESERVE - 100 * KB);
    assert_eq!(level(&store), DiskLevel::Full);
    wait_until_freed(dir.path(), before, || {});
}
