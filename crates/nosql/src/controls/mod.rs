//! Controls for those who test a program against this server: faults on order, and a clock that
//! can be put forward.
//!
//! | Request | What it does |
//! |---|---|
//! | `POST /_partita/faults` | orders a fault (see `faults.rs`); answers it with its id |
//! | `GET /_partita/faults` | all faults that are in force, and how often each struck |
//! | `DELETE /_partita/faults`, `…/{id}` | the off switch, for all or one |
//! | `GET /_partita/clock` | what time the database thinks it is |
//! | `POST /_partita/clock` | `{"advance_seconds":3600}` puts the clock forward |
//!
//! They are there only if the server was started with them, and answer only clients on the same
//! machine. They need no signature, so that a test in any language is one plain HTTP request; what
//! a web page could make a browser send without asking is refused (`POST` wants JSON as its content
//! type, which browsers ask about first, and nobody here answers them).
//!
//! The clock decides what has expired and what is written into items. Signatures are checked by the
//! real time: the client's clock was not moved.

mod faults;

use std::sync::Arc;

use http::{Method, StatusCode, header};
use partita_gateway::{Lines, Request, Response};
use partita_model::{Clock, Entropy, Error, Object, Result, ShiftedClock, Value};

use self::faults::Faults;
pub(crate) use self::faults::{Strike, Subject};
use crate::admin;
use crate::response;

/// The most that the clock is put forward at a time: a hundred years.
const ADVANCE_SECONDS_MAX: f64 = 100.0 * 365.25 * 86_400.0;

/// The state of the controls of one server.
pub struct Controls {
    clock: Arc<ShiftedClock>,
    faults: Faults,
}

/// A request to the controls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Faults,
    Fault(&'a str),
    Clock,
}

/// What of the controls a path addresses. None: something else.
pub(crate) fn route(path: &str) -> Option<Target<'_>> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    if segments.next() != Some(admin::ROOT) {
        return None;
    }
    match (segments.next(), segments.next(), segments.next()) {
        (Some("faults"), None, _) => Some(Target::Faults),
        (Some("faults"), Some(id), None) => Some(Target::Fault(id)),
        (Some("clock"), None, _) => Some(Target::Clock),
        _ => None,
    }
}

/// The answer of a server that was started without controls.
pub(crate) fn switched_off() -> Error {
    Error::forbidden(
        "This server was started without controls for tests: start it with --test-controls.",
    )
}

impl Controls {
    /// Controls of the database that has this clock.
    pub fn new(clock: Arc<ShiftedClock>) -> Controls {
        Controls { clock, faults: Faults::default() }
    }

    /// The time that clients sign their requests with, in seconds since 1970.
    pub(crate) fn real_unix_seconds(&self) -> u64 {
        self.clock.real_unix_millis() / 1_000
    }

    /// The fault that strikes a request, if one does.
    pub(crate) fn strike(&self, subject: &Subject<'_>, entropy: &dyn Entropy) -> Option<Strike> {
        self.faults.strike(subject, self.clock.monotonic_nanos(), entropy)
    }

    /// Answers a request to the controls.
    pub(crate) fn answer(
        &self,
        target: &Target<'_>,
        request: &Request,
        body: &[u8],
    ) -> Result<Response> {
        if !request.peer.ip().to_canonical().is_loopback() {
            return Err(Error::forbidden(
                "The controls for tests answer only clients on the same machine.",
            ));
        }
        let method = &request.method;
        match (target, method) {
            (Target::Faults, &Method::POST) => {
                let nanos = self.clock.monotonic_nanos();
                let added = self.faults.add(&read(request, body)?, nanos)?;
                Ok(json(StatusCode::CREATED, &added))
            }
            (Target::Faults, &Method::GET) => {
                let faults = self.faults.list(self.clock.monotonic_nanos());
                Ok(json(StatusCode::OK, &Object::new().with("faults", faults).into()))
            }
            (Target::Faults, &Method::DELETE) => {
                self.faults.clear();
                Ok(response::empty(StatusCode::NO_CONTENT, Lines::new()))
            }
            (Target::Fault(id), &Method::DELETE) => {
                self.faults.remove(id)?;
                Ok(response::empty(StatusCode::NO_CONTENT, Lines::new()))
            }
            (Target::Clock, &Method::POST) => {
                self.advance(&read(request, body)?)?;
                Ok(json(StatusCode::OK, &self.time()))
            }
            (Target::Clock, &Method::GET) => Ok(json(StatusCode::OK, &self.time())),
            (Target::Faults, _) => Err(admin::not_allowed(method, "POST, GET or DELETE")),
            (Target::Fault(_), _) => Err(admin::not_allowed(method, "DELETE")),
            (Target::Clock, _) => Err(admin::not_allowed(method, "GET or POST")),
        }
    }

    fn advance(&self, body: &Value) -> Result<()> {
        let seconds = body.get("advance_seconds").and_then(Value::as_f64);
        let seconds = seconds.filter(|seconds| (0.0..=ADVANCE_SECONDS_MAX).contains(seconds));
        let seconds = seconds.ok_or_else(|| {
            Error::bad_request(
                "Say by how much the clock is put forward, at most a hundred years: \
                 {\"advance_seconds\":3600}. It cannot be put back; restart the server for that.",
            )
        })?;
        self.clock.advance_millis((seconds * 1_000.0) as u64);
        Ok(())
    }

    fn time(&self) -> Value {
        let millis = |millis: u64| millis as f64 / 1_000.0;
        Object::new()
            .with("unix_seconds", millis(self.clock.unix_millis()))
            .with("ahead_seconds", millis(self.clock.ahead_millis()))
            .into()
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Controls")
    }
}

/// The body of a request that changes something.
fn read(request: &Request, body: &[u8]) -> Result<Value> {
    let kind = request.head.text(&header::CONTENT_TYPE);
    let is_json =
        |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json");
    if !kind.is_some_and(is_json) {
        return Err(Error::bad_request("Send JSON: content-type: application/json."));
    }
    Value::parse(body)
}

fn json(status: StatusCode, value: &Value) -> Response {
    response::with_body(status, Lines::new(), value.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_controls_are_theirs() {
        assert_eq!(route("/_partita/faults"), Some(Target::Faults));
        assert_eq!(route("/_partita/faults/"), Some(Target::Faults));
        assert_eq!(route("/_partita/faults/3"), Some(Target::Fault("3")));
        assert_eq!(route("/_partita/clock"), Some(Target::Clock));
        for other in ["/", "/_partita", "/_partita/faults/3/4", "/_partita/clock/x", "/faults"] {
            assert_eq!(route(other), None, "{other}");
        }
    }
}
