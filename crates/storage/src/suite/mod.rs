//! What every store must do, as one list of cases.
//!
//! Each sentence of the contract has a case here. A store passes by running [`run`] in its tests;
//! a store that is not listed there does not count as one. Decorators run the same list.
//!
//! The cases panic with what went wrong, so this module belongs into tests only.

mod batches;
mod concurrency;
mod partitions;
mod reads;
mod reopening;

use crate::contract::{
    Batch, Direction, KeyRange, PartitionId, Result, ScanLimit, Snapshot, Space, Store,
};
use partita_model::Lsn;

/// A place where one store lives.
pub trait Rig {
    /// Opens the store; again after it was closed, if it is durable.
    fn open(&self) -> Box<dyn Store>;

    /// Whether what was acknowledged is there when the store is opened again.
    fn is_durable(&self) -> bool;
}

type Case = (&'static str, fn(&dyn Rig));

/// Runs every case on a new rig of its own.
pub fn run(name: &str, make: &dyn Fn() -> Box<dyn Rig>) {
    let lists: [&[Case]; 5] =
        [partitions::CASES, batches::CASES, reads::CASES, concurrency::CASES, reopening::CASES];
    for (case, check) in lists.into_iter().flatten() {
        let _running = Running { name, case };
        let rig = make();
        check(rig.as_ref());
    }
}

/// Says which case it was that panicked.
struct Running<'a> {
    name: &'a str,
    case: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the store '{}' failed the case '{}'", self.name, self.case);
        }
    }
}

/// The partition of cases that need just one.
const P: PartitionId = PartitionId(7);

/// A store with [`P`] at LSN 0.
fn open_with_partition(rig: &dyn Rig) -> Box<dyn Store> {
    let store = rig.open();
    store.create_partitions(&[P], Lsn(0)).expect("a new partition");
    store
}

fn commit(store: &dyn Store, partition: PartitionId, batch: Batch) -> Result<Lsn> {
    store.submit(partition, batch).wait().map(|commit| commit.lsn)
}

fn put(store: &dyn Store, key: &str, value: &str) -> Lsn {
    let mut batch = Batch::new();
    batch.put(Space::Items, key.as_bytes().to_vec(), value.as_bytes().to_vec());
    commit(store, P, batch).expect("a put")
}

fn delete(store: &dyn Store, key: &str) -> Lsn {
    let mut batch = Batch::new();
    batch.delete(Space::Items, key.as_bytes().to_vec());
    commit(store, P, batch).expect("a delete")
}

fn snapshot(store: &dyn Store, partition: PartitionId) -> Box<dyn Snapshot> {
    store.snapshot(partition).expect("a snapshot")
}

/// The value and LSN of an item.
fn get(snapshot: &dyn Snapshot, key: &str) -> Option<(String, Lsn)> {
    let record = snapshot.get(Space::Items, key.as_bytes()).expect("a read")?;
    Some((String::from_utf8_lossy(&record.value).into_owned(), record.lsn))
}

/// All keys of a space, as text.
fn keys(snapshot: &dyn Snapshot, space: Space) -> Vec<String> {
    let limit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };
    let page = snapshot.scan(space, &KeyRange::all(), Direction::Forward, limit).expect("a scan");
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    page.entries.iter().map(|entry| text(&entry.key)).collect()
}
