//! The raw engine: fjall with nothing around it but the group commit that durability needs.
//!
//! One database and one committing thread per lane, as many lanes as the store has by default (one
//! per core). Writers hand over batches of 18 keys (an item of 1 KB, 15 index entries, a feed
//! record and a counter) and wait until theirs is on disk; the committer joins what waits, at most
//! 64, into one write with one sync.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

const GROUP_MAX: usize = 64;
const INDEX_ENTRIES: u64 = 15;

type Pair = (usize, Vec<u8>, Vec<u8>);
type Job = (Vec<Pair>, SyncSender<()>);

/// Commits per second of this many writers.
pub(crate) fn run(directory: &Path, writers: usize, length: Duration) -> Result<f64> {
    let lanes = thread::available_parallelism()?.get();
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    thread::scope(|scope| -> Result<f64> {
        let mut senders = Vec::new();
        for lane in 0..lanes {
            let database = Database::builder(directory.join(lane.to_string())).open()?;
            let spaces = ["items", "index", "feed", "meta"]
                .map(|name| database.keyspace(name, KeyspaceCreateOptions::default));
            let [items, index, feed, meta] = spaces;
            let spaces = [items?, index?, feed?, meta?];
            let (sender, receiver) = sync_channel::<Job>(1_024);
            senders.push(sender);
            scope.spawn(move || commit(&database, &spaces, &receiver));
        }
        let start = Instant::now();
        for writer in 0..writers {
            let sender = senders[writer % lanes].clone();
            let (stop, done) = (&stop, &done);
            scope.spawn(move || write(writer as u64, &sender, stop, done));
        }
        drop(senders);
        thread::sleep(length);
        let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        Ok(rate)
    })
}

fn write(writer: u64, sender: &SyncSender<Job>, stop: &AtomicBool, done: &AtomicU64) {
    let (answer, committed) = sync_channel(1);
    let mut n = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        if sender.send((pairs(writer, n), answer.clone())).is_err() || committed.recv().is_err() {
            return;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// The keys are spread as hashes spread them; the sizes are those of the items over HTTP.
fn pairs(writer: u64, n: u64) -> Vec<Pair> {
    let spread = (writer << 40 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let key = |space: u8, tail: u64| {
        let mut key = vec![space];
        key.extend_from_slice(&spread);
        key.extend_from_slice(&[7; 24]);
        key.extend_from_slice(&tail.to_be_bytes());
        key
    };
    let mut pairs = vec![(0, key(0, n), vec![b'x'; 1_100])];
    for entry in 0..INDEX_ENTRIES {
        let mut path = vec![u8::try_from(entry).unwrap_or(0); 12];
        path.extend_from_slice(&key(1, entry));
        pairs.push((1, path, vec![b'k'; 48]));
    }
    pairs.push((2, (writer << 40 | n).to_be_bytes().to_vec(), vec![b'f'; 48]));
    pairs.push((3, writer.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()));
    pairs
}

fn commit(database: &Database, spaces: &[Keyspace; 4], jobs: &Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(job) = jobs.try_recv()
        {
            group.push(job);
        }
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        for (pairs, _) in &group {
            for (space, key, value) in pairs {
                batch.insert(&spaces[*space], key.as_slice(), value.as_slice());
            }
        }
        batch.commit().expect("the disk of a benchmark works");
        for (_, answer) in group {
            // A writer that stopped meanwhile does not wait for its answer.
            let _ = answer.send(());
        }
    }
}
