//! Scripts on one logical partition take turns.
//!
//! Two that run at once on the same items cannot both commit; the slower one would run in vain, and
//! under load a long one forever. So who wants to run a script waits for its turn first, as a
//! future: no thread is held by those who wait. Lines are first come, first served. A line takes a
//! limited number of waiters, and nobody begins who has waited too long: its client has given up,
//! or will be better off trying again later.
//!
//! A turn is passed on when it is dropped, and so is one that was given to a waiter who has left
//! meanwhile: a line never stands still.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use partita_model::{Clock, ContainerRid, Epk, Error, Result};

use super::NANOS_PER_MILLI;

/// Those who may wait for one logical partition.
const WAITING_MAX: usize = 256;
/// Nobody begins who has waited longer than this.
const WAIT_MILLIS_MAX: u64 = 10_000;

/// Names a logical partition.
pub(crate) type Line = (ContainerRid, Epk);

/// All lines. Where one is, somebody has a turn.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<LineState>);

#[derive(Debug, Default)]
struct LineState {
    lines: HashMap<Line, VecDeque<Waiter>>,
    /// Nobody has the number of somebody before, who may not know yet that it was called.
    numbers: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    waker: Option<Waker>,
}

/// The right to run a script on a logical partition, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    line: Line,
}

/// Somebody in a line. Leaving it, by whatever way, leaves no gap.
struct Waiting {
    turns: Arc<Turns>,
    line: Line,
    number: u64,
    /// It has become a turn.
    taken: bool,
}

impl Turns {
    /// Waits in line.
    pub(super) async fn wait(self: &Arc<Turns>, line: Line, clock: &dyn Clock) -> Result<Turn> {
        let began_nanos = clock.monotonic_nanos();
        if let Some(mut waiting) = self.enter(&line)? {
            poll_fn(|context| waiting.poll(context.waker())).await;
            waiting.taken = true;
        }
        let turn = Turn { turns: Arc::clone(self), line };
        let waited_nanos = clock.monotonic_nanos().saturating_sub(began_nanos);
        if waited_nanos > WAIT_MILLIS_MAX * NANOS_PER_MILLI {
            return Err(crowded());
        }
        Ok(turn)
    }

    /// None: there is no line, it is our turn at once.
    fn enter(self: &Arc<Turns>, line: &Line) -> Result<Option<Waiting>> {
        let mut state = self.state();
        let LineState { lines, numbers } = &mut *state;
        let Some(waiters) = lines.get_mut(line) else {
            lines.insert(line.clone(), VecDeque::new());
            return Ok(None);
        };
        if waiters.len() >= WAITING_MAX {
            return Err(crowded());
        }
        *numbers += 1;
        let number = *numbers;
        waiters.push_back(Waiter { number, waker: None });
        let (turns, line) = (Arc::clone(self), line.clone());
        Ok(Some(Waiting { turns, line, number, taken: false }))
    }

    /// Calls the next in line.
    fn pass_on(&self, line: &Line) {
        let next = {
            let lines = &mut self.state().lines;
            let next = lines.get_mut(line).and_then(VecDeque::pop_front);
            if next.is_none() {
                lines.remove(line);
            }
            next
        };
        if let Some(waker) = next.and_then(|next| next.waker) {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Ready when it was called: then it is no longer in the line.
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let mut state = self.turns.state();
        let mut waiters = state.lines.get_mut(&self.line).into_iter().flatten();
        match waiters.find(|waiter| waiter.number == self.number) {
            Some(waiter) => {
                waiter.waker = Some(waker.clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let was_called = {
            let mut state = self.turns.state();
            let waiters = state.lines.get_mut(&self.line);
            let before = waiters.as_ref().map_or(0, |waiters| waiters.len());
            let left = waiters.map_or(0, |waiters| {
                waiters.retain(|waiter| waiter.number != self.number);
                waiters.len()
            });
            left == before
        };
        if was_called {
            self.turns.pass_on(&self.line);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.pass_on(&self.line);
    }
}

fn crowded() -> Error {
    Error::retry_with(
        "Too many scripts wait for this partition key. Retry later, or spread the work over more \
         partition keys",
    )
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;
    use std::thread;

    use partita_model::{DatabaseRid, FixedClock};

    use super::*;
    use crate::wait::block_on;

    fn line(number: u32) -> Line {
        let container = ContainerRid { database: DatabaseRid(1), container: number };
        (container, Epk::max())
    }

    #[test]
    fn turns_are_taken_one_after_the_other_and_lines_do_not_meet() {
        let (turns, clock) = (Arc::new(Turns::default()), FixedClock::new(0));
        let first = block_on(turns.wait(line(1), &clock)).unwrap();
        let other = block_on(turns.wait(line(2), &clock)).unwrap();
        let counter = Arc::new(Mutex::new((0, 0)));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _turn = block_on(turns.wait(line(1), &clock)).unwrap();
                        let inside = {
                            let mut counter = counter.lock().unwrap();
                            *counter = (counter.0 + 1, counter.1 + 1);
                            counter.0
                        };
                        assert_eq!(inside, 1);
                        thread::yield_now();
                        counter.lock().unwrap().0 -= 1;
                    }
                });
            }
            assert_eq!(*counter.lock().unwrap(), (0, 0));
            drop(first);
        });
        drop(other);
        assert_eq!(*counter.lock().unwrap(), (0, 400));
        assert!(turns.state().lines.is_empty());
    }

    #[test]
    fn who_leaves_the_line_leaves_no_gap() {
        let (turns, clock) = (Arc::new(Turns::default()), FixedClock::new(0));
        let first = block_on(turns.wait(line(1), &clock)).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut last = Box::pin(turns.wait(line(1), &clock));
        {
            let mut leaves = Box::pin(turns.wait(line(1), &clock));
            let mut called = Box::pin(turns.wait(line(1), &clock));
            assert!(called.as_mut().poll(&mut context).is_pending());
            assert!(leaves.as_mut().poll(&mut context).is_pending());
            assert!(last.as_mut().poll(&mut context).is_pending());
            drop(first);
            // The first in line was called and goes without having noticed.
        }
        let mut last = pin!(last);
        assert!(last.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_line_takes_so_many_and_nobody_begins_too_late() {
        let (turns, clock) = (Arc::new(Turns::default()), FixedClock::new(0));
        let first = block_on(turns.wait(line(1), &clock)).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> =
            (0..WAITING_MAX).map(|_| Box::pin(turns.wait(line(1), &clock))).collect();
        for waiter in &mut waiting {
            assert!(waiter.as_mut().poll(&mut context).is_pending());
        }
        block_on(turns.wait(line(1), &clock)).unwrap_err();
        clock.advance_millis(WAIT_MILLIS_MAX + 1);
        drop(first);
        for waiter in &mut waiting {
            assert!(matches!(waiter.as_mut().poll(&mut context), Poll::Ready(Err(_))));
        }
        block_on(turns.wait(line(1), &clock)).unwrap();
    }
}
