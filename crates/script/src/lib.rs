//! Server-side JavaScript: stored procedures, triggers and user-defined functions.
//!
//! [`QuickJs`] implements the engine's [`partita_engine::ScriptRuntime`] with QuickJS. The engine
//! says what a script may touch (a host: one logical partition, in one transaction); this crate
//! runs the text and turns what it does into calls of the host.
//!
//! How a run goes, in reading order:
//!
//! 1. `runtime.rs` makes a machine (`machine.rs`): a JavaScript heap of its own for this one run,
//!    with its limits of time, memory and stack. Nothing of it outlives the run, so that no script
//!    can leave anything behind for the next one.
//! 2. `api/` puts the server-side API into it: `getContext()`, `__`, `console` and `ErrorCodes`.
//!    Its functions are native, so a script that changes built-in objects changes nothing for
//!    them. What they share with the driver is the state of the run (`run/`).
//! 3. `entry.rs` finds the function in the text. It is called, and what it asks of the collection
//!    is only checked and *queued*: callbacks run after the current function has returned.
//! 4. `drive.rs` takes one operation after the other from the queue, asks the host, and calls the
//!    callback, until nothing is left.
//! 5. `failure.rs` says what went wrong, if something did, in one form for all.
//!
//! User-defined functions (`functions.rs`) have a machine without the API per query and thread.
//!
//! The server does none of this itself: [`Workers`] has it done by processes that can be ended
//! (`worker/`).
//!
//! # Invariants
//! - No file, socket, timer, thread or module is reachable from a script; its only way out is its
//!   host.
//! - What a script holds is bounded: its heap by the machine, what lies in the queue by
//!   `queue.rs`, its log and its answer by their limits.

mod api;
mod bridge;
mod drive;
mod entry;
mod failure;
mod functions;
mod machine;
mod queue;
mod run;
mod runtime;
mod transform;
mod worker;

pub use machine::Limits;
pub use runtime::QuickJs;
pub use worker::{Courtesy, NoCourtesy, WorkerCommand, Workers, serve};
