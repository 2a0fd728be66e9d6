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
//! see [`super::health`]. Between groups the committer sleeps on its queue.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::{AbstractTree, Database, Keyspace, OwnedWriteBatch, PersistMode};
use partita_model::Lsn;

use super::health::Health;
use super::journal;
use super::keys::{Family, group_key, lsn_value};
use super::lane::{Lane, OpenLane};
use super::mark::Mark;
use super::queue::{Task, Work};
use super::settings::Durability;
use super::view::{Lsns, Member, Spaces, View, engine_error};
use crate::contract::{Commit, PartitionId, Record, Result, Space, TicketSetter};
use crate::error::StorageError;
use crate::prepared::{Change, Prepared, record};

/// How long an orderly end waits for the engine to flush. What is not flushed then is replayed from
/// the journal at the next start.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(10);
const FLUSH_POLL: Duration = Duration::from_millis(2);

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
    mark: Mark,
    group: u64,
    durability: Durability,
}

impl Committer {
    /// Publishes the first view; `run` does the rest.
    pub(super) fn new(
        open: OpenLane,
        partitions: impl Iterator<Item = (PartitionId, Lsn)>,
        durability: Durability,
        health: Arc<Health>,
    ) -> (Committer, Arc<Lane>) {
        let mut lsns = Lsns::default();
        let members = partitions.map(|(id, lsn)| (id, member(lsns.push(lsn)))).collect();
        let members = Arc::new(members);
        let view = Arc::new(View {
            snapshot: open.database.snapshot(),
            spaces: Arc::clone(&open.spaces),
            members: Arc::clone(&members),
            lsns: lsns.clone(),
        });
        let lane = Arc::new(Lane {
            queue: super::queue::Queue::default(),
            view: Some(Arc::clone(&view)).into(),
            health,
            commits: 0.into(),
            groups: 0.into(),
        });
        let OpenLane { index: _, path, database, spaces, mark, group } = open;
        let shared = Arc::clone(&lane);
        let committer = Committer {
            lane,
            path,
            database,
            spaces,
            view,
            members,
            lsns,
            mark,
            group,
            durability,
        };
        (committer, shared)
    }

    /// Works until the queue ends, then lets go of the files. `orderly` says at that moment whether
    /// to leave everything flushed.
    pub(super) fn run(mut self, orderly: &AtomicBool) -> Result<()> {
        let _guard = PanicGuard(Arc::clone(&self.lane));
        while let Some(work) = self.lane.queue.take() {
            self.process(work);
        }
        let is_orderly = orderly.load(Ordering::Acquire);
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

    fn process(&mut self, work: Vec<Work>) {
        if let Err(error) = self.lane.health.check_not_poisoned() {
            work.into_iter().for_each(|work| work.refuse(error.clone()));
            return;
        }
        let mut group = Group::new(Arc::clone(&self.view));
        let mut performed = Vec::new();
        for work in work {
            match work {
                Work::Commit { partition, prepared, setter } => {
                    let decided = group.decide(&self.members, partition, prepared);
                    group.answers.push((setter, decided));
                }
                Work::Task { task, done } => performed.push((done, self.perform(task))),
            }
        }
        self.commit(group);
        // Only now is the view that the group began with let go of: who asked for a task may count
        // on it that the new one is the only one held here.
        for (done, result) in performed {
            // Nobody may be waiting for the answer any more; the task is done all the same.
            drop(done.send(result));
        }
    }

    fn commit(&mut self, group: Group) {
        let Group { changes, lsns, answers, .. } = group;
        if !lsns.is_empty()
            && let Err(error) = self.write_group(changes, &lsns)
        {
            let poisoned = self.lane.health.poison(error.to_string());
            answers.into_iter().for_each(|(setter, _)| setter.set(Err(poisoned.clone())));
            self.lane.queue.refuse_waiting(&poisoned);
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
        mut changes: Vec<Change>,
        lsns: &HashMap<usize, (PartitionId, Lsn)>,
    ) -> Result<()> {
        for (partition, lsn) in lsns.values() {
            changes.push(own_record(Family::Lsn.key(*partition), &lsn_value(*lsn)));
        }
        self.write(in_order(changes), self.durability)?;
        for (slot, (_, lsn)) in lsns {
            self.lsns.set(*slot, *lsn);
        }
        self.publish();
        Ok(())
    }

    /// One atomic write with the next group number in front, and its mark.
    fn write(&mut self, changes: Vec<Change>, durability: Durability) -> Result<()> {
        let mode = match durability {
            Durability::Sync => PersistMode::SyncData,
            Durability::Relaxed => PersistMode::Buffer,
        };
        let group = self.group + 1;
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len() + 1);
        let mut batch = batch.durability(Some(mode));
        batch.insert(self.spaces.get(Space::Meta), group_key(), group.to_be_bytes());
        let mut bytes = 0;
        for Change { space, key, stored } in changes {
            bytes += key.len() + stored.as_ref().map_or(0, Bytes::len);
            match stored {
                Some(stored) => batch.insert(self.spaces.get(space), key, stored),
                None => batch.remove(self.spaces.get(space), key),
            }
        }
        self.spaces.let_catch_up(bytes);
        let begun = now();
        batch.commit().map_err(engine_error)?;
        self.tell_if_slow(begun.elapsed());
        self.group = group;
        self.lane.groups.fetch_add(1, Ordering::Relaxed);
        if durability == Durability::Sync { self.mark.advance(group) } else { Ok(()) }
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
            snapshot: self.database.snapshot(),
            spaces: Arc::clone(&self.spaces),
            members: Arc::clone(&self.members),
            lsns: self.lsns.clone(),
        });
        self.lane.view.store(Some(Arc::clone(&self.view)));
    }

    fn perform(&mut self, task: Task) -> Result<()> {
        match task {
            Task::Record(records) => {
                let records = records.into_iter().map(|(key, value)| own_record(key, &value));
                // Always synced: other lanes rely on what is said here.
                let written = self.write(records.collect(), Durability::Sync);
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
            }
            Task::Seal(id, sealed) => {
                let member = Arc::make_mut(&mut self.members).get_mut(&id);
                member.ok_or(StorageError::PartitionGone(id))?.sealed = sealed;
            }
        }
        self.publish();
        Ok(())
    }

    /// Leaves everything in tables, so that the next start has nothing to replay.
    fn finish(&mut self) -> Result<Flushed> {
        self.lane.health.check_not_poisoned()?;
        let mut flushed = Flushed::Wholly;
        for keyspace in &self.spaces.keyspaces {
            if flush(keyspace)? == Flushed::Partly {
                flushed = Flushed::Partly;
            }
        }
        self.database.persist(PersistMode::SyncAll).map_err(engine_error)?;
        self.mark.advance(self.group)?;
        self.mark.sync()?;
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
fn now() -> Instant {
    Instant::now()
}

fn member(slot: usize) -> Member {
    Member { slot, sealed: false, gone: Arc::default() }
}

/// A record of the store itself.
fn own_record(key: Vec<u8>, value: &[u8]) -> Change {
    let (key, stored) = (key.into(), Some(Bytes::copy_from_slice(value)));
    Change { space: Space::Meta, key, stored }
}

/// The last change of each key, in the order of spaces and keys: the engine finds the place of a
/// key near that of the one before without a look at memory it has not just seen.
///
/// A key that several batches of a group change is there once, because the engine would file both
/// changes under one sequence number.
fn in_order(mut changes: Vec<Change>) -> Vec<Change> {
    // Stable, and quick where pieces are sorted, as batches are.
    changes.sort_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
    changes.dedup_by(|later, kept| {
        let is_same = (later.space, &later.key) == (kept.space, &kept.key);
        if is_same {
            std::mem::swap(later, kept);
        }
        is_same
    });
    changes
}

/// The batches that are written together, as far as they are decided.
struct Group {
    view: Arc<View>,
    /// What they change, batch after batch.
    changes: Vec<Change>,
    /// Where the changes of the index space begin and end, one range for each batch. There are many
    /// and hardly anybody asks for one, so they are not put into `found`.
    indexed: Vec<Range<usize>>,
    /// Where the last change of a key is, for keys of all other spaces.
    found: [HashMap<Bytes, usize>; Space::ALL.len()],
    /// The LSNs reached, by slot.
    lsns: HashMap<usize, (PartitionId, Lsn)>,
    answers: Vec<(TicketSetter, Result<Commit>)>,
}

impl Group {
    fn new(view: Arc<View>) -> Group {
        Group {
            view,
            changes: Vec::new(),
            indexed: Vec::new(),
            found: Default::default(),
            lsns: HashMap::new(),
            answers: Vec::new(),
        }
    }

    fn decide(
        &mut self,
        members: &HashMap<PartitionId, Member>,
        partition: PartitionId,
        prepared: Prepared,
    ) -> Result<Commit> {
        let member = members.get(&partition).ok_or(StorageError::PartitionGone(partition))?;
        if member.sealed {
            return Err(StorageError::Sealed(partition));
        }
        let slot = member.slot;
        let last = self.lsns.get(&slot).map_or_else(|| self.view.lsns.get(slot), |(_, lsn)| *lsn);
        let lsn = prepared.lsn_after(last);
        let changes = prepared.decide(lsn, |space, key| self.current(space, key))?;
        self.take(changes);
        self.lsns.insert(slot, (partition, lsn));
        Ok(Commit { lsn })
    }

    /// Adds the changes of a batch, which are in the order of spaces.
    fn take(&mut self, changes: Vec<Change>) {
        let start = self.changes.len();
        let before = changes.partition_point(|change| change.space < Space::Index);
        let through = changes.partition_point(|change| change.space <= Space::Index);
        self.indexed.push(start + before..start + through);
        for (at, change) in changes.iter().enumerate() {
            if change.space != Space::Index {
                self.found[change.space as usize].insert(change.key.clone(), start + at);
            }
        }
        self.changes.extend(changes);
    }

    /// The record that is there after all batches decided so far.
    fn current(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        let changed = match space {
            Space::Index => self.indexed.iter().rev().find_map(|range| {
                let batch = self.changes.get(range.clone())?;
                let at = batch.binary_search_by(|change| change.key[..].cmp(key)).ok()?;
                batch.get(at)
            }),
            _ => self.found[space as usize].get(key).and_then(|at| self.changes.get(*at)),
        };
        match changed {
            Some(change) => change.stored.clone().map(|stored| record(space, stored)).transpose(),
            None => self.view.get(space, key),
        }
    }
}

/// A committer that panics must not leave callers waiting.
struct PanicGuard(Arc<Lane>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = self.0.health.poison("the committer panicked".to_owned());
            self.0.queue.end();
            self.0.queue.refuse_waiting(&error);
        }
    }
}
