//! Two stores that must agree: everything is done to both, and every answer is compared.
//!
//! Run the reference beside another store under any test to make that test a comparison of the two.
//! A disagreement is an error that names the call and both answers; nothing is chosen silently.
//!
//! Writes go to both stores one after the other under one lock, because the order of submission
//! decides. So a mirror is slow and not for production.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{
    Batch, Direction, KeyRange, Page, PartitionId, Record, Result, ScanLimit, Snapshot, Space,
    Status, Store, Ticket,
};

/// A pair of stores behind one face.
pub struct MirrorStore {
    first: Box<dyn Store>,
    second: Box<dyn Store>,
    order: Mutex<()>,
}

impl MirrorStore {
    /// Both stores must hold the same, best nothing.
    pub fn new(first: Box<dyn Store>, second: Box<dyn Store>) -> MirrorStore {
        MirrorStore { first, second, order: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MirrorStore {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        let _order = self.lock();
        let first = self.first.create_partitions(ids, start);
        same("create_partitions", first, self.second.create_partitions(ids, start))
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        let _order = self.lock();
        same("drop_partitions", self.first.drop_partitions(ids), self.second.drop_partitions(ids))
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        let _order = self.lock();
        same("partitions", self.first.partitions(), self.second.partitions())
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        let _order = self.lock();
        match (self.first.snapshot(partition), self.second.snapshot(partition)) {
            (Ok(first), Ok(second)) => {
                same("the snapshot's LSN", Ok(first.lsn()), Ok(second.lsn()))?;
                Ok(Box::new(MirrorSnapshot { first, second }))
            }
            (first, second) => {
                let lsn = |snapshot: Box<dyn Snapshot>| snapshot.lsn();
                same("snapshot", first.map(lsn), second.map(lsn))?;
                Err(StorageError::Corrupt("the stores disagree on a snapshot".to_owned()))
            }
        }
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        let _order = self.lock();
        let first = self.first.submit(partition, batch.clone());
        let second = self.second.submit(partition, batch);
        Ticket::resolved(same("submit", first.wait(), second.wait()))
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        let _order = self.lock();
        same("seal", self.first.seal(partition), self.second.seal(partition))
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        let _order = self.lock();
        same("unseal", self.first.unseal(partition), self.second.unseal(partition))
    }

    fn status(&self) -> Status {
        let (first, second) = (self.first.status(), self.second.status());
        Status { kind: "mirror", healthy: first.healthy && second.healthy, ..second }
    }

    fn close(&self) -> Result<()> {
        let _order = self.lock();
        same("close", self.first.close(), self.second.close())
    }
}

struct MirrorSnapshot {
    first: Box<dyn Snapshot>,
    second: Box<dyn Snapshot>,
}

impl Snapshot for MirrorSnapshot {
    fn lsn(&self) -> Lsn {
        self.first.lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        same("get", self.first.get(space, key), self.second.get(space, key))
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        same("get_many", self.first.get_many(space, keys), self.second.get_many(space, keys))
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        let first = self.first.scan(space, range, direction, limit);
        match (first, self.second.scan(space, range, direction, limit)) {
            // A dropped partition may answer for a moment from one of them.
            (Err(StorageError::PartitionGone(id)), _)
            | (_, Err(StorageError::PartitionGone(id))) => Err(StorageError::PartitionGone(id)),
            (first, second) => same("scan", first, second),
        }
    }
}

fn same<T: PartialEq + Debug>(call: &str, first: Result<T>, second: Result<T>) -> Result<T> {
    if first == second || either_gone(&first, &second) {
        return if first.is_err() { first } else { second };
    }
    Err(StorageError::Corrupt(format!("the stores disagree on {call}: {first:?}, {second:?}")))
}

/// A snapshot of a partition that was dropped may still answer, or not: both are allowed.
fn either_gone<T>(first: &Result<T>, second: &Result<T>) -> bool {
    let gone = |result: &Result<T>| matches!(result, Err(StorageError::PartitionGone(_)));
    gone(first) || gone(second)
}
