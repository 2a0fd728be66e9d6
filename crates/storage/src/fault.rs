//! A store that fails on purpose: errors, delays and crashes in an order that a seed decides.
//!
//! It wraps any store and gives the layers above what a disk may give them on a bad day:
//!
//! - a **failed write**: the ticket resolves to `Poisoned`, and so does everything after it.
//!   Whether the batch reached the inner store is decided by the seed too, because after a real
//!   failure nobody knows either;
//!   [`Store::reopen`] makes it good again, as a recovery would;
//! - a **full disk**, as long as it is told to have one;
//! - a **crash** at a chosen write: the same, but the store is gone (`Closed`), as after the end of
//!   the process. Wrap the inner store anew to "restart";
//! - a **failed read**: an `Io` error, once;
//! - **latency** before reads and writes.
//!
//! The same plan on the same calls fails in the same places.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{
    Batch, Direction, KeyRange, Page, PartitionId, Record, Result, ScanLimit, Snapshot, Space,
    Status, Store, Ticket,
};

/// Which faults, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    pub seed: u64,
    /// Of a thousand writes, so many fail (the first one poisons the store).
    pub failed_writes_per_mille: u64,
    /// Of a thousand reads, so many fail.
    pub failed_reads_per_mille: u64,
    /// The store ends at this write, counted from 1.
    pub crash_at_write: Option<u64>,
    /// Every call waits for up to this long.
    pub latency_micros_max: u64,
}

/// A store with faults.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
}

struct Faults {
    plan: Mutex<FaultPlan>,
    random: Mutex<u64>,
    writes: AtomicU64,
    /// Why the store answers nothing any more, or nothing for now.
    stopped: Mutex<Option<StorageError>>,
    is_full: AtomicBool,
    fails_next: AtomicBool,
    /// It was opened again, and does not take writes yet.
    is_reopened: AtomicBool,
    reopenings: AtomicU64,
    sealed: Mutex<BTreeSet<PartitionId>>,
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// The batch is lost; the caller hears of the failure.
    Lost,
    /// The batch is done; the caller hears of the failure all the same.
    DoneUnheard,
}

impl FaultStore {
    /// Wraps a store. The inner store stays usable by its owner, to look at it after a crash.
    pub fn new(inner: Arc<dyn Store>, plan: FaultPlan) -> FaultStore {
        let faults = Faults {
            plan: Mutex::new(plan),
            random: Mutex::new(plan.seed),
            writes: AtomicU64::new(0),
            stopped: Mutex::default(),
            is_full: AtomicBool::new(false),
            fails_next: AtomicBool::new(false),
            is_reopened: AtomicBool::new(false),
            reopenings: AtomicU64::new(0),
            sealed: Mutex::default(),
        };
        FaultStore { inner, faults: Arc::new(faults) }
    }

    /// Another plan from now on.
    pub fn set_plan(&self, plan: FaultPlan) {
        *self.faults.random.lock().unwrap_or_else(PoisonError::into_inner) = plan.seed;
        *self.faults.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// From now on the disk is full, or has room again.
    pub fn set_full(&self, is_full: bool) {
        self.faults.is_full.store(is_full, Ordering::Release);
    }

    /// The next write fails.
    pub fn fail_next_write(&self) {
        self.faults.fails_next.store(true, Ordering::Release);
    }

    fn write<T>(&self, write: impl FnOnce() -> T, failed: impl FnOnce(StorageError) -> T) -> T {
        match self.faults.next_write() {
            Ok(Fate::Done) => write(),
            Ok(Fate::Lost) => failed(self.faults.stop_reason()),
            Ok(Fate::DoneUnheard) => {
                drop(write());
                failed(self.faults.stop_reason())
            }
            Err(error) => failed(error),
        }
    }
}

impl Faults {
    /// A number below `limit`.
    fn below(&self, limit: u64) -> u64 {
        let mut state = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    fn plan(&self) -> FaultPlan {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> MutexGuard<'_, Option<StorageError>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sealed(&self) -> MutexGuard<'_, BTreeSet<PartitionId>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        *self.stopped() == Some(StorageError::Closed)
    }

    /// Whether anything is done.
    fn check(&self) -> Result<()> {
        match &*self.stopped() {
            None => Ok(()),
            Some(StorageError::Poisoned(reason)) => Err(StorageError::Stopped(reason.clone())),
            Some(other) => Err(other.clone()),
        }
    }

    /// Whether a batch is taken.
    fn check_batch(&self, frees: bool) -> Result<()> {
        if self.is_reopened.load(Ordering::Acquire) {
            return Err(StorageError::Stopped("it was opened again just now".to_owned()));
        }
        match self.is_full.load(Ordering::Acquire) && !frees {
            true => Err(StorageError::DiskFull("the disk was made to be full".to_owned())),
            false => Ok(()),
        }
    }

    fn stop_reason(&self) -> StorageError {
        self.stopped().clone().unwrap_or(StorageError::Closed)
    }

    fn delay(&self) {
        if self.plan().latency_micros_max > 0 {
            let micros = self.below(self.plan().latency_micros_max + 1);
            thread::sleep(Duration::from_micros(micros));
        }
    }

    fn next_write(&self) -> Result<Fate> {
        self.check()?;
        self.delay();
        let write = self.writes.fetch_add(1, Ordering::AcqRel) + 1;
        let failure = if self.plan().crash_at_write == Some(write) {
            StorageError::Closed
        } else if self.below(1000) < self.plan().failed_writes_per_mille
            || self.fails_next.swap(false, Ordering::AcqRel)
        {
            StorageError::Poisoned(format!("write {write} was made to fail"))
        } else {
            return Ok(Fate::Done);
        };
        // Another thread may have stopped the store already; then its reason stands.
        self.stopped().get_or_insert(failure);
        Ok(if self.below(2) == 0 { Fate::Lost } else { Fate::DoneUnheard })
    }

    fn next_read(&self) -> Result<()> {
        if self.is_closed() {
            return Err(StorageError::Closed);
        }
        self.delay();
        if self.below(1000) < self.plan().failed_reads_per_mille {
            return Err(StorageError::Io("a read was made to fail".to_owned()));
        }
        Ok(())
    }
}

impl Store for FaultStore {
    fn create_partitions(&self, ids: &[PartitionId], start: Lsn) -> Result<()> {
        self.faults.check_batch(false)?;
        self.write(|| self.inner.create_partitions(ids, start), Err)
    }

    fn drop_partitions(&self, ids: &[PartitionId]) -> Result<()> {
        self.write(|| self.inner.drop_partitions(ids), Err)
    }

    fn free_dropped(&self) -> Result<()> {
        self.inner.free_dropped()
    }

    fn partitions(&self) -> Result<Vec<PartitionId>> {
        self.faults.next_read()?;
        self.inner.partitions()
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>> {
        self.faults.next_read()?;
        let opening = self.faults.reopenings.load(Ordering::Acquire);
        let inner = self.inner.snapshot(partition)?;
        Ok(Box::new(FaultSnapshot { inner, faults: Arc::clone(&self.faults), opening }))
    }

    fn submit(&self, partition: PartitionId, batch: Batch) -> Ticket {
        let refuse = |error| Ticket::resolved(Err(error));
        if let Err(error) = self.faults.check().and_then(|()| self.faults.check_batch(batch.frees))
        {
            return refuse(error);
        }
        self.write(|| self.inner.submit(partition, batch), refuse)
    }

    fn seal(&self, partition: PartitionId) -> Result<Lsn> {
        self.faults.check()?;
        self.faults.sealed().insert(partition);
        self.inner.seal(partition)
    }

    fn unseal(&self, partition: PartitionId) -> Result<()> {
        self.faults.check()?;
        self.faults.sealed().remove(&partition);
        self.inner.unseal(partition)
    }

    fn pressure(&self) -> f64 {
        self.inner.pressure()
    }

    fn is_full(&self) -> bool {
        self.faults.is_full.load(Ordering::Acquire)
    }

    fn is_stopped(&self) -> bool {
        let is_poisoned = matches!(*self.faults.stopped(), Some(StorageError::Poisoned(_)));
        is_poisoned || self.faults.is_reopened.load(Ordering::Acquire)
    }

    fn reopen(&self) -> Result<()> {
        let mut stopped = self.faults.stopped();
        match &*stopped {
            None => return Ok(()),
            Some(StorageError::Poisoned(_)) => {}
            Some(other) => return Err(other.clone()),
        }
        if self.is_full() {
            return Err(StorageError::DiskFull("the disk was made to be full".to_owned()));
        }
        for partition in std::mem::take(&mut *self.faults.sealed()) {
            // It may have been dropped.
            drop(self.inner.unseal(partition));
        }
        self.faults.reopenings.fetch_add(1, Ordering::AcqRel);
        self.faults.is_reopened.store(true, Ordering::Release);
        *stopped = None;
        Ok(())
    }

    fn resume(&self) {
        self.faults.is_reopened.store(false, Ordering::Release);
    }

    fn status(&self) -> Status {
        let (inner, refused) = (self.inner.status(), self.faults.check());
        Status {
            kind: "fault",
            healthy: inner.healthy && refused.is_ok(),
            trouble: refused.err().map(|error| error.to_string()),
            reopenings: self.faults.reopenings.load(Ordering::Acquire),
            ..inner
        }
    }

    fn close(&self) -> Result<()> {
        if self.faults.is_closed() {
            return Err(StorageError::Closed);
        }
        self.inner.close()
    }
}

struct FaultSnapshot {
    inner: Box<dyn Snapshot>,
    faults: Arc<Faults>,
    opening: u64,
}

impl FaultSnapshot {
    fn check(&self) -> Result<()> {
        if self.opening != self.faults.reopenings.load(Ordering::Acquire) {
            return Err(StorageError::Reopened);
        }
        self.faults.next_read()
    }
}

impl Snapshot for FaultSnapshot {
    fn lsn(&self) -> Lsn {
        self.inner.lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        self.check()?;
        self.inner.get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        self.check()?;
        self.inner.get_many(space, keys)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        self.check()?;
        self.inner.scan(space, range, direction, limit)
    }
}
