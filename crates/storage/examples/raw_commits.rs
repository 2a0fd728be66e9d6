//! How fast the store commits, and what our contract costs on top of the bare engine.
//!
//! `raw_commits [--dir D] [--seconds S] [--writers N]`: N threads each submit one batch after the
//! other (an item of 1 KB, 15 index entries, a feed record, a counter: 18 keys) and wait until it
//! is durable. First through the store, then straight to the engine with the same files, lanes and
//! grouping but without expectations, LSNs, counters, views, marks or tickets. Prints lines and a
//! last one in JSON.
#![allow(clippy::print_stdout, reason = "a report")]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use partita_model::Lsn;
use partita_storage::{Batch, EmbeddedSettings, EmbeddedStore, PartitionId, Space, Store};

struct Options {
    dir: PathBuf,
    seconds: u64,
    writers: u64,
}

fn options() -> Options {
    let mut options =
        Options { dir: std::env::temp_dir().join("partita-raw-commits"), seconds: 10, writers: 64 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().expect("every option has a value");
        match name.as_str() {
            "--dir" => options.dir = value.into(),
            "--seconds" => options.seconds = value.parse().expect("a number"),
            "--writers" => options.writers = value.parse().expect("a number"),
            name => panic!("unknown option {name}"),
        }
    }
    options
}

fn main() {
    let options = options();
    let store = through_the_store(&options);
    let plain = straight_to_the_engine(&options);
    let ratio = store.commits_per_second / plain.commits_per_second;
    println!(
        "{{\"writers\":{},\"store_commits_per_second\":{:.0},\"store_commits_per_group\":{:.1},\
         \"plain_commits_per_second\":{:.0},\"ratio\":{ratio:.3},\"point_reads_per_second\":{:.0}}}",
        options.writers,
        store.commits_per_second,
        store.commits_per_group,
        plain.commits_per_second,
        store.point_reads_per_second,
    );
}

#[derive(Default)]
struct Rate {
    commits_per_second: f64,
    commits_per_group: f64,
    point_reads_per_second: f64,
}

/// Runs the writers for the given time and counts what they did.
fn drive(options: &Options, commit: &(dyn Fn(u64, u64) + Sync)) -> f64 {
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    thread::scope(|scope| {
        for writer in 0..options.writers {
            let (stop, commits) = (&stop, &commits);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    commit(writer, number);
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(options.seconds));
        stop.store(true, Ordering::Relaxed);
    });
    commits.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// A number without order, so that keys fall all over the place.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn item_key(number: u64) -> Vec<u8> {
    mixed(number).to_be_bytes().to_vec()
}

fn item(number: u64) -> Vec<u8> {
    (0..128).flat_map(|word| mixed(number ^ (word << 40)).to_be_bytes()).collect()
}

fn index_key(number: u64, field: u64) -> Vec<u8> {
    let mut key = vec![u8::try_from(field).expect("few fields")];
    key.extend_from_slice(&mixed(number ^ (field << 50)).to_be_bytes());
    key.extend_from_slice(&item_key(number));
    key
}

fn through_the_store(options: &Options) -> Rate {
    let dir = options.dir.join("store");
    remove(&dir);
    let store = EmbeddedStore::open(&dir, EmbeddedSettings::default()).expect("a new store");
    let ids: Vec<_> = (0..options.writers).map(PartitionId).collect();
    store.create_partitions(&ids, Lsn(0)).expect("partitions");
    let commits_per_second = drive(options, &|writer, number| {
        let mut batch = Batch::new();
        batch.expect_absent(Space::Items, item_key(number));
        batch.put(Space::Items, item_key(number), item(number));
        for field in 0..15 {
            batch.put(Space::Index, index_key(number, field), Vec::new());
        }
        batch.log(Vec::new(), item_key(number));
        batch.add(Space::Meta, b"count".to_vec(), 1);
        store.submit(PartitionId(writer), batch).wait().expect("a commit");
    });
    let status = store.status();
    let commits_per_group = status.commits as f64 / status.groups as f64;
    println!("store:  {commits_per_second:.0} commits/s, {commits_per_group:.1} commits per group");
    let point_reads_per_second = read_points(&store);
    println!("store:  {point_reads_per_second:.0} point reads/s, one thread, snapshot and get");
    store.close().expect("closing");
    remove(&dir);
    Rate { commits_per_second, commits_per_group, point_reads_per_second }
}

/// Reads some hot items again and again.
fn read_points(store: &EmbeddedStore) -> f64 {
    const READS: u64 = 300_000;
    let start = Instant::now();
    for read in 0..READS {
        let snapshot = store.snapshot(PartitionId(0)).expect("a snapshot");
        let found = snapshot.get(Space::Items, &item_key(read % 200)).expect("a read");
        assert!(found.is_some(), "every writer has written more than that");
    }
    READS as f64 / start.elapsed().as_secs_f64()
}

/// A batch on its way to a plain committer.
struct Job {
    writer: u64,
    number: u64,
    done: SyncSender<()>,
}

fn straight_to_the_engine(options: &Options) -> Rate {
    let dir = options.dir.join("plain");
    remove(&dir);
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(8);
    let groups = Arc::new(AtomicU64::new(0));
    let mut senders: Vec<Sender<Job>> = Vec::new();
    let mut committers = Vec::new();
    for lane in 0..lanes {
        let (sender, receiver) = channel();
        let (path, groups) = (dir.join(format!("lane-{lane}")), Arc::clone(&groups));
        senders.push(sender);
        committers.push(
            thread::Builder::new()
                .name(format!("plain-{lane}"))
                .spawn(move || plain_committer(&path, &receiver, &groups))
                .expect("a thread"),
        );
    }
    let commits_per_second = drive(options, &|writer, number| {
        let (done, answer) = sync_channel(1);
        let lane = usize::try_from(writer).expect("few writers") % lanes;
        senders[lane].send(Job { writer, number, done }).expect("the committer lives");
        answer.recv().expect("the committer lives");
    });
    drop(senders);
    committers.into_iter().for_each(|committer| committer.join().expect("no panic"));
    println!("plain:  {commits_per_second:.0} commits/s");
    remove(&dir);
    Rate { commits_per_second, ..Rate::default() }
}

fn plain_committer(path: &Path, jobs: &Receiver<Job>, groups: &AtomicU64) {
    let database = Database::builder(path)
        .worker_threads(3)
        .max_journaling_size(64 << 20)
        .manual_journal_persist(true)
        .open()
        .expect("a database");
    let open = |(name, megabytes): (&str, u64)| {
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(megabytes << 20)
                .manual_journal_persist(true)
        };
        database.keyspace(name, options).expect("a keyspace")
    };
    let keyspaces = [("items", 8), ("index", 8), ("feed", 2), ("meta", 2)].map(open);
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        group.extend(jobs.try_iter().take(63));
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        for job in &group {
            plain_batch(&mut batch, &keyspaces, job);
        }
        batch.commit().expect("a commit");
        groups.fetch_add(1, Ordering::Relaxed);
        for job in group {
            job.done.send(()).ok();
        }
    }
}

fn plain_batch(batch: &mut fjall::OwnedWriteBatch, keyspaces: &[Keyspace; 4], job: &Job) {
    let [items, index, feed, meta] = keyspaces;
    let own = |key: Vec<u8>| [&job.writer.to_be_bytes()[..], &key].concat();
    batch.insert(items, own(item_key(job.number)), item(job.number));
    for field in 0..15 {
        batch.insert(index, own(index_key(job.number, field)), Vec::new());
    }
    batch.insert(feed, own(job.number.to_be_bytes().to_vec()), item_key(job.number));
    batch.insert(meta, own(b"count".to_vec()), job.number.to_be_bytes());
}

fn remove(dir: &Path) {
    std::fs::remove_dir_all(dir).ok();
}
