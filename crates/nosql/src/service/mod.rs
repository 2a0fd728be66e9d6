//! The door itself: authenticate, read the request, have it executed, write the response.
//!
//! Where an operation runs is the executor's decision. What need not wait is answered without a
//! future: above all point reads, and everything that is refused.

mod identity;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use partita_engine::{ContainerPath, Context, Op, Outcome, PartitionStatistics, Reply};
use partita_executor::{
    AnsweredRequest, Executor, FaultSubject, Profile, RequestRecord, Strike, Trust,
};
use partita_gateway::auth::Issuer as KeyIssuer;
use partita_gateway::{
    Admission, Answer, Door, Figures, Lines, Pending, Refusal, Request, Response,
};
use partita_model::{Charge, Consistency, Error, ErrorKind};

use self::identity::{Attempt, Identity, SignedRequest};
use crate::account::{self, Endpoint};
use crate::activity::ActivityId;
use crate::controls;
use crate::error::Failure;
use crate::headers::{self, Headers};
use crate::link::Address;
use crate::loops::Loops;
use crate::request::{self, Call, DatabaseCall, Incoming, ResponseOptions};
use crate::response::{self, FailedRequest, Location, ResponseContext, ResponseDraft};
use crate::token::Issuer;

/// What the door is called in metrics.
const DOOR: &str = "nosql";

/// What can be chosen about the door.
#[derive(Clone, Debug)]
pub struct NoSqlSettings {
    /// The account's consistency, which requests may weaken.
    pub default_consistency: Consistency,
    /// Where clients are told to find the account, if not where they came.
    pub public_endpoint: Option<String>,
    /// Requests with duplicate names in their JSON are refused. Else the last one wins.
    pub strict_json: bool,
}

/// The NoSQL protocol on a database.
pub struct NoSqlDoor(Arc<Service>);

/// What answers: requests that wait share it.
struct Service {
    executor: Arc<Executor>,
    settings: NoSqlSettings,
    loops: Loops,
}

/// A request and its answer in the making.
struct Exchange {
    activity_id: ActivityId,
    record: RequestRecord,
    /// How long it took, if the answer says so already.
    sealed_nanos: Option<u64>,
}

/// How far a request came without waiting.
enum Begun {
    Answered(Response),
    /// For the database.
    NeedsDatabase(Box<DatabaseCall>, Arc<Trust>),
    /// For an issuer: its token may be signed with a key that it has published since. Then the
    /// request, whose body this is, begins anew.
    NeedsKeys(KeyIssuer, Bytes),
}

impl NoSqlDoor {
    /// A door to the database that this executor has.
    pub fn new(executor: Arc<Executor>, settings: NoSqlSettings) -> NoSqlDoor {
        NoSqlDoor(Arc::new(Service { executor, settings, loops: Loops::default() }))
    }

    /// Tells clients to find the account there, from the first request on.
    pub fn set_public_endpoint(&mut self, endpoint: &str) {
        let service = Arc::get_mut(&mut self.0).expect("the door was not opened yet");
        service.settings.public_endpoint = Some(endpoint.to_owned());
    }
}

impl Service {
    fn start(&self, headers: Headers<'_>) -> Exchange {
        Exchange {
            activity_id: ActivityId::of(headers, self.executor.entropy()),
            record: self.executor.start(DOOR),
            sealed_nanos: None,
        }
    }

    /// The last station: what every answer tells, and what is noted of it.
    fn conclude(
        &self,
        request: &Request,
        answered: Result<Response, Box<FailedRequest>>,
        exchange: Exchange,
    ) -> Response {
        let Exchange { activity_id, record, sealed_nanos } = &exchange;
        let (operation, path) = (record.operation, request.head.path());
        let mut response = answered.unwrap_or_else(|failed| {
            let FailedRequest { failure, headers } = *failed;
            let activity_id = activity_id.as_str();
            if failure.status.is_server_error() {
                log_failure(&failure, operation, activity_id);
            }
            response::failure(&failure, headers, activity_id, path)
        });
        let nanos = sealed_nanos.unwrap_or_else(|| {
            let nanos = self.executor.nanos_since_start(record);
            response::seal(&mut response, activity_id, record.charge, nanos);
            nanos
        });
        response.delivery = record.delivery;
        if response.status == StatusCode::GONE || self.loops.are_there() {
            response.delivery.delay += self.held_back(request, response.status, operation);
        }
        let answered = AnsweredRequest {
            method: request.method.as_str(),
            path,
            peer: request.peer,
            status: response.status.as_u16(),
            activity_id: activity_id.as_str(),
            nanos,
        };
        self.executor.conclude(record, &answered);
        response
    }

    /// How long an answer is held back because its client asks the same again and again.
    fn held_back(&self, request: &Request, status: StatusCode, operation: &str) -> Duration {
        let (peer, now_nanos) = (request.peer, self.executor.nanos());
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
        exchange: &mut Exchange,
    ) -> Result<Begun, Box<FailedRequest>> {
        let Request { method, head, .. } = request;
        let record = &mut exchange.record;
        if let Some(path) = controls::route(head.path()) {
            record.operation = "Controls";
            record.administers = *method != Method::GET;
            let controls = self.executor.controls().ok_or_else(controls::switched_off)?;
            return Ok(Begun::Answered(controls::answer(controls, &path, request, &body)?));
        }
        let address = Address::new(head);
        let trust = self.executor.credentials().glance();
        let signed = SignedRequest { request, headers, address: &address };
        let access = match self.identify(&trust, signed, attempt, record)? {
            Identity::Known(access) => access,
            Identity::KeyUnknown(issuer) => return Ok(Begun::NeedsKeys(issuer, body)),
        };
        let incoming = Incoming { method, headers, body };
        if self.settings.strict_json {
            request::check_names(&incoming.body)?;
        }
        let account = self.settings.default_consistency;
        let call = match request::read(address.link()?, incoming, access, account)? {
            Call::Database(call) => call,
            Call::Account => {
                record.operation = "ReadAccount";
                let document = account::document(&self.endpoint(request).to_string(), account);
                let response =
                    response::with_body(StatusCode::OK, account::media_headers(), document);
                return Ok(Begun::Answered(response));
            }
        };
        match self.executor.admit(record, &call.op, || subject(&address, headers)) {
            None => {}
            Some(Strike::Fails(error)) => return Err(error.into()),
            Some(Strike::Unserved) => {
                let response = response::empty(StatusCode::OK, Lines::new());
                return Ok(Begun::Answered(response));
            }
        }
        match self.executor.execute_now(&call.op, &call.context) {
            Some(reply) => {
                let draft = ReplyParts { reply, options: call.options, statistics: None };
                self.respond(draft, signed, &trust, exchange).map(Begun::Answered)
            }
            None => Ok(Begun::NeedsDatabase(call, Arc::clone(&trust))),
        }
    }

    /// Everything after that.
    async fn go_on(
        &self,
        mut begun: Begun,
        request: &Request,
        exchange: &mut Exchange,
    ) -> Result<Response, Box<FailedRequest>> {
        let headers = Headers::new(&request.head);
        loop {
            match begun {
                Begun::Answered(response) => return Ok(response),
                Begun::NeedsDatabase(call, trust) => {
                    let address = Address::new(&request.head);
                    let signed = SignedRequest { request, headers, address: &address };
                    return self.perform(*call, signed, &trust, exchange).await;
                }
                Begun::NeedsKeys(issuer, body) => {
                    issuer.renew(self.executor.unix_seconds()).await;
                    begun = self.begin(request, headers, body, Attempt::Last, exchange)?;
                }
            }
        }
    }

    /// Where clients find the account.
    fn endpoint<'a>(&'a self, request: &'a Request) -> Endpoint<'a> {
        Endpoint::new(self.settings.public_endpoint.as_deref(), request)
    }

    async fn perform(
        &self,
        call: DatabaseCall,
        signed: SignedRequest<'_>,
        trust: &Trust,
        exchange: &mut Exchange,
    ) -> Result<Response, Box<FailedRequest>> {
        let DatabaseCall { op, context, options } = call;
        let sized = match &op {
            Op::ReadContainer { container, .. } | Op::ReplaceContainer { container, .. }
                if options.quota || options.statistics =>
            {
                Some((container.clone(), context.clone()))
            }
            _ => None,
        };
        let reply = match op {
            Op::ReadChanges { container, request } if options.wait_seconds > 0 => {
                let wait = Duration::from_secs(options.wait_seconds);
                let authenticate = |waited| {
                    let trust = self.executor.credentials().current();
                    self.authenticate(&trust, signed, waited).map_err(Box::<FailedRequest>::from)
                };
                let executor = &self.executor;
                executor.wait_for_changes(&container, &request, context, wait, authenticate).await?
            }
            op => self.executor.execute(op, context).await?,
        };
        // Also if the sizes cannot be told.
        exchange.record.charge = reply.charge;
        let statistics = match sized {
            Some((container, context)) if reply.result.is_ok() => {
                Some(self.sizes(container, context).await?)
            }
            _ => None,
        };
        self.respond(ReplyParts { reply, options, statistics }, signed, trust, exchange)
    }

    /// From the database's reply to the answer.
    fn respond(
        &self,
        parts: ReplyParts,
        SignedRequest { request, address, .. }: SignedRequest<'_>,
        trust: &Trust,
        exchange: &mut Exchange,
    ) -> Result<Response, Box<FailedRequest>> {
        let ReplyParts { mut reply, options, statistics } = parts;
        let memory = exchange.record.take_memory(&mut reply);
        let nanos = self.executor.nanos_since_start(&exchange.record);
        let location = (request.method == Method::GET)
            .then(|| Location { endpoint: self.endpoint(request), path: request.head.path() });
        let tokens = Issuer { keys: &trust.keys, clock: self.executor.clock() };
        let activity_id = &exchange.activity_id;
        let context =
            ResponseContext { address, activity_id, location, nanos, tokens, options, statistics };
        let mut response = match response::reply(reply, &context)? {
            ResponseDraft::Open(response) => response,
            ResponseDraft::Sealed(response) => {
                exchange.sealed_nanos = Some(nanos);
                response
            }
        };
        // The body is as long as what it was made of.
        response.memory = memory;
        Ok(response)
    }

    /// The sizes of a container's partitions.
    async fn sizes(
        &self,
        container: ContainerPath,
        context: Context,
    ) -> Result<Vec<PartitionStatistics>, Error> {
        let op = Op::ContainerStatistics { container };
        match self.executor.execute(op, context).await?.result? {
            Outcome::Statistics { partitions } => Ok(partitions),
            other => Err(Error::internal(format!("statistics answered with {other:?}"))),
        }
    }
}

/// A reply, and what else its response is made of.
struct ReplyParts {
    reply: Reply,
    options: ResponseOptions,
    statistics: Option<Vec<PartitionStatistics>>,
}

/// What a fault for tests looks at.
fn subject<'a>(address: &Address<'a>, headers: Headers<'a>) -> FaultSubject<'a> {
    let (database, container): (Option<Cow<'a, str>>, Option<Cow<'a, str>>) = address.names();
    let client = headers.ascii(&header::USER_AGENT).unwrap_or_default();
    FaultSubject { database, container, client }
}

impl Door for NoSqlDoor {
    fn handle(&self, mut request: Request) -> Answer {
        let service = &self.0;
        let body = std::mem::take(&mut request.body);
        let headers = Headers::new(&request.head);
        let mut exchange = service.start(headers);
        match service.begin(&request, headers, body, Attempt::First, &mut exchange) {
            Ok(Begun::Answered(response)) => {
                Answer::Now(service.conclude(&request, Ok(response), exchange))
            }
            Err(failed) => Answer::Now(service.conclude(&request, Err(failed), exchange)),
            Ok(begun) => {
                let if_left = match &begun {
                    Begun::NeedsDatabase(call, _) => Profile::of(&call.op).if_left,
                    Begun::Answered(_) | Begun::NeedsKeys(..) => request::if_left_unread(&request),
                };
                let service = Arc::clone(service);
                Answer::Later(Pending::new(if_left, async move {
                    let answered = service.go_on(begun, &request, &mut exchange).await;
                    service.conclude(&request, answered, exchange)
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
                issuer.renew(service.executor.unix_seconds()).await;
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
        let activity_id = ActivityId::new(self.0.executor.entropy());
        let text = activity_id.as_str();
        let mut response = response::failure(&failure, Lines::new(), text, "");
        response::seal(&mut response, &activity_id, Charge::default(), 0);
        response
    }
}

/// Failures of the server, as opposed to its clients'. What was refused as unsupported is no news.
fn log_failure(failure: &Failure, operation: &str, activity_id: &str) {
    let (status, message) = (failure.status.as_u16(), &failure.message);
    match failure.status {
        StatusCode::NOT_IMPLEMENTED => tracing::debug!(operation, activity_id, status, message),
        StatusCode::SERVICE_UNAVAILABLE => tracing::warn!(operation, activity_id, status, message),
        _ => tracing::error!(operation, activity_id, status, message, "a request failed"),
    }
}
