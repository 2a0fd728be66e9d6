//! The one writer of a lane: decides batches in order, writes them together, publishes the result.
//!
//! ```text
//! take all that waits (≤ 64 batches)
//!   → decide each, in order, against the view and the group's own earlier changes
//!   → one atomic write of the engine, one fsync          all partitions of the lane together
//!   → note the group in the mark, publish a new view     now it is durable, now it is visible
//!   → resolve the tickets
//! ```
//!
//! A conflict or a batch at fault concerns its own ticket only. A write that fails stops the store:
//! see `health.rs`. Between groups the committer sleeps on its queue; when nothing comes for
//! a while, it tidies up (`compactor/idle.rs`).

pub(in crate::embedded) mod counters;
pub(in crate::embedded) mod group;
pub(in crate::embedded) mod queue;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Keyspace, OwnedWriteBatch, PersistMode};
use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{PartitionId, Result, Space};
use crate::embedded::committer::counters::Counters;
use crate::embedded::committer::group::{Changes, Group};
use crate::embedded::committer::queue::{Taken, Task, Work};
use crate::embedded::compactor::idle::{self, Next, Relief, Rest};
use crate::embedded::compactor::{Compactor, Horizon};
use crate::embedded::disk::bytes_written;
use crate::embedded::files::journal;
use crate::embedded::files::mark::{Emptied, Mark};
use crate::embedded::index_memtable::{Flusher, IndexMemtable};
use crate::embedded::keys::{Family, group_key, lsn_value};
use crate::embedded::lane::{Lane, OpenLane};
use crate::embedded::settings::Durability;
use crate::embedded::view::{Lsns, Member, Spaces, View, engine_error};

/// How long an orderly end waits for the engine to flush. What is not flushed then is replayed from
/// the journal at the next start.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(10);
const FLUSH_POLL: Duration = Duration::from_millis(2);

/// After so many bytes it is looked whether the engine began a new journal, which has 64 MB.
const JOURNAL_LOOK_BYTES: u64 = 4 * 1024 * 1024;

/// A write of a group, with its sync, that is worth a trace, and one that is worth a warning.
const SLOW: Duration = Duration::from_millis(200);
const VERY_SLOW: Duration = Duration::from_secs(2);

/// The state that only the committer's thread touches.
pub(super) struct Committer {
    lane: Arc<Lane>,
    path: PathBuf,
    database: Database,
    spaces: Arc<Spaces>,
    view: Arc<View>,
    members: Arc<HashMap<PartitionId, Member>>,
    lsns: Lsns,
    counters: Counters,
    mark: Mark,
    group: u64,
    /// Bytes written since it was last looked which journal is the newest.
    since_look: u64,
    durability: Durability,
    /// What is to be sorted into the index, and who does that; none in stores of the first formats.
    pending: Option<(IndexMemtable, Flusher)>,
    /// The views that may be held.
    horizon: Arc<Horizon>,
    /// Who merges tables; none in stores of formats before the fourth, where the engine does.
    compactor: Option<Compactor>,
    relief: Relief,
    /// What is in a lane that is a copy goes with it: nothing is tidied up.
    is_copy: bool,
}

impl Committer {
    /// Publishes the first view; `run` does the rest.
    pub(super) fn new(
        lane: &Arc<Lane>,
        open: OpenLane,
        partitions: impl Iterator<Item = (PartitionId, Lsn)>,
        durability: Durability,
    ) -> Result<Committer> {
        let mut lsns = Lsns::default();
        let members = partitions.map(|(id, lsn)| (id, member(lsns.push(lsn)))).collect();
        let members = Arc::new(members);
        let lane = Arc::clone(lane);
        let view = Arc::new(View {
            opening: lane.health.opening(),
            snapshot: open.database.snapshot(),
            group: open.group,
            runs: open.pending.as_ref().map(IndexMemtable::runs).unwrap_or_default(),
            spaces: Arc::clone(&open.spaces),
            members: Arc::clone(&members),
            lsns: lsns.clone(),
        });
        lane.buffer_bytes.store(open.database.write_buffer_size(), Ordering::Relaxed);
        lane.view.store(Some(Arc::clone(&view)));
        let horizon = Arc::new(Horizon::default());
        horizon.note(&view);
        let OpenLane { path, database, spaces, mark, group, pending, dropped, .. } = open;
        let has_compactor = open.frozen.has_compactor() && !open.is_copy;
        let sorted = |pending: IndexMemtable| {
            let places = pending.places(&database, spaces.get(Space::Index), dropped);
            Ok((pending, Flusher::start(Arc::clone(&lane), places)?))
        };
        let pending = pending.map(sorted).transpose()?;
        let compactor = has_compactor
            .then(|| Compactor::start(&spaces, &open.frozen, &horizon, &lane))
            .transpose()?;
        Ok(Committer {
            lane,
            path,
            database,
            spaces,
            view,
            members,
            lsns,
            counters: Counters::default(),
            mark,
            group,
            since_look: 0,
            durability,
            pending,
            horizon,
            compactor,
            relief: Relief::default(),
            is_copy: open.is_copy,
        })
    }

    /// Works until the queue ends, then lets go of the files. `orderly` says at that moment whether
    /// to leave everything flushed.
    pub(super) fn run(mut self, orderly: &AtomicBool) -> Result<()> {
        let _guard = PanicGuard(Arc::clone(&self.lane));
        let mut rest = self.rest();
        loop {
            match self.lane.queue.take(rest.wait()) {
                Taken::Work(work) => {
                    self.process(work);
                    rest = self.rest();
                }
                Taken::Nothing => self.work_while_idle(&mut rest),
                Taken::Ended => break,
            }
        }
        let is_orderly = orderly.load(Ordering::Acquire) && !self.is_copy;
        let finished = if is_orderly { self.finish() } else { Ok(Flushed::Partly) };
        self.lane.view.store(None);
        let path = self.path.clone();
        // The engine lets go of its files.
        drop(self);
        match finished? {
            Flushed::Wholly => journal::clear(&path),
            Flushed::Partly => Ok(()),
        }
    }

    fn rest(&self) -> Rest {
        let mut rest = Rest::begin();
        if self.is_copy {
            rest.end();
        }
        rest
    }

    fn process(&mut self, work: Vec<Work>) {
        if let Err(error) = self.settle_or_wait() {
            self.lane.health.poison(error.to_string());
        }
        if let Err(error) = self.lane.health.check_not_poisoned() {
            work.into_iter().for_each(|work| work.refuse(error.clone()));
            return;
        }
        let has_room = self.look_at_disk(work.iter().map(Work::size_bytes).sum());
        let mut frees = false;
        let mut group = Group::new(Arc::clone(&self.view));
        let mut performed = Vec::new();
        for work in work {
            match work {
                Work::Commit { partition, prepared, setter } => {
                    if let Err(error) = self.check_room(prepared.frees, has_room) {
                        setter.set(Err(error));
                        continue;
                    }
                    frees |= prepared.frees;
                    let batch = (partition, prepared);
                    let decided = group.decide(&self.members, &mut self.counters, batch);
                    group.answers.push((setter, decided));
                }
                Work::Task { task, done } => performed.push((done, self.perform(task))),
            }
        }
        self.commit(group);
        if self.relief.is_due(frees, self.lane.disk.level())
            && let Err(error) = self.relieve()
        {
            self.lane.health.poison(error.to_string());
        }
        // Only now is the view that the group began with let go of: who asked for a task may count
        // on it that the new one is the only one held here.
        for (done, result) in performed {
            // Nobody may be waiting for the answer any more; the task is done all the same.
            drop(done.send(result));
        }
    }

    /// Whether there is room for what comes, as far as it is time to look for that.
    fn look_at_disk(&self, incoming_bytes: usize) -> bool {
        let (disk, incoming) = (&self.lane.disk, bytes_written(incoming_bytes));
        !disk.is_due(incoming) || disk.look(self.lane.index, self.lane.unwritten_bytes(), incoming)
    }

    /// Whether a batch may be written now. One that came when there was room may have waited.
    fn check_room(&self, frees: bool, has_room: bool) -> Result<()> {
        self.lane.disk.check(frees)?;
        if !has_room && !frees {
            return Err(self.lane.disk.refused());
        }
        // The engine would wait for a merge, and all that comes after this with it.
        let waits_for_room = self.lane.disk.is_watched()
            && self.spaces.has_too_many_runs()
            && self.lane.disk.is_merge_waiting();
        if waits_for_room { Err(self.lane.disk.no_room_to_merge()) } else { Ok(()) }
    }

    fn commit(&mut self, group: Group) {
        let Group { mut changes, lsns, answers, .. } = group;
        if !lsns.is_empty()
            && let Err(error) = self.write_group(&mut changes, &lsns)
        {
            let poisoned = self.lane.health.poison(error.to_string());
            answers.into_iter().for_each(|(setter, _)| setter.set(Err(poisoned.clone())));
            // These were not tried.
            self.lane.queue.refuse_waiting(&self.lane.health.stopped());
            return;
        }
        let commits = answers.iter().filter(|(_, answer)| answer.is_ok()).count() as u64;
        self.lane.commits.fetch_add(commits, Ordering::Relaxed);
        for (setter, answer) in answers {
            setter.set(answer);
        }
    }

    fn write_group(
        &mut self,
        changes: &mut Changes,
        lsns: &HashMap<usize, (PartitionId, Lsn)>,
    ) -> Result<()> {
        let reached = lsns.values();
        changes.add_own(reached.map(|(id, lsn)| (Family::Lsn.key(*id), lsn_value(*lsn).to_vec())));
        self.write(changes, self.durability)?;
        for (slot, (_, lsn)) in lsns {
            self.lsns.set(*slot, *lsn);
        }
        self.publish();
        Ok(())
    }

    /// One atomic write of changes.
    fn write(&mut self, changes: &mut Changes, durability: Durability) -> Result<()> {
        let bytes = changes.size_bytes();
        let is_key = |space: &Space| *space != Space::Index || self.pending.is_none();
        let keys = Space::ALL.into_iter().filter(is_key).map(|space| changes.of(space).len());
        let mut batch = self.begin(keys.sum());
        let mut run = None;
        let mut items = Vec::new();
        for space in Space::ALL {
            if let (Space::Index, Some((pending, _))) = (space, &self.pending) {
                let entries = changes.of(space);
                let group = self.group + 1;
                run = (entries.len() > 0).then(|| pending.file(&mut batch, group, entries));
                continue;
            }
            for change in changes.of_mut(space).take_in_order() {
                match space {
                    Space::Items => items.push(change.clone()),
                    Space::Meta => self.counters.change(&change),
                    Space::Index | Space::Feed => {}
                }
                match change.stored {
                    Some(stored) => batch.insert(self.spaces.get(space), change.key, stored),
                    None => batch.remove(self.spaces.get(space), change.key),
                }
            }
        }
        self.complete(batch, bytes, durability)?;
        self.spaces.row_cache.change_all(&items, self.group);
        if let (Some((pending, flusher)), Some(run)) = (&mut self.pending, run) {
            pending.push(self.group, run);
            if pending.is_due() {
                flusher.flush_runs(pending.begin_flush());
            }
        }
        Ok(())
    }

    /// A write with the next group number in front.
    fn begin(&self, changes: usize) -> OwnedWriteBatch {
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes + 1);
        let group = (self.group + 1).to_be_bytes();
        batch.insert(self.spaces.get(Space::Meta), group_key(), group);
        batch
    }

    /// Does a write, which has this size, and notes its group in the mark.
    fn complete(
        &mut self,
        batch: OwnedWriteBatch,
        bytes: usize,
        durability: Durability,
    ) -> Result<()> {
        let mode = match durability {
            Durability::Sync => PersistMode::SyncData,
            Durability::Relaxed => PersistMode::Buffer,
        };
        self.spaces.let_catch_up(bytes, &self.database, || self.check_engine())?;
        let journal = self.newest_journal(bytes as u64)?;
        let begun = now();
        batch.durability(Some(mode)).commit().map_err(engine_error)?;
        self.tell_if_slow(begun.elapsed());
        if let Some(compactor) = &self.compactor {
            compactor.look();
        }
        self.group += 1;
        self.lane.groups.fetch_add(1, Ordering::Relaxed);
        self.lane.buffer_bytes.store(self.database.write_buffer_size(), Ordering::Relaxed);
        if let Some(journal) = journal {
            self.mark.note_emptied(Emptied::never(journal))?;
        }
        if durability == Durability::Sync { self.mark.advance(self.group) } else { Ok(()) }
    }

    /// The newest journal, now and then, if it is not known yet that it is used: before the write
    /// that is sure to be in this one or in a later one.
    fn newest_journal(&mut self, bytes: u64) -> Result<Option<u64>> {
        self.since_look += bytes;
        if self.since_look < JOURNAL_LOOK_BYTES {
            return Ok(None);
        }
        self.since_look = 0;
        let (newest, known) = (journal::newest(&self.path)?, self.mark.emptied());
        Ok(Some(newest).filter(|newest| known.is_none_or(|known| known.journal < *newest)))
    }

    /// Whether the engine still works. Its own threads stop at a failure without a word, and the
    /// next write would wait for them.
    fn check_engine(&self) -> Result<()> {
        self.database.persist(PersistMode::Buffer).map_err(engine_error)
    }

    /// Looks whether the flusher is done, or waits for it if too much is pending.
    fn settle_or_wait(&mut self) -> Result<()> {
        let Some((pending, flusher)) = &self.pending else { return Ok(()) };
        let finished = match pending.is_too_much() {
            true => Some(flusher.wait()),
            false => flusher.finished(),
        };
        finished.map_or(Ok(()), |sorted| sorted.and_then(|()| self.settle()))
    }

    /// Lets go of changes that have been sorted into the index.
    fn settle(&mut self) -> Result<()> {
        let mut batch = self.begin(0);
        if let Some((pending, _)) = &self.pending {
            pending.unfile(&mut batch);
        }
        self.complete(batch, 0, Durability::Sync)?;
        if let Some((pending, _)) = &mut self.pending {
            pending.end_flush();
        }
        self.publish();
        if let Some((_, flusher)) = &self.pending {
            flusher.retire();
        }
        Ok(())
    }

    /// Sorts all pending changes in.
    fn flush_runs(&mut self) -> Result<()> {
        while let Some((pending, flusher)) = &mut self.pending
            && !pending.is_empty()
        {
            if !pending.is_flushing() {
                flusher.flush_runs(pending.begin_flush());
            }
            flusher.wait()?;
            self.settle()?;
        }
        Ok(())
    }

    /// Tells of a write that took long, with what the engine had to catch up with at that time.
    fn tell_if_slow(&self, took: Duration) {
        if took < SLOW {
            return;
        }
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (lane, pressure) = (self.path.display(), self.spaces.pressures());
        match took < VERY_SLOW {
            true => tracing::debug!(%lane, millis, pressure, "a slow write"),
            false => tracing::warn!(%lane, millis, pressure, "a very slow write"),
        }
    }

    /// Shows the lane as it is now. Nothing is half done at this moment.
    fn publish(&mut self) {
        self.view = Arc::new(View {
            opening: self.lane.health.opening(),
            snapshot: self.database.snapshot(),
            group: self.group,
            runs: self.pending.as_ref().map(|(pending, _)| pending.runs()).unwrap_or_default(),
            spaces: Arc::clone(&self.spaces),
            members: Arc::clone(&self.members),
            lsns: self.lsns.clone(),
        });
        self.horizon.note(&self.view);
        self.lane.view.store(Some(Arc::clone(&self.view)));
    }

    fn perform(&mut self, task: Task) -> Result<()> {
        match task {
            Task::Record(records) => {
                let mut records = Changes::of_store(records.into_iter());
                // Always synced: other lanes rely on what is said here.
                let written = self.write(&mut records, Durability::Sync);
                written.map_err(|error| self.lane.health.poison(error.to_string()))?;
            }
            Task::Admit(ids, lsn) => {
                let members = Arc::make_mut(&mut self.members);
                for id in ids {
                    members.insert(id, member(self.lsns.push(lsn)));
                }
            }
            Task::Dismiss(ids) => {
                let members = Arc::make_mut(&mut self.members);
                for gone in ids.iter().filter_map(|id| members.remove(id)) {
                    gone.gone.store(true, Ordering::Release);
                }
                // What they are counters of is dropped beside the committer.
                self.counters.clear();
            }
            Task::Seal(id, sealed) => {
                let member = Arc::make_mut(&mut self.members).get_mut(&id);
                member.ok_or(StorageError::PartitionGone(id))?.sealed = sealed;
            }
            // Has been done before any work: see `process`.
            Task::Settle => {}
            Task::SortIn => {
                let sorted = self.flush_runs();
                sorted.map_err(|error| self.lane.health.poison(error.to_string()))?;
            }
        }
        self.publish();
        Ok(())
    }

    /// Has what is in buffers written into tables, as far as that is worth it.
    fn relieve(&mut self) -> Result<()> {
        let least = self.bytes_worth_a_table();
        self.sort_in_what_is_worth_it(least);
        self.flush(idle::worth_a_table(&self.spaces, least))
    }

    fn flush(&self, spaces: Vec<Space>) -> Result<()> {
        spaces.into_iter().try_for_each(|space| {
            self.spaces.get(space).rotate_memtable().map(drop).map_err(engine_error)
        })
    }

    fn bytes_worth_a_table(&self) -> u64 {
        idle::bytes_worth_a_table(&self.spaces, self.lane.disk.level())
    }

    fn sort_in_what_is_worth_it(&mut self, least: u64) {
        if let Some((pending, flusher)) = &mut self.pending
            && pending.is_worth_a_flush(least)
        {
            flusher.flush_runs(pending.begin_flush());
        }
    }

    /// Nobody has written for a while: see `compactor/idle.rs`.
    fn work_while_idle(&mut self, rest: &mut Rest) {
        if self.lane.health.check_not_poisoned().is_err() {
            rest.end();
            return;
        }
        self.look_at_disk(0);
        if let Err(error) = self.check_engine() {
            self.lane.health.poison(error.to_string());
            return;
        }
        let least = self.bytes_worth_a_table();
        self.sort_in_what_is_worth_it(least);
        if let Some(compactor) = &self.compactor {
            compactor.look_once();
        }
        let done = match rest.next(&self.spaces, self.compactor.is_some(), least) {
            Next::Done | Next::Wait => Ok(()),
            Next::Flush(spaces) => self.flush(spaces),
            Next::Merge(bytes_max) => {
                if let Some(compactor) = &self.compactor {
                    compactor.make_whole(bytes_max);
                }
                // There may be no room for that, and then this is all that can be given back.
                if idle::has_replaced_tables(&self.spaces) { self.let_go() } else { Ok(()) }
            }
            Next::LetGo => self.let_go(),
        };
        if let Err(error) = done {
            self.lane.health.poison(error.to_string());
        }
    }

    /// Lets go of tables that merges have replaced: shows the lane anew, without them. The engine
    /// looks for what nobody needs whenever it retires a buffer, which must have a record for that.
    fn let_go(&mut self) -> Result<()> {
        self.write(&mut Changes::default(), self.durability)?;
        self.publish();
        self.spaces.get(Space::Meta).rotate_memtable().map(drop).map_err(engine_error)
    }

    /// Leaves everything in tables, so that the next start has nothing to replay.
    fn finish(&mut self) -> Result<Flushed> {
        self.lane.health.check_not_poisoned()?;
        self.flush_runs()?;
        let mut flushed = Flushed::Wholly;
        for keyspace in self.spaces.all() {
            if flush(keyspace)? == Flushed::Partly {
                flushed = Flushed::Partly;
            }
        }
        self.database.persist(PersistMode::SyncAll).map_err(engine_error)?;
        self.mark.advance(self.group)?;
        self.mark.sync()?;
        if flushed == Flushed::Wholly {
            let journal = journal::newest(&self.path)?;
            self.mark.note_emptied(Emptied { journal, group: self.group })?;
        }
        Ok(flushed)
    }
}

/// Whether all records of a keyspace are in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    Wholly,
    Partly,
}

/// Writes a keyspace's memtables into tables, or gives up after a while.
pub(super) fn flush(keyspace: &Keyspace) -> Result<Flushed> {
    keyspace.rotate_memtable().map_err(engine_error)?;
    let mut waited = Duration::ZERO;
    while keyspace.sealed_memtable_count() > 0 && waited < FLUSH_WAIT_MAX {
        thread::sleep(FLUSH_POLL);
        waited += FLUSH_POLL;
    }
    let is_empty = keyspace.tree.active_memtable().is_empty();
    let is_whole = is_empty && keyspace.sealed_memtable_count() == 0;
    Ok(if is_whole { Flushed::Wholly } else { Flushed::Partly })
}

#[expect(clippy::disallowed_methods, reason = "how long the disk took, for traces")]
pub(super) fn now() -> Instant {
    Instant::now()
}

fn member(slot: usize) -> Member {
    Member { slot, sealed: false, gone: Arc::default() }
}

/// A committer that panics must not leave callers waiting.
struct PanicGuard(Arc<Lane>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.health.poison("the committer panicked".to_owned());
            // What it was at has an answer by what it was dropped with; these were not tried.
            self.0.queue.end(self.0.health.stopped());
            self.0.queue.refuse_waiting(&self.0.health.stopped());
        }
    }
}
