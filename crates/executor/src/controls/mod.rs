//! Controls for those who test a program against this server: faults on order, and a clock that
//! can be put forward.
//!
//! They are there only if the server was started with them. How they are asked for is a door's
//! business; here is what they do.
//!
//! The clock decides what has expired and what is written into items. Signatures are checked by the
//! real time: the client's clock was not moved.

mod faults;

use std::sync::Arc;

use partita_model::{Clock, Entropy, Error, Object, Result, ShiftedClock, Value};

use self::faults::Faults;
pub(crate) use self::faults::StruckBy;
pub use self::faults::{FaultSubject, OrderedError, Strike};

/// The most that the clock is put forward at a time: a hundred years.
const ADVANCE_SECONDS_MAX: f64 = 100.0 * 365.25 * 86_400.0;

/// The state of the controls of one server.
pub struct Controls {
    clock: Arc<ShiftedClock>,
    faults: Faults,
}

impl Controls {
    /// Controls of the database that has this clock.
    pub fn new(clock: Arc<ShiftedClock>) -> Controls {
        Controls { clock, faults: Faults::default() }
    }

    /// The time that clients sign their requests with, in seconds since 1970.
    pub(crate) fn real_unix_seconds(&self) -> u64 {
        self.clock.real_unix_millis() / 1_000
    }

    /// The fault that strikes a request, if one does.
    pub(crate) fn strike(
        &self,
        operation: &str,
        subject: &FaultSubject<'_>,
        entropy: &dyn Entropy,
    ) -> Option<StruckBy> {
        self.faults.strike(operation, subject, self.clock.monotonic_nanos(), entropy)
    }

    /// Puts a fault in force; how it is listed.
    pub fn add_fault(&self, order: &Value) -> Result<Value> {
        self.faults.add(order, self.clock.monotonic_nanos())
    }

    /// All faults that are in force, and how often each struck.
    pub fn faults(&self) -> Vec<Value> {
        self.faults.list(self.clock.monotonic_nanos())
    }

    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    pub fn remove_fault(&self, id: &str) -> Result<()> {
        self.faults.remove(id)
    }

    /// Puts the clock forward: `{"advance_seconds":3600}`.
    pub fn advance(&self, order: &Value) -> Result<()> {
        let seconds = order.get("advance_seconds").and_then(Value::as_f64);
        let seconds = seconds.filter(|seconds| (0.0..=ADVANCE_SECONDS_MAX).contains(seconds));
        let seconds = seconds.ok_or_else(|| {
            Error::bad_request(
                "Say by how much the clock is put forward, at most a hundred years: \
                 {\"advance_seconds\":3600}. It cannot be put back; restart the server for that.",
            )
        })?;
        self.clock.advance_millis((seconds * 1_000.0) as u64);
        Ok(())
    }

    /// What time the database thinks it is.
    pub fn time(&self) -> Value {
        let seconds = |millis: u64| millis as f64 / 1_000.0;
        Object::new()
            .with("unix_seconds", seconds(self.clock.unix_millis()))
            .with("ahead_seconds", seconds(self.clock.ahead_millis()))
            .into()
    }
}
