//! The simulated store: it keeps the storage contract, and does everything when it is told to.
//!
//! A batch that is submitted waits in the queue of its *lane*. From there it takes three steps,
//! each at a moment of the scheduler's choice:
//!
//! ```text
//! submitted ──write──► written ──sync──► durable and visible ──tell──► its ticket is resolved
//!                      (decided, or refused)
//! ```
//!
//! A *crash* ends the process that has the store open. What was synced is there when it is opened
//! again; of the rest of each lane the batches up to some point are, in the order of the lane,
//! since a log that is cut off, perhaps in the middle of a record, is good up to its last whole
//! record. A *failed write* stops the store, and what had not been synced by then has the same fate
//! when it is opened again, by another process or by the one that has it. Both can also be set for
//! the n-th write from now on, so that they come in the middle of a step of the engine, or of the
//! recovery from a crash.
//!
//! Making and dropping partitions and sealing wait for the disk as the contract has it: they are
//! done when they return. The two of them that write can be cut off, too, done or not.

mod data;
mod faults;
mod handle;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use partita_model::Lsn;
use partita_storage::{
    Batch, Commit, Expect, PartitionId, Result, Space, StorageError, TicketSetter, Write,
};

use self::data::Partition;
pub use self::faults::Strike;
pub use self::handle::SimStore;
use crate::bug::Bug;

/// Who is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// Whoever sets the scene.
    Nobody,
    /// An operation of a client, by its number.
    Operation(u64),
    Maintenance,
}

/// How the store behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreSettings {
    pub lanes: u64,
    pub bug: Option<Bug>,
}

/// A commit that everybody can see by now.
#[derive(Clone, Debug)]
pub struct Seen {
    pub actor: Actor,
    pub partition: PartitionId,
    pub lsn: Lsn,
    /// When it was submitted, in Unix seconds.
    pub submitted: u64,
    /// Keys of items with what they became.
    pub items: Vec<(Bytes, Option<Bytes>)>,
    /// It files changes in the feed under its own LSN. Moves, which bring over what was changed
    /// elsewhere, do not.
    pub files: bool,
}

/// The disk, which outlives the processes that use it.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

pub(crate) struct State {
    settings: StoreSettings,
    partitions: BTreeMap<PartitionId, Partition>,
    dropped: BTreeSet<PartitionId>,
    /// Which opening of the disk is alive; 0: none.
    opened: u64,
    openings: u64,
    lanes: Vec<VecDeque<Waiting>>,
    /// Batches go all their way at once.
    hurries: bool,
    poisoned: Option<String>,
    /// It was opened again after a failed write, and accepts no batches yet.
    is_reopened: bool,
    reopenings: u64,
    /// Counts down to a crash or failed write.
    writes_left: Option<u64>,
    strike: Strike,
    reads_left: Option<u64>,
    /// Batches to refuse as too many.
    refusals: u64,
    /// Batches to refuse since the disk is full.
    full: u64,
    actor: Actor,
    seconds: u64,
    seen: Vec<Seen>,
    /// What can be told, of all lanes.
    commits: u64,
    faults: u64,
    /// A number that every step goes into.
    trace: u64,
    copied: u64,
}

/// A batch on its way.
struct Waiting {
    partition: PartitionId,
    stage: Stage,
    setter: Option<TicketSetter>,
    seen: Seen,
}

enum Stage {
    Submitted(Batch),
    Written(Lsn),
    Decided(Result<Commit>),
}

impl Disk {
    /// An empty disk.
    pub fn new(settings: StoreSettings) -> Disk {
        let lanes = (0..settings.lanes.max(1)).map(|_| VecDeque::new()).collect();
        Disk(Arc::new(Mutex::new(State {
            settings,
            partitions: BTreeMap::new(),
            dropped: BTreeSet::new(),
            opened: 0,
            openings: 0,
            lanes,
            hurries: true,
            poisoned: None,
            is_reopened: false,
            reopenings: 0,
            writes_left: None,
            strike: Strike::default(),
            reads_left: None,
            refusals: 0,
            full: 0,
            actor: Actor::Nobody,
            seconds: 0,
            seen: Vec::new(),
            commits: 0,
            faults: 0,
            trace: 0,
            copied: 0,
        })))
    }

    /// Opens it, for one process: another one that has it open is cut off.
    pub fn open(&self) -> SimStore {
        let mut state = self.lock();
        state.openings += 1;
        state.opened = state.openings;
        (state.poisoned, state.is_reopened) = (None, false);
        SimStore::new(self.clone(), state.opened)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on batches go all their way at once, or wait to be told.
    pub fn hurry(&self, hurries: bool) {
        self.lock().hurries = hurries;
    }

    /// Who is at work, and when, until the next call.
    pub fn note_actor(&self, actor: Actor, seconds: u64) {
        let mut state = self.lock();
        (state.actor, state.seconds) = (actor, seconds);
    }

    /// The commits that have become visible since this was asked last, in order.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.lock().seen)
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lock().lanes.len()
    }

    /// Is there something to do in a lane: to write, to sync, to tell?
    pub fn stages(&self, lane: usize) -> [bool; 3] {
        let state = self.lock();
        let is = |f: fn(&Stage) -> bool| state.lanes[lane].iter().any(|waiting| f(&waiting.stage));
        let lanes = state.lanes.len() as u64;
        let is_behind = |(id, partition): (&PartitionId, &Partition)| {
            id.0 % lanes == lane as u64 && partition.synced < partition.visible
        };
        let is_cut = state.is_cut();
        [
            !is_cut && is(|stage| matches!(stage, Stage::Submitted(_))),
            !is_cut
                && (is(|stage| matches!(stage, Stage::Written(_)))
                    || (state.settings.bug.is_some() && state.partitions.iter().any(is_behind))),
            is(|stage| matches!(stage, Stage::Decided(_))),
        ]
    }

    /// Writes the first batches of a lane that are not written yet.
    pub fn write(&self, lane: usize, count: usize) {
        let mut state = self.lock();
        for _ in 0..count {
            if !state.write_one(lane) {
                return;
            }
        }
        if state.settings.bug == Some(Bug::EarlyAck) {
            state.show(lane);
        }
    }

    /// Makes durable and visible what a lane has written.
    pub fn sync(&self, lane: usize) {
        let mut state = self.lock();
        if state.is_cut() {
            return;
        }
        state.sync(lane);
    }

    /// Resolves one ticket of a lane.
    pub fn tell(&self, lane: usize, which: usize) {
        let told = self.lock().take_decided(lane, which);
        if let Some((setter, answer)) = told {
            setter.set(answer);
        }
    }

    /// A number that tells two runs apart.
    pub fn trace(&self) -> u64 {
        self.lock().trace
    }

    /// Adds to the trace.
    pub fn note(&self, number: u64) {
        self.lock().mix(number);
    }
}

impl State {
    pub(crate) fn mix(&mut self, number: u64) {
        let mixed = (self.trace ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trace = mixed ^ (mixed >> 29);
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn lane_of(&self, partition: PartitionId) -> usize {
        (partition.0 % self.lanes.len() as u64) as usize
    }

    /// Puts a batch into its lane.
    fn submit(&mut self, partition: PartitionId, batch: Batch, setter: TicketSetter) {
        let batch = match self.settings.bug {
            Some(bug) => self.spoil(bug, batch),
            None => batch,
        };
        let seen = Seen {
            actor: self.actor,
            partition,
            lsn: Lsn(0),
            submitted: self.seconds,
            items: items_of(&batch),
            files: batch.writes.iter().any(|write| matches!(write, Write::Log { .. })),
        };
        let lane = self.lane_of(partition);
        let stage = Stage::Submitted(batch);
        self.lanes[lane].push_back(Waiting { partition, stage, setter: Some(setter), seen });
    }

    /// Decides and writes the first batch of a lane that waits for it. False: there is none.
    fn write_one(&mut self, lane: usize) -> bool {
        if self.is_cut() {
            return false;
        }
        let is_next = |waiting: &Waiting| matches!(waiting.stage, Stage::Submitted(_));
        let Some(at) = self.lanes[lane].iter().position(is_next) else { return false };
        if self.begin_write().is_err() {
            return false;
        }
        let waiting = &mut self.lanes[lane][at];
        let (partition, actor) = (waiting.partition, waiting.seen.actor);
        let taken = std::mem::replace(&mut waiting.stage, Stage::Written(Lsn(0)));
        let Stage::Submitted(batch) = taken else { return false };
        let decided = self.decide(partition, actor, &batch);
        self.mix(partition.0);
        let waiting = &mut self.lanes[lane][at];
        match decided {
            Ok(lsn) => {
                waiting.stage = Stage::Written(lsn);
                waiting.seen.lsn = lsn;
                self.mix(lsn.0);
            }
            Err(error) => {
                waiting.stage = Stage::Decided(Err(error));
                self.mix(u64::MAX);
            }
        }
        true
    }

    fn decide(&mut self, id: PartitionId, actor: Actor, batch: &Batch) -> Result<Lsn> {
        let leaks = self.settings.bug == Some(Bug::FenceLeak) && actor != Actor::Maintenance;
        let partition = self.partitions.get_mut(&id).ok_or(StorageError::PartitionGone(id))?;
        if partition.sealed && !leaks {
            return Err(StorageError::Sealed(id));
        }
        let (lsn, changes) = partition.decide(batch)?;
        partition.write(lsn, &changes);
        for (space, key, value) in &changes {
            self.mix(*space as u64);
            self.mix_bytes(key);
            self.mix_bytes(value.as_deref().unwrap_or_default());
        }
        Ok(lsn)
    }

    /// Makes durable what a lane has written, and visible.
    fn sync(&mut self, lane: usize) {
        self.show(lane);
        let lanes = self.lanes.len() as u64;
        for (id, partition) in &mut self.partitions {
            if id.0 % lanes == lane as u64 {
                partition.synced = partition.written;
            }
        }
    }

    /// Makes visible what a lane has written.
    fn show(&mut self, lane: usize) {
        for waiting in &mut self.lanes[lane] {
            let Stage::Written(lsn) = waiting.stage else { continue };
            if let Some(partition) = self.partitions.get_mut(&waiting.partition) {
                partition.visible = lsn;
            }
            self.commits += 1;
            self.seen.push(waiting.seen.clone());
            waiting.stage = Stage::Decided(Ok(Commit { lsn }));
        }
    }

    fn take_decided(
        &mut self,
        lane: usize,
        which: usize,
    ) -> Option<(TicketSetter, Result<Commit>)> {
        let queue = &mut self.lanes[lane];
        let decided = |waiting: &Waiting| matches!(waiting.stage, Stage::Decided(_));
        let count = queue.iter().filter(|waiting| decided(waiting)).count();
        let places = queue.iter().enumerate().filter(|(_, waiting)| decided(waiting));
        let (at, _) = places.skip(which % count.max(1)).take(1).last()?;
        let waiting = queue.remove(at)?;
        match (waiting.setter, waiting.stage) {
            (Some(setter), Stage::Decided(answer)) => Some((setter, answer)),
            _ => None,
        }
    }

    /// What a bug makes of a batch.
    fn spoil(&mut self, bug: Bug, mut batch: Batch) -> Batch {
        let is_client = matches!(self.actor, Actor::Operation(_));
        match bug {
            Bug::UnguardedUnique if is_client => {
                let is_guard = |expect: &Expect| {
                    let (Expect::Absent { space, .. } | Expect::Unchanged { space, .. }) = expect;
                    *space == Space::Index
                };
                batch.expects.retain(|expect| !is_guard(expect));
            }
            Bug::BlindExpiry if self.actor == Actor::Maintenance => {
                let removes =
                    |write: &Write| matches!(write, Write::Delete { space: Space::Items, .. });
                if batch.writes.iter().any(removes) {
                    batch.expects.clear();
                }
            }
            Bug::LostCopy | Bug::DoubleCopy if self.actor == Actor::Maintenance => {
                self.spoil_copy(bug, &mut batch);
            }
            _ => {}
        }
        batch
    }

    /// What a bug makes of the records of the feed that a move brings over.
    fn spoil_copy(&mut self, bug: Bug, batch: &mut Batch) {
        let is_copied = |write: &Write| matches!(write, Write::Put { space: Space::Feed, .. });
        let Some(at) = batch.writes.iter().position(is_copied) else { return };
        self.copied += 1;
        if !self.copied.is_multiple_of(3) {
            return;
        }
        let lost = batch.writes.remove(at);
        if let (Bug::DoubleCopy, Write::Put { key, value, .. }) = (bug, &lost) {
            let again = [&key[..], b"again"].concat();
            batch.put(Space::Feed, again, value.clone());
            batch.writes.push(lost);
        }
    }
}

fn items_of(batch: &Batch) -> Vec<(Bytes, Option<Bytes>)> {
    let item = |write: &Write| match write {
        Write::Put { space: Space::Items, key, value } => Some((key.clone(), Some(value.clone()))),
        Write::Delete { space: Space::Items, key } => Some((key.clone(), None)),
        _ => None,
    };
    batch.writes.iter().filter_map(item).collect()
}
