//! A write that fails stops the store, and nothing acknowledged is lost by it.
//!
//! The failure is real: a child process may not let a file grow beyond a limit, and the journal
//! does. (Without its own variable in the environment the child does the same work without a limit
//! and checks that nothing fails.)

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use partita_model::Lsn;
use partita_storage::{
    Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Space, StorageError, Store,
};

use crate::dir::{TempDir, lanes, open};

const P: PartitionId = PartitionId(1);
const OTHER_LANE: PartitionId = PartitionId(2);
const DIRECTORY: &str = "PARTITA_TEST_POISON_DIRECTORY";

/// An item that no compression makes smaller, so that the journal grows by what is written.
fn large(number: u64) -> Batch {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        std::iter::repeat_with(next).take(64 * 1024).flatten().collect()
    });
    let mut batch = Batch::new();
    batch.put(Space::Items, number.to_be_bytes().to_vec(), NOISE.clone());
    batch
}

/// Write buffers that are never full, so that the journal is not replaced by a new one.
fn open_for_growth(path: &Path) -> EmbeddedStore {
    let settings = EmbeddedSettings { memtable_bytes: Some(1 << 30), ..lanes(2) };
    EmbeddedStore::open(path, settings).unwrap()
}

/// Commits until one fails; how many were acknowledged, and the failure.
fn fill(store: &EmbeddedStore, commits_max: u64) -> (u64, Option<StorageError>) {
    for number in 1..=commits_max {
        if let Err(error) = store.submit(P, large(number)).wait() {
            return (number - 1, Some(error));
        }
    }
    (commits_max, None)
}

#[test]
fn the_child_of_the_poison_test() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        let dir = TempDir::new();
        let store = open_for_growth(dir.path());
        store.create_partitions(&[P, OTHER_LANE], Lsn(0)).unwrap();
        assert_eq!(fill(&store, 20), (20, None));
        return;
    };
    let store = open_for_growth(Path::new(&directory));
    store.create_partitions(&[P, OTHER_LANE], Lsn(0)).unwrap();
    let (acknowledged, error) = fill(&store, 500);
    assert!(matches!(error, Some(StorageError::Poisoned(_))), "{error:?}");
    let status = store.status();
    assert!(!status.healthy, "{status:?}");
    for partition in [P, OTHER_LANE] {
        let tickets: Vec<_> = (0..3).map(|_| store.submit(partition, Batch::new())).collect();
        for ticket in tickets {
            assert!(matches!(ticket.wait(), Err(StorageError::Stopped(_))));
        }
    }
    let made = store.create_partitions(&[PartitionId(9)], Lsn(0));
    assert!(matches!(made, Err(StorageError::Stopped(_))), "{made:?}");
    let snapshot = store.snapshot(P).unwrap();
    assert_eq!(snapshot.lsn(), Lsn(acknowledged), "reads go on");
    assert!(matches!(store.close(), Err(StorageError::Stopped(_))));
    std::fs::write(Path::new(&directory).join("acknowledged"), acknowledged.to_string()).unwrap();
}

#[test]
#[cfg(unix)]
fn a_failed_write_stops_the_store_until_it_is_reopened() {
    let dir = TempDir::new();
    // 150 000 blocks of 512 or 1024 bytes: more than a new journal, less than what is written. The
    // signal that would end the process is ignored, so that the write fails instead.
    let script = "trap '' XFSZ; ulimit -f 150000; exec \"$0\" --exact \"$1\"";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg("poison::the_child_of_the_poison_test")
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}\n{}", String::from_utf8_lossy(&child.stderr));
    let acknowledged = std::fs::read_to_string(dir.path().join("acknowledged")).unwrap();
    let acknowledged: u64 = acknowledged.parse().unwrap();
    assert!(acknowledged > 50, "{acknowledged}");
    let store = open(dir.path());
    let snapshot = store.snapshot(P).unwrap();
    assert!(snapshot.lsn() >= Lsn(acknowledged));
    for number in 1..=acknowledged {
        assert!(snapshot.get(Space::Items, &number.to_be_bytes()).unwrap().is_some(), "{number}");
    }
    assert!(store.status().healthy);
    store.submit(P, Batch::new()).wait().unwrap();
}
