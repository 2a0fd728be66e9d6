//! The gateway over real sockets, in front of a door made for the tests (`support.rs`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod auth;
mod bodies;
mod endpoints;
mod http1;
mod http2;
mod leaving;
mod listening;
mod shutdown;
mod slow;
mod support;
mod tls;
mod wire;
