//! What follows a commit that changed items, whoever made it: a single write, a transaction, a
//! script or the sweep of expired items.
//!
//! In the store everything changed together. What is left to do is about what is kept in memory of
//! the partition: readers of the change feed are woken, the source of resource ids learns what
//! is stored about it, and the bytes are counted, for quotas and for splits. A crash before this
//! loses nothing that a restart does not find out anew.
//!
//! A request is dropped when its client hangs up, and what it has submitted is committed all the
//! same. So a ticket that nobody waits for any more is kept with what its batch does ([`Left`]),
//! and maintenance takes note of the commit.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partita_storage::{Batch, Commit, StorageError, Ticket};

use super::Items;
use crate::changeset::Effects;
use crate::live::LivePartition;
use crate::op::Served;

/// A batch under way, and who waits for it.
struct Awaited<'a> {
    items: &'a Items,
    partition: &'a Arc<LivePartition>,
    effects: Effects,
    /// None: it is decided.
    ticket: Option<Ticket>,
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let partition = Arc::clone(self.partition);
            self.items.left.add(Left { ticket, partition, effects: self.effects });
            self.items.core.doorbell.ring();
        }
    }
}

/// A batch under way that nobody waits for.
#[derive(Debug)]
struct Left {
    ticket: Ticket,
    partition: Arc<LivePartition>,
    effects: Effects,
}

/// The batches under way that nobody waits for: as many as clients hung up in the time of a commit.
#[derive(Debug, Default)]
pub(crate) struct LeftCommits(Mutex<Vec<Left>>);

impl LeftCommits {
    fn lock(&self) -> MutexGuard<'_, Vec<Left>> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, left: Left) {
        self.lock().push(left);
    }

    /// Those that are decided.
    fn take_decided(&self) -> Vec<Left> {
        self.lock().extract_if(.., |left| left.ticket.try_answer().is_some()).collect()
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

impl Items {
    /// Submits a batch and takes note of its commit, also if nobody waits for that any more.
    /// `served` is what the reply to its request tells.
    pub(super) async fn commit_items(
        &self,
        served: Option<&mut Served>,
        partition: &Arc<LivePartition>,
        batch: Batch,
        effects: Effects,
    ) -> Result<Commit, StorageError> {
        let ticket = Some(self.core.store.submit(partition.id, batch));
        let mut awaited = Awaited { items: self, partition, effects, ticket };
        let decided = poll_fn(|context| {
            let ticket = awaited.ticket.as_mut().expect("it is taken when it is decided");
            Pin::new(ticket).poll(context)
        })
        .await;
        awaited.ticket = None;
        if matches!(decided, Err(StorageError::Poisoned(_))) {
            self.core.doorbell.ring();
        }
        let commit = decided?;
        self.committed(served, partition, commit, effects);
        Ok(commit)
    }

    /// Takes note of commits that nobody waited for; true if some are not decided yet.
    pub(crate) fn note_left_commits(&self) -> bool {
        for Left { ticket, partition, effects } in self.left.take_decided() {
            if let Some(Ok(commit)) = ticket.try_answer() {
                self.committed(None, &partition, commit, effects);
            }
        }
        !self.left.is_empty()
    }

    /// Takes note of a commit. `served` is what the reply to its request tells, if there is one.
    pub(crate) fn committed(
        &self,
        served: Option<&mut Served>,
        partition: &LivePartition,
        commit: Commit,
        effects: Effects,
    ) {
        partition.bell.ring();
        partition.rids.committed(commit.lsn, effects.rids);
        partition.meter.grow(effects.grown);
        self.moves.note_growth(partition, effects.bytes);
        if let Some(served) = served {
            served.lsn = commit.lsn;
        }
    }
}
