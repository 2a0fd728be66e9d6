//! The same bytes get the same answers, however they arrive.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::StatusCode;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Connection;
use crate::body::BodyLimits;
use crate::budget::BodyBudget;
use crate::door::{Admission, Answer, Door, Refusal, Request, Response, Scheme};
use crate::endpoints::{Endpoints, ServiceStatus};
use crate::http::{Origin, Site};
use crate::progress::{Progress, Watched};
use crate::shutdown::Shutdown;
use crate::telemetry::{Figures, Telemetry};

/// A client that sends pieces, then closes; what it is sent is kept.
struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    sent: Vec<u8>,
    /// Every other look at it finds nothing, so that waiting is part of the test.
    rests: bool,
}

impl AsyncRead for &mut Pieces {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.rests = !this.rests;
        if this.rests {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(mut piece) = this.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                this.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for &mut Pieces {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Never all at once.
        let count = bytes.len().div_ceil(2);
        self.get_mut().sent.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Tells back what it was asked.
struct Echo;

impl Door for Echo {
    fn admit<'a>(&'a self, _: &'a Request) -> Admission<'a> {
        Admission::Granted
    }

    fn handle(&self, request: Request) -> Answer {
        let fields: Vec<String> = request
            .head
            .fields()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
            .collect();
        let target = (request.head.host(), request.head.path(), request.head.query());
        let text = format!("{} {target:?} {fields:?} {:?}", request.method, request.body);
        let mut response = Response::new(StatusCode::OK, text);
        if request.head.path() == "/large" {
            response.body = vec![b'x'; 3 * super::COPIED_BYTES_MAX].into();
        }
        Answer::Now(response)
    }

    fn figures(&self, _: &Request) -> Result<Figures, Box<Response>> {
        Ok(Figures::OfProcess)
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        Response::new(refusal.status(), refusal.to_string())
    }
}

fn origin() -> Origin {
    let telemetry = Arc::new(Telemetry::new("test"));
    #[allow(clippy::disallowed_methods, reason = "uptime is real time")]
    let started = std::time::Instant::now();
    let budget = BodyBudget::new(100_000);
    let endpoints = Endpoints {
        version: "test",
        started,
        certificate_pem: Bytes::new(),
        telemetry: Arc::clone(&telemetry),
        status: Arc::new(|| ServiceStatus { ready: true, trouble: None, details: "{}".into() }),
        compat: Bytes::new(),
        shutdown: Shutdown::new(),
        bodies: Arc::clone(&budget),
    };
    let bodies = BodyLimits {
        bytes_max: 10_000,
        time_max: Duration::from_secs(20),
        budget: Arc::clone(&budget),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 8081));
    Origin {
        site: Arc::new(Site { door: Arc::new(Echo), endpoints, bodies, telemetry }),
        progress: Arc::new(Progress::new(Instant::now())),
        unread: budget.open(),
        scheme: Scheme::Http,
        local: address,
        peer: address,
    }
}

/// All that a client hears who sends these pieces, but for the time.
async fn heard(pieces: VecDeque<Vec<u8>>) -> String {
    let origin = origin();
    let mut pieces = Pieces { pieces, sent: Vec::new(), rests: false };
    let stream = Watched::new(&mut pieces, Bytes::new(), Arc::clone(&origin.progress));
    Connection::new(&origin, stream).serve().await;
    let held = origin.site.bodies.budget.held_bytes();
    assert_eq!(held, 0, "bodies are given back");
    let text = String::from_utf8_lossy(&pieces.sent).into_owned();
    text.split("\r\n").filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\r\n")
}

async fn heard_at_once(bytes: &[u8]) -> String {
    heard(VecDeque::from([bytes.to_vec()])).await
}

/// A number that looks random, below a bound.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pieces(&mut self, bytes: &[u8]) -> VecDeque<Vec<u8>> {
        let mut pieces = VecDeque::new();
        let mut rest = bytes;
        let longest = 1 + self.below(rest.len().max(1));
        while !rest.is_empty() {
            let count = 1 + self.below(longest.min(rest.len()));
            let (piece, after) = rest.split_at(count);
            pieces.push_back(piece.to_vec());
            rest = after;
        }
        pieces
    }
}

const REQUESTS: [&str; 14] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\n\r\nGET /dbs/a%20b/colls/%C3%A9?x=1 HTTP/1.1\r\nHOST:a\r\nX-Ms-Date: \t now \r\n\r\n",
    "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
    "POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
    "PUT /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n",
    "PUT /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n",
    "HEAD /alive HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET http://b:8/x HTTP/1.1\r\nhost: b:8\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET /old HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    "GET /large HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "POST /much HTTP/1.1\r\nhost: a\r\ncontent-length: 10001\r\n\r\n",
    "PUT /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n9000\r\n",
];

fn pipelined(random: &mut Random) -> Vec<u8> {
    let count = 1 + random.below(6);
    (0..count).flat_map(|_| REQUESTS[random.below(REQUESTS.len())].bytes()).collect()
}

#[tokio::test]
async fn answers_do_not_depend_on_how_requests_are_cut() {
    let mut random = Random(7);
    for _ in 0..600 {
        let bytes = pipelined(&mut random);
        let expected = heard_at_once(&bytes).await;
        assert!(expected.starts_with("HTTP/1."), "{expected}");
        for _ in 0..3 {
            let pieces = random.pieces(&bytes);
            assert_eq!(heard(pieces.clone()).await, expected, "{pieces:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_at_rest_keeps_little_room() {
    // Each answer tells the head back: there are many to gather.
    let request = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "x".repeat(1_000));
    let origin = origin();
    let mut pieces = Pieces {
        pieces: VecDeque::from([request.repeat(50).into_bytes()]),
        sent: Vec::new(),
        rests: false,
    };
    let stream = Watched::new(&mut pieces, Bytes::new(), Arc::clone(&origin.progress));
    let mut connection = Connection::new(&origin, stream);
    connection.work().await.unwrap();
    assert!(connection.outbox.capacity() <= super::OUTBOX_BYTES_KEPT);
    drop(connection);
    assert!(pieces.sent.len() > 50_000);
}

#[tokio::test]
async fn broken_requests_get_the_same_answers_however_they_are_cut() {
    let mut random = Random(11);
    for _ in 0..3_000 {
        let mut bytes = pipelined(&mut random);
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.insert(at, b"\r\n :;0a\0\xff"[random.below(9)]),
                _ => drop(bytes.remove(at)),
            }
        }
        let expected = heard_at_once(&bytes).await;
        let pieces = random.pieces(&bytes);
        assert_eq!(heard(pieces.clone()).await, expected, "{pieces:?}");
    }
}

#[tokio::test]
async fn every_single_cut_of_every_request_is_harmless() {
    for request in REQUESTS {
        let bytes = request.as_bytes();
        let expected = heard_at_once(bytes).await;
        for at in 1..bytes.len() {
            let pieces = VecDeque::from([bytes[..at].to_vec(), bytes[at..].to_vec()]);
            assert_eq!(heard(pieces).await, expected, "{request:?} at {at}");
        }
    }
}

#[tokio::test]
async fn answers_to_requests_that_came_together_are_in_order() {
    let bytes: String = (0..50).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: a\r\n\r\n")).collect();
    let heard = heard_at_once(bytes.as_bytes()).await;
    let mut rest = heard.as_str();
    for n in 0..50 {
        let at = rest.find(&format!("\"/{n}\"")).unwrap();
        rest = &rest[at..];
    }
}
