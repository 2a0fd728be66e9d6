//! Ends the process when a call takes too long.
//!
//! Normally a script is stopped by its watch. This is for those that do not let themselves be
//! stopped; it needs nothing of them, since it is a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, process, thread};

use partita_model::Clock;

/// How much longer than it may a script can take before the process is ended.
const GRACE_NANOS: u64 = 500_000_000;

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// What the process ends with.
const EXIT_CODE: i32 = 3;

pub(super) struct Guard {
    clock: Arc<dyn Clock>,
    /// When the process is to end; never, while nothing runs.
    end_nanos: Arc<AtomicU64>,
}

impl Guard {
    pub(super) fn start(clock: Arc<dyn Clock>) -> io::Result<Guard> {
        let end_nanos = Arc::new(AtomicU64::new(u64::MAX));
        let (seen, looking) = (Arc::clone(&end_nanos), Arc::clone(&clock));
        thread::Builder::new().name("guard".to_owned()).spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                if looking.monotonic_nanos() > seen.load(Ordering::Relaxed) {
                    process::exit(EXIT_CODE);
                }
            }
        })?;
        Ok(Guard { clock, end_nanos })
    }

    /// Does something that may take this long, and not much longer.
    pub(super) fn during<R>(&self, millis: u64, work: impl FnOnce() -> R) -> R {
        let nanos = millis.saturating_mul(1_000_000).saturating_add(GRACE_NANOS);
        let end = self.clock.monotonic_nanos().saturating_add(nanos);
        self.end_nanos.store(end, Ordering::Relaxed);
        let result = work();
        self.end_nanos.store(u64::MAX, Ordering::Relaxed);
        result
    }
}
