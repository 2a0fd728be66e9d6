//! HTTP requests that the program itself makes: to accounts, to identity providers for their keys,
//! to a webhook.
//!
//! ```text
//!   endpoint.rs     a URL taken apart
//!   authorities.rs  which certificates are trusted over https
//!   connection.rs   a connection, requests on it, responses, and why there are none
//!   one_shot.rs     one request on a connection of its own
//!   account.rs      requests to an account of the NoSQL API, signed with its key
//!   blocking.rs     for threads that have no runtime
//! ```
//!
//! HTTP/1.1, with or without TLS. Everything has a limit: the time to connect, the time to a
//! response, the bytes of a response. Redirects are not followed: whoever configured a URL trusts
//! that host and no other. Proxies are not used. Trusted certificates are read when a connection
//! needs them, so that a server that asks nobody does not hold them in memory.
//!
//! Invariants: no message contains more of a URL than scheme, host and port, because the rest may
//! be a secret; and no request is sent twice unless the caller sends it twice.

mod account;
mod authorities;
mod blocking;
mod connection;
mod endpoint;
mod one_shot;

pub use account::{Account, AccountRequest, AccountResponse, encode};
pub use authorities::Authorities;
pub use blocking::BlockingRuntime;
pub use connection::{Connection, Connector, Limits, RequestError};
pub use endpoint::{Endpoint, Url};
pub use one_shot::OneShotRequest;
