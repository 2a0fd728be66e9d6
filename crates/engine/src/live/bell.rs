//! How readers of the change feed learn that there is something new without asking again and again.
//!
//! Every partition has a [`Bell`]. Who has committed changes rings it; that costs a writer two
//! atomic operations while nobody listens. Who finds nothing gets a [`NextChange`], a future that
//! ends when a bell has been rung since *before* the reader looked, so nothing falls in between. A
//! bell that goes away, because its partition was split or its container deleted, wakes everybody
//! too: they ask again and are told.
//!
//! A ring says that it is worth looking, not that there is something for this reader. And it comes
//! with the next maintenance where a writer's client hung up before the commit, so who waits should
//! look from time to time.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Rung after every commit that changed items of a partition.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: AtomicU64,
    /// How many listen, so that a writer needs no lock where nobody does.
    listening: AtomicUsize,
    ears: Mutex<Ears>,
}

#[derive(Debug, Default)]
struct Ears {
    next: u64,
    wakers: HashMap<u64, Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // Either this sees a listener, or the listener, who looks after it was added, sees the
        // ring: both orders are the sequentially consistent one.
        self.rings.fetch_add(1, Ordering::SeqCst);
        if self.listening.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let wakers: Vec<Waker> = self.lock().wakers.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes this one at the next ring; the number to be removed with.
    fn add(&self, number: Option<u64>, waker: &Waker) -> u64 {
        let mut ears = self.lock();
        let number = number.unwrap_or_else(|| {
            ears.next += 1;
            ears.next
        });
        ears.wakers.insert(number, waker.clone());
        self.listening.store(ears.wakers.len(), Ordering::SeqCst);
        number
    }

    fn remove(&self, number: u64) {
        let mut ears = self.lock();
        ears.wakers.remove(&number);
        self.listening.store(ears.wakers.len(), Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Ears> {
        // Valid between any two statements, so a panic elsewhere does not spoil it.
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.wake_all();
    }
}

/// Ends when a partition that was read may have something new.
#[derive(Debug, Default)]
pub struct NextChange {
    heard: Vec<Heard>,
}

#[derive(Debug)]
struct Heard {
    bell: Weak<Bell>,
    /// How often it had been rung.
    rings: u64,
    number: Option<u64>,
}

impl NextChange {
    /// Listens to one more bell from here on: to be called before the partition is read.
    pub(crate) fn listen(&mut self, bell: &Arc<Bell>) {
        let rings = bell.rings.load(Ordering::SeqCst);
        self.heard.push(Heard { bell: Arc::downgrade(bell), rings, number: None });
    }
}

impl Future for NextChange {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        for heard in &mut self.heard {
            let Some(bell) = heard.bell.upgrade() else { return Poll::Ready(()) };
            heard.number = Some(bell.add(heard.number, context.waker()));
            if bell.rings.load(Ordering::SeqCst) != heard.rings {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for NextChange {
    fn drop(&mut self) {
        for heard in &self.heard {
            if let (Some(number), Some(bell)) = (heard.number, heard.bell.upgrade()) {
                bell.remove(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::wait::block_on;

    fn poll(next: &mut NextChange) -> Poll<()> {
        Pin::new(next).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn watching(bells: &[&Arc<Bell>]) -> NextChange {
        let mut next = NextChange::default();
        bells.iter().for_each(|bell| next.listen(bell));
        next
    }

    #[test]
    fn any_of_several_bells_ends_waiting_also_one_rung_before_it_was_awaited() {
        let (one, other) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        one.ring();
        let mut next = watching(&[&one, &other]);
        assert_eq!(poll(&mut next), Poll::Pending);
        other.ring();
        assert_eq!(poll(&mut next), Poll::Ready(()));
    }

    #[test]
    fn a_bell_that_goes_away_ends_waiting() {
        let bell = Arc::new(Bell::default());
        let next = watching(&[&bell]);
        thread::scope(|scope| {
            scope.spawn(|| block_on(next));
            while bell.listening.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            drop(bell);
        });
    }

    #[test]
    fn who_stops_waiting_is_forgotten() {
        let bell = Arc::new(Bell::default());
        let mut next = watching(&[&bell]);
        assert_eq!(poll(&mut next), Poll::Pending);
        assert_eq!(poll(&mut next), Poll::Pending);
        assert_eq!(bell.lock().wakers.len(), 1);
        drop(next);
        assert_eq!(bell.lock().wakers.len(), 0);
        assert_eq!(bell.listening.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn no_ring_is_missed_by_readers_who_look_between_two() {
        const WRITES: u64 = 2_000;
        let (bell, written) = (Arc::new(Bell::default()), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let next = watching(&[&bell]);
                    if written.load(Ordering::SeqCst) == WRITES {
                        return;
                    }
                    block_on(next);
                }
            });
            for _ in 0..WRITES {
                written.fetch_add(1, Ordering::SeqCst);
                bell.ring();
            }
        });
    }
}
