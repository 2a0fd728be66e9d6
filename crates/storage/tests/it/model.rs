//! Random work against a naive model, with restarts.

use std::collections::{BTreeMap, BTreeSet};

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedStore, KeyRange, MemoryStore, PartitionId, ScanLimit, Space,
    StorageError, Store,
};
use proptest::prelude::*;

use crate::dir::{TempDir, lanes, relaxed};

#[derive(Clone, Debug)]
enum Step {
    Commit { partition: u64, writes: Vec<Change>, expect: Option<Guess> },
    Create(u64),
    Drop(u64),
    Restart { orderly: bool },
}

/// One write; the key is chosen so that keys often meet.
#[derive(Clone, Debug)]
enum Change {
    Put(u8, Vec<u8>),
    Delete(u8),
    Add(u8, i64),
    Log(u8),
}

/// An expectation about an item that may be right or wrong.
#[derive(Clone, Debug)]
enum Guess {
    Absent(u8),
    Current(u8),
    Lsn(u8, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        4 => (0..8u8, value).prop_map(|(key, value)| Change::Put(key, value)),
        2 => (0..8u8).prop_map(Change::Delete),
        2 => (0..3u8, -5..5i64).prop_map(|(key, delta)| Change::Add(key, delta)),
        1 => (0..3u8).prop_map(Change::Log),
    ]
}

fn guess() -> impl Strategy<Value = Guess> {
    prop_oneof![
        (0..8u8).prop_map(Guess::Absent),
        (0..8u8).prop_map(Guess::Current),
        (0..8u8, 0..20u64).prop_map(|(key, lsn)| Guess::Lsn(key, lsn)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let writes = proptest::collection::vec(change(), 0..6);
    let commit = (0..4u64, writes, proptest::option::of(guess()));
    prop_oneof![
        20 => commit.prop_map(|(partition, writes, expect)| {
            Step::Commit { partition, writes, expect }
        }),
        2 => (0..6u64).prop_map(Step::Create),
        1 => (2..6u64).prop_map(Step::Drop),
        1 => any::<bool>().prop_map(|orderly| Step::Restart { orderly }),
    ]
}

type Key = (u8, Vec<u8>);

/// What a partition must hold: value and LSN by space and key.
#[derive(Clone, Debug, Default)]
struct Model {
    lsn: u64,
    records: BTreeMap<Key, (Vec<u8>, u64)>,
}

const ITEMS: u8 = 0;
const FEED: u8 = 2;
const META: u8 = 3;

impl Model {
    /// Applies a batch if its expectation holds, and says what the store must answer.
    fn apply(&mut self, writes: &[Change], expect: Option<&(u8, Option<u64>)>) -> Option<u64> {
        if let Some((key, lsn)) = expect {
            let found = self.records.get(&(ITEMS, vec![*key])).map(|(_, lsn)| *lsn);
            if found != *lsn {
                return None;
            }
        }
        self.lsn += 1;
        let lsn = self.lsn;
        for write in writes {
            match write {
                Change::Put(key, value) => {
                    self.records.insert((ITEMS, vec![*key]), (value.clone(), lsn));
                }
                Change::Delete(key) => drop(self.records.remove(&(ITEMS, vec![*key]))),
                Change::Add(key, delta) => {
                    let old = self.records.get(&(META, vec![*key]));
                    let old = old.map_or(0, |(v, _)| i64::from_be_bytes(v[..].try_into().unwrap()));
                    let sum = (old + delta).to_be_bytes().to_vec();
                    self.records.insert((META, vec![*key]), (sum, lsn));
                }
                Change::Log(suffix) => {
                    let key = [&lsn.to_be_bytes()[..], &[*suffix]].concat();
                    self.records.insert((FEED, key), (vec![*suffix], lsn));
                }
            }
        }
        Some(lsn)
    }
}

/// The batch without repeated keys, which are refused.
fn distinct(writes: Vec<Change>) -> Vec<Change> {
    let mut seen = BTreeSet::new();
    let fresh = |write: &Change| match write {
        Change::Put(key, _) | Change::Delete(key) => seen.insert((ITEMS, *key)),
        Change::Log(key) => seen.insert((FEED, *key)),
        Change::Add(..) => true,
    };
    writes.into_iter().filter(fresh).collect()
}

fn batch(writes: &[Change], expect: Option<&(u8, Option<u64>)>) -> Batch {
    let mut batch = Batch::new();
    match expect {
        Some((key, None)) => batch.expect_absent(Space::Items, vec![*key]),
        Some((key, Some(lsn))) => batch.expect_unchanged(Space::Items, vec![*key], Lsn(*lsn)),
        None => {}
    }
    for write in writes {
        match write {
            Change::Put(key, value) => batch.put(Space::Items, vec![*key], value.clone()),
            Change::Delete(key) => batch.delete(Space::Items, vec![*key]),
            Change::Add(key, delta) => batch.add(Space::Meta, vec![*key], *delta),
            Change::Log(suffix) => batch.log(vec![*suffix], vec![*suffix]),
        }
    }
    batch
}

/// Everything a partition holds, read through the contract.
fn contents(store: &dyn Store, partition: PartitionId) -> Model {
    let snapshot = store.snapshot(partition).unwrap();
    let limit = ScanLimit { entries_max: 5, bytes_max: 60 };
    let mut records = BTreeMap::new();
    for (tag, space) in (0..).zip(Space::ALL) {
        let mut range = KeyRange::all();
        loop {
            let page = snapshot.scan(space, &range, Direction::Backward, limit).unwrap();
            for entry in &page.entries {
                let record = (entry.record.value.to_vec(), entry.record.lsn.0);
                assert_eq!(records.insert((tag, entry.key.to_vec()), record), None);
            }
            if !page.more {
                break;
            }
            range.end = std::ops::Bound::Excluded(page.entries.last().unwrap().key.to_vec());
        }
    }
    Model { lsn: snapshot.lsn().0, records }
}

/// A store under test and how to restart it.
trait Subject {
    fn store(&self) -> &dyn Store;
    fn restart(&mut self, orderly: bool);
}

impl Subject for MemoryStore {
    fn store(&self) -> &dyn Store {
        self
    }

    /// Forgetful by nature.
    fn restart(&mut self, _orderly: bool) {}
}

struct Embedded {
    store: Option<EmbeddedStore>,
    dir: TempDir,
}

impl Embedded {
    fn new() -> Embedded {
        let mut embedded = Embedded { store: None, dir: TempDir::new() };
        embedded.restart(false);
        embedded
    }
}

impl Subject for Embedded {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().unwrap()
    }

    fn restart(&mut self, orderly: bool) {
        if let Some(store) = self.store.take()
            && orderly
        {
            store.close().unwrap();
        }
        let settings = relaxed(lanes(2));
        self.store = Some(EmbeddedStore::open(self.dir.path(), settings).unwrap());
    }
}

fn run(subject: &mut dyn Subject, steps: Vec<Step>) {
    let mut living: BTreeMap<u64, Model> = BTreeMap::new();
    let mut dropped = BTreeSet::new();
    for id in 0..2 {
        subject.store().create_partitions(&[PartitionId(id)], Lsn(0)).unwrap();
        living.insert(id, Model::default());
    }
    for step in steps {
        match step {
            Step::Create(id) => {
                let made = subject.store().create_partitions(&[PartitionId(id)], Lsn(3));
                if living.contains_key(&id) || dropped.contains(&id) {
                    assert_eq!(made, Err(StorageError::PartitionExists(PartitionId(id))));
                } else {
                    assert_eq!(made, Ok(()));
                    living.insert(id, Model { lsn: 3, ..Model::default() });
                }
            }
            Step::Drop(id) => {
                subject.store().drop_partitions(&[PartitionId(id)]).unwrap();
                if living.remove(&id).is_some() {
                    dropped.insert(id);
                }
            }
            Step::Restart { orderly } => subject.restart(orderly),
            Step::Commit { partition, writes, expect } => {
                commit(subject.store(), &mut living, partition, writes, expect);
            }
        }
    }
    subject.restart(false);
    for (id, model) in &living {
        let found = contents(subject.store(), PartitionId(*id));
        assert_eq!((found.lsn, &found.records), (model.lsn, &model.records));
    }
}

fn commit(
    store: &dyn Store,
    living: &mut BTreeMap<u64, Model>,
    partition: u64,
    writes: Vec<Change>,
    expect: Option<Guess>,
) {
    let writes = distinct(writes);
    let id = PartitionId(partition);
    let Some(model) = living.get_mut(&partition) else {
        let answer = store.submit(id, batch(&writes, None)).wait();
        assert_eq!(answer, Err(StorageError::PartitionGone(id)));
        return;
    };
    let current = |key: u8| model.records.get(&(ITEMS, vec![key])).map(|(_, lsn)| *lsn);
    let expect = expect.map(|guess| match guess {
        Guess::Absent(key) => (key, None),
        Guess::Current(key) => (key, current(key)),
        Guess::Lsn(key, lsn) => (key, Some(lsn)),
    });
    let answer = store.submit(id, batch(&writes, expect.as_ref())).wait();
    match model.apply(&writes, expect.as_ref()) {
        Some(lsn) => assert_eq!(answer.map(|commit| commit.lsn), Ok(Lsn(lsn))),
        None => {
            let key = vec![expect.unwrap().0];
            assert_eq!(answer, Err(StorageError::Conflict { space: Space::Items, key }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_store_in_memory_does_what_the_model_does(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        run(&mut MemoryStore::new(), steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_does_what_the_model_does(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        run(&mut Embedded::new(), steps);
    }
}
