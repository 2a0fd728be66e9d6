//! A process that is killed in the middle of its work loses nothing that it acknowledged and leaves
//! nothing half done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedSettings, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Snapshot,
    Space, Store, counter,
};

use crate::dir::{TempDir, lanes};

const DIRECTORY: &str = "PARTITA_TEST_CRASH_DIRECTORY";
const PARTITIONS: u64 = 4;
const CUTS: u64 = 12;
const KEYS: u8 = 8;

/// So many of the last commits have an entry of their own in the index. It is long, so that much is
/// to be sorted into the index, and hidden again.
const PASSING: u64 = 5;
const PASSING_BYTES: usize = 1_000;

/// Small write buffers, so that kills also hit flushes, compactions and sorting in.
fn open_small(path: &Path) -> EmbeddedStore {
    let settings = EmbeddedSettings { memtable_bytes: Some(64 * 1024), ..lanes(2) };
    EmbeddedStore::open(path, settings).unwrap()
}

/// The batch of commit `lsn`: the same number everywhere, one log, one count.
fn numbered(lsn: u64) -> Batch {
    let mut batch = Batch::new();
    for key in 0..KEYS {
        let mut value = lsn.to_be_bytes().to_vec();
        value.resize(500, key);
        batch.put(Space::Items, vec![key], value);
        batch.put(Space::Index, vec![key], lsn.to_be_bytes().to_vec());
    }
    batch.put(Space::Index, passing(lsn), vec![]);
    if lsn > PASSING {
        batch.delete(Space::Index, passing(lsn - PASSING));
    }
    batch.log(vec![], lsn.to_be_bytes().to_vec());
    batch.add(Space::Meta, b"commits".to_vec(), 1);
    batch
}

fn passing(lsn: u64) -> Vec<u8> {
    let mut key = vec![KEYS];
    key.extend_from_slice(&lsn.to_be_bytes());
    key.resize(PASSING_BYTES, 0);
    key
}

/// Commits to one partition and tells of each commit, until told to stop.
fn work(store: &dyn Store, partition: PartitionId, stop: &AtomicBool, tell: bool) {
    let mut next = store.snapshot(partition).unwrap().lsn().0 + 1;
    while !stop.load(Ordering::Acquire) {
        let commit = store.submit(partition, numbered(next)).wait().unwrap();
        assert_eq!(commit.lsn, Lsn(next));
        if tell {
            let mut output = std::io::stdout().lock();
            output.write_all(format!("{} {next}\n", partition.0).as_bytes()).unwrap();
            output.flush().unwrap();
        }
        next += 1;
    }
}

#[test]
fn the_child_of_the_crash_test() {
    let directory = std::env::var(DIRECTORY);
    let temporary = TempDir::new();
    let path = directory.as_ref().map_or(temporary.path(), Path::new);
    let store = open_small(path);
    let partitions: Vec<_> = (1..=PARTITIONS).map(PartitionId).collect();
    if store.partitions().unwrap().is_empty() {
        store.create_partitions(&partitions, Lsn(0)).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for partition in partitions {
            let (store, stop) = (&store, &stop);
            let tell = directory.is_ok();
            scope.spawn(move || work(store, partition, stop, tell));
        }
        if directory.is_err() {
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Release);
        }
    });
    assert!(verify(&store).values().all(|lsn| *lsn > 0));
}

fn spawn(path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_child_of_the_crash_test", "--nocapture"])
        .env(DIRECTORY, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Checks every partition and returns its LSN.
fn verify(store: &dyn Store) -> BTreeMap<u64, u64> {
    let partitions = store.partitions().unwrap();
    partitions
        .into_iter()
        .map(|id| (id.0, verify_partition(&*store.snapshot(id).unwrap())))
        .collect()
}

fn verify_partition(snapshot: &dyn Snapshot) -> u64 {
    let lsn = snapshot.lsn();
    let all = |space| {
        let limit = ScanLimit { entries_max: usize::MAX, bytes_max: usize::MAX };
        snapshot.scan(space, &KeyRange::all(), Direction::Forward, limit).unwrap().entries
    };
    let expected_len = if lsn == Lsn(0) { 0 } else { usize::from(KEYS) };
    for space in [Space::Items, Space::Index] {
        let (passing, entries): (Vec<_>, Vec<_>) =
            all(space).into_iter().partition(|entry| entry.key[..] >= [KEYS][..]);
        if space == Space::Index {
            let first = lsn.0.saturating_sub(PASSING - 1).max(1);
            let keys: Vec<Vec<u8>> = passing.iter().map(|entry| entry.key.to_vec()).collect();
            assert_eq!(keys, (first..=lsn.0).map(self::passing).collect::<Vec<_>>());
        }
        assert_eq!(entries.len(), expected_len);
        for entry in entries {
            let number = u64::from_be_bytes(*entry.record.value.first_chunk().unwrap());
            assert_eq!((Lsn(number), entry.record.lsn), (lsn, lsn), "{space:?}");
        }
    }
    let logs: Vec<u64> = all(Space::Feed).iter().map(|entry| entry.record.lsn.0).collect();
    assert_eq!(logs, (1..=lsn.0).collect::<Vec<_>>());
    let commits = snapshot.get(Space::Meta, b"commits").unwrap();
    let commits = commits.map_or(0, |record| counter(&record.value).unwrap());
    assert_eq!(commits, i64::try_from(lsn.0).unwrap());
    lsn.0
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let dir = TempDir::new();
    let mut told: BTreeMap<u64, u64> = BTreeMap::new();
    for cut in 0..CUTS {
        let (mut child, mut output) = spawn(dir.path());
        let mut lines = Vec::new();
        // The first cut comes while the store is being made, the others while it is working.
        let is_told = |lines: &[u8]| lines.iter().filter(|byte| **byte == b'\n').count() > 3;
        while cut > 0 && !is_told(&lines) {
            assert!(output.read_until(b'\n', &mut lines).unwrap() > 0, "the child ended");
        }
        thread::sleep(Duration::from_millis(5 + cut * 37 % 200));
        child.kill().unwrap();
        child.wait().unwrap();
        std::io::Read::read_to_end(&mut output, &mut lines).unwrap();
        for line in lines.split(|byte| *byte == b'\n') {
            let mut numbers = str::from_utf8(line).unwrap().split(' ').map(str::parse::<u64>);
            if let (Some(Ok(partition)), Some(Ok(lsn)), None) =
                (numbers.next(), numbers.next(), numbers.next())
            {
                told.insert(partition, lsn);
            }
        }
        // A cut may come before the partitions are made; they are made all together.
        let store = open_small(dir.path());
        let found = verify(&store);
        assert!(found.is_empty() || found.len() as u64 == PARTITIONS, "{found:?}");
        for (partition, lsn) in &told {
            assert!(found[partition] >= *lsn, "cut {cut}: told {told:?}, found {found:?}");
        }
        if cut % 3 == 0 {
            store.close().unwrap();
        }
    }
    assert_eq!(told.len() as u64, PARTITIONS);
    assert!(told.values().sum::<u64>() > 100, "too little happened: {told:?}");
}
