//! The edge: sockets, TLS, credentials, the worker pool, telemetry, shutdown.
//!
//! Bytes arrive here and leave here. One port speaks HTTP and HTTPS, HTTP/1.1 and HTTP/2; whatever
//! a client does to its connection (stalls, lies about lengths, sends garbage, disappears) is dealt
//! with in this crate, so that a front door ([`Door`]) only ever sees whole requests.
//!
//! ```text
//!   listener.rs    bind, accept, cap                          one task per listening address
//!      └ connection.rs    sniff ─► TLS? ─► HTTP/1.1 or HTTP/2     one task per connection
//!           ├ http1/         HTTP/1.1: a loop of our own        no task of its own
//!           └ http.rs        HTTP/2: between hyper and a door
//!                ├ endpoints.rs   /alive /ready /status /metrics and the certificate
//!                └ Door           everything else
//! ```
//!
//! A request runs on the thread that read it. A door that has long work hands it to the [`Pool`];
//! a door that waits (a group commit, a long poll) awaits, and holds no thread.
//!
//! This crate knows nothing of databases, containers or items: of our crates it imports the model
//! alone, to read JSON. It checks *who* signed a request ([`auth`]); what that principal may do is
//! decided further down.

pub mod auth;
mod authority;
mod body;
mod budget;
mod connection;
mod door;
mod endpoints;
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
mod http;
mod http1;
mod lines;
mod listener;
mod logging;
mod pending;
mod pool;
mod progress;
mod series;
mod settings;
mod shutdown;
mod sniff;
mod telemetry;
mod tls;

pub use door::{
    Admission, Answer, AnswerMemory, Delivery, Door, Refusal, Request, Response, Scheme,
};
pub use endpoints::ServiceStatus;
pub use head::Head;
pub use lines::Lines;
pub use listener::{BindError, Drained, Server, Services};
pub use logging::{LogFormat, LoggingError, start_logging};
pub use pending::{IfLeft, Pending};
pub use pool::{BegunLimit, Courtesy, JobLength, Origin, Pool, PoolError, Share, Task};
pub use series::{Sample, Series, SeriesKind, SeriesSource};
pub use settings::{DEFAULT_PORT, Listen, ServerSettings, limits};
pub use shutdown::{Reloads, Shutdown, Signals};
pub use telemetry::{Figures, Ongoing, Telemetry};
pub use tls::{Certificate, CertificateSource, TlsError};
