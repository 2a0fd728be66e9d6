//! The store that forgets: everything in memory, for tests and throw-away runs.
//!
//! It is the reference for what the contract means, so it is written to be read. A partition is a
//! `BTreeMap` per space from a key to the key's *versions*; a snapshot is an LSN and sees of every
//! key the newest version that is not newer. Taking a snapshot copies nothing, and writers never
//! wait for it.
//!
//! Old versions are dropped as soon as no living snapshot can see them: a partition knows the LSNs
//! of its living snapshots, and writers leave a note for each version that they made obsolete while
//! somebody was looking.
//!
//! A batch is decided and applied by the thread that submits it, under the partition's lock, so its
//! ticket is resolved when `submit` returns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{
    Batch, Commit, Direction, Entry, KeyRange, Page, PartitionId, Record, Result, ScanLimit,
    Snapshot, Space, Status, Store, Ticket, Visit,
};
use crate::prepared::{Change, Entries, Prepared, record, value_of};
use crate::range::PageBuilder;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    partitions: RwLock<Partitions>,
    closed: Arc<AtomicBool>,
    commits: AtomicU64,
}

#[derive(Debug, Default)]
struct Partitions {
    living: BTreeMap<PartitionId, Arc<Partition>>,
    dropped: BTreeSet<PartitionId>,
}

#[derive(Debug)]
struct Partition {
    id: PartitionId,
    data: RwLock<Data>,
    /// How many snapshots live at each LSN. Locked only while `data` is locked, or alone.
    snapshots: Mutex<BTreeMap<Lsn, usize>>,
}

#[derive(Debug, Default)]
struct Data {
    lsn: Lsn,
    dropped: bool,
    sealed: bool,
    spaces: [BTreeMap<Bytes, Vec<Version>>; Space::ALL.len()],
    /// Keys that hold a version made obsolete by the commit with this LSN, oldest first.
    obsolete: VecDeque<(Lsn, Space, Bytes)>,
}

/// What a key was from an LSN on: a stored value, or nothing.
#[derive(Clone, Debug)]
struct Version {
    lsn: Lsn,
    stored: Option<Bytes>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(StorageError::Closed) } else { Ok(()) }
    }

    fn partition(&self, id: PartitionId) -> Result<Arc<Partition>> {
        self.check_open()?;
        let partitions = read(&self.partitions);
        partitions.living.get(&id).cloned().ok_or(StorageError::PartitionGone(id))
    }

    fn commit(&self, id: PartitionId, batch: Batch) -> Result<Commit> {
        let partition = self.partition(id)?;
        let commit = partition.commit(Prepared::new(&[], batch, Entries::Bare)?)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(commit)
    }
}

impl Store for MemoryStore {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        self.check_open()?;
        let mut partitions = write(&self.partitions);
        let mut fresh = BTreeSet::new();
        for id in ids {
            let known = partitions.living.contains_key(id) || partitions.dropped.contains(id);
            if known || *id == PartitionId::RESERVED || !fresh.insert(*id) {
                return Err(StorageError::PartitionExists(*id));
            }
        }
        for id in fresh {
            partitions.living.insert(id, Arc::new(Partition::new(id, start)));
        }
        Ok(())
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        self.check_open()?;
        let mut partitions = write(&self.partitions);
        for id in ids {
            if let Some(partition) = partitions.living.remove(id) {
                partitions.dropped.insert(*id);
                // A thread may have found the partition before: its batch must not be lost quietly.
                write(&partition.data).dropped = true;
            }
        }
        Ok(())
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        self.check_open()?;
        Ok(read(&self.partitions).living.keys().copied().collect())
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        let partition = self.partition(partition)?;
        let lsn = partition.register_snapshot()?;
        Ok(Box::new(MemorySnapshot { partition, lsn, closed: Arc::clone(&self.closed) }))
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        Ticket::resolved(self.commit(partition, batch))
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        self.partition(partition)?.set_sealed(true)
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        self.partition(partition)?.set_sealed(false).map(|_| ())
    }

    fn status(&self) -> Status {
        let commits = self.commits.load(Ordering::Relaxed);
        Status {
            kind: "memory",
            healthy: true,
            partitions: read(&self.partitions).living.len() as u64,
            lanes: 1,
            disk_bytes: 0,
            commits,
            groups: commits,
            durability: "none",
            ..Status::default()
        }
    }

    fn close(&self) -> Result<()> {
        self.check_open()?;
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Partition {
    fn new(id: PartitionId, start: Lsn) -> Partition {
        let data = RwLock::new(Data { lsn: start, ..Data::default() });
        Partition { id, data, snapshots: Mutex::default() }
    }

    fn commit(&self, prepared: Prepared) -> Result<Commit> {
        let mut data = write(&self.data);
        if data.dropped {
            return Err(StorageError::PartitionGone(self.id));
        }
        if data.sealed {
            return Err(StorageError::Sealed(self.id));
        }
        let lsn = prepared.lsn_after(data.lsn);
        let changes = prepared.decide(lsn, |space, key| data.current(space, key))?;
        // Nobody can register a snapshot while the data are locked for writing.
        let oldest = lock(&self.snapshots).keys().next().copied();
        data.lsn = lsn;
        for change in changes {
            data.apply(lsn, change, oldest.is_some());
        }
        data.prune(oldest.unwrap_or(lsn));
        Ok(Commit { lsn })
    }

    fn set_sealed(&self, sealed: bool) -> Result<Lsn> {
        let mut data = write(&self.data);
        if data.dropped {
            return Err(StorageError::PartitionGone(self.id));
        }
        data.sealed = sealed;
        Ok(data.lsn)
    }

    fn register_snapshot(&self) -> Result<Lsn> {
        let data = read(&self.data);
        if data.dropped {
            return Err(StorageError::PartitionGone(self.id));
        }
        *lock(&self.snapshots).entry(data.lsn).or_default() += 1;
        Ok(data.lsn)
    }

    fn forget_snapshot(&self, lsn: Lsn) {
        let mut snapshots = lock(&self.snapshots);
        if let Some(count) = snapshots.get_mut(&lsn) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&lsn);
            }
        }
    }
}

impl Data {
    fn space(&self, space: Space) -> &BTreeMap<Bytes, Vec<Version>> {
        &self.spaces[space as usize]
    }

    fn current(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        let newest = self.space(space).get(key).and_then(|versions| versions.last());
        let stored = newest.and_then(|version| version.stored.clone());
        stored.map(|stored| record(space, stored)).transpose()
    }

    /// Adds a version. Without observers the older one goes at once.
    fn apply(&mut self, lsn: Lsn, change: Change, observed: bool) {
        let map = &mut self.spaces[change.space as usize];
        // Copied: parts of the batch's buffers would keep all of it alive as long as one of them.
        let key = Bytes::copy_from_slice(&change.key);
        let stored = change.stored.map(|stored| Bytes::copy_from_slice(&stored));
        let version = Version { lsn, stored };
        match map.get_mut(&key) {
            None if version.stored.is_none() => {}
            None => {
                map.insert(key, vec![version]);
            }
            Some(versions) if observed => {
                versions.push(version);
                self.obsolete.push_back((lsn, change.space, key));
            }
            Some(_) if version.stored.is_none() => {
                map.remove(&key);
            }
            Some(versions) => *versions = vec![version],
        }
    }

    /// Drops the versions that no snapshot at or after `oldest` can see.
    fn prune(&mut self, oldest: Lsn) {
        while self.obsolete.front().is_some_and(|(lsn, ..)| *lsn <= oldest) {
            let Some((_, space, key)) = self.obsolete.pop_front() else { return };
            let map = &mut self.spaces[space as usize];
            let Some(versions) = map.get_mut(&key) else { continue };
            let visible = versions.iter().rposition(|version| version.lsn <= oldest).unwrap_or(0);
            versions.drain(..visible);
            if let [Version { stored: None, lsn }] = versions.as_slice()
                && *lsn <= oldest
            {
                map.remove(&key);
            }
        }
    }
}

/// One partition at one LSN.
#[derive(Debug)]
struct MemorySnapshot {
    partition: Arc<Partition>,
    lsn: Lsn,
    closed: Arc<AtomicBool>,
}

impl MemorySnapshot {
    fn data(&self) -> Result<RwLockReadGuard<'_, Data>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StorageError::Closed);
        }
        Ok(read(&self.partition.data))
    }

    fn visible(&self, space: Space, versions: &[Version]) -> Result<Option<Record>> {
        self.stored(versions).map(|stored| record(space, stored)).transpose()
    }

    fn stored(&self, versions: &[Version]) -> Option<Bytes> {
        versions.iter().rev().find(|version| version.lsn <= self.lsn)?.stored.clone()
    }
}

impl Snapshot for MemorySnapshot {
    fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        let data = self.data()?;
        data.space(space).get(key).map_or(Ok(None), |versions| self.visible(space, versions))
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        keys.iter().map(|key| self.get(space, key)).collect()
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        let data = self.data()?;
        let mut page = PageBuilder::new(limit);
        if range.is_empty() {
            return Ok(page.finish());
        }
        let bounds = (as_slice(&range.start), as_slice(&range.end));
        let mut entries = data.space(space).range::<[u8], _>(bounds);
        loop {
            let next = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some((key, versions)) = next else { break };
            let Some(record) = self.visible(space, versions)? else { continue };
            if !page.push(Entry { key: key.clone(), record }) {
                break;
            }
        }
        Ok(page.finish())
    }

    /// Some entries at a time: `visit` may read as well, and others want to write meanwhile.
    fn walk(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut rest = range.clone();
        while !rest.is_empty() {
            let found = self.some(space, &rest, direction)?;
            for (key, stored) in &found {
                if visit(key, value_of(space, stored)?).is_break() {
                    return Ok(());
                }
            }
            let Some((last, _)) = found.last().filter(|_| found.len() == WALK_ENTRIES) else {
                return Ok(());
            };
            let bound = Bound::Excluded(last.to_vec());
            *(if direction == Direction::Forward { &mut rest.start } else { &mut rest.end }) =
                bound;
        }
        Ok(())
    }
}

/// What a walk takes at a time.
const WALK_ENTRIES: usize = 256;

impl MemorySnapshot {
    /// The first entries of a range that is not empty, as they are stored.
    fn some(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let data = self.data()?;
        let mut entries =
            data.space(space).range::<[u8], _>((as_slice(&range.start), as_slice(&range.end)));
        let mut found = Vec::new();
        while found.len() < WALK_ENTRIES {
            let next = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some((key, versions)) = next else { break };
            found.extend(self.stored(versions).map(|stored| (key.clone(), stored)));
        }
        Ok(found)
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        self.partition.forget_snapshot(self.lsn);
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

// A panic while a lock is held is a defect of this file; it must not make every later call panic.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId(1);

    fn put(store: &MemoryStore, key: &[u8], value: &[u8]) {
        let mut batch = Batch::new();
        batch.put(Space::Items, key.to_vec(), value.to_vec());
        store.submit(P, batch).wait().unwrap();
    }

    fn delete(store: &MemoryStore, key: &[u8]) {
        let mut batch = Batch::new();
        batch.delete(Space::Items, key.to_vec());
        store.submit(P, batch).wait().unwrap();
    }

    fn versions(store: &MemoryStore) -> usize {
        let partition = store.partition(P).unwrap();
        let data = read(&partition.data);
        data.spaces.iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    #[test]
    fn versions_nobody_sees_are_dropped() {
        let store = MemoryStore::new();
        store.create_partitions(&[P], Lsn(0)).unwrap();
        put(&store, b"a", b"1");
        let snapshot = store.snapshot(P).unwrap();
        put(&store, b"a", b"2");
        put(&store, b"a", b"3");
        delete(&store, b"a");
        assert_eq!(snapshot.get(Space::Items, b"a").unwrap().unwrap().value, "1");
        assert_eq!(versions(&store), 4);
        drop(snapshot);
        put(&store, b"b", b"1");
        assert_eq!(versions(&store), 1);
    }

    #[test]
    fn a_key_deleted_and_put_again_while_observed_keeps_its_newest_version() {
        let store = MemoryStore::new();
        store.create_partitions(&[P], Lsn(0)).unwrap();
        put(&store, b"a", b"1");
        let snapshot = store.snapshot(P).unwrap();
        delete(&store, b"a");
        put(&store, b"a", b"2");
        drop(snapshot);
        put(&store, b"b", b"1");
        let now = store.snapshot(P).unwrap();
        assert_eq!(now.get(Space::Items, b"a").unwrap().unwrap().value, "2");
        assert_eq!(versions(&store), 2);
    }
}
