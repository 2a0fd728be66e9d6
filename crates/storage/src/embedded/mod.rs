//! The store on this machine's disk: fjall, an LSM engine, and what we build around it.
//!
//! ```text
//!  submit ─► queue ─► committer ─► engine, fsync ─► mark ─► view ─► tickets       one per lane
//!  snapshot ◄──────────────────────────────────────────────── view
//! ```
//!
//! What we build around the engine, each with what it answers for:
//!
//! | Module | What it answers for |
//! |---|---|
//! | [`lane`] | one database of the engine per core; a partition belongs to one lane |
//! | [`committer`] | the only writer of a lane: group commit, and the queue in front of it |
//! | [`view`] | what readers see; only the committer takes snapshots of the engine |
//! | [`row_cache`] | items in one piece, so that a point read need not search the engine |
//! | [`index_memtable`] | changes of the index in memory until a flush makes tables of them |
//! | [`compactor`] | compaction, idle compaction, and back-pressure on writers |
//! | [`dropped`] | how the data of dropped partitions goes |
//! | [`disk`] | a full disk: levels, the reserve, and what may still be written |
//! | [`health`], [`reopen`] | a failed write: the store is poisoned, then opened again |
//! | [`files`] | what must be in the directory, and that it is on disk |
//! | [`keys`], [`settings`] | what is stored where, and what was chosen when the store was made |
//!
//! **The set of partitions** is kept in lane 0 alone, so that making several partitions that lie in
//! several lanes is one atomic write: after a crash either all of them exist or none. A lane learns
//! of its partitions in memory, after that write is durable. A partition that has not committed yet
//! has no record in its own lane and is at the LSN that lane 0 noted for it.
//!
//! A snapshot that is still held when the store is closed answers `Closed`, or `Reopened` when it
//! is opened again, and keeps the lane's files open until it is dropped.

mod check;
mod committer;
mod compactor;
mod disk;
mod dropped;
mod files;
mod health;
mod index_memtable;
mod keys;
mod lane;
mod reopen;
mod row_cache;
mod settings;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use partita_model::Lsn;

pub use check::{Report, check};
pub use disk::{Capacity, DiskProbe, DiskSettings, SystemDisk};
pub use settings::{Durability, EmbeddedSettings};

use crate::contract::StorageError;
use crate::contract::{
    Batch, Disk, DiskLevel, PartitionId, Result, Snapshot, Space, Status, Store, Ticket,
};
use crate::prepared::{Entries, Prepared};
use committer::queue::{Task, Work};
use committer::{Committer, flush};
use disk::DiskWatch;
use dropped::Dropped;
use files::copy::Scratch;
use files::directory::Directory;
use files::manifest::{Manifest, Owner};
use health::Health;
use keys::Family;
use lane::{Lane, LanePlan, OpenLane};
use settings::Frozen;
use view::{EmbeddedSnapshot, Spaces, engine_error};

/// A store in a directory.
pub struct EmbeddedStore {
    path: PathBuf,
    settings: EmbeddedSettings,
    entries: Entries,
    lanes: Vec<Arc<Lane>>,
    health: Arc<Health>,
    disk: Arc<DiskWatch>,
    dropped: Dropped,
    living: Mutex<BTreeSet<PartitionId>>,
    /// There may be space to give back.
    wasteful: AtomicBool,
    /// The disk was full at the last look.
    was_full: AtomicBool,
    /// Held while partitions are made or dropped, so that this happens one call at a time.
    changing: Mutex<()>,
    orderly: Arc<AtomicBool>,
    running: Mutex<Running>,
    /// Last, so that the engine has let go of the files before they go.
    copied: Option<Copied>,
}

/// What a store that is a copy keeps: its files, and the lock of those that they were copied from.
struct Copied {
    _scratch: Scratch,
    _original: Directory,
}

/// What ends with the store.
struct Running {
    committers: Vec<JoinHandle<Result<()>>>,
    directory: Option<Directory>,
    /// What was open last: as long as somebody holds it, it cannot be opened again.
    spaces: Vec<Weak<Spaces>>,
}

impl EmbeddedStore {
    /// Opens the store in this directory; makes it if there is none.
    pub fn open(path: &Path, settings: EmbeddedSettings) -> Result<EmbeddedStore> {
        let directory = Directory::lock(path)?;
        EmbeddedStore::open_for(Use::Serve, directory, settings)
    }

    /// Opens a copy of the store in this directory, which nothing is changed in. What is written to
    /// the copy goes with it.
    pub fn open_copy(path: &Path) -> Result<EmbeddedStore> {
        let directory = Directory::lock_for_reading(path)?;
        let settings = EmbeddedSettings::default();
        let manifest = directory.expect_manifest(&settings)?;
        files::inventory::verify(&directory, &manifest)?;
        for lane in 0..manifest.frozen.lanes {
            LanePlan::to_read(&directory, &manifest, lane, &Dropped::default()).inspect()?;
        }
        let scratch = Scratch::of(&directory, &manifest)?;
        let copy = Directory::lock(scratch.path())?;
        let mut store = EmbeddedStore::open_for(Use::Read, copy, settings)?;
        store.copied = Some(Copied { _scratch: scratch, _original: directory });
        Ok(store)
    }

    fn open_for(
        purpose: Use,
        directory: Directory,
        settings: EmbeddedSettings,
    ) -> Result<EmbeddedStore> {
        let dropped = Dropped::default();
        let (frozen, lanes) = open_lanes(&directory, &settings, &dropped, purpose)?;
        let disk = Arc::new(DiskWatch::new(directory.path(), settings.disk.clone()));
        let health = Arc::new(Health::new(Arc::clone(&disk)));
        let store = EmbeddedStore {
            path: directory.path().to_owned(),
            settings,
            entries: frozen.entries(),
            lanes: (0..lanes.len()).map(|at| Arc::new(Lane::new(at, &health, &disk))).collect(),
            health,
            disk,
            dropped,
            living: Mutex::default(),
            wasteful: AtomicBool::new(true),
            was_full: AtomicBool::new(false),
            changing: Mutex::default(),
            orderly: Arc::default(),
            running: Mutex::new(Running {
                committers: Vec::new(),
                directory: Some(directory),
                spaces: Vec::new(),
            }),
            copied: None,
        };
        store.start(&mut lock(&store.running), lanes)?;
        store.look_at_disk();
        Ok(store)
    }

    /// Starts the committers of open lanes.
    fn start(&self, running: &mut Running, opened: Vec<OpenLane>) -> Result<()> {
        let partitions = Partitions::read(&opened)?;
        self.dropped.extend(partitions.dropped);
        *lock(&self.living) = partitions.living.keys().copied().collect();
        let count = opened.len();
        for (lane, open) in self.lanes.iter().zip(opened) {
            let name = format!("partita-lane-{}", open.index);
            running.spaces.push(Arc::downgrade(&open.spaces));
            let mine = partitions.living.iter().map(|(id, lsn)| (*id, *lsn));
            let mine = mine.filter(|(id, _)| lane_of(*id, count) == lane.index);
            let committer = Committer::new(lane, open, mine, self.settings.durability)?;
            let orderly = Arc::clone(&self.orderly);
            let thread = thread::Builder::new().name(name).spawn(move || committer.run(&orderly));
            let thread = thread.map_err(|error| StorageError::io("cannot start a thread", &error));
            running.committers.push(thread?);
        }
        Ok(())
    }

    fn lane(&self, partition: PartitionId) -> &Arc<Lane> {
        &self.lanes[lane_of(partition, self.lanes.len())]
    }

    fn send(&self, lane: usize, task: Task) -> Receiver<Result<()>> {
        let (done, answer) = sync_channel(1);
        self.lanes[lane].queue.push(Work::Task { task, done });
        answer
    }

    /// Tells every lane about its share of these partitions and waits until all have heard.
    fn tell_lanes(
        &self,
        ids: &[PartitionId],
        task: impl Fn(Vec<PartitionId>) -> Task,
    ) -> Result<()> {
        let mut shares: BTreeMap<usize, Vec<PartitionId>> = BTreeMap::new();
        for id in ids {
            shares.entry(lane_of(*id, self.lanes.len())).or_default().push(*id);
        }
        let answers: Vec<_> =
            shares.into_iter().map(|(lane, share)| self.send(lane, task(share))).collect();
        answers.into_iter().try_for_each(answer)
    }

    /// What the write buffers of all lanes took after their last writes.
    pub fn write_buffer_bytes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.buffer_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Frees the space of dropped partitions now. The engine does so by itself wherever it is busy;
    /// this rewrites all tables and is for cold data after much was dropped. It takes a while and
    /// disturbs others little more than any compaction does.
    pub fn reclaim(&self) -> Result<()> {
        for (index, lane) in self.lanes.iter().enumerate() {
            self.health.check_writable()?;
            answer(self.send(index, Task::SortIn))?;
            let Some(view) = lane.view.load_full() else { return Err(StorageError::Closed) };
            let spaces = Arc::clone(&view.spaces);
            // A view held for this long would keep alive what is to be freed.
            drop(view);
            for keyspace in spaces.all() {
                flush(keyspace)?;
                keyspace.major_compact().map_err(engine_error)?;
            }
        }
        Ok(())
    }

    /// Takes tables of dropped partitions out of a lane.
    fn free_lane(&self, index: usize) -> Result<()> {
        self.health.check_writable()?;
        let Some(lane) = self.lanes.get(index) else { return Ok(()) };
        let Some(view) = lane.view.load_full() else { return Err(StorageError::Closed) };
        let spaces = Arc::clone(&view.spaces);
        drop(view);
        let living = lock(&self.living).clone();
        let mut is_freed = false;
        for keyspace in &spaces.keyspaces {
            is_freed |= dropped::free(keyspace, &living)?;
        }
        if is_freed {
            // The files go with the last view that may show them, and with the next buffer that is
            // retired: on an idle server both would be a long time off.
            answer(self.send(index, Task::Record(Vec::new())))?;
            flush(spaces.get(Space::Meta))?;
        }
        Ok(())
    }

    /// Ends the committers, once. With `orderly` everything is left flushed.
    fn end(&self, orderly: bool) -> Result<()> {
        if !self.health.close() {
            return Err(StorageError::Closed);
        }
        self.orderly.store(orderly, Ordering::Release);
        // Taken first: if the store is just being opened again, the end is that of what is opened.
        let mut running = lock(&self.running);
        self.lanes.iter().for_each(|lane| lane.queue.end(StorageError::Closed));
        let mut result = Ok(());
        for committer in running.committers.drain(..) {
            let panicked = || StorageError::Poisoned("the committer panicked".to_owned());
            result = result.and(committer.join().unwrap_or_else(|_| Err(panicked())));
        }
        running.directory = None;
        result
    }
}

impl Store for EmbeddedStore {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        self.health.check_writable()?;
        self.disk.check(false)?;
        let _one_at_a_time = lock(&self.changing);
        let mut records = Vec::with_capacity(ids.len());
        let mut fresh = BTreeSet::new();
        for id in ids {
            let known = lock(&self.living).contains(id) || self.dropped.get().contains(id);
            if known || *id == PartitionId::RESERVED || !fresh.insert(*id) {
                return Err(StorageError::PartitionExists(*id));
            }
            records.push((Family::Made.key(*id), keys::lsn_value(start).to_vec()));
        }
        if records.is_empty() {
            return Ok(());
        }
        answer(self.send(0, Task::Record(records)))?;
        self.tell_lanes(ids, |share| Task::Admit(share, start))?;
        lock(&self.living).extend(fresh);
        Ok(())
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        self.health.check_working()?;
        let _one_at_a_time = lock(&self.changing);
        let known: BTreeSet<PartitionId> = {
            let living = lock(&self.living);
            ids.iter().filter(|id| living.contains(id)).copied().collect()
        };
        let ids: Vec<PartitionId> = known.into_iter().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let value = || keys::lsn_value(Lsn(0)).to_vec();
        let records = ids.iter().map(|id| (Family::Dropped.key(*id), value())).collect();
        answer(self.send(0, Task::Record(records)))?;
        self.tell_lanes(&ids, Task::Dismiss)?;
        lock(&self.living).retain(|id| !ids.contains(id));
        self.dropped.extend(ids);
        self.wasteful.store(true, Ordering::Release);
        Ok(())
    }

    fn free_dropped(&self) -> Result<()> {
        if !self.wasteful.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        for index in 0..self.lanes.len() {
            if let Err(error) = self.free_lane(index) {
                self.wasteful.store(true, Ordering::Release);
                return Err(error);
            }
        }
        Ok(())
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        self.health.check_open()?;
        Ok(lock(&self.living).iter().copied().collect())
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        let view = self.lane(partition).view.load_full();
        let view = view.ok_or_else(|| self.health.why_nothing_is_shown())?;
        let snapshot = EmbeddedSnapshot::new(view, Arc::clone(&self.health), partition)?;
        Ok(Box::new(snapshot))
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        let prepared = self
            .health
            .check_writable()
            .and_then(|()| self.disk.check(batch.frees))
            .and_then(|()| Prepared::new(&keys::prefix(partition), batch, self.entries));
        match prepared {
            Ok(prepared) => {
                let (setter, ticket) = Ticket::new();
                self.lane(partition).queue.push(Work::Commit { partition, prepared, setter });
                ticket
            }
            Err(error) => Ticket::resolved(Err(error)),
        }
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        self.health.check_working()?;
        let lane = lane_of(partition, self.lanes.len());
        // Tasks are done in the order of the queue: whatever came before is decided and visible.
        answer(self.send(lane, Task::Seal(partition, true)))?;
        Ok(self.snapshot(partition)?.lsn())
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        self.health.check_working()?;
        answer(self.send(lane_of(partition, self.lanes.len()), Task::Seal(partition, false)))
    }

    fn pressure(&self) -> f64 {
        let of = |lane: &Arc<Lane>| lane.view.load().as_ref().map(|view| view.pressure());
        self.lanes.iter().filter_map(of).fold(0.0, f64::max)
    }

    fn is_full(&self) -> bool {
        self.disk.level() >= DiskLevel::Full
    }

    fn look_at_disk(&self) {
        let unwritten = |lane: &Arc<Lane>| (lane.index, lane.unwritten_bytes());
        let unwritten: Vec<_> = self.lanes.iter().map(unwritten).collect();
        self.disk.look_around(&unwritten);
        let is_full = self.is_full();
        if is_full && !self.was_full.swap(is_full, Ordering::AcqRel) {
            // Lanes without work may have something in their buffers that frees space.
            for lane in 0..self.lanes.len() {
                drop(self.send(lane, Task::Settle));
            }
        }
        self.was_full.store(is_full, Ordering::Release);
    }

    fn disk(&self) -> Option<Disk> {
        self.disk.status()
    }

    fn is_stopped(&self) -> bool {
        self.health.is_stopped()
    }

    fn reopen(&self) -> Result<()> {
        self.open_again()
    }

    fn resume(&self) {
        self.health.resume();
    }

    fn status(&self) -> Status {
        let sum = |count: fn(&Lane) -> u64| self.lanes.iter().map(|lane| count(lane)).sum();
        Status {
            kind: "embedded",
            healthy: !self.health.is_stopped(),
            trouble: self.health.trouble().or_else(|| self.disk.trouble()),
            disk: self.disk.status(),
            reopenings: self.health.reopenings(),
            partitions: lock(&self.living).len() as u64,
            lanes: self.lanes.len() as u64,
            disk_bytes: lane::disk_bytes(&self.path).saturating_sub(self.disk.held_bytes()),
            commits: sum(|lane| lane.commits.load(Ordering::Relaxed)),
            groups: sum(|lane| lane.groups.load(Ordering::Relaxed)),
            durability: self.settings.durability.name(),
        }
    }

    fn close(&self) -> Result<()> {
        self.end(true)
    }
}

impl Drop for EmbeddedStore {
    /// Ends the threads. Nothing is lost, but the next start replays the journal: prefer `close`.
    fn drop(&mut self) {
        drop(self.end(false));
    }
}

/// The set of partitions as the store left it.
struct Partitions {
    living: BTreeMap<PartitionId, Lsn>,
    dropped: Vec<PartitionId>,
}

impl Partitions {
    fn read(lanes: &[OpenLane]) -> Result<Partitions> {
        let first = lanes.first().expect("a store has at least one lane");
        let dropped: Vec<PartitionId> =
            first.read_family(Family::Dropped)?.into_iter().map(|(id, _)| id).collect();
        let mut living: BTreeMap<PartitionId, Lsn> =
            first.read_family(Family::Made)?.into_iter().map(|(id, lsn)| (id, Lsn(lsn))).collect();
        for id in &dropped {
            living.remove(id);
        }
        for lane in lanes {
            for (id, lsn) in lane.read_lsns()? {
                if let Some(start) = living.get_mut(&id) {
                    *start = lsn;
                }
            }
        }
        Ok(Partitions { living, dropped })
    }
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Serve,
    /// The same, after a write failed in this process.
    ServeAgain,
    /// It is a copy of one ([`copy`]) that is only read.
    Read,
}

/// Opens all lanes at the same time; makes them if there is no store yet.
fn open_lanes(
    directory: &Directory,
    settings: &EmbeddedSettings,
    dropped: &Dropped,
    purpose: Use,
) -> Result<(Frozen, Vec<OpenLane>)> {
    let known = directory.read_manifest(settings)?;
    let frozen = known
        .as_ref()
        .map_or_else(|| Frozen::choose(settings), |known| Ok(known.frozen.clone()))?;
    match &known {
        None => directory.begin_creating()?,
        Some(known) => {
            let inventory = files::inventory::verify(directory, known)?;
            tracing::info!(
                tables = inventory.tables,
                tables_read = inventory.tables_read,
                "all files of the store are there"
            );
            directory.end_creating()?;
        }
    }
    let id = known.as_ref().filter(|known| !known.is_former).map_or(settings.new_id, |k| k.id);
    let plan = |lane| LanePlan {
        directory,
        index: lane,
        frozen: &frozen,
        owner: Owner { store: id, lane },
        is_former: known.as_ref().is_some_and(|known| known.is_former),
        is_copy: purpose == Use::Read,
        has_failed: purpose == Use::ServeAgain,
        cache_bytes: settings.cache_bytes / frozen.lanes as u64,
        write_bytes_max: settings.write_bytes_max.map(|bytes| bytes / frozen.lanes as u64),
        dropped,
    };
    let is_new = known.is_none();
    let open = |lane| if is_new { plan(lane).create() } else { plan(lane).open() };
    let lanes = in_parallel(frozen.lanes, open)?;
    let manifest = Manifest {
        frozen: frozen.clone(),
        id,
        lanes: lanes.iter().map(OpenLane::keyspaces).collect(),
        is_former: false,
    };
    match known {
        None => directory.finish_creating(&manifest)?,
        Some(former) if former.is_former => {
            directory.write_manifest(&manifest)?;
            tracing::info!("what belongs to the store was written down, with checksums");
        }
        // Verified before; now by those who opened it.
        Some(known) => known.expect_keyspaces(&manifest)?,
    }
    Ok((frozen, lanes))
}

/// Does something for every lane, each in a thread. A panic of the engine becomes an error.
fn in_parallel<T: Send>(lanes: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let start = |index| {
            let work = &work;
            thread::Builder::new()
                .name(format!("partita-open-{index}"))
                .spawn_scoped(scope, move || work(index))
                .map_err(|error| StorageError::io("cannot start a thread", &error))
        };
        let threads: Vec<_> = (0..lanes).map(start).collect::<Result<_>>()?;
        let panicked =
            |index| StorageError::Corrupt(format!("the engine cannot read lane {index}"));
        let join = |(index, thread): (usize, thread::ScopedJoinHandle<'_, Result<T>>)| {
            thread.join().unwrap_or_else(|_| Err(panicked(index)))
        };
        threads.into_iter().enumerate().map(join).collect()
    })
}

fn lane_of(partition: PartitionId, lanes: usize) -> usize {
    // The remainder is below the number of lanes, which is small.
    (partition.0 % lanes as u64) as usize
}

fn answer(receiver: Receiver<Result<()>>) -> Result<()> {
    let gone = || StorageError::Poisoned("the committer ended".to_owned());
    receiver.recv().unwrap_or_else(|_| Err(gone()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
