//! What the database does on its own account, in steps that somebody else takes.
//!
//! The engine has no threads. The server has one that calls [`Database::maintain`] as long as there
//! is something to do and otherwise sleeps in [`Database::await_maintenance`]; tests call it when
//! they like. A step is bounded, so that it can be stopped at any moment, and what is left to do
//! follows from the catalog, so that a restart forgets nothing.
//!
//! The jobs are, in the order of their urgency: moving items between partitions (`moves/`),
//! indexing items anew after a change of the policy (`reindex.rs`), and chores that come up with
//! time (`chores.rs`): trimming the feed (`trim.rs`), removing expired items (`expire.rs`). How
//! much of the time they may take is in `pace.rs`. On a full disk only what frees space is done. A
//! store that stopped comes before all of that (`reopen.rs`).

mod chores;
mod expire;
mod feed_mark;
mod pace;
mod pass;
mod reindex;
mod trim;

pub(crate) use self::feed_mark::FeedMark;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use partita_model::{ErrorKind, Result};

use self::chores::Chores;
use self::pace::Pace;
use self::pass::Passes;
use crate::catalog::Container;
use crate::database::Database;
use crate::wait::block_on;

/// How much one step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceBudget {
    /// Items looked at, at most.
    pub items_max: usize,
    /// Bytes of items, at most, except that a step looks at one item at least.
    pub bytes_max: usize,
}

impl Default for MaintenanceBudget {
    fn default() -> MaintenanceBudget {
        // A write that comes in the same moment waits for all of the step: see `pace.rs`.
        MaintenanceBudget { items_max: 64, bytes_max: 256 << 10 }
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// There is nothing to do.
    Idle,
    /// Something was done; there may be more.
    Busy,
    /// The same, but others should have their turn first, for so long.
    Resting(Duration),
    /// What there is to do has to wait for operations under way: try again in a moment.
    Blocked,
}

/// The jobs under way, and the bell that wakes whoever does them.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    passes: Passes,
    chores: Chores,
    pace: Pace,
    /// Somebody is taking a step.
    taken: AtomicBool,
    bell: Mutex<Bell>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Bell {
    pending: bool,
    stopped: bool,
}

/// The right to take a step; given back when dropped.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Jobs {
    /// Tells that there is something to do.
    pub(crate) fn ring(&self) {
        self.bell().pending = true;
        self.rung.notify_all();
    }

    fn bell(&self) -> MutexGuard<'_, Bell> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> Option<Turn<'_>> {
        (!self.taken.swap(true, Ordering::Acquire)).then_some(Turn(&self.taken))
    }
}

impl Database {
    /// Takes one step of what there is to do, on a thread that may wait for the store.
    pub fn maintain(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        block_on(self.maintain_step(budget))
    }

    /// The same for whoever polls futures. A step that is dropped in the middle is one that was cut
    /// off: what it had begun is found again.
    pub async fn maintain_step(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let Some(_turn) = self.jobs.turn() else { return Ok(Maintenance::Blocked) };
        if self.store.is_stopped() {
            return Ok(self.reopen_store());
        }
        let begun = self.clock.monotonic_nanos();
        match self.take_step(budget).await {
            Ok(Maintenance::Busy) => Ok(self.busy_since(begun)),
            result => result,
        }
    }

    async fn take_step(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let is_decided = !self.note_left_commits();
        self.catalog.catch_up()?;
        if self.store.is_full() {
            return self.make_room(budget, is_decided).await;
        }
        let mut result = self.move_some(budget).await;
        if matches!(result, Ok(Maintenance::Busy)) {
            return result;
        }
        let unfinished = self.unfinished_policies();
        self.jobs.passes.keep(&unfinished);
        for container in &unfinished {
            match self.reindex_some(container, budget).await {
                Ok(Maintenance::Busy) => return Ok(Maintenance::Busy),
                Ok(Maintenance::Blocked) => result = result.and(Ok(Maintenance::Blocked)),
                Ok(Maintenance::Idle | Maintenance::Resting(_)) => {}
                // Its partitions went away with it.
                Err(error) if error.kind == ErrorKind::RetryWith && self.is_gone(container) => {}
                // The others shall not suffer; whoever calls learns of it when they are done.
                Err(error) => result = Err(error),
            }
        }
        match self.tidy_some(budget).await {
            Ok(Maintenance::Idle) if is_decided => result,
            Ok(Maintenance::Idle) => result.and(Ok(Maintenance::Blocked)),
            tidied => result.and(tidied),
        }
    }

    /// On a full disk only what gives space back is done: moves and reindexing wait, and so does
    /// trimming, which writes before anything is freed.
    async fn make_room(&self, budget: &MaintenanceBudget, is_decided: bool) -> Result<Maintenance> {
        self.drop_retired()?;
        self.store.free_dropped()?;
        match self.tidy_some(budget).await {
            Ok(Maintenance::Idle) if !is_decided => Ok(Maintenance::Blocked),
            tidied => tidied,
        }
    }

    /// Waits until there may be something to maintain, but not longer than told; false once
    /// [`Database::stop_maintenance`] was called.
    pub fn await_maintenance(&self, at_most: Option<Duration>) -> bool {
        let bell = self.jobs.bell();
        let waits = |bell: &mut Bell| !bell.pending && !bell.stopped;
        let mut bell = match at_most {
            None => self.jobs.rung.wait_while(bell, waits).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.jobs.rung.wait_timeout_while(bell, time, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        bell.pending = false;
        !bell.stopped
    }

    /// Sends home whoever waits for maintenance, now and later.
    pub fn stop_maintenance(&self) {
        self.jobs.bell().stopped = true;
        self.jobs.rung.notify_all();
    }

    /// How much of a container is indexed by its present policy, in percent: 100 when all of it is.
    pub(crate) fn index_progress(&self, container: &Container) -> u8 {
        match container.policies.former.is_empty() {
            true => 100,
            false => self.jobs.passes.progress(container),
        }
    }
}
