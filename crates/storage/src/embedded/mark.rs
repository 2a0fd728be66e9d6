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
//! and the other still holds the number before.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::directory::failed;
use crate::contract::Result;
use crate::error::StorageError;

const MAGIC: &[u8; 8] = b"PTMARK01";

/// One slot per disk sector, so that one write cannot damage both.
const SLOT_STRIDE_BYTES: u64 = 4096;

const SLOT_BYTES: usize = 24;

const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The mark of one lane, open for writing.
#[derive(Debug)]
pub(super) struct Mark {
    path: PathBuf,
    file: File,
    group: u64,
    synced_at: Option<Instant>,
}

impl Mark {
    /// Makes the mark of a new lane: nothing acknowledged.
    pub(super) fn create(path: &Path) -> Result<()> {
        let write = || {
            let mut file = File::create_new(path)?;
            file.set_len(2 * SLOT_STRIDE_BYTES)?;
            file.write_all(&slot(0))?;
            file.sync_all()
        };
        write().map_err(|error| failed("create", path, &error))
    }

    /// Reads the mark. A file that is gone or has no valid slot is damage: without it a loss would
    /// go unnoticed.
    pub(super) fn open(path: &Path) -> Result<Mark> {
        let read = || -> io::Result<(File, Option<u64>)> {
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let slots = [read_slot(&mut file, 0)?, read_slot(&mut file, 1)?];
            Ok((file, slots.into_iter().flatten().max()))
        };
        match read() {
            Ok((file, Some(group))) => {
                Ok(Mark { path: path.to_owned(), file, group, synced_at: None })
            }
            Ok((_, None)) => Err(StorageError::Corrupt(format!(
                "{} holds no readable mark of what was acknowledged",
                path.display()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StorageError::Corrupt(
                format!("{} is missing: it says how far the lane acknowledged", path.display()),
            )),
            Err(error) => Err(failed("read", path, &error)),
        }
    }

    /// The last group known to be acknowledged.
    pub(super) fn group(&self) -> u64 {
        self.group
    }

    /// Notes that everything up to this group is durable.
    #[expect(clippy::disallowed_methods, reason = "paces the sync of a file, decides nothing")]
    pub(super) fn advance(&mut self, group: u64) -> Result<()> {
        self.group = group;
        let position = SeekFrom::Start(group % 2 * SLOT_STRIDE_BYTES);
        let written = self.file.seek(position).and_then(|_| self.file.write_all(&slot(group)));
        written.map_err(|error| failed("write", &self.path, &error))?;
        if self.synced_at.is_none_or(|at| at.elapsed() >= SYNC_INTERVAL) {
            self.sync()?;
            self.synced_at = Some(Instant::now());
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))
    }
}

fn slot(group: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let (head, sum) = slot.split_at_mut(16);
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&group.to_be_bytes());
    sum.copy_from_slice(&checksum(head).to_be_bytes());
    slot
}

fn read_slot(file: &mut File, index: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; SLOT_BYTES];
    file.seek(SeekFrom::Start(index * SLOT_STRIDE_BYTES))?;
    match file.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let [_, _, _, _, _, _, _, _, group @ .., _, _, _, _, _, _, _, _] = bytes;
    let group = u64::from_be_bytes(group);
    Ok((slot(group) == bytes).then_some(group))
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

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("partita-mark-{}-{name}", std::process::id()));
        std::fs::remove_file(&path).ok();
        Mark::create(&path).unwrap();
        path
    }

    #[test]
    fn the_mark_is_read_back() {
        let path = fresh("read");
        assert_eq!(Mark::open(&path).unwrap().group(), 0);
        for group in 1..=7 {
            Mark::open(&path).unwrap().advance(group).unwrap();
            assert_eq!(Mark::open(&path).unwrap().group(), group);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_torn_slot_leaves_the_number_before() {
        let path = fresh("torn");
        let mut mark = Mark::open(&path).unwrap();
        mark.advance(1).unwrap();
        mark.advance(2).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[12] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Mark::open(&path).unwrap().group(), 1);
        bytes[4096] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(Mark::open(&path), Err(StorageError::Corrupt(_))));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_missing_mark_is_damage() {
        let missing = Mark::open(Path::new("no-such-directory/lane-0.mark"));
        assert!(matches!(missing, Err(StorageError::Corrupt(_))));
    }
}
