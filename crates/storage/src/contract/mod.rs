//! The storage contract: everything the database asks of the place where its bytes live.
//!
//! A *store* is a set of *partitions*. A partition is an ordered map of byte keys to byte values,
//! kept in a few *spaces* (one per family of keys, so that a store may tune each one), together
//! with one sequence number, its LSN. That is all a store knows: it has never heard of documents,
//! containers or indexes, and nothing above it knows which store it has.
//!
//! ```text
//!   snapshot(partition) ──► Snapshot: get, get_many, scan      immutable, cheap, Send
//!   submit(partition, Batch) ──► Ticket ──► Commit { lsn }     durable AND visible, or an error
//! ```
//!
//! What every implementor promises (`suite.rs` checks each sentence):
//!
//! - **Atomic.** A batch is applied whole or not at all, whatever happens to the process.
//! - **Durable, then visible.** A ticket resolves after the batch is on stable storage, and no
//!   snapshot shows a batch before that. A snapshot taken after a ticket resolved shows the batch.
//! - **In order.** Batches of one partition are decided in the order of their submission. Each
//!   committed batch gets the partition's next LSN, or the later one that it asks for: no reuse,
//!   and no gaps that nobody asked for, not even across a restart.
//! - **Optimistic.** A batch whose expectations do not hold changes nothing, takes no LSN, and
//!   resolves to [`StorageError::Conflict`]. An expectation sees all batches decided before it.
//! - **Stamped.** Every record carries the LSN of the commit that wrote it last. Only those of
//!   [`Space::Index`] without a value need not: theirs may be 0, so nobody can expect them to be
//!   unchanged.
//! - **Sealed.** A sealed partition commits nothing until it is unsealed or the store is reopened.
//!   When sealing is answered, all batches submitted before are decided; all that come after
//!   resolve to [`StorageError::Sealed`].
//! - **Poisoned.** After a failed write nothing more is accepted until the store is reopened
//!   ([`Store::reopen`], or a new process): what reached the disk is unknown, and guessing would
//!   break the promises above. Snapshots of before stay readable until then, and no longer.
//! - **Full.** A store whose disk has no room refuses batches with [`StorageError::DiskFull`]
//!   before it would have to fail, except those that free space ([`Batch::frees`]).
//!
//! The shape is made for remote stores too: reads come in batches, writes never block the caller,
//! and a ticket can be awaited by a task or waited for by a thread.

mod error;
mod ticket;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use partita_model::Lsn;

pub use error::StorageError;
pub use ticket::{Ticket, TicketSetter};

/// A result of the storage layer.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Names a partition. Never reused, also not after the partition was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u64);

impl PartitionId {
    /// The one id that cannot be had: stores keep their own records under it.
    pub const RESERVED: PartitionId = PartitionId(u64::MAX);
}

/// A family of keys within a partition. Each has its own order; keys of two spaces never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Large values, read by key and by range.
    Items,
    /// Many small entries: index terms.
    Index,
    /// Appended in LSN order ([`Batch::log`] writes here), read in ranges.
    Feed,
    /// Few small records: counters, catalog entries, marks.
    Meta,
}

impl Space {
    /// All spaces, in a fixed order.
    pub const ALL: [Space; 4] = [Space::Items, Space::Index, Space::Feed, Space::Meta];
}

/// A value and the LSN of the commit that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub lsn: Lsn,
    pub value: Bytes,
}

/// One step of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Bytes,
    pub record: Record,
}

/// In which order a scan walks its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// A range of keys within a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    pub start: Bound<Vec<u8>>,
    pub end: Bound<Vec<u8>>,
}

/// Where a page must end at the latest. A page holds at least one entry if the range has one, so
/// that a scan always gets on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    pub entries_max: usize,
    pub bytes_max: usize,
}

/// A part of a scan, in the asked direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// True if the range may hold more entries after the last one of this page.
    pub more: bool,
}

/// What a batch relies on. Checked by the store at the moment of the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No record has this key.
    Absent { space: Space, key: Vec<u8> },
    /// The record with this key exists and was last written by this LSN.
    Unchanged { space: Space, key: Vec<u8>, lsn: Lsn },
}

/// One change of one key. A batch changes a key at most once, except that [`Write::Add`] may
/// repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put {
        space: Space,
        key: Bytes,
        value: Bytes,
    },
    Delete {
        space: Space,
        key: Bytes,
    },
    /// Adds to a counter: a record of 8 bytes, an i64 big-endian; absent counts as 0. Commutes with
    /// other adds, so it needs no expectation. See [`counter`].
    Add {
        space: Space,
        key: Vec<u8>,
        delta: i64,
    },
    /// Files a record in [`Space::Feed`] under the LSN that this commit gets: the key is the LSN as
    /// 8 bytes big-endian followed by `suffix`.
    Log {
        suffix: Vec<u8>,
        value: Vec<u8>,
    },
}

/// A set of changes to one partition that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub expects: Vec<Expect>,
    pub writes: Vec<Write>,
    /// The commit gets this LSN if the partition's next one is lower.
    pub lsn_min: Option<Lsn>,
    /// The batch is there to delete: a store that is full takes it all the same.
    pub frees: bool,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn expect_absent(&mut self, space: Space, key: Vec<u8>) {
        self.expects.push(Expect::Absent { space, key });
    }

    pub fn expect_unchanged(&mut self, space: Space, key: Vec<u8>, lsn: Lsn) {
        self.expects.push(Expect::Unchanged { space, key, lsn });
    }

    pub fn put(&mut self, space: Space, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.writes.push(Write::Put { space, key: key.into(), value: value.into() });
    }

    pub fn delete(&mut self, space: Space, key: impl Into<Bytes>) {
        self.writes.push(Write::Delete { space, key: key.into() });
    }

    pub fn add(&mut self, space: Space, key: Vec<u8>, delta: i64) {
        self.writes.push(Write::Add { space, key, delta });
    }

    pub fn log(&mut self, suffix: Vec<u8>, value: Vec<u8>) {
        self.writes.push(Write::Log { suffix, value });
    }
}

/// What a ticket resolves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    pub lsn: Lsn,
}

/// Reads the value of a counter record.
pub fn counter(value: &[u8]) -> Result<i64> {
    let bytes: [u8; 8] = value
        .try_into()
        .map_err(|_| StorageError::Corrupt(format!("a counter of {} bytes", value.len())))?;
    Ok(i64::from_be_bytes(bytes))
}

/// The file system that a store lies on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// The store's directory.
    pub directory: String,
    pub total_bytes: u64,
    /// What is free for this process, beside what is held.
    pub free_bytes: u64,
    /// What must be left for new writes to be taken.
    pub reserve_bytes: u64,
    /// The part of the reserve that the store holds in a file, so that nobody else takes it.
    pub held_bytes: u64,
    pub level: DiskLevel,
}

impl Disk {
    /// How much of the file system is used by others and by data, from 0 to 1.
    pub fn used_share(&self) -> f64 {
        let left = self.free_bytes.saturating_add(self.held_bytes);
        let used = self.total_bytes.saturating_sub(left);
        used as f64 / self.total_bytes.max(1) as f64
    }
}

/// How full a disk is, by what a store still does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskLevel {
    #[default]
    Roomy,
    /// Nine tenths are used: everything is done, somebody should know.
    High,
    /// Batches that free no space are refused.
    Full,
    /// All batches are refused.
    Exhausted,
}

/// What a store tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `memory`, `embedded`, …
    pub kind: &'static str,
    /// False after a failed write: see the module's text.
    pub healthy: bool,
    /// Why batches are refused at the moment, in words.
    pub trouble: Option<String>,
    /// None: the store is on no disk, or nobody watches it.
    pub disk: Option<Disk>,
    /// How often the store was opened again.
    pub reopenings: u64,
    pub partitions: u64,
    pub lanes: u64,
    pub disk_bytes: u64,
    pub commits: u64,
    pub groups: u64,
    /// `sync`, `relaxed`, or `none` for a store in memory.
    pub durability: &'static str,
}

/// A place where partitions live. See the module's text for the promises.
pub trait Store: Send + Sync {
    /// Makes empty partitions, durably, all or none. An id that exists already (or was ever
    /// dropped) is [`StorageError::PartitionExists`]. A new partition is at LSN `start`: its first
    /// commit gets the one after.
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()>;

    /// Drops partitions with all they hold, durably. Unknown ids are ignored. Snapshots taken
    /// before stay readable for a moment or fail with [`StorageError::PartitionGone`].
    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()>;

    /// Gives back the space of dropped partitions, as far as it has not come back by itself. May
    /// wait for the disk: for a thread that has time.
    fn free_dropped(&self) -> Result<()> {
        Ok(())
    }

    /// All living partitions, in order.
    fn partitions(&self) -> Result<Vec<PartitionId>>;

    /// The partition as of now: all commits whose tickets have resolved, possibly some more.
    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>>;

    /// Hands a batch over. Returns at once; the answer is in the ticket. An unknown partition
    /// resolves to [`StorageError::PartitionGone`].
    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket;

    /// Lets a partition rest: answers its last LSN, after which nothing is committed until
    /// [`Store::unseal`] or reopening. It stays readable. Sealing twice is sealing once.
    fn seal(&self, partition: PartitionId) -> Result<Lsn>;

    /// Ends the rest of a partition. One that is not sealed stays as it is.
    fn unseal(&self, partition: PartitionId) -> Result<()>;

    /// How near the store is to making writers wait: 0 not at all, 1 now. Whoever has time to spare
    /// leaves room for others when it grows.
    fn pressure(&self) -> f64 {
        0.0
    }

    /// Whether batches that free no space are refused at the moment.
    fn is_full(&self) -> bool {
        false
    }

    /// Looks how much room there is on the disk. To be called several times a second by somebody
    /// who has time; without that the store looks when it writes.
    fn look_at_disk(&self) {}

    /// What the last look saw. None: the store is on no disk, or nobody watches it.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// Whether a write failed, so that nothing is accepted before [`Store::reopen`].
    fn is_stopped(&self) -> bool {
        false
    }

    /// After a failed write: lets go of everything, recovers what is on stable storage, and opens
    /// it. Snapshots from before fail from now on, and seals are forgotten. What the store holds
    /// can be read then; batches are refused until [`Store::resume`], so that the caller can first
    /// learn what became of those whose end is unknown. `seal` and `drop_partitions` work.
    ///
    /// An error means that it is to be called again; [`StorageError::Corrupt`], that it is not.
    fn reopen(&self) -> Result<()> {
        Err(StorageError::Settings("this store can only be reopened by a restart".to_owned()))
    }

    /// Accepts batches again after [`Store::reopen`].
    fn resume(&self) {}

    fn status(&self) -> Status;

    /// Finishes what was submitted, flushes, and lets go of the files. Afterwards every call
    /// answers [`StorageError::Closed`].
    fn close(&self) -> Result<()>;
}

/// A partition at one moment. Short-lived: hold it for one request's page, not longer.
pub trait Snapshot: Send + Sync {
    /// The LSN of the last commit this snapshot shows.
    fn lsn(&self) -> Lsn;

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>>;

    /// As many `get`s, in the order of the keys; one round trip for a remote store.
    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>>;

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page>;

    /// Shows the entries of a range one after another, until `visit` has seen enough. They are
    /// borrowed, nothing is gathered: this is for looking at very many of which few are kept.
    ///
    /// A store that has no better way reads pages.
    fn walk(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        const PAGE: ScanLimit = ScanLimit { entries_max: 1_000, bytes_max: 1 << 20 };
        let mut rest = range.clone();
        loop {
            let page = self.scan(space, &rest, direction, PAGE)?;
            for entry in &page.entries {
                if visit(&entry.key, &entry.record.value).is_break() {
                    return Ok(());
                }
            }
            let Some(last) = page.entries.last().filter(|_| page.more) else { return Ok(()) };
            let bound = Bound::Excluded(last.key.to_vec());
            match direction {
                Direction::Forward => rest.start = bound,
                Direction::Backward => rest.end = bound,
            }
        }
    }
}

/// A snapshot that several have.
impl<S: Snapshot + ?Sized> Snapshot for Arc<S> {
    fn lsn(&self) -> Lsn {
        (**self).lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        (**self).get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        (**self).get_many(space, keys)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        (**self).scan(space, range, direction, limit)
    }

    fn walk(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        (**self).walk(space, range, direction, visit)
    }
}

/// Sees one entry: its key and its value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;
