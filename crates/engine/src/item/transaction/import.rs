//! Imports: many new items for one partition, in one commit.
//!
//! A client that loads data sorts its items by partitions and hands each partition a list, under
//! many partition keys. The list is worked off in order on one view with a private write set on
//! top, as a batch is, and what was done of it is one commit with one LSN. So that no list holds a
//! thread for long, an import stops when its time or its room is used up: it says how many items it
//! has made, and the client goes on behind them. An item that is there already may end it likewise.
//!
//! On the wire this is a procedure that every container has. It is none here: a procedure sees one
//! logical partition, and this one calls no script. Its errors are those of a script, so that
//! clients find what they look for.

use std::sync::Arc;

use partita_model::{
    Charge, Document, Error, ErrorKind, PartitionKeyHeader, RawKind, Result, json,
};
use partita_storage::StorageError;

use super::bulk::addressed;
use super::one_read;
use super::overlay::Overlay;
use super::script::{NANOS_PER_MILLI, OTHER_KEY, WRITTEN_BYTES_MAX};
use crate::catalog::{Container, Partition};
use crate::changeset::Effects;
use crate::context::Work;
use crate::item::Items;
use crate::item::draft::Draft;
use crate::item::intent::Intent;
use crate::item::key_of_request;
use crate::item::write::{ATTEMPTS_MAX, Prepared};
use crate::op::{Existing, Import, ImportIds, ImportTarget, Indexing, NewItem, Outcome};
use crate::pricing;

/// An import stops when it has used this part of the time of a script: the commit takes some, too.
const TIME_PERCENT: u64 = 85;

/// How far an import came.
struct ImportProgress {
    view: Overlay,
    count: usize,
    /// The document that is there already.
    existing: Option<usize>,
    charge: Charge,
    effects: Effects,
}

impl ImportProgress {
    fn on(view: Overlay) -> ImportProgress {
        let charge = Charge::default();
        ImportProgress { view, count: 0, existing: None, charge, effects: Effects::default() }
    }

    /// Fails if there is no memory for it.
    fn add(&mut self, prepared: Prepared, charge: Charge) -> Result<()> {
        self.view.absorb(prepared.batch)?;
        self.count += 1;
        self.effects = self.effects.and(prepared.effects);
        self.charge = self.charge + charge;
        Ok(())
    }
}

impl Items {
    pub(crate) async fn import_items(
        &self,
        work: &mut Work<'_>,
        import: &Import,
    ) -> Result<Outcome> {
        let mut container = self.core.item_container(work, &import.container)?.container;
        let partition = target_of(&container, &import.target)?;
        if let ImportTarget::Range(_) = import.target {
            self.check_fence(partition)?;
        }
        self.core.admit_once(work, container.live_of(partition))?;
        self.moves.give_way(partition.id).await;
        let before = Arc::clone(&container);
        let done = self.import_admitted(work, &mut container, import).await;
        // An import costs a look, and what its writes cost.
        work.usage = one_read();
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context)) + work.parts;
        let live = match target_of(&container, &import.target) {
            Ok(partition) => container.live_of(partition),
            Err(_) => before.live_of(target_of(&before, &import.target)?),
        };
        self.core.charge(work, live, charge, None);
        done
    }

    /// Imports until it is committed. The container is then the one that it was committed in.
    async fn import_admitted(
        &self,
        work: &mut Work<'_>,
        container: &mut Arc<Container>,
        import: &Import,
    ) -> Result<Outcome> {
        for _ in 0..ATTEMPTS_MAX {
            let partition = target_of(container, &import.target)?;
            let live = container.live_of(partition);
            let memory = self.core.settings.memory.share();
            let view = Overlay::new(self.core.open_partition(work, partition)?, &memory);
            let done = self.import_into(work, container, view, import)?;
            let ImportProgress { view, count, existing, charge, effects } = done;
            work.parts = charge;
            let existing = existing.and_then(|at| import.documents.get(at).cloned());
            let outcome = Outcome::Imported { count, existing };
            if view.is_untouched() {
                return Ok(outcome);
            }
            let (served, batch) = (work.served.as_mut(), view.into_batch());
            match self.commit_items(served, live, batch, effects).await {
                Ok(_) => {
                    if let Some(served) = work.served.as_mut() {
                        served.item_lsn = None;
                    }
                    return Ok(outcome);
                }
                // Resource ids are taken anew for the next attempt in any case.
                Err(error @ StorageError::Conflict { .. }) => {
                    live.rids.note_conflict(&error);
                }
                Err(error) => {
                    *container = self.moves.after_move(container, error).await?;
                    work.container = Some(Arc::clone(container));
                }
            }
            work.parts = Charge::default();
        }
        Err(Error::retry_with(
            "Conflicting request to resource has been attempted: the items are being written by \
             many requests at once. Retry to avoid conflicts.",
        ))
    }

    /// Works off the list on a view, as far as it goes.
    fn import_into(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        view: Overlay,
        import: &Import,
    ) -> Result<ImportProgress> {
        let limit_nanos = self.core.settings.scripts.run_millis_max * NANOS_PER_MILLI;
        let ends_nanos = self.core.clock.monotonic_nanos() + limit_nanos / 100 * TIME_PERCENT;
        let partition = target_of(container, &import.target)?;
        let mut done = ImportProgress::on(view);
        for (at, document) in import.documents.iter().enumerate() {
            // A client that is told of no progress at all would ask for ever.
            let is_late = self.core.clock.monotonic_nanos() >= ends_nanos;
            if at > 0 && (is_late || done.effects.bytes > WRITTEN_BYTES_MAX) {
                break;
            }
            let draft = self.import_draft(container, partition, import, document);
            let draft = draft.map_err(|error| thrown(at, error))?;
            let place = draft.place(container);
            let intent = match import.existing {
                Existing::Replaced => Intent::Upsert(draft, None),
                Existing::Ends | Existing::Fails => Intent::Create(draft),
            };
            let prepared = match self.prepare(work, &done.view, &place, &intent, &mut None) {
                Err(error)
                    if error.kind == ErrorKind::Conflict && import.existing == Existing::Ends =>
                {
                    done.existing = Some(at);
                    break;
                }
                prepared => prepared.map_err(|error| thrown(at, error))?,
            };
            let usage = prepared.counts.usage();
            let charge = pricing::charge(&usage, self.core.consistency(work.context));
            match done.add(prepared, charge) {
                // The client goes on behind what there was memory for.
                Err(_) if at > 0 => break,
                added => added?,
            }
        }
        Ok(done)
    }

    /// Understands a document, which must belong to where the import goes.
    fn import_draft(
        &self,
        container: &Arc<Container>,
        partition: &Partition,
        import: &Import,
        document: &[u8],
    ) -> Result<Draft> {
        let body = match import.ids {
            ImportIds::Given => document.to_vec(),
            ImportIds::Made => self.with_id(document)?,
        };
        let partition_key = match &import.target {
            ImportTarget::Key(header) => {
                Some(PartitionKeyHeader::from(key_of_request(container, header.as_ref())?))
            }
            ImportTarget::Range(_) => None,
        };
        let item = NewItem { body, partition_key, indexing: Indexing::ByPolicy };
        let draft = Draft::of(container, &item).map_err(|error| match error.kind {
            ErrorKind::PartitionKeyMismatch => Error::bad_request(OTHER_KEY),
            _ => error,
        })?;
        if partition.epks.contains(&draft.place(container).epk) {
            Ok(draft)
        } else {
            Err(Error::key_mismatch(format!(
                "The partition key {} does not belong to the partition key range '{}'",
                draft.key, partition.range_id
            )))
        }
    }

    /// The document, with an id of its own if it has none.
    fn with_id(&self, document: &[u8]) -> Result<Vec<u8>> {
        let text = json::compact_object(document)?;
        let document = Document::new(&text);
        let is_missing = |kind, text: &str| kind == RawKind::Null || text == "\"\"";
        if document.member("id").is_some_and(|id| !is_missing(id.kind(), id.text())) {
            return Ok(text.into_bytes());
        }
        let mut out = format!(r#"{{"id":"{}""#, self.fresh_id());
        for (name, value) in document.members().filter(|(name, _)| name != "id") {
            out.push(',');
            json::write_string(&mut out, &name);
            out.push(':');
            out.push_str(value.text());
        }
        out.push('}');
        Ok(out.into_bytes())
    }

    /// A random UUID.
    fn fresh_id(&self) -> String {
        let bits = u128::from(self.core.entropy.next_u64()) << 64
            | u128::from(self.core.entropy.next_u64());
        // Version 4, variant 1.
        let bits = bits & !(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
        let part = |from: u32, digits: usize| {
            let mask = (1_u128 << (digits * 4)) - 1;
            format!("{:0digits$x}", bits >> from & mask)
        };
        [part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12)].join("-")
    }
}

/// The partition that an import goes into.
fn target_of<'c>(container: &'c Container, target: &ImportTarget) -> Result<&'c Partition> {
    match target {
        ImportTarget::Range(range_id) => addressed(container, range_id),
        ImportTarget::Key(header) => {
            let key = key_of_request(container, header.as_ref())?;
            let epk = container.definition.partition_key.epk(&key);
            Ok(&container.partitions[container.partition_index(&epk)])
        }
    }
}

/// What is wrong with a document, as a script tells it: with the status it would have alone as the
/// sub-status. Errors that are not about the document stay what they are.
fn thrown(at: usize, error: Error) -> Error {
    let number = match error.kind {
        ErrorKind::BadRequest => 400,
        ErrorKind::LogicalPartitionFull => 403,
        ErrorKind::Conflict => 409,
        ErrorKind::TooLarge => 413,
        _ => return error,
    };
    let message = format!(
        "Encountered exception while executing function. Exception = Error: {} (document {at})",
        error.message
    );
    Error::new(ErrorKind::ScriptFailed { number }, message)
}
