//! Scripts in processes of their own.
//!
//! QuickJS asks whether a script must stop only every ten thousand steps, and a step may be one
//! built-in function on megabytes, or one that never ends. Within the server nothing could end
//! such a script. So the server runs scripts in *workers*: processes of its own program that do
//! nothing else, that are ended when a script does not end by itself, and whose crash is one failed
//! request.
//!
//! ```text
//!   server: Workers (pool.rs)  ── Run ─►  worker: serve (process.rs) ─► QuickJs ─► script
//!           the host           ◄─ Ask ──     RemoteHost
//!                              ── Reply ─►
//!                              ◄─ End ──
//! ```
//!
//! A worker takes one call at a time over its standard input and output, in frames (`wire.rs`,
//! `message.rs`). It has a thread that ends the process when a call takes too long (`guard.rs`), so
//! it ends also when the server is gone; who computes for long stands back (`courtesy.rs`). What a
//! script asks of its host goes to the server and comes back; the worker has no access to the
//! database.

mod courtesy;
mod guard;
mod message;
mod pool;
mod process;
mod wire;

pub use courtesy::{Courtesy, NoCourtesy};
pub use pool::{WorkerCommand, Workers};
pub use process::serve;
