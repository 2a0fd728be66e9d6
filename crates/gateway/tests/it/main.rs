//! The gateway over real sockets, in front of a door made for the tests (`support.rs`).

mod auth;
mod bodies;
mod endpoints;
mod http1;
mod http2;
mod listening;
mod shutdown;
mod slow;
mod support;
mod tls;
