//! Runs the operations that doors ask for: what every protocol needs, and none should write twice.
//!
//! A door reads a request into an [`Op`](partita_engine::Op) with its
//! [`Context`](partita_engine::Context) and finds out who asks. [`Executor`] decides where the
//! operation runs (on the thread of the request or in the pool, and on whose share of it), ends it
//! when its client is gone, applies faults that tests ordered, and writes down what became of it:
//! metrics and the audit log. The door gets a [`Reply`](partita_engine::Reply) and words it.
//!
//! ```text
//!   door      request                 → RequestRecord    Executor::start
//!   door      credentials             → Access           Executor::identify
//!   door      request                 → Op, Context
//!   executor  Op                      → Strike?          Executor::admit        names it, faults
//!   executor  Op, Context             → Reply?           Executor::execute_now  point reads
//!   executor  Op, Context             → Reply            Executor::execute      everything else
//!   door      Reply                   → response
//!   executor  RequestRecord, status   → metrics, audit   Executor::conclude
//! ```
//!
//! `profile` is the one table of how each operation runs. `run` does what it says, `share` tells
//! the pool on whose behalf, `changes` waits at the end of a change feed, `record` is what is known
//! of a request beside its answer, `credentials` is what is trusted at the moment, `controls` are
//! faults and a clock for those who test a program.
//!
//! This crate knows no protocol: no header, no path, no status but as a number that a door gave.

mod audit;
mod changes;
mod controls;
mod credentials;
mod executor;
mod profile;
mod record;
mod share;

pub use changes::WAIT_SECONDS_MAX;
pub use controls::{Controls, FaultSubject, OrderedError, Strike};
pub use credentials::{Credentials, MetricsAccess, Trust};
pub use executor::{Executor, ExecutorSettings, SignatureWindow};
pub use profile::{Profile, RunMode};
pub use record::{AnsweredRequest, RequestRecord};
