//! A client of the admin API: signs a request as the protocol wants it, sends it, reads the answer.
//!
//! The connection is kept for reading on. A server may close it meanwhile, so a read that fails on
//! one that was used before is sent once more; what changes something has a connection of its own,
//! and is sent once.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use partita_gateway::auth::{Key, Signed, string_to_sign};
use partita_model::{Clock, Value};

use super::connect::Connect;
use crate::args::ConnectArgs;
use crate::failure::Failure;
use crate::outgoing::{Connection, Dialer, Unanswered, Waiting};
use crate::system::SystemClock;

/// A description may walk over millions of logical partitions.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// How often a request is sent that is refused for being one too many, and the pause in between.
const ATTEMPTS_MAX: u32 = 100;
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A server and a key to it.
pub(crate) struct Client {
    dialer: Dialer,
    kept: RefCell<Option<Connection>>,
    waiting: Waiting,
    key: Key,
    clock: SystemClock,
}

/// One request.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// The type that is signed; the admin API's own, or a resource's.
    pub(crate) signed_type: &'a str,
    /// Not encoded.
    pub(crate) segments: &'a [String],
    /// How many of the segments are signed.
    pub(crate) signed_segments: usize,
    /// Encoded, without the question mark; may be empty.
    pub(crate) query: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a Value>,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) body: Value,
    /// Where the next page of a feed begins.
    pub(crate) continuation: Option<String>,
}

impl Client {
    pub(crate) fn new(args: &ConnectArgs, clock: SystemClock) -> Result<Client, Failure> {
        let Connect { endpoint, key, authorities } = Connect::of(args)?;
        let url = endpoint.url();
        let dialer = Dialer::new(endpoint, &authorities, TIMEOUT)
            .map_err(|why| Failure::other(format!("{url}: {why}")))?;
        let waiting = Waiting::start()
            .map_err(|error| Failure::other(format!("{url} cannot be asked: {error}")))?;
        Ok(Client { dialer, kept: RefCell::new(None), waiting, key, clock })
    }

    /// Reads something of the admin API.
    pub(crate) fn get(&self, segments: &[String], query: &str) -> Result<Value, Failure> {
        self.send(&admin("GET", segments, query, None)).map(|answer| answer.body)
    }

    /// Asks the admin API to do something.
    pub(crate) fn post(&self, segments: &[String], body: &Value) -> Result<Value, Failure> {
        self.send(&admin("POST", segments, "", Some(body))).map(|answer| answer.body)
    }

    /// Sends a request and reads its answer; everything but success is a failure. A server that is
    /// asked too much says when to come again, and is.
    pub(crate) fn send(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        for attempt in 1.. {
            let response = self.try_once(ask)?;
            let status = response.status().as_u16();
            let header = |name| -> Option<String> {
                response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned)
            };
            let continuation = header("x-ms-continuation");
            let pause = header("x-ms-retry-after-ms").and_then(|text| text.parse().ok());
            let body = Value::parse(response.body()).unwrap_or(Value::Null);
            match (status, pause) {
                (200..=299, _) => return Ok(Answer { body, continuation }),
                (429, Some(millis)) if attempt < ATTEMPTS_MAX => {
                    std::thread::sleep(Duration::from_millis(millis).min(PAUSE_MAX));
                }
                _ => return Err(Failure::other(refusal(status, &body))),
            }
        }
        Err(self.unreachable(&"no answer"))
    }

    fn try_once(&self, ask: &Ask<'_>) -> Result<http::Response<Bytes>, Failure> {
        let request = self.signed(ask).map_err(|error| self.unreachable(&error))?;
        let answered = self.waiting.wait(self.exchange(request));
        answered.map_err(|error| self.unreachable(&error))
    }

    async fn exchange(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Bytes>, Unanswered> {
        let kept = match *request.method() == http::Method::GET {
            true => self.kept.take().filter(|kept| !kept.is_closed()),
            false => None,
        };
        if let Some(mut kept) = kept {
            match kept.send(request.clone(), ANSWER_BYTES_MAX).await {
                Err(Unanswered::Connection(_)) => {}
                answered => {
                    self.kept.replace(Some(kept).filter(|_| answered.is_ok()));
                    return answered;
                }
            }
        }
        let mut connection = self.dialer.connect().await?;
        let answer = connection.send(request, ANSWER_BYTES_MAX).await?;
        self.kept.replace(Some(connection));
        Ok(answer)
    }

    fn signed(&self, ask: &Ask<'_>) -> http::Result<http::Request<Full<Bytes>>> {
        let date = self.date();
        let link = ask.segments.get(..ask.signed_segments).unwrap_or_default().join("/");
        let authorization = authorization(&self.key, ask.method, ask.signed_type, &link, &date);
        let mut request = http::Request::builder()
            .method(ask.method)
            .uri(path(ask))
            .header("host", self.dialer.endpoint().authority())
            .header("x-ms-date", &date)
            .header("authorization", &authorization);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let body = ask.body.map(Value::to_json).unwrap_or_default();
        request.body(Full::new(body.into()))
    }

    fn date(&self) -> String {
        let since = Duration::from_millis(self.clock.unix_millis());
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
    }

    fn unreachable(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::other(format!(
            "{}: {error}. Is a server running there? --endpoint says where to ask",
            self.dialer.endpoint().url()
        ))
    }
}

/// The path of a request, encoded.
fn path(ask: &Ask<'_>) -> String {
    let path: Vec<String> = ask.segments.iter().map(|segment| encode(segment)).collect();
    let mark = if ask.query.is_empty() { "" } else { "?" };
    format!("/{}{mark}{}", path.join("/"), ask.query)
}

/// A request of the admin API.
fn admin<'a>(
    method: &'a str,
    segments: &'a [String],
    query: &'a str,
    body: Option<&'a Value>,
) -> Ask<'a> {
    let (signed_type, signed_segments) = ("_partita", segments.len());
    Ask { method, signed_type, segments, signed_segments, query, headers: &[], body }
}

/// The header that says who asks: the signature of a request with an account's key.
pub(crate) fn authorization(
    key: &Key,
    verb: &str,
    resource_type: &str,
    link: &str,
    date: &str,
) -> String {
    let signed = Signed { verb, resource_type, links: &[], date, http_date: "" };
    let signature = key.sign(string_to_sign(&signed, link).as_bytes());
    encode(&format!("type=master&ver=1.0&sig={signature}"))
}

fn refusal(status: u16, body: &Value) -> String {
    format!("the server answers {status}: {}", reason(body))
}

/// The server's own words, without their wrapping.
pub(crate) fn reason(body: &Value) -> String {
    let message = body.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let line = message.lines().next().unwrap_or_default();
    let wrapped =
        line.strip_prefix("Message: ").and_then(|json| Value::parse(json.as_bytes()).ok());
    let errors = wrapped.as_ref().and_then(|list| list.get("Errors")).and_then(Value::as_array);
    let reason = errors.and_then(<[Value]>::first).and_then(Value::as_str).unwrap_or(line);
    reason.to_owned()
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_reason_is_unwrapped() {
        let body = r#"{"code":"NotFound","message":"Message: {\"Errors\":[\"no such container\"]}\r\nActivityId: 1"}"#;
        let body = Value::parse(body.as_bytes()).unwrap();
        assert_eq!(refusal(404, &body), "the server answers 404: no such container");
        assert_eq!(refusal(500, &Value::Null), "the server answers 500: no reason given");
    }
}
