//! A look into the engine's journals before the engine opens them.
//!
//! On recovery the engine takes a batch it cannot read for the unfinished last write and cuts the
//! journal there, together with everything after it. That is right for a torn end and fatal for a
//! damaged middle, and afterwards the difference can no longer be seen. So the journals are walked
//! first, reading only: every batch begins with its group number (`keys/group_key.rs`), so
//! the numbers must follow each other without a gap, across files, and the last one must reach the
//! lane's mark.
//!
//! ```text
//! batch  = 01 · items u32 · sequence u64 · item* · 03 · checksum u64 · "FJL" 03
//! item   = 02 · kind u8 · packing u8 · keyspace u64 · key u16 · value u32 · stored u32
//!          · key · bytes
//! ```
//!
//! Keys belong to partitions, and these to lanes, so a journal of another lane is noticed.
//!
//! Numbers are little-endian. The checksum is XXH3 with 64 bits, of the items. The sequence in the
//! batch's head is covered by none; that it must grow is checked here.
//!
//! **A torn end.** A disk may have any of the sectors of a write that was not synced when the power
//! went. So the last batch may have the right shape and a wrong sum, which the engine would refuse
//! for ever. If nothing follows it and the mark does not say that it was acknowledged, it is such a
//! write and is cut off ([`Findings::cut`]); else it is damage.
//!
//! **An emptied journal.** The engine begins a new journal when one is full and removes the oldest
//! when all its records are in tables. So of several journals only the newest may hold no group.
//! One that is alone holds none when it was emptied on purpose ([`clear`]), which is written down
//! beside the mark ([`Emptied`]), or when it is new.
//!
//! **After a failed sync** the system may take bytes for written that are not on the disk, and show
//! them until it needs their memory; a later sync of the same file then succeeds. So who opens the
//! store again in the same process writes what can be read into a new file
//! ([`Findings::write_anew`]).
//!
//! This knows a private format of the engine, whose version is pinned for that and other reasons.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use crate::contract::StorageError;
use crate::contract::{PartitionId, Result};
use crate::embedded::files::directory::failed;
use crate::embedded::files::durable;
use crate::embedded::files::mark::Emptied;
use crate::embedded::keys::{Family, SYSTEM, group_key, partition_of};
use crate::embedded::lane_of;

/// What names of journals end with; before it is the number.
pub(in crate::embedded) const SUFFIX: &str = ".jnl";

const TRAILER: &[u8; 4] = b"FJL\x03";

/// Reads a journal in few calls; most of it is skipped over in the buffer.
const BUFFER_BYTES: usize = 1024 * 1024;

/// What the journals of one lane hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::embedded) struct Findings {
    /// The last readable group, if the journals hold any.
    pub(in crate::embedded) last_group: Option<u64>,
    pub(in crate::embedded) batches: u64,
    /// Where a journal has bytes that are no batch: the torn end of a last write, or damage.
    pub(in crate::embedded) unreadable: Option<(PathBuf, u64)>,
    last_sequence: u64,
    /// The number of the newest journal, and whether it holds a group.
    newest: u64,
    is_newest_in_use: bool,
    /// Where the groups of the newest journal end.
    newest_end: Option<(PathBuf, u64)>,
    /// Older journals without a group.
    hollow: Vec<PathBuf>,
}

/// Walks all journals of a lane, oldest first. A gap between groups is an error, and so is a record
/// of a partition that belongs to another one of these lanes.
pub(in crate::embedded) fn inspect(path: &Path, lane: usize, lanes: usize) -> Result<Findings> {
    let mut findings = Findings::default();
    let expected = Expected { lane, lanes };
    let mut last: Option<PathBuf> = None;
    let mut wrong_sum: Option<(PathBuf, u64)> = None;
    for (number, path) in journals(path)? {
        if let Some(older) = last.replace(path.clone()).filter(|_| !findings.is_newest_in_use) {
            findings.hollow.push(older);
        }
        (findings.newest, findings.is_newest_in_use) = (number, false);
        findings.newest_end = Some((path.clone(), 0));
        let file = File::open(&path).map_err(|error| failed("open", &path, &error))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut walk = Walk { reader, position: 0, expected, sum: Xxh3::new() };
        loop {
            let start = walk.position;
            match walk.batch() {
                Ok(Some(batch)) => {
                    if let Some((path, position)) = &wrong_sum {
                        return Err(StorageError::Corrupt(format!(
                            "{} has a wrong checksum at byte {position}",
                            path.display()
                        )));
                    }
                    if !batch.is_whole {
                        wrong_sum = Some((path.clone(), start));
                        continue;
                    }
                    if let Some(other) = batch.foreign {
                        return Err(StorageError::Corrupt(format!(
                            "{} has a record of {other:?} at byte {start}, which belongs to \
                             another lane",
                            path.display()
                        )));
                    }
                    findings.take(&batch, &path, start)?;
                    findings.newest_end = Some((path.clone(), walk.position));
                }
                Ok(None) => break,
                Err(error) if is_format(&error) => {
                    findings.unreadable = Some((path, start));
                    break;
                }
                Err(error) => return Err(failed("read", &path, &error)),
            }
        }
    }
    // Whatever follows it in its file is unreadable too.
    findings.unreadable = wrong_sum.or(findings.unreadable);
    Ok(findings)
}

impl Findings {
    fn take(&mut self, batch: &Batch, path: &Path, position: u64) -> Result<()> {
        let place = || format!("{} at byte {position}", path.display());
        if let Some(last) = self.last_group
            && batch.group != last + 1
        {
            let cut = self.unreadable.as_ref().map_or_else(String::new, |(path, position)| {
                format!("; {} is unreadable from byte {position} on", path.display())
            });
            return Err(StorageError::Corrupt(format!(
                "{} holds group {} where group {} must follow{cut}",
                place(),
                batch.group,
                last + 1
            )));
        }
        if self.batches > 0 && batch.sequence <= self.last_sequence {
            return Err(StorageError::Corrupt(format!(
                "{} has the sequence {} after {}",
                place(),
                batch.sequence,
                self.last_sequence
            )));
        }
        self.last_group = Some(batch.group);
        self.last_sequence = batch.sequence;
        self.batches += 1;
        self.is_newest_in_use = true;
        Ok(())
    }

    /// Cuts off what cannot be read, after it was compared with what was acknowledged.
    pub(in crate::embedded) fn cut(&self) -> Result<()> {
        let Some((path, position)) = &self.unreadable else { return Ok(()) };
        tracing::info!(
            journal = %path.display(),
            position,
            "a write that was under way when the process or the machine ended is cut off"
        );
        let cut = || {
            let file = OpenOptions::new().write(true).open(path)?;
            file.set_len(*position)?;
            file.sync_all()
        };
        cut().map_err(|error| failed("cut", path, &error))
    }

    /// Writes the newest journal into a new file and puts that in its place. Older ones were synced
    /// before a newer one was begun.
    pub(in crate::embedded) fn write_anew(&self) -> Result<()> {
        let Some((path, end)) = &self.newest_end else { return Ok(()) };
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(*end).read_to_end(&mut bytes));
        read.map_err(|error| failed("read", path, &error))?;
        durable::write(path, &bytes)
    }

    /// Compares with what was acknowledged. Journals without a group say nothing: all of them may
    /// be in the tables already, which the engine must be asked for.
    pub(in crate::embedded) fn check(
        &self,
        acknowledged: u64,
        emptied: Option<Emptied>,
    ) -> Result<()> {
        match (self.last_group, self.hollow.first()) {
            (Some(last), _) if last < acknowledged => Err(lost(last, acknowledged, self)),
            // Stores from before this was written down kept journals that they had emptied.
            (_, Some(path)) if emptied.is_some() => Err(StorageError::Corrupt(format!(
                "{} holds no group and is not the newest journal: it was emptied, and what was in \
                 it may be in no table. Put it back, or restore a backup",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Compares journals without any group with what is written down about that, and with the last
    /// group that is in the tables.
    pub(in crate::embedded) fn check_emptied(
        &self,
        emptied: Option<Emptied>,
        group: u64,
    ) -> Result<()> {
        let Some(emptied) = emptied.filter(|_| self.last_group.is_none()) else { return Ok(()) };
        // The engine began a newer one since that was written down. It may not have been used.
        if self.newest > emptied.journal || emptied == self.emptied(group) {
            return Ok(());
        }
        Err(StorageError::Corrupt(format!(
            "journal {}.jnl holds no group, and the tables reach group {group}: it was emptied, and \
             what was in it may be in no table. Put it back, or restore a backup",
            self.newest
        )))
    }

    /// What is to be written down about journals without a group, where `known` is what is.
    pub(in crate::embedded) fn next_emptied(&self, known: Option<Emptied>, group: u64) -> Emptied {
        match known {
            Some(known) if known.journal >= self.newest => known,
            _ if self.is_newest_in_use => Emptied::never(self.newest),
            _ => self.emptied(group),
        }
    }

    fn emptied(&self, group: u64) -> Emptied {
        Emptied { journal: self.newest, group }
    }

    /// Removes journals without a group that older versions left behind others. If they stayed,
    /// they would look like damage as soon as the newest is written to.
    pub(in crate::embedded) fn remove_hollow(&self) -> Result<()> {
        self.hollow.iter().try_for_each(|path| durable::remove(path))
    }
}

/// The message for acknowledged groups that are not there.
pub(in crate::embedded) fn lost(
    recovered: u64,
    acknowledged: u64,
    findings: &Findings,
) -> StorageError {
    let place = findings.unreadable.as_ref().map_or_else(String::new, |(path, position)| {
        format!(" ({} is unreadable from byte {position} on)", path.display())
    });
    StorageError::Corrupt(format!(
        "commits were acknowledged up to group {acknowledged}, but only those up to group \
         {recovered} can be read{place}: restore a backup, or repair explicitly"
    ))
}

/// Empties the journals of a lane whose records are all in tables. Otherwise the engine would read
/// and skip them at the next start, at more than a microsecond for each record. The newest stays:
/// the engine only restores its sequence numbers where it finds a journal.
pub(in crate::embedded) fn clear(lane: &Path) -> Result<()> {
    let mut journals = journals(lane)?;
    let newest = journals.pop();
    journals.iter().try_for_each(|(_, path)| durable::remove(path))?;
    let Some((_, path)) = newest else { return Ok(()) };
    let empty = || {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(0)?;
        file.sync_all()
    };
    empty().map_err(|error| failed("empty", &path, &error))
}

/// The number of the newest journal of a lane.
pub(in crate::embedded) fn newest(lane: &Path) -> Result<u64> {
    Ok(journals(lane)?.last().map_or(0, |(number, _)| *number))
}

/// The journals of a lane, with their numbers, in the order in which they were written.
fn journals(lane: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(lane).map_err(|error| failed("list", lane, &error))? {
        let path = entry.map_err(|error| failed("list", lane, &error))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (Some(number), true) = (number, path.extension().is_some_and(|ext| ext == "jnl")) {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

struct Batch {
    group: u64,
    sequence: u64,
    /// Its checksum is right.
    is_whole: bool,
    /// A partition of another lane.
    foreign: Option<PartitionId>,
}

/// Which of how many lanes a journal should be of.
#[derive(Clone, Copy)]
struct Expected {
    lane: usize,
    lanes: usize,
}

impl Expected {
    /// The partition of another lane that a record with this beginning belongs to.
    fn foreign(self, key: &[u8]) -> Option<PartitionId> {
        let id = match partition_of(key)? {
            SYSTEM => Family::Lsn.partition(key).ok()?,
            id => id,
        };
        (lane_of(id, self.lanes) != self.lane).then_some(id)
    }
}

/// The longest beginning of a key that tells its partition: the store's own for a partition's LSN.
const KEY_HEAD_BYTES: usize = 17;

struct Walk<R> {
    reader: R,
    position: u64,
    expected: Expected,
    /// Of what was read since the last batch's head.
    sum: Xxh3,
}

impl<R: BufRead> Walk<R> {
    /// The next batch; none at the end, which is the end of the file or its zero-filled rest.
    fn batch(&mut self) -> io::Result<Option<Batch>> {
        if self.reader.fill_buf()?.first().is_none_or(|tag| *tag == 0) {
            return Ok(None);
        }
        self.expect(&[1])?;
        let items = u32::from_le_bytes(self.array()?);
        let sequence = u64::from_le_bytes(self.array()?);
        self.sum.reset();
        let (mut group, mut foreign) = (None, None);
        for item in 0..items {
            match self.item(item == 0)? {
                Item::Group(number) => group = Some(number),
                Item::Record(other) => foreign = foreign.or(other),
            }
        }
        let sum = self.sum.digest();
        self.expect(&[3])?;
        let is_whole = u64::from_le_bytes(self.array()?) == sum;
        self.expect(TRAILER)?;
        let group = group.ok_or_else(|| wrong("a batch does not begin with its group number"))?;
        Ok(Some(Batch { group, sequence, is_whole, foreign }))
    }

    /// Skips an item but for its key; reads it if it must be the group number.
    fn item(&mut self, is_first: bool) -> io::Result<Item> {
        self.expect(&[2])?;
        let [_kind, packing] = self.array()?;
        self.skip(8)?;
        let key_bytes = u64::from(u16::from_le_bytes(self.array()?));
        let _value_bytes: [u8; 4] = self.array()?;
        let stored_bytes = u64::from(u32::from_le_bytes(self.array()?));
        if !is_first {
            let mut head = [0; KEY_HEAD_BYTES];
            let shown = usize::try_from(key_bytes).unwrap_or(usize::MAX).min(KEY_HEAD_BYTES);
            let head = head.get_mut(..shown).unwrap_or_default();
            self.read(head)?;
            let foreign = self.expected.foreign(head);
            self.skip(key_bytes - shown as u64 + stored_bytes)?;
            return Ok(Item::Record(foreign));
        }
        let key = group_key();
        if packing != 0 || key_bytes != key.len() as u64 || stored_bytes != 8 {
            return Err(wrong("a batch does not begin with its group number"));
        }
        self.expect(&key)?;
        Ok(Item::Group(u64::from_be_bytes(self.array()?)))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes)?;
        self.sum.update(bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn expect(&mut self, wanted: &[u8]) -> io::Result<()> {
        for byte in wanted {
            if self.array::<1>()? != [*byte] {
                return Err(wrong("not the shape of a batch"));
            }
        }
        Ok(())
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let buffer = self.reader.fill_buf()?;
            let most = usize::try_from(bytes).unwrap_or(usize::MAX);
            let skipped = buffer.get(..most).unwrap_or(buffer);
            if skipped.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.sum.update(skipped);
            let skipped = skipped.len();
            self.reader.consume(skipped);
            self.position += skipped as u64;
            bytes -= skipped as u64;
        }
        Ok(())
    }
}

enum Item {
    Group(u64),
    /// Any other one, and the partition of another lane that it belongs to.
    Record(Option<PartitionId>),
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

fn is_format(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
