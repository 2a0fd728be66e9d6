//! The memory of bodies: of requests that arrive, and of answers that clients have not read yet,
//! over all connections.
//!
//! Both draw on one number. Requests count while they arrive and are worked on. An answer counts
//! from the moment at which the kernel takes no more of it: most never do. Over the number, the
//! connection goes first whose client has read nothing for longest, until an eighth is free again.
//! If there is none to cut, requests are refused; their clients hear when to try again.
//!
//! A connection is cut by its own task ([`Unread::must_end`]), which another one's shortage wakes.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use bytes::Bytes;

/// What all connections have together. See the module's text.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    bytes_max: u64,
    held_bytes: AtomicU64,
    /// The part of it that clients have not read.
    unread_bytes: AtomicU64,
    /// Counts what clients have read, so that it can be told who has read nothing for longest.
    steps: AtomicU64,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: HashMap<u64, Arc<Backlog>>,
}

/// What one connection has of it for answers.
#[derive(Debug)]
struct Backlog {
    bytes: AtomicU64,
    /// At which step the client finished an answer, or the first one began to wait for it.
    since: AtomicU64,
    is_cut: AtomicBool,
    /// Who ends the connection.
    task: Mutex<Option<Waker>>,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<BodyBudget> {
        Arc::new(BodyBudget {
            bytes_max,
            held_bytes: AtomicU64::new(0),
            unread_bytes: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            connections: Mutex::default(),
        })
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Is more than half of it taken?
    pub(crate) fn is_tight(&self) -> bool {
        self.held_bytes() > self.bytes_max / 2
    }

    /// Is there room for more? Where there is none, room is made if that can be done.
    pub(crate) fn has_room(&self) -> bool {
        self.held_bytes() <= self.bytes_max || self.relieve() <= self.bytes_max
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The backlog of a new connection.
    pub(crate) fn open(self: &Arc<Self>) -> Unread {
        let backlog = Arc::new(Backlog {
            bytes: AtomicU64::new(0),
            since: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            task: Mutex::new(None),
        });
        let mut connections = self.connections();
        let id = connections.next_id;
        connections.next_id += 1;
        connections.open.insert(id, Arc::clone(&backlog));
        drop(connections);
        Unread { budget: Arc::clone(self), backlog, id }
    }

    /// Cuts the connections whose clients have read nothing for longest. Returns what is held
    /// without those that are cut and have not ended yet.
    fn relieve(&self) -> u64 {
        let held = self.held_bytes();
        if self.unread_bytes.load(Ordering::Relaxed) == 0 {
            return held;
        }
        let connections = self.connections();
        let mut ending = 0;
        let mut waiting = Vec::new();
        for backlog in connections.open.values() {
            match (backlog.bytes.load(Ordering::Relaxed), backlog.is_cut.load(Ordering::Relaxed)) {
                (0, _) => {}
                (bytes, true) => ending += bytes,
                (bytes, false) => {
                    waiting.push((backlog.since.load(Ordering::Relaxed), bytes, backlog));
                }
            }
        }
        let mut left = held.saturating_sub(ending);
        if left <= self.bytes_max {
            return left;
        }
        waiting.sort_unstable_by_key(|(since, ..)| *since);
        for (_, bytes, backlog) in waiting {
            if left <= self.bytes_max - self.bytes_max / 8 {
                break;
            }
            backlog.cut();
            left = left.saturating_sub(bytes);
        }
        left
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Answers of one connection that its client has not read.
pub(crate) struct Unread {
    budget: Arc<BodyBudget>,
    backlog: Arc<Backlog>,
    id: u64,
}

impl Unread {
    /// Must this connection end, so that others have room? If not, its task is woken when it must.
    pub(crate) fn must_end(&self, cx: &mut Context<'_>) -> bool {
        let Backlog { bytes, is_cut, task, .. } = &*self.backlog;
        if bytes.load(Ordering::Relaxed) > 0 {
            let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
            if !task.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *task = Some(cx.waker().clone());
            }
        }
        is_cut.load(Ordering::SeqCst)
    }

    /// Waits for so many bytes to be sent. They count if they cannot be sent at once.
    pub(crate) async fn sent<T>(&self, bytes: usize, sending: impl Future<Output = T>) -> T {
        let mut sending = pin!(sending);
        let mut share = None;
        poll_fn(|cx| {
            let polled = sending.as_mut().poll(cx);
            if polled.is_pending() && share.is_none() {
                share = Some(self.hold(bytes as u64));
            }
            polled
        })
        .await
    }

    /// A body that counts until the last reference to it is gone.
    pub(crate) fn counted(&self, body: Bytes) -> Bytes {
        if body.is_empty() {
            return body;
        }
        let share = self.hold(body.len() as u64);
        Bytes::from_owner(Counted { body, _share: share })
    }

    fn hold(&self, bytes: u64) -> UnreadShare {
        let (budget, backlog) = (Arc::clone(&self.budget), Arc::clone(&self.backlog));
        budget.take(bytes);
        budget.unread_bytes.fetch_add(bytes, Ordering::Relaxed);
        if backlog.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            backlog.since.store(budget.step(), Ordering::Relaxed);
        }
        let share = UnreadShare { budget, backlog, bytes };
        share.budget.has_room();
        share
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.budget.connections().open.remove(&self.id);
    }
}

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unread").field(&self.backlog.bytes).finish()
    }
}

/// What an answer has of the budget, until this is dropped.
struct UnreadShare {
    budget: Arc<BodyBudget>,
    backlog: Arc<Backlog>,
    bytes: u64,
}

impl Drop for UnreadShare {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.backlog.since.store(self.budget.step(), Ordering::Relaxed);
        self.budget.unread_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.give_back(self.bytes);
    }
}

struct Counted {
    body: Bytes,
    _share: UnreadShare,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn is_cut(unread: &Unread) -> bool {
        unread.must_end(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_has_read_nothing_for_longest_is_cut_first() {
        let budget = BodyBudget::new(1_000);
        let readers: Vec<_> = (0..4).map(|_| budget.open()).collect();
        let mut answers = Vec::new();
        for reader in &readers {
            answers.push(reader.counted(Bytes::from(vec![0; 300])));
        }
        // The fourth was too much. Without the first, 900 of 1 000 are left, which is less than an
        // eighth of room: the second goes as well.
        let cut: Vec<_> = readers.iter().map(is_cut).collect();
        assert_eq!(cut, [true, true, false, false]);
        assert!(budget.has_room(), "those that were cut do not count");
        answers.drain(..2);
        assert_eq!(budget.held_bytes(), 600);
        drop(answers);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn who_reads_on_is_not_the_oldest_any_more() {
        let budget = BodyBudget::new(1_000);
        let (first, second) = (budget.open(), budget.open());
        let one = first.counted(Bytes::from(vec![0; 300]));
        let other = first.counted(Bytes::from(vec![0; 300]));
        let third = second.counted(Bytes::from(vec![0; 300]));
        drop(one);
        let fourth = first.counted(Bytes::from(vec![0; 500]));
        assert_eq!([is_cut(&first), is_cut(&second)], [false, true]);
        drop((other, third, fourth));
    }

    #[tokio::test]
    async fn only_what_has_to_wait_counts() {
        let budget = BodyBudget::new(1_000);
        let reader = budget.open();
        reader.sent(500, async {}).await;
        assert_eq!(budget.held_bytes(), 0);
        let mut sending = Box::pin(reader.sent(500, std::future::pending::<()>()));
        let polled = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!((polled, budget.held_bytes()), (Poll::Pending, 500));
        drop(sending);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn requests_alone_cannot_be_relieved() {
        let budget = BodyBudget::new(1_000);
        budget.take(1_001);
        assert!(!budget.has_room());
        budget.give_back(1);
        assert!(budget.has_room());
    }
}
