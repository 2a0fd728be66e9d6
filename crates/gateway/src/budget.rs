//! The memory of bodies: of requests that arrive, and of answers that clients have not read yet,
//! over all connections.
//!
//! Both draw on one number. Requests count while they arrive and are worked on. An answer counts
//! from the moment at which the kernel takes no more of it: most never do. Over the number, the
//! connection goes first that has the answer of which nothing was read for longest, until an eighth
//! is free again. If there is none to cut, requests are refused; their clients hear when to try
//! again.
//!
//! Something of an answer was read when the kernel takes more of it (HTTP/1.1), or when its stream
//! may send more of it (HTTP/2). What else a client reads on the same connection does not count.
//!
//! A connection is cut by its own task ([`Unread::must_end`]), which another one's shortage wakes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::door::AnswerMemory;

/// What all connections have together. See the module's text.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    bytes_max: u64,
    held_bytes: AtomicU64,
    /// The part of it that clients have not read.
    unread_bytes: AtomicU64,
    epoch: Instant,
    /// The latest moment that was told.
    latest: AtomicU64,
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
    answers: Mutex<Answers>,
    is_cut: AtomicBool,
    /// Who ends the connection.
    task: Mutex<Option<Waker>>,
}

/// Since when nothing was read of the answers that wait, in nanoseconds since the budget was made.
#[derive(Debug, Default)]
struct Answers {
    since: HashMap<u64, u64>,
    next_id: u64,
}

impl Answers {
    fn oldest(&self) -> Option<u64> {
        self.since.values().copied().min()
    }
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<BodyBudget> {
        Arc::new(BodyBudget {
            bytes_max,
            held_bytes: AtomicU64::new(0),
            unread_bytes: AtomicU64::new(0),
            epoch: Instant::now(),
            latest: AtomicU64::new(0),
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
            answers: Mutex::default(),
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
                    let since = backlog.answers().oldest().unwrap_or(u64::MAX);
                    waiting.push((since, bytes, backlog));
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

    /// Nanoseconds since the budget was made, later each time: there is always one that is oldest.
    fn now(&self) -> u64 {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let later = |latest: u64| Some(nanos.max(latest.saturating_add(1)));
        let latest = self.latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        latest.map_or(nanos, |latest| nanos.max(latest.saturating_add(1)))
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backlog {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Does an answer wait for its client?
    pub(crate) fn is_waiting(&self) -> bool {
        self.backlog.bytes.load(Ordering::Relaxed) > 0
    }

    /// Since when nothing was read of an answer that waits; of several, for longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let oldest = self.backlog.answers().oldest();
        oldest.map(|nanos| self.budget.epoch + Duration::from_nanos(nanos))
    }

    /// Waits for so many bytes to be sent. They count if they cannot be sent at once, and from then
    /// on are nobody else's. `sent_so_far` grows with what is sent.
    pub(crate) async fn sent<T>(
        &self,
        (bytes, mut memory): (usize, Option<AnswerMemory>),
        sent_so_far: impl Fn() -> u64,
        sending: impl Future<Output = T>,
    ) -> T {
        let mut sending = pin!(sending);
        let mut waiting: Option<(UnreadShare, u64)> = None;
        poll_fn(|cx| {
            let polled = sending.as_mut().poll(cx);
            if polled.is_pending() {
                let now = sent_so_far();
                match &mut waiting {
                    None => {
                        waiting = Some((self.hold(bytes as u64), now));
                        memory = None;
                    }
                    Some((_, before)) if *before == now => {}
                    Some((share, before)) => {
                        share.renew();
                        *before = now;
                    }
                }
            }
            polled
        })
        .await
    }

    /// A body that counts until the last reference to it is gone.
    pub(crate) fn counted(&self, body: Bytes) -> CountedBody {
        if body.is_empty() {
            return CountedBody { left: body, share: None };
        }
        let share = self.hold(body.len() as u64);
        if body.len() <= PIECE_BYTES {
            let left = Bytes::from_owner(Counted { body, _share: share });
            return CountedBody { left, share: None };
        }
        let share = Arc::new(share);
        let left = Bytes::from_owner(Counted { body, _share: Arc::clone(&share) });
        CountedBody { left, share: Some(share) }
    }

    fn hold(&self, bytes: u64) -> UnreadShare {
        let (budget, backlog) = (Arc::clone(&self.budget), Arc::clone(&self.backlog));
        budget.take(bytes);
        budget.unread_bytes.fetch_add(bytes, Ordering::Relaxed);
        backlog.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut answers = backlog.answers();
        let id = answers.next_id;
        answers.next_id += 1;
        answers.since.insert(id, budget.now());
        drop(answers);
        let share = UnreadShare { budget, backlog, id, bytes };
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
    id: u64,
    bytes: u64,
}

impl UnreadShare {
    /// Something of the answer was read.
    fn renew(&self) {
        if let Some(since) = self.backlog.answers().since.get_mut(&self.id) {
            *since = self.budget.now();
        }
    }
}

impl Drop for UnreadShare {
    fn drop(&mut self) {
        self.backlog.answers().since.remove(&self.id);
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.unread_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.give_back(self.bytes);
    }
}

struct Counted<S> {
    body: Bytes,
    _share: S,
}

impl<S> AsRef<[u8]> for Counted<S> {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Large bodies are handed over in pieces of this size. Each is asked for when its stream may send,
/// which tells that the client reads.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of an answer of HTTP/2.
pub(crate) struct CountedBody {
    left: Bytes,
    /// None: it is one piece.
    share: Option<Arc<UnreadShare>>,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        if let Some(share) = &self.share {
            share.renew();
        }
        let piece = self.left.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {

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

    fn next_piece(body: &mut CountedBody) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(body).poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        }
    }

    #[test]
    fn who_reads_on_is_not_the_oldest_any_more() {
        let budget = BodyBudget::new(1 << 20);
        let (first, second) = (budget.open(), budget.open());
        let mut one = first.counted(Bytes::from(vec![0; 300 << 10]));
        let other = second.counted(Bytes::from(vec![0; 300 << 10]));
        assert_eq!(next_piece(&mut one), PIECE_BYTES);
        let third = first.counted(Bytes::from(vec![0; 500 << 10]));
        assert_eq!([is_cut(&first), is_cut(&second)], [false, true]);
        drop((one, other, third));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn reading_one_answer_does_not_make_up_for_another() {
        let budget = BodyBudget::new(1 << 20);
        let (first, second) = (budget.open(), budget.open());
        let unread = first.counted(Bytes::from(vec![0; 300 << 10]));
        let begun = first.oldest();
        assert!(begun.is_some());
        let other = second.counted(Bytes::from(vec![0; 300 << 10]));
        drop(first.counted(Bytes::from_static(b"small")));
        assert_eq!(first.oldest(), begun);
        let third = second.counted(Bytes::from(vec![0; 500 << 10]));
        assert_eq!([is_cut(&first), is_cut(&second)], [true, false]);
        drop((unread, other, third));
        assert_eq!((budget.held_bytes(), first.oldest()), (0, None));
    }

    #[test]
    fn an_answer_of_which_some_is_sent_is_not_the_oldest_any_more() {
        let budget = BodyBudget::new(1 << 20);
        let reader = budget.open();
        let sent = AtomicU64::new(0);
        let so_far = || sent.load(Ordering::Relaxed);
        let mut sending = Box::pin(reader.sent((500, None), so_far, std::future::pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sending.as_mut().poll(&mut cx).is_pending());
        let begun = reader.oldest();
        assert!(sending.as_mut().poll(&mut cx).is_pending());
        assert_eq!(reader.oldest(), begun);
        sent.store(100, Ordering::Relaxed);
        assert!(sending.as_mut().poll(&mut cx).is_pending());
        assert!(reader.oldest() > begun);
    }

    #[tokio::test]
    async fn only_what_has_to_wait_counts() {
        let budget = BodyBudget::new(1_000);
        let reader = budget.open();
        reader.sent((500, None), || 0, async {}).await;
        assert_eq!(budget.held_bytes(), 0);
        let mut sending = Box::pin(reader.sent((500, None), || 0, std::future::pending::<()>()));
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
