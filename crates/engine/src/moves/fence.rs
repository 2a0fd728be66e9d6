//! How writers wait while a partition is sealed: as futures, without a thread or a lock.
//!
//! The one who seals announces it here first and takes it back last, so a writer that was refused
//! finds either the announcement, and waits for its end, or its end, and looks where things are
//! now. Waking is for all: each looks for itself.
//!
//! Writers can also be *held* for a moment before they begin, so that a move that follows them gets
//! nearer: see `Database::catch_up`. Nothing depends on that, and nobody is held twice in a row.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use partita_model::{Error, Result};
use partita_storage::{PartitionId, StorageError, Store};

use super::Moves;
use crate::catalog::Container;

/// The partitions that are sealed for a cutover, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct Fences {
    state: Mutex<FenceState>,
    /// Somebody may be held: all that most writers have to look at.
    holds: AtomicBool,
}

#[derive(Debug, Default)]
struct FenceState {
    closed: HashSet<PartitionId>,
    /// Their writers are held before they begin.
    held: HashSet<PartitionId>,
    /// Counts openings.
    openings: u64,
    waiting: Vec<Waker>,
}

impl Fences {
    fn state(&self) -> MutexGuard<'_, FenceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the writers of these partitions until the answer is dropped.
    pub(super) fn hold(&self, ids: Vec<PartitionId>) -> Hold<'_> {
        self.state().held.extend(&ids);
        self.holds.store(true, Ordering::Release);
        Hold { fences: self, ids }
    }

    /// Waits once, if the partition's writers are held.
    pub(super) async fn pass(&self, id: PartitionId) {
        if !self.holds.load(Ordering::Acquire) {
            return;
        }
        let openings = {
            let state = self.state();
            state.held.contains(&id).then_some(state.openings)
        };
        if let Some(openings) = openings {
            self.opened_since(openings).await;
        }
    }

    fn close(&self, ids: &[PartitionId]) {
        self.state().closed.extend(ids);
    }

    fn open(&self, ids: &[PartitionId]) {
        let waiting = {
            let mut state = self.state();
            state.closed.retain(|id| !ids.contains(id));
            state.wake()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    fn release(&self, ids: &[PartitionId]) {
        let waiting = {
            let mut state = self.state();
            state.held.retain(|id| !ids.contains(id));
            self.holds.store(!state.held.is_empty(), Ordering::Release);
            state.wake()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The number of openings so far if the partition is closed now.
    fn closed(&self, id: PartitionId) -> Option<u64> {
        let state = self.state();
        state.closed.contains(&id).then_some(state.openings)
    }

    /// Waits until something was opened since.
    async fn opened_since(&self, openings: u64) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.openings != openings {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl FenceState {
    /// Notes an opening; those who wait for one.
    fn wake(&mut self) -> Vec<Waker> {
        self.openings += 1;
        std::mem::take(&mut self.waiting)
    }
}

/// Partitions whose writers are held; let go when dropped.
pub(super) struct Hold<'a> {
    fences: &'a Fences,
    ids: Vec<PartitionId>,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.fences.release(&self.ids);
    }
}

/// Sealed partitions. Whatever happens, when this goes the writers are woken; and if the sources
/// are still theirs, they can write again.
pub(super) struct Fence<'a> {
    store: &'a dyn Store,
    fences: &'a Fences,
    ids: Vec<PartitionId>,
    /// The catalog may say by now that the data live elsewhere: a write would be lost.
    pub(super) stays_sealed: bool,
}

impl<'a> Fence<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        fences: &'a Fences,
        ids: Vec<PartitionId>,
    ) -> Fence<'a> {
        fences.close(&ids);
        Fence { store, fences, ids, stays_sealed: false }
    }
}

impl Drop for Fence<'_> {
    fn drop(&mut self) {
        if !self.stays_sealed {
            for id in &self.ids {
                if let Err(error) = self.store.unseal(*id) {
                    tracing::warn!(%error, "a partition stays sealed");
                }
            }
        }
        self.fences.open(&self.ids);
    }
}

impl Moves {
    /// The container as it is after the move that a write ran into, once that has ended. Any other
    /// error of the write is returned.
    pub(crate) async fn after_move(
        &self,
        known: &Container,
        refused: StorageError,
    ) -> Result<Arc<Container>> {
        let (StorageError::Sealed(id) | StorageError::PartitionGone(id)) = refused else {
            return Err(refused.into());
        };
        loop {
            // Asked before the catalog: what opens in between is not missed.
            let closed = self.fences.closed(id);
            let current = self.core.container_by_rid(known.rid);
            let current = current.ok_or_else(|| Error::from(refused.clone()))?;
            let lives_on = current.epoch > known.epoch;
            match closed {
                Some(openings) if !lives_on => self.fences.opened_since(openings).await,
                None if !lives_on && matches!(refused, StorageError::PartitionGone(_)) => {
                    return Err(refused.into());
                }
                _ => return Ok(current),
            }
        }
    }

    /// Waits for a moment if the partition's writers are asked to, before a write begins.
    pub(crate) async fn give_way(&self, id: PartitionId) {
        self.fences.pass(id).await;
    }

    /// Is a partition sealed for a cutover at this moment?
    pub(crate) fn is_fenced(&self, id: PartitionId) -> bool {
        self.fences.closed(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::block_on;
    use partita_model::Lsn;
    use partita_storage::MemoryStore;
    use std::thread;

    const P: PartitionId = PartitionId(1);

    #[test]
    fn writers_are_held_until_they_are_let_go_and_others_are_not() {
        let fences = Fences::default();
        block_on(fences.pass(P));
        let hold = fences.hold(vec![P]);
        block_on(fences.pass(PartitionId(2)));
        thread::scope(|scope| {
            let held = [0; 4].map(|_| scope.spawn(|| block_on(fences.pass(P))));
            while fences.state().waiting.len() < held.len() {
                thread::yield_now();
            }
            assert!(held.iter().all(|writer| !writer.is_finished()));
            drop(hold);
        });
        block_on(fences.pass(P));
        assert!(!fences.holds.load(Ordering::Acquire), "nobody has to look any more");
    }

    #[test]
    fn who_waits_is_woken_when_the_fence_goes_whatever_the_reason() {
        let store = MemoryStore::new();
        store.create_partitions(&[P], Lsn(1)).unwrap();
        for stays_sealed in [false, true] {
            let fences = Fences::default();
            let mut fence = Fence::new(&store, &fences, vec![P]);
            store.seal(P).unwrap();
            let openings = fences.closed(P).unwrap();
            thread::scope(|scope| {
                let waiters =
                    [0; 4].map(|_| scope.spawn(|| block_on(fences.opened_since(openings))));
                fence.stays_sealed = stays_sealed;
                drop(fence);
                waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            });
            assert_eq!(fences.closed(P), None);
            let written = store.submit(P, partita_storage::Batch::new()).wait();
            assert_eq!(written.is_err(), stays_sealed);
        }
    }
}
