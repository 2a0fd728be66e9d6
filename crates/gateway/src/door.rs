//! What a front door is, and the plain request and response it deals in.
//!
//! A [`Request`] is complete: its body has arrived whole and is within the size limit. A
//! [`Response`] is complete too: nothing is streamed, because every answer of the database is a
//! bounded page. What could not become a request is a [`Refusal`]: the gateway knows the reason,
//! the door knows how its protocol words it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{Method, StatusCode};
use bytes::Bytes;

use crate::head::Head;
use crate::lines::Lines;
use crate::pending::Pending;
use crate::telemetry::Figures;

/// A protocol: turns requests into operations of the database and outcomes into responses.
pub trait Door: Send + Sync + 'static {
    /// Answers one request. Runs on the connection's thread: work that takes more than a
    /// millisecond belongs in the [`Pool`](crate::Pool). What becomes of a future whose client goes
    /// away, the door says with it ([`IfLeft`](crate::IfLeft)).
    fn handle(&self, request: Request) -> Answer;

    /// May the body of this request be read? Asked with the head alone, of requests whose body is
    /// large or where memory is short, so that nobody without a credential can make the server hold
    /// much. The request comes to [`handle`](Door::handle) afterwards, with all that is checked
    /// there.
    fn admit<'a>(&'a self, request: &'a Request) -> Admission<'a>;

    /// Which figures may who sent this request see? Asked of requests for `/metrics`; an answer
    /// where the credentials that they show are wrong.
    fn figures(&self, request: &Request) -> Result<Figures, Box<Response>>;

    /// Words the answer to a request that never became one. Must not panic: it is also asked after
    /// [`handle`](Door::handle) did.
    fn refuse(&self, refusal: Refusal) -> Response;
}

/// Whether a request's body may be read.
pub enum Admission<'a> {
    Granted,
    Refused(Box<Response>),
    /// It takes a while to find out. None: granted.
    Asks(Pin<Box<dyn Future<Output = Option<Response>> + Send + 'a>>),
}

impl Admission<'_> {
    /// Why not, when that is known.
    pub async fn refusal(self) -> Option<Response> {
        match self {
            Admission::Granted => None,
            Admission::Refused(response) => Some(*response),
            Admission::Asks(asked) => asked.await,
        }
    }
}

impl fmt::Debug for Admission<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Admission::Granted => f.write_str("Granted"),
            Admission::Refused(response) => f.debug_tuple("Refused").field(response).finish(),
            Admission::Asks(_) => f.write_str("Asks(…)"),
        }
    }
}

/// A response, or the promise of one.
pub enum Answer {
    /// Nothing had to be waited for. The most frequent requests are answered like this: a future
    /// has room for everything that any request may wait for, and is moved about.
    Now(Response),
    Later(Pending),
}

impl Answer {
    /// The response, when it is there.
    pub async fn response(self) -> Response {
        match self {
            Answer::Now(response) => response,
            Answer::Later(pending) => pending.await,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Now(response) => f.debug_tuple("Now").field(response).finish(),
            Answer::Later(_) => f.write_str("Later(…)"),
        }
    }
}

/// A whole request.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    /// Target and headers.
    pub head: Head,
    pub body: Bytes,
    pub scheme: Scheme,
    /// When the request's head had arrived.
    pub received: Instant,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// A whole response. The gateway adds `date`, `connection` and `content-length`; a 204 or 304 loses
/// its body.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: Lines,
    pub body: Bytes,
    pub delivery: Delivery,
    /// What the body's memory is taken from: the gateway drops it when the body is sent, or counts
    /// as one that waits for its client.
    pub memory: Option<AnswerMemory>,
}

/// Memory that somebody keeps account of, whoever that is.
#[derive(Clone)]
pub struct AnswerMemory(#[expect(dead_code, reason = "it is dropped")] Arc<dyn Any + Send + Sync>);

impl AnswerMemory {
    /// What gives the memory back when it is dropped.
    pub fn new(reservation: impl Any + Send + Sync) -> AnswerMemory {
        AnswerMemory(Arc::new(reservation))
    }
}

impl fmt::Debug for AnswerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerMemory(…)")
    }
}

/// How a response reaches its client. Other than at once is for those who test what their program
/// does on a bad day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Wait so long.
    pub delay: Duration,
    /// Send nothing: the connection ends, or of HTTP/2 the stream.
    pub dropped: bool,
}

impl Response {
    /// A response without headers.
    pub fn new(status: StatusCode, body: impl Into<Bytes>) -> Response {
        Response::with_headers(status, Lines::new(), body)
    }

    /// A response with these headers.
    pub fn with_headers(status: StatusCode, headers: Lines, body: impl Into<Bytes>) -> Response {
        let (delivery, memory) = (Delivery::default(), None);
        Response { status, headers, body: body.into(), delivery, memory }
    }
}

/// How the client reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// Why a request got no further than the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The body is larger than any door accepts. `announced` is the content length, where the
    /// client gave one; without it the body was cut off while it was being read.
    BodyTooLarge { announced: Option<u64>, bytes_max: u64 },
    /// The body did not arrive in time.
    BodyTimeout { seconds: u64 },
    /// The body's framing is broken, or the connection was.
    BodyBroken { reason: String },
    /// Too many bytes of bodies are in memory already, over all connections.
    Overloaded { bytes_max: u64 },
    /// So much was sent behind a request that may take long that its end would not be seen.
    SentAhead { bytes_max: usize },
    /// The door panicked while it handled the request.
    Panicked,
}

impl Refusal {
    /// The HTTP status that says this.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Refusal::BodyBroken { .. } | Refusal::SentAhead { .. } => StatusCode::BAD_REQUEST,
            Refusal::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// One word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Refusal::BodyTooLarge { .. } => "body_too_large",
            Refusal::BodyTimeout { .. } => "body_timeout",
            Refusal::BodyBroken { .. } => "body_broken",
            Refusal::Overloaded { .. } => "overloaded",
            Refusal::SentAhead { .. } => "sent_ahead",
            Refusal::Panicked => "panicked",
        }
    }
}

/// The message for the client: the offending thing, the limit, and what to do.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BodyTooLarge { announced: Some(bytes), bytes_max } => {
                write!(
                    f,
                    "the request body of {bytes} bytes exceeds the limit of {bytes_max} bytes"
                )
            }
            Refusal::BodyTooLarge { announced: None, bytes_max } => {
                write!(f, "the request body exceeds the limit of {bytes_max} bytes")
            }
            Refusal::BodyTimeout { seconds } => {
                write!(f, "the request body did not arrive within {seconds} seconds")
            }
            Refusal::BodyBroken { reason } => {
                write!(f, "the request body could not be read: {reason}")
            }
            Refusal::Overloaded { bytes_max } => write!(
                f,
                "the server already holds {bytes_max} bytes of requests and answers; retry later"
            ),
            Refusal::SentAhead { bytes_max } => write!(
                f,
                "more than {bytes_max} bytes were sent behind a request that may take long and was \
                 not answered yet; wait for its answer, or use another connection"
            ),
            Refusal::Panicked => write!(
                f,
                "an internal error stopped this request; the server's log has the details"
            ),
        }
    }
}
