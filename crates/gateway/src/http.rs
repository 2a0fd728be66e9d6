//! What requests share, whichever version they came by; and the glue between hyper, which serves
//! HTTP/2, and a door. HTTP/1.1 is served by `http1/`.
//!
//! A panic in the door is caught at the edge, answered, logged and counted, and ends nothing but
//! its own request.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use ::http::header::{CONTENT_LENGTH, HOST};
use ::http::{HeaderValue, Method, StatusCode};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use crate::authority::check_http2;
use crate::body::{BodyLimits, Held};
use crate::budget::{CountedBody, Unread};
use crate::door::{Answer, Delivery, Door, Refusal, Request, Response, Scheme};
use crate::endpoints::Endpoints;
use crate::head::Head;
use crate::pool::panic_text;
use crate::progress::Progress;
use crate::telemetry::Telemetry;

/// What all requests share.
pub(crate) struct Site {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) endpoints: Endpoints,
    pub(crate) bodies: BodyLimits,
    pub(crate) telemetry: Arc<Telemetry>,
}

/// What all requests of one connection share.
pub(crate) struct Origin {
    pub(crate) site: Arc<Site>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) unread: Unread,
    pub(crate) scheme: Scheme,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Origin {
    /// What a client hears of a request that broke the door.
    pub(crate) fn panicked(&self, message: &str) -> Response {
        tracing::error!(peer = %self.peer, "a request panicked: {message}");
        self.site.telemetry.panicked();
        self.site.door.refuse(Refusal::Panicked)
    }

    /// Asks the door whether a body may be read. None: yes.
    pub(crate) async fn admit(&self, request: &Request) -> Option<Response> {
        let door = &*self.site.door;
        let asked = match catch_unwind(AssertUnwindSafe(|| door.admit(request))) {
            Ok(admission) => catch_panic(Box::pin(admission.refusal())).await,
            Err(panic) => Err(panic_text(panic.as_ref())),
        };
        asked.unwrap_or_else(|message| Some(self.panicked(&message)))
    }

    /// What a client hears of a body that was not read to its end.
    pub(crate) fn refused(&self, refusal: Refusal) -> Response {
        tracing::debug!("refused: {refusal}");
        self.site.telemetry.refused(refusal.label());
        self.site.door.refuse(refusal)
    }
}

/// Answers one request of HTTP/2.
#[allow(clippy::disallowed_methods, reason = "the edge measures requests by the real clock")]
pub(crate) async fn answer(
    origin: Arc<Origin>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<CountedBody>, Dropped> {
    let received = Instant::now();
    let _busy = origin.progress.begin(received);
    let site = &*origin.site;
    let (parts, body) = request.into_parts();
    let head_only = parts.method == Method::HEAD;
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    if let Err(bad) = check_http2(authority, parts.headers.get_all(HOST).iter()) {
        origin.site.telemetry.refused("host");
        let response = Response::new(StatusCode::BAD_REQUEST, bad.to_string());
        return Ok(finish(&origin, response, head_only));
    }
    let mut request = Request {
        head: Head::new(&parts.uri, &parts.headers),
        method: parts.method,
        body: Bytes::new(),
        scheme: origin.scheme,
        received: received.into_std(),
        local: origin.local,
        peer: origin.peer,
    };
    if let Some(response) = site.endpoints.answer(&*site.door, &request) {
        return Ok(finish(&origin, response, head_only));
    }
    let response = match Box::pin(take_body(&origin, &mut request, body)).await {
        Ok(held) => match ask(&*site.door, request, held).await {
            Ok(response) => deliver(response).await?,
            Err(message) => origin.panicked(&message),
        },
        Err(refused) => refused,
    };
    Ok(finish(&origin, response, head_only))
}

/// Reads the request's body, or says why it is not read.
async fn take_body(
    origin: &Origin,
    request: &mut Request,
    body: Incoming,
) -> Result<Option<Held>, Response> {
    let limits = &origin.site.bodies;
    if body.is_end_stream() {
        return Ok(None);
    }
    if limits.is_for_known_clients(body.size_hint().exact())
        && let Some(refused) = origin.admit(request).await
    {
        origin.progress.must_linger();
        return Err(refused);
    }
    match limits.read(body).await {
        Ok((body, held)) => {
            request.body = body;
            Ok(Some(held))
        }
        Err(refusal) => {
            origin.progress.must_linger();
            Err(origin.refused(refusal))
        }
    }
}

/// The door's response; a panic becomes an error with the panic's message.
async fn ask(door: &dyn Door, request: Request, held: Option<Held>) -> Result<Response, String> {
    // Nothing of what is handed over is used after a panic, so no broken state can be seen.
    match catch_unwind(AssertUnwindSafe(|| door.handle(request))) {
        Ok(Answer::Now(response)) => Ok(response),
        // If the stream is reset, or the connection lost, hyper drops this future.
        Ok(Answer::Later(mut pending)) => {
            pending.held = held;
            catch_panic(pending).await
        }
        Err(panic) => Err(panic_text(panic.as_ref())),
    }
}

/// The door wants the client to get no answer.
#[derive(Debug, thiserror::Error)]
#[error("the door dropped the answer")]
pub(crate) struct Dropped;

async fn deliver(response: Response) -> Result<Response, Dropped> {
    let Delivery { delay, dropped } = response.delivery;
    if !delay.is_zero() {
        Box::pin(tokio::time::sleep(delay)).await;
    }
    if dropped { Err(Dropped) } else { Ok(response) }
}

/// The answer in hyper's words. hyper sends it when the client lets it: until then it counts.
fn finish(origin: &Origin, response: Response, head_only: bool) -> hyper::Response<CountedBody> {
    let Response { status, headers, mut body, .. } = response;
    let mut headers = headers.to_map();
    if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        body = Bytes::new();
    } else if head_only {
        // Else hyper writes it, from the body.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        body = Bytes::new();
    }
    let mut finished = hyper::Response::new(origin.unread.counted(body));
    *finished.status_mut() = status;
    *finished.headers_mut() = headers;
    finished
}

/// Runs a future; a panic becomes an error with the panic's message.
pub(crate) async fn catch_panic<T>(
    mut future: impl Future<Output = T> + Unpin,
) -> Result<T, String> {
    poll_fn(move |cx| {
        // The future is never polled again after a panic, so no broken state can be seen.
        match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(cx))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic_text(panic.as_ref()))),
        }
    })
    .await
}
