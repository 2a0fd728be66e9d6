//! The threads that merge a lane's tables, and how.
//!
//! New tables, of full write buffers and of what was sorted into the index, overlap each other.
//! They are merged into levels of sorted tables, each ten times as large as the one above. The
//! engine can do so in its own threads, but of those one for each lane looks without a rest whether
//! there is something to flush while the others merge, and how it merges is built into the files.
//! So in stores of this version the engine's strategy is one that never finds anything to do
//! ([`never`]), its only thread flushes, and merges are called for here.
//!
//! Two threads share a lane's keyspaces, so that a long merge of items does not keep the index from
//! being merged. They work while there is something to do, look again now and then while the lane
//! is written to, and sleep without a clock when it is not.
//!
//! **At rest** a lane that is not very large merges each keyspace into one run ([`Task::Whole`]):
//! a reader then has to look at one place, not at three or four.
//!
//! A merge frees what no view can show any more. Which is the oldest view that is still held, the
//! engine knows only roughly; [`Horizon`] knows exactly.

pub(in crate::embedded) mod idle;
pub(in crate::embedded) mod pressure;

use std::collections::VecDeque;
use std::slice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fjall::compaction::Leveled;
use fjall::{AbstractTree, CompressionType, Keyspace};
use lsm_tree::Table;
use lsm_tree::compaction::{Choice, CompactionStrategy};

use crate::contract::StorageError;
use crate::contract::{DiskLevel, Result, Space};
use crate::embedded::committer::now;
use crate::embedded::disk::{DiskWatch, MergeRoom};
use crate::embedded::health::Health;
use crate::embedded::index_memtable;
use crate::embedded::lane::Lane;
use crate::embedded::settings::Frozen;
use crate::embedded::view::{Spaces, View, engine_error};

/// So often a lane that is written to is looked at, and for so many looks after the last write.
const LOOK_AFTER: Duration = Duration::from_millis(50);
const LOOKS: u32 = 40;

/// So often one looks whether there is room for a merge that waits.
const LOOK_FOR_ROOM_AFTER: Duration = Duration::from_millis(500);

/// So many new tables are merged at once into the first level, which has as many of the size that
/// is chosen. With more of them there would be less to merge in all, but readers look at each run.
/// Items are read by key, where filters know who has it. What is sorted into the index at once is
/// one run of several tables ([`index_memtable::SORT_TABLES`]), so these are six runs.
const NEW_TABLES: u8 = 4;
const NEW_TABLES_OF_ITEMS: u8 = 8;
const NEW_TABLES_OF_INDEX: u8 = 6 * index_memtable::SORT_TABLES;

/// With so many tables the first level of the index would be very large, were they not smaller.
const INDEX_TABLE_SHARE: u64 = 3;

/// A strategy that finds nothing to do: no level is ever large enough.
pub(super) fn never() -> Leveled {
    Leveled::default().with_l0_threshold(u8::MAX).with_table_target_size(1 << 50)
}

/// One that brings down what is more than a table: levels have the size of one, so all but the last
/// one are too large.
fn thorough(table_bytes: u64) -> Leveled {
    let leveled = Leveled::default().with_table_target_size(table_bytes);
    leveled.with_l0_threshold(1).with_level_ratio_policy(vec![1.0])
}

/// One that brings down the rest too, from the deepest level on. A level has the size of so many
/// tables as are merged at once into the first, none, and so is too large as soon as it has any.
fn to_the_end(table_bytes: u64) -> Leveled {
    Leveled::default().with_table_target_size(table_bytes).with_l0_threshold(0)
}

/// The views of a lane that may still be held, the oldest first.
#[derive(Default)]
pub(super) struct Horizon(Mutex<VecDeque<(u64, Weak<View>)>>);

impl Horizon {
    /// Adds the newest view.
    pub(super) fn note(&self, view: &Arc<View>) {
        let mut views = lock(&self.0);
        views.push_back((view.snapshot.seqno(), Arc::downgrade(view)));
        forget_gone(&mut views);
    }

    /// What is older than this, and has a newer version, nobody can see.
    fn lowest(&self) -> u64 {
        let mut views = lock(&self.0);
        forget_gone(&mut views);
        views.front().map_or(0, |(number, _)| number.saturating_sub(1))
    }
}

fn forget_gone(views: &mut VecDeque<(u64, Weak<View>)>) {
    while views.front().is_some_and(|(_, view)| view.strong_count() == 0) {
        views.pop_front();
    }
}

/// What a thread is asked for; the later ones are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// To look once whether there is something to merge.
    LookOnce,
    /// To look, and for a while again and again: what was written becomes tables later.
    Look,
    /// To make one run of every keyspace that has no more bytes than this.
    Whole(u64),
    End,
}

/// Where a thread is asked.
#[derive(Default)]
struct Desk {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Default)]
struct Asked {
    task: Option<Task>,
    /// The thread sleeps until it is asked for something.
    is_asleep: bool,
}

impl Desk {
    fn ask(&self, task: Task) {
        let mut asked = lock(&self.asked);
        asked.task = asked.task.max(Some(task));
        // A thread that looks again by itself is not to be woken by every group that is written.
        if asked.is_asleep || task > Task::Look {
            self.changed.notify_one();
        }
    }

    /// The next task, if there is one within this time, after which the thread looks by itself; or
    /// whenever there is one. An end stays.
    fn take(&self, patience: Option<Duration>) -> Option<Task> {
        let mut asked = lock(&self.asked);
        asked.is_asleep = patience.is_none();
        let mut asked = match patience {
            None => {
                let waited = self.changed.wait_while(asked, |asked| asked.task.is_none());
                waited.unwrap_or_else(PoisonError::into_inner)
            }
            Some(patience) => {
                let can_wait = |asked: &mut Asked| asked.task.is_none_or(|task| task <= Task::Look);
                let waited = self.changed.wait_timeout_while(asked, patience, can_wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        asked.is_asleep = false;
        if asked.task == Some(Task::End) { asked.task } else { asked.task.take() }
    }

    fn is_ending(&self) -> bool {
        lock(&self.asked).task == Some(Task::End)
    }
}

/// Merges the tables of a lane; its threads end with it, after the merge that they are at.
pub(super) struct Compactor {
    desks: Vec<Arc<Desk>>,
    threads: Vec<JoinHandle<()>>,
}

/// One keyspace and how it is merged.
struct Place {
    keyspace: Keyspace,
    strategy: Arc<Leveled>,
    /// See [`Place::ways`].
    on_full_disk: [Arc<Leveled>; 2],
    /// With so many new tables there is a merge to be done.
    new_tables: usize,
    table_bytes: u64,
}

struct Worker {
    places: Vec<Place>,
    desk: Arc<Desk>,
    horizon: Arc<Horizon>,
    lane: usize,
    health: Arc<Health>,
    disk: Arc<DiskWatch>,
}

impl Compactor {
    pub(super) fn start(
        spaces: &Spaces,
        frozen: &Frozen,
        horizon: &Arc<Horizon>,
        lane: &Lane,
    ) -> Result<Compactor> {
        let place = |space| Place::new(spaces, space, frozen);
        let first = vec![place(Space::Items), place(Space::Feed)];
        let mut second = vec![place(Space::Index), place(Space::Meta)];
        let pending = spaces.pending.iter();
        second.extend(pending.map(|keyspace| Place::with(keyspace, 4, frozen.table_bytes)));
        let mut compactor = Compactor { desks: Vec::new(), threads: Vec::new() };
        for places in [first, second] {
            let desk = Arc::new(Desk::default());
            let worker = Worker {
                places,
                desk: Arc::clone(&desk),
                horizon: Arc::clone(horizon),
                lane: lane.index,
                health: Arc::clone(&lane.health),
                disk: Arc::clone(&lane.disk),
            };
            let thread = thread::Builder::new()
                .name("partita-compactor".to_owned())
                .spawn(move || worker.run())
                .map_err(|error| StorageError::io("cannot start a thread", &error))?;
            compactor.desks.push(desk);
            compactor.threads.push(thread);
        }
        compactor.look();
        Ok(compactor)
    }

    /// The lane has been written to.
    pub(super) fn look(&self) {
        self.desks.iter().for_each(|desk| desk.ask(Task::Look));
    }

    /// The lane has not been written to for a while.
    pub(super) fn look_once(&self) {
        self.desks.iter().for_each(|desk| desk.ask(Task::LookOnce));
    }

    /// The lane is at rest: what is not larger than this becomes one run.
    pub(super) fn make_whole(&self, bytes_max: u64) {
        self.desks.iter().for_each(|desk| desk.ask(Task::Whole(bytes_max)));
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.desks.iter().for_each(|desk| desk.ask(Task::End));
        for thread in self.threads.drain(..) {
            // If it panicked, it left nothing to do.
            drop(thread.join());
        }
    }
}

impl Place {
    fn new(spaces: &Spaces, space: Space, frozen: &Frozen) -> Place {
        let table_bytes = frozen.merged_table_bytes(space, spaces.buffer_bytes_max);
        let (new_tables, table_bytes) = match space {
            Space::Items => (NEW_TABLES_OF_ITEMS, table_bytes),
            Space::Index => (NEW_TABLES_OF_INDEX, table_bytes / INDEX_TABLE_SHARE),
            Space::Feed | Space::Meta => (NEW_TABLES, table_bytes),
        };
        Place::with(spaces.get(space), new_tables, table_bytes)
    }

    fn with(keyspace: &Keyspace, new_tables: u8, table_bytes: u64) -> Place {
        let leveled = Leveled::default().with_table_target_size(table_bytes);
        Place {
            keyspace: keyspace.clone(),
            strategy: Arc::new(leveled.with_l0_threshold(new_tables)),
            on_full_disk: [thorough, to_the_end].map(|way| Arc::new(way(table_bytes))),
            new_tables: usize::from(new_tables),
            table_bytes,
        }
    }

    /// The ways to merge, the best first.
    ///
    /// On a full disk what was deleted is worth more than the work: then everything is brought down
    /// a few tables at a time, to where a deleted record and its deletion meet. A level that is
    /// smaller than a table, as deletions are, does not go down for its size, so there is a second
    /// way for it. Its tables are not smaller either: the engine merges onto fifty of the chosen
    /// size at most, and what lies below may be many times as large as its deletions.
    fn ways(&self, is_full: bool) -> &[Arc<Leveled>] {
        if is_full { &self.on_full_disk } else { slice::from_ref(&self.strategy) }
    }

    /// What the next merge would read, and so write at most; nothing if there is none to do. Tables
    /// that are only moved count as no bytes.
    ///
    /// Asked of the strategy itself, because what the engine merges next depends on which keys the
    /// tables have: by sizes alone a merge of new tables into a keyspace that lies in the last
    /// level looked like one of the whole keyspace. The engine merges nothing here by itself, so it
    /// chooses the same a moment later, or with a new table more.
    fn next_bytes(&self, strategy: &Leveled) -> Option<u64> {
        let tree = &self.keyspace.tree;
        let version = tree.current_version();
        match strategy.choose(&version, tree.tree_config(), &Default::default()) {
            Choice::DoNothing => None,
            Choice::Move(_) | Choice::Drop(_) => Some(0),
            Choice::Merge(input) => {
                let read = |table: &&Table| input.table_ids.contains(&table.id());
                Some(version.iter_tables().filter(read).map(|table| table.metadata.file_size).sum())
            }
        }
    }

    /// Whether a merge is due for certain.
    fn is_due(&self) -> bool {
        self.keyspace.tree.level_table_count(0).unwrap_or(0) >= self.new_tables
    }

    /// Does one merge; false if there was nothing to do.
    fn merge(&self, horizon: &Horizon, strategy: &Arc<Leveled>) -> Result<bool> {
        let (tree, begun) = (&self.keyspace.tree, now());
        let before = shape(tree);
        let strategy = Arc::clone(strategy);
        tree.compact(strategy, horizon.lowest()).map_err(|error| engine_error(error.into()))?;
        Ok(self.tell_if_changed(before, begun))
    }

    fn tell_if_changed(&self, before: [usize; 7], begun: Instant) -> bool {
        let after = shape(&self.keyspace.tree);
        if after == before {
            return false;
        }
        let (keyspace, took) = (&**self.keyspace.name(), begun.elapsed());
        tracing::debug!(keyspace, ?took, ?before, ?after, "tables were merged");
        true
    }

    /// Makes one run of it, if it is not one.
    fn make_whole(&self, bytes_max: u64, horizon: &Horizon) -> Result<()> {
        let (tree, begun) = (&self.keyspace.tree, now());
        if is_whole(&self.keyspace) || tree.disk_space() > bytes_max {
            return Ok(());
        }
        let before = shape(tree);
        let merged = tree.major_compact(self.table_bytes, horizon.lowest());
        merged.map_err(|error| engine_error(error.into()))?;
        self.tell_if_changed(before, begun);
        Ok(())
    }
}

/// Whether a keyspace is one sorted run of compressed tables, apart from write buffers.
pub(super) fn is_whole(keyspace: &Keyspace) -> bool {
    let tree = &keyspace.tree;
    let levels = shape(tree).into_iter().skip(1).filter(|tables| *tables > 0).count();
    let version = tree.current_version();
    let mut compressions = version.iter_tables().map(|table| table.metadata.data_block_compression);
    tree.l0_run_count() + levels <= 1 && compressions.all(|kind| kind != CompressionType::None)
}

/// How many tables each level has. Every merge and move changes that.
fn shape(tree: &impl AbstractTree) -> [usize; 7] {
    std::array::from_fn(|level| tree.level_table_count(level).unwrap_or(0))
}

impl Worker {
    fn run(&self) {
        let (mut looks_left, mut waits) = (LOOKS, false);
        loop {
            let patience = match waits {
                true => Some(LOOK_FOR_ROOM_AFTER),
                false => (looks_left > 0).then_some(LOOK_AFTER),
            };
            let done = match self.desk.take(patience) {
                Some(Task::End) => return,
                Some(Task::Look) => {
                    looks_left = LOOKS;
                    self.merge_all()
                }
                Some(Task::LookOnce) => self.merge_all(),
                Some(Task::Whole(bytes_max)) => self.merge_all().and_then(|waits| {
                    self.places.iter().try_for_each(|place| self.make_whole(place, bytes_max))?;
                    Ok(waits)
                }),
                None => {
                    looks_left = looks_left.saturating_sub(1);
                    self.merge_all()
                }
            };
            match done {
                Ok(still_waits) => waits = still_waits,
                Err(error) => {
                    self.health.poison(error.to_string());
                    return;
                }
            }
        }
    }

    /// Merges until nothing is left to merge, always where most runs of new tables are. True if
    /// something waits for room.
    fn merge_all(&self) -> Result<bool> {
        let mut places: Vec<&Place> = self.places.iter().collect();
        while !self.desk.is_ending() {
            places.sort_by_key(|place| std::cmp::Reverse(place.keyspace.tree.l0_run_count()));
            let (mut is_merged, mut waits) = (false, false);
            for place in &places {
                let merged = self.merge(place)?;
                waits |= merged == Merged::Waits;
                is_merged = merged == Merged::Done;
                if is_merged {
                    break;
                }
            }
            if !is_merged {
                return Ok(waits);
            }
        }
        Ok(false)
    }

    /// Does a merge of a keyspace if there is one to do, and room for it.
    fn merge(&self, place: &Place) -> Result<Merged> {
        if !self.disk.is_watched() {
            return Ok(Merged::or_nothing(place.merge(&self.horizon, &place.strategy)?));
        }
        let (mut smallest, mut waits) = (None, false);
        for strategy in place.ways(self.disk.level() >= DiskLevel::Full) {
            let Some(bytes) = place.next_bytes(strategy) else { continue };
            match self.disk.room_to_merge(bytes) {
                MergeRoom::Enough(_until_it_ends) => {
                    self.note_waiting(place, None);
                    return Ok(Merged::or_nothing(place.merge(&self.horizon, strategy)?));
                }
                MergeRoom::Later => waits = true,
                MergeRoom::TooLittle => {
                    smallest = Some(smallest.map_or(bytes, |other: u64| other.min(bytes)));
                }
            }
        }
        if !waits {
            self.note_waiting(place, smallest.filter(|_| place.is_due()));
        }
        Ok(if waits || smallest.is_some() { Merged::Waits } else { Merged::Nothing })
    }

    fn note_waiting(&self, place: &Place, bytes: Option<u64>) {
        self.disk.note_waiting((self.lane, place.keyspace.id()), bytes);
    }

    /// Makes one run of a keyspace, if there is room for it.
    fn make_whole(&self, place: &Place, bytes_max: u64) -> Result<()> {
        let bytes = place.keyspace.tree.disk_space();
        if bytes > bytes_max || is_whole(&place.keyspace) {
            return Ok(());
        }
        let is_full = self.disk.level() >= DiskLevel::Full;
        let room = match is_full {
            true => self.disk.room_to_merge(bytes),
            false => self.disk.room_to_spare(bytes),
        };
        match room {
            MergeRoom::Enough(_until_it_ends) => place.make_whole(bytes_max, &self.horizon),
            MergeRoom::Later | MergeRoom::TooLittle => Ok(()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.places.iter().for_each(|place| self.note_waiting(place, None));
    }
}

/// What became of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    Nothing,
    /// There is one to do, and no room for it now.
    Waits,
    Done,
}

impl Merged {
    fn or_nothing(is_done: bool) -> Merged {
        if is_done { Merged::Done } else { Merged::Nothing }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_look_is_not_forgotten_for_one() {
        let desk = Desk::default();
        desk.ask(Task::Whole(1));
        desk.ask(Task::Look);
        assert_eq!(desk.take(None), Some(Task::Whole(1)));
        desk.ask(Task::Look);
        desk.ask(Task::LookOnce);
        assert_eq!(desk.take(None), Some(Task::Look));
        desk.ask(Task::LookOnce);
        desk.ask(Task::Whole(2));
        assert_eq!(desk.take(None), Some(Task::Whole(2)));
        assert_eq!(desk.take(Some(Duration::ZERO)), None);
    }

    #[test]
    fn an_end_stays() {
        let desk = Desk::default();
        desk.ask(Task::Look);
        desk.ask(Task::End);
        desk.ask(Task::Whole(1));
        assert!(desk.is_ending());
        assert_eq!(desk.take(None), Some(Task::End));
        assert_eq!(desk.take(Some(LOOK_AFTER)), Some(Task::End));
    }
}
