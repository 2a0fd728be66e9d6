//! A server with a door made for tests, and a client that can misbehave.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use partita_gateway::{
    Admission, Answer, Certificate, CertificateSource, Delivery, Door, Drained, Figures, IfLeft,
    Listen, Pending, Refusal, Request, Response, Sample, Series, SeriesKind, Server,
    ServerSettings, ServiceStatus, Services, Shutdown, Telemetry,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Answers by path. See [`TestDoor::answer`].
pub(crate) struct TestDoor {
    /// `/wait` takes a permit before it answers; so do `/wait/answer` and `/wait/finish`.
    pub(crate) gate: Arc<Semaphore>,
    /// Requests that have reached `/wait`.
    pub(crate) arrived: Arc<Semaphore>,
    /// Requests that have left it with an answer.
    pub(crate) done: Arc<Semaphore>,
    /// Requests that have left it without.
    pub(crate) dropped: Arc<Semaphore>,
}

/// What becomes of a request to `/wait`.
struct Waiting {
    done: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
    is_done: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        (if self.is_done { &self.done } else { &self.dropped }).add_permits(1);
    }
}

impl TestDoor {
    pub(crate) fn new() -> TestDoor {
        let closed = || Arc::new(Semaphore::new(0));
        TestDoor { gate: closed(), arrived: closed(), done: closed(), dropped: closed() }
    }

    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + use<> {
        let (gate, arrived) = (Arc::clone(&self.gate), Arc::clone(&self.arrived));
        let (done, dropped) = (Arc::clone(&self.done), Arc::clone(&self.dropped));
        let waiting = move || Waiting { done, dropped, is_done: false };
        async move { answer(request, &gate, &arrived, waiting).await }
    }
}

async fn answer(
    request: Request,
    gate: &Semaphore,
    arrived: &Semaphore,
    waiting: impl FnOnce() -> Waiting,
) -> Response {
    match request.head.path() {
        "/empty" => Response::new(StatusCode::NO_CONTENT, "a body that must not be sent"),
        "/unmodified" => Response::new(StatusCode::NOT_MODIFIED, "nor this"),
        "/panic" => panic!("the door broke"),
        "/panic-later" => {
            tokio::task::yield_now().await;
            panic!("the door broke later")
        }
        path if path.starts_with("/wait") => {
            let mut waiting = waiting();
            arrived.add_permits(1);
            gate.acquire().await.unwrap().forget();
            waiting.is_done = true;
            Response::new(StatusCode::OK, "waited")
        }
        "/dropped" => delivered(Delivery { dropped: true, ..Delivery::default() }),
        "/late" => delivered(Delivery { delay: Duration::from_millis(30), ..Delivery::default() }),
        "/megabyte" => Response::new(StatusCode::OK, vec![b'x'; 1 << 20]),
        "/large" => Response::new(StatusCode::OK, vec![b'x'; 32 * 1024 * 1024]),
        _ => echo(&request),
    }
}

fn delivered(delivery: Delivery) -> Response {
    Response { delivery, ..Response::new(StatusCode::OK, "delivered") }
}

/// Tells the request back, one fact per line.
fn echo(request: &Request) -> Response {
    let host = request.head.host().unwrap_or("none");
    let text = format!(
        "{} {} {} host={host} body={} local={}\n",
        request.method,
        request.head.path(),
        request.scheme.as_str(),
        request.body.len(),
        request.local,
    );
    let mut response = Response::new(StatusCode::OK, text);
    response.headers.push(&CONTENT_TYPE, "text/plain");
    // A door's own idea of the length is not believed.
    response.headers.push(&CONTENT_LENGTH, "3");
    response
}

impl Door for TestDoor {
    fn handle(&self, request: Request) -> Answer {
        match request.head.path() {
            "/now" => Answer::Now(echo(&request)),
            "/panic-now" => panic!("the door broke at once"),
            path => {
                let if_left = match path {
                    "/wait/finish" => IfLeft::Finish,
                    "/wait/answer" => IfLeft::Answer,
                    _ => IfLeft::Cancel,
                };
                Answer::Later(Pending::new(if_left, self.answer(request)))
            }
        }
    }

    fn admit<'a>(&'a self, request: &'a Request) -> Admission<'a> {
        let unknown = || Response::new(StatusCode::UNAUTHORIZED, "who are you?");
        match request.head.path() {
            "/unknown" => Admission::Refused(Box::new(unknown())),
            "/unknown-later" => Admission::Asks(Box::pin(async move {
                tokio::task::yield_now().await;
                Some(unknown())
            })),
            "/known-later" => Admission::Asks(Box::pin(async {
                tokio::task::yield_now().await;
                None
            })),
            "/panic-early" => panic!("the door broke before the body"),
            _ => Admission::Granted,
        }
    }

    fn figures(&self, request: &Request) -> Result<Figures, Box<Response>> {
        match request.head.query() {
            Some("all") => Ok(Figures::All),
            Some("wrong") => Err(Box::new(Response::new(StatusCode::UNAUTHORIZED, "who are you?"))),
            Some("panic") => panic!("the door broke over figures"),
            _ => Ok(Figures::OfProcess),
        }
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        Response::new(refusal.status(), format!("refused: {refusal}"))
    }
}

/// A running server. Tests that do not stop it leave it to the end of their runtime.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) door: Arc<TestDoor>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) certificate: Certificate,
    pub(crate) healthy: Arc<AtomicBool>,
    pub(crate) shutdown: Shutdown,
    pub(crate) ended: JoinHandle<Drained>,
}

/// Now, as the tests' certificates see it: the real clock, since rustls clients use that too.
#[allow(clippy::disallowed_methods)]
pub(crate) fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Starts a server on a free port of 127.0.0.1.
pub(crate) fn start(change: impl FnOnce(&mut ServerSettings)) -> TestServer {
    let certificate = Certificate::open(&CertificateSource::Memory, &[], unix_seconds()).unwrap();
    start_with(certificate, change)
}

/// The same with this certificate.
pub(crate) fn start_with(
    certificate: Certificate,
    change: impl FnOnce(&mut ServerSettings),
) -> TestServer {
    let mut settings = ServerSettings {
        listen: vec![Listen::Address("127.0.0.1:0".parse().unwrap())],
        ..ServerSettings::default()
    };
    change(&mut settings);
    let door = Arc::new(TestDoor::new());
    let mut telemetry = Telemetry::new("test");
    telemetry.add_naming_source(Box::new(|| {
        let samples = vec![Sample { labels: vec![("container", "c".to_owned())], value: 1.0 }];
        vec![Series { name: "named", help: "A test", kind: SeriesKind::Gauge, samples }]
    }));
    let telemetry = Arc::new(telemetry);
    let healthy = Arc::new(AtomicBool::new(true));
    let shutdown = Shutdown::new();
    let told = Arc::clone(&healthy);
    let services = Services {
        door: Arc::<TestDoor>::clone(&door),
        telemetry: Arc::clone(&telemetry),
        certificate: certificate.clone(),
        status: Arc::new(move || ServiceStatus {
            ready: told.load(Ordering::Relaxed),
            trouble: None,
            details: r#"{"store":"test"}"#.to_string(),
        }),
        version: "test",
        compat: Bytes::from_static(b"{}"),
    };
    let server = Server::bind(settings, services, shutdown.clone()).unwrap();
    let address = server.addresses()[0];
    let ended = tokio::spawn(server.serve());
    TestServer { address, door, telemetry, certificate, healthy, shutdown, ended }
}

impl TestServer {
    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Waits until a metric has a value; metrics are counted just after what they count.
    pub(crate) async fn metric(&self, line: &str) {
        let seen = timeout(PATIENCE, async {
            while !self.telemetry.render(Figures::All).lines().any(|found| found == line) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(seen.await.is_ok(), "no {line:?} in\n{}", self.telemetry.render(Figures::All));
    }

    /// Waits until a counter has come so far.
    pub(crate) async fn metric_at_least(&self, name: &str, least: u64) {
        let value = || {
            let text = self.telemetry.render(Figures::All);
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.unwrap_or(0u64)
        };
        let seen = timeout(PATIENCE, async {
            while value() < least {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(seen.await.is_ok(), "{name} is {}", value());
    }

    /// What bodies take in memory, as `/status` tells.
    pub(crate) async fn bodies_bytes(&self) -> u64 {
        let status = self.connect().await.get("/status").await;
        let status: serde_json::Value = serde_json::from_str(status.text()).unwrap();
        status["bodies_bytes"].as_u64().unwrap()
    }

    /// Waits until bodies take so much.
    pub(crate) async fn bodies_at_least(&self, bytes: u64) {
        let seen = timeout(PATIENCE, async { while self.bodies_bytes().await < bytes {} });
        assert!(seen.await.is_ok(), "{} bytes are held", self.bodies_bytes().await);
    }

    /// Waits until bodies take no more than this: connections that were cut end by themselves.
    pub(crate) async fn bodies_at_most(&self, bytes: u64) {
        let seen = timeout(PATIENCE, async { while self.bodies_bytes().await > bytes {} });
        assert!(seen.await.is_ok(), "{} bytes are held", self.bodies_bytes().await);
    }
}

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An HTTP/1.1 client that sends exactly what it is told.
pub(crate) struct Client<S> {
    stream: S,
    read: Vec<u8>,
}

/// A response as it arrived.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Header lines in lower case.
    pub(crate) head: String,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Client<S> {
        Client { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends what it can: the server may have closed already.
    pub(crate) async fn try_send(&mut self, text: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(text.as_ref()).await.is_ok()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        self.reply().await
    }

    /// The next response, with as much body as its content length says.
    pub(crate) async fn reply(&mut self) -> Reply {
        self.reply_with_body(true).await
    }

    /// The next response to a HEAD request, whose content length is of a body that is not sent.
    pub(crate) async fn reply_to_head(&mut self) -> Reply {
        self.reply_with_body(false).await
    }

    async fn reply_with_body(&mut self, has_body: bool) -> Reply {
        let head_end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            assert!(self.more().await, "closed inside a head: {:?}", self.unread());
        };
        let head = String::from_utf8(self.read.drain(..head_end + 4).collect()).unwrap();
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { status, head, body: Bytes::new() };
        let length: usize = match reply.header("content-length") {
            Some(length) if has_body => length.parse().unwrap(),
            _ => 0,
        };
        while self.read.len() < length {
            assert!(self.more().await, "closed inside a body");
        }
        reply.body = self.read.drain(..length).collect::<Vec<u8>>().into();
        reply
    }

    /// Waits until the server closes; what it sent until then is returned.
    pub(crate) async fn closed(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.read)
    }

    /// Reads so much at most, and forgets it: how much.
    pub(crate) async fn some(&mut self, bytes_max: usize) -> usize {
        let mut space = vec![0; bytes_max];
        let read = timeout(PATIENCE, self.stream.read(&mut space)).await;
        read.expect("the server neither sends nor closes").unwrap_or(0)
    }

    fn unread(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Reads some; false if the server has closed or reset the connection.
    async fn more(&mut self) -> bool {
        let mut space = vec![0; 64 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut space)).await;
        match read.expect("the server neither sends nor closes") {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.read.extend_from_slice(&space[..count]);
                true
            }
        }
    }
}
