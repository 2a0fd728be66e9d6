//! The thread that sorts pending changes into the engine's index.
//!
//! It writes tables directly, without journal and write buffer: the records in the keyspace of
//! pending changes make them durable until the tables are. The engine lets nobody commit while it
//! makes a new table known, which takes a sync of it; so the changes go into several tables of
//! moderate size, one after another. As their keys do not overlap they count as one run of the
//! index.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use fjall::{Keyspace, PersistMode};

use super::{Entry, Merge, Places, Runs};
use crate::contract::StorageError;
use crate::contract::{Direction, KeyRange, Result};
use crate::embedded::committer::queue::{Task, Work};
use crate::embedded::dropped::Dropped;
use crate::embedded::keys::partition_of;
use crate::embedded::lane::Lane;
use crate::embedded::view::engine_error;

/// About how many bytes of entries are handed to the engine in one piece.
const HANDFUL_BYTES: usize = 64 * 1024;

enum Job {
    SortIn(Runs),
    Retire,
}

/// A lane's flusher; its thread ends with it.
pub(in crate::embedded) struct Flusher {
    jobs: Option<Sender<Job>>,
    done: Receiver<Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    pub(in crate::embedded) fn start(lane: Arc<Lane>, places: Places) -> Result<Flusher> {
        let (jobs, work) = channel();
        let (finished, done) = channel();
        let thread = thread::Builder::new()
            .name("partita-flusher".to_owned())
            .spawn(move || run(&lane, &places, &work, &finished))
            .map_err(|error| StorageError::io("cannot start a thread", &error))?;
        Ok(Flusher { jobs: Some(jobs), done, thread: Some(thread) })
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread is gone, waiting for it tells so.
            drop(jobs.send(job));
        }
    }

    /// Sorts runs in. When that is done the lane's committer finds a task in its queue.
    pub(in crate::embedded) fn flush_runs(&self, runs: Runs) {
        self.send(Job::SortIn(runs));
    }

    /// Frees the memory of records that are deleted. The engine does so when it retires the buffer
    /// that they and their deletion are in.
    pub(in crate::embedded) fn retire(&self) {
        self.send(Job::Retire);
    }

    /// The result of [`Flusher::flush_runs`] if it is there.
    pub(in crate::embedded) fn finished(&self) -> Option<Result<()>> {
        match self.done.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(ended())),
        }
    }

    /// Waits for the result of [`Flusher::flush_runs`].
    pub(in crate::embedded) fn wait(&self) -> Result<()> {
        self.done.recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it left nothing to do.
            drop(thread.join());
        }
    }
}

fn ended() -> StorageError {
    StorageError::Poisoned("the flusher of the index ended".to_owned())
}

fn run(lane: &Lane, places: &Places, work: &Receiver<Job>, finished: &Sender<Result<()>>) {
    while let Ok(job) = work.recv() {
        match job {
            Job::SortIn(runs) => {
                // The committer may have ended; then nobody needs to know.
                drop(finished.send(places.flush_runs(&runs)));
                let (done, _) = std::sync::mpsc::sync_channel(1);
                lane.queue.push(Work::Task { task: Task::Settle, done });
            }
            Job::Retire => {
                if let Err(error) = places.pending.rotate_memtable().map_err(engine_error) {
                    lane.health.poison(error.to_string());
                }
            }
        }
    }
}

impl Places {
    fn flush_runs(&self, runs: &Runs) -> Result<()> {
        // A relaxed store has not synced the records. Tables outlive the end of the machine, and
        // entries must not do so without the items of their group.
        self.database.persist(PersistMode::SyncData).map_err(engine_error)?;
        flush_runs(&self.index, runs, &self.dropped, self.table_bytes)
    }
}

/// Writes what runs say into tables of the index.
fn flush_runs(index: &Keyspace, runs: &Runs, dropped: &Dropped, table_bytes: usize) -> Result<()> {
    let dropped = dropped.get();
    let is_living = |key: &[u8]| partition_of(key).is_none_or(|id| !dropped.contains(&id));
    let newest_first = runs.iter().map(Arc::as_ref);
    let entries = Merge::new(newest_first, &KeyRange::all(), Direction::Forward);
    let mut entries = entries.filter(|entry| is_living(entry.key)).peekable();
    while entries.peek().is_some() {
        let mut table = index.start_ingestion().map_err(engine_error)?;
        let mut bytes = 0;
        while bytes <= table_bytes && entries.peek().is_some() {
            let handful = Handful::take(&mut entries);
            bytes += handful.bytes.len();
            for (key, stored) in handful.into_changes() {
                let written = match stored {
                    Some(stored) => table.write(key, stored),
                    None => table.write_tombstone(key),
                };
                written.map_err(engine_error)?;
            }
        }
        table.finish().map_err(engine_error)?;
    }
    Ok(())
}

/// Entries that lie one behind the other in a buffer of their own. The engine wants to own what it
/// writes: parts of a buffer cost it nothing, and a place in memory for each key would be a good
/// part of its work.
struct Handful {
    bytes: Vec<u8>,
    changes: Vec<(Range<usize>, Option<Range<usize>>)>,
}

impl Handful {
    fn take<'a>(entries: &mut impl Iterator<Item = Entry<'a>>) -> Handful {
        let bytes = Vec::with_capacity(HANDFUL_BYTES + HANDFUL_BYTES / 4);
        let mut handful = Handful { bytes, changes: Vec::new() };
        while handful.bytes.len() < HANDFUL_BYTES
            && let Some(Entry { key, stored }) = entries.next()
        {
            let key = handful.put(key);
            let stored = stored.map(|stored| handful.put(stored));
            handful.changes.push((key, stored));
        }
        handful
    }

    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn into_changes(self) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
        let bytes = Bytes::from(self.bytes);
        let changes = self.changes.into_iter();
        changes.map(move |(key, stored)| (bytes.slice(key), stored.map(|at| bytes.slice(at))))
    }
}
