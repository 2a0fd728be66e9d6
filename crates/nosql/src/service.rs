//! The door itself: authenticate, read the request, let the database do it, write the response.
//!
//! Operations on single items run right here, on the thread that
//! read the request; pages and changes of the catalog go to the worker pool, and batches up to
//! their commit.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use partita_engine::{
    Access, ContainerPath, Context, Database, Op, Outcome, PartitionStatistics, Reply, block_on,
};
use partita_gateway::{
    Delivery, Door, JobLength, Pool, PoolError, Refusal, Request, Response, Shutdown, Telemetry,
};
use partita_model::{Charge, Clock, Consistency, Entropy, Error, ErrorKind};

use crate::account;
use crate::audit::{self, Answered};
use crate::auth::{self, Window};
use crate::controls::{self, Controls, Strike, Subject};
use crate::credentials::{Credentials, Trust};
use crate::error::Failure;
use crate::headers::{self, Headers};
use crate::link::Address;
use crate::request::{self, Call, DatabaseCall, Incoming, Runs};
use crate::response::{self, Failed, Frame};
use crate::text::Text;
use crate::token::Issuer;

/// The longest activity id that is repeated: a GUID, or what somebody uses instead.
const ACTIVITY_ID_BYTES_MAX: usize = 128;

/// What the door needs to know about its account.
#[derive(Clone, Debug)]
pub struct NoSqlSettings {
    /// Whose requests are served.
    pub credentials: Arc<Credentials>,
    /// The account's consistency, which requests may weaken.
    pub default_consistency: Consistency,
    /// How far a request's date may be from the server's.
    pub clock_skew_seconds: u64,
    /// Where clients are told to find the account, if not where they came.
    pub public_endpoint: Option<String>,
    /// Controls for tests, if there are any.
    pub controls: Option<Arc<Controls>>,
    /// Tells requests that wait for something when to stop it.
    pub shutdown: Shutdown,
}

/// The NoSQL protocol on a database.
pub struct NoSqlDoor {
    database: Arc<Database>,
    settings: NoSqlSettings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pool: Pool,
    telemetry: Arc<Telemetry>,
}

/// A request, for finding out who sent it.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    request: &'a Request,
    address: &'a Address<'a>,
}

/// What is known of a request once it is answered, beside the answer.
struct Told {
    operation: &'static str,
    charge: Charge,
    delivery: Delivery,
    /// Who asked, once that is known.
    who: Option<Access>,
    /// It changes what is not data.
    administers: bool,
}

impl Told {
    fn nothing() -> Told {
        Told {
            operation: "Refused",
            charge: Charge::default(),
            delivery: Delivery::default(),
            who: None,
            administers: false,
        }
    }
}

impl NoSqlDoor {
    /// A door to this database.
    pub fn new(
        database: Arc<Database>,
        settings: NoSqlSettings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        pool: Pool,
        telemetry: Arc<Telemetry>,
    ) -> NoSqlDoor {
        NoSqlDoor { database, settings, clock, entropy, pool, telemetry }
    }

    /// Tells clients to find the account there from now on.
    pub fn set_public_endpoint(&mut self, endpoint: &str) {
        self.settings.public_endpoint = Some(endpoint.to_owned());
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.settings.shutdown
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    async fn answer(&self, mut request: Request) -> Response {
        let started = self.nanos();
        let activity_id = self.activity_id(&request.headers);
        let body = std::mem::take(&mut request.body);
        let mut told = Told::nothing();
        let mut response = match self.serve(&request, body, &mut told).await {
            Ok(response) => response,
            Err(failed) => {
                let Failed { failure, headers } = *failed;
                let activity_id = activity_id.to_str().unwrap_or_default();
                if failure.status.is_server_error() {
                    log_failure(&failure, told.operation, activity_id);
                }
                response::failure(&failure, headers, activity_id, request.uri.path())
            }
        };
        audit::note(&Answered {
            who: told.who.as_ref(),
            operation: told.operation,
            method: &request.method,
            path: request.uri.path(),
            peer: request.peer,
            status: response.status,
            activity_id: activity_id.to_str().unwrap_or_default(),
            administers: told.administers,
        });
        let nanos = self.nanos().saturating_sub(started);
        response::seal(&mut response, activity_id, told.charge, nanos);
        response.delivery = told.delivery;
        let (status, seconds) = (response.status.as_u16(), nanos as f64 / 1e9);
        self.telemetry.observe("nosql", told.operation, status, seconds, told.charge.0);
        response
    }

    async fn serve(
        &self,
        request: &Request,
        body: Bytes,
        told: &mut Told,
    ) -> Result<Response, Box<Failed>> {
        let Request { method, uri, headers, .. } = request;
        if let Some(target) = controls::route(uri.path()) {
            told.operation = "Controls";
            told.administers = *method != Method::GET;
            let controls = self.settings.controls.as_ref().ok_or_else(controls::switched_off)?;
            return Ok(controls.answer(&target, request, &body)?);
        }
        let address = Address::new(uri);
        let trust = self.settings.credentials.current();
        let asker = Asker { request, address: &address };
        let access = match self.authenticate(&trust, asker, Duration::ZERO) {
            Ok(access) => access,
            Err(refused) => self.authenticate_by_new_keys(&trust, asker, refused).await?,
        };
        told.who = Some(access.clone());
        self.database.check_access(&access)?;
        let incoming = Incoming { method, headers: Headers(headers), body };
        let account = self.settings.default_consistency;
        match request::read(address.link()?, incoming, access, account)? {
            Call::Database(call) => {
                (told.operation, _) = request::profile(&call.op);
                told.administers = audit::administers(&call.op);
                if let Some(strike) = self.strike(&address, told.operation, headers) {
                    told.delivery = strike.delivery;
                    if let Some(failure) = strike.failure {
                        return Err(failure.into());
                    }
                    if strike.unserved {
                        return Ok(response::empty(StatusCode::OK, HeaderMap::new()));
                    }
                }
                let mut response = self.perform(*call, asker, &trust, told).await?;
                if method == Method::GET {
                    let location = self.endpoint(request) + uri.path().trim_start_matches('/');
                    headers::put(&mut response.headers, header::CONTENT_LOCATION, location);
                }
                Ok(response)
            }
            Call::Account => {
                told.operation = "ReadAccount";
                let document = account::document(&self.endpoint(request), account);
                Ok(response::with_body(StatusCode::OK, HeaderMap::new(), document))
            }
        }
    }

    /// Who asks, and what they may do. A request that waited was signed as much earlier.
    pub(crate) fn authenticate(
        &self,
        trust: &Trust,
        asker: Asker<'_>,
        waited: Duration,
    ) -> Result<Access, Failure> {
        let now_unix_seconds = self.clock.unix_millis() / 1_000;
        let window = Window {
            now_unix_seconds,
            signed_unix_seconds: match &self.settings.controls {
                Some(controls) => controls.real_unix_seconds(),
                None => now_unix_seconds,
            },
            skew_seconds_max: self.settings.clock_skew_seconds.saturating_add(waited.as_secs()),
        };
        let Asker { request, address } = asker;
        auth::authenticate(trust, &request.method, &request.headers, address, window)
    }

    /// A token may have been signed with a key that its issuer has published since.
    async fn authenticate_by_new_keys(
        &self,
        trust: &Trust,
        asker: Asker<'_>,
        refused: Failure,
    ) -> Result<Access, Failure> {
        let issuer = auth::unknown_key(trust, &asker.request.headers).ok_or(refused)?;
        issuer.renew(self.clock.unix_millis() / 1_000).await;
        self.authenticate(trust, asker, Duration::ZERO)
    }

    /// What is trusted at this moment.
    pub(crate) fn trust(&self) -> Arc<Trust> {
        self.settings.credentials.current()
    }

    /// Where clients find the account: where this one came, unless something else is told.
    fn endpoint(&self, request: &Request) -> String {
        match &self.settings.public_endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                let host = account::host(&request.uri, &request.headers, request.local);
                account::endpoint(request.scheme, &host)
            }
        }
    }

    /// The fault that somebody ordered for a request like this.
    fn strike(
        &self,
        address: &Address<'_>,
        operation: &str,
        headers: &HeaderMap,
    ) -> Option<Strike> {
        let controls = self.settings.controls.as_ref()?;
        let (database, container) = address.names();
        let client = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let subject = Subject {
            database: database.as_deref(),
            container: container.as_deref(),
            operation,
            client: client.unwrap_or_default(),
        };
        let strike = controls.strike(&subject, &*self.entropy)?;
        tracing::debug!(fault = strike.id, operation, "a fault strikes");
        Some(strike)
    }

    async fn perform(
        &self,
        call: DatabaseCall,
        asker: Asker<'_>,
        trust: &Trust,
        told: &mut Told,
    ) -> Result<Response, Box<Failed>> {
        let DatabaseCall { op, context, shape } = call;
        let (_, runs) = request::profile(&op);
        let sized = match &op {
            Op::ReadContainer { container, .. } | Op::ReplaceContainer { container, .. }
                if shape.quota || shape.statistics =>
            {
                Some((container.clone(), context.clone()))
            }
            _ => None,
        };
        let reply = match op {
            Op::ReadChanges { container, request } if shape.wait_seconds > 0 => {
                let wait = Duration::from_secs(shape.wait_seconds);
                self.wait_for_changes(&container, &request, context, asker, wait).await?
            }
            op => self.execute(op, context, runs).await?,
        };
        told.charge = reply.charge;
        let statistics = match sized {
            Some((container, context)) if reply.result.is_ok() => {
                Some(self.sizes(container, context).await?)
            }
            _ => None,
        };
        let tokens = Issuer { keys: &trust.keys, clock: &*self.clock };
        let frame = Frame { address: asker.address, tokens, shape, statistics };
        response::reply(reply, &frame)
    }

    pub(crate) async fn execute(
        &self,
        op: Op,
        context: Context,
        runs: Runs,
    ) -> Result<Reply, Error> {
        let length = match runs {
            Runs::Inline => return Ok(self.database.execute(op, &context).await),
            Runs::UntilItWaits => return self.begin_in_pool(op, context).await,
            Runs::Briefly => JobLength::Brief,
            Runs::InPool => JobLength::Long,
            Runs::Scripts => JobLength::Waiting,
        };
        // Who runs a script waits for its turn before it takes a thread.
        let turn = self.database.turn(&op, &context).await?;
        let database = Arc::clone(&self.database);
        let work = move || {
            let _turn = turn;
            block_on(database.execute(op, &context))
        };
        self.pool.run(length, work).await.map_err(refused)
    }

    /// Prepares in the pool, and waits for the commit here: a thread of the pool that waits for the
    /// disk, or for the end of a split, is missing there.
    async fn begin_in_pool(&self, op: Op, context: Context) -> Result<Reply, Error> {
        let database = Arc::clone(&self.database);
        let mut running = Box::pin(async move { database.execute(op, &context).await });
        let begin =
            move || match running.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
                Poll::Ready(reply) => ControlFlow::Break(reply),
                Poll::Pending => ControlFlow::Continue(running),
            };
        match self.pool.run(JobLength::Brief, begin).await.map_err(refused)? {
            ControlFlow::Break(reply) => Ok(reply),
            ControlFlow::Continue(running) => Ok(running.await),
        }
    }

    /// The sizes of a container's partitions.
    async fn sizes(
        &self,
        container: ContainerPath,
        context: Context,
    ) -> Result<Vec<PartitionStatistics>, Error> {
        let op = Op::ContainerStatistics { container };
        match self.execute(op, context, Runs::InPool).await?.result? {
            Outcome::Statistics { partitions } => Ok(partitions),
            other => Err(Error::internal(format!("statistics answered with {other:?}"))),
        }
    }

    /// The client's activity id, or a new GUID.
    fn activity_id(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(headers::ACTIVITY_ID) {
            Some(value)
                if !value.is_empty()
                    && value.len() <= ACTIVITY_ID_BYTES_MAX
                    && value.to_str().is_ok() =>
            {
                value.clone()
            }
            _ => self.new_activity_id(),
        }
    }

    fn new_activity_id(&self) -> HeaderValue {
        let (high, low) = (self.entropy.next_u64(), self.entropy.next_u64());
        // Version 4, variant 1: random.
        let (high, low) = (high & !0xF000 | 0x4000, low & !(0b11 << 62) | 1 << 63);
        let guid = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        Text::new().guid(&guid).value()
    }
}

impl Door for NoSqlDoor {
    fn handle(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        Box::pin(self.answer(request))
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        let kind = match &refusal {
            Refusal::BodyTooLarge { .. } => ErrorKind::TooLarge,
            Refusal::BodyTimeout { .. } => ErrorKind::Timeout,
            Refusal::BodyBroken { .. } => ErrorKind::BadRequest,
            Refusal::Overloaded { .. } => ErrorKind::Unavailable,
            Refusal::Panicked => ErrorKind::Internal,
        };
        let message = match kind {
            ErrorKind::TooLarge => request::REQUEST_TOO_LARGE.to_owned(),
            _ => refusal.to_string(),
        };
        let failure = Failure::from(Error::new(kind, message));
        let activity_id = self.new_activity_id();
        let text = activity_id.to_str().unwrap_or_default();
        let mut response = response::failure(&failure, HeaderMap::new(), text, "");
        response::seal(&mut response, activity_id, Charge::default(), 0);
        response
    }
}

/// Failures of the server, as opposed to its clients'. What was refused as unsupported is no news.
/// What a client hears of a pool that did not do its job.
fn refused(error: PoolError) -> Error {
    match error {
        PoolError::Full { .. } => Error::unavailable(
            "The server has more requests than it can work on: retry after a moment.",
        ),
        PoolError::Panicked(_) => Error::internal(
            "An internal error stopped this request; the server's log has the details.",
        ),
    }
}

fn log_failure(failure: &Failure, operation: &str, activity_id: &str) {
    let (status, message) = (failure.status.as_u16(), &failure.message);
    match failure.status {
        StatusCode::NOT_IMPLEMENTED => tracing::debug!(operation, activity_id, status, message),
        StatusCode::SERVICE_UNAVAILABLE => tracing::warn!(operation, activity_id, status, message),
        _ => tracing::error!(operation, activity_id, status, message, "a request failed"),
    }
}
