//! The glue between hyper and a door: a request in, a response out.
//!
//! This is the path of every request, so it does as little as it can: the head is moved, not
//! copied; a body of one frame is passed on as it is; nothing is spawned; what is rarely waited for
//! is boxed, so that the future of a request, which is moved about, stays small. A panic in the
//! door is caught here, answered, logged and counted, and ends nothing but its own request.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use ::http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use ::http::request::Parts;
use ::http::{HeaderValue, Method, StatusCode, Version};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use crate::body::BodyLimits;
use crate::door::{Answer, Delivery, Door, Refusal, Request, Response, Scheme};
use crate::endpoints::Endpoints;
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
    pub(crate) scheme: Scheme,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// Answers one request.
#[allow(clippy::disallowed_methods, reason = "the edge measures requests by the real clock")]
pub(crate) async fn answer(
    origin: Arc<Origin>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Dropped> {
    let received = Instant::now();
    let _busy = origin.progress.begin(received);
    let site = &*origin.site;
    let (parts, body) = request.into_parts();
    let form = Form::of(&parts);
    if let Some(response) = site.endpoints.answer(&parts.method, parts.uri.path()) {
        return Ok(finish(response, form));
    }
    let (body, _held) = match body.is_end_stream() {
        true => (Bytes::new(), None),
        false => match Box::pin(site.bodies.read(body)).await {
            Ok((body, held)) => (body, Some(held)),
            Err(refusal) => {
                origin.progress.must_linger();
                return Ok(refuse(site, refusal, form));
            }
        },
    };
    let request = Request {
        headers: with_host(&parts.uri, parts.headers),
        method: parts.method,
        uri: parts.uri,
        body,
        scheme: origin.scheme,
        received: received.into_std(),
        local: origin.local,
        peer: origin.peer,
    };
    match ask(&*site.door, request).await {
        Ok(response) => deliver(response, form).await,
        Err(message) => {
            tracing::error!(peer = %origin.peer, "a request panicked: {message}");
            site.telemetry.panicked();
            Ok(finish(site.door.refuse(Refusal::Panicked), form))
        }
    }
}

/// The door's response; a panic becomes an error with the panic's message.
async fn ask(door: &dyn Door, request: Request) -> Result<Response, String> {
    // Nothing of what is handed over is used after a panic, so no broken state can be seen.
    match catch_unwind(AssertUnwindSafe(|| door.handle(request))) {
        Ok(Answer::Now(response)) => Ok(response),
        Ok(Answer::Later(future)) => catch_panic(future).await,
        Err(panic) => Err(panic_text(panic.as_ref())),
    }
}

/// The door wants the client to get no answer.
#[derive(Debug, thiserror::Error)]
#[error("the door dropped the answer")]
pub(crate) struct Dropped;

async fn deliver(response: Response, form: Form) -> Result<hyper::Response<Full<Bytes>>, Dropped> {
    let Delivery { delay, dropped } = response.delivery;
    if !delay.is_zero() {
        Box::pin(tokio::time::sleep(delay)).await;
    }
    if dropped { Err(Dropped) } else { Ok(finish(response, form)) }
}

/// What of a request decides the form of its response.
#[derive(Clone, Copy)]
struct Form {
    head_only: bool,
    closable: bool,
}

impl Form {
    fn of(parts: &Parts) -> Form {
        Form {
            head_only: parts.method == Method::HEAD,
            // HTTP/2 has no `connection` header; its streams end by themselves.
            closable: parts.version < Version::HTTP_2,
        }
    }
}

/// A request whose body was not read to its end: what follows on the connection is not a request,
/// so the connection is closed.
fn refuse(site: &Site, refusal: Refusal, form: Form) -> hyper::Response<Full<Bytes>> {
    tracing::debug!("refused: {refusal}");
    site.telemetry.refused(refusal.label());
    let mut response = site.door.refuse(refusal);
    if form.closable {
        response.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    finish(response, form)
}

fn finish(response: Response, form: Form) -> hyper::Response<Full<Bytes>> {
    let Response { status, mut headers, mut body, .. } = response;
    // The length is ours to say: hyper writes it from the body.
    headers.remove(CONTENT_LENGTH);
    if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        body = Bytes::new();
    } else if form.head_only {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        body = Bytes::new();
    }
    let mut finished = hyper::Response::new(Full::new(body));
    *finished.status_mut() = status;
    *finished.headers_mut() = headers;
    finished
}

/// HTTP/2 names the host in the request line; doors find it in the `host` header in any case.
fn with_host(uri: &::http::Uri, mut headers: ::http::HeaderMap) -> ::http::HeaderMap {
    if let Some(authority) = uri.authority()
        && !headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(HOST, host);
    }
    headers
}

/// Runs a future; a panic becomes an error with the panic's message.
async fn catch_panic<T>(mut future: impl Future<Output = T> + Unpin) -> Result<T, String> {
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
