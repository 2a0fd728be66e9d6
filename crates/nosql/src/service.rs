//! The door itself: authenticate, read the request, let the database do it, write the response.
//!
//! Operations on single items run right here, on the thread that read the request; pages and
//! changes of the catalog go to the worker pool, and batches up to their commit. Queries are tried
//! here, and go there if they take longer than most. What need not wait is answered without a
//! future: above all point reads, and everything that is refused.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use std::time::Duration;

use arc_swap::Guard;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use partita_engine::{
    Access, ContainerPath, Context, Database, Op, Outcome, PartitionStatistics, Reply, Supervisor,
    block_on,
};
use partita_gateway::auth::{AuthError, Issuer as KeyIssuer, shown_token};
use partita_gateway::{
    Admission, Answer, AnswerMemory, Delivery, Door, Figures, IfLeft, JobLength, Lines, Origin,
    Pending, Pool, PoolError, Refusal, Request, Response, Shutdown, Task, Telemetry,
};
use partita_model::{Charge, Clock, Consistency, Entropy, Error, ErrorKind};

use crate::account::{self, Endpoint};
use crate::activity::ActivityId;
use crate::audit::{self, Answered};
use crate::auth::{self, Window};
use crate::controls::{self, Controls, Strike, Subject};
use crate::credentials::{Credentials, MetricsAccess, Trust};
use crate::error::Failure;
use crate::fairness;
use crate::feature::Feature;
use crate::headers::{self, Headers};
use crate::link::Address;
use crate::loops::Loops;
use crate::request::{self, Call, DatabaseCall, Incoming, Runs, Shape};
use crate::response::{self, Failed, Frame, Location};
use crate::token::Issuer;

/// What holders of other credentials are told.
const METRICS_FORBIDDEN: &str = "Metrics that name databases and containers need a key of the account \
    or the token of --metrics-token-file. Without an authorization header there are those of the process.";

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
    /// Requests with duplicate names in their JSON are refused. Else the last one wins.
    pub strict_json: bool,
    /// Controls for tests, if there are any.
    pub controls: Option<Arc<Controls>>,
    /// Tells requests that wait for something when to stop it.
    pub shutdown: Shutdown,
}

/// The NoSQL protocol on a database.
pub struct NoSqlDoor(Arc<Service>);

/// What answers: requests that wait share it.
pub(crate) struct Service {
    database: Arc<Database>,
    settings: NoSqlSettings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pool: Pool,
    telemetry: Arc<Telemetry>,
    loops: Loops,
}

/// A request, for finding out who sent it.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    request: &'a Request,
    headers: Headers<'a>,
    address: &'a Address<'a>,
}

/// What is known of a request beside its answer.
struct Told {
    activity_id: ActivityId,
    started_nanos: u64,
    operation: &'static str,
    charge: Charge,
    delivery: Delivery,
    /// Who asked, once that is known.
    who: Option<Access>,
    /// It changes what is not data.
    administers: bool,
    /// How long it took, if the answer says so already.
    sealed_nanos: Option<u64>,
}

impl Told {
    fn nothing(activity_id: ActivityId, started_nanos: u64) -> Told {
        Told {
            activity_id,
            started_nanos,
            operation: "Refused",
            charge: Charge::default(),
            delivery: Delivery::default(),
            who: None,
            administers: false,
            sealed_nanos: None,
        }
    }
}

/// How far a request came without waiting.
enum Begun {
    Answered(Response),
    /// For the database.
    Waits(Box<DatabaseCall>, Arc<Trust>),
    /// For an issuer: its token may be signed with a key that it has published since. Then the
    /// request, whose body this is, begins anew.
    Renews(KeyIssuer, Bytes),
}

/// Who sent a request.
enum Asked {
    By(Access),
    /// That can be told when the issuer's keys are read anew.
    WithUnknownKey(KeyIssuer),
}

/// Keys are asked for once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    Last,
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
        let loops = Loops::default();
        let service = Service { database, settings, clock, entropy, pool, telemetry, loops };
        NoSqlDoor(Arc::new(service))
    }

    /// Tells clients to find the account there, from the first request on.
    pub fn set_public_endpoint(&mut self, endpoint: &str) {
        let service = Arc::get_mut(&mut self.0).expect("the door was not opened yet");
        service.settings.public_endpoint = Some(endpoint.to_owned());
    }
}

impl Service {
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.settings.shutdown
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    /// The last station: what every answer tells, and what is noted of it.
    fn conclude(
        &self,
        request: &Request,
        answered: Result<Response, Box<Failed>>,
        told: Told,
    ) -> Response {
        let Told { activity_id, operation, charge, .. } = &told;
        let mut response = answered.unwrap_or_else(|failed| {
            let Failed { failure, headers } = *failed;
            let activity_id = activity_id.as_str();
            if failure.status.is_server_error() {
                log_failure(&failure, operation, activity_id);
            }
            response::failure(&failure, headers, activity_id, request.head.path())
        });
        audit::note(&Answered {
            who: told.who.as_ref(),
            operation,
            method: &request.method,
            path: request.head.path(),
            peer: request.peer,
            status: response.status,
            activity_id,
            administers: told.administers,
        });
        let nanos = told.sealed_nanos.unwrap_or_else(|| {
            let nanos = self.nanos().saturating_sub(told.started_nanos);
            response::seal(&mut response, activity_id, *charge, nanos);
            nanos
        });
        response.delivery = told.delivery;
        if response.status == StatusCode::GONE || self.loops.are_there() {
            response.delivery.delay += self.held_back(request, response.status, operation);
        }
        let (status, seconds) = (response.status.as_u16(), nanos as f64 / 1e9);
        self.telemetry.observe("nosql", operation, status, seconds, charge.0);
        response
    }

    /// How long an answer is held back because its client asks the same again and again.
    fn held_back(&self, request: &Request, status: StatusCode, operation: &str) -> Duration {
        let (peer, now_nanos) = (request.peer, self.nanos());
        if status != StatusCode::GONE {
            // What a 410 makes clients read again does not say that they are over it.
            if !matches!(operation, "ListPartitions" | "ReadContainer" | "ReadAccount") {
                self.loops.answered(peer, now_nanos);
            }
            return Duration::ZERO;
        }
        let address = Address::new(&request.head);
        let path = address.raw_container().unwrap_or_default();
        let range = Headers::new(&request.head).ascii(&headers::RANGE_ID).unwrap_or_default();
        self.loops.refused(peer, path, range, now_nanos)
    }

    /// Everything up to where a request may have to wait.
    fn begin(
        &self,
        request: &Request,
        headers: Headers<'_>,
        body: Bytes,
        attempt: Attempt,
        told: &mut Told,
    ) -> Result<Begun, Box<Failed>> {
        let Request { method, head, .. } = request;
        if let Some(target) = controls::route(head.path()) {
            told.operation = "Controls";
            told.administers = *method != Method::GET;
            let controls = self.settings.controls.as_ref().ok_or_else(controls::switched_off)?;
            return Ok(Begun::Answered(controls.answer(&target, request, &body)?));
        }
        let address = Address::new(head);
        let trust = self.settings.credentials.glance();
        let asker = Asker { request, headers, address: &address };
        let access = match self.identify(&trust, asker, attempt, told)? {
            Asked::By(access) => access,
            Asked::WithUnknownKey(issuer) => return Ok(Begun::Renews(issuer, body)),
        };
        let incoming = Incoming { method, headers, body };
        if self.settings.strict_json {
            request::check_names(&incoming.body)?;
        }
        let account = self.settings.default_consistency;
        let call = match request::read(address.link()?, incoming, access, account)? {
            Call::Database(call) => call,
            Call::Account => {
                told.operation = "ReadAccount";
                let document = account::document(&self.endpoint(request).to_string(), account);
                let response =
                    response::with_body(StatusCode::OK, account::media_headers(), document);
                return Ok(Begun::Answered(response));
            }
        };
        (told.operation, _) = request::profile(&call.op);
        told.administers = audit::administers(&call.op);
        if let Some(strike) = self.strike(&address, told.operation, headers) {
            told.delivery = strike.delivery;
            if let Some(failure) = strike.failure {
                return Err(failure.into());
            }
            if strike.unserved {
                let response = response::empty(StatusCode::OK, Lines::new());
                return Ok(Begun::Answered(response));
            }
        }
        match self.database.execute_now(&call.op, &call.context) {
            Some(reply) => {
                self.respond((reply, call.shape, None), asker, &trust, told).map(Begun::Answered)
            }
            None => Ok(Begun::Waits(call, Guard::into_inner(trust))),
        }
    }

    /// Who asks, if the head says so.
    fn identify(
        &self,
        trust: &Trust,
        asker: Asker<'_>,
        attempt: Attempt,
        told: &mut Told,
    ) -> Result<Asked, Box<Failed>> {
        if asker.address.is_of_direct_mode() {
            // Signed as what is looked for, not as this path: who cannot be told here all that is
            // wrong would be told that the key is.
            told.operation = "ResolveAddresses";
            return Err(Feature::Addresses.refusal().into());
        }
        let access = match self.authenticate(trust, asker, Duration::ZERO) {
            Ok(access) => access,
            Err(refused) => match auth::unknown_key(trust, asker.headers) {
                Some(issuer) if attempt == Attempt::First => {
                    return Ok(Asked::WithUnknownKey(issuer.clone()));
                }
                Some(_) | None => return Err(refused.into()),
            },
        };
        told.who = Some(access.clone());
        self.database.check_access(&access)?;
        Ok(Asked::By(access))
    }

    /// May the body of a request with this head be read? The issuer, if that must be asked first;
    /// the answer, if not.
    fn admit(&self, request: &Request, attempt: Attempt) -> Result<Option<KeyIssuer>, Response> {
        let headers = Headers::new(&request.head);
        let activity_id = ActivityId::of(headers, &*self.entropy);
        let mut told = Told::nothing(activity_id, self.nanos());
        let asked = match controls::route(request.head.path()) {
            // Nobody signs for those: they are there for tests only.
            Some(_) if self.settings.controls.is_some() => return Ok(None),
            Some(_) => Err(controls::switched_off().into()),
            None => {
                let address = Address::new(&request.head);
                let asker = Asker { request, headers, address: &address };
                self.identify(&self.settings.credentials.glance(), asker, attempt, &mut told)
            }
        };
        match asked {
            Ok(Asked::By(_)) => Ok(None),
            Ok(Asked::WithUnknownKey(issuer)) => Ok(Some(issuer)),
            Err(failed) => Err(self.conclude(request, Err(failed), told)),
        }
    }

    /// Which metrics may who sent this request see? Without credentials those of the process.
    fn figures(&self, request: &Request) -> Result<Figures, Response> {
        let headers = Headers::new(&request.head);
        let trust = self.settings.credentials.glance();
        let authorization = headers.ascii(&header::AUTHORIZATION);
        let token = match (&trust.metrics, authorization) {
            (MetricsAccess::Open, _) => return Ok(Figures::All),
            (MetricsAccess::Restricted(_), None) => return Ok(Figures::OfProcess),
            (MetricsAccess::Restricted(token), Some(_)) => token.as_ref(),
        };
        let activity_id = ActivityId::of(headers, &*self.entropy);
        let mut told = Told::nothing(activity_id, self.nanos());
        told.operation = "ReadMetrics";
        let asked = match authorization.and_then(shown_token) {
            Some(shown) if token.is_some_and(|token| token.is(shown)) => return Ok(Figures::All),
            Some(_) => Err(AuthError::Scraper.into()),
            None => {
                let address = Address::new(&request.head);
                let asker = Asker { request, headers, address: &address };
                self.authenticate(&trust, asker, Duration::ZERO)
            }
        };
        let refused = match asked {
            Ok(Access::ReadWrite | Access::ReadOnly) => return Ok(Figures::All),
            Ok(who) => {
                told.who = Some(who);
                Error::forbidden(METRICS_FORBIDDEN).into()
            }
            Err(refused) => refused,
        };
        Err(self.conclude(request, Err(refused.into()), told))
    }

    /// Everything after that.
    async fn go_on(
        &self,
        mut begun: Begun,
        request: &Request,
        told: &mut Told,
    ) -> Result<Response, Box<Failed>> {
        let headers = Headers::new(&request.head);
        loop {
            match begun {
                Begun::Answered(response) => return Ok(response),
                Begun::Waits(call, trust) => {
                    let address = Address::new(&request.head);
                    let asker = Asker { request, headers, address: &address };
                    return self.perform(*call, asker, &trust, told).await;
                }
                Begun::Renews(issuer, body) => {
                    issuer.renew(self.clock.unix_millis() / 1_000).await;
                    begun = self.begin(request, headers, body, Attempt::Last, told)?;
                }
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
        let Asker { request, headers, address } = asker;
        auth::authenticate(trust, &request.method, headers, address, window)
    }

    /// What is trusted at this moment.
    pub(crate) fn trust(&self) -> Arc<Trust> {
        self.settings.credentials.current()
    }

    /// Where clients find the account.
    fn endpoint<'a>(&'a self, request: &'a Request) -> Endpoint<'a> {
        Endpoint::new(self.settings.public_endpoint.as_deref(), request)
    }

    /// The fault that somebody ordered for a request like this.
    fn strike(
        &self,
        address: &Address<'_>,
        operation: &str,
        headers: Headers<'_>,
    ) -> Option<Strike> {
        let controls = self.settings.controls.as_ref()?;
        let (database, container) = address.names();
        let client = headers.ascii(&header::USER_AGENT);
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
        // Also if the sizes cannot be told.
        told.charge = reply.charge;
        let statistics = match sized {
            Some((container, context)) if reply.result.is_ok() => {
                Some(self.sizes(container, context).await?)
            }
            _ => None,
        };
        self.respond((reply, shape, statistics), asker, trust, told)
    }

    /// From the database's reply to the answer.
    fn respond(
        &self,
        (mut reply, shape, statistics): (Reply, Shape, Option<Vec<PartitionStatistics>>),
        Asker { request, address, .. }: Asker<'_>,
        trust: &Trust,
        told: &mut Told,
    ) -> Result<Response, Box<Failed>> {
        told.charge = reply.charge;
        let nanos = self.nanos().saturating_sub(told.started_nanos);
        let location = (request.method == Method::GET)
            .then(|| Location { endpoint: self.endpoint(request), path: request.head.path() });
        let tokens = Issuer { keys: &trust.keys, clock: &*self.clock };
        let activity_id = &told.activity_id;
        let frame = Frame { address, activity_id, location, nanos, tokens, shape, statistics };
        let memory = std::mem::take(&mut reply.memory);
        let mut response = match response::reply(reply, &frame)? {
            response::Answered::Open(response) => response,
            response::Answered::Sealed(response) => {
                told.sealed_nanos = Some(nanos);
                response
            }
        };
        // The body is as long as what it was made of.
        response.memory = (!memory.is_empty()).then(|| AnswerMemory::new(memory));
        Ok(response)
    }

    /// Does an operation where it runs.
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
            Runs::TryInline => match self.database.try_inline(&op, &context) {
                Some(reply) => return Ok(reply),
                None => JobLength::Long,
            },
            Runs::Scripts => JobLength::Waiting,
        };
        let origin = fairness::origin(&context.access, &op);
        if request::if_left(&op) == IfLeft::Cancel {
            return self.execute_supervised(op, context, (length, origin)).await;
        }
        // Who runs a script waits for its turn before it takes a thread.
        let turn = self.database.turn(&op, &context).await?;
        let database = Arc::clone(&self.database);
        let work = move |_: &Arc<Task>| {
            let _turn = turn;
            block_on(database.execute(op, &context))
        };
        self.pool.run(length, origin, work).await.map_err(refused)
    }

    /// The same for what may take long, and ends when its client is gone.
    async fn execute_supervised(
        &self,
        op: Op,
        mut context: Context,
        (length, origin): (JobLength, Origin),
    ) -> Result<Reply, Error> {
        let (database, telemetry) = (Arc::clone(&self.database), Arc::clone(&self.telemetry));
        let queued = self.telemetry.query_queued();
        let mut left = CountedIfLeft(Some(&self.telemetry));
        let work = move |task: &Arc<Task>| {
            let _running = telemetry.query_running();
            drop(queued);
            context.supervisor = Some(Arc::new(Supervised(Arc::clone(task))));
            block_on(database.execute(op, &context))
        };
        let reply = self.pool.run(length, origin, work).await.map_err(refused);
        left.0 = None;
        reply
    }

    /// Prepares in the pool, and waits for the commit here: a thread of the pool that waits for the
    /// disk, or for the end of a split, is missing there.
    async fn begin_in_pool(&self, op: Op, context: Context) -> Result<Reply, Error> {
        let origin = fairness::origin(&context.access, &op);
        let database = Arc::clone(&self.database);
        let mut running = Box::pin(async move { database.execute(op, &context).await });
        let begin = move |_: &Arc<Task>| match running
            .as_mut()
            .poll(&mut task::Context::from_waker(Waker::noop()))
        {
            Poll::Ready(reply) => ControlFlow::Break(reply),
            Poll::Pending => ControlFlow::Continue(running),
        };
        match self.pool.run(JobLength::Brief, origin, begin).await.map_err(refused)? {
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
}

/// What the engine asks of whoever runs a query.
#[derive(Debug)]
struct Supervised(Arc<Task>);

impl Supervisor for Supervised {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn step_aside(&self) {
        self.0.step_aside();
    }

    fn help(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        self.0.help(work)
    }

    fn wait_for_help(&self, wait: &mut dyn FnMut()) {
        self.0.wait_for_help(wait);
    }
}

/// Counts a query whose client leaves.
struct CountedIfLeft<'a>(Option<&'a Telemetry>);

impl Drop for CountedIfLeft<'_> {
    fn drop(&mut self) {
        if let Some(telemetry) = self.0 {
            telemetry.query_cancelled();
        }
    }
}

impl Door for NoSqlDoor {
    fn handle(&self, mut request: Request) -> Answer {
        let service = &self.0;
        let body = std::mem::take(&mut request.body);
        let headers = Headers::new(&request.head);
        let activity_id = ActivityId::of(headers, &*service.entropy);
        let mut told = Told::nothing(activity_id, service.nanos());
        match service.begin(&request, headers, body, Attempt::First, &mut told) {
            Ok(Begun::Answered(response)) => {
                Answer::Now(service.conclude(&request, Ok(response), told))
            }
            Err(failed) => Answer::Now(service.conclude(&request, Err(failed), told)),
            Ok(begun) => {
                let if_left = match &begun {
                    Begun::Waits(call, _) => request::if_left(&call.op),
                    Begun::Answered(_) | Begun::Renews(..) => request::if_left_unread(&request),
                };
                let service = Arc::clone(service);
                Answer::Later(Pending::new(if_left, async move {
                    let answered = service.go_on(begun, &request, &mut told).await;
                    service.conclude(&request, answered, told)
                }))
            }
        }
    }

    fn admit<'a>(&'a self, request: &'a Request) -> Admission<'a> {
        let service = &*self.0;
        match service.admit(request, Attempt::First) {
            Ok(None) => Admission::Granted,
            Err(response) => Admission::Refused(Box::new(response)),
            Ok(Some(issuer)) => Admission::Asks(Box::pin(async move {
                issuer.renew(service.clock.unix_millis() / 1_000).await;
                service.admit(request, Attempt::Last).err()
            })),
        }
    }

    fn figures(&self, request: &Request) -> Result<Figures, Box<Response>> {
        self.0.figures(request).map_err(Box::new)
    }

    fn refuse(&self, refusal: Refusal) -> Response {
        let kind = match &refusal {
            Refusal::BodyTooLarge { .. } => ErrorKind::TooLarge,
            Refusal::BodyTimeout { .. } => ErrorKind::Timeout,
            Refusal::BodyBroken { .. } | Refusal::SentAhead { .. } => ErrorKind::BadRequest,
            Refusal::Overloaded { .. } => ErrorKind::Unavailable,
            Refusal::Panicked => ErrorKind::Internal,
        };
        let message = match kind {
            ErrorKind::TooLarge => request::REQUEST_TOO_LARGE.to_owned(),
            _ => refusal.to_string(),
        };
        let failure = Failure::from(Error::new(kind, message));
        let activity_id = ActivityId::new(&*self.0.entropy);
        let text = activity_id.as_str();
        let mut response = response::failure(&failure, Lines::new(), text, "");
        response::seal(&mut response, &activity_id, Charge::default(), 0);
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
