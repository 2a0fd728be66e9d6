//! Whether a store holds exactly what its own feed tells, and all that was acknowledged.

use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::thread;

use partita_storage::{
    Direction, EmbeddedStore, Entry, KeyRange, PartitionId, ScanLimit, Space, Store, counter,
};

use crate::load::{COUNT, DELETED, FIELDS, PARTITIONS, acknowledged, index_key, mixed};

/// What was found in order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Verified {
    items: u64,
    index_entries: u64,
    commits: u64,
    /// Commits that were durable when the process ended but not yet told to anybody.
    untold: u64,
    pub(crate) open_ms: u64,
}

impl Verified {
    pub(crate) fn json(&self) -> String {
        format!(
            "\"verified\":{{\"items\":{},\"index_entries\":{},\"commits\":{},\"lost\":0,\"partial\":0}}",
            self.items, self.index_entries, self.commits
        )
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "opened in {} ms, all sound: {} items, {} index entries, {} commits ({} of them untold)",
            self.open_ms, self.items, self.index_entries, self.commits, self.untold
        )
    }
}

/// Verifies every partition; panics with what is wrong.
pub(crate) fn run(store: &EmbeddedStore, dir: &Path) -> Verified {
    let mut total = Verified::default();
    thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                let mine = (0..PARTITIONS).filter(|partition| partition % 2 == half);
                mine.map(|partition| verify_partition(store, dir, partition)).collect::<Vec<_>>()
            })
        });
        for verified in halves.into_iter().flat_map(|half| half.join().expect("all sound")) {
            total.items += verified.items;
            total.index_entries += verified.index_entries;
            total.commits += verified.commits;
            total.untold += verified.untold;
        }
    });
    total
}

fn verify_partition(store: &EmbeddedStore, dir: &Path, partition: u64) -> Verified {
    let id = PartitionId(partition);
    let lsn = store.snapshot(id).expect("a snapshot").lsn().0;
    let told = acknowledged(dir, partition);
    assert!(lsn >= told, "partition {partition} is at {lsn}, but {told} was acknowledged");

    let mut last: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut logs = 0;
    scan(store, id, Space::Feed, |entry| {
        logs += 1;
        assert_eq!(entry.record.lsn.0, logs, "partition {partition}: the feed has no gaps");
        let key = entry.key.get(8..).expect("an LSN and a key").to_vec();
        if entry.record.value[..] == [DELETED] {
            last.remove(&key)
        } else {
            last.insert(key, logs)
        };
    });
    assert_eq!(logs, lsn, "partition {partition}: every commit is in the feed");

    let mut items = 0;
    let mut expected = Sum::default();
    scan(store, id, Space::Items, |entry| {
        items += 1;
        let version = u64::from_be_bytes(*entry.record.value.first_chunk().expect("a version"));
        let told = last.get(&entry.key[..]);
        assert_eq!(told, Some(&version), "partition {partition}: an item is what the feed tells");
        assert_eq!(version, entry.record.lsn.0);
        (0..FIELDS).for_each(|field| expected.add(&index_key(&entry.key, version, field)));
    });
    assert_eq!(items, last.len() as u64, "partition {partition}: every item is there");

    let mut found = Sum::default();
    scan(store, id, Space::Index, |entry| found.add(&entry.key));
    assert_eq!(found, expected, "partition {partition}: the index is that of the items");

    let snapshot = store.snapshot(id).expect("a snapshot");
    let count = snapshot.get(Space::Meta, COUNT).expect("a read");
    let count = count.map_or(0, |record| counter(&record.value).expect("a counter"));
    assert_eq!(count, items as i64, "partition {partition}: the counter");
    Verified { items, index_entries: found.entries, commits: lsn, untold: lsn - told, open_ms: 0 }
}

/// A set of keys by number and two sums: equal for equal sets, whatever their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    sums: [u64; 2],
}

impl Sum {
    fn add(&mut self, key: &[u8]) {
        let hash = key.iter().fold(17u64, |hash, byte| mixed(hash ^ u64::from(*byte)));
        self.entries += 1;
        self.sums[0] = self.sums[0].wrapping_add(hash);
        self.sums[1] = self.sums[1].wrapping_add(mixed(hash).rotate_left(21));
    }
}

/// All entries of a space, page by page, each page on a view of its own.
fn scan(store: &EmbeddedStore, id: PartitionId, space: Space, mut take: impl FnMut(&Entry)) {
    let limit = ScanLimit { entries_max: 5_000, bytes_max: 4 << 20 };
    let mut range = KeyRange::all();
    loop {
        let snapshot = store.snapshot(id).expect("a snapshot");
        let page = snapshot.scan(space, &range, Direction::Forward, limit).expect("a scan");
        page.entries.iter().for_each(&mut take);
        match page.entries.last() {
            Some(last) if page.more => range.start = Bound::Excluded(last.key.to_vec()),
            _ => return,
        }
    }
}
