//! How far a connection is, and when it has taken too long.
//!
//! Every connection must be getting on: somebody who drips a request's head byte by byte, or never
//! reads our answer, or just stays, would otherwise hold memory and a slot for ever. A timer for
//! each request would cost more than a point read, so nothing is timed while all goes well. The
//! socket ([`Watched`]) and the service leave notes in [`Progress`]; when the connection's task
//! comes to rest, [`Deadlines`] looks at the notes and sets the connection's single timer only if
//! the connection rests in a place where it must not stay:
//!
//! ```text
//!   Head     part of a request's head has arrived, the rest has not
//!   Write    the client does not read: the socket takes nothing
//!   Unread   the same of one stream of HTTP/2, whatever the others do
//!   Linger   we have answered and closed our side, the client still sends
//! ```
//!
//! A request's body has its own limit (`body.rs`); a door's own time is its own affair.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::budget::Unread;
use crate::settings::{ServerSettings, limits};

/// Notes about one connection. All of them are hints for timeouts, so relaxed ordering will do.
#[derive(Debug)]
pub(crate) struct Progress {
    epoch: Instant,
    /// Requests whose answer is not ready yet.
    in_flight: AtomicU32,
    /// When the last request began, in milliseconds since `epoch`.
    last_request_ms: AtomicU64,
    /// Bytes arrived since the last request began.
    head_begun: AtomicBool,
    write_stalled: AtomicBool,
    /// Bytes that were written, in all.
    written: AtomicU64,
    /// Set by a refusal: read on after closing, so that the client can hear us.
    must_linger: AtomicBool,
    lingering: AtomicBool,
    /// The connection shall end as soon as nothing runs.
    winding_down: AtomicBool,
}

/// Where a connection must not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strict {
    Head,
    Write,
    Unread,
    Linger,
}

impl Progress {
    /// A connection whose first bytes have arrived.
    pub(crate) fn new(now: Instant) -> Progress {
        Progress {
            epoch: now,
            in_flight: AtomicU32::new(0),
            last_request_ms: AtomicU64::new(0),
            head_begun: AtomicBool::new(true),
            write_stalled: AtomicBool::new(false),
            written: AtomicU64::new(0),
            must_linger: AtomicBool::new(false),
            lingering: AtomicBool::new(false),
            winding_down: AtomicBool::new(false),
        }
    }

    /// A request's head is complete; the request runs until the returned guard is dropped.
    pub(crate) fn begin(&self, now: Instant) -> Busy<'_> {
        self.head_begun.store(false, Ordering::Relaxed);
        let since = now.saturating_duration_since(self.epoch).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.last_request_ms.store(since, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }

    /// Part of a head has arrived.
    pub(crate) fn head_begins(&self) {
        self.head_begun.store(true, Ordering::Relaxed);
    }

    /// Asks the connection to finish what runs, then to end. It must be polled afterwards.
    pub(crate) fn wind_down(&self) {
        self.winding_down.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_winding_down(&self) -> bool {
        self.winding_down.load(Ordering::Relaxed)
    }

    pub(crate) fn must_linger(&self) {
        self.must_linger.store(true, Ordering::Relaxed);
    }

    /// Bytes that were written, in all.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    fn last_request(&self) -> Instant {
        self.epoch + Duration::from_millis(self.last_request_ms.load(Ordering::Relaxed))
    }

    fn strict(&self, heads: Heads) -> Option<Strict> {
        if self.lingering.load(Ordering::Relaxed) {
            return Some(Strict::Linger);
        }
        if self.write_stalled.load(Ordering::Relaxed) {
            return Some(Strict::Write);
        }
        let head = heads == Heads::Timed && self.head_begun.load(Ordering::Relaxed);
        (head && !self.is_busy()).then_some(Strict::Head)
    }
}

/// A running request.
pub(crate) struct Busy<'a>(&'a Progress);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Do bytes between requests mean that a head is arriving? Not with HTTP/2, where they may be a
/// ping; there the idle limit alone decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heads {
    Timed,
    Untimed,
}

/// A connection's timer. See the module's text.
pub(crate) struct Deadlines<'a> {
    progress: &'a Progress,
    unread: &'a Unread,
    settings: &'a ServerSettings,
    heads: Heads,
    timer: Pin<Box<Sleep>>,
    /// The timer knows whom to wake.
    waits: bool,
    strict: Option<(Strict, Instant)>,
    /// What had been written when it was looked at last.
    written: u64,
    idle_from: Instant,
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Strict(Strict),
    Idle,
}

impl<'a> Deadlines<'a> {
    pub(crate) fn new(
        (progress, unread): (&'a Progress, &'a Unread),
        settings: &'a ServerSettings,
        heads: Heads,
    ) -> Deadlines<'a> {
        let now = Instant::now();
        let timer = Box::pin(tokio::time::sleep_until(now + settings.idle));
        Deadlines {
            progress,
            unread,
            settings,
            heads,
            timer,
            waits: false,
            strict: None,
            written: 0,
            idle_from: now,
        }
    }

    /// Ready when the connection has been too long where it is. Called each time the connection's
    /// task comes to rest.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Overdue> {
        self.look();
        // All requests of a connection are served by one task, which the timer knows until it is
        // set anew: to tell it again for every request would cost more than to look at it.
        if self.waits && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            match self.judge(now) {
                Ok(next) => self.set(next),
                Err(overdue) => {
                    // Whoever ignores this answer is asked again after a moment.
                    self.idle_from = now;
                    self.strict = None;
                    self.set(now + self.settings.linger);
                    return Poll::Ready(overdue);
                }
            }
        }
        self.waits = true;
        Poll::Pending
    }

    fn set(&mut self, deadline: Instant) {
        self.timer.as_mut().reset(deadline);
        self.waits = false;
    }

    /// Sets the timer if the connection has come to rest where it must not stay. A timer that is
    /// no longer needed is left to fire: that is cheaper than to move it for every request.
    fn look(&mut self) {
        let found = self.progress.strict(self.heads).or_else(|| {
            // HTTP/1.1 has one answer at a time: while it waits the socket is stalled.
            let is_waiting = self.heads == Heads::Untimed && self.unread.is_waiting();
            is_waiting.then_some(Strict::Unread)
        });
        let written = self.progress.written();
        let has_written = std::mem::replace(&mut self.written, written) != written;
        if found == self.strict.map(|(strict, _)| strict) {
            if let Some((Strict::Write, since)) = &mut self.strict
                && has_written
            {
                // Slowly, but the client reads. The timer finds that out when it fires.
                *since = Instant::now();
            }
            return;
        }
        self.strict = found.map(|strict| (strict, Instant::now()));
        if let Some((strict, now)) = self.strict {
            let deadline = now + self.limit(strict);
            // Streams come and go: a timer that fires before is left, and looks again.
            if strict != Strict::Unread || deadline < self.timer.deadline() {
                self.set(deadline);
            }
        }
    }

    /// When to look again, or what is overdue.
    fn judge(&mut self, now: Instant) -> Result<Instant, Overdue> {
        if let Some((strict, since)) = self.strict {
            let since = match strict {
                Strict::Unread => self.unread.oldest().unwrap_or(now),
                Strict::Head | Strict::Write | Strict::Linger => since,
            };
            let deadline = since + self.limit(strict);
            return if now >= deadline { Err(Overdue::Strict(strict)) } else { Ok(deadline) };
        }
        if self.progress.is_busy() {
            self.idle_from = now;
        }
        let deadline = self.idle_from.max(self.progress.last_request()) + self.settings.idle;
        if now >= deadline { Err(Overdue::Idle) } else { Ok(deadline) }
    }

    fn limit(&self, strict: Strict) -> Duration {
        match strict {
            Strict::Head => self.settings.head,
            Strict::Write | Strict::Unread => self.settings.write_stall,
            Strict::Linger => self.settings.linger,
        }
    }
}

/// A socket that leaves notes in a [`Progress`], gives back bytes that were read too early, and
/// closes slowly if it must.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    early: Bytes,
    progress: Arc<Progress>,
    closed: bool,
    discarded_bytes: usize,
}

impl<S> Watched<S> {
    /// `early` is what was read from the socket to find out what it speaks.
    pub(crate) fn new(inner: S, early: Bytes, progress: Arc<Progress>) -> Watched<S> {
        Watched { inner, early, progress, closed: false, discarded_bytes: 0 }
    }

    fn wrote(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &poll {
            self.progress.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        self.stalled(poll)
    }

    fn stalled<T>(&self, poll: Poll<T>) -> Poll<T> {
        self.progress.write_stalled.store(poll.is_pending(), Ordering::Relaxed);
        poll
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Reads and discards until the client closes too.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.lingering.store(true, Ordering::Relaxed);
        let mut space = [0; 4096];
        while self.discarded_bytes < limits::LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => break,
                read => self.discarded_bytes += read,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.early.is_empty() {
            let count = this.early.len().min(buffer.remaining());
            buffer.put_slice(&this.early.split_to(count));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.progress.head_begun.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.wrote(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.stalled(poll)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closed {
            let poll = Pin::new(&mut this.inner).poll_shutdown(cx);
            ready!(this.stalled(poll))?;
            this.closed = true;
        }
        if this.progress.must_linger.load(Ordering::Relaxed) {
            return this.poll_linger(cx);
        }
        Poll::Ready(Ok(()))
    }
}
