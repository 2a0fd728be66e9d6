//! HTTP/1.1 (and 1.0), served by a loop of our own.
//!
//! Requests and responses are whole, never streamed, which leaves little of HTTP/1.1: read until
//! there is a head (`parse.rs`), read its body (`body.rs`), ask the door, write the answer
//! (`write.rs`). A connection at rest has two buffers and nothing else; nothing is allocated for a
//! single header.
//!
//! What has arrived is worked off before anything is waited for: answers to requests that came
//! together go out together, in order. While the door makes a client wait, the connection listens
//! for the client's end. What that means is the door's to say (`pending.rs`): the request goes on
//! and is answered, or it is forgotten, and the connection ends. To see the end is to read all that
//! comes before it, so who sends much behind a request that ends with its client is refused.
//!
//! When a connection must end this file does not decide: `progress.rs` knows what takes too long,
//! and the shutdown asks to wind down, which is heeded between two requests.

mod body;
mod parse;
#[cfg(any(test, fuzzing))]
pub(crate) mod tests;
mod write;

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use ::http::header::CONTENT_TYPE;
use ::http::{Method, StatusCode};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::body::Held;
use crate::door::{Answer, AnswerMemory, Delivery, Refusal, Request, Response};
use crate::http::{Origin, catch_panic};
use crate::lines::Lines;
use crate::pending::IfLeft;
use crate::pool::panic_text;
use crate::progress::Watched;

use body::Source;
use parse::{BadHead, Framing, Parsed, Version, parse};
use write::{Fate, write_head};

/// Room for what arrives: a request with a small item.
const INBOX_BYTES: usize = 8 * 1024;
/// Less room than this is not worth a system call.
const INBOX_BYTES_MIN: usize = 4 * 1024;
/// Bodies up to this size are copied behind their head, so that both are written as one.
const COPIED_BYTES_MAX: usize = 16 * 1024;
/// While a client waits for an answer, no more of what it sends already is read than this.
const INBOX_AHEAD_BYTES_MAX: usize = 16 * 1024;
/// Answers are not gathered beyond this.
const OUTBOX_BYTES_MAX: usize = 64 * 1024;
/// Room for answers that is kept: what most need. Thousands of connections are at rest.
const OUTBOX_BYTES_KEPT: usize = 8 * 1024;

/// A connection that speaks HTTP/1.
pub(crate) struct Connection<'a, S> {
    origin: &'a Origin,
    stream: Watched<S>,
    /// What has arrived and was not read yet.
    inbox: BytesMut,
    /// How much of it is known not to hold the end of a head.
    searched: usize,
    /// Answers that were not sent yet.
    outbox: Vec<u8>,
    /// The client has ended its side: it may still read.
    has_ended: bool,
}

/// What follows a request.
enum Next {
    Request,
    End,
}

/// What waiting for the door has come to.
enum Waited<T> {
    For(T),
    /// The client has ended its side, and that ends the request.
    Left,
    /// Behind what the client has sent its end could not be seen.
    SentAhead,
}

/// What decides the form of an answer.
#[derive(Clone, Copy)]
struct Form {
    version: Version,
    head_only: bool,
    keep_alive: bool,
    received: Instant,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
    pub(crate) fn new(origin: &'a Origin, stream: Watched<S>) -> Connection<'a, S> {
        let inbox = BytesMut::with_capacity(INBOX_BYTES);
        Connection { origin, stream, inbox, searched: 0, outbox: Vec::new(), has_ended: false }
    }

    /// Serves requests until the connection ends.
    pub(crate) async fn serve(mut self) {
        if let Err(error) = self.work().await {
            tracing::debug!("a connection ended: {error}");
        } else if let Err(error) = self.stream.shutdown().await {
            tracing::debug!("a connection did not end well: {error}");
        }
    }

    async fn work(&mut self) -> io::Result<()> {
        loop {
            let next = match self.next_head() {
                Ok(Some(parsed)) => self.answer(parsed).await?,
                Ok(None) => {
                    self.send().await?;
                    self.fill().await?
                }
                Err(bad) => self.refuse_head(bad),
            };
            match next {
                Next::Request if self.outbox.len() < OUTBOX_BYTES_MAX => {}
                Next::Request => self.send().await?,
                Next::End => return self.send().await,
            }
        }
    }

    /// The next head, if it is there. What was searched for its end is not parsed again and again
    /// while the head arrives byte by byte.
    fn next_head(&mut self) -> Result<Option<Parsed>, BadHead> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        let unsearched = self.inbox.get(self.searched.saturating_sub(2)..).unwrap_or_default();
        let is_over = self.inbox.len() > crate::settings::limits::HEAD_BYTES_MAX as usize;
        if self.searched > 0 && !is_over && !has_end(unsearched) {
            self.searched = self.inbox.len();
            return Ok(None);
        }
        let parsed = parse(&mut self.inbox)?;
        self.searched = if parsed.is_some() { 0 } else { self.inbox.len() };
        Ok(parsed)
    }

    /// Waits for more to arrive.
    async fn fill(&mut self) -> io::Result<Next> {
        let progress = &self.origin.progress;
        if !self.inbox.is_empty() {
            progress.head_begins();
        }
        if self.inbox.capacity() - self.inbox.len() < INBOX_BYTES_MIN {
            self.inbox.reserve(INBOX_BYTES);
            // One long head does not make the connection larger for ever.
            if self.inbox.is_empty() && self.inbox.capacity() > 2 * INBOX_BYTES {
                self.inbox = BytesMut::with_capacity(INBOX_BYTES);
            }
        }
        let read = poll_fn(|cx| {
            if self.inbox.is_empty() && progress.is_winding_down() {
                return Poll::Ready(Ok(0));
            }
            pin!(self.stream.read_buf(&mut self.inbox)).poll(cx)
        });
        if read.await? > 0 {
            return Ok(Next::Request);
        }
        // What was not looked at yet, for its end had not come, may have been no head at all.
        Ok(match parse(&mut self.inbox) {
            Err(bad) => self.refuse_head(bad),
            Ok(_) => Next::End,
        })
    }

    /// Answers one request.
    #[allow(clippy::disallowed_methods, reason = "the edge measures requests by the real clock")]
    async fn answer(&mut self, parsed: Parsed) -> io::Result<Next> {
        let origin = self.origin;
        let received = Instant::now();
        let _busy = origin.progress.begin(received);
        let site = &*origin.site;
        let Parsed { method, head, version, body, expects_continue, keep_alive } = parsed;
        let head_only = method == Method::HEAD;
        let form = Form { version, head_only, keep_alive, received };
        let mut request = Request {
            method,
            head,
            body: Bytes::new(),
            scheme: origin.scheme,
            received: received.into_std(),
            local: origin.local,
            peer: origin.peer,
        };
        let held = match body {
            Framing::Length(0) => None,
            framing => match self.body(framing, expects_continue, &request).await? {
                Ok((body, held)) => {
                    request.body = body;
                    Some(held)
                }
                Err(refused) => return self.refuse(refused, form).await,
            },
        };
        if let Some(response) = site.endpoints.answer(&*site.door, &request) {
            return self.write(response, form).await;
        }
        // Nothing of what is handed over is used after a panic, so no broken state can be seen.
        let answered = catch_unwind(AssertUnwindSafe(|| site.door.handle(request)));
        let answered = match answered {
            Ok(Answer::Now(response)) => {
                drop(held);
                Ok(response)
            }
            Ok(Answer::Later(mut pending)) => {
                pending.held = held;
                let if_left = pending.if_left();
                match self.wait(catch_panic(pending), if_left).await? {
                    Waited::For(answered) => answered,
                    Waited::Left => return Ok(Next::End),
                    Waited::SentAhead => {
                        let bytes_max = INBOX_AHEAD_BYTES_MAX;
                        let refused = origin.refused(Refusal::SentAhead { bytes_max });
                        return self.refuse(refused, form).await;
                    }
                }
            }
            Err(panic) => Err(panic_text(panic.as_ref())),
        };
        match answered {
            Ok(response) if response.delivery == Delivery::default() => {
                self.write(response, form).await
            }
            Ok(response) => Box::pin(self.deliver(response, form)).await,
            Err(message) => self.write(origin.panicked(&message), form).await,
        }
    }

    /// The body of a request, or the answer if it is not read.
    async fn body(
        &mut self,
        framing: Framing,
        expects_continue: bool,
        request: &Request,
    ) -> io::Result<Result<(Bytes, Held), Response>> {
        let origin = self.origin;
        let limits = &origin.site.bodies;
        let announced = match limits.check_announced(framing) {
            Ok(announced) => announced,
            Err(refusal) => return Ok(Err(origin.refused(refusal))),
        };
        if let Some(length) = announced
            && let Some(whole) = limits.take(&mut self.inbox, length)
        {
            return Ok(Ok(whole));
        }
        if limits.is_for_known_clients(announced)
            && let Some(refused) = Box::pin(origin.admit(request)).await
        {
            return Ok(Err(refused));
        }
        if expects_continue && self.inbox.is_empty() {
            self.outbox.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.send().await?;
        let source = Source { stream: &mut self.stream, inbox: &mut self.inbox };
        let gathered = Box::pin(limits.gather(source, framing)).await;
        Ok(gathered.map_err(|refusal| origin.refused(refusal)))
    }

    /// Waits for the door. It is an error if the client is gone. The future is dropped unless it
    /// comes to its end.
    async fn wait<T>(
        &mut self,
        future: impl Future<Output = T>,
        if_left: IfLeft,
    ) -> io::Result<Waited<T>> {
        let mut future = pin!(future);
        self.send().await?;
        let mut is_first = true;
        poll_fn(|cx| {
            // What is not wanted is not begun.
            if !(std::mem::take(&mut is_first) && self.has_ended && if_left == IfLeft::Cancel)
                && let Poll::Ready(value) = future.as_mut().poll(cx)
            {
                return Poll::Ready(Ok(Waited::For(value)));
            }
            match self.poll_end(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if if_left == IfLeft::Cancel => {
                    Poll::Ready(Ok(if self.has_ended { Waited::Left } else { Waited::SentAhead }))
                }
                Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Listens for the client's end, and takes in what it sends ahead. Ready if nothing is left to
    /// listen for; an error means that the client is gone.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.has_ended && self.inbox.len() < INBOX_AHEAD_BYTES_MAX {
            self.inbox.reserve(INBOX_BYTES_MIN);
            match ready!(pin!(self.stream.read_buf(&mut self.inbox)).poll(cx)) {
                Ok(0) => self.has_ended = true,
                Ok(_) => {}
                // Within TLS some end without saying so.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.has_ended = true,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Late, or not at all.
    async fn deliver(&mut self, response: Response, form: Form) -> io::Result<Next> {
        let Delivery { delay, dropped } = response.delivery;
        let waited = self.wait(tokio::time::sleep(delay), IfLeft::Answer).await?;
        match waited {
            Waited::For(()) if !dropped => self.write(response, form).await,
            _ => Ok(Next::End),
        }
    }

    /// A request whose body was not read to its end: what follows on the connection is not a
    /// request.
    async fn refuse(&mut self, response: Response, form: Form) -> io::Result<Next> {
        self.origin.progress.must_linger();
        self.write(response, Form { keep_alive: false, ..form }).await
    }

    /// What arrived is not HTTP, or more than we read: nobody can say where it ends.
    #[allow(clippy::disallowed_methods, reason = "responses tell the real time")]
    fn refuse_head(&mut self, bad: BadHead) -> Next {
        let (status, reason, text) = match bad {
            BadHead::Malformed => (
                StatusCode::BAD_REQUEST,
                "head_malformed",
                "The head of the request cannot be read.".into(),
            ),
            BadHead::Host(bad) => (StatusCode::BAD_REQUEST, "host", bad.to_string()),
            BadHead::TooLarge => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                let text = "The request's head has more than 64 KB or more than 100 headers.";
                (status, "head_too_large", text.into())
            }
        };
        self.origin.site.telemetry.refused(reason);
        self.origin.progress.must_linger();
        let (form, now) = ((Version::Http11, Fate::Closed), Instant::now().into_std());
        let mut lines = Lines::new();
        lines.push(&CONTENT_TYPE, "text/plain; charset=utf-8");
        write_head(&mut self.outbox, form, status, &lines, Some(text.len()), now);
        self.outbox.extend_from_slice(text.as_bytes());
        Next::End
    }

    /// Puts a response where what is sent waits, or sends it, if it is large.
    async fn write(&mut self, response: Response, form: Form) -> io::Result<Next> {
        let Response { status, headers, body, memory, .. } = response;
        let fate = match form.keep_alive && !self.origin.progress.is_winding_down() {
            true => Fate::Kept,
            false => Fate::Closed,
        };
        let is_bare = status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
        let length = (!is_bare).then_some(body.len());
        let now = form.received.into_std();
        write_head(&mut self.outbox, (form.version, fate), status, &headers, length, now);
        if !is_bare && !form.head_only {
            if body.len() <= COPIED_BYTES_MAX {
                self.outbox.extend_from_slice(&body);
            } else {
                Box::pin(self.send_with(&body, memory)).await?;
            }
        }
        Ok(if fate == Fate::Kept { Next::Request } else { Next::End })
    }

    /// Sends what waits.
    async fn send(&mut self) -> io::Result<()> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let sending = self.stream.write_all(&self.outbox);
        let Origin { unread, progress, .. } = self.origin;
        unread.sent((self.outbox.len(), None), || progress.written(), sending).await?;
        self.sent().await
    }

    /// Sends what waits and this body behind it.
    async fn send_with(&mut self, body: &[u8], memory: Option<AnswerMemory>) -> io::Result<()> {
        let Origin { unread, progress, .. } = self.origin;
        let bytes = self.outbox.len() + body.len();
        let sending = self.write_with(body);
        unread.sent((bytes, memory), || progress.written(), sending).await?;
        self.sent().await
    }

    async fn write_with(&mut self, body: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while let Some(head) = self.outbox.get(sent..).filter(|head| !head.is_empty()) {
            let slices = [IoSlice::new(head), IoSlice::new(body)];
            let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write_vectored(cx, &slices));
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => sent += written,
            }
        }
        let of_body = sent - self.outbox.len();
        self.stream.write_all(body.get(of_body..).unwrap_or_default()).await
    }

    async fn sent(&mut self) -> io::Result<()> {
        self.outbox.clear();
        self.outbox.shrink_to(OUTBOX_BYTES_KEPT);
        self.stream.flush().await
    }
}

/// Is the end of a head among these bytes? Perhaps: of what ends with a mere line feed, `parse.rs`
/// shall know.
fn has_end(bytes: &[u8]) -> bool {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.any(|(at, _)| matches!(bytes.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..])))
}
