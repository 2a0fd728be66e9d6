//! A client for commands: blocking, and for JSON.
//!
//! The connection is kept open for reads. A server may close it meanwhile, so a read that fails on
//! a connection that was used before is sent once more; a request that changes something has a
//! connection of its own, and is sent once.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use partita_http_client::{
    Account, AccountRequest, AccountResponse, BlockingRuntime, Connection, Limits, RequestError,
    encode,
};
use partita_model::{Clock, Value};

use crate::args::ConnectArgs;
use crate::connect::account;
use crate::failure::Failure;

/// A description may walk over millions of logical partitions.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(60), response_bytes_max: 256 << 20 };

/// How often a throttled request is sent, and the longest pause in between.
const ATTEMPTS_MAX: u32 = 100;
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Client {
    account: Account,
    idle: RefCell<Option<Connection>>,
    runtime: BlockingRuntime,
}

impl Client {
    pub(crate) fn new(args: &ConnectArgs, clock: Arc<dyn Clock>) -> Result<Client, Failure> {
        let account = account(args, LIMITS, clock)?;
        let runtime = BlockingRuntime::start().map_err(|error| {
            Failure::other(format!("{} cannot be asked: {error}", account.endpoint().url()))
        })?;
        Ok(Client { account, idle: RefCell::new(None), runtime })
    }

    /// Reads something of the admin API. The query is encoded and may be empty.
    pub(crate) fn get(&self, segments: &[String], query: &str) -> Result<Value, Failure> {
        self.send(&admin(Method::GET, segments, query)).map(|response| response.json())
    }

    /// Asks the admin API to do something.
    pub(crate) fn post(&self, segments: &[String], body: &Value) -> Result<Value, Failure> {
        let request = admin(Method::POST, segments, "").body(body.to_json());
        self.send(&request).map(|response| response.json())
    }

    /// Sends a request and reads its response; everything but success is a failure. A throttled
    /// request is sent again when the server says.
    pub(crate) fn send(&self, request: &AccountRequest) -> Result<AccountResponse, Failure> {
        let mut attempts = 1;
        loop {
            let response = self.runtime.block_on(self.exchange(request));
            let response = response.map_err(|error| self.unreachable(&error))?;
            match (response.status, response.retry_after) {
                (200..=299, _) => return Ok(response),
                (429, Some(pause)) if attempts < ATTEMPTS_MAX => {
                    std::thread::sleep(pause.min(PAUSE_MAX));
                }
                (status, _) => {
                    let reason = response.reason();
                    return Err(Failure::other(format!("the server answers {status}: {reason}")));
                }
            }
            attempts += 1;
        }
    }

    async fn exchange(&self, request: &AccountRequest) -> Result<AccountResponse, RequestError> {
        let idle = self.idle.take().filter(|idle| !idle.is_closed());
        if let Some(mut idle) = idle.filter(|_| request.method == Method::GET) {
            match self.account.send(&mut idle, request).await {
                Err(RequestError::Connection(_)) => {}
                result => {
                    self.idle.replace(Some(idle).filter(|_| result.is_ok()));
                    return result;
                }
            }
        }
        let mut connection = self.account.connect().await?;
        let response = self.account.send(&mut connection, request).await?;
        self.idle.replace(Some(connection));
        Ok(response)
    }

    fn unreachable(&self, error: &RequestError) -> Failure {
        Failure::other(format!(
            "{}: {error}. Is a server running there? --endpoint says where to ask",
            self.account.endpoint().url()
        ))
    }
}

/// A request of the admin API.
fn admin(method: Method, segments: &[String], query: &str) -> AccountRequest {
    let path: Vec<String> = segments.iter().map(|segment| encode(segment)).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let path = format!("/{}{mark}{query}", path.join("/"));
    AccountRequest::new(method, "_partita", segments.join("/"), path)
}
