//! An account over its wire: requests are signed with one of its keys, and responses are read.
//!
//! Any account of the NoSQL API, ours or the service's. A connection carries one request at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::Full;
use partita_gateway::auth::{Key, Signed, string_to_sign};
use partita_model::{Clock, Value};

use super::{Authorities, Connection, Connector, Endpoint, Limits, RequestError};

/// The version of the protocol that is spoken.
const VERSION: &str = "2018-12-31";

/// An account and a key to it.
pub struct Account {
    connector: Connector,
    key: Key,
    clock: Arc<dyn Clock>,
}

/// A request, before it is signed.
#[derive(Clone, Debug)]
pub struct AccountRequest {
    pub method: Method,
    /// What is signed: the type of the resource, and its link.
    pub signed_type: &'static str,
    pub signed_link: String,
    /// Path and query, encoded.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

#[derive(Debug)]
pub struct AccountResponse {
    pub status: u16,
    pub substatus: u32,
    /// In request units.
    pub charge: f64,
    /// How long to wait before trying again.
    pub retry_after: Option<Duration>,
    /// Where the next page of a feed begins.
    pub continuation: Option<String>,
    pub body: Bytes,
}

impl AccountRequest {
    /// A request without headers and body.
    pub fn new(
        method: Method,
        signed_type: &'static str,
        signed_link: String,
        path: String,
    ) -> AccountRequest {
        let (headers, body) = (Vec::new(), Bytes::new());
        AccountRequest { method, signed_type, signed_link, path, headers, body }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> AccountRequest {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: String) -> AccountRequest {
        self.body = body.into();
        self
    }
}

impl Account {
    pub fn new(
        endpoint: Endpoint,
        key: Key,
        authorities: &Authorities,
        limits: Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Account, String> {
        let url = endpoint.url();
        let connector = Connector::new(endpoint, authorities, limits);
        let connector = connector.map_err(|why| format!("{url}: {why}"))?;
        Ok(Account { connector, key, clock })
    }

    pub fn endpoint(&self) -> &Endpoint {
        self.connector.endpoint()
    }

    /// Time since some moment.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.monotonic_nanos())
    }

    pub async fn connect(&self) -> Result<Connection, RequestError> {
        self.connector.connect().await
    }

    /// Signs and sends a request and reads the whole response.
    pub async fn send(
        &self,
        connection: &mut Connection,
        request: &AccountRequest,
    ) -> Result<AccountResponse, RequestError> {
        let request = self.signed(request).map_err(RequestError::connection)?;
        connection.send(request).await.map(AccountResponse::of)
    }

    fn signed(&self, request: &AccountRequest) -> http::Result<http::Request<Full<Bytes>>> {
        let now = Duration::from_millis(self.clock.unix_millis());
        let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + now);
        let authorization = authorization(&self.key, request, &date);
        let mut signed = http::Request::builder()
            .method(&request.method)
            .uri(&request.path)
            .header("host", self.endpoint().authority())
            .header("user-agent", concat!("partita/", env!("CARGO_PKG_VERSION")))
            .header("x-ms-version", VERSION)
            .header("x-ms-date", date)
            .header("authorization", authorization);
        for (name, value) in &request.headers {
            signed = signed.header(*name, value);
        }
        signed.body(Full::new(request.body.clone()))
    }
}

/// The header with the signature of a request.
fn authorization(key: &Key, request: &AccountRequest, date: &str) -> String {
    let verb = request.method.as_str();
    let signed =
        Signed { verb, resource_type: request.signed_type, links: &[], date, http_date: "" };
    let signature = key.sign(string_to_sign(&signed, &request.signed_link).as_bytes());
    encode(&format!("type=master&ver=1.0&sig={signature}"))
}

impl AccountResponse {
    fn of(response: http::Response<Bytes>) -> AccountResponse {
        let (head, body) = response.into_parts();
        let headers = &head.headers;
        AccountResponse {
            status: head.status.as_u16(),
            substatus: number(headers, "x-ms-substatus").unwrap_or(0),
            charge: number(headers, "x-ms-request-charge").unwrap_or(0.0),
            retry_after: number(headers, "x-ms-retry-after-ms").map(Duration::from_millis),
            continuation: text(headers, "x-ms-continuation").map(str::to_owned),
            body,
        }
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        Value::parse(&self.body).unwrap_or(Value::Null)
    }

    /// Why the account refused, in its own words.
    pub fn reason(&self) -> String {
        let body = self.json();
        let message = body.get("message").and_then(Value::as_str).unwrap_or("no reason given");
        let line = message.lines().next().unwrap_or_default();
        // The service wraps its reasons in a JSON text within the text.
        let wrapped = line.strip_prefix("Message: ");
        let wrapped = wrapped.and_then(|json| Value::parse(json.as_bytes()).ok());
        let errors = wrapped.as_ref().and_then(|list| list.get("Errors")).and_then(Value::as_array);
        let reason = errors.and_then(<[Value]>::first).and_then(Value::as_str);
        reason.unwrap_or(line).to_owned()
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    text(headers, name).and_then(|text| text.parse().ok())
}

/// Percent-encodes everything but letters, digits and `-._~`.
pub fn encode(text: &str) -> String {
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

    fn response(body: &'static str) -> AccountResponse {
        let response = http::Response::builder()
            .status(429)
            .header("x-ms-substatus", "3200")
            .header("x-ms-request-charge", "1.5")
            .header("x-ms-retry-after-ms", "20");
        AccountResponse::of(response.body(Bytes::from_static(body.as_bytes())).unwrap())
    }

    #[test]
    fn the_accounts_reason_is_unwrapped() {
        let body = r#"{"code":"NotFound","message":"Message: {\"Errors\":[\"no such container\"]}\r\nActivityId: 1"}"#;
        assert_eq!(response(body).reason(), "no such container");
        assert_eq!(response("").reason(), "no reason given");
    }

    #[test]
    fn headers_become_numbers() {
        let response = response("");
        assert_eq!((response.status, response.substatus, response.charge), (429, 3200, 1.5));
        assert_eq!(response.retry_after, Some(Duration::from_millis(20)));
        assert_eq!(response.continuation, None);
    }
}
