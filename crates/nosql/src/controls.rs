//! How the controls for tests are asked for, over HTTP.
//!
//! | Request | What it does |
//! |---|---|
//! | `POST /_partita/faults` | orders a fault; answers it with its id |
//! | `GET /_partita/faults` | all faults that are in force, and how often each struck |
//! | `DELETE /_partita/faults`, `…/{id}` | the off switch, for all or one |
//! | `GET /_partita/clock` | what time the database thinks it is |
//! | `POST /_partita/clock` | `{"advance_seconds":3600}` puts the clock forward |
//!
//! They are there only if the server was started with them, and answer only clients on the same
//! machine. They need no signature, so that a test in any language is one plain HTTP request; what
//! a web page could make a browser send without asking is refused (`POST` wants JSON as its content
//! type, which browsers ask about first, and nobody here answers them). What they do is the
//! executor's: see its [`Controls`].

use http::{Method, StatusCode, header};
use partita_executor::Controls;
use partita_gateway::{Lines, Request, Response};
use partita_model::{Error, Object, Result, Value};

use crate::link::ADMIN_ROOT;
use crate::request::not_allowed_here;
use crate::response;

/// What of the controls a path addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ControlsPath<'a> {
    Faults,
    Fault(&'a str),
    Clock,
}

/// Takes a path apart. None: it addresses something else.
pub(crate) fn route(path: &str) -> Option<ControlsPath<'_>> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    if segments.next() != Some(ADMIN_ROOT) {
        return None;
    }
    match (segments.next(), segments.next(), segments.next()) {
        (Some("faults"), None, _) => Some(ControlsPath::Faults),
        (Some("faults"), Some(id), None) => Some(ControlsPath::Fault(id)),
        (Some("clock"), None, _) => Some(ControlsPath::Clock),
        _ => None,
    }
}

/// The answer of a server that was started without controls.
pub(crate) fn switched_off() -> Error {
    Error::forbidden(
        "This server was started without controls for tests: start it with --test-controls.",
    )
}

/// Answers a request to the controls.
pub(crate) fn answer(
    controls: &Controls,
    path: &ControlsPath<'_>,
    request: &Request,
    body: &[u8],
) -> Result<Response> {
    if !request.peer.ip().to_canonical().is_loopback() {
        return Err(Error::forbidden(
            "The controls for tests answer only clients on the same machine.",
        ));
    }
    let method = &request.method;
    match (path, method) {
        (ControlsPath::Faults, &Method::POST) => {
            let added = controls.add_fault(&read(request, body)?)?;
            Ok(json(StatusCode::CREATED, &added))
        }
        (ControlsPath::Faults, &Method::GET) => {
            let faults = Object::new().with("faults", controls.faults());
            Ok(json(StatusCode::OK, &faults.into()))
        }
        (ControlsPath::Faults, &Method::DELETE) => {
            controls.clear_faults();
            Ok(response::empty(StatusCode::NO_CONTENT, Lines::new()))
        }
        (ControlsPath::Fault(id), &Method::DELETE) => {
            controls.remove_fault(id)?;
            Ok(response::empty(StatusCode::NO_CONTENT, Lines::new()))
        }
        (ControlsPath::Clock, &Method::POST) => {
            controls.advance(&read(request, body)?)?;
            Ok(json(StatusCode::OK, &controls.time()))
        }
        (ControlsPath::Clock, &Method::GET) => Ok(json(StatusCode::OK, &controls.time())),
        (ControlsPath::Faults, _) => Err(not_allowed_here(method, "POST, GET or DELETE")),
        (ControlsPath::Fault(_), _) => Err(not_allowed_here(method, "DELETE")),
        (ControlsPath::Clock, _) => Err(not_allowed_here(method, "GET or POST")),
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
        assert_eq!(route("/_partita/faults"), Some(ControlsPath::Faults));
        assert_eq!(route("/_partita/faults/"), Some(ControlsPath::Faults));
        assert_eq!(route("/_partita/faults/3"), Some(ControlsPath::Fault("3")));
        assert_eq!(route("/_partita/clock"), Some(ControlsPath::Clock));
        for other in ["/", "/_partita", "/_partita/faults/3/4", "/_partita/clock/x", "/faults"] {
            assert_eq!(route(other), None, "{other}");
        }
    }
}
