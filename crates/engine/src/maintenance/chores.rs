//! Small jobs that come up with time: they are looked for every few seconds, and done one after the
//! other, a bounded step at a time, while nothing more urgent is to be done. After a step comes a
//! pause, so that they never take more than a part of one core's time.
//!
//! What is left to do follows from the store. Here is only what is under way, so that a restart
//! looks again and begins anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use partita_model::{ContainerRid, ErrorKind, Result};
use partita_storage::PartitionId;

use super::Maintainer;
use super::expire::Sweep;
use super::trim::Trim;
use crate::catalog::Container;
use crate::step::{Maintenance, MaintenanceBudget};

/// So often is looked for something to do.
const LOOK_NANOS: u64 = 5_000_000_000;
/// So many times as long as a step took is rested after it.
const STEP_PAUSE: u64 = 4;
/// So many times as long as a walk over all items of a partition took, it is not walked again.
const SWEEP_PAUSE: u64 = 5;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Chores(Mutex<ChoreState>);

#[derive(Debug, Default)]
struct ChoreState {
    looked_nanos: Option<u64>,
    /// Until then is rested.
    rests_until_nanos: u64,
    queue: Vec<Chore>,
    /// When a partition may be swept again.
    next_sweep_nanos: HashMap<PartitionId, u64>,
}

#[derive(Clone, Debug)]
struct Chore {
    container: ContainerRid,
    partition: PartitionId,
    what: ChoreKind,
}

#[derive(Clone, Debug)]
enum ChoreKind {
    Trim(Trim),
    Expire(Sweep),
}

/// What is to be done now.
enum NextChore {
    Nothing,
    Rest,
    Look,
    Step(Chore),
}

impl ChoreState {
    fn next(&mut self, now: u64) -> NextChore {
        if self.queue.is_empty() {
            let due = self.looked_nanos.is_none_or(|at| now.saturating_sub(at) >= LOOK_NANOS);
            if due {
                self.looked_nanos = Some(now);
            }
            return if due { NextChore::Look } else { NextChore::Nothing };
        }
        if now < self.rests_until_nanos {
            return NextChore::Rest;
        }
        self.queue.pop().map_or(NextChore::Nothing, NextChore::Step)
    }

    /// What is not through goes to the end of the queue.
    fn put_back(&mut self, mut chore: Chore, through: bool, now: u64, took: u64) {
        if let ChoreKind::Expire(sweep) = &mut chore.what {
            sweep.took_nanos += took;
            if through {
                let pause = sweep.took_nanos.saturating_mul(SWEEP_PAUSE).max(LOOK_NANOS);
                self.next_sweep_nanos.insert(chore.partition, now + pause);
            }
        }
        if !through {
            self.queue.insert(0, chore);
        }
    }
}

impl Chores {
    fn with<T>(&self, f: impl FnOnce(&mut ChoreState) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Maintainer {
    /// Takes a step of a chore, or looks for some.
    pub(super) async fn do_chores(&self, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let now = self.core.clock.monotonic_nanos();
        match self.jobs.chores.with(|state| state.next(now)) {
            NextChore::Nothing => Ok(Maintenance::Idle),
            NextChore::Rest => Ok(Maintenance::Blocked),
            NextChore::Step(chore) => self.step(chore, budget).await,
            NextChore::Look => {
                if let Err(error) = self.core.store.free_dropped() {
                    tracing::warn!(%error, "the space of dropped partitions is not given back");
                }
                let found = self.look_for_chores(now)?;
                let idle = found.is_empty();
                self.jobs.chores.with(|state| state.queue = found);
                Ok(if idle { Maintenance::Idle } else { Maintenance::Busy })
            }
        }
    }

    fn look_for_chores(&self, now: u64) -> Result<Vec<Chore>> {
        let catalog = self.core.catalog.current();
        let mut found = Vec::new();
        for container in catalog.all_containers().filter(|container| container.moves.is_empty()) {
            for partition in &container.partitions {
                let chore =
                    |what| Chore { container: container.rid, partition: partition.id, what };
                match self.due_trim(container, partition) {
                    Ok(trim) => found.extend(trim.map(ChoreKind::Trim).map(chore)),
                    // It went away while we looked.
                    Err(error) if error.kind == ErrorKind::RetryWith => continue,
                    Err(error) => return Err(error),
                }
                let may_sweep = |state: &mut ChoreState| {
                    state.next_sweep_nanos.get(&partition.id).is_none_or(|next| *next <= now)
                };
                if container.definition.default_ttl.is_some() && self.jobs.chores.with(may_sweep) {
                    found.push(chore(ChoreKind::Expire(Sweep::default())));
                }
            }
        }
        let known = |id: &PartitionId| {
            catalog.all_containers().any(|c| c.partitions.iter().any(|p| p.id == *id))
        };
        self.jobs.chores.with(|state| state.next_sweep_nanos.retain(|id, _| known(id)));
        Ok(found)
    }

    /// Takes a step. A chore that fails is dropped, to be found again at the next look.
    async fn step(&self, mut chore: Chore, budget: &MaintenanceBudget) -> Result<Maintenance> {
        let Some(container) = self.resting_container(chore.container) else {
            return Ok(Maintenance::Busy);
        };
        let partition = container.partitions.iter().find(|known| known.id == chore.partition);
        let Some(partition) = partition else { return Ok(Maintenance::Busy) };
        let began = self.core.clock.monotonic_nanos();
        let through = match &mut chore.what {
            // Found again when there is room.
            ChoreKind::Trim(_) if self.core.store.is_full() => return Ok(Maintenance::Busy),
            ChoreKind::Trim(trim) => self.trim_some(&container, partition, trim, budget).await,
            ChoreKind::Expire(sweep) => {
                self.expire_some(&container, partition, sweep, budget).await
            }
        };
        let now = self.core.clock.monotonic_nanos();
        let took = now.saturating_sub(began);
        self.jobs.chores.with(|state| state.rests_until_nanos = now + took * STEP_PAUSE);
        match through {
            Ok(through) => self.jobs.chores.with(|state| state.put_back(chore, through, now, took)),
            Err(error) if error.kind == ErrorKind::RetryWith => {}
            Err(error) => return Err(error),
        }
        Ok(Maintenance::Busy)
    }

    /// A container that is still there and whose partitions stay where they are.
    fn resting_container(&self, rid: ContainerRid) -> Option<Arc<Container>> {
        self.core.container_by_rid(rid).filter(|container| container.moves.is_empty())
    }
}
