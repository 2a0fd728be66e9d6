//! How far a lane has acknowledged, kept outside the engine.
//!
//! The engine's journal can lose its tail without a word: after a damaged byte it takes the rest
//! for an unfinished write and cuts it off. So every group that a lane commits carries the next
//! *group number* in the same atomic write, and after the group is on stable storage, before any
//! ticket resolves, the number is also noted here. On opening, the groups that the engine recovered
//! must reach the mark.
//!
//! What that detects, precisely: the mark is written after the group's fsync, so it never runs
//! ahead of what was made durable, and a recovered number below it proves a loss. It is handed to
//! the operating system with every group and synced about once a second, so after the end of the
//! *process* it covers every acknowledged group, and after the end of the *machine* all but those
//! of the last second or so. A relaxed store acknowledges without an fsync and therefore writes the
//! mark at its orderly end only.
//!
//! The file has two slots that are written in turn: a write that was cut off damages one of them,
//! and the other still holds the number before. A slot says whose it is, so that the mark of
//! another lane or store is not taken for this one's.
//!
//! ```text
//! slot = "PTMARK02" · store u64 · lane u64 · group u64 · checksum u64        big-endian
//! ```
//!
//! Slots of the former form lack store and lane; they are read while `STORE` has its former form
//! (`files/manifest.rs`).
//!
//! A third place says when the lane's journals may hold no group ([`Emptied`]). It is written
//! before they are emptied, and where it cannot be read nothing is concluded from it.
//!
//! ```text
//! place = "PTEMPT01" · store u64 · lane u64 · journal u64 · group u64 · checksum u64
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::files::directory::failed;
use crate::embedded::files::manifest::Owner;

const MAGIC: &[u8; 8] = b"PTMARK02";
const FORMER_MAGIC: &[u8; 8] = b"PTMARK01";

const EMPTIED_MAGIC: &[u8; 8] = b"PTEMPT01";

/// One slot per disk sector, so that one write cannot damage both.
const SLOT_STRIDE_BYTES: u64 = 4096;

const EMPTIED_AT_BYTES: u64 = 2 * SLOT_STRIDE_BYTES;

const SLOT_BYTES: usize = 40;
const EMPTIED_BYTES: usize = 48;
const FORMER_SLOT_BYTES: usize = 24;

const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// When journals may hold no group: as long as the newest has this number and the tables reach this
/// group and none beyond it. What was written since would be in that journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Emptied {
    pub(in crate::embedded) journal: u64,
    pub(in crate::embedded) group: u64,
}

impl Emptied {
    /// This journal was written to and has not been emptied since.
    pub(in crate::embedded) fn never(journal: u64) -> Emptied {
        Emptied { journal, group: u64::MAX }
    }
}

/// The mark of one lane, open for writing.
#[derive(Debug)]
pub(in crate::embedded) struct Mark {
    path: PathBuf,
    file: File,
    owner: Owner,
    group: u64,
    emptied: Option<Emptied>,
    synced_at: Option<Instant>,
}

impl Mark {
    /// Makes the mark of a new lane: nothing acknowledged. Its name is durable when its directory
    /// is synced.
    pub(in crate::embedded) fn create(path: &Path, owner: Owner) -> Result<Mark> {
        let write = || {
            let mut file = File::create_new(path)?;
            file.set_len(2 * SLOT_STRIDE_BYTES)?;
            file.write_all(&slot(owner, 0))?;
            file.sync_all()
        };
        write().map_err(|error| failed("create", path, &error))?;
        Mark::open(path, owner, false)
    }

    /// The last group known to be acknowledged, by a file that is only read. One that is gone or
    /// has no valid slot is damage: without it a loss would go unnoticed.
    pub(in crate::embedded) fn read(path: &Path, owner: Owner, is_former: bool) -> Result<u64> {
        let slots = read_slots(path)?.into_iter().flatten().collect::<Vec<_>>();
        // While the store has its former form it has no number: one that a start was about to give
        // it, and was cut off, is not the one that this start would.
        let is_ours = |slot: &Slot| match slot.owner {
            Some(found) => found.lane == owner.lane && (is_former || found.store == owner.store),
            None => is_former,
        };
        let group = slots.iter().filter(|slot| is_ours(slot)).map(|slot| slot.group).max();
        group.ok_or_else(|| {
            let why = match slots.is_empty() {
                true => "holds no readable mark of what was acknowledged",
                false => "is the mark of another lane or store",
            };
            StorageError::Corrupt(format!("{} {why}", path.display()))
        })
    }

    /// Reads the mark, to go on with it.
    pub(in crate::embedded) fn open(path: &Path, owner: Owner, is_former: bool) -> Result<Mark> {
        let group = Mark::read(path, owner, is_former)?;
        let file = OpenOptions::new().write(true).open(path);
        let file = file.map_err(|error| failed("open", path, &error))?;
        let emptied = Mark::read_emptied(path, owner)?;
        Ok(Mark { path: path.to_owned(), file, owner, group, emptied, synced_at: None })
    }

    /// When the journals may hold no group, if that can be read.
    pub(in crate::embedded) fn read_emptied(path: &Path, owner: Owner) -> Result<Option<Emptied>> {
        let bytes = std::fs::read(path).map_err(|error| failed("read", path, &error))?;
        let at = usize::try_from(EMPTIED_AT_BYTES).unwrap_or(usize::MAX);
        let Some(found) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            return Ok(None);
        };
        let number =
            |at: usize| found.get(8 * at..)?.first_chunk().copied().map(u64::from_be_bytes);
        let emptied = number(3).zip(number(4)).map(|(journal, group)| Emptied { journal, group });
        Ok(emptied.filter(|emptied| emptied_place(owner, *emptied) == *found))
    }

    pub(in crate::embedded) fn emptied(&self) -> Option<Emptied> {
        self.emptied
    }

    /// Writes down when the journals may hold no group, durably.
    pub(in crate::embedded) fn note_emptied(&mut self, emptied: Emptied) -> Result<()> {
        if self.emptied == Some(emptied) {
            return Ok(());
        }
        let place = emptied_place(self.owner, emptied);
        let written = self.file.seek(SeekFrom::Start(EMPTIED_AT_BYTES));
        let written = written.and_then(|_| self.file.write_all(&place));
        written.map_err(|error| failed("write", &self.path, &error))?;
        self.emptied = Some(emptied);
        self.sync()
    }

    /// Writes all of the mark in the present form.
    pub(in crate::embedded) fn renew(&mut self) -> Result<()> {
        for position in [0, SLOT_STRIDE_BYTES] {
            let written = self.file.seek(SeekFrom::Start(position));
            let written = written.and_then(|_| self.file.write_all(&slot(self.owner, self.group)));
            written.map_err(|error| failed("write", &self.path, &error))?;
            // One after the other: a write that is cut off leaves one of them.
            self.sync()?;
        }
        Ok(())
    }

    /// Whether a file is a mark by which anything was acknowledged.
    pub(in crate::embedded) fn says_acknowledged(path: &Path) -> bool {
        let slots = if path.is_file() { read_slots(path).ok() } else { None };
        slots.is_some_and(|slots| slots.into_iter().flatten().any(|slot| slot.group > 0))
    }

    /// The last group known to be acknowledged.
    pub(in crate::embedded) fn group(&self) -> u64 {
        self.group
    }

    /// Notes that everything up to this group is durable.
    #[expect(clippy::disallowed_methods, reason = "paces the sync of a file, decides nothing")]
    pub(in crate::embedded) fn advance(&mut self, group: u64) -> Result<()> {
        self.group = group;
        let position = SeekFrom::Start(group % 2 * SLOT_STRIDE_BYTES);
        let slot = slot(self.owner, group);
        let written = self.file.seek(position).and_then(|_| self.file.write_all(&slot));
        written.map_err(|error| failed("write", &self.path, &error))?;
        if self.synced_at.is_none_or(|at| at.elapsed() >= SYNC_INTERVAL) {
            self.sync()?;
            self.synced_at = Some(Instant::now());
        }
        Ok(())
    }

    pub(in crate::embedded) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))
    }
}

/// What a slot says; those of the former form do not say whose they are.
struct Slot {
    owner: Option<Owner>,
    group: u64,
}

fn slot(owner: Owner, group: u64) -> [u8; SLOT_BYTES] {
    with_sum(MAGIC, [owner.store, owner.lane as u64, group])
}

fn emptied_place(owner: Owner, emptied: Emptied) -> [u8; EMPTIED_BYTES] {
    let Emptied { journal, group } = emptied;
    with_sum(EMPTIED_MAGIC, [owner.store, owner.lane as u64, journal, group])
}

/// A magic, numbers, and the checksum of both.
fn with_sum<const BYTES: usize, const NUMBERS: usize>(
    magic: &[u8; 8],
    numbers: [u64; NUMBERS],
) -> [u8; BYTES] {
    let mut place = [0; BYTES];
    let (head, sum) = place.split_at_mut(BYTES - 8);
    let (start, rest) = head.split_at_mut(magic.len());
    start.copy_from_slice(magic);
    for (place, number) in rest.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    sum.copy_from_slice(&checksum(head).to_be_bytes());
    place
}

fn read_slots(path: &Path) -> Result<[Option<Slot>; 2]> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let second = usize::try_from(SLOT_STRIDE_BYTES).unwrap_or(usize::MAX);
            let second = bytes.get(second..).unwrap_or_default();
            Ok([read_slot(&bytes), read_slot(second)])
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StorageError::Corrupt(
            format!("{} is missing: it says how far the lane acknowledged", path.display()),
        )),
        Err(error) => Err(failed("read", path, &error)),
    }
}

fn read_slot(bytes: &[u8]) -> Option<Slot> {
    let number = |slot: &[u8], at: usize| {
        slot.get(8 * at..)?.first_chunk().map(|number| u64::from_be_bytes(*number))
    };
    let is_whole = |slot: &[u8], numbers: usize| {
        let head = slot.get(..8 * numbers).unwrap_or_default();
        number(slot, numbers) == Some(checksum(head))
    };
    if bytes.starts_with(FORMER_MAGIC) {
        let slot = bytes.get(..FORMER_SLOT_BYTES).filter(|slot| is_whole(slot, 2))?;
        return Some(Slot { owner: None, group: number(slot, 1)? });
    }
    let slot = bytes.get(..SLOT_BYTES).filter(|slot| slot.starts_with(MAGIC))?;
    let slot = Some(slot).filter(|slot| is_whole(slot, 4))?;
    let lane = usize::try_from(number(slot, 2)?).ok()?;
    let owner = Some(Owner { store: number(slot, 1)?, lane });
    Some(Slot { owner, group: number(slot, 3)? })
}

/// FNV-1a: enough to tell a whole slot from a torn one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { store: 0xabcd, lane: 1 };

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("partita-mark-{}-{name}", std::process::id()));
        std::fs::remove_file(&path).ok();
        Mark::create(&path, OWNER).unwrap();
        path
    }

    fn open(path: &Path) -> Result<Mark> {
        Mark::open(path, OWNER, false)
    }

    #[test]
    fn the_mark_is_read_back() {
        let path = fresh("read");
        assert_eq!(open(&path).unwrap().group(), 0);
        for group in 1..=7 {
            open(&path).unwrap().advance(group).unwrap();
            assert_eq!(open(&path).unwrap().group(), group);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn when_journals_may_be_empty_is_read_back_and_a_torn_place_says_nothing() {
        let path = fresh("emptied");
        assert_eq!(open(&path).unwrap().emptied(), None);
        for emptied in [Emptied { journal: 0, group: 3 }, Emptied::never(7)] {
            open(&path).unwrap().note_emptied(emptied).unwrap();
            open(&path).unwrap().advance(4).unwrap();
            assert_eq!(open(&path).unwrap().emptied(), Some(emptied));
        }
        let other = Mark::read_emptied(&path, Owner { lane: 0, ..OWNER }).unwrap();
        assert_eq!(other, None);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[2 * 4096 + 20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(open(&path).unwrap().emptied(), None);
        assert_eq!(open(&path).unwrap().group(), 4);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_torn_slot_leaves_the_number_before() {
        let path = fresh("torn");
        let mut mark = open(&path).unwrap();
        mark.advance(1).unwrap();
        mark.advance(2).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[12] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(open(&path).unwrap().group(), 1);
        bytes[4096] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(open(&path), Err(StorageError::Corrupt(_))));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_mark_of_another_lane_or_store_is_damage() {
        let path = fresh("foreign");
        for owner in [Owner { lane: 0, ..OWNER }, Owner { store: 1, ..OWNER }] {
            let error = Mark::open(&path, owner, false).unwrap_err().to_string();
            assert!(error.contains("is the mark of another lane or store"), "{error}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_mark_of_the_former_form_is_read_once_more() {
        let path = fresh("former");
        let mut former = [&FORMER_MAGIC[..], &9u64.to_be_bytes()].concat();
        former.extend(checksum(&former).to_be_bytes());
        std::fs::write(&path, &former).unwrap();
        assert!(matches!(open(&path), Err(StorageError::Corrupt(_))));
        let mut mark = Mark::open(&path, OWNER, true).unwrap();
        assert_eq!(mark.group(), 9);
        mark.renew().unwrap();
        assert_eq!(open(&path).unwrap().group(), 9);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_missing_mark_is_damage() {
        let missing = open(Path::new("no-such-directory/lane-0.mark"));
        assert!(matches!(missing, Err(StorageError::Corrupt(_))));
    }
}
