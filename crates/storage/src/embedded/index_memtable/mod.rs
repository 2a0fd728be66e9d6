//! Changes of the index that are durable and visible, but not sorted into the engine's index yet.
//!
//! An item has some twenty entries in the index, and each of them as a key of its own in the
//! engine's write buffer would be most of what a commit costs. So a group's changes of the index
//! space are one record ([`record`]) of a keyspace of their own, which makes them durable, and one
//! sorted [`Run`] in memory, which every view shows together with the engine's index. When enough
//! has gathered, a thread merges the runs into tables of the engine's index ([`Flusher`]); then the
//! committer deletes the records and lets go of the runs.
//!
//! ```text
//!   group ─► record in "pending", run in memory ─► (16 MB) tables of "index" ─► record and run go
//!   view of the index = runs, the newest first, above the engine's snapshot
//! ```
//!
//! **Whatever is cut off, nothing is lost or wrong.** A run says of a key what is there, not what
//! changes: saying it twice is saying it once. So it does no harm if the engine's index has some or
//! all of a run already: a view shows the same, and after a crash the run is read from its record
//! and sorted in again. What must hold is that runs are above the engine's index: nothing that is
//! newer than a run is written into the index but through a newer run. So in stores that have this,
//! all changes of the index come this way.
//!
//! Runs are kept few, because a read asks each: four of a size become one. That takes the committer
//! at most some milliseconds now and then. A lane that nobody writes to sorts in what it has, if it
//! is not very little.

mod flusher;
mod record;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;

use fjall::{Database, Keyspace, OwnedWriteBatch, Readable};

use crate::contract::Result;
use crate::embedded::committer::group::Pieces;
use crate::embedded::dropped::Dropped;
use crate::embedded::keys::{pending_key, pending_number};
use crate::embedded::view::engine_error;
pub(super) use flusher::Flusher;
pub(super) use run::{Entry, Merge, Run};

/// When twice as much is pending as is sorted in at once, writers wait.
const HALT_TIMES: usize = 2;

/// So many runs of a size become one, as long as it has no more than this part of what is sorted in
/// at once.
const MERGE_RUNS: usize = 4;
const MERGE_PART: usize = 2;

/// So many tables are made of what is sorted in at once; see [`flusher`].
pub(super) const SORT_TABLES: u8 = 4;

/// The runs that a view shows, the newest first.
pub(super) type Runs = Arc<[Arc<Run>]>;

/// The pending changes of a lane, as its committer knows them.
pub(super) struct IndexMemtable {
    keyspace: Keyspace,
    /// How much is gathered before it is sorted in.
    sort_bytes: usize,
    /// The oldest first.
    runs: Vec<Arc<Run>>,
    /// The groups that have a record, the oldest first.
    groups: VecDeque<u64>,
    /// What the flusher has: so many of the oldest runs and groups.
    sorting: Option<Flushing>,
}

#[derive(Clone, Copy, Debug)]
struct Flushing {
    runs: usize,
    groups: usize,
}

impl IndexMemtable {
    /// Reads what was pending when the lane was left.
    pub(super) fn read(
        keyspace: Keyspace,
        sort_bytes: usize,
        snapshot: &fjall::Snapshot,
    ) -> Result<IndexMemtable> {
        let (runs, groups) = (Vec::new(), VecDeque::new());
        let mut pending = IndexMemtable { keyspace, sort_bytes, runs, groups, sorting: None };
        for entry in snapshot.iter(&pending.keyspace) {
            let (key, value) = entry.into_inner().map_err(engine_error)?;
            let group = pending_number(&key)?;
            pending.push(group, record::unpack(&value)?);
        }
        Ok(pending)
    }

    /// Where its flusher works.
    pub(super) fn places(&self, database: &Database, index: &Keyspace, dropped: Dropped) -> Places {
        Places {
            database: database.clone(),
            index: index.clone(),
            pending: self.keyspace.clone(),
            dropped,
            table_bytes: self.sort_bytes / usize::from(SORT_TABLES),
        }
    }

    /// Files changes of the index under a group's number. The run is to be pushed when that is
    /// durable.
    pub(super) fn file(&self, batch: &mut OwnedWriteBatch, group: u64, changes: &Pieces) -> Run {
        let mut run = Run::with_capacity(changes.len(), changes.size_bytes());
        for change in changes.in_order() {
            run.push(Entry { key: &change.key, stored: change.stored.as_deref() });
        }
        batch.insert(&self.keyspace, pending_key(group), record::pack(run.entries()));
        run
    }

    /// Adds the newest run.
    pub(super) fn push(&mut self, group: u64, run: Run) {
        self.runs.push(Arc::new(run));
        self.groups.push_back(group);
        while let Some(first) = self.first_to_merge() {
            self.merge_from(first);
        }
    }

    /// Where the runs begin that are to become one: those at the end that are of the size of the
    /// last one or smaller.
    fn first_to_merge(&self) -> Option<usize> {
        let most = tier(self.runs.last()?);
        let sorting = self.sorting.map_or(0, |sorting| sorting.runs);
        let free = self.runs.get(sorting..)?;
        let alike = free.iter().rev().take_while(|run| tier(run) <= most);
        let (count, bytes) =
            alike.fold((0, 0), |(count, bytes), run| (count + 1, bytes + run.size_bytes()));
        let is_due = count >= MERGE_RUNS && bytes <= self.sort_bytes / MERGE_PART;
        is_due.then_some(self.runs.len() - count)
    }

    fn merge_from(&mut self, first: usize) {
        let parts: Vec<Arc<Run>> = self.runs.drain(first..).collect();
        let newest_first: Vec<&Run> = parts.iter().rev().map(Arc::as_ref).collect();
        self.runs.push(Arc::new(run::merged(&newest_first)));
    }

    /// What a view shows.
    pub(super) fn runs(&self) -> Runs {
        self.runs.iter().rev().cloned().collect()
    }

    fn size_bytes(&self) -> usize {
        self.runs.iter().map(|run| run.size_bytes()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.sorting.is_some()
    }

    /// Whether it is time to begin to sort in.
    pub(super) fn is_due(&self) -> bool {
        !self.is_flushing() && self.size_bytes() >= self.sort_bytes
    }

    /// Whether it is time for that when there is nothing else to do and so much is worth it: see
    /// `compactor/idle.rs`.
    pub(super) fn is_worth_a_flush(&self, least: u64) -> bool {
        !self.is_flushing() && self.size_bytes() as u64 >= least
    }

    /// Whether writers have to wait for the flusher.
    pub(super) fn is_too_much(&self) -> bool {
        self.is_flushing() && self.size_bytes() >= self.sort_bytes * HALT_TIMES
    }

    /// Begins to sort in all that there is.
    pub(super) fn begin_flush(&mut self) -> Runs {
        self.sorting = Some(Flushing { runs: self.runs.len(), groups: self.groups.len() });
        self.runs()
    }

    /// Deletes the records of what is sorted in.
    pub(super) fn unfile(&self, batch: &mut OwnedWriteBatch) {
        let sorted = self.sorting.map_or(0, |sorting| sorting.groups);
        for group in self.groups.iter().take(sorted) {
            batch.remove(&self.keyspace, pending_key(*group));
        }
    }

    /// Lets go of what is sorted in.
    pub(super) fn end_flush(&mut self) {
        if let Some(sorting) = self.sorting.take() {
            self.runs.drain(..sorting.runs.min(self.runs.len()));
            self.groups.drain(..sorting.groups.min(self.groups.len()));
        }
    }
}

/// Runs of one tier are of about one size: the next one's is four times as large.
fn tier(run: &Run) -> u32 {
    run.size_bytes().max(1).ilog2() / 2
}

/// How near pending changes are to making writers wait, as [`crate::Store::pressure`] says it.
pub(super) fn pressure(runs: &Runs, sort_bytes: usize) -> f64 {
    let bytes: usize = runs.iter().map(|run| run.size_bytes()).sum();
    let room = sort_bytes * (HALT_TIMES - 1);
    bytes.saturating_sub(sort_bytes) as f64 / room.max(1) as f64
}

/// What the flusher needs of a lane.
pub(super) struct Places {
    pub(super) database: Database,
    pub(super) index: Keyspace,
    pub(super) pending: Keyspace,
    pub(super) dropped: Dropped,
    /// How many bytes of entries go into one table.
    pub(super) table_bytes: usize,
}
