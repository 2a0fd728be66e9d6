//! Moves: partitions that are split or merged while they serve.
//!
//! A move fills new partitions (its *targets*) with what old ones (its *sources*) hold, and puts
//! them in their place. Reads and writes go on all the time. A split has one source and two
//! targets or more, a merge two neighbours and one target; the machine is the same.
//!
//! ```text
//! planned    the targets exist in the store and in the container's record; nobody else knows them
//!            (this may be made to take a while, `PartitionSettings::announced_seconds`)
//! copying    items of the sources are copied in key order, chunk by chunk
//! following  the sources' feeds are read from their beginning: their records are copied, and the
//!            items that changed since copying began are brought to what they are now
//! fenced     the sources are sealed; what came last is brought over
//! cut over   one commit of the catalog: sources out, targets in, a new epoch
//! cleaned    the sources are dropped, once no operation knows the container as it was
//! ```
//!
//! Reading order: [`plan`] (what is asked for), [`choose`] (where to divide), [`triggers`] (what
//! asks on its own account), [`copy`] (copying and following), [`cutover`], [`fence`] (how writers
//! wait).
//!
//! **What survives a crash.** A move is in the container's record from its first moment to its
//! last. How far copying and following are is a record in the target, written in the batch of what
//! it speaks of. Sealing is forgotten by a restart, and so is nothing else: the move follows on.
//! Partitions that no record knows are dropped when the database opens.
//!
//! **LSNs.** A target begins at its source's LSN, and its last batch before the cutover lifts it
//! above all of its sources: what clients have seen of a source (session tokens, continuations of
//! the change feed) they have seen of the target, and what is written later comes later.
//!
//! **Writers** never see a move. One that meets a sealed partition waits for the cutover, or for
//! its failure, and prepares again where its item lives then.

mod choose;
mod copy;
mod cutover;
mod fence;
mod plan;
mod triggers;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use partita_model::{ContainerRid, Epoch, ErrorKind, Result};
use partita_storage::PartitionId;

use self::copy::{Reached, Stream};
use self::fence::Fences;
use crate::catalog::{Container, Move};
use crate::core::Core;
use crate::step::{Maintenance, MaintenanceBudget};

/// For how long writers are held at first, how often that is doubled, and for how many chunks.
const HOLD_NANOS: u64 = 20_000_000;
const HOLD_DOUBLINGS_MAX: u32 = 5;
const HOLD_CHUNKS_MAX: usize = 1_000;

/// The splits and merges of a database, and what they need in memory.
pub(crate) struct Moves {
    core: Arc<Core>,
    fences: Fences,
    retired: Mutex<Vec<Retired>>,
    /// How following gets on, by source and target.
    rounds: Mutex<HashMap<(PartitionId, PartitionId), copy::FollowRound>>,
    /// What it took so far to reach the end, by the first target.
    efforts: Mutex<HashMap<PartitionId, Effort>>,
    /// Something grew, or was given more throughput: see `triggers.rs`.
    look: AtomicBool,
    /// When moves were first seen that wait to begin, by their first target, in milliseconds. A
    /// restart has them wait again.
    announced: Mutex<HashMap<PartitionId, u64>>,
    /// Partitions that should be split and cannot be: told once.
    indivisible: Mutex<HashSet<PartitionId>>,
}

/// Each is valid between any two statements, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sources of a move that is done.
#[derive(Clone, Debug)]
struct Retired {
    container: ContainerRid,
    /// The first epoch without them.
    epoch: Epoch,
    ids: Vec<PartitionId>,
}

/// How hard it is to reach the end of a move. In memory: after a restart it is found out anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Effort {
    /// How often writers were held.
    holds: u32,
    /// How often the sources were unsealed because they would have rested for too long.
    retreats: u32,
}

impl Moves {
    pub(crate) fn new(core: Arc<Core>) -> Moves {
        Moves {
            core,
            fences: Fences::default(),
            retired: Mutex::default(),
            rounds: Mutex::default(),
            efforts: Mutex::default(),
            // What is due may have become so before a restart.
            look: AtomicBool::new(true),
            announced: Mutex::default(),
            indivisible: Mutex::default(),
        }
    }

    fn effort(&self, under_way: &Move) -> Effort {
        let first = under_way.targets.first().map(|target| target.id);
        first.and_then(|id| lock(&self.efforts).get(&id).copied()).unwrap_or_default()
    }

    fn try_harder(&self, under_way: &Move, more: impl FnOnce(&mut Effort)) {
        if let Some(target) = under_way.targets.first() {
            more(lock(&self.efforts).entry(target.id).or_default());
        }
    }

    /// Partitions of a container that are none of it from this epoch on: they are dropped when no
    /// operation knows it as it was.
    pub(crate) fn retire(&self, container: ContainerRid, epoch: Epoch, ids: Vec<PartitionId>) {
        let mut retired = lock(&self.retired);
        if !retired.iter().any(|old| old.ids == ids) {
            retired.push(Retired { container, epoch, ids });
        }
    }

    /// Partitions that were replaced and are not dropped yet.
    pub(crate) fn retired_ids(&self) -> Vec<PartitionId> {
        lock(&self.retired).iter().flat_map(|old| old.ids.iter().copied()).collect()
    }

    /// Asks for a look at what should be split.
    pub(crate) fn ask_for_a_look(&self) {
        self.look.store(true, Ordering::Release);
    }
}

impl Moves {
    /// Takes one step of the moves there are, or begins one that is due.
    pub(crate) async fn move_some(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        if self.look.swap(false, Ordering::AcqRel) {
            self.plan_due_moves().await;
        }
        let mut result = Ok(Maintenance::Idle);
        let moving: Vec<Arc<Container>> = {
            let catalog = self.core.catalog.current();
            catalog.all_containers().filter(|c| !c.moves.is_empty()).map(Arc::clone).collect()
        };
        self.forget_announced(&moving);
        for container in moving {
            if self.is_announced_only(&container) {
                result = result.and(Ok(Maintenance::Blocked));
                continue;
            }
            match self.advance(&container, budget).await {
                Ok(()) => return Ok(Maintenance::Busy),
                // Its partitions went away with it.
                Err(error) if error.kind == ErrorKind::RetryWith && !self.is_moving(&container) => {
                    return Ok(Maintenance::Busy);
                }
                Err(error) => result = Err(error),
            }
        }
        match (result, self.drop_retired()?) {
            (Ok(Maintenance::Idle), cleaned) => Ok(cleaned),
            (result, _) => result,
        }
    }

    /// Is a container's first move to wait a little longer?
    fn is_announced_only(&self, container: &Container) -> bool {
        let seconds = self.core.settings.partitions.announced_seconds;
        let first = container.moves.first().and_then(|under_way| under_way.targets.first());
        let Some(target) = first.filter(|_| seconds > 0) else { return false };
        let now = self.core.clock.unix_millis();
        let mut announced = lock(&self.announced);
        let since = *announced.entry(target.id).or_insert(now);
        now < since.saturating_add(seconds.saturating_mul(1_000))
    }

    /// Forgets when moves were announced that are done.
    fn forget_announced(&self, moving: &[Arc<Container>]) {
        lock(&self.announced).retain(|id, _| {
            let mut moves = moving.iter().flat_map(|container| &container.moves);
            moves.any(|under_way| under_way.targets.iter().any(|target| target.id == *id))
        });
    }

    /// One step of a container's first move.
    async fn advance(&self, container: &Container, budget: &MaintenanceBudget) -> Result<()> {
        let Some(under_way) = container.moves.first() else { return Ok(()) };
        let streams = copy::streams(container, under_way)?;
        for stream in &streams {
            match self.copy_some(container, stream, budget).await? {
                Reached::Middle => return Ok(()),
                Reached::NoNearer => return self.catch_up(container, under_way, &streams).await,
                Reached::End => {}
            }
        }
        self.finish_move(container, under_way, &streams).await
    }

    /// The sources change as fast as they are followed. So their writers are held for a moment, a
    /// longer one each time it was not enough, and let go whether it was or not.
    async fn catch_up(
        &self,
        container: &Container,
        under_way: &Move,
        streams: &[Stream<'_>],
    ) -> Result<()> {
        let begun = self.core.clock.monotonic_nanos();
        let Effort { holds, .. } = self.effort(under_way);
        let nanos_max = HOLD_NANOS << holds.min(HOLD_DOUBLINGS_MAX);
        self.try_harder(under_way, |effort| effort.holds += 1);
        tracing::debug!(container = container.alt_link(), nanos_max, "writers are held");
        let sources: Vec<PartitionId> = streams.iter().map(|stream| stream.source.id).collect();
        let _held = self.fences.hold(sources);
        for stream in streams {
            for chunks in 1.. {
                if self.copy_some(container, stream, &cutover::LAST).await? == Reached::End {
                    break;
                }
                let nanos = self.core.clock.monotonic_nanos().saturating_sub(begun);
                if nanos > nanos_max || chunks >= HOLD_CHUNKS_MAX {
                    return Ok(());
                }
            }
        }
        self.finish_move(container, under_way, streams).await
    }

    /// Is the first move of this container still under way?
    fn is_moving(&self, known: &Container) -> bool {
        let target = |container: &Container| Some(container.moves.first()?.targets.first()?.id);
        let now = self.core.container_by_rid(known.rid);
        now.is_some_and(|now| target(&now) == target(known))
    }

    /// Drops sources of moves that are done, unless an operation under way may still read them.
    pub(crate) fn drop_retired(&self) -> Result<Maintenance> {
        let retired = lock(&self.retired).clone();
        let mut result = Maintenance::Idle;
        for old in retired {
            if self.core.catalog.is_held_before(old.container, old.epoch) {
                result = Maintenance::Blocked;
                continue;
            }
            self.core.store.drop_partitions(&old.ids)?;
            lock(&self.retired).retain(|other| other.ids != old.ids);
        }
        Ok(result)
    }
}
