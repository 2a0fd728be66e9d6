//! The bell that wakes whoever does the work in the background.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rung when there may be something to maintain.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    state: Mutex<DoorbellState>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct DoorbellState {
    pending: bool,
    stopped: bool,
}

impl Doorbell {
    /// Tells that there is something to do.
    pub(crate) fn ring(&self) {
        self.state().pending = true;
        self.rung.notify_all();
    }

    /// Waits until it is rung, but not longer than told; false once [`Doorbell::stop`] was called.
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> bool {
        let state = self.state();
        let waits = |state: &mut DoorbellState| !state.pending && !state.stopped;
        let mut state = match at_most {
            None => self.rung.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.rung.wait_timeout_while(state, time, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.pending = false;
        !state.stopped
    }

    /// Sends home whoever waits, now and later.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.rung.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, DoorbellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
