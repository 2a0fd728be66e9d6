//! Bulks: independent operations that share a request.
//!
//! Each operation is what it would be alone, with a result and a commit of its own. Operations on
//! different items are prepared and submitted before any is waited for, so the store commits them
//! as one group, as far as there is memory for them: what is left is done one after the other.
//! Those that may depend on each other keep their order: those on one item, or on one logical
//! partition if unique keys or renamed items connect its items. A client that wants to stop at the
//! first error gets one after the other.
//!
//! A client sends a bulk to the partition that it believes responsible. If that is gone, or about
//! to be, the whole request is refused, for the client to look up the ranges again. A move that
//! begins to complete when the bulk is under way is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_model::{
    Charge, Epk, Error, ErrorKind, MemoryShare, PartitionKey, Reservation, Result, limits,
};

use super::join::{self, Boxed};
use super::script::TriggeredWrite;
use super::{Step, StepAction, done, left_undone, size};
use crate::catalog::{Container, Partition};
use crate::context::{Context, Work};
use crate::item::Items;
use crate::keys;
use crate::memory;
use crate::op::{BatchDone, BatchOperation, BatchResult, Change, OnError, Returns, Served};
use crate::pricing;
use crate::query::gone;

/// An operation of a bulk.
struct BulkMember {
    task: Result<BulkTask>,
    returns: Returns,
}

#[expect(clippy::large_enum_variant, reason = "nearly all are plain")]
enum BulkTask {
    Plain(Step),
    Triggered(Box<TriggeredWrite>),
}

/// What the operations of a bulk have in common.
struct Bulk<'a> {
    context: &'a Context,
    container: &'a Arc<Container>,
    memory: MemoryShare,
}

/// What became of it.
struct Finished {
    result: Result<BatchDone>,
    charge: Charge,
    served: Option<Served>,
    /// Of the item in the result.
    memory: Reservation,
}

/// Operations that have to keep their order: what became of those that were done, and the others.
struct Line {
    done: Vec<(usize, Finished)>,
    left: Vec<usize>,
    /// What it cost to find that there is no memory for the first of them.
    charge: Charge,
}

impl Items {
    pub(super) async fn run_bulk(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        range_id: &str,
        on_error: OnError,
        operations: Vec<BatchOperation>,
    ) -> Result<Vec<BatchResult>> {
        let partition = addressed(container, range_id)?;
        self.check_fence(partition)?;
        // Also a bulk whose operations all fail tells how far its partition was.
        drop(self.core.open_partition(work, partition)?);
        let member = |operation| self.bulk_member(container, partition, operation);
        let members: Vec<BulkMember> = operations.into_iter().map(member).collect();
        let bulk =
            Bulk { context: work.context, container, memory: self.core.settings.memory.share() };
        let mut finished = match on_error {
            OnError::Continue => self.run_together(&bulk, &members).await,
            OnError::Stop => self.run_in_order(&bulk, &members).await,
        };
        note_latest(work, &finished);
        wait_alike(&mut finished);
        let mut room = limits::RESPONSE_BYTES_MAX;
        let mut results: Vec<BatchResult> = Vec::with_capacity(members.len());
        for finished in finished {
            let (result, memory) = finished.into_result(&mut room);
            results.push(result);
            work.kept.push(memory);
        }
        results.resize_with(members.len(), || left_undone(Charge::default()));
        Ok(results)
    }

    /// Refuses a request for a range that is about to be replaced by others.
    pub(super) fn check_fence(&self, partition: &Partition) -> Result<()> {
        if !self.moves.is_fenced(partition.id) {
            return Ok(());
        }
        let range_id = partition.range_id;
        let message =
            format!("The partition key range '{range_id}' is completing a split or merge: retry");
        Err(Error::new(ErrorKind::RangeMoving, message))
    }

    fn bulk_member(
        &self,
        container: &Arc<Container>,
        partition: &Partition,
        operation: BatchOperation,
    ) -> BulkMember {
        let returns = operation.returns;
        let task = if operation.triggers.is_empty() {
            BulkTask::of(container, operation)
        } else {
            self.triggered_write(container, operation)
                .map(|write| BulkTask::Triggered(Box::new(write)))
        };
        let task = task.and_then(|task| {
            if partition.epks.contains(task.home().0) {
                return Ok(task);
            }
            Err(Error::range_gone(format!(
                "The partition key {} does not belong to the partition key range '{}': read the \
                 partition key ranges again",
                task.home().1,
                partition.range_id
            )))
        });
        BulkMember { task, returns }
    }

    async fn run_together(&self, bulk: &Bulk<'_>, members: &[BulkMember]) -> Vec<Finished> {
        let entangled = !bulk.container.definition.unique_keys.is_empty()
            || members.iter().flat_map(|member| &member.task).any(BulkTask::concerns_others);
        let line = |task: &BulkTask| match task {
            BulkTask::Plain(step) if !entangled => step.place.item_key.clone(),
            task => keys::head(task.home().0, task.home().1),
        };
        let mut lines: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (at, member) in members.iter().enumerate() {
            lines.entry(member.task.as_ref().map_or(Vec::new(), line)).or_default().push(at);
        }
        let start = |line| self.run_line(bulk, members, line);
        let lines = join::all(lines.into_values().map(start).collect()).await;
        let mut finished = Vec::with_capacity(members.len());
        for Line { done, left, mut charge } in lines {
            finished.extend(done);
            for at in left {
                let mut again = self.run_one(bulk, &members[at]).await.0;
                again.charge = again.charge + std::mem::take(&mut charge);
                finished.push((at, again));
            }
        }
        finished.sort_by_key(|(at, _)| *at);
        finished.into_iter().map(|(_, finished)| finished).collect()
    }

    /// Runs the operations at these places in order, up to one for which there is no memory while
    /// others hold theirs.
    fn run_line<'a>(
        &'a self,
        bulk: &'a Bulk<'a>,
        members: &'a [BulkMember],
        line: Vec<usize>,
    ) -> Boxed<'a, Line> {
        Box::pin(async move {
            let mut done = Vec::with_capacity(line.len());
            for (place, at) in line.iter().enumerate() {
                let (finished, lacks_memory) = self.run_one(bulk, &members[*at]).await;
                if lacks_memory {
                    return Line { done, left: line[place..].to_vec(), charge: finished.charge };
                }
                done.push((*at, finished));
            }
            Line { done, left: Vec::new(), charge: Charge::default() }
        })
    }

    /// Stops after the first operation that fails.
    async fn run_in_order(&self, bulk: &Bulk<'_>, members: &[BulkMember]) -> Vec<Finished> {
        let mut finished = Vec::with_capacity(members.len());
        for member in members {
            finished.push(self.run_one(bulk, member).await.0);
            if finished.last().is_some_and(|last: &Finished| last.result.is_err()) {
                break;
            }
        }
        finished
    }

    /// What became of an operation, and whether it was not done for want of memory.
    async fn run_one(&self, bulk: &Bulk<'_>, member: &BulkMember) -> (Finished, bool) {
        let Bulk { context, container, memory } = bulk;
        let mut work = Work::new(context);
        work.container = Some(Arc::clone(container));
        work.held_in = Some(memory.clone());
        let result = match &member.task {
            Err(error) => Err(error.clone()),
            Ok(BulkTask::Plain(Step { place, what: StepAction::Read(condition) })) => {
                self.read_place(&mut work, place, condition.as_ref())
            }
            Ok(BulkTask::Plain(Step { place, what: StepAction::Write(intent) })) => {
                let written = self.write_item(&mut work, place, intent).await;
                self.core.charge_if_refused(&mut work, &written);
                written
            }
            Ok(BulkTask::Triggered(write)) => self.run_triggered_write(&mut work, write).await,
        };
        let result = result.map_err(|error| self.core.explain(&work, error));
        let charge = pricing::charge(&work.usage, self.core.consistency(context)) + work.parts;
        let mut held = memory.reservation(memory::RESULTS);
        let result = result.and_then(|outcome| done(outcome, member.returns));
        let result = result.and_then(|done| reserved(done, memory, &mut held));
        let finished = Finished { result, charge, served: work.served, memory: held };
        (finished, work.lacks_memory)
    }
}

/// What was done, if there is memory for the item in it. What was written is written: without the
/// memory it is told without the item, and half of the memory is left for writes to come.
fn reserved(done: BatchDone, memory: &MemoryShare, held: &mut Reservation) -> Result<BatchDone> {
    let BatchDone::Item { etag, body: Some(body), change } = done else { return Ok(done) };
    let body = match change {
        Change::None => {
            held.grow(body.0.len())?;
            Some(body)
        }
        _ => {
            let fits = memory.used() + body.0.len() <= memory.bytes_max() / 2;
            (fits && held.try_grow(body.0.len())).then_some(body)
        }
    };
    Ok(BatchDone::Item { etag, body, change })
}

impl BulkTask {
    fn of(container: &Arc<Container>, operation: BatchOperation) -> Result<BulkTask> {
        let BatchOperation { action, partition_key, condition, ttl_seconds, .. } = operation;
        let step = Step::of(container, partition_key.as_ref(), action, condition);
        step.and_then(|step| step.living_for(ttl_seconds)).map(BulkTask::Plain)
    }

    fn home(&self) -> (&Epk, &PartitionKey) {
        match self {
            BulkTask::Plain(Step { place, .. }) => (&place.epk, &place.key),
            BulkTask::Triggered(write) => write.home(),
        }
    }

    /// May it concern other items of its logical partition than the one it names?
    fn concerns_others(&self) -> bool {
        match self {
            BulkTask::Plain(step) => step.renames(),
            BulkTask::Triggered(_) => true,
        }
    }
}

impl Finished {
    /// The result, as far as the response has room for it. What was written is told without the
    /// item. A read can be repeated alone.
    fn into_result(self, room: &mut usize) -> (BatchResult, Reservation) {
        let result = self.result.and_then(|done| match (room.checked_sub(size(&done)), done) {
            (Some(left), done) => {
                *room = left;
                Ok(done)
            }
            (None, BatchDone::Item { etag, change, .. }) if change != Change::None => {
                Ok(BatchDone::Item { etag, body: None, change })
            }
            (None, _) => Err(Error::response_too_large(format!(
                "Response size is too large: the limit is {} bytes. Read this item alone",
                limits::RESPONSE_BYTES_MAX
            ))),
        });
        (BatchResult { result, charge: self.charge }, self.memory)
    }
}

pub(super) fn addressed<'c>(container: &'c Container, range_id: &str) -> Result<&'c Partition> {
    let mut partitions = container.partitions.iter();
    partitions
        .find(|partition| partition.range_id.to_string() == range_id)
        .ok_or_else(|| gone(range_id))
}

/// Operations of one request that are refused come again together, so all of them wait until there
/// is room for the last. Told different times, a client would send them one by one.
fn wait_alike(finished: &mut [Finished]) {
    let mut waits: Vec<&mut u64> = finished
        .iter_mut()
        .filter_map(|finished| match &mut finished.result {
            Err(Error { kind: ErrorKind::Throttled { retry_after_ms, .. }, .. }) => {
                Some(retry_after_ms)
            }
            _ => None,
        })
        .collect();
    let longest = waits.iter().map(|wait| **wait).max().unwrap_or_default();
    waits.iter_mut().for_each(|wait| **wait = longest);
}

/// The reply tells the latest LSN of all operations: a session that reads it back sees all writes.
fn note_latest(work: &mut Work<'_>, finished: &[Finished]) {
    let latest = finished.iter().filter_map(|finished| finished.served.as_ref()?.lsn.into()).max();
    if let (Some(known), Some(latest)) = (work.served.as_mut(), latest) {
        known.lsn = known.lsn.max(latest);
    }
}
