//! A lane: one engine database, its mark, and what it holds when it is opened.
//!
//! The engine has one journal, and so one mutex, per database; several lanes let several cores
//! commit. A partition belongs to the lane `id % lanes` for ever.
//!
//! Opening looks before it leaps: the journals are read against the mark first (see
//! [`super::journal`]), because the engine's own recovery cuts off what it cannot read.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwapOption;
use fjall::{Database, Keyspace, Readable};
use partita_model::Lsn;

use super::directory::{Directory, failed};
use super::disk::DiskWatch;
use super::dropped::Dropped;
use super::health::Health;
use super::journal::{self, Findings};
use super::kept::Kept;
use super::keys::{Family, group_key, number};
use super::mark::Mark;
use super::pending::Pending;
use super::queue::Queue;
use super::settings::Frozen;
use super::view::{self, Spaces, Take, View, engine_error};
use crate::contract::{Direction, KeyRange, PartitionId, Result, Space};

/// Where the engine merges, too: with fewer threads a long merge keeps flushes waiting, and those
/// the writers.
const WORKER_THREADS: usize = 3;

/// Bounds the time that a start after a crash takes to replay: the engine replaces a journal at 64
/// MB and, over this limit, flushes what keeps old ones alive. So there are about 128 MB at most.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The part of the memory for caches that is for items in one piece; the rest is for blocks.
const KEPT_SHARE: u64 = 2;

/// The part of a lane that callers and its committer share. It outlives its committer, if the store
/// is opened again.
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) queue: Queue,
    /// The newest view; none when the lane is closed.
    pub(super) view: ArcSwapOption<View>,
    pub(super) health: Arc<Health>,
    pub(super) disk: Arc<DiskWatch>,
    pub(super) commits: AtomicU64,
    pub(super) groups: AtomicU64,
}

impl Lane {
    /// A lane that nobody serves yet.
    pub(super) fn new(index: usize, health: &Arc<Health>, disk: &Arc<DiskWatch>) -> Lane {
        Lane {
            index,
            queue: Queue::default(),
            view: ArcSwapOption::empty(),
            health: Arc::clone(health),
            disk: Arc::clone(disk),
            commits: 0.into(),
            groups: 0.into(),
        }
    }

    /// The bytes that are in buffers and journals only, about.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.view.load().as_ref().map_or(0, |view| view.unwritten_bytes())
    }
}

/// How to open a lane.
pub(super) struct LanePlan<'a> {
    pub(super) directory: &'a Directory,
    pub(super) index: usize,
    pub(super) frozen: &'a Frozen,
    pub(super) cache_bytes: u64,
    pub(super) dropped: &'a Dropped,
}

/// An open lane before its committer starts.
pub(super) struct OpenLane {
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) database: Database,
    pub(super) spaces: Arc<Spaces>,
    pub(super) mark: Mark,
    /// The number of the last group.
    pub(super) group: u64,
    /// What is to be sorted into the index; stores of the first formats have nothing of the kind.
    pub(super) pending: Option<Pending>,
    pub(super) dropped: Dropped,
    pub(super) frozen: Frozen,
}

impl LanePlan<'_> {
    fn path(&self) -> PathBuf {
        self.directory.lane(self.index)
    }

    fn mark_path(&self) -> PathBuf {
        self.directory.mark(self.index)
    }

    /// Makes the lane's files.
    pub(super) fn create(&self) -> Result<OpenLane> {
        let (database, spaces) = self.open_engine()?;
        Mark::create(&self.mark_path())?;
        let mark = Mark::open(&self.mark_path())?;
        self.finish(database, spaces, mark, 0)
    }

    /// Opens the lane and checks that all it ever acknowledged is there.
    pub(super) fn open(&self) -> Result<OpenLane> {
        let (mark, findings) = self.inspect()?;
        let kept = self.keep_unreadable(&findings)?;
        let (database, spaces) = self.open_engine()?;
        let meta = spaces.get(Space::Meta);
        let stored = database.snapshot().get(meta, group_key()).map_err(engine_error)?;
        let group = stored.map_or(Ok(0), |value| number(&value))?;
        if group < mark.group() {
            return Err(journal::lost(group, mark.group(), &findings));
        }
        if let Some(kept) = kept {
            fs::remove_file(&kept).map_err(|error| failed("remove", &kept, &error))?;
        }
        self.finish(database, spaces, mark, group)
    }

    fn finish(
        &self,
        database: Database,
        spaces: Arc<Spaces>,
        mark: Mark,
        group: u64,
    ) -> Result<OpenLane> {
        let snapshot = database.snapshot();
        let sort_bytes = spaces.sort_bytes;
        let read = |keyspace: &Keyspace| Pending::read(keyspace.clone(), sort_bytes, &snapshot);
        let pending = spaces.pending.as_ref().map(read).transpose()?;
        let (index, path, dropped) = (self.index, self.path(), self.dropped.clone());
        let frozen = self.frozen.clone();
        Ok(OpenLane { index, path, database, spaces, mark, group, pending, dropped, frozen })
    }

    /// Reads mark and journals and compares them. Changes nothing.
    pub(super) fn inspect(&self) -> Result<(Mark, Findings)> {
        let mark = Mark::open(&self.mark_path())?;
        let findings = journal::inspect(&self.path())?;
        findings.check(mark.group())?;
        Ok((mark, findings))
    }

    /// Journals without any readable group do not tell whether their unreadable bytes matter; the
    /// engine's tables do, but only after it has cut the journal. So a copy is kept until then.
    fn keep_unreadable(&self, findings: &Findings) -> Result<Option<PathBuf>> {
        let (None, Some((journal, _))) = (findings.last_group, &findings.unreadable) else {
            return Ok(None);
        };
        let kept = self.path().with_extension("unreadable-journal");
        fs::copy(journal, &kept).map_err(|error| failed("copy", journal, &error))?;
        Ok(Some(kept))
    }

    fn open_engine(&self) -> Result<(Database, Arc<Spaces>)> {
        let dropped = self.dropped.clone();
        let kept_bytes = self.cache_bytes / KEPT_SHARE;
        let database = Database::builder(self.path())
            .cache_size(self.cache_bytes - kept_bytes)
            .worker_threads(if self.frozen.has_merger() { 1 } else { WORKER_THREADS })
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .manual_journal_persist(true)
            .with_compaction_filter_factories(Arc::new(move |_| Some(Arc::new(dropped.clone()))))
            .open()
            .map_err(engine_error)?;
        let open = |space: Space| {
            let options = || self.frozen.keyspace_options(space);
            database.keyspace(keyspace_name(space), options).map_err(engine_error)
        };
        let [items, index, feed, meta] = Space::ALL.map(open);
        let keyspaces = [items?, index?, feed?, meta?];
        let pending = match self.frozen.has_pending() {
            true => {
                let options = || self.frozen.pending_options();
                Some(database.keyspace("pending", options).map_err(engine_error)?)
            }
            false => None,
        };
        let sort_bytes = self.frozen.sort_bytes();
        let buffer_bytes = Space::ALL.map(|space| self.frozen.buffer_bytes_of(space));
        let kept = Kept::new(kept_bytes);
        Ok((database, Arc::new(Spaces { keyspaces, pending, buffer_bytes, sort_bytes, kept })))
    }
}

impl OpenLane {
    /// All records of one family, as partitions and numbers.
    pub(super) fn read_family(&self, family: Family) -> Result<Vec<(PartitionId, u64)>> {
        let meta = self.spaces.get(Space::Meta);
        let mut found = Vec::new();
        for entry in self.database.snapshot().prefix(meta, family.prefix()) {
            let (key, value) = entry.into_inner().map_err(engine_error)?;
            found.push((family.partition(&key)?, number(&value)?));
        }
        Ok(found)
    }

    /// Takes all stored entries of a space.
    pub(super) fn each(&self, space: Space, take: &mut Take<'_>) -> Result<()> {
        let pending = self.pending.as_ref().filter(|_| space == Space::Index);
        let runs = pending.map(Pending::runs).unwrap_or_default();
        let (snapshot, keyspace) = (self.database.snapshot(), self.spaces.get(space));
        view::each(&snapshot, keyspace, &runs, KeyRange::all(), Direction::Forward, take)
    }

    /// The LSNs that this lane's partitions have reached, where they have committed at all.
    pub(super) fn read_lsns(&self) -> Result<HashMap<PartitionId, Lsn>> {
        let lsns = self.read_family(Family::Lsn)?;
        Ok(lsns.into_iter().map(|(id, lsn)| (id, Lsn(lsn))).collect())
    }
}

fn keyspace_name(space: Space) -> &'static str {
    match space {
        Space::Items => "items",
        Space::Index => "index",
        Space::Feed => "feed",
        Space::Meta => "meta",
    }
}

/// The bytes that a lane's files occupy. Journals are made long and filled later, so blocks are
/// counted where the system tells them.
pub(super) fn disk_bytes(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => occupied_bytes(&metadata),
            // The engine may have removed the file in the meantime.
            Err(_) => 0,
        })
        .sum()
}

#[cfg(unix)]
fn occupied_bytes(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn occupied_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}
