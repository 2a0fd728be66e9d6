//! The few paths that answer without a key: health, metrics of the process, the certificate.
//!
//! | Path | Answer |
//! |---|---|
//! | `/alive` | 200 while the process runs |
//! | `/ready` | 200 if requests can be served (and says if the disk is full); 503 else |
//! | `/status` | JSON: version, uptime, connections, the store |
//! | `/metrics` | counters in OpenMetrics text; with credentials for it also those with names |
//! | `/_compat` | JSON: what of the service's API is there |
//! | `/_explorer/emulator.pem` | the TLS certificate, for clients that want to trust it |
//!
//! None of them tells anything of the data without credentials. Other methods than GET and HEAD,
//! and all other paths, belong to the door.

use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use ::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use ::http::{Method, StatusCode};
use bytes::Bytes;

use crate::budget::BodyBudget;
use crate::door::{Door, Request, Response};
use crate::pool::panic_text;
use crate::shutdown::Shutdown;
use crate::telemetry::{Figures, Telemetry};

/// What the database tells of itself for `/ready` and `/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Can requests be served?
    pub ready: bool,
    /// What is refused at the moment and why, in a few words without names.
    pub trouble: Option<&'static str>,
    /// A JSON object with whatever is worth knowing: store, durability, counts.
    pub details: String,
}

/// Asked for each `/ready` and `/status`; must be quick.
pub(crate) type StatusSource = Arc<dyn Fn() -> ServiceStatus + Send + Sync>;

/// The answers. See the module's text.
pub(crate) struct Endpoints {
    pub(crate) version: &'static str,
    pub(crate) started: Instant,
    pub(crate) certificate_pem: Bytes,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) status: StatusSource,
    pub(crate) compat: Bytes,
    pub(crate) shutdown: Shutdown,
    pub(crate) bodies: Arc<BodyBudget>,
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const PEM: &str = "application/x-pem-file";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Endpoints {
    /// None: the door's business.
    pub(crate) fn answer(&self, door: &dyn Door, request: &Request) -> Option<Response> {
        if request.method != Method::GET && request.method != Method::HEAD {
            return None;
        }
        match request.head.path() {
            "/alive" => Some(respond(StatusCode::OK, TEXT, "alive\n")),
            "/ready" => Some(self.ready()),
            "/status" => Some(respond(StatusCode::OK, JSON, self.status_json())),
            "/metrics" => Some(self.metrics(door, request)),
            "/_compat" => Some(respond(StatusCode::OK, JSON, self.compat.clone())),
            "/_explorer/emulator.pem" => {
                Some(respond(StatusCode::OK, PEM, self.certificate_pem.clone()))
            }
            _ => None,
        }
    }

    fn ready(&self) -> Response {
        if self.shutdown.is_draining() {
            return respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n");
        }
        let found = (self.status)();
        let (status, text) = match (found.ready, found.trouble) {
            (true, None) => (StatusCode::OK, "ready\n".to_owned()),
            (true, Some(trouble)) => (StatusCode::OK, format!("ready, but {trouble}\n")),
            (false, trouble) => {
                let trouble = trouble.unwrap_or("the store is not healthy: see /status");
                (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n"))
            }
        };
        respond(status, TEXT, text)
    }

    /// A door that panics shows nothing but what everybody sees.
    fn metrics(&self, door: &dyn Door, request: &Request) -> Response {
        match catch_unwind(AssertUnwindSafe(|| door.figures(request))) {
            Ok(Ok(figures)) => respond(StatusCode::OK, METRICS, self.telemetry.render(figures)),
            Ok(Err(refused)) => *refused,
            Err(panic) => {
                tracing::error!("a request for metrics panicked: {}", panic_text(panic.as_ref()));
                self.telemetry.panicked();
                respond(StatusCode::OK, METRICS, self.telemetry.render(Figures::OfProcess))
            }
        }
    }

    fn status_json(&self) -> String {
        let ServiceStatus { ready, details, .. } = (self.status)();
        let draining = self.shutdown.is_draining();
        let mut json = String::with_capacity(details.len() + 160);
        let written = write!(
            json,
            r#"{{"service":"partita","version":"{}","ready":{},"draining":{draining},"uptime_seconds":{},"connections":{},"bodies_bytes":{},"database":{details}}}"#,
            self.version,
            ready && !draining,
            self.started.elapsed().as_secs(),
            self.telemetry.connections_open(),
            self.bodies.held_bytes(),
        );
        written.expect("a String takes every write");
        json
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints").field("version", &self.version).finish_non_exhaustive()
    }
}

fn respond(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(status, body);
    response.headers.push(&CONTENT_TYPE, kind);
    response.headers.push(&CACHE_CONTROL, "no-store");
    response
}
