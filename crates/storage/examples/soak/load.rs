//! The load, in the child process.
//!
//! Every writer owns a partition, so what it wrote can be verified without knowing the past: an
//! item holds the LSN of its last write as its version, its index entries follow from id and
//! version, and the feed tells every change. What was acknowledged is noted in a file that outlives
//! the process.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, EmbeddedStore, KeyRange, PartitionId, ScanLimit, Space, Store,
};

use crate::Options;
use crate::histogram::{Interval, Recorder};

pub(crate) const PARTITIONS: u64 = 32;
pub(crate) const FIELDS: u8 = 15;
/// Fields that change with every update; the others stay with the item.
const CHANGING_FIELDS: u8 = 5;
const READERS: u64 = 4;
const READER_PAUSE: Duration = Duration::from_millis(1);
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

pub(crate) const COUNT: &[u8] = b"count";
pub(crate) const DELETED: u8 = 0;
pub(crate) const WRITTEN: u8 = 1;

pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(crate) fn item_key(id: u64) -> Vec<u8> {
    mixed(id).to_be_bytes().to_vec()
}

/// The version, and something half as compressible as JSON tends to be.
fn item(id: u64, version: u64) -> Vec<u8> {
    let mut value = version.to_be_bytes().to_vec();
    for word in 0..64 {
        value.extend_from_slice(&mixed(id ^ version.rotate_left(32) ^ (word << 50)).to_be_bytes());
        value.extend_from_slice(b"\"field\":");
    }
    value
}

/// Field, value, item: as an index term is.
pub(crate) fn index_key(key: &[u8], version: u64, field: u8) -> Vec<u8> {
    let seed = if field < CHANGING_FIELDS { version } else { 0 };
    let id = u64::from_be_bytes(key.try_into().expect("an item key has 8 bytes"));
    let mut term = vec![field];
    term.extend_from_slice(&mixed(seed ^ id.rotate_left(7) ^ u64::from(field)).to_be_bytes()[..4]);
    term.extend_from_slice(key);
    term
}

pub(crate) fn run(options: &Options) {
    let store = options.open_store();
    if store.partitions().expect("an answer").is_empty() {
        let ids: Vec<_> = (0..PARTITIONS).map(PartitionId).collect();
        store.create_partitions(&ids, Lsn(0)).expect("partitions");
    }
    let [writes, reads, scans] = [(); 3].map(|()| Recorder::new());
    let stop = AtomicBool::new(false);
    let documents = options.documents / PARTITIONS;
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    thread::scope(|scope| {
        for partition in 0..PARTITIONS {
            let (store, writes, stop) = (&store, &writes, &stop);
            let mut notes = Notes::open(&options.dir, partition);
            scope.spawn(move || {
                let mut random = Random::new(partition);
                while !stop.load(Ordering::Relaxed) {
                    notes.acknowledge(write(
                        store,
                        partition,
                        random.below(documents),
                        &mut random,
                        writes,
                    ));
                }
            });
        }
        for reader in 0..READERS {
            let (store, reads, scans, stop) = (&store, &reads, &scans, &stop);
            scope.spawn(move || {
                let mut random = Random::new(1000 + reader);
                while !stop.load(Ordering::Relaxed) {
                    read(store, documents, &mut random, reads, scans);
                    thread::sleep(READER_PAUSE);
                }
            });
        }
        report(&store, duration, [&writes, &reads, &scans]);
        stop.store(true, Ordering::Relaxed);
    });
    store.close().expect("closing");
}

/// One change of one item, whatever its state asks for. Returns the LSN.
fn write(
    store: &EmbeddedStore,
    partition: u64,
    id: u64,
    random: &mut Random,
    writes: &Recorder,
) -> u64 {
    let snapshot = store.snapshot(PartitionId(partition)).expect("a snapshot");
    let lsn = snapshot.lsn().0 + 1;
    let key = item_key(id);
    let old = snapshot.get(Space::Items, &key).expect("a read");
    drop(snapshot);
    let mut batch = Batch::new();
    let old_version = old.as_ref().map(|record| record.lsn.0);
    let is_delete = old.is_some() && random.below(5) == 0;
    match old {
        Some(record) => batch.expect_unchanged(Space::Items, key.clone(), record.lsn),
        None => batch.expect_absent(Space::Items, key.clone()),
    }
    for field in 0..FIELDS {
        let new = (!is_delete).then(|| index_key(&key, lsn, field));
        let stale = old_version.map(|version| index_key(&key, version, field));
        if stale == new {
            continue;
        }
        stale.into_iter().for_each(|term| batch.delete(Space::Index, term));
        new.into_iter().for_each(|term| batch.put(Space::Index, term, Vec::new()));
    }
    if is_delete {
        batch.delete(Space::Items, key.clone());
    } else {
        batch.put(Space::Items, key.clone(), item(id, lsn));
    }
    let delta = i64::from(!is_delete) - i64::from(old_version.is_some());
    batch.add(Space::Meta, COUNT.to_vec(), delta);
    batch.log(key, vec![if is_delete { DELETED } else { WRITTEN }]);
    let start = Instant::now();
    let commit = store.submit(PartitionId(partition), batch).wait().expect("a commit");
    writes.record(start);
    assert_eq!(commit.lsn.0, lsn, "a writer is alone in its partition");
    lsn
}

/// Mostly a point read, sometimes a page of an index.
fn read(
    store: &EmbeddedStore,
    documents: u64,
    random: &mut Random,
    reads: &Recorder,
    scans: &Recorder,
) {
    let partition = PartitionId(random.below(PARTITIONS));
    let key = item_key(random.below(documents));
    let start = Instant::now();
    let snapshot = store.snapshot(partition).expect("a snapshot");
    if random.below(10) > 0 {
        let found = snapshot.get(Space::Items, &key).expect("a read");
        reads.record(start);
        if let Some(record) = found {
            let version = u64::from_be_bytes(*record.value.first_chunk().expect("a version"));
            assert_eq!(version, record.lsn.0, "an item is of one piece");
        }
        return;
    }
    let begin = vec![random.below(u64::from(FIELDS)) as u8, random.below(256) as u8];
    let range = KeyRange { start: Bound::Included(begin), end: Bound::Unbounded };
    let limit = ScanLimit { entries_max: 100, bytes_max: 1 << 20 };
    snapshot.scan(Space::Index, &range, Direction::Forward, limit).expect("a scan");
    scans.record(start);
}

/// Tells the parent about every interval until the time is over.
fn report(store: &EmbeddedStore, duration: Duration, [writes, reads, scans]: [&Recorder; 3]) {
    let begin = Instant::now();
    let mut cpu = cpu_seconds();
    while begin.elapsed() < duration {
        let start = Instant::now();
        thread::sleep(INTERVAL.min(duration.saturating_sub(begin.elapsed())));
        let now = cpu_seconds();
        let interval = Interval {
            seconds: start.elapsed().as_secs_f64(),
            writes: writes.take(),
            reads: reads.take(),
            scans: scans.take(),
            rss_mb: rss_mb(),
            disk_mb: store.status().disk_bytes >> 20,
            cpu_own: now.0 - cpu.0,
            cpu_engine: now.1 - cpu.1,
        };
        cpu = now;
        println!("{}", interval.to_line());
    }
}

fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Processor seconds so far of all threads but the engine's, and of the engine's.
fn cpu_seconds() -> (f64, f64) {
    let (mut own, mut engine) = (0.0, 0.0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let ticks = |at: usize| tail.split(' ').nth(at).and_then(|text| text.parse::<f64>().ok());
        let seconds = (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0;
        *(if head.contains("fjall") { &mut engine } else { &mut own }) += seconds;
    }
    (own, engine)
}

/// What a writer was told, in a file: it outlives a killed process.
struct Notes {
    file: File,
}

impl Notes {
    fn open(dir: &Path, partition: u64) -> Notes {
        let path = dir.join(format!("acknowledged-{partition}"));
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path).expect("a file");
        Notes { file }
    }

    fn acknowledge(&mut self, lsn: u64) {
        self.file.seek(SeekFrom::Start(0)).expect("a seek");
        self.file.write_all(&lsn.to_be_bytes()).expect("a note");
    }
}

pub(crate) fn acknowledged(dir: &Path, partition: u64) -> u64 {
    let bytes = std::fs::read(dir.join(format!("acknowledged-{partition}"))).unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let start = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        Random(mixed(seed ^ start))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % limit.max(1)
    }
}
