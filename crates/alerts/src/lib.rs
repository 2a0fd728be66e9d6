//! Alerts: a thread looks at the partitions every few seconds and reports what it finds.
//!
//! ```text
//!   watcher.rs   the thread: an alert becomes a line in the log, a counter and a POST
//!   counts.rs    counters for metrics
//!   webhook.rs   delivers alerts, on a thread of its own behind a bounded queue
//! ```
//!
//! What is worth an alert is the engine's business (`Database::watch`), not this crate's. A webhook
//! that is slow or down delays nobody: alerts that do not fit the queue are counted and dropped.

mod counts;
mod watcher;
mod webhook;

pub use counts::Counts;
pub use watcher::{Watcher, WatcherSettings};
pub use webhook::webhook;
