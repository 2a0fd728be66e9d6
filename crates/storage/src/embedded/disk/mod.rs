//! How much room there is on the disk, and what is refused when it gets short.
//!
//! An engine that runs out of disk in the middle of a write has to be opened again. So the store
//! looks before: at least every [`LOOK_BYTES`] that it writes and every [`LOOK_AFTER`] in which it
//! writes at all, and whenever somebody calls [`crate::Store::look_at_disk`].
//!
//! ```text
//!   free + held − what is still to be written        left, compared with the reserve
//!   ├── roomy, high from 90 % or 2 reserves on ───┤ everything
//!   ├── under the reserve ──┤                       full: only what frees space, and reads
//!   ├ under a quarter of it ┤                       exhausted: only reads
//! ```
//!
//! *Held* is a file of half the reserve (`disk/reserve.rs`). *Still to be written* is what is in
//! memory and in the journal only: each buffer becomes a table before its journal goes, and what is
//! submitted is written twice, to the journal now and to a table later.
//!
//! **Merges** write new tables before the old ones can go, so they need room for a moment that they
//! give back, and more than that when there was something deleted. They may draw on the reserve,
//! as far as that leaves room for deletes; one that does not fit beside those that are going on
//! waits. A store in which one waits that is due has to refuse new writes, however little room they
//! would need.
//!
//! Each level is left later than it was entered, so that a store at the edge does not take turns.

pub(in crate::embedded) mod reserve;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::contract::StorageError;
use crate::contract::{Disk, DiskLevel, Result};
use crate::embedded::committer::now;
use crate::embedded::disk::reserve::ReserveFile;

const LOOK_BYTES: u64 = 1024 * 1024;
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// What is submitted is written so many times before it is only in tables.
const TIMES_WRITTEN: u64 = 2;

/// The reserve of those who do not say: a twentieth of the file system, between these two, but not
/// more than an eighth of a small one. The least has room for a merge of a few tables of each kind.
const RESERVE_SHARE: u64 = 20;
const RESERVE_BYTES_MIN: u64 = 256 * 1024 * 1024;
const RESERVE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const RESERVE_SHARE_MOST: u64 = 8;

/// The part of the reserve that not even deletes may use. Merges leave it and half of it, and only
/// half of it if there is no more: what they free is then the only way out.
const LAST_SHARE: u64 = 4;

/// From this share of the disk on somebody should know, and under the other one it is good again.
const HIGH: f64 = 0.90;
const HIGH_NO_MORE: f64 = 0.88;

/// What a file system has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    pub total_bytes: u64,
    /// What this process may still take.
    pub free_bytes: u64,
}

/// Who knows what the file system of a directory has.
pub trait DiskProbe: Send + Sync {
    fn capacity(&self, directory: &Path) -> io::Result<Capacity>;
}

/// The one of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl DiskProbe for SystemDisk {
    #[cfg(unix)]
    fn capacity(&self, directory: &Path) -> io::Result<Capacity> {
        let found = rustix::fs::statvfs(directory)?;
        Ok(Capacity {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }

    #[cfg(not(unix))]
    fn capacity(&self, _: &Path) -> io::Result<Capacity> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// How a store watches its disk.
#[derive(Clone)]
pub struct DiskSettings {
    /// What is left for deletes, merges and recovery; none: by the size of the file system.
    pub reserve_bytes: Option<u64>,
    pub probe: Arc<dyn DiskProbe>,
}

impl Default for DiskSettings {
    fn default() -> DiskSettings {
        DiskSettings { reserve_bytes: None, probe: Arc::new(SystemDisk) }
    }
}

impl fmt::Debug for DiskSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskSettings").field("reserve_bytes", &self.reserve_bytes).finish()
    }
}

impl PartialEq for DiskSettings {
    fn eq(&self, other: &DiskSettings) -> bool {
        self.reserve_bytes == other.reserve_bytes && Arc::ptr_eq(&self.probe, &other.probe)
    }
}

impl Eq for DiskSettings {}

/// The watch over a store's disk, shared by all lanes.
pub(super) struct DiskWatch {
    directory: PathBuf,
    settings: Option<DiskSettings>,
    level: AtomicU8,
    /// Bytes written since the last look.
    written: AtomicU64,
    looks: Mutex<Looks>,
}

/// Where a merge waits: in which lane, in which of its keyspaces.
pub(super) type MergeAt = (usize, u64);

/// Whether a merge may begin.
pub(super) enum MergeRoom<'a> {
    Enough(Merging<'a>),
    /// Not beside those that are going on.
    Later,
    TooLittle,
}

/// A merge that is going on: what it needs is kept for it until it has ended.
pub(super) struct Merging<'a> {
    disk: &'a DiskWatch,
    bytes: u64,
}

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        let mut looks = self.disk.looks();
        looks.merging = looks.merging.saturating_sub(self.bytes);
    }
}

/// What is known since the last look.
struct Looks {
    capacity: Capacity,
    /// None: nobody has looked.
    looked_at: Option<Instant>,
    reserve: ReserveFile,
    /// What each lane still has to write.
    unwritten: Vec<u64>,
    /// What each merge needs that is due and has to wait for room, by lane and keyspace.
    waiting: BTreeMap<MergeAt, u64>,
    /// What the merges that are going on may still write.
    merging: u64,
    /// The probe failed; told once.
    is_blind: bool,
}

impl fmt::Debug for DiskWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskWatch").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Looks {
    /// What the store could still use.
    fn left(&self) -> u64 {
        let unwritten: u64 = self.unwritten.iter().sum();
        let room = self.capacity.free_bytes.saturating_add(self.reserve.held_bytes());
        room.saturating_sub(unwritten)
    }

    /// What is free beside the file and what is still to be written.
    fn spare(&self) -> u64 {
        self.left().saturating_sub(self.reserve.held_bytes())
    }

    /// Cuts as much off the file as is missing for so much to be spare.
    fn give_up_for(&mut self, spare_bytes: u64) {
        let missing = spare_bytes.saturating_sub(self.spare());
        let given = missing.min(self.reserve.held_bytes());
        if given == 0 {
            return;
        }
        let before = self.reserve.held_bytes();
        self.reserve.shrink_to(before - given);
        let given = before - self.reserve.held_bytes();
        self.capacity.free_bytes = self.capacity.free_bytes.saturating_add(given);
        tracing::info!(given, held = before - given, "a part of the disk reserve is given up");
    }
}

impl DiskWatch {
    pub(super) fn new(directory: &Path, settings: Option<DiskSettings>) -> DiskWatch {
        let looks = Looks {
            capacity: Capacity::default(),
            looked_at: None,
            reserve: ReserveFile::open(directory),
            unwritten: Vec::new(),
            waiting: BTreeMap::new(),
            merging: 0,
            is_blind: false,
        };
        DiskWatch {
            directory: directory.to_owned(),
            settings,
            level: AtomicU8::new(DiskLevel::Roomy as u8),
            written: AtomicU64::new(0),
            looks: Mutex::new(looks),
        }
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn level(&self) -> DiskLevel {
        match self.level.load(Ordering::Acquire) {
            0 => DiskLevel::Roomy,
            1 => DiskLevel::High,
            2 => DiskLevel::Full,
            _ => DiskLevel::Exhausted,
        }
    }

    /// Whether a batch may be written.
    pub(super) fn check(&self, frees: bool) -> Result<()> {
        let enough = if frees { DiskLevel::Exhausted } else { DiskLevel::Full };
        if self.level.load(Ordering::Acquire) < enough as u8 {
            return Ok(());
        }
        Err(self.refused())
    }

    /// What a batch is told that is not written.
    pub(super) fn refused(&self) -> StorageError {
        StorageError::DiskFull(self.refusal())
    }

    /// Whether it is time for a lane to look before it writes so many bytes.
    pub(super) fn is_due(&self, bytes: u64) -> bool {
        if self.settings.is_none() {
            return false;
        }
        let written = self.written.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        written >= LOOK_BYTES
            || self.looks().looked_at.is_none_or(|at| now().duration_since(at) >= LOOK_AFTER)
    }

    /// Notes what a lane still has to write, and looks. Answers whether there is room for so much
    /// more.
    pub(super) fn look(&self, lane: usize, unwritten: u64, incoming: u64) -> bool {
        let mut looks = self.looks();
        self.look_at(&mut looks, &[(lane, unwritten)]);
        let reserve = self.reserve_bytes(looks.capacity);
        let has_room =
            looks.capacity.total_bytes == 0 || looks.left() >= reserve.saturating_add(incoming);
        // Who is refused for want of room is told the same wherever it asks. A large write may not
        // fit where others do.
        let would_stay_full = looks.left() < reserve.saturating_add(reserve / LAST_SHARE);
        let before = self.level();
        if !has_room && would_stay_full && before < DiskLevel::Full {
            self.level.store(DiskLevel::Full as u8, Ordering::Release);
            self.tell(before, DiskLevel::Full, &looks);
        }
        has_room
    }

    /// The same for all lanes, by somebody who has time: the file may grow.
    pub(super) fn look_around(&self, unwritten: &[(usize, u64)]) {
        let mut looks = self.looks();
        self.look_at(&mut looks, unwritten);
        let reserve = self.reserve_bytes(looks.capacity);
        let held = reserve / 2;
        if looks.spare() >= held + reserve && looks.reserve.held_bytes() < held {
            looks.reserve.grow_to(held);
            self.look_at(&mut looks, unwritten);
        }
    }

    fn look_at(&self, looks: &mut Looks, unwritten: &[(usize, u64)]) {
        for (lane, bytes) in unwritten {
            if looks.unwritten.len() <= *lane {
                looks.unwritten.resize(lane + 1, 0);
            }
            if let Some(known) = looks.unwritten.get_mut(*lane) {
                *known = *bytes;
            }
        }
        if !self.probe(looks) {
            return;
        }
        self.written.store(0, Ordering::Relaxed);
        let reserve = self.reserve_bytes(looks.capacity);
        looks.give_up_for(reserve / LAST_SHARE);
        let before = self.level();
        let level = next_level(before, looks, reserve);
        self.level.store(level as u8, Ordering::Release);
        if level != before {
            self.tell(before, level, looks);
        }
    }

    /// Asks what there is. Who cannot tell changes nothing.
    fn probe(&self, looks: &mut Looks) -> bool {
        let Some(settings) = &self.settings else { return false };
        looks.looked_at = Some(now());
        match settings.probe.capacity(&self.directory) {
            Ok(capacity) => {
                looks.capacity = capacity;
                looks.is_blind = false;
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut looks.is_blind, true) {
                    let directory = self.directory.display();
                    tracing::warn!(%directory, %error, "it cannot be seen how full the disk is");
                }
                false
            }
        }
    }

    fn reserve_bytes(&self, capacity: Capacity) -> u64 {
        let chosen = self.settings.as_ref().and_then(|settings| settings.reserve_bytes);
        chosen.unwrap_or_else(|| default_reserve(capacity.total_bytes))
    }

    fn tell(&self, before: DiskLevel, level: DiskLevel, looks: &Looks) {
        let place = self.place(looks);
        match level {
            DiskLevel::Roomy if before == DiskLevel::High => {
                tracing::info!("there is room on the disk again: {place}");
            }
            DiskLevel::Roomy | DiskLevel::High if before >= DiskLevel::Full => {
                tracing::warn!("there is room on the disk again, writes are accepted: {place}");
            }
            DiskLevel::Roomy | DiskLevel::High => tracing::warn!(
                "the disk is getting full: {place}. New writes will be refused when no more than \
                 the reserve is left: delete something, or make the disk larger"
            ),
            DiskLevel::Full => tracing::error!("disk full, new writes are refused: {place}"),
            DiskLevel::Exhausted => {
                tracing::error!("disk full, writes and deletes are refused: {place}");
            }
        }
    }

    /// Where it is short of what, in words.
    fn place(&self, looks: &Looks) -> String {
        let (directory, free) = (self.directory.display(), looks.capacity.free_bytes);
        let (held, reserve) = (looks.reserve.held_bytes(), self.reserve_bytes(looks.capacity));
        let total = looks.capacity.total_bytes;
        format!(
            "the file system of the data directory {directory} has {free} of {total} bytes free \
             and {held} held by Partita; the reserve is {reserve} (--disk-reserve-mb)"
        )
    }

    fn refusal(&self) -> String {
        let place = self.place(&self.looks());
        match self.level() {
            DiskLevel::Exhausted => format!(
                "Disk full: {place}. There is no room even for deletes; reads go on. Remove other \
                 files from that file system, or make it larger; writes are then accepted by \
                 themselves"
            ),
            _ => format!(
                "Disk full: {place}. New writes are refused; reads and deletes go on. Delete items \
                 or containers, remove other files from that file system, or make it larger; writes \
                 are then accepted by themselves"
            ),
        }
    }

    /// After a failed write: what the disk has, in words, and room for what recovery has to write.
    pub(super) fn after_failure(&self) -> Option<String> {
        let mut looks = self.looks();
        if !self.probe(&mut looks) {
            return None;
        }
        let told = self.place(&looks);
        looks.reserve.shrink_to(0);
        Some(told)
    }

    /// Whether there is room to open the engine, which may have to flush what it finds in its
    /// journals. What is held is given up for it.
    pub(super) fn check_room_to_open(&self) -> Result<()> {
        let mut looks = self.looks();
        if !self.probe(&mut looks) {
            return Ok(());
        }
        looks.reserve.shrink_to(0);
        self.probe(&mut looks);
        let needed = self.reserve_bytes(looks.capacity) / LAST_SHARE;
        if looks.capacity.free_bytes >= needed {
            return Ok(());
        }
        let place = self.place(&looks);
        Err(StorageError::DiskFull(format!(
            "Disk full: {place}. At least {needed} bytes are needed to open the store again"
        )))
    }

    /// Whether there is room for a merge that writes so many bytes. What others write at the same
    /// time is not there for it.
    pub(super) fn room_to_merge(&self, bytes: u64) -> MergeRoom<'_> {
        let mut looks = self.looks();
        if bytes > 0 && self.probe(&mut looks) {
            let last = self.reserve_bytes(looks.capacity) / LAST_SHARE;
            // Beside a merge there is to be room for deletes, if there is any now.
            let stays = if looks.left() < last { last / 2 } else { last + last / 2 };
            let needed = bytes.saturating_add(looks.merging).saturating_add(stays);
            if looks.left() < needed {
                return if looks.merging > 0 { MergeRoom::Later } else { MergeRoom::TooLittle };
            }
            looks.give_up_for(needed);
        }
        looks.merging = looks.merging.saturating_add(bytes);
        MergeRoom::Enough(Merging { disk: self, bytes })
    }

    /// The same for a merge that could as well be left: the reserve is not for it.
    pub(super) fn room_to_spare(&self, bytes: u64) -> MergeRoom<'_> {
        let mut looks = self.looks();
        if self.probe(&mut looks) {
            let reserve = self.reserve_bytes(looks.capacity);
            let needed = bytes.saturating_add(looks.merging).saturating_add(reserve);
            if looks.spare() < needed {
                return MergeRoom::TooLittle;
            }
        }
        looks.merging = looks.merging.saturating_add(bytes);
        MergeRoom::Enough(Merging { disk: self, bytes })
    }

    /// Notes that a merge is due and needs so much, or that none waits there any more. As long as
    /// one waits that there is no room for, the store counts as full.
    pub(super) fn note_waiting(&self, at: MergeAt, bytes: Option<u64>) {
        let mut looks = self.looks();
        match bytes {
            Some(bytes) => looks.waiting.insert(at, bytes),
            None => looks.waiting.remove(&at),
        };
    }

    pub(super) fn is_watched(&self) -> bool {
        self.settings.is_some()
    }

    /// Why nothing can be written while tables wait to be merged.
    pub(super) fn no_room_to_merge(&self) -> StorageError {
        let place = self.place(&self.looks());
        StorageError::DiskFull(format!(
            "Disk full: {place}. Tables must be merged before more is written, deletes included, \
             and there is no room for that; reads go on. Remove other files from that file system, \
             or make it larger; writes are then accepted by themselves"
        ))
    }

    /// Whether a merge had to wait for want of room.
    pub(super) fn is_merge_waiting(&self) -> bool {
        !self.looks().waiting.is_empty()
    }

    /// Why batches are refused, if they are.
    pub(super) fn trouble(&self) -> Option<String> {
        self.check(false).err().map(|error| error.to_string())
    }

    /// None: nobody watches, or nothing can be seen.
    pub(super) fn status(&self) -> Option<Disk> {
        self.settings.as_ref()?;
        let looks = self.looks();
        looks.looked_at.filter(|_| looks.capacity.total_bytes > 0)?;
        Some(Disk {
            directory: self.directory.display().to_string(),
            total_bytes: looks.capacity.total_bytes,
            free_bytes: looks.capacity.free_bytes,
            reserve_bytes: self.reserve_bytes(looks.capacity),
            held_bytes: looks.reserve.held_bytes(),
            level: self.level(),
        })
    }

    /// The bytes of the file, which are none of the data's.
    pub(super) fn held_bytes(&self) -> u64 {
        self.looks().reserve.held_bytes()
    }
}

/// What a group of this size will have taken until it is only in tables.
pub(super) fn bytes_written(group_bytes: usize) -> u64 {
    (group_bytes as u64).saturating_mul(TIMES_WRITTEN)
}

fn default_reserve(total_bytes: u64) -> u64 {
    let share = (total_bytes / RESERVE_SHARE).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
    share.min(total_bytes / RESERVE_SHARE_MOST)
}

fn next_level(before: DiskLevel, looks: &Looks, reserve: u64) -> DiskLevel {
    let left = looks.left();
    let last = reserve / LAST_SHARE;
    // What is above the limit by less than this does not end a level.
    let margin = |level| if before >= level { last } else { 0 };
    let for_merge = looks.waiting.values().max().map_or(0, |bytes| bytes.saturating_add(last));
    if left < last.saturating_add(margin(DiskLevel::Exhausted) / 2) {
        return DiskLevel::Exhausted;
    }
    if left < reserve.max(for_merge).saturating_add(margin(DiskLevel::Full)) {
        return DiskLevel::Full;
    }
    let used = looks.capacity.total_bytes.saturating_sub(left) as f64;
    let share = used / looks.capacity.total_bytes.max(1) as f64;
    let high = if before == DiskLevel::Roomy { HIGH } else { HIGH_NO_MORE };
    // Of a small disk the reserve is more than a tenth: writes would be refused before that share
    // is used, and nobody would have been warned.
    let is_near = left < reserve.saturating_mul(2).saturating_add(margin(DiskLevel::High));
    if share >= high || is_near { DiskLevel::High } else { DiskLevel::Roomy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// A disk that has as many megabytes as it is told.
    #[derive(Default)]
    struct Told(AtomicU64);

    impl DiskProbe for Told {
        fn capacity(&self, _: &Path) -> io::Result<Capacity> {
            let free_bytes = self.0.load(Ordering::Acquire) * MB;
            Ok(Capacity { total_bytes: 1024 * MB, free_bytes })
        }
    }

    fn watch(reserve_mb: u64, free_mb: u64) -> (DiskWatch, Arc<Told>) {
        let told = Arc::new(Told(free_mb.into()));
        let probe = Arc::clone(&told) as Arc<dyn DiskProbe>;
        let settings = DiskSettings { reserve_bytes: Some(reserve_mb * MB), probe };
        (DiskWatch::new(Path::new("nowhere"), Some(settings)), told)
    }

    #[test]
    fn merges_at_the_same_time_do_not_count_on_the_same_room() {
        let (watch, told) = watch(8, 100);
        let first = watch.room_to_merge(60 * MB);
        assert!(matches!(first, MergeRoom::Enough(_)));
        assert!(matches!(watch.room_to_merge(60 * MB), MergeRoom::Later));
        assert!(matches!(watch.room_to_merge(30 * MB), MergeRoom::Enough(_)));
        assert!(matches!(watch.room_to_spare(35 * MB), MergeRoom::TooLittle));
        drop(first);
        assert!(matches!(watch.room_to_merge(60 * MB), MergeRoom::Enough(_)));
        told.0.store(30, Ordering::Release);
        assert!(matches!(watch.room_to_merge(60 * MB), MergeRoom::TooLittle));
        assert!(matches!(watch.room_to_merge(0), MergeRoom::Enough(_)), "tables are only moved");
    }

    #[test]
    fn a_small_disk_warns_before_it_refuses() {
        let (watch, told) = watch(128, 1_000);
        let level = |free_mb| {
            told.0.store(free_mb, Ordering::Release);
            watch.look(0, 0, 0);
            watch.level()
        };
        assert_eq!(
            [300, 250, 270].map(level),
            [DiskLevel::Roomy, DiskLevel::High, DiskLevel::High]
        );
        assert_eq!([127, 300].map(level), [DiskLevel::Full, DiskLevel::Roomy]);
    }

    #[test]
    fn who_is_refused_is_told_so_everywhere() {
        let (watch, _told) = watch(8, 9);
        assert!(watch.look(0, 0, 1) && watch.level() < DiskLevel::Full);
        assert!(!watch.look(0, 0, 2 * MB));
        assert_eq!(watch.level(), DiskLevel::Full);
        let (watch, _told) = self::watch(8, 500);
        assert!(!watch.look(0, 0, 600 * MB));
        assert_eq!(watch.level(), DiskLevel::Roomy, "others fit");
    }

    #[test]
    fn the_store_is_full_as_long_as_any_merge_waits_that_is_due() {
        let (watch, _told) = watch(8, 600);
        watch.note_waiting((0, 1), Some(700 * MB));
        watch.note_waiting((1, 1), Some(650 * MB));
        watch.look_around(&[]);
        assert_eq!(watch.level(), DiskLevel::Full);
        watch.note_waiting((0, 1), None);
        watch.look_around(&[]);
        assert_eq!(watch.level(), DiskLevel::Full);
        watch.note_waiting((1, 1), None);
        watch.look_around(&[]);
        assert_eq!(watch.level(), DiskLevel::Roomy);
    }
}
