//! Scripts that run: stored procedures, and writes with triggers, alone and in batches.
//!
//! A run is a transaction on one logical partition. The script works on a view of the partition
//! with a private write set on top ([`Host`]); when it ends well, its changes are one batch of the
//! store, and nothing else of it is left. The batch expects the *head* of the logical partition to
//! be unchanged, a counter that every write of any of its items touches. So whatever the script
//! read, found or did not find is still so when it commits: runs are serialisable, also against
//! single writes and batches. If something came in between, the script is run again on a newer
//! view, as long as it has time.
//!
//! Scripts on one logical partition would keep each other from committing, so they take turns
//! (`turns.rs`). That is a matter of speed only: nothing relies on it.

mod batch;
mod host;
mod procedure;
mod trigger;
mod turns;

use std::sync::Arc;

use partita_model::{Charge, Epk, Error, PartitionKey, PartitionKeyHeader, Result, ScriptKind};
use partita_storage::StorageError;

pub(super) use batch::TriggeredWrite;
pub use turns::Turn;
pub(crate) use turns::{Line, Turns};

use self::host::Host;
pub(super) use self::host::{OTHER_KEY, WRITTEN_BYTES_MAX};
use super::one_read;
use crate::catalog::{Container, Partition};
use crate::changeset::Effects;
use crate::context::Work;
use crate::item::Items;
use crate::item::key_of_request;
use crate::item::write::ATTEMPTS_MAX;
use crate::live::LivePartition;
use crate::op::{BatchMode, Op};
use crate::pricing;
use crate::script_runtime::{Script, ScriptCall, ScriptEnd, ScriptRole};

pub(super) const NANOS_PER_MILLI: u64 = 1_000_000;

/// The logical partition that a script works on.
#[derive(Clone, Debug)]
pub(super) struct Home {
    container: Arc<Container>,
    epk: Epk,
    key: PartitionKey,
}

impl Home {
    fn new(container: Arc<Container>, key: PartitionKey) -> Home {
        Home { epk: container.definition.partition_key.epk(&key), container, key }
    }

    fn partition(&self) -> &Partition {
        &self.container.partitions[self.container.partition_index(&self.epk)]
    }

    fn live(&self) -> &Arc<LivePartition> {
        self.container.live(self.container.partition_index(&self.epk))
    }

    fn header(&self) -> PartitionKeyHeader {
        self.key.clone().into()
    }
}

impl Items {
    /// Runs a transaction until it is committed, or fails. `run` is called again on a newer view if
    /// another commit was faster; `home` is then where the logical partition is.
    async fn transact<T: Send>(
        &self,
        work: &mut Work<'_>,
        home: &mut Home,
        run: impl FnMut(&mut Host<'_>, &mut Option<String>) -> Result<T> + Send,
    ) -> Result<T> {
        self.core.admit_once(work, home.live())?;
        self.moves.give_way(home.live().id).await;
        let done = self.transact_admitted(work, home, run).await;
        // A run costs a look, and what its operations cost.
        work.usage = one_read();
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context)) + work.parts;
        self.core.charge(work, home.live(), charge, Some((&home.epk, &home.key)));
        done
    }

    async fn transact_admitted<T: Send>(
        &self,
        work: &mut Work<'_>,
        home: &mut Home,
        mut run: impl FnMut(&mut Host<'_>, &mut Option<String>) -> Result<T> + Send,
    ) -> Result<T> {
        let started_nanos = self.core.clock.monotonic_nanos();
        let limit_nanos = self.core.settings.scripts.run_millis_max * NANOS_PER_MILLI;
        for _ in 0..ATTEMPTS_MAX {
            let view = self.core.open_partition(work, home.partition())?;
            if !self.core.catalog.has_policy_of(&home.container) {
                home.container = self.renewed_container(work, &home.container)?;
                continue;
            }
            let mut host = Host::new(self, work.context, home, view)?;
            let ran = run(&mut host, &mut work.log);
            let written = host.finish();
            work.parts = written.charge;
            let (value, written) = (written.failure.map_or(ran, Err)?, written.changes);
            let Some(written) = written else { return Ok(value) };
            let (served, Changed { batch, effects }) = (work.served.as_mut(), written);
            match self.commit_items(served, home.live(), batch, effects).await {
                Ok(_) => return Ok(value),
                Err(error @ StorageError::Conflict { .. }) => {
                    // A run that begins anew takes other resource ids, from whoever gives them out.
                    home.live().rids.note_conflict(&error);
                }
                Err(error) => {
                    home.container = self.moves.after_move(&home.container, error).await?;
                    work.container = Some(Arc::clone(&home.container));
                }
            }
            if self.core.clock.monotonic_nanos().saturating_sub(started_nanos) >= limit_nanos {
                break;
            }
        }
        Err(Error::retry_with(
            "Conflicting request to resource has been attempted: the items under this partition key \
             are being written by many requests at once. Retry to avoid conflicts.",
        ))
    }

    /// The container with the policies that it has now.
    fn renewed_container(&self, work: &mut Work<'_>, known: &Container) -> Result<Arc<Container>> {
        let container = self.core.container_by_rid(known.rid).ok_or_else(|| {
            Error::retry_with("The container was changed while the request was served: retry")
        })?;
        work.container = Some(Arc::clone(&container));
        Ok(container)
    }

    /// Runs a script on a host.
    fn run_script(
        &self,
        (kind, script): (ScriptKind, &Script),
        role: ScriptRole<'_>,
        logs: bool,
        host: &mut Host<'_>,
        log: &mut Option<String>,
    ) -> Result<Option<String>> {
        let container = host.container();
        let call = ScriptCall {
            script,
            role,
            logs,
            millis_max: self.core.settings.scripts.run_millis_max,
            self_link: &container.self_link(),
            alt_link: &container.alt_link(),
        };
        if self.core.settings.scripts.blocks {
            self.overruns.check(script, self.core.clock.unix_millis())?;
        }
        let ScriptEnd { result, log: logged } = self.core.script_runtime(kind)?.run(&call, host);
        if self.core.settings.scripts.blocks {
            self.overruns.note(script, &result, self.core.clock.unix_millis());
        }
        if logs {
            *log = Some(logged);
        }
        result
    }

    /// The line that an operation stands in which runs a script: that of its logical partition.
    pub(crate) fn line_of(&self, op: &Op) -> Option<Line> {
        let home = match op {
            Op::ExecuteProcedure(call) => {
                self.home_of(&call.container, call.partition_key.as_ref())
            }
            Op::Triggered { write, .. } => match &**write {
                Op::CreateItem { container, item } | Op::UpsertItem { container, item, .. } => {
                    self.home_of(container, item.partition_key.as_ref())
                }
                Op::ReplaceItem { path, .. }
                | Op::PatchItem { path, .. }
                | Op::DeleteItem { path, .. } => {
                    self.home_of(&path.container, path.partition_key.as_ref())
                }
                _ => return None,
            },
            Op::Batch { container, operations, mode: BatchMode::Atomic { partition_key } }
                if operations.iter().any(|operation| !operation.triggers.is_empty()) =>
            {
                self.home_of(container, partition_key.as_ref())
            }
            _ => return None,
        };
        home.ok().map(|home| (home.container.rid, home.epk))
    }

    /// Waits in a line.
    pub(crate) async fn wait_in(&self, line: Line) -> Result<Turn> {
        self.turns.wait(line, &*self.core.clock).await
    }

    fn home_of(
        &self,
        path: &crate::op::ContainerPath,
        header: Option<&PartitionKeyHeader>,
    ) -> Result<Home> {
        let container = self.core.catalog.current().parent_container(path)?.container;
        let key = key_of_request(&container, header)?;
        Ok(Home::new(container, key))
    }
}

/// What a run leaves behind.
pub(super) struct Written {
    charge: Charge,
    /// The server failed the script: whatever it made of that, it cannot be committed.
    failure: Option<Error>,
    /// None: it wrote nothing.
    changes: Option<Changed>,
}

/// What a run changes.
pub(super) struct Changed {
    batch: partita_storage::Batch,
    effects: Effects,
}
