//! Faults on order: what goes wrong, for which requests, and how often.
//!
//! ```json
//! {"status":429, "retry_after_ms":20, "container":"orders", "operation":"CreateItem", "count":3}
//! {"drop":"answer", "operation":"UpsertItem", "probability":0.1, "seconds":60}
//! {"latency_ms":200, "database":"shop", "client":"azsdk-python"}
//! ```
//!
//! A fault is an error in place of the answer (`status`, perhaps with `substatus` and
//! `retry_after_ms`), or a connection that ends (`drop`: before the request is served, or `answer`,
//! when it was), and perhaps a delay (`latency_ms`, also alone). It strikes requests that have all
//! that it names: the database and container as the path writes them, the operation by its name in
//! the metrics, the client by a part of its user agent. It strikes with a probability, at most
//! `count` times, for at most so many `seconds`. Of several that fit, the first ordered strikes.
//! Only requests that are signed and understood are struck: a fault hides no other error.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use partita_gateway::Delivery;
use partita_model::{Entropy, Error, Object, Result, Value};

/// Faults in force at once: a test has a handful.
const FAULTS_MAX: usize = 1_000;

/// The longest delay: clients have given up by then.
const LATENCY_MILLIS_MAX: u64 = 600_000;

/// What can be said of a fault.
const MEMBERS: [&str; 12] = [
    "status",
    "substatus",
    "retry_after_ms",
    "drop",
    "latency_ms",
    "database",
    "container",
    "operation",
    "client",
    "probability",
    "count",
    "seconds",
];

/// Errors that can be ordered: those that a client must cope with although it did nothing wrong.
/// With their sub-status where none is named, and their code.
const ERRORS: [(u16, u32, &str); 7] = [
    (408, 0, "RequestTimeout"),
    (410, 1002, "Gone"),
    (429, 3200, "TooManyRequests"),
    (449, 0, "RetryWith"),
    (500, 0, "InternalServerError"),
    (502, 0, "BadGateway"),
    (503, 0, "ServiceUnavailable"),
];

/// All faults in force, in the order in which they were ordered.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: Mutex<FaultList>,
}

#[derive(Debug, Default)]
struct FaultList {
    last_id: u64,
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct Fault {
    id: u64,
    /// As it was ordered, for those who list it.
    order: Object,
    effect: Effect,
    database: Option<String>,
    container: Option<String>,
    operation: Option<String>,
    client: Option<String>,
    probability: f64,
    /// How often it may strike yet.
    left: Option<u64>,
    ends_nanos: Option<u64>,
    struck: u64,
}

#[derive(Clone, Copy, Debug)]
struct Effect {
    error: Option<OrderedError>,
    end: Option<ConnectionEnd>,
    latency: Option<Duration>,
}

/// When a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnd {
    /// Before the request is served.
    Request,
    /// When it was served.
    Answer,
}

/// What a fault looks at, beside the operation.
#[derive(Clone, Debug)]
pub struct FaultSubject<'a> {
    pub database: Option<Cow<'a, str>>,
    pub container: Option<Cow<'a, str>>,
    /// How the client names itself.
    pub client: &'a str,
}

/// An error that a fault answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedError {
    pub status: u16,
    /// 0: none.
    pub substatus: u32,
    pub code: &'static str,
    pub retry_after_ms: Option<u64>,
}

impl OrderedError {
    pub const MESSAGE: &str =
        "This error was ordered through the controls for tests (/_partita/faults).";
}

/// What happens to a request in place of being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    Fails(OrderedError),
    /// It is answered with nothing, which is not delivered.
    Unserved,
}

/// A fault that strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StruckBy {
    pub(crate) id: u64,
    /// None: the request is served.
    pub(crate) strike: Option<Strike>,
    pub(crate) delivery: Delivery,
}

impl Faults {
    /// Puts a fault in force; how it is listed.
    pub(super) fn add(&self, order: &Value, now_nanos: u64) -> Result<Value> {
        let mut fault = Fault::parse(order, now_nanos)?;
        let mut list = self.lock();
        list.forget_ended(now_nanos);
        if list.faults.len() >= FAULTS_MAX {
            return Err(Error::bad_request(format!(
                "{FAULTS_MAX} faults are in force already: DELETE some."
            )));
        }
        list.last_id += 1;
        fault.id = list.last_id;
        let listed = fault.listed();
        list.faults.push(fault);
        Ok(listed)
    }

    pub(super) fn list(&self, now_nanos: u64) -> Vec<Value> {
        let mut list = self.lock();
        list.forget_ended(now_nanos);
        list.faults.iter().map(Fault::listed).collect()
    }

    pub(super) fn clear(&self) {
        self.lock().faults.clear();
    }

    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let mut list = self.lock();
        let at = list.faults.iter().position(|fault| fault.id.to_string() == id);
        let at = at.ok_or_else(|| Error::not_found(format!("No fault '{id}' is in force.")))?;
        list.faults.remove(at);
        Ok(())
    }

    /// The fault that strikes, if one does.
    pub(super) fn strike(
        &self,
        operation: &str,
        subject: &FaultSubject<'_>,
        now_nanos: u64,
        entropy: &dyn Entropy,
    ) -> Option<StruckBy> {
        let mut list = self.lock();
        if list.faults.is_empty() {
            return None;
        }
        list.forget_ended(now_nanos);
        let fault =
            list.faults.iter_mut().find(|fault| fault.strikes(operation, subject, entropy))?;
        fault.struck += 1;
        fault.left = fault.left.map(|left| left - 1);
        let Effect { error, end, latency } = fault.effect;
        let unserved = (end == Some(ConnectionEnd::Request)).then_some(Strike::Unserved);
        Some(StruckBy {
            id: fault.id,
            strike: error.map(Strike::Fails).or(unserved),
            delivery: Delivery { delay: latency.unwrap_or_default(), dropped: end.is_some() },
        })
    }

    fn lock(&self) -> MutexGuard<'_, FaultList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultList {
    /// Those whose time is over. One that struck as often as it may stays in the list, for a test
    /// to see that it did.
    fn forget_ended(&mut self, now_nanos: u64) {
        self.faults.retain(|fault| fault.ends_nanos.is_none_or(|end| now_nanos < end));
    }
}

impl Fault {
    fn parse(order: &Value, now_nanos: u64) -> Result<Fault> {
        let Value::Object(order) = order else {
            return Err(Error::bad_request(
                "A fault is a JSON object: {\"status\":429,\"count\":3}.",
            ));
        };
        if let Some((name, _)) = order.iter().find(|(name, _)| !MEMBERS.contains(name)) {
            let members = MEMBERS.join(", ");
            return Err(Error::bad_request(format!(
                "A fault has no '{name}'; it can have: {members}."
            )));
        }
        let members = FaultOrder(order);
        let latency = members.whole("latency_ms", LATENCY_MILLIS_MAX)?.map(Duration::from_millis);
        let effect = Effect { error: error(&members)?, end: members.end()?, latency };
        match &effect {
            Effect { error: None, end: None, latency: None } => {
                return Err(Error::bad_request(
                    "Say what goes wrong: a \"status\", a \"drop\" or a \"latency_ms\".",
                ));
            }
            Effect { error: Some(_), end: Some(_), .. } => {
                return Err(Error::bad_request(
                    "A fault has a \"status\" or a \"drop\", not both: who gets no answer gets no \
                     status.",
                ));
            }
            Effect { .. } => {}
        }
        let seconds = members.whole("seconds", u64::from(u32::MAX))?;
        Ok(Fault {
            id: 0,
            order: order.clone(),
            effect,
            database: members.text("database")?,
            container: members.text("container")?,
            operation: members.text("operation")?,
            client: members.text("client")?,
            probability: members.probability()?,
            left: members.whole("count", u64::MAX)?,
            ends_nanos: seconds.map(|seconds| now_nanos.saturating_add(seconds * 1_000_000_000)),
            struck: 0,
        })
    }

    fn strikes(&self, operation: &str, subject: &FaultSubject<'_>, entropy: &dyn Entropy) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.database, subject.database.as_deref())
            && is(&self.container, subject.container.as_deref())
            && is(&self.operation, Some(operation))
            && self.client.as_deref().is_none_or(|part| subject.client.contains(part))
            && self.left != Some(0)
            && (self.probability >= 1.0 || chance(entropy) < self.probability)
    }

    fn listed(&self) -> Value {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut listed = Object::new().with("id", self.id.to_string());
        for (name, value) in self.order.iter() {
            listed.insert(name, value.clone());
        }
        listed.with("struck", number(self.struck)).into()
    }
}

/// A number in [0, 1).
fn chance(entropy: &dyn Entropy) -> f64 {
    (entropy.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The error that a fault answers with.
fn error(members: &FaultOrder<'_>) -> Result<Option<OrderedError>> {
    let substatus = members.whole("substatus", 99_999)?;
    let retry_after_ms = members.whole("retry_after_ms", LATENCY_MILLIS_MAX)?;
    let Some(status) = members.whole("status", 999)? else {
        if substatus.or(retry_after_ms).is_some() {
            return Err(Error::bad_request(
                "\"substatus\" and \"retry_after_ms\" need a \"status\" that they belong to.",
            ));
        }
        return Ok(None);
    };
    let known = ERRORS.iter().find(|(known, _, _)| u64::from(*known) == status);
    let Some((status, usual, code)) = known else {
        let known: Vec<String> = ERRORS.iter().map(|(known, ..)| known.to_string()).collect();
        return Err(Error::bad_request(format!(
            "The status {status} cannot be ordered; these can: {}.",
            known.join(", ")
        )));
    };
    Ok(Some(OrderedError {
        status: *status,
        substatus: substatus.and_then(|number| u32::try_from(number).ok()).unwrap_or(*usual),
        code,
        retry_after_ms,
    }))
}

/// The members of an order, read by what they must be.
struct FaultOrder<'a>(&'a Object);

impl FaultOrder<'_> {
    fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(wrong(name, "a string")),
        }
    }

    fn whole(&self, name: &str, max: u64) -> Result<Option<u64>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let number = value.as_i64().and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| *number <= max) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, &format!("a whole number from 0 to {max}"))),
        }
    }

    fn probability(&self) -> Result<f64> {
        let Some(value) = self.0.get("probability") else { return Ok(1.0) };
        let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
        number.ok_or_else(|| wrong("probability", "a number from 0 to 1"))
    }

    fn end(&self) -> Result<Option<ConnectionEnd>> {
        match self.text("drop")?.as_deref() {
            None => Ok(None),
            Some("request") => Ok(Some(ConnectionEnd::Request)),
            Some("answer") => Ok(Some(ConnectionEnd::Answer)),
            Some(_) => Err(wrong("drop", "\"request\" (not served) or \"answer\" (served)")),
        }
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    Error::bad_request(format!("The member '{name}' of a fault must be {expected}."))
}
