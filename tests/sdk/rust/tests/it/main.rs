//! The official Rust SDK, as a user installs it, against a server on http://localhost:8081.
//!
//! Every test runs in a container of one partition and in one of five, and with both encodings that
//! the SDK can put on the wire: binary JSON, which is its default, and text.

mod account;
mod change_feed;
mod databases;
mod items;
mod queries;
mod splits;
