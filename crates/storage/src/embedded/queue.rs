//! What waits for a lane's committer.
//!
//! Callers push and go; the committer sleeps until there is something and then takes all that may
//! go into one group. Order of arrival is order of decision. The queue is bounded by bytes: when
//! the disk cannot follow, callers hear so instead of filling the memory.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use partita_model::Lsn;

use crate::contract::{PartitionId, Result, TicketSetter};
use crate::error::StorageError;
use crate::prepared::Prepared;

/// Larger groups make each commit wait longer and the fsync hardly cheaper per commit.
const GROUP_BATCHES_MAX: usize = 64;

/// A group is one write of the engine and is held in memory twice while it is made.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What may wait for one lane.
const QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One thing for the committer to do.
#[derive(Debug)]
pub(super) enum Work {
    Commit { partition: PartitionId, prepared: Prepared, setter: TicketSetter },
    Task { task: Task, done: SyncSender<Result<()>> },
}

/// Changes of the set of partitions.
#[derive(Debug)]
pub(super) enum Task {
    /// Writes records of the store itself, durably.
    Record(Vec<(Vec<u8>, Vec<u8>)>),
    /// Begins to serve partitions, which are at this LSN.
    Admit(Vec<PartitionId>, Lsn),
    /// Ends to serve partitions.
    Dismiss(Vec<PartitionId>),
    /// Lets a partition rest, or ends its rest.
    Seal(PartitionId, bool),
}

impl Work {
    fn size_bytes(&self) -> usize {
        match self {
            Work::Commit { prepared, .. } => prepared.size_bytes(),
            Work::Task { .. } => 0,
        }
    }

    pub(super) fn refuse(self, error: StorageError) {
        match self {
            Work::Commit { setter, .. } => setter.set(Err(error)),
            // Nobody may be waiting any more; then nobody needs the answer.
            Work::Task { done, .. } => drop(done.send(Err(error))),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Work>,
    bytes: usize,
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work, or refuses it at once.
    pub(super) fn push(&self, work: Work) {
        let mut state = self.lock();
        let error = if state.ended {
            StorageError::Closed
        } else if state.bytes > QUEUE_BYTES_MAX {
            StorageError::Overloaded(state.bytes as u64)
        } else {
            state.bytes += work.size_bytes();
            state.waiting.push_back(work);
            drop(state);
            self.arrived.notify_one();
            return;
        };
        drop(state);
        work.refuse(error);
    }

    /// Waits for work and takes what may be done together: several commits, or one task. None when
    /// the queue has ended and all was taken.
    pub(super) fn take(&self) -> Option<Vec<Work>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.ended {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut group = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.waiting.front() {
            let is_task = matches!(next, Work::Task { .. });
            let full = group.len() >= GROUP_BATCHES_MAX || bytes >= GROUP_BYTES_MAX;
            if !group.is_empty() && (is_task || full) {
                break;
            }
            bytes += next.size_bytes();
            group.extend(state.waiting.pop_front());
            if is_task {
                break;
            }
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        Some(group)
    }

    /// Takes no more; what waits is still done.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.arrived.notify_all();
    }

    /// Refuses what waits.
    pub(super) fn refuse_waiting(&self, error: &StorageError) {
        let waiting = {
            let mut state = self.lock();
            state.bytes = 0;
            std::mem::take(&mut state.waiting)
        };
        for work in waiting {
            work.refuse(error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::contract::{Batch, Space, Ticket};
    use crate::prepared::Entries;

    fn commit(bytes: usize) -> (Work, Ticket) {
        let (setter, ticket) = Ticket::new();
        let mut batch = Batch::new();
        batch.put(Space::Items, vec![1], vec![0; bytes]);
        let prepared = Prepared::new(&[], batch, Entries::Bare).unwrap();
        (Work::Commit { partition: PartitionId(1), prepared, setter }, ticket)
    }

    #[test]
    fn a_group_ends_at_the_limit_and_before_a_task() {
        let queue = Queue::default();
        let mut tickets = Vec::new();
        for _ in 0..70 {
            let (work, ticket) = commit(10);
            queue.push(work);
            tickets.push(ticket);
        }
        let (done, _receiver) = sync_channel(1);
        queue.push(Work::Task { task: Task::Dismiss(vec![]), done });
        queue.push(commit(10).0);
        let lengths: Vec<usize> = (0..4).map(|_| queue.take().unwrap().len()).collect();
        assert_eq!(lengths, [64, 6, 1, 1]);
    }

    #[test]
    fn large_batches_make_small_groups() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.push(commit(GROUP_BYTES_MAX).0);
        }
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn a_full_queue_refuses() {
        let queue = Queue::default();
        let mut refused = None;
        for _ in 0..20 {
            let (work, ticket) = commit(GROUP_BYTES_MAX);
            queue.push(work);
            refused = refused.or(ticket.try_answer());
        }
        assert!(matches!(refused, Some(Err(StorageError::Overloaded(_)))));
    }

    #[test]
    fn an_ended_queue_gives_what_it_has_and_takes_nothing() {
        let queue = Queue::default();
        queue.push(commit(1).0);
        queue.end();
        let (late, ticket) = commit(1);
        queue.push(late);
        assert_eq!(ticket.wait(), Err(StorageError::Closed));
        assert!(queue.take().is_some());
        assert!(queue.take().is_none());
    }
}
