//! What the simulated disk holds: partitions with the versions of their records.
//!
//! Every record keeps the versions that somebody may still see. A partition knows up to which LSN
//! it was *written*, up to which it was *synced*, and up to which snapshots may see it (*visible*).
//! After a crash versions above what survived are taken away again.
//!
//! This is a second reading of the storage contract, on purpose: it shares no code with the stores
//! that decide what a batch means.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use partita_model::Lsn;
use partita_storage::{
    Batch, Direction, Entry, Expect, KEY_BYTES_MAX, KeyRange, Page, Record, Result, ScanLimit,
    Space, StorageError, VALUE_BYTES_MAX, Write, counter,
};

/// One partition.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) written: Lsn,
    pub(super) synced: Lsn,
    pub(super) visible: Lsn,
    pub(super) sealed: bool,
    spaces: [BTreeMap<Bytes, Vec<Version>>; Space::ALL.len()],
    /// How many snapshots live at each LSN.
    snapshots: BTreeMap<Lsn, usize>,
}

/// What a key was from an LSN on: a value, or nothing.
#[derive(Clone, Debug)]
struct Version {
    lsn: Lsn,
    value: Option<Bytes>,
}

/// A change of one key.
pub(super) type Change = (Space, Bytes, Option<Bytes>);

impl Partition {
    pub(super) fn at(start: Lsn) -> Partition {
        Partition { written: start, synced: start, visible: start, ..Partition::default() }
    }

    /// What a batch comes to now, all batches written before included: its LSN and its changes.
    pub(super) fn decide(&self, batch: &Batch) -> Result<(Lsn, Vec<Change>)> {
        for expect in &batch.expects {
            let (Expect::Absent { space, key } | Expect::Unchanged { space, key, .. }) = expect;
            let wanted = match expect {
                Expect::Absent { .. } => None,
                Expect::Unchanged { lsn, .. } => Some(*lsn),
            };
            if self.get(*space, key, self.written).map(|record| record.lsn) != wanted {
                return Err(StorageError::Conflict { space: *space, key: key.clone() });
            }
        }
        let next = self.written.next();
        let lsn = batch.lsn_min.map_or(next, |least| next.max(least));
        let mut changes: BTreeMap<(usize, Bytes), Option<Bytes>> = BTreeMap::new();
        let mut sums: BTreeMap<(usize, Bytes), (Space, i64)> = BTreeMap::new();
        for write in &batch.writes {
            let (space, key, value) = match write {
                Write::Put { space, key, value } => (*space, key.clone(), Some(value.clone())),
                Write::Delete { space, key } => (*space, key.clone(), None),
                Write::Log { suffix, value } => {
                    let key = [&lsn.0.to_be_bytes()[..], suffix].concat();
                    (Space::Feed, key.into(), Some(value.clone().into()))
                }
                Write::Add { space, key, delta } => {
                    let place = (*space as usize, Bytes::from(key.clone()));
                    let sum = sums.entry(place).or_insert((*space, 0));
                    sum.1 = add(sum.1, *delta)?;
                    continue;
                }
            };
            check_size(space, &key, value.as_ref())?;
            if changes.insert((space as usize, key), value).is_some() {
                return Err(repeated(space));
            }
        }
        for ((at, key), (space, delta)) in sums {
            let before = self.get(space, &key, self.written);
            let before = before.map_or(Ok(0), |record| counter(&record.value))?;
            let sum = Some(Bytes::copy_from_slice(&add(before, delta)?.to_be_bytes()));
            if changes.insert((at, key), sum).is_some() {
                return Err(repeated(space));
            }
        }
        let change = |((at, key), value)| (Space::ALL[at], key, value);
        Ok((lsn, changes.into_iter().map(change).collect()))
    }

    /// Writes what was decided. Nobody sees it yet.
    pub(super) fn write(&mut self, lsn: Lsn, changes: &[Change]) {
        self.written = lsn;
        let seen = self.snapshots.keys().next().copied().unwrap_or(lsn);
        let seen = seen.min(self.visible).min(self.synced);
        for (space, key, value) in changes {
            let map = &mut self.spaces[*space as usize];
            let versions = map.entry(key.clone()).or_default();
            let needed = versions.iter().rposition(|version| version.lsn <= seen).unwrap_or(0);
            versions.drain(..needed);
            versions.push(Version { lsn, value: value.clone() });
            if versions.iter().all(|version| version.value.is_none()) {
                map.remove(key);
            }
        }
    }

    /// Takes away all that was written after an LSN.
    pub(super) fn cut(&mut self, last: Lsn) {
        for map in &mut self.spaces {
            map.retain(|_, versions| {
                versions.retain(|version| version.lsn <= last);
                versions.iter().any(|version| version.value.is_some())
            });
        }
        (self.written, self.synced, self.visible) = (last, last, last);
        self.sealed = false;
        self.snapshots.clear();
    }

    pub(super) fn get(&self, space: Space, key: &[u8], at: Lsn) -> Option<Record> {
        record(self.spaces[space as usize].get(key)?, at)
    }

    pub(super) fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
        at: Lsn,
    ) -> Page {
        let mut page = Page { entries: Vec::new(), more: false };
        if range.is_empty() {
            return page;
        }
        let bounds = (as_slice(&range.start), as_slice(&range.end));
        let mut entries = self.spaces[space as usize].range::<[u8], _>(bounds);
        let mut bytes = 0;
        loop {
            let next = match direction {
                Direction::Forward => entries.next(),
                Direction::Backward => entries.next_back(),
            };
            let Some((key, versions)) = next else { return page };
            let Some(record) = record(versions, at) else { continue };
            bytes += key.len() + record.value.len();
            let full = page.entries.len() >= limit.entries_max || bytes > limit.bytes_max;
            if full && !page.entries.is_empty() {
                page.more = true;
                return page;
            }
            page.entries.push(Entry { key: key.clone(), record });
        }
    }

    pub(super) fn hold(&mut self) -> Lsn {
        *self.snapshots.entry(self.visible).or_default() += 1;
        self.visible
    }

    pub(super) fn let_go(&mut self, lsn: Lsn) {
        if let Some(count) = self.snapshots.get_mut(&lsn) {
            *count -= 1;
            if *count == 0 {
                self.snapshots.remove(&lsn);
            }
        }
    }
}

fn record(versions: &[Version], at: Lsn) -> Option<Record> {
    let version = versions.iter().rev().find(|version| version.lsn <= at)?;
    Some(Record { lsn: version.lsn, value: version.value.clone()? })
}

fn check_size(space: Space, key: &[u8], value: Option<&Bytes>) -> Result<()> {
    if key.len() > KEY_BYTES_MAX || value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
        return Err(StorageError::BadBatch(format!("a key or value of {space:?} is too long")));
    }
    Ok(())
}

fn add(sum: i64, delta: i64) -> Result<i64> {
    sum.checked_add(delta).ok_or_else(|| StorageError::BadBatch("a counter overflows".to_owned()))
}

fn repeated(space: Space) -> StorageError {
    StorageError::BadBatch(format!("one key of {space:?} is changed twice"))
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
