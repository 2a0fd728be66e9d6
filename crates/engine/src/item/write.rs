//! Writing one item: prepare on the caller's thread, decide in the store, and again on a conflict.
//!
//! The operations differ only in what they do given what is there: [`Database::write_item`] takes
//! that decision as a closure and does the rest. Nothing is locked. What the decision relied on,
//! the stored version or its absence, becomes an expectation of the batch; if another commit was
//! faster the store says so, and the decision is taken again on what is there now.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use partita_model::{Document, Error, Patch, Result, SystemProperties, limits, stamp, unstamp};
use partita_query::Filter;
use partita_storage::{Batch, Snapshot, Space, StorageError};

use super::batch::{self, Transition};
use super::draft::{Draft, too_large};
use super::{Current, Place, check_match, failed_condition, not_found};
use crate::catalog::FreshRid;
use crate::context::Work;
use crate::database::Database;
use crate::keys;
use crate::op::{
    Change, Condition, ContainerPath, EtagPattern, ItemBody, ItemPath, NewItem, Outcome,
};
use crate::record::ItemRecord;

/// How often a write is prepared before the client is asked to retry. Every conflict means that
/// another write got through, so this bounds what one request can be made to wait.
const ATTEMPTS_MAX: usize = 100;

/// What becomes of an item.
enum Next<'d> {
    Put(Cow<'d, Draft>),
    Remove,
}

type Decide<'d> = dyn Fn(Option<&ItemRecord>) -> Result<Next<'d>> + Send + Sync + 'd;

impl Database {
    pub(crate) async fn create_item(
        &self,
        work: &mut Work<'_>,
        container: &ContainerPath,
        item: NewItem,
    ) -> Result<Outcome> {
        let container = self.item_container(work, container)?.container;
        let draft = Draft::of(&container, &item)?;
        let place = draft.place(&container);
        self.write_item(work, &place, &|current| match current {
            None => Ok(Next::Put(Cow::Borrowed(&draft))),
            Some(_) => Err(exists(&draft.id)),
        })
        .await
    }

    pub(crate) async fn upsert_item(
        &self,
        work: &mut Work<'_>,
        container: &ContainerPath,
        item: NewItem,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let container = self.item_container(work, container)?.container;
        let draft = Draft::of(&container, &item)?;
        let place = draft.place(&container);
        self.write_item(work, &place, &|current| {
            match (current, &condition) {
                (Some(_), Some(Condition::NoneMatch(EtagPattern::Any))) => {
                    return Err(failed_condition("the item exists"));
                }
                (None, Some(Condition::Match(EtagPattern::Any))) => {
                    return Err(failed_condition("the item does not exist"));
                }
                (Some(record), condition) => check_match(condition.as_ref(), record)?,
                (None, _) => {}
            }
            Ok(Next::Put(Cow::Borrowed(&draft)))
        })
        .await
    }

    pub(crate) async fn replace_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        item: NewItem,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let container = self.item_container(work, &path.container)?.container;
        let draft = Draft::of(&container, &item)?;
        // Clients that send no key mean the one in the document.
        let addressed = match &path.partition_key {
            Some(_) => self.place(work, path)?,
            None => draft.place(&container),
        };
        self.write_item(work, &addressed, &|current| {
            let record = current.ok_or_else(|| not_found(&addressed.id))?;
            check_match(condition.as_ref(), record)?;
            Ok(Next::Put(Cow::Borrowed(&draft)))
        })
        .await
    }

    pub(crate) async fn patch_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        patch: Patch,
        filter: Option<Filter>,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let place = self.place(work, path)?;
        let container = Arc::clone(&place.container);
        patch.check_targets(&container.definition.partition_key)?;
        self.write_item(work, &place, &|current| {
            let record = current.ok_or_else(|| not_found(&place.id))?;
            check_match(condition.as_ref(), record)?;
            let text = record.text()?;
            if let Some(filter) = &filter
                && !filter.matches(&Document::new(text).to_value())
            {
                return Err(failed_condition("the patch's condition is not true for the item"));
            }
            let patched = patch.apply(&unstamp(text))?;
            if patched.len() > limits::ITEM_BYTES_MAX {
                return Err(too_large(patched.len()));
            }
            let draft = Draft::of_text(&container, patched, None, record.indexed)?;
            if draft.id != place.id || draft.key != place.key {
                return Err(Error::bad_request(
                    "a patch cannot change an item's id or partition key",
                ));
            }
            Ok(Next::Put(Cow::Owned(draft)))
        })
        .await
    }

    pub(crate) async fn delete_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let place = self.place(work, path)?;
        self.write_item(work, &place, &|current| {
            let record = current.ok_or_else(|| not_found(&place.id))?;
            check_match(condition.as_ref(), record)?;
            Ok(Next::Remove)
        })
        .await
    }

    async fn write_item(
        &self,
        work: &mut Work<'_>,
        place: &Place,
        decide: &Decide<'_>,
    ) -> Result<Outcome> {
        let mut rid = None;
        for _ in 0..ATTEMPTS_MAX {
            // Until the write happens, the request has cost a look at what is there.
            work.usage.reads = 1;
            let prepared = self.prepare(work, place, decide, &mut rid)?;
            match self.store.submit(place.partition().id, prepared.batch).await {
                Ok(commit) => {
                    work.usage.reads = 0;
                    work.usage.writes = prepared.counts.versions;
                    work.usage.written_bytes = prepared.counts.bytes;
                    work.usage.index_entries_written = prepared.counts.index_entries;
                    if let Some(served) = work.served.as_mut() {
                        served.lsn = commit.lsn;
                        served.item_lsn = Some(commit.lsn);
                    }
                    return Ok(prepared.outcome);
                }
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::retry_with(
            "Conflicting request to resource has been attempted: the item is being written by many \
             requests at once. Retry to avoid conflicts.",
        ))
    }

    fn prepare(
        &self,
        work: &mut Work<'_>,
        place: &Place,
        decide: &Decide<'_>,
        rid: &mut Option<FreshRid>,
    ) -> Result<Prepared> {
        let view = self.open_view(work, place)?;
        let stored = self.current(work, &*view, place)?;
        let live = stored.as_ref().filter(|current| current.live);
        let draft = match decide(live.map(|current| &current.record))? {
            Next::Put(draft) => Some(draft),
            Next::Remove => None,
        };
        let moved = match &draft {
            Some(draft) if draft.id != place.id => Some(free_place(draft, place, &*view)?),
            Some(_) | None => None,
        };
        let mut mark = None;
        let record = match &draft {
            None => None,
            Some(draft) => {
                let item_rid = match live {
                    Some(current) => current.record.rid,
                    None => {
                        let fresh = take_rid(rid, place, &*view)?;
                        mark = fresh.mark;
                        fresh.rid
                    }
                };
                Some(self.new_record(place, draft, item_rid))
            }
        };
        let to = moved.as_ref().unwrap_or(place);
        let way = Transition { from: place, to, old: stored.as_ref(), new: record.as_ref() };
        let (mut batch, counts) = batch::build(way, &*view, self.now_seconds())?;
        if let Some(mark) = mark {
            batch.put(Space::Meta, keys::rid_mark(), mark.to_be_bytes().to_vec());
        }
        Ok(Prepared { batch, counts, outcome: outcome(live, record) })
    }

    fn new_record(&self, place: &Place, draft: &Draft, rid: u64) -> ItemRecord {
        let (etag, ts) = self.fresh_stamp();
        let container = &place.container;
        let item_rid = container.item_rid(rid).to_string();
        let self_link = format!("{}docs/{item_rid}/", container.self_link());
        let system = SystemProperties { rid: &item_rid, self_link: &self_link, etag, ts };
        ItemRecord {
            indexed: draft.indexed,
            policy_version: container.policies.current,
            ts: u32::try_from(ts).unwrap_or(u32::MAX),
            ttl: draft.ttl,
            etag,
            rid,
            body: Bytes::from(stamp(&draft.text, &system)),
        }
    }
}

/// The resource id of a new item: taken once, whatever the number of attempts.
fn take_rid(taken: &mut Option<FreshRid>, place: &Place, view: &dyn Snapshot) -> Result<FreshRid> {
    match taken {
        Some(rid) => Ok(*rid),
        None => Ok(*taken.insert(place.partition().rids.take(view)?)),
    }
}

/// The place that a replaced item moves to when its id changes.
fn free_place(draft: &Draft, from: &Place, view: &dyn Snapshot) -> Result<Place> {
    let to = draft.place(&from.container);
    match view.get(Space::Items, &to.item_key)? {
        None => Ok(to),
        Some(_) => Err(exists(&draft.id)),
    }
}

fn exists(id: &str) -> Error {
    Error::conflict(format!("Entity with the specified id already exists in the system: '{id}'"))
}

struct Prepared {
    batch: Batch,
    counts: batch::Counts,
    outcome: Outcome,
}

fn outcome(live: Option<&Current>, record: Option<ItemRecord>) -> Outcome {
    let Some(record) = record else { return Outcome::Deleted };
    let change = if live.is_some() { Change::Replaced } else { Change::Created };
    Outcome::Item { etag: record.etag, body: ItemBody(record.body), change }
}
