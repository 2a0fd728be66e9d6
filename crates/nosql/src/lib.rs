//! The NoSQL door: the REST protocol that the official SDKs speak.
//!
//! A request comes in as HTTP, becomes one operation of the database, which the executor runs, and
//! its reply goes out as HTTP again. Nothing else happens here: this crate keeps no state between
//! requests but who repeats refused ones (`loops`), knows no partition and no index, and takes no
//! decision that another protocol would have to take too.
//!
//! ```text
//!   link        raw path            → what is addressed, and what the client signed
//!   auth        headers, link       → who asks
//!   request     headers, link, body → Op and Context      validation that is the protocol's own
//!   (executor)  Op                  → Reply
//!   response    Reply               → status, headers, body
//!   error       ErrorKind           → status, sub-status, code, body
//! ```
//!
//! [`NoSqlDoor`] in `service` strings these together; only it says `async`, all others are plain
//! functions. `headers` holds every header name once, `account` answers `GET /`, `activity` is the
//! id of a request, `controls` is how faults and a clock are ordered by those who test a program,
//! `hybrid_row` is how the .NET SDK writes batches, `session` and `text` write session tokens and
//! other short header texts, `token` is what the resource tokens of permissions say.
//!
//! Features that are not there yet are refused by name with 501 (`feature`), never approximated.
//! Of the service's response headers, those that no client reads and that would only describe
//! machinery we do not have (replica roles, transport ids, quorum sizes) are left out.

mod account;
mod activity;
mod auth;
mod controls;
mod error;
mod feature;
#[cfg(fuzzing)]
pub mod fuzzing;
mod headers;
mod hybrid_row;
mod link;
mod loops;
mod request;
mod response;
mod service;
mod session;
mod text;
mod token;

pub use service::{NoSqlDoor, NoSqlSettings};
