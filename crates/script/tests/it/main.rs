//! Scripts as their authors write them, run against a host in memory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chains;
mod collection;
mod failures;
mod functions;
mod host;
mod hostile;
mod messages;
mod shapes;
mod values;
mod workers;
