//! Looks after a call from a thread of its own: has it stand back when it computes for long, and
//! ends the process when it takes too long.
//!
//! Normally a script is stopped by its watch. Ending the process is for those that do not let
//! themselves be stopped; it needs nothing of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{io, process, thread};

use partita_model::Clock;

use super::courtesy::{Courtesy, SHORT_NANOS};

/// How much longer than it may a script can take before the process is ended.
const GRACE_NANOS: u64 = 500_000_000;

/// How often it looks, while there is something to see and otherwise.
const INTERVAL_BUSY: Duration = Duration::from_millis(10);
const INTERVAL_IDLE: Duration = Duration::from_millis(25);

/// What the process ends with.
const EXIT_CODE: i32 = 3;

/// No time at all.
const NEVER: u64 = u64::MAX;

#[derive(Clone)]
pub(super) struct Guard {
    clock: Arc<dyn Clock>,
    courtesy: Arc<dyn Courtesy>,
    seen: Arc<Seen>,
}

/// What the thread looks at.
struct Seen {
    /// When the process is to end; never, while nothing runs.
    end_nanos: AtomicU64,
    /// The processor time before what there is to do now.
    before_nanos: AtomicU64,
    stands_back: AtomicBool,
}

impl Guard {
    pub(super) fn start(clock: Arc<dyn Clock>, courtesy: Arc<dyn Courtesy>) -> io::Result<Guard> {
        let seen = Arc::new(Seen {
            end_nanos: AtomicU64::new(NEVER),
            before_nanos: AtomicU64::new(courtesy.processor_nanos()),
            stands_back: AtomicBool::new(false),
        });
        let guard = Guard { clock, courtesy, seen };
        let looking = guard.clone();
        thread::Builder::new().name("guard".to_owned()).spawn(move || looking.look())?;
        Ok(guard)
    }

    /// The server has given something new to do.
    pub(super) fn begin(&self) {
        let before = self.courtesy.processor_nanos();
        self.seen.before_nanos.store(before, Ordering::Relaxed);
    }

    /// The processor time that this process has had.
    pub(super) fn processor_nanos(&self) -> u64 {
        self.courtesy.processor_nanos()
    }

    /// Does something that may take this long, and not much longer.
    pub(super) fn during<R>(&self, millis: u64, work: impl FnOnce() -> R) -> R {
        let nanos = millis.saturating_mul(1_000_000).saturating_add(GRACE_NANOS);
        let end = self.clock.monotonic_nanos().saturating_add(nanos);
        self.seen.end_nanos.store(end, Ordering::Relaxed);
        let result = work();
        self.seen.end_nanos.store(NEVER, Ordering::Relaxed);
        result
    }

    /// Whether this process stands back, and will for good.
    pub(super) fn stands_back(&self) -> bool {
        self.seen.stands_back.load(Ordering::Relaxed)
    }

    fn look(&self) -> ! {
        loop {
            let end = self.seen.end_nanos.load(Ordering::Relaxed);
            thread::sleep(if end == NEVER { INTERVAL_IDLE } else { INTERVAL_BUSY });
            if self.clock.monotonic_nanos() > self.seen.end_nanos.load(Ordering::Relaxed) {
                process::exit(EXIT_CODE);
            }
            let before = self.seen.before_nanos.load(Ordering::Relaxed);
            let is_long = self.courtesy.processor_nanos().saturating_sub(before) > SHORT_NANOS;
            if is_long && !self.stands_back() {
                self.courtesy.stand_back();
                self.seen.stands_back.store(true, Ordering::Relaxed);
            }
        }
    }
}
