//! Resource ids for new items, without coordination.
//!
//! A rid is 60 bits: the partition's range id in the upper 20, a counter in the lower 40. The
//! counter lives in memory; what must survive a restart is only that no rid is given out twice. So
//! every 1 024th write leaves a mark in the partition, in the same batch, that is 8 192 ahead of
//! the counter; after a restart counting goes on from the mark, or from the newest item if that is
//! later. Rids are also taken by writes that come to nothing, a failing script may take thousands;
//! so whoever finds the last mark that was committed less than 4 096 ahead leaves one as well. No
//! rid is committed that is not below a mark.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use partita_model::{Error, ErrorKind, Result};
use partita_storage::{Direction, ScanLimit, Snapshot, Space};

use crate::keys;

const COUNTER_BITS: u32 = 40;
const MARK_EVERY: u64 = 1_024;
const MARK_AHEAD: u64 = 8 * MARK_EVERY;
const MARK_AHEAD_MIN: u64 = 4 * MARK_EVERY;

/// Gives out the resource ids of one partition.
#[derive(Debug)]
pub(crate) struct RidSource {
    prefix: u64,
    counter: OnceLock<Counter>,
}

#[derive(Debug)]
struct Counter {
    next: AtomicU64,
    /// The last mark that is known to be in the store.
    marked: AtomicU64,
}

/// A fresh rid, and the mark to write with it if it is time for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreshRid {
    pub(crate) rid: u64,
    pub(crate) mark: Option<u64>,
}

impl RidSource {
    pub(crate) fn new(range_id: u32) -> RidSource {
        RidSource { prefix: u64::from(range_id) << COUNTER_BITS, counter: OnceLock::new() }
    }

    /// The next rid. The first call after a start looks into the partition where to go on.
    pub(crate) fn take(&self, snapshot: &dyn Snapshot) -> Result<FreshRid> {
        let Counter { next, marked } = match self.counter.get() {
            Some(counter) => counter,
            None => {
                let counter = self.resume(snapshot)?;
                self.counter.get_or_init(|| counter)
            }
        };
        let counter = next.fetch_add(1, Ordering::Relaxed);
        if counter >> COUNTER_BITS != 0 {
            return Err(Error::internal("the partition has used up its resource ids"));
        }
        let is_near = counter + MARK_AHEAD_MIN > marked.load(Ordering::Relaxed);
        let mark = (counter % MARK_EVERY == 1 || is_near).then_some(counter + MARK_AHEAD);
        Ok(FreshRid { rid: self.prefix | counter, mark })
    }

    /// Takes note of a mark that was committed.
    pub(crate) fn committed(&self, mark: Option<u64>) {
        if let (Some(counter), Some(mark)) = (self.counter.get(), mark) {
            counter.marked.fetch_max(mark, Ordering::Relaxed);
        }
    }

    fn resume(&self, snapshot: &dyn Snapshot) -> Result<Counter> {
        let marked = match snapshot.get(Space::Meta, &keys::rid_mark())? {
            Some(record) => {
                <[u8; 8]>::try_from(record.value.as_ref()).map(u64::from_be_bytes).map_err(
                    |_| Error::new(ErrorKind::Corrupt, "the mark of resource ids is damaged"),
                )?
            }
            None => 1,
        };
        let limit = ScanLimit { entries_max: 1, bytes_max: usize::MAX };
        let newest = snapshot.scan(Space::Index, &keys::all_rids(), Direction::Backward, limit)?;
        let after_newest = match newest.entries.first().and_then(|e| keys::entry_rid(&e.key)) {
            Some(rid) => (rid & ((1 << COUNTER_BITS) - 1)) + 1,
            None => 1,
        };
        let next = AtomicU64::new(marked.max(after_newest));
        Ok(Counter { next, marked: AtomicU64::new(marked) })
    }
}
