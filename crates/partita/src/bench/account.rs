//! The account over its wire: connections that stay open, requests that are signed, answers.
//!
//! One request at a time on a connection, HTTP/1.1, as most clients of a gateway do it. A
//! connection that breaks or does not answer in time is not used again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use partita_gateway::auth::Key;
use partita_model::{Clock, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::endpoint::{Endpoint, connector};
use super::settings::Settings;
use super::tally::Wrong;
use crate::cli::client::{authorization, reason};
use crate::failure::Failure;
use crate::system::SystemClock;

/// How long an answer may take, and a connection until it is made.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer at most: a page of a query has 4 MB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The version of the protocol that is spoken.
const VERSION: &str = "2018-12-31";

/// An account and a key to it.
pub(crate) struct Account {
    endpoint: Endpoint,
    key: Key,
    tls: Option<TlsConnector>,
    clock: SystemClock,
}

/// A connection that stays open.
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// A request, before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) verb: &'static str,
    /// What is signed: the type of the resource, and its link.
    pub(crate) signed_type: &'static str,
    pub(crate) signed_link: String,
    /// Encoded.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) substatus: u32,
    /// In request units.
    pub(crate) charge: f64,
    pub(crate) retry_after: Option<Duration>,
    body: Bytes,
}

impl Answer {
    /// The account's own words about why it refused.
    pub(crate) fn reason(&self) -> String {
        reason(&Value::parse(&self.body).unwrap_or(Value::Null))
    }
}

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    pub(crate) wrong: Wrong,
    pub(crate) why: String,
}

impl Unanswered {
    fn connection(why: impl ToString) -> Unanswered {
        Unanswered { wrong: Wrong::Connection, why: why.to_string() }
    }

    fn timeout(what: &str) -> Unanswered {
        let why = format!("{what} took more than {} seconds", TIMEOUT.as_secs());
        Unanswered { wrong: Wrong::Timeout, why }
    }
}

impl Account {
    pub(crate) fn new(settings: &Settings, clock: SystemClock) -> Result<Account, Failure> {
        let endpoint = settings.endpoint.clone();
        let tls = match endpoint.is_https {
            true => Some(connector(settings.authorities.as_deref())?),
            false => None,
        };
        // A host that no certificate can name is told now, not by every connection.
        endpoint.server_name()?;
        Ok(Account { endpoint, key: settings.key.clone(), tls, clock })
    }

    /// Time since some moment.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.monotonic_nanos())
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Unanswered> {
        match timeout(TIMEOUT, self.open()).await {
            Ok(opened) => opened,
            Err(_) => Err(Unanswered::timeout("the connection")),
        }
    }

    async fn open(&self) -> Result<Connection, Unanswered> {
        let address = (self.endpoint.host.as_str(), self.endpoint.port);
        let stream = TcpStream::connect(address).await.map_err(Unanswered::connection)?;
        // It only delays: requests are written whole.
        drop(stream.set_nodelay(true));
        let Some(tls) = &self.tls else { return speak(stream).await };
        let name = self.endpoint.server_name().map_err(Unanswered::connection)?;
        speak(tls.connect(name, stream).await.map_err(Unanswered::connection)?).await
    }

    /// Signs and sends a request and reads the whole answer.
    pub(crate) async fn call(
        &self,
        connection: &mut Connection,
        ask: &Ask,
    ) -> Result<Answer, Unanswered> {
        let request = self.signed(ask).map_err(Unanswered::connection)?;
        let exchange = async {
            connection.0.ready().await.map_err(Unanswered::connection)?;
            let answer = connection.0.send_request(request).await;
            read(answer.map_err(Unanswered::connection)?).await
        };
        match timeout(TIMEOUT, exchange).await {
            Ok(answered) => answered,
            Err(_) => Err(Unanswered::timeout("the answer")),
        }
    }

    fn signed(&self, ask: &Ask) -> http::Result<http::Request<Full<Bytes>>> {
        let now = Duration::from_millis(self.clock.unix_millis());
        let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + now);
        let signature =
            authorization(&self.key, ask.verb, ask.signed_type, &ask.signed_link, &date);
        let mut request = http::Request::builder()
            .method(ask.verb)
            .uri(&ask.path)
            .header("host", self.endpoint.authority())
            .header("user-agent", concat!("partita-bench/", env!("CARGO_PKG_VERSION")))
            .header("x-ms-version", VERSION)
            .header("x-ms-date", date)
            .header("authorization", signature);
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        request.body(Full::new(ask.body.clone()))
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Connection, Unanswered> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(Unanswered::connection)?;
    // Its errors come out of the requests that meet them.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Connection(sender))
}

async fn read(answer: http::Response<hyper::body::Incoming>) -> Result<Answer, Unanswered> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let millis = header("x-ms-retry-after-ms").and_then(|text| text.parse().ok());
    Ok(Answer {
        status: head.status.as_u16(),
        substatus: header("x-ms-substatus").and_then(|text| text.parse().ok()).unwrap_or(0),
        charge: header("x-ms-request-charge").and_then(|text| text.parse().ok()).unwrap_or(0.0),
        retry_after: millis.map(Duration::from_millis),
        body: body.map_err(Unanswered::connection)?.to_bytes(),
    })
}
