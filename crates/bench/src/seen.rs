//! What a client saw: how long answers took, and what went wrong.

use std::time::Duration;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) latencies_ms: Vec<f64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

impl Seen {
    /// Operations that came to an end, good or bad.
    pub(crate) fn operations(&self) -> u64 {
        self.latencies_ms.len() as u64 + self.errors
    }

    pub(crate) fn answered(&mut self, took: Duration) {
        self.latencies_ms.push(took.as_secs_f64() * 1e3);
    }

    /// So many operations failed for this reason.
    pub(crate) fn failed(&mut self, operations: u64, why: impl FnOnce() -> String) {
        self.errors += operations;
        self.first_error.get_or_insert_with(why);
    }

    /// Takes in what another client saw.
    pub(crate) fn add(&mut self, other: Seen) {
        self.latencies_ms.extend(other.latencies_ms);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}
