//! Tables are merged under writers and readers, and a lane at rest becomes small.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use partita_model::Lsn;
use partita_storage::{
    Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Snapshot, Space, Store, check,
};

use crate::dir::{TempDir, lanes};

const P: PartitionId = PartitionId(1);
const KEYS: u32 = 400;
const ROUNDS: u32 = 60;

/// Buffers and tables so small that each round fills some.
fn open(path: &Path) -> EmbeddedStore {
    let bytes = Some(64 * 1024);
    let settings = EmbeddedSettings { memtable_bytes: bytes, table_bytes: bytes, ..lanes(1) };
    EmbeddedStore::open(path, settings).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("item {number:05}").into_bytes()
}

/// What a round writes under a key; every seventh key is deleted, a different one in each round.
fn value(round: u32, number: u32) -> Option<Vec<u8>> {
    let text = || format!("round {round} of {number} {}", "x".repeat(300)).into_bytes();
    (!(number + round).is_multiple_of(7)).then(text)
}

fn write(store: &dyn Store, round: u32) {
    for first in (0..KEYS).step_by(50) {
        let mut batch = Batch::new();
        for number in first..first + 50 {
            for space in [Space::Items, Space::Index] {
                match value(round, number) {
                    Some(value) => batch.put(space, key(number), value),
                    None => batch.delete(space, key(number)),
                };
            }
        }
        store.submit(P, batch).wait().unwrap();
    }
}

fn assert_shows(view: &dyn Snapshot, round: u32) {
    for number in 0..KEYS {
        for space in [Space::Items, Space::Index] {
            let found = view.get(space, &key(number)).unwrap().map(|record| record.value.to_vec());
            assert_eq!(found, value(round, number), "{space:?} of {number} in round {round}");
        }
    }
}

/// All tables.
fn tables(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let is_table =
                || entry.path().parent().is_some_and(|folder| folder.ends_with("tables"));
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) if is_table() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn a_view_shows_its_moment_while_tables_are_merged() {
    let dir = TempDir::new();
    let store = open(dir.path());
    store.create_partitions(&[P], Lsn(0)).unwrap();
    let mut held = Vec::new();
    for round in 0..ROUNDS {
        write(&store, round);
        if round % 20 == 5 {
            held.push((store.snapshot(P).unwrap(), round));
        }
        for (view, round) in &held {
            assert_shows(&**view, *round);
        }
    }
    assert_shows(&*store.snapshot(P).unwrap(), ROUNDS - 1);
    drop(held);
    store.close().unwrap();
    assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    let store = open(dir.path());
    assert_shows(&*store.snapshot(P).unwrap(), ROUNDS - 1);
}

#[test]
fn a_lane_at_rest_has_few_tables() {
    let dir = TempDir::new();
    let store = open(dir.path());
    store.create_partitions(&[P], Lsn(0)).unwrap();
    for round in 0..ROUNDS {
        write(&store, round);
    }
    // Items and index, which had dozens, have one each then, and others some. A rest is noticed
    // within seconds, but nobody says how busy the machine is.
    let is_small = || tables(dir.path()).len() <= 14;
    let waited =
        (0..600).take_while(|_| !is_small()).map(|_| thread::sleep(Duration::from_millis(100)));
    let _ = waited.count();
    assert!(is_small(), "{:?}", tables(dir.path()));
    assert_shows(&*store.snapshot(P).unwrap(), ROUNDS - 1);
    store.close().unwrap();
}
