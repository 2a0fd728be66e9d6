//! The answer to a submitted batch, which comes later.
//!
//! A [`Ticket`] is a one-shot channel made of the standard library alone, because its two ends live
//! in different worlds: the committer's thread resolves it, and it is either awaited by a task (it
//! is a [`Future`] and needs no particular runtime) or waited for by a thread ([`Ticket::wait`]).
//!
//! A setter that is dropped without a word resolves its ticket to an error: nobody waits forever
//! for a committer that is gone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::contract::StorageError;
use crate::contract::{Commit, Result};

/// The reader's end: resolves once, to the commit or to why there is none.
#[derive(Debug)]
#[must_use = "a batch is not durable before its ticket has resolved"]
pub struct Ticket {
    shared: Arc<Shared>,
}

/// The store's end.
#[derive(Debug)]
pub struct TicketSetter {
    shared: Arc<Shared>,
    set: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    resolved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    answer: Option<Result<Commit>>,
    waker: Option<Waker>,
    /// A thread waits. To wake one is a call of the system even if there is none.
    has_waiting: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, answer: Result<Commit>) {
        let (waker, has_waiting) = {
            let mut state = self.lock();
            state.answer = Some(answer);
            (state.waker.take(), state.has_waiting)
        };
        if has_waiting {
            self.resolved.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ticket {
    /// A ticket and the setter that resolves it.
    pub fn new() -> (TicketSetter, Ticket) {
        let shared = Arc::new(Shared::default());
        (TicketSetter { shared: Arc::clone(&shared), set: false }, Ticket { shared })
    }

    /// A ticket that is resolved already.
    pub fn resolved(answer: Result<Commit>) -> Ticket {
        let state = State { answer: Some(answer), ..State::default() };
        Ticket { shared: Arc::new(Shared { state: Mutex::new(state), resolved: Condvar::new() }) }
    }

    /// Blocks this thread until the answer is there.
    pub fn wait(self) -> Result<Commit> {
        let mut state = self.shared.lock();
        loop {
            if let Some(answer) = &state.answer {
                return answer.clone();
            }
            state.has_waiting = true;
            state = self.shared.resolved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The answer if it is there already.
    pub fn try_answer(&self) -> Option<Result<Commit>> {
        self.shared.lock().answer.clone()
    }
}

impl Future for Ticket {
    type Output = Result<Commit>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Commit>> {
        let mut state = self.shared.lock();
        if let Some(answer) = &state.answer {
            return Poll::Ready(answer.clone());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl TicketSetter {
    /// Resolves the ticket.
    pub fn set(mut self, answer: Result<Commit>) {
        self.set = true;
        self.shared.resolve(answer);
    }
}

impl Drop for TicketSetter {
    fn drop(&mut self) {
        if !self.set {
            let why = "the committer ended before it decided the batch".to_owned();
            self.shared.resolve(Err(StorageError::Poisoned(why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use partita_model::Lsn;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_thread_waits_for_the_answer_of_another() {
        let (setter, ticket) = Ticket::new();
        let waiter = thread::Builder::new().spawn(move || ticket.wait()).unwrap();
        setter.set(Ok(Commit { lsn: Lsn(7) }));
        assert_eq!(waiter.join().unwrap(), Ok(Commit { lsn: Lsn(7) }));
    }

    #[test]
    fn a_task_is_woken_once_and_then_ready() {
        let (setter, mut ticket) = Ticket::new();
        let counter = Arc::new(CountingWaker::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        assert_eq!(Pin::new(&mut ticket).poll(&mut context), Poll::Pending);
        setter.set(Err(StorageError::Closed));
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert_eq!(
            Pin::new(&mut ticket).poll(&mut context),
            Poll::Ready(Err(StorageError::Closed))
        );
    }

    #[test]
    fn a_dropped_setter_resolves_to_an_error() {
        let (setter, ticket) = Ticket::new();
        drop(setter);
        assert!(matches!(ticket.wait(), Err(StorageError::Poisoned(_))));
    }

    #[test]
    fn a_dropped_ticket_does_not_disturb_the_setter() {
        let (setter, ticket) = Ticket::new();
        drop(ticket);
        setter.set(Ok(Commit { lsn: Lsn(1) }));
    }
}
