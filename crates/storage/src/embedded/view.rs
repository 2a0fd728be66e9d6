//! What readers see: a lane at the moment after a group.
//!
//! A snapshot that is taken from the engine while a batch is being applied can show half of it: a
//! flush or a compaction that ends in that moment moves the engine's horizon over the unfinished
//! batch. Therefore **only the committer takes snapshots**, between two groups, when nothing is
//! half done, and publishes each as a [`View`]; readers share the newest one. That is also what
//! makes a commit visible only when it is durable.
//!
//! A view carries the LSN of every partition at that moment ([`Lsns`]), so that a snapshot's LSN
//! and its data cannot disagree.
//!
//! A view keeps alive what the engine would otherwise free: old memtables and tables. Held for 60
//! seconds under load it cost 2 GB and a stall of 3 seconds. So a reader keeps a snapshot for one
//! page or one transaction, a second or two at most; a long scan takes a new one and continues by
//! key.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use bytes::Bytes;
use fjall::{Keyspace, Readable, Slice};
use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{
    Direction, Entry, KeyRange, Page, PartitionId, Record, Result, ScanLimit, Snapshot, Space,
    Visit,
};
use crate::embedded::health::Health;
use crate::embedded::index_memtable::{Merge, Run, Runs};
use crate::embedded::keys::{PREFIX_BYTES, stored_key, stored_range};
use crate::embedded::row_cache::RowCache;
use crate::prepared::{record, value_of};
use crate::range::PageBuilder;

/// The keyspaces of a lane.
pub(super) struct Spaces {
    pub(super) keyspaces: [Keyspace; Space::ALL.len()],
    /// For changes of the index that are not sorted in yet; see `index_memtable/`.
    pub(super) pending: Option<Keyspace>,
    /// How large each one's write buffer may grow.
    pub(super) buffer_bytes: [u64; Space::ALL.len()],
    /// How much is gathered there before it is sorted in.
    pub(super) sort_bytes: usize,
    /// How much memory the engine's write buffers may take together; see `compactor/pressure.rs`.
    pub(super) buffer_bytes_max: Option<u64>,
    pub(super) row_cache: RowCache,
}

impl Spaces {
    pub(super) fn get(&self, space: Space) -> &Keyspace {
        &self.keyspaces[space as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Keyspace> {
        self.keyspaces.iter().chain(&self.pending)
    }
}

/// A partition in its lane.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its place in [`Lsns`].
    pub(super) slot: usize,
    /// It takes no batches for now.
    pub(super) sealed: bool,
    /// Set when the partition is dropped, for snapshots that are still held.
    pub(super) gone: Arc<AtomicBool>,
}

/// A lane at one moment.
pub(super) struct View {
    /// Of the store: see [`Health`].
    pub(super) opening: u64,
    pub(super) snapshot: fjall::Snapshot,
    /// The last group that it shows.
    pub(super) group: u64,
    /// What is above the snapshot of the index.
    pub(super) runs: Runs,
    pub(super) spaces: Arc<Spaces>,
    pub(super) members: Arc<HashMap<PartitionId, Member>>,
    pub(super) lsns: Lsns,
}

impl View {
    /// The bytes of the lane that are in buffers and journals only, about.
    /// All write buffers together have so many at most: a full one may be small.
    pub(super) fn unwritten_bytes(&self, buffer_bytes: u64) -> u64 {
        let pending: usize = self.runs.iter().map(|run| run.size_bytes()).sum();
        self.spaces.buffered_bytes().min(buffer_bytes) + pending as u64
    }

    /// The record with this stored key.
    pub(super) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        if space == Space::Index
            && let Some(stored) = self.runs.iter().find_map(|run| run.find(key))
        {
            let own = |stored: &[u8]| record(space, Bytes::copy_from_slice(stored));
            return stored.map(own).transpose();
        }
        let stored = match space {
            Space::Items => self.find_item(key)?,
            _ => self.find(space, key)?,
        };
        stored.map(|stored| record(space, stored)).transpose()
    }

    /// What the engine has stored under a key.
    pub(super) fn find(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.snapshot.get(self.spaces.get(space), key).map_err(engine_error)?;
        Ok(found.map(Bytes::from))
    }

    fn find_item(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let row_cache = &self.spaces.row_cache;
        if let Some(known) = row_cache.get(key, self.group) {
            return Ok(known);
        }
        let found = self.find(Space::Items, key)?;
        row_cache.keep(key, found.as_deref(), self.group);
        Ok(found)
    }

    /// Takes the stored entries of a range of stored keys one after another, until `take` has
    /// enough.
    pub(super) fn each(
        &self,
        space: Space,
        range: KeyRange,
        direction: Direction,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let runs: &[Arc<Run>] = if space == Space::Index { &self.runs } else { &[] };
        each(&self.snapshot, self.spaces.get(space), runs, range, direction, take)
    }
}

const CHUNK: usize = 64;

/// The LSN of every partition of a lane. Cloning shares all chunks; a change copies one of them, so
/// a view costs little even with thousands of partitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Lsns {
    chunks: Vec<Arc<[Lsn; CHUNK]>>,
    len: usize,
}

impl Lsns {
    /// Adds a partition and returns its slot.
    pub(super) fn push(&mut self, lsn: Lsn) -> usize {
        let slot = self.len;
        if slot / CHUNK == self.chunks.len() {
            self.chunks.push(Arc::new([Lsn(0); CHUNK]));
        }
        self.len += 1;
        self.set(slot, lsn);
        slot
    }

    pub(super) fn get(&self, slot: usize) -> Lsn {
        self.chunks[slot / CHUNK][slot % CHUNK]
    }

    pub(super) fn set(&mut self, slot: usize, lsn: Lsn) {
        Arc::make_mut(&mut self.chunks[slot / CHUNK])[slot % CHUNK] = lsn;
    }
}

/// One partition in a view.
pub(super) struct EmbeddedSnapshot {
    view: Arc<View>,
    health: Arc<Health>,
    partition: PartitionId,
    gone: Arc<AtomicBool>,
    lsn: Lsn,
}

impl EmbeddedSnapshot {
    pub(super) fn new(
        view: Arc<View>,
        health: Arc<Health>,
        partition: PartitionId,
    ) -> Result<EmbeddedSnapshot> {
        health.check_opening(view.opening)?;
        let member = view.members.get(&partition).ok_or(StorageError::PartitionGone(partition))?;
        let (lsn, gone) = (view.lsns.get(member.slot), Arc::clone(&member.gone));
        Ok(EmbeddedSnapshot { view, health, partition, gone, lsn })
    }

    /// Takes the stored entries of a range one after another, until `take` has enough.
    fn each(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        take: &mut Take<'_>,
    ) -> Result<()> {
        self.check()?;
        if range.is_empty() {
            return Ok(());
        }
        self.view.each(space, stored_range(self.partition, range), direction, take)?;
        self.check()
    }

    /// Asked after each read: the partition may have been dropped during it, and its data with it.
    fn check(&self) -> Result<()> {
        self.health.check_opening(self.view.opening)?;
        if self.gone.load(atomic::Ordering::Acquire) {
            return Err(StorageError::PartitionGone(self.partition));
        }
        Ok(())
    }
}

impl Snapshot for EmbeddedSnapshot {
    fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        let found = self.view.get(space, &stored_key(self.partition, key));
        self.check()?;
        found
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        let mut stored_key = stored_key(self.partition, &[]);
        let mut get = |key: &Vec<u8>| {
            stored_key.truncate(PREFIX_BYTES);
            stored_key.extend_from_slice(key);
            self.view.get(space, &stored_key)
        };
        let found = keys.iter().map(&mut get).collect();
        self.check()?;
        found
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        let mut page = PageBuilder::new(limit);
        self.each(space, range, direction, &mut |key, stored| {
            let key = key.into_bytes().slice(PREFIX_BYTES..);
            let record = record(space, stored.into_bytes())?;
            let taken = page.push(Entry { key, record });
            Ok(if taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(page.finish())
    }

    fn walk(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.each(space, range, direction, &mut |key, stored| {
            let key = key.as_bytes().get(PREFIX_BYTES..).unwrap_or_default();
            Ok(visit(key, value_of(space, stored.as_bytes())?))
        })
    }
}

/// A key or a value on its way to a reader: of the engine, or of a run.
pub(super) enum Piece<'a> {
    Engine(Slice),
    Run(&'a [u8]),
}

impl Piece<'_> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Piece::Engine(slice) => slice,
            Piece::Run(bytes) => bytes,
        }
    }

    /// A copy of what a run has: whoever keeps it is not to keep the run.
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Piece::Engine(slice) => Bytes::from(slice),
            Piece::Run(bytes) => Bytes::copy_from_slice(bytes),
        }
    }
}

/// Takes a stored key and its stored value.
pub(super) type Take<'a> = dyn FnMut(Piece<'_>, Piece<'_>) -> Result<ControlFlow<()>> + 'a;

/// What the engine's snapshot and the runs above it have in a range, in order.
pub(super) fn each(
    snapshot: &fjall::Snapshot,
    keyspace: &Keyspace,
    runs: &[Arc<Run>],
    range: KeyRange,
    direction: Direction,
    take: &mut Take<'_>,
) -> Result<()> {
    let mut above = Merge::new(runs.iter().map(Arc::as_ref), &range, direction);
    let mut below = snapshot.range(keyspace, (range.start, range.end));
    let mut next_below = || {
        let next = match direction {
            Direction::Forward => below.next(),
            Direction::Backward => below.next_back(),
        };
        next.map(|next| next.into_inner().map_err(engine_error)).transpose()
    };
    let mut next_above = above.next();
    if next_above.is_none() {
        while let Some((key, stored)) = next_below()? {
            if take(Piece::Engine(key), Piece::Engine(stored))?.is_break() {
                return Ok(());
            }
        }
        return Ok(());
    }
    let mut found = next_below()?;
    loop {
        let order = match (&next_above, &found) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(entry), Some((key, _))) => match direction {
                Direction::Forward => entry.key.cmp(key),
                Direction::Backward => entry.key.cmp(key).reverse(),
            },
        };
        // What is above comes first, or hides what is below.
        let taken = match (next_above, order) {
            (Some(entry), Ordering::Less | Ordering::Equal) => {
                next_above = above.next();
                if order == Ordering::Equal {
                    found = next_below()?;
                }
                let Some(stored) = entry.stored else { continue };
                take(Piece::Run(entry.key), Piece::Run(stored))?
            }
            _ => {
                let Some((key, stored)) = found.take() else { return Ok(()) };
                let taken = take(Piece::Engine(key), Piece::Engine(stored))?;
                if taken.is_continue() {
                    found = next_below()?;
                }
                taken
            }
        };
        if taken.is_break() {
            return Ok(());
        }
    }
}

/// What an error of the engine means to us.
pub(super) fn engine_error(error: fjall::Error) -> StorageError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            StorageError::io("the engine", &error)
        }
        fjall::Error::Locked => {
            StorageError::Settings("a lane of the store is in use by another process".to_owned())
        }
        fjall::Error::Poisoned => StorageError::Poisoned("the engine stopped".to_owned()),
        error => StorageError::Corrupt(format!("the engine: {error:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_its_numbers_when_the_original_moves_on() {
        let mut lsns = Lsns::default();
        for number in 0..200 {
            assert_eq!(lsns.push(Lsn(number)), usize::try_from(number).unwrap());
        }
        let before = lsns.clone();
        lsns.set(150, Lsn(9_999));
        assert_eq!((before.get(150), lsns.get(150)), (Lsn(150), Lsn(9_999)));
        assert!(Arc::ptr_eq(&before.chunks[0], &lsns.chunks[0]), "untouched chunks are shared");
    }
}
