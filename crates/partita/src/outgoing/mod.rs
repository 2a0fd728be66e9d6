//! Requests that the program itself makes: to other servers of its kind, to identity providers for
//! their keys, to a webhook.
//!
//! ```text
//!   endpoint.rs     where to: a URL taken apart
//!   authorities.rs  whom to believe there over https
//!   connection.rs   a connection, requests on it, answers, and why there are none
//!   errand.rs       one request on a connection of its own
//!   waiting.rs      for threads that have no runtime
//! ```
//!
//! HTTP/1.1, over TLS or not. Everything has a limit: the time to connect, the time to an answer,
//! the bytes of an answer. Redirects are not followed: whoever configured a URL trusts that host
//! and no other. Proxies are not used. Trusted certificates are read when a connection needs them,
//! so that a server that asks nobody does not carry them around. No message has more of a URL than
//! scheme, host and port: the rest may be a secret.

mod authorities;
mod connection;
mod endpoint;
mod errand;
mod waiting;

pub(crate) use authorities::Authorities;
pub(crate) use connection::{Connection, Dialer, Unanswered};
pub(crate) use endpoint::{Endpoint, Target};
pub(crate) use errand::Errand;
pub(crate) use waiting::Waiting;
