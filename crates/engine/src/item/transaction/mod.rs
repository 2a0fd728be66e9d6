//! Several operations on items in one request.
//!
//! A *transactional batch* (`atomic.rs`) runs against one view of one logical partition with a
//! private write set on top (`overlay.rs`), and commits as one batch of the store: all or nothing,
//! one LSN. A *bulk* (`bulk.rs`) is a bundle of independent operations that saves round trips.
//! Deleting all items of a partition key (`clear.rs`) is a series of batches. Stored procedures and
//! triggers (`script/`) decide while they run what their transaction does; operations of batches
//! and bulks that name triggers are run there, too. An *import* (`import.rs`) makes many items of
//! one partition in one commit.
//!
//! Both understand their operations here, by the same drafts and intents as single writes. What is
//! wrong with one operation is that operation's result; a request fails as a whole only if it is
//! malformed, or if the server cannot serve it.

mod atomic;
mod bulk;
mod clear;
mod import;
mod index_writes;
mod join;
mod overlay;
mod script;

pub use script::Turn;
pub(super) use script::Turns;

use std::sync::Arc;

use partita_model::{Charge, Error, ErrorKind, PartitionKeyHeader, Patch, Result, Usage, limits};
use partita_query::Filter;

use super::draft::Draft;
use super::intent::{Intent, Patched};
use super::{ItemPlace, invalid_ttl, key_of_request};
use crate::catalog::Container;
use crate::context::Work;
use crate::item::Items;
use crate::op::{
    BatchAction, BatchDone, BatchMode, BatchOperation, BatchResult, Change, Condition,
    ContainerPath, Indexing, NewItem, Outcome, Returns,
};

/// What a result adds to its item in a response: status, charge, ETag and punctuation.
const RESULT_OVERHEAD_BYTES: usize = 160;

/// An operation, understood.
struct Step {
    place: ItemPlace,
    what: StepAction,
}

enum StepAction {
    Read(Option<Condition>),
    Write(Intent),
}

impl Items {
    pub(crate) async fn run_batch(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        operations: Vec<BatchOperation>,
        mode: BatchMode,
    ) -> Result<Outcome> {
        let container = match (self.core.item_container(work, path), &mode) {
            (Ok(resolved), _) => resolved.container,
            // Clients of bulks take the sub-status of a missing owner for a stale name, and look
            // for a container that is gone again and again.
            (Err(error), BatchMode::Bulk { .. }) if error.kind == ErrorKind::OwnerNotFound => {
                return Err(Error::not_found(error.message));
            }
            (Err(error), _) => return Err(error),
        };
        check_count(operations.len())?;
        let runs_triggers = operations.iter().any(|operation| !operation.triggers.is_empty());
        let results = match mode {
            BatchMode::Atomic { partition_key } => {
                let (key, container) = (partition_key.as_ref(), &container);
                if runs_triggers {
                    self.run_with_triggers(work, container, key, operations).await?
                } else {
                    self.run_atomic(work, container, key, operations).await?
                }
            }
            BatchMode::Bulk { range_id, on_error } => {
                self.run_bulk(work, &container, &range_id, on_error, operations).await?
            }
        };
        work.parts = results.iter().fold(Charge::default(), |sum, result| sum + result.charge);
        Ok(Outcome::Batch { results })
    }
}

fn check_count(operations: usize) -> Result<()> {
    match operations {
        0 => Err(Error::bad_request("Batch request has no operations.")),
        1..=limits::BATCH_OPERATIONS_MAX => Ok(()),
        count => Err(Error::bad_request(format!(
            "Batch request has more operations than what is supported. It has {count}, the limit \
             is {}",
            limits::BATCH_OPERATIONS_MAX
        ))),
    }
}

impl Step {
    /// Understands an operation on the logical partition that `key` names.
    fn of(
        container: &Arc<Container>,
        key: Option<&PartitionKeyHeader>,
        action: BatchAction,
        condition: Option<Condition>,
    ) -> Result<Step> {
        let draft = |body, indexing| draft(container, key, body, indexing);
        let place = |id| {
            let key = key_of_request(container, key)?;
            Ok::<_, Error>(ItemPlace::new(Arc::clone(container), key, id))
        };
        let (place, what) = match action {
            BatchAction::Create { body, indexing } => {
                let draft = draft(body, indexing)?;
                (draft.place(container), StepAction::Write(Intent::Create(draft)))
            }
            BatchAction::Upsert { body, indexing } => {
                let draft = draft(body, indexing)?;
                (draft.place(container), StepAction::Write(Intent::Upsert(draft, condition)))
            }
            BatchAction::Replace { id, body, indexing } => match draft(body, indexing) {
                Ok(draft) => {
                    let place = ItemPlace::new(Arc::clone(container), draft.key.clone(), id);
                    (place, StepAction::Write(Intent::Replace(draft, condition)))
                }
                Err(error) if error.kind == ErrorKind::PartitionKeyMismatch => {
                    (place(id)?, StepAction::Write(Intent::Misfit(error)))
                }
                Err(error) => return Err(error),
            },
            BatchAction::Patch { id, body } => {
                let patched = patched(container, &body)?;
                (place(id)?, StepAction::Write(Intent::Patch(patched, condition)))
            }
            BatchAction::Read { id } => (place(id)?, StepAction::Read(condition)),
            BatchAction::Refused(error) => return Err(error),
            BatchAction::Delete { id } => {
                (place(id)?, StepAction::Write(Intent::Remove(condition)))
            }
        };
        Ok(Step { place, what })
    }

    /// The same with the time to live that the operation gives to what it writes. Operations that
    /// write no item have no use for one.
    fn living_for(mut self, ttl_seconds: Option<i32>) -> Result<Step> {
        check_ttl(ttl_seconds)?;
        let Some(ttl) = ttl_seconds else { return Ok(self) };
        match &mut self.what {
            StepAction::Write(
                Intent::Create(draft) | Intent::Upsert(draft, _) | Intent::Replace(draft, _),
            ) => draft.ttl = ttl,
            StepAction::Write(Intent::Patch(patched, _)) => patched.ttl = Some(ttl),
            StepAction::Write(Intent::Remove(_) | Intent::Misfit(_)) | StepAction::Read(_) => {}
        }
        Ok(self)
    }

    /// Whether it would give an item another partition key.
    fn misfits(&self) -> bool {
        matches!(&self.what, StepAction::Write(Intent::Misfit(_)))
    }

    /// Whether it gives an item another id.
    fn renames(&self) -> bool {
        let StepAction::Write(Intent::Replace(draft, _)) = &self.what else { return false };
        draft.id != self.place.id
    }
}

fn check_ttl(ttl_seconds: Option<i32>) -> Result<()> {
    match ttl_seconds {
        Some(ttl) if ttl < -1 || ttl == 0 => Err(invalid_ttl(&ttl.to_string())),
        Some(_) | None => Ok(()),
    }
}

fn draft(
    container: &Container,
    key: Option<&PartitionKeyHeader>,
    body: Vec<u8>,
    indexing: Indexing,
) -> Result<Draft> {
    Draft::of(container, &NewItem { body, partition_key: key.cloned(), indexing })
}

fn patched(container: &Container, body: &[u8]) -> Result<Patched> {
    let patch = Patch::parse(body)?;
    let filter = patch.condition.as_deref().map(Filter::parse_condition).transpose()?;
    Patched::of(container, patch, filter)
}

/// What an operation's result tells.
fn done(outcome: Outcome, returns: Returns) -> Result<BatchDone> {
    match outcome {
        Outcome::Item { etag, body, change } => {
            let wanted = change == Change::None || returns == Returns::Item;
            Ok(BatchDone::Item { etag, body: wanted.then_some(body), change })
        }
        Outcome::NotModified { etag } => Ok(BatchDone::NotModified { etag }),
        Outcome::Deleted => Ok(BatchDone::Deleted),
        other => Err(Error::internal(format!("an operation of a batch answered with {other:?}"))),
    }
}

/// What an operation's result takes in a response.
fn size(done: &BatchDone) -> usize {
    let body = match done {
        BatchDone::Item { body: Some(body), .. } => body.0.len(),
        BatchDone::Item { body: None, .. } | BatchDone::NotModified { .. } | BatchDone::Deleted => {
            0
        }
    };
    body + RESULT_OVERHEAD_BYTES
}

/// The result of an operation that was left undone because another one failed.
fn left_undone(charge: Charge) -> BatchResult {
    let message = "Not done: another operation of the same request failed";
    BatchResult { result: Err(Error::new(ErrorKind::FailedDependency, message)), charge }
}

/// A look at one item.
fn one_read() -> Usage {
    Usage { reads: 1, ..Usage::default() }
}
