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
mod pace;
mod pass;
mod reindex;
mod reopen;
mod trim;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use partita_model::{ErrorKind, Result};

use self::chores::Chores;
use self::pace::Pace;
use self::pass::Passes;
use self::reopen::Reopening;
use crate::catalog::Container;
use crate::core::Core;
use crate::item::Items;
use crate::moves::Moves;
use crate::step::{Maintenance, MaintenanceBudget};

/// The jobs under way.
#[derive(Debug, Default)]
struct Jobs {
    passes: Passes,
    chores: Chores,
    pace: Pace,
    /// Somebody is taking a step.
    taken: AtomicBool,
}

/// The right to take a step; given back when dropped.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Jobs {
    fn turn(&self) -> Option<Turn<'_>> {
        (!self.taken.swap(true, Ordering::Acquire)).then_some(Turn(&self.taken))
    }
}

/// Does what a database has to do on its own account.
pub(crate) struct Maintainer {
    core: Arc<Core>,
    moves: Arc<Moves>,
    items: Arc<Items>,
    jobs: Jobs,
    reopening: Reopening,
}

impl Maintainer {
    pub(crate) fn new(core: Arc<Core>, moves: Arc<Moves>, items: Arc<Items>) -> Maintainer {
        Maintainer { core, moves, items, jobs: Jobs::default(), reopening: Reopening::default() }
    }

    /// Takes one step of what there is to do. One that is dropped in the middle was cut off: what
    /// it had begun is found again.
    pub(crate) async fn maintain_step(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let Some(_turn) = self.jobs.turn() else { return Ok(Maintenance::Blocked) };
        if self.core.store.is_stopped() {
            return Ok(self.reopen_store());
        }
        let begun = self.core.clock.monotonic_nanos();
        match self.take_step(budget).await {
            Ok(Maintenance::Busy) => Ok(self.busy_since(begun)),
            result => result,
        }
    }

    async fn take_step(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let is_decided = !self.items.note_left_commits();
        self.core.catalog.catch_up()?;
        if self.core.store.is_full() {
            return self.make_room(budget, is_decided).await;
        }
        let mut result = self.moves.move_some(budget).await;
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
        match self.do_chores(budget).await {
            Ok(Maintenance::Idle) if is_decided => result,
            Ok(Maintenance::Idle) => result.and(Ok(Maintenance::Blocked)),
            tidied => result.and(tidied),
        }
    }

    /// On a full disk only what gives space back is done: moves and reindexing wait, and so does
    /// trimming, which writes before anything is freed.
    async fn make_room(&self, budget: &MaintenanceBudget, is_decided: bool) -> Result<Maintenance> {
        self.moves.drop_retired()?;
        self.core.store.free_dropped()?;
        match self.do_chores(budget).await {
            Ok(Maintenance::Idle) if !is_decided => Ok(Maintenance::Blocked),
            tidied => tidied,
        }
    }

    /// How much of a container is indexed by its present policy, in percent: 100 when all of it is.
    pub(crate) fn index_progress(&self, container: &Container) -> u8 {
        if container.policies.former.is_empty() {
            100
        } else {
            self.jobs.passes.progress(container)
        }
    }
}
