//! Operations of batches that run triggers.
//!
//! A transactional batch in which any operation names triggers is run here, with all of its
//! operations: one transaction in which each of them, and each trigger, sees what those before it
//! did. A trigger that fails is its operation's result, nothing is written, and all others have a
//! failed dependency, as in every batch.
//!
//! In a bulk an operation with triggers is what it would be alone: a transaction of its own.
//!
//! A trigger has as much time as with a single write. When a transaction has used up the time of
//! one script, no further operation with triggers begins.

use std::sync::Arc;

use partita_model::{
    Charge, Epk, Error, ErrorKind, PartitionKey, PartitionKeyHeader, Result, ScriptKind, limits,
};

use super::host::{Host, is_the_servers};
use super::trigger::{Triggers, Write, document_of, home_of_document};
use super::{Home, NANOS_PER_MILLI};
use crate::catalog::Container;
use crate::context::Work;
use crate::item::Items;
use crate::item::key_of_request;
use crate::item::transaction::atomic::{OTHER_KEY, too_large};
use crate::item::transaction::{check_ttl, done, left_undone, patched, size};
use crate::op::{
    BatchAction, BatchDone, BatchOperation, BatchResult, Condition, Indexing, Outcome, Returns,
};
use crate::script_runtime::WriteKind;

/// An operation of a batch.
struct ScriptedMember {
    what: Result<ScriptedAction>,
    runs_triggers: bool,
    returns: Returns,
}

enum ScriptedAction {
    Read(String, Option<Condition>),
    Write(Box<Write>, Triggers),
}

/// How far a batch came.
#[derive(Default)]
struct BatchProgress {
    done: Vec<BatchDone>,
    /// What each of them cost.
    charges: Vec<Charge>,
    /// The one after them failed.
    failed: bool,
}

/// An operation of a bulk with its triggers.
pub(in crate::item::transaction) struct TriggeredWrite {
    home: Home,
    write: Write,
    triggers: Triggers,
    /// It does not begin later than this.
    ends_nanos: u64,
}

impl TriggeredWrite {
    /// Its logical partition: two that share one cannot commit at the same time.
    pub(in crate::item::transaction) fn home(&self) -> (&Epk, &PartitionKey) {
        (&self.home.epk, &self.home.key)
    }
}

impl Items {
    /// Runs a transactional batch whose operations name triggers.
    pub(in crate::item::transaction) async fn run_with_triggers(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        header: Option<&PartitionKeyHeader>,
        operations: Vec<BatchOperation>,
    ) -> Result<Vec<BatchResult>> {
        self.core.script_runtime(ScriptKind::Trigger)?;
        let key = key_of_request(container, header)?;
        let mut home = Home::new(Arc::clone(container), key);
        let members: Vec<ScriptedMember> =
            operations.into_iter().map(|operation| self.member(&home, operation)).collect();
        let mut progress = BatchProgress::default();
        let ran = self
            .transact(work, &mut home, |host, log| {
                // Another commit may have been faster than the last attempt.
                progress = BatchProgress::default();
                self.run_scripted_members(host, log, &members, &mut progress)
            })
            .await;
        match ran {
            Err(error) if !progress.failed || is_the_servers(&error.kind) => Err(error),
            ran => Ok(progress.into_results(members.len(), ran.err(), work.parts)),
        }
    }

    fn member(&self, home: &Home, operation: BatchOperation) -> ScriptedMember {
        let returns = operation.returns;
        let runs_triggers = !operation.triggers.is_empty();
        ScriptedMember {
            what: self.what(home, operation).map_err(of_batch),
            runs_triggers,
            returns,
        }
    }

    fn what(&self, home: &Home, operation: BatchOperation) -> Result<ScriptedAction> {
        if let Some(header) = &operation.partition_key {
            let key = key_of_request(&home.container, Some(header))?;
            // The EPK is compared, not the key: 0 and -0 are equal and have different places.
            if home.container.definition.partition_key.epk(&key) != home.epk {
                return Err(Error::bad_request(OTHER_KEY));
            }
        }
        let names = operation.triggers.clone();
        if let (BatchAction::Read { id }, true) = (&operation.action, names.is_empty()) {
            return Ok(ScriptedAction::Read(id.clone(), operation.condition));
        }
        let write = write_of(&home.container, operation)?;
        let triggers = self.triggers(&home.container, &names, write.kind)?;
        Ok(ScriptedAction::Write(Box::new(write), triggers))
    }

    /// Runs all operations, up to the first that fails.
    fn run_scripted_members(
        &self,
        host: &mut Host<'_>,
        log: &mut Option<String>,
        members: &[ScriptedMember],
        progress: &mut BatchProgress,
    ) -> Result<()> {
        let mut bytes = 0;
        for member in members {
            let before = host.charge();
            let ran = self.run_scripted_member(host, log, member).and_then(|done| {
                bytes += size(&done);
                if bytes > limits::RESPONSE_BYTES_MAX { Err(too_large()) } else { Ok(done) }
            });
            progress.failed = ran.is_err();
            progress.done.push(ran?);
            progress.charges.push(Charge(host.charge().0 - before.0));
        }
        Ok(())
    }

    fn run_scripted_member(
        &self,
        host: &mut Host<'_>,
        log: &mut Option<String>,
        member: &ScriptedMember,
    ) -> Result<BatchDone> {
        let outcome = match member.what.as_ref().map_err(Error::clone)? {
            ScriptedAction::Read(id, condition) => host.look(id, condition.as_ref()),
            ScriptedAction::Write(..) if member.runs_triggers && host.is_late() => Err(self.late()),
            ScriptedAction::Write(write, triggers) => {
                self.run_write(host, log, write, triggers).map_err(of_batch)
            }
        };
        done(outcome?, member.returns)
    }

    /// Understands an operation of a bulk that names triggers.
    pub(in crate::item::transaction) fn triggered_write(
        &self,
        container: &Arc<Container>,
        operation: BatchOperation,
    ) -> Result<TriggeredWrite> {
        self.core.script_runtime(ScriptKind::Trigger)?;
        let (names, header) = (operation.triggers.clone(), operation.partition_key.clone());
        let write = write_of(container, operation)?;
        let triggers = self.triggers(container, &names, write.kind)?;
        let home = match (&write.id, &write.document) {
            (None, Some(document)) => {
                home_of_document(Arc::clone(container), document, header.as_ref())?
            }
            _ => Home::new(Arc::clone(container), key_of_request(container, header.as_ref())?),
        };
        let limit_nanos = self.core.settings.scripts.run_millis_max * NANOS_PER_MILLI;
        let ends_nanos = self.core.clock.monotonic_nanos().saturating_add(limit_nanos);
        Ok(TriggeredWrite { home, write, triggers, ends_nanos })
    }

    /// Runs it, unless the scripts of its request have had all of their time.
    pub(in crate::item::transaction) async fn run_triggered_write(
        &self,
        work: &mut Work<'_>,
        TriggeredWrite { home, write, triggers, ends_nanos }: &TriggeredWrite,
    ) -> Result<Outcome> {
        if self.core.clock.monotonic_nanos() >= *ends_nanos {
            return Err(self.late());
        }
        let mut home = home.clone();
        let run = |host: &mut Host<'_>, log: &mut Option<String>| {
            self.run_write(host, log, write, triggers)
        };
        let outcome = self.transact(work, &mut home, run).await?;
        if let Some(served) = work.served.as_mut() {
            served.item_lsn = Some(served.lsn);
        }
        Ok(outcome)
    }

    fn late(&self) -> Error {
        Error::timeout(format!(
            "The triggers of the operations before this one took the {} ms that scripts of one \
             request may run: name triggers for fewer operations at once.",
            self.core.settings.scripts.run_millis_max
        ))
    }
}

impl BatchProgress {
    /// A result for each operation. They add up to all that the transaction paid.
    fn into_results(self, count: usize, error: Option<Error>, paid: Charge) -> Vec<BatchResult> {
        let Some(error) = error else {
            let done = self.done.into_iter().zip(self.charges);
            return done.map(|(done, charge)| BatchResult { result: Ok(done), charge }).collect();
        };
        let spent: f64 = self.charges.iter().map(|charge| charge.0).sum();
        let at = self.charges.len();
        let mut results: Vec<BatchResult> = self.charges.into_iter().map(left_undone).collect();
        let charge = Charge((paid.0 - spent).max(0.0));
        results.push(BatchResult { result: Err(error), charge });
        results.resize_with(count.max(at + 1), || left_undone(Charge::default()));
        results
    }
}

/// The write that an operation asks for.
fn write_of(container: &Container, operation: BatchOperation) -> Result<Write> {
    let BatchOperation { action, condition, ttl_seconds, .. } = operation;
    check_ttl(ttl_seconds)?;
    let (kind, id, body, indexing) = match action {
        BatchAction::Create { body, indexing } => (WriteKind::Create, None, Some(body), indexing),
        BatchAction::Upsert { body, indexing } => (WriteKind::Upsert, None, Some(body), indexing),
        BatchAction::Replace { id, body, indexing } => {
            (WriteKind::Replace, Some(id), Some(body), indexing)
        }
        BatchAction::Patch { id, body } => {
            return Ok(Write {
                kind: WriteKind::Replace,
                id: Some(id),
                document: None,
                patch: Some(patched(container, &body)?),
                indexing: Indexing::default(),
                condition,
                ttl_seconds,
            });
        }
        BatchAction::Delete { id } => (WriteKind::Delete, Some(id), None, Indexing::default()),
        BatchAction::Read { .. } => {
            return Err(Error::bad_request(
                "Triggers run with writes: an operation that reads cannot name any.",
            ));
        }
        BatchAction::Refused(error) => return Err(error),
    };
    let document = body.map(|body| document_of(&body)).transpose()?;
    Ok(Write { kind, id, document, patch: None, indexing, condition, ttl_seconds })
}

/// The error of an operation in a batch, whose key is that of the batch.
fn of_batch(error: Error) -> Error {
    match error.kind {
        ErrorKind::PartitionKeyMismatch => Error::bad_request(OTHER_KEY),
        _ => error,
    }
}
