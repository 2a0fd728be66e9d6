//! Who may end a long operation, and who may have it wait.
//!
//! A door that runs an operation elsewhere than on the thread of its request hands a [`Supervisor`]
//! in with the [`Context`](crate::Context). Queries and reads of feeds ask it wherever they look at
//! the time: does anybody still want the answer, and are others to go first? Between two questions
//! lie some hundred entries, or a thousand steps within one item. Operations without one, above all
//! point reads, are asked nothing.
//!
//! [`Supervision`] is this and the limit of time in one: the only place that ends a query which
//! goes on for too long, or for nobody.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use partita_model::{Clock, Error, Result};
use partita_query::Interrupt;

/// Whoever runs an operation on threads that others need, too.
pub trait Supervisor: fmt::Debug + Send + Sync {
    /// Is there nobody who wants the answer any more? Once true, it stays so.
    fn is_cancelled(&self) -> bool;

    /// Called by every thread at work on the operation, now and then. Returns when it is to go on,
    /// at once if nobody waits.
    fn step_aside(&self);

    /// Has another thread do a part of the operation, if one is to spare now. False: none is. The
    /// work does not panic.
    fn help(&self, work: Box<dyn FnOnce() + Send>) -> bool;

    /// Waits for those who help by calling `wait`: others may go on meanwhile.
    fn wait_for_help(&self, wait: &mut dyn FnMut());
}

/// An operation's supervisor, if it has one, and its limit of time.
pub(crate) struct Supervision {
    supervisor: Option<Arc<dyn Supervisor>>,
    clock: Arc<dyn Clock>,
    started_nanos: u64,
    millis_max: u64,
    /// Long steps of all its evaluations.
    long_steps: AtomicU64,
    /// Entries that were looked at by those who were ended, and could not report them.
    lost_entries: AtomicU64,
}

impl Supervision {
    pub(crate) fn new(
        supervisor: Option<Arc<dyn Supervisor>>,
        clock: &Arc<dyn Clock>,
        started_nanos: u64,
        millis_max: u64,
    ) -> Arc<Supervision> {
        let clock = Arc::clone(clock);
        let (long_steps, lost_entries) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Supervision {
            supervisor,
            clock,
            started_nanos,
            millis_max,
            long_steps,
            lost_entries,
        })
    }

    /// Lets others go first; fails if nobody wants the answer any more.
    pub(crate) fn go_on(&self) -> Result<()> {
        let Some(supervisor) = &self.supervisor else { return Ok(()) };
        supervisor.step_aside();
        if supervisor.is_cancelled() {
            Err(Error::cancelled("The client was gone before it had its answer"))
        } else {
            Ok(())
        }
    }

    /// Fails if the operation has used up its time.
    pub(crate) fn check_time(&self, now_nanos: u64) -> Result<()> {
        let millis = now_nanos.saturating_sub(self.started_nanos) / 1_000_000;
        if millis < self.millis_max {
            return Ok(());
        }
        Err(Error::timeout(format!(
            "The query did not come to its end within its limit of {} ms: what needs all of its \
             items cannot be returned in parts. Narrow its filter, or add an index that has its \
             order. A server's limit is set with --query-seconds-max; a request may lower it.",
            self.millis_max
        )))
    }

    /// Who provides helper threads, if not the database itself.
    pub(crate) fn supervisor(&self) -> Option<&dyn Supervisor> {
        self.supervisor.as_deref()
    }

    pub(crate) fn wait_for_help(&self, wait: &mut dyn FnMut()) {
        match &self.supervisor {
            Some(supervisor) => supervisor.wait_for_help(wait),
            None => wait(),
        }
    }

    pub(crate) fn note_lost(&self, entries: u64) {
        self.lost_entries.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn take_lost(&self) -> u64 {
        self.lost_entries.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn long_steps(&self) -> u64 {
        self.long_steps.load(Ordering::Relaxed)
    }
}

impl Interrupt for Supervision {
    fn check(&self, steps: u64) -> Result<()> {
        self.long_steps.fetch_add(steps, Ordering::Relaxed);
        self.go_on()?;
        self.check_time(self.clock.monotonic_nanos())
    }
}
