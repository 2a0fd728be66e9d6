//! Transactional batches: all operations of one logical partition, or none.
//!
//! The operations run in order on one view of the partition, each on top of what those before it
//! did, so a later one reads, replaces or deletes what an earlier one created. Unique keys hold
//! after every single operation, not only at the end. If one fails nothing was written: it has its
//! error, all others a failed dependency. If all go well their changes are submitted as one batch
//! that expects everything they saw to be unchanged; if it is not, the whole is run again on a
//! newer view.

use std::sync::Arc;

use partita_model::{
    Charge, Epk, Error, ErrorKind, PartitionKey, PartitionKeyHeader, Result, Usage, limits,
};
use partita_storage::{Snapshot, Space, StorageError};

use super::overlay::Overlay;
use super::{Step, StepAction, done, left_undone, one_read, size};
use crate::catalog::Container;
use crate::changeset::Effects;
use crate::context::Work;
use crate::core::is_for_what_is_there;
use crate::item::Items;
use crate::item::key_of_request;
use crate::item::read::version;
use crate::item::write::ATTEMPTS_MAX;
use crate::live::FreshRid;
use crate::op::{BatchDone, BatchOperation, BatchResult, Returns};
use crate::pricing;

/// The service's text for an operation on another logical partition; clients look for it.
pub(super) const OTHER_KEY: &str = "One or more operations within the batch request have a different \
    partition key value than the request.";

/// The logical partition of a batch.
struct BatchHome {
    epk: Epk,
    key: PartitionKeyHeader,
}

/// An operation with what must survive a conflict.
struct AtomicMember {
    step: Result<Step>,
    returns: Returns,
    rid: Option<FreshRid>,
}

/// How a run over all operations ended.
enum Run {
    /// All went well.
    Whole(Vec<BatchResult>, Effects),
    /// The operation at this index failed.
    Broken(usize, Error),
}

impl Items {
    pub(super) async fn run_atomic(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        header: Option<&PartitionKeyHeader>,
        operations: Vec<BatchOperation>,
    ) -> Result<Vec<BatchResult>> {
        let key = key_of_request(container, header)?;
        let epk = container.definition.partition_key.epk(&key);
        let mut container = Arc::clone(container);
        let live = container.live(container.partition_index(&epk));
        self.core.admit_once(work, live)?;
        self.moves.give_way(live.id).await;
        let home = BatchHome { epk: epk.clone(), key: key.clone().into() };
        let member = |operation| AtomicMember::of(&container, &home, operation);
        let members: Vec<AtomicMember> = operations.into_iter().map(member).collect();
        let results = self.run_admitted(work, &mut container, (&epk, &key), members).await?;
        let charge = results.iter().fold(Charge::default(), |sum, result| sum + result.charge);
        let live = container.live(container.partition_index(&epk));
        self.core.charge(work, live, charge, Some((&epk, &key)));
        Ok(results)
    }

    /// Runs the operations until they are committed. The container is then the one that they were
    /// committed in, which may have other partitions than before.
    async fn run_admitted(
        &self,
        work: &mut Work<'_>,
        container: &mut Arc<Container>,
        (epk, key): (&Epk, &PartitionKey),
        mut members: Vec<AtomicMember>,
    ) -> Result<Vec<BatchResult>> {
        let memory = self.core.settings.memory.share();
        for _ in 0..ATTEMPTS_MAX {
            let at = container.partition_index(epk);
            let (partition, live) = (&container.partitions[at], container.live(at));
            let mut view = Overlay::new(self.core.open_partition(work, partition)?, &memory);
            view.begin_at(epk, key)?;
            // A batch that only reads must not show less than the client has seen; one that writes
            // is never refused for it.
            if members.iter().all(AtomicMember::reads) {
                self.core.check_session(work, partition, view.lsn())?;
            }
            let (results, effects) = match self.run_members(work, &mut view, &mut members)? {
                Run::Whole(results, effects) => (results, effects),
                Run::Broken(at, error) => return Ok(self.broken(work, &members, at, error)),
            };
            if view.is_untouched() {
                return Ok(results);
            }
            let (served, batch) = (work.served.as_mut(), view.into_batch());
            match self.commit_items(served, live, batch, effects).await {
                Ok(_) => return Ok(results),
                Err(error @ StorageError::Conflict { .. }) => {
                    if live.rids.note_conflict(&error) {
                        members.iter_mut().for_each(|member| member.rid = None);
                    }
                }
                Err(error) => {
                    *container = self.moves.after_move(container, error).await?;
                    work.container = Some(Arc::clone(container));
                    members.iter_mut().for_each(|member| member.follow(container));
                }
            }
        }
        Err(Error::retry_with(
            "Conflicting request to resource has been attempted: the batch's items are being \
             written by many requests at once. Retry to avoid conflicts.",
        ))
    }

    /// Runs all operations on a view, up to the first that fails. Errors of the server are errors
    /// of the whole request.
    fn run_members(
        &self,
        work: &mut Work<'_>,
        view: &mut Overlay,
        members: &mut [AtomicMember],
    ) -> Result<Run> {
        let mut results = Vec::with_capacity(members.len());
        let (mut effects, mut bytes) = (Effects::default(), 0);
        for (at, member) in members.iter_mut().enumerate() {
            match self.run_member(work, view, member, &mut effects) {
                Ok((done, charge)) => {
                    bytes += size(&done);
                    if bytes > limits::RESPONSE_BYTES_MAX {
                        return Ok(Run::Broken(at, too_large()));
                    }
                    results.push(BatchResult { result: Ok(done), charge });
                }
                Err(error) if is_the_servers(&error.kind) => return Err(error),
                Err(error) => return Ok(Run::Broken(at, error)),
            }
        }
        if let Some(served) = work.served.as_mut() {
            // Many items were concerned, not one.
            served.item_lsn = None;
        }
        Ok(Run::Whole(results, effects))
    }

    fn run_member(
        &self,
        work: &mut Work<'_>,
        view: &mut Overlay,
        member: &mut AtomicMember,
        effects: &mut Effects,
    ) -> Result<(BatchDone, Charge)> {
        let step = member.step.as_ref().map_err(Error::clone)?;
        let place = &step.place;
        let (outcome, usage) = match &step.what {
            StepAction::Read(condition) => {
                let current = self.current(work, view, place)?;
                let lsn = current.as_ref().map(|current| current.lsn);
                view.saw(Space::Items, place.item_key.clone(), lsn);
                let mut usage = one_read();
                (version(current, &place.id, condition.as_ref(), &mut usage)?, usage)
            }
            StepAction::Write(intent) => {
                let prepared = self.prepare(work, view, place, intent, &mut member.rid)?;
                view.absorb(prepared.batch)?;
                *effects = effects.and(prepared.effects);
                (prepared.outcome, prepared.counts.usage())
            }
        };
        let charge = pricing::charge(&usage, self.core.consistency(work.context));
        Ok((done(outcome, member.returns)?, charge))
    }

    /// The results of a batch whose operation at `at` failed. Each one up to it cost a look, and a
    /// write that is refused for what is there costs as much as alone.
    fn broken(
        &self,
        work: &Work<'_>,
        members: &[AtomicMember],
        at: usize,
        error: Error,
    ) -> Vec<BatchResult> {
        let charge = |refused_writes| {
            let usage = Usage { refused_writes, ..one_read() };
            pricing::charge(&usage, self.core.consistency(work.context))
        };
        let look = |n| if n < at { charge(0) } else { Charge::default() };
        let mut results: Vec<BatchResult> =
            (0..members.len()).map(|n| left_undone(look(n))).collect();
        if let (Some(failed), Some(member)) = (results.get_mut(at), members.get(at)) {
            let refuses = !member.reads() && is_for_what_is_there(&error.kind);
            *failed = BatchResult { result: Err(error), charge: charge(u64::from(refuses)) };
        }
        results
    }
}

impl AtomicMember {
    fn of(container: &Arc<Container>, home: &BatchHome, operation: BatchOperation) -> AtomicMember {
        let BatchOperation { action, partition_key, condition, ttl_seconds, returns, .. } =
            operation;
        let key = partition_key.as_ref().unwrap_or(&home.key);
        let step = Step::of(container, Some(key), action, condition);
        let step = step.and_then(|step| step.living_for(ttl_seconds));
        let step = match step {
            // The EPK is compared, not the key: 0 and -0 are equal and have different places.
            Ok(step) if step.place.epk != home.epk || step.misfits() => {
                Err(Error::bad_request(OTHER_KEY))
            }
            Err(error) if error.kind == ErrorKind::PartitionKeyMismatch => {
                Err(Error::bad_request(OTHER_KEY))
            }
            step => step,
        };
        AtomicMember { step, returns, rid: None }
    }

    /// Goes to where its item lives after a move.
    fn follow(&mut self, container: &Arc<Container>) {
        if let Ok(step) = &mut self.step {
            step.place = step.place.within(Arc::clone(container));
        }
        self.rid = None;
    }

    fn reads(&self) -> bool {
        matches!(&self.step, Ok(Step { what: StepAction::Read(_), .. }))
    }
}

fn is_the_servers(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Corrupt
            | ErrorKind::Internal
            | ErrorKind::Unavailable
            | ErrorKind::DiskFull
            | ErrorKind::RetryWith
            | ErrorKind::Timeout
            | ErrorKind::Cancelled
    )
}

/// The error of the operation whose result no longer fits.
pub(super) fn too_large() -> Error {
    Error::response_too_large(format!(
        "Response size is too large: with this operation, the batch's results have more than {} \
         bytes. Nothing was done; use smaller batches or ask for minimal results",
        limits::RESPONSE_BYTES_MAX
    ))
}
