//! Resource ids for new items, without coordination between writers.
//!
//! A rid is 60 bits: the partition's range id in the upper 20, a counter in the lower 40. The
//! counter lives in memory; what must survive a restart is only that no rid is given out twice. So
//! every 1 024th write leaves a mark in the partition, in the same batch, that is 8 192 ahead of
//! the counter; after a restart counting goes on from the mark, or from the newest item if that is
//! later. Rids are also taken by writes that come to nothing, a failing script may take thousands;
//! so whoever finds the last mark that was committed less than 4 096 ahead leaves one as well. No
//! rid is committed that is not below a mark.
//!
//! A store may be open in two processes, each with a counter of its own. So the partition also has
//! a record that names the process that gives out its rids, the *holder*, and every batch with a
//! fresh rid expects that record unchanged. Another process that wants to create an item takes over
//! in the batch of that item: it expects holder and mark as it found them, names itself as the
//! holder, and counts on from the mark. What the former holder has under way conflicts then, and
//! is prepared again with a rid behind the new mark. To expect of each rid that there is no item
//! under it would say the same at a higher price: a search in the index for every create.

use std::sync::atomic::{AtomicU64, Ordering};

use partita_model::{Error, ErrorKind, Lsn, Result};
use partita_storage::{Batch, Direction, Record, ScanLimit, Snapshot, Space, StorageError};

use crate::keys;

const COUNTER_BITS: u32 = 40;
const MARK_EVERY: u64 = 1_024;
const MARK_AHEAD: u64 = 8 * MARK_EVERY;
const MARK_AHEAD_MIN: u64 = 4 * MARK_EVERY;

/// Gives out the resource ids of one partition.
#[derive(Debug, Default)]
pub(crate) struct RidSource {
    prefix: u64,
    /// 0: nobody has looked where to go on yet.
    next: AtomicU64,
    /// The last mark that is known to be in the store.
    marked: AtomicU64,
    /// The LSN at which this process became the holder; 0: it may not be.
    held: AtomicU64,
}

/// A fresh rid, and what the batch that uses it has to say about the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreshRid {
    pub(crate) rid: u64,
    hold: Hold,
    /// The mark to write with it, if it is time for one.
    mark: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// This process is the holder since this commit.
    Since(Lsn),
    /// This process becomes the holder. The LSNs are those of the records as they are now.
    Takes { process: u64, holder: Option<Lsn>, mark: Option<Lsn> },
}

/// What a commit did to the source of its rids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RidClaim {
    mark: Option<u64>,
    takes_over: bool,
}

impl RidClaim {
    /// What both did.
    pub(crate) fn and(self, other: RidClaim) -> RidClaim {
        let takes_over = self.takes_over || other.takes_over;
        RidClaim { mark: self.mark.max(other.mark), takes_over }
    }
}

impl FreshRid {
    /// Adds what the rid relies on to the batch that uses it.
    pub(crate) fn claim(&self, batch: &mut Batch) -> RidClaim {
        match self.hold {
            Hold::Since(lsn) => batch.expect_unchanged(Space::Meta, keys::rid_holder(), lsn),
            Hold::Takes { process, holder, mark } => {
                for (key, lsn) in [(keys::rid_holder(), holder), (keys::rid_mark(), mark)] {
                    match lsn {
                        Some(lsn) => batch.expect_unchanged(Space::Meta, key, lsn),
                        None => batch.expect_absent(Space::Meta, key),
                    }
                }
                batch.put(Space::Meta, keys::rid_holder(), process.to_be_bytes().to_vec());
            }
        }
        if let Some(mark) = self.mark {
            batch.put(Space::Meta, keys::rid_mark(), mark.to_be_bytes().to_vec());
        }
        RidClaim { mark: self.mark, takes_over: matches!(self.hold, Hold::Takes { .. }) }
    }
}

impl RidSource {
    pub(crate) fn new(range_id: u32) -> RidSource {
        RidSource { prefix: u64::from(range_id) << COUNTER_BITS, ..RidSource::default() }
    }

    /// The next rid. Who may not be the holder looks into the partition.
    pub(crate) fn take(&self, snapshot: &dyn Snapshot, process: u64) -> Result<FreshRid> {
        let hold = match self.held.load(Ordering::Acquire) {
            0 => self.look(snapshot, process)?,
            lsn => Hold::Since(Lsn(lsn)),
        };
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        if counter >> COUNTER_BITS != 0 {
            return Err(Error::internal("the partition has used up its resource ids"));
        }
        let is_near = counter + MARK_AHEAD_MIN > self.marked.load(Ordering::Relaxed);
        let is_time = counter % MARK_EVERY == 1 || matches!(hold, Hold::Takes { .. });
        let mark = (is_near || is_time).then_some(counter + MARK_AHEAD);
        Ok(FreshRid { rid: self.prefix | counter, hold, mark })
    }

    /// Takes note of what a commit did.
    pub(crate) fn committed(&self, lsn: Lsn, claim: RidClaim) {
        if let Some(mark) = claim.mark {
            self.marked.fetch_max(mark, Ordering::Relaxed);
        }
        if claim.takes_over {
            self.held.store(lsn.0, Ordering::Release);
        }
    }

    /// Takes note of a conflict; true if another process, or another writer of this one, became the
    /// holder. Then the rids that the batch took are not to be used.
    pub(crate) fn note_conflict(&self, error: &StorageError) -> bool {
        let StorageError::Conflict { space: Space::Meta, key } = error else { return false };
        let is_lost = *key == keys::rid_holder() || *key == keys::rid_mark();
        if is_lost {
            self.held.store(0, Ordering::Release);
        }
        is_lost
    }

    /// Finds out who is the holder, and where to go on if that is somebody else.
    fn look(&self, snapshot: &dyn Snapshot, process: u64) -> Result<Hold> {
        let holder = snapshot.get(Space::Meta, &keys::rid_holder())?;
        let own = holder.as_ref().filter(|holder| holder.value == process.to_be_bytes().as_slice());
        if let Some(own) = own.filter(|_| self.next.load(Ordering::Relaxed) != 0) {
            // What a transaction put there itself is not in the store yet.
            if own.lsn <= snapshot.lsn() {
                self.held.store(own.lsn.0, Ordering::Release);
            }
            return Ok(Hold::Since(own.lsn));
        }
        let mark = snapshot.get(Space::Meta, &keys::rid_mark())?;
        self.go_on_behind(mark.as_ref(), snapshot)?;
        let lsn = |record: Option<Record>| record.map(|record| record.lsn);
        Ok(Hold::Takes { process, holder: lsn(holder), mark: lsn(mark) })
    }

    fn go_on_behind(&self, mark: Option<&Record>, snapshot: &dyn Snapshot) -> Result<()> {
        let marked = match mark {
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
        self.marked.fetch_max(marked, Ordering::Relaxed);
        self.next.fetch_max(marked.max(after_newest), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use partita_storage::{MemoryStore, PartitionId, Store};

    use super::*;

    const HOME: PartitionId = PartitionId(1);

    fn store() -> MemoryStore {
        let store = MemoryStore::new();
        store.create_partitions(&[HOME], Lsn(0)).unwrap();
        store
    }

    /// A process with its own source of the partition's rids.
    struct Process<'a> {
        store: &'a MemoryStore,
        number: u64,
        source: RidSource,
    }

    impl<'a> Process<'a> {
        fn new(store: &'a MemoryStore, number: u64) -> Process<'a> {
            Process { store, number, source: RidSource::new(7) }
        }

        fn take(&self) -> FreshRid {
            let view = self.store.snapshot(HOME).unwrap();
            self.source.take(&*view, self.number).unwrap()
        }

        /// Files the rid, whatever is there; false if that would not be ours to do.
        fn commit(&self, fresh: FreshRid) -> bool {
            let mut batch = Batch::new();
            let claim = fresh.claim(&mut batch);
            batch.put(Space::Index, keys::rid(fresh.rid), vec![1]);
            match self.store.submit(HOME, batch).wait() {
                Ok(commit) => {
                    self.source.committed(commit.lsn, claim);
                    true
                }
                Err(error) => {
                    assert!(self.source.note_conflict(&error), "{error}");
                    false
                }
            }
        }
    }

    #[test]
    fn one_process_needs_one_more_try_at_most() {
        let store = store();
        let one = Process::new(&store, 1);
        let (first, second) = (one.take(), one.take());
        assert!(one.commit(first) && !one.commit(second), "both would become the holder");
        let (third, fourth) = (one.take(), one.take());
        assert!(one.commit(fourth) && one.commit(third));
        let mut rids = [first, second, third, fourth].map(|fresh| fresh.rid);
        rids.sort_unstable();
        assert!(rids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn two_processes_never_use_one_rid() {
        let store = store();
        let (one, other) = (Process::new(&store, 1), Process::new(&store, 2));
        let mut used = Vec::new();
        let write = |process: &Process<'_>, used: &mut Vec<u64>| {
            let fresh = (0..3).map(|_| process.take()).find(|fresh| process.commit(*fresh));
            used.push(fresh.expect("the other one writes nothing meanwhile").rid);
        };
        // Enough for each to pass the marks of the other.
        for round in 0..40_u64 {
            let process = if round.is_multiple_of(2) { &one } else { &other };
            (0..round * 40 + 1).for_each(|_| write(process, &mut used));
        }
        let count = used.len();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), count);
    }

    #[test]
    fn who_prepared_before_another_one_took_over_prepares_again() {
        let store = store();
        let (one, other) = (Process::new(&store, 1), Process::new(&store, 2));
        assert!(one.commit(one.take()));
        let (slow, also_slow) = (one.take(), other.take());
        assert!(other.commit(other.take()));
        assert!(!one.commit(slow), "another one gives out rids now");
        assert!(!other.commit(also_slow), "it would have become the holder a second time");
        let again = one.take();
        assert!(again.rid > slow.rid + MARK_AHEAD_MIN && one.commit(again));
    }

    #[test]
    fn a_restart_goes_on_behind_the_mark() {
        let store = store();
        let one = Process::new(&store, 1);
        (0..3_000).for_each(|_| assert!(one.commit(one.take())));
        let last = one.take().rid;
        // The same number may come up again; what counts is that nothing is remembered.
        for number in [1, 2] {
            let later = Process::new(&store, number);
            let fresh = later.take();
            assert!(fresh.rid > last && later.commit(fresh));
        }
    }
}
