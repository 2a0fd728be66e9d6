//! The index is right at all times while its changes are gathered, merged and sorted in.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedSettings, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Snapshot,
    Space, Store, check,
};

use crate::dir::{TempDir, lanes};

const PARTITIONS: [PartitionId; 3] = [PartitionId(1), PartitionId(2), PartitionId(3)];

/// Changes are sorted in at the double of this, which some dozen commits have.
const BUFFER_BYTES: u64 = 8 * 1024;

fn open(path: &Path) -> EmbeddedStore {
    let settings = EmbeddedSettings { memtable_bytes: Some(BUFFER_BYTES), ..lanes(2) };
    EmbeddedStore::open(path, settings).unwrap()
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

type Index = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("path/{:04}/{}", number, "x".repeat(number as usize % 40)).into_bytes()
}

/// Puts and deletes some entries, in the store and in the model.
fn change(store: &dyn Store, partition: PartitionId, model: &mut Index, numbers: &mut Numbers) {
    let mut changes: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    for _ in 0..10 {
        let value = match numbers.below(4) {
            0 => None,
            1 => Some(b"some value".to_vec()),
            _ => Some(Vec::new()),
        };
        changes.insert(key(numbers.below(300)), value);
    }
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => {
                batch.put(Space::Index, key.clone(), value.clone());
                model.insert(key, value);
            }
            None => {
                batch.delete(Space::Index, key.clone());
                model.remove(&key);
            }
        }
    }
    store.submit(partition, batch).wait().unwrap();
}

fn compare(snapshot: &dyn Snapshot, model: &Index, numbers: &mut Numbers) {
    let (from, to) = (numbers.below(300), numbers.below(300));
    let range = KeyRange {
        start: Bound::Excluded(key(from.min(to))),
        end: Bound::Included(key(from.max(to))),
    };
    for range in [KeyRange::all(), range] {
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = model
            .iter()
            .filter(|(key, _)| range.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let limit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };
            let page = snapshot.scan(Space::Index, &range, direction, limit).unwrap();
            let found = page.entries.into_iter();
            let found: Vec<_> =
                found.map(|entry| (entry.key.to_vec(), entry.record.value.to_vec())).collect();
            assert_eq!(found, expected, "{direction:?}");
            expected.reverse();
        }
    }
    let one = key(from);
    let found = snapshot.get(Space::Index, &one).unwrap().map(|record| record.value.to_vec());
    assert_eq!(found, model.get(&one).cloned());
}

#[test]
fn the_index_is_right_before_during_and_after_sorting_in_and_over_restarts() {
    let dir = TempDir::new();
    let mut numbers = Numbers(7);
    let mut models: BTreeMap<PartitionId, Index> = BTreeMap::new();
    open(dir.path()).create_partitions(&PARTITIONS, Lsn(0)).unwrap();
    for round in 0..6 {
        let store = open(dir.path());
        for _ in 0..60 {
            let partition = PARTITIONS[numbers.below(3) as usize];
            let model = models.entry(partition).or_default();
            let before = (store.snapshot(partition).unwrap(), model.clone());
            change(&store, partition, model, &mut numbers);
            compare(&*store.snapshot(partition).unwrap(), model, &mut numbers);
            // What is held stays what it was, whatever is sorted in meanwhile.
            compare(&*before.0, &before.1, &mut numbers);
        }
        if round == 3 {
            store.reclaim().unwrap();
        }
        if round % 2 == 0 {
            store.close().unwrap();
        }
        drop(store);
        assert_eq!(check(dir.path()).unwrap().problems, Vec::<String>::new());
    }
    let store = open(dir.path());
    for (partition, model) in &models {
        compare(&*store.snapshot(*partition).unwrap(), model, &mut numbers);
    }
}

#[test]
fn pending_entries_of_a_dropped_partition_are_gone() {
    let dir = TempDir::new();
    let mut numbers = Numbers(3);
    let store = open(dir.path());
    store.create_partitions(&PARTITIONS, Lsn(0)).unwrap();
    let mut model = Index::new();
    change(&store, PARTITIONS[0], &mut Index::new(), &mut numbers);
    change(&store, PARTITIONS[2], &mut model, &mut numbers);
    store.drop_partitions(&[PARTITIONS[0]]).unwrap();
    store.close().unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!((report.problems, report.dropped_records), (Vec::new(), 0));
    compare(&*open(dir.path()).snapshot(PARTITIONS[2]).unwrap(), &model, &mut numbers);
}
