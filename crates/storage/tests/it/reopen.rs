//! A store that failed is opened again in its process, and nothing acknowledged is lost by it.
//!
//! The failures are real: a child process may not let files grow for a while ([`Limit`]), so a
//! write to the journal fails, in the middle of a group or before it. (Without its own variable in
//! the environment the child does the same without a limit, and checks that nothing fails.)

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use partita_model::Lsn;
use partita_storage::{
    Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Snapshot, Space, StorageError, Store,
    check,
};

use crate::dir::{TempDir, lanes};

/// In two lanes.
const PARTITIONS: [PartitionId; 3] = [PartitionId(1), PartitionId(2), PartitionId(3)];
const DIRECTORY: &str = "PARTITA_TEST_REOPEN_DIRECTORY";
const ROUNDS: u64 = 20;

/// Two items that say the same, so that half a batch would be seen.
fn pair(key: u64, value: u64) -> Batch {
    let mut batch = Batch::new();
    for half in [0, 1] {
        let mut bytes = value.to_be_bytes().to_vec();
        bytes.resize(3_000, 1);
        batch.put(Space::Items, [key, half].map(u64::to_be_bytes).concat(), bytes);
    }
    batch.log(Vec::new(), value.to_be_bytes().to_vec());
    batch
}

fn read_pair(view: &dyn Snapshot, key: u64) -> Option<u64> {
    let halves = [0u64, 1].map(|half| {
        let found = view.get(Space::Items, &[key, half].map(u64::to_be_bytes).concat()).unwrap();
        found.map(|record| u64::from_be_bytes(*record.value.first_chunk().unwrap()))
    });
    assert_eq!(halves[0], halves[1], "whole or absent");
    halves[0]
}

/// What each key may hold: what was acknowledged last, or what came after it and is unknown.
#[derive(Default)]
struct Model {
    acknowledged: BTreeMap<(PartitionId, u64), u64>,
    unknown: BTreeMap<(PartitionId, u64), Vec<u64>>,
    /// What was seen of each partition.
    lsns: BTreeMap<PartitionId, Lsn>,
}

impl Model {
    /// Hands over a batch for each of some keys at once; true if one failed.
    fn write(&mut self, store: &EmbeddedStore, round: u64, step: u64) -> bool {
        let keys = PARTITIONS.into_iter().flat_map(|id| (0..4).map(move |n| (id, (step + n) % 16)));
        let value = round * 1_000 + step;
        let tickets: Vec<_> = keys.map(|at| (at, store.submit(at.0, pair(at.1, value)))).collect();
        let mut has_failed = false;
        for (at, ticket) in tickets {
            match ticket.wait() {
                Ok(commit) => {
                    assert!(self.lsns.insert(at.0, commit.lsn) < Some(commit.lsn), "LSNs grow");
                    self.acknowledged.insert(at, value);
                    self.unknown.remove(&at);
                }
                Err(StorageError::Poisoned(_)) => {
                    self.unknown.entry(at).or_default().push(value);
                    has_failed = true;
                }
                Err(StorageError::Stopped(_)) => has_failed = true,
                Err(other) => panic!("{other}"),
            }
        }
        has_failed
    }

    /// Compares, and takes what is there for known.
    fn check(&mut self, store: &EmbeddedStore) {
        for id in PARTITIONS {
            let view = store.snapshot(id).unwrap();
            assert!(view.lsn() >= self.lsns.get(&id).copied().unwrap_or(Lsn(0)));
            self.lsns.insert(id, view.lsn());
            for key in 0..16 {
                let (found, at) = (read_pair(&*view, key), (id, key));
                let acknowledged = self.acknowledged.get(&at).copied();
                let unknown = self.unknown.remove(&at).unwrap_or_default();
                let is_unknown = found.is_some_and(|found| unknown.contains(&found));
                assert!(found == acknowledged || is_unknown, "{at:?}: {found:?}");
                found.and_then(|found| self.acknowledged.insert(at, found));
            }
        }
    }
}

/// The largest file that this process may write, which can be taken back.
#[cfg(unix)]
struct Limit(rustix::process::Rlimit);

#[cfg(unix)]
impl Limit {
    fn set(bytes: u64) -> Limit {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), ..before }).unwrap();
        Limit(before)
    }
}

#[cfg(unix)]
impl Drop for Limit {
    fn drop(&mut self) {
        rustix::process::setrlimit(rustix::process::Resource::Fsize, self.0).unwrap();
    }
}

/// Where a lane's journal ends.
fn journal_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory.join("lane-1")).unwrap().flatten();
    let journals = files.filter(|file| file.path().extension().is_some_and(|ext| ext == "jnl"));
    journals.map(|file| file.metadata().unwrap().len()).max().unwrap_or(0)
}

/// Which file a lane's only journal is.
#[cfg(unix)]
fn journal_file(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory.join("lane-1/0.jnl")).unwrap().ino()
}

#[test]
#[cfg(unix)]
fn the_child_of_the_reopening_test() {
    let asked = std::env::var(DIRECTORY).ok();
    let dir = TempDir::new();
    let directory = asked.as_deref().map_or(dir.path(), Path::new);
    let settings = EmbeddedSettings { memtable_bytes: Some(1 << 30), ..lanes(2) };
    let store = EmbeddedStore::open(directory, settings).unwrap();
    store.create_partitions(&PARTITIONS, Lsn(0)).unwrap();
    let mut model = Model::default();
    for round in 0..ROUNDS {
        assert!((0..5).all(|step| !model.write(&store, round, step)), "round {round}");
        if asked.is_none() {
            continue;
        }
        let before = store.snapshot(PARTITIONS[0]).unwrap();
        // From the second round on the journal has no room of its own, so that this is in the
        // middle of a group in most rounds.
        let bytes = if round == 0 { 0 } else { journal_bytes(directory) + round * 1_777 };
        let limit = Limit::set(bytes);
        assert!((5..500).any(|step| model.write(&store, round, step)), "round {round}");
        assert!(store.is_stopped() && !store.status().healthy);
        read_pair(&*before, 0);
        assert!(matches!(
            store.submit(PARTITIONS[1], pair(0, 0)).wait(),
            Err(StorageError::Stopped(_))
        ));
        drop(limit);
        // Who still reads keeps it from being opened, and is told.
        if round % 2 == 0 {
            assert!(matches!(store.reopen(), Err(StorageError::Stopped(_))));
            let read = before.get(Space::Items, b"any");
            assert_eq!(read, Err(StorageError::Reopened));
            assert!(matches!(store.snapshot(PARTITIONS[0]), Err(StorageError::Stopped(_))));
        }
        drop(before);
        let file = journal_file(directory);
        store.reopen().unwrap();
        // Nobody knows what of the former file is on the disk, if it was its sync that failed.
        assert_ne!(journal_file(directory), file);
        assert!(matches!(
            store.submit(PARTITIONS[1], pair(0, 0)).wait(),
            Err(StorageError::Stopped(_))
        ));
        store.seal(PARTITIONS[2]).unwrap();
        store.unseal(PARTITIONS[2]).unwrap();
        model.check(&store);
        store.resume();
        assert!(!store.is_stopped() && store.status().healthy);
        assert_eq!(store.status().reopenings, round + 1);
    }
    model.check(&store);
    store.close().unwrap();
    assert_eq!(store.reopen(), Err(StorageError::Closed));
    drop(store);
    assert_eq!(check(directory).unwrap().problems, Vec::<String>::new());
    std::fs::write(directory.join("done"), "").unwrap();
}

#[test]
#[cfg(unix)]
fn a_store_that_failed_is_opened_again_as_often_as_it_takes() {
    let dir = TempDir::new();
    // The signal that would end the process is ignored, so that the write fails instead.
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg("reopen::the_child_of_the_reopening_test")
        .env(DIRECTORY, dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}\n{}", String::from_utf8_lossy(&child.stderr));
    assert!(dir.path().join("done").exists(), "{output}");
}

#[test]
fn a_sound_store_is_not_opened_again() {
    let dir = TempDir::new();
    let store = EmbeddedStore::open(dir.path(), lanes(2)).unwrap();
    store.create_partitions(&PARTITIONS, Lsn(0)).unwrap();
    let view = store.snapshot(PARTITIONS[0]).unwrap();
    store.reopen().unwrap();
    assert_eq!(view.get(Space::Items, b"any"), Ok(None));
    assert_eq!(store.status().reopenings, 0);
}
