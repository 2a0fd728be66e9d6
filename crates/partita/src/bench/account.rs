//! The account over its wire: connections that stay open, requests that are signed, answers.
//!
//! One request at a time on a connection, HTTP/1.1, as most clients of a gateway do it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use partita_gateway::auth::Key;
use partita_model::{Clock, Value};

use super::settings::Settings;
use super::tally::Wrong;
use crate::cli::client::{authorization, reason};
use crate::failure::Failure;
pub(crate) use crate::outgoing::Connection;
use crate::outgoing::{Dialer, Unanswered as NoAnswer};
use crate::system::SystemClock;

/// How long an answer may take, and a connection until it is made.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer at most: a page of a query has 4 MB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The version of the protocol that is spoken.
const VERSION: &str = "2018-12-31";

/// An account and a key to it.
pub(crate) struct Account {
    dialer: Dialer,
    key: Key,
    clock: SystemClock,
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

impl From<NoAnswer> for Unanswered {
    fn from(no_answer: NoAnswer) -> Unanswered {
        let wrong = match no_answer {
            NoAnswer::Connection(_) => Wrong::Connection,
            NoAnswer::Timeout(_) => Wrong::Timeout,
        };
        Unanswered { wrong, why: no_answer.to_string() }
    }
}

impl Account {
    pub(crate) fn new(settings: &Settings, clock: SystemClock) -> Result<Account, Failure> {
        let connect = &settings.connect;
        let dialer = Dialer::new(connect.endpoint.clone(), &connect.authorities, TIMEOUT)
            .map_err(|why| Failure::other(format!("{}: {why}", connect.endpoint.url())))?;
        Ok(Account { dialer, key: connect.key.clone(), clock })
    }

    /// Time since some moment.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.monotonic_nanos())
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Unanswered> {
        Ok(self.dialer.connect().await?)
    }

    /// Signs and sends a request and reads the whole answer.
    pub(crate) async fn call(
        &self,
        connection: &mut Connection,
        ask: &Ask,
    ) -> Result<Answer, Unanswered> {
        let request = self.signed(ask).map_err(NoAnswer::connection)?;
        let answer = connection.send(request, ANSWER_BYTES_MAX).await?;
        Ok(read(answer))
    }

    fn signed(&self, ask: &Ask) -> http::Result<http::Request<Full<Bytes>>> {
        let now = Duration::from_millis(self.clock.unix_millis());
        let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + now);
        let signature =
            authorization(&self.key, ask.verb, ask.signed_type, &ask.signed_link, &date);
        let mut request = http::Request::builder()
            .method(ask.verb)
            .uri(&ask.path)
            .header("host", self.dialer.endpoint().authority())
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

fn read(answer: http::Response<Bytes>) -> Answer {
    let (head, body) = answer.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let millis = header("x-ms-retry-after-ms").and_then(|text| text.parse().ok());
    Answer {
        status: head.status.as_u16(),
        substatus: header("x-ms-substatus").and_then(|text| text.parse().ok()).unwrap_or(0),
        charge: header("x-ms-request-charge").and_then(|text| text.parse().ok()).unwrap_or(0.0),
        retry_after: millis.map(Duration::from_millis),
        body,
    }
}
