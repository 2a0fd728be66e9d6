//! A lane: one engine database, its mark, and what it holds when it is opened.
//!
//! The engine has one journal, and so one mutex, per database; several lanes let several cores
//! commit. A partition belongs to the lane `id % lanes` for ever.
//!
//! Opening looks before it leaps: the journals are read against the mark first (see
//! `files/journal.rs`), because the engine's own recovery cuts off what it cannot read. That all
//! files are there has been looked at before (`files/inventory.rs`).
//!
//! The engine syncs what it writes and the directories that it writes to, but for one: the names of
//! keyspaces are in a directory that it syncs before it makes them. That is done here, whenever the
//! engine was opened and before anything is written.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use fjall::{Database, Keyspace, Readable};
use partita_model::Lsn;

use crate::contract::{Direction, KeyRange, PartitionId, Result, Space};
use crate::embedded::committer::queue::Queue;
use crate::embedded::disk::DiskWatch;
use crate::embedded::dropped::Dropped;
use crate::embedded::files::directory::{Directory, failed};
use crate::embedded::files::durable;
use crate::embedded::files::inventory::{KEYSPACE_BADGE, LANE_BADGE};
use crate::embedded::files::journal::{self, Findings};
use crate::embedded::files::manifest::{ENGINES_OWN, ENGINES_OWN_NAME, Keyspaces, Manifest, Owner};
use crate::embedded::files::mark::{Emptied, Mark};
use crate::embedded::health::Health;
use crate::embedded::index_memtable::IndexMemtable;
use crate::embedded::keys::{Family, group_key, number};
use crate::embedded::row_cache::RowCache;
use crate::embedded::settings::{self, Frozen, PENDING, keyspace_name};
use crate::embedded::view::{self, Spaces, Take, View, engine_error};

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
    /// What the engine's write buffers took after the last group.
    pub(super) buffer_bytes: AtomicU64,
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
            buffer_bytes: 0.into(),
        }
    }

    /// The bytes that are in buffers and journals only, about.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        let buffer_bytes = self.buffer_bytes.load(Ordering::Relaxed);
        self.view.load().as_ref().map_or(0, |view| view.unwritten_bytes(buffer_bytes))
    }
}

/// How to open a lane.
pub(super) struct LanePlan<'a> {
    pub(super) directory: &'a Directory,
    pub(super) index: usize,
    pub(super) frozen: &'a Frozen,
    pub(super) owner: Owner,
    /// The store has no badges and marks of the present form yet: see `files/manifest.rs`.
    pub(super) is_former: bool,
    /// Of a copy that is only read nothing is merged or tidied up: it may be of much data.
    pub(super) is_copy: bool,
    /// A write failed since this process opened the lane first.
    pub(super) has_failed: bool,
    pub(super) cache_bytes: u64,
    /// Memory for changes that are not in tables.
    pub(super) write_bytes_max: Option<u64>,
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
    pub(super) pending: Option<IndexMemtable>,
    pub(super) dropped: Dropped,
    pub(super) frozen: Frozen,
    pub(super) is_copy: bool,
}

impl<'a> LanePlan<'a> {
    /// For a lane that is only looked at.
    pub(super) fn to_read(
        directory: &'a Directory,
        manifest: &'a Manifest,
        index: usize,
        dropped: &'a Dropped,
    ) -> LanePlan<'a> {
        LanePlan {
            directory,
            index,
            frozen: &manifest.frozen,
            owner: manifest.owner(index),
            is_former: manifest.is_former,
            is_copy: true,
            has_failed: false,
            cache_bytes: 0,
            write_bytes_max: None,
            dropped,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.lane(self.index)
    }

    fn mark_path(&self) -> PathBuf {
        self.directory.mark(self.index)
    }

    /// Makes the lane's files.
    pub(super) fn create(&self) -> Result<OpenLane> {
        let (database, spaces) = self.open_engine()?;
        self.write_badges(&spaces)?;
        let mut mark = Mark::create(&self.mark_path(), self.owner)?;
        mark.note_emptied(Emptied { journal: journal::newest(&self.path())?, group: 0 })?;
        self.finish(database, spaces, mark, 0)
    }

    /// Opens the lane and checks that all it ever acknowledged is there.
    pub(super) fn open(&self) -> Result<OpenLane> {
        let findings = self.inspect()?;
        let mut mark = Mark::open(&self.mark_path(), self.owner, self.is_former)?;
        let kept = self.keep_unreadable(&findings)?;
        findings.cut()?;
        findings.remove_hollow()?;
        if self.has_failed {
            findings.write_anew()?;
        }
        let (database, spaces) = self.open_engine()?;
        let meta = spaces.get(Space::Meta);
        let stored = database.snapshot().get(meta, group_key()).map_err(engine_error)?;
        let group = stored.map_or(Ok(0), |value| number(&value))?;
        let reached = match group < mark.group() {
            true => Err(journal::lost(group, mark.group(), &findings)),
            false => findings.check_emptied(mark.emptied(), group),
        };
        if let Err(error) = reached {
            drop((spaces, database));
            if let Some(kept) = kept {
                kept.put_back()?;
            }
            return Err(error);
        }
        mark.note_emptied(findings.next_emptied(mark.emptied(), group))?;
        if let Some(kept) = kept {
            durable::remove(&kept.copy)?;
        }
        if self.is_former {
            self.write_badges(&spaces)?;
            mark.renew()?;
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
        let read =
            |keyspace: &Keyspace| IndexMemtable::read(keyspace.clone(), sort_bytes, &snapshot);
        let pending = spaces.pending.as_ref().map(read).transpose()?;
        let (index, path, dropped) = (self.index, self.path(), self.dropped.clone());
        let (frozen, is_copy) = (self.frozen.clone(), self.is_copy);
        Ok(OpenLane {
            index,
            path,
            database,
            spaces,
            mark,
            group,
            pending,
            dropped,
            frozen,
            is_copy,
        })
    }

    /// Reads mark and journals and compares them. Changes nothing.
    pub(super) fn inspect(&self) -> Result<Findings> {
        let acknowledged = Mark::read(&self.mark_path(), self.owner, self.is_former)?;
        let findings = journal::inspect(&self.path(), self.index, self.frozen.lanes)?;
        findings.check(acknowledged, Mark::read_emptied(&self.mark_path(), self.owner)?)?;
        Ok(findings)
    }

    /// Journals without any readable group do not tell whether their unreadable bytes matter; the
    /// engine's tables do, but only after it has cut the journal. So a copy is kept until then.
    fn keep_unreadable(&self, findings: &Findings) -> Result<Option<KeptJournal>> {
        let (None, Some((journal, _))) = (findings.last_group, &findings.unreadable) else {
            return Ok(None);
        };
        let kept = self.path().with_extension("unreadable-journal");
        let bytes = fs::read(journal).map_err(|error| failed("read", journal, &error))?;
        durable::write(&kept, &bytes)?;
        Ok(Some(KeptJournal { journal: journal.clone(), copy: kept }))
    }

    /// Says in each directory whose it is.
    fn write_badges(&self, spaces: &Spaces) -> Result<()> {
        let lane = self.path();
        durable::write(&lane.join(LANE_BADGE), self.owner.lane_badge().as_bytes())?;
        let engines_own = std::iter::once((ENGINES_OWN_NAME.to_owned(), ENGINES_OWN));
        for (name, number) in engines_own.chain(keyspaces_of(spaces)) {
            let badge = self.owner.keyspace_badge(&name, number);
            let keyspace = lane.join("keyspaces").join(number.to_string());
            durable::write(&keyspace.join(KEYSPACE_BADGE), badge.as_bytes())?;
        }
        Ok(())
    }

    fn open_engine(&self) -> Result<(Database, Arc<Spaces>)> {
        let dropped = self.dropped.clone();
        let row_cache_bytes = self.cache_bytes / KEPT_SHARE;
        let database = Database::builder(self.path())
            .cache_size(self.cache_bytes - row_cache_bytes)
            .worker_threads(if self.frozen.has_compactor() { 1 } else { WORKER_THREADS })
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
                Some(database.keyspace(PENDING, options).map_err(engine_error)?)
            }
            false => None,
        };
        for synced in [self.path().join("keyspaces"), self.path()] {
            durable::sync_directory(&synced)?;
        }
        let sort_bytes = self.frozen.sort_bytes(self.write_bytes_max);
        let buffer_bytes_max = self.write_bytes_max.map(settings::buffer_bytes);
        let buffer_bytes = Space::ALL.map(|space| self.frozen.buffer_bytes_of(space));
        let row_cache = RowCache::new(row_cache_bytes);
        let spaces =
            Spaces { keyspaces, pending, buffer_bytes, sort_bytes, buffer_bytes_max, row_cache };
        Ok((database, Arc::new(spaces)))
    }
}

/// A journal that the engine may cut, and a copy of it as it was.
struct KeptJournal {
    journal: PathBuf,
    copy: PathBuf,
}

impl KeptJournal {
    fn put_back(self) -> Result<()> {
        let renamed = fs::rename(&self.copy, &self.journal);
        renamed.map_err(|error| failed("rename to", &self.journal, &error))?;
        self.journal.parent().map_or(Ok(()), durable::sync_directory)
    }
}

impl OpenLane {
    /// What is written down about the lane when it is made.
    pub(super) fn keyspaces(&self) -> Keyspaces {
        keyspaces_of(&self.spaces)
    }

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
        let runs = pending.map(IndexMemtable::runs).unwrap_or_default();
        let (snapshot, keyspace) = (self.database.snapshot(), self.spaces.get(space));
        view::each(&snapshot, keyspace, &runs, KeyRange::all(), Direction::Forward, take)
    }

    /// The LSNs that this lane's partitions have reached, where they have committed at all.
    pub(super) fn read_lsns(&self) -> Result<HashMap<PartitionId, Lsn>> {
        let lsns = self.read_family(Family::Lsn)?;
        Ok(lsns.into_iter().map(|(id, lsn)| (id, Lsn(lsn))).collect())
    }
}

/// The names of keyspaces and the numbers that the engine has given them.
fn keyspaces_of(spaces: &Spaces) -> Keyspaces {
    let named = |keyspace: &Keyspace| (keyspace.name().to_string(), keyspace.id());
    spaces.all().map(named).collect()
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
