//! What waits for a lane's committer.
//!
//! Callers push and go; the committer sleeps until there is something and then takes all that may
//! go into one group. Order of arrival is order of decision. The queue is bounded by bytes: when
//! the disk cannot follow, callers hear so instead of filling the memory.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{PartitionId, Result, TicketSetter};
use crate::embedded::committer::now;
use crate::prepared::Prepared;

/// Larger groups make each commit wait longer and the fsync hardly cheaper per commit.
const GROUP_BATCHES_MAX: usize = 64;

/// A group is one write of the engine and is held in memory twice while it is made.
const GROUP_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How often the committer lets others go first before it takes a group, and for how long: others
/// may have long work to do that brings no writes.
const YIELDS_MAX: usize = 8;
const YIELDING_MAX: Duration = Duration::from_micros(500);

/// What may wait for one lane.
const QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// One thing for the committer to do.
#[derive(Debug)]
pub(in crate::embedded) enum Work {
    Commit { partition: PartitionId, prepared: Prepared, setter: TicketSetter },
    Task { task: Task, done: SyncSender<Result<()>> },
}

/// Changes of the set of partitions.
#[derive(Debug)]
pub(in crate::embedded) enum Task {
    /// Writes records of the store itself, durably.
    Record(Vec<(Vec<u8>, Vec<u8>)>),
    /// Begins to serve partitions, which are at this LSN.
    Admit(Vec<PartitionId>, Lsn),
    /// Ends to serve partitions.
    Dismiss(Vec<PartitionId>),
    /// Lets a partition rest, or ends its rest.
    Seal(PartitionId, bool),
    /// Looks whether changes of the index have been sorted in.
    Settle,
    /// Sorts all pending changes of the index in, and waits for that.
    SortIn,
}

impl Work {
    pub(in crate::embedded) fn size_bytes(&self) -> usize {
        match self {
            Work::Commit { prepared, .. } => prepared.size_bytes(),
            Work::Task { .. } => 0,
        }
    }

    pub(in crate::embedded) fn refuse(self, error: StorageError) {
        match self {
            Work::Commit { setter, .. } => setter.set(Err(error)),
            // Nobody may be waiting any more; then nobody needs the answer.
            Work::Task { done, .. } => drop(done.send(Err(error))),
        }
    }
}

/// What a wait for work brought.
#[derive(Debug)]
pub(in crate::embedded) enum Taken {
    /// Several commits, or one task.
    Work(Vec<Work>),
    /// Nothing came in this time.
    Nothing,
    /// The queue has ended and all was taken.
    Ended,
}

#[derive(Debug, Default)]
pub(in crate::embedded) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Work>,
    bytes: usize,
    ended: bool,
    /// Why nothing is taken any more.
    why_ended: Option<StorageError>,
    /// The committer sleeps. To wake it is a call of the system even if it does not.
    is_asleep: bool,
    /// How many were taken together last.
    last_taken: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work, or refuses it at once.
    pub(in crate::embedded) fn push(&self, work: Work) {
        let mut state = self.lock();
        let error = if state.ended {
            state.why_ended.clone().unwrap_or(StorageError::Closed)
        } else if state.bytes > QUEUE_BYTES_MAX {
            StorageError::Overloaded(state.bytes as u64)
        } else {
            state.bytes += work.size_bytes();
            state.waiting.push_back(work);
            let is_asleep = std::mem::take(&mut state.is_asleep);
            drop(state);
            if is_asleep {
                self.arrived.notify_one();
            }
            return;
        };
        drop(state);
        work.refuse(error);
    }

    /// Waits for work, no longer than this if it says so, and takes what may be done together.
    pub(in crate::embedded) fn take(&self, wait_max: Option<Duration>) -> Taken {
        let Some(state) = self.wait(wait_max) else { return Taken::Nothing };
        let mut state = self.let_gather(state);
        if state.waiting.is_empty() {
            return if state.ended { Taken::Ended } else { Taken::Nothing };
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
        state.last_taken = group.len();
        Taken::Work(group)
    }

    /// Lets others go first for a moment if several came together lately and fewer are here now:
    /// they have their answers and are about to come again, and a sync costs the same for all.
    ///
    /// This does not sleep. On a processor that has nothing else to do it takes a few microseconds;
    /// on a busy one those go on who would have to wait for it otherwise.
    fn let_gather<'q>(&'q self, mut state: MutexGuard<'q, State>) -> MutexGuard<'q, State> {
        if state.last_taken < 2 || state.waiting.len() >= state.last_taken {
            return state;
        }
        let begun = now();
        for _ in 0..YIELDS_MAX {
            let is_enough = state.waiting.len() >= state.last_taken;
            if is_enough || state.ended || begun.elapsed() >= YIELDING_MAX {
                break;
            }
            drop(state);
            thread::yield_now();
            state = self.lock();
        }
        state
    }

    /// Waits until there is work or the queue has ended; None if neither came in time.
    fn wait(&self, wait_max: Option<Duration>) -> Option<MutexGuard<'_, State>> {
        let is_quiet = |state: &mut State| {
            state.is_asleep = state.waiting.is_empty() && !state.ended;
            state.is_asleep
        };
        let state = self.lock();
        let Some(wait_max) = wait_max else {
            let waited = self.arrived.wait_while(state, is_quiet);
            return Some(waited.unwrap_or_else(PoisonError::into_inner));
        };
        let waited = self.arrived.wait_timeout_while(state, wait_max, is_quiet);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then_some(state)
    }

    /// Takes no more; what waits is still done.
    pub(in crate::embedded) fn end(&self, why: StorageError) {
        let mut state = self.lock();
        state.ended = true;
        state.why_ended = Some(why);
        drop(state);
        self.arrived.notify_all();
    }

    /// Takes work again, for another committer. What is left of before is refused.
    pub(in crate::embedded) fn begin_again(&self) {
        self.refuse_waiting(&StorageError::Reopened);
        *self.lock() = State::default();
    }

    /// Refuses what waits.
    pub(in crate::embedded) fn refuse_waiting(&self, error: &StorageError) {
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

    /// How many were taken together.
    fn taken(queue: &Queue) -> usize {
        match queue.take(None) {
            Taken::Work(work) => work.len(),
            other => panic!("work, not {other:?}"),
        }
    }

    #[test]
    fn who_waits_for_work_in_vain_is_told() {
        let queue = Queue::default();
        assert!(matches!(queue.take(Some(Duration::from_millis(1))), Taken::Nothing));
        queue.push(commit(1).0);
        assert!(matches!(queue.take(Some(Duration::ZERO)), Taken::Work(_)));
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
        let lengths: Vec<usize> = (0..4).map(|_| taken(&queue)).collect();
        assert_eq!(lengths, [64, 6, 1, 1]);
    }

    #[test]
    fn large_batches_make_small_groups() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.push(commit(GROUP_BYTES_MAX).0);
        }
        assert_eq!(taken(&queue), 1);
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
        queue.end(StorageError::Closed);
        let (late, ticket) = commit(1);
        queue.push(late);
        assert_eq!(ticket.wait(), Err(StorageError::Closed));
        assert_eq!(taken(&queue), 1);
        assert!(matches!(queue.take(None), Taken::Ended));
        assert!(matches!(queue.take(Some(Duration::ZERO)), Taken::Ended));
    }
}
