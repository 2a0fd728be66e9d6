//! Writing one item: prepare on the caller's thread, decide in the store, and again on a conflict.
//!
//! The operations differ only in what they do given what is there, which an [`Intent`] says;
//! [`Database::write_item`] does the rest. Nothing is locked. What the decision relied on, the
//! stored version or its absence, becomes an expectation of the batch; if another commit was faster
//! the store says so, and the decision is taken again on what is there now. A write that meets a
//! partition which is being split or merged waits for the end of that, and goes where its item
//! lives then.

use std::sync::Arc;

use bytes::Bytes;
use partita_model::{Error, ErrorKind, Patch, Reservation, Result, SystemProperties, stamp};
use partita_query::Filter;
use partita_storage::{Batch, Snapshot, Space, StorageError};

use super::Items;
use super::draft::Draft;
use super::intent::{Intent, Next, Patched, exists};
use crate::changeset::{self, Counts, Effects, ItemPlace, StoredItem, Transition};
use crate::context::Work;
use crate::live::FreshRid;
use crate::memory;
use crate::op::{Change, Condition, ContainerPath, ItemBody, ItemPath, NewItem, Outcome};
use crate::record::ItemRecord;

/// How often a write is prepared before the client is asked to retry. Every conflict means that
/// another write got through, so this bounds what one request can be made to wait.
pub(super) const ATTEMPTS_MAX: usize = 100;

/// A batch of so many changes reserves their memory. Those of most items have dozens.
const LARGE_WRITES: usize = 1_024;

impl Items {
    pub(crate) async fn create_item(
        &self,
        work: &mut Work<'_>,
        container: &ContainerPath,
        item: NewItem,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, container)?.container;
        let draft = Draft::of(&container, &item)?;
        let place = draft.place(&container);
        self.write_item(work, &place, &Intent::Create(draft)).await
    }

    pub(crate) async fn upsert_item(
        &self,
        work: &mut Work<'_>,
        container: &ContainerPath,
        item: NewItem,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, container)?.container;
        let draft = Draft::of(&container, &item)?;
        let place = draft.place(&container);
        self.write_item(work, &place, &Intent::Upsert(draft, condition)).await
    }

    pub(crate) async fn replace_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        item: NewItem,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let resolved = self.core.item_container(work, &path.container)?;
        let draft = match Draft::of(&resolved.container, &item) {
            Err(error) if error.kind == ErrorKind::PartitionKeyMismatch => {
                let place = self.place_in(work, resolved, path)?;
                return self.write_item(work, &place, &Intent::Misfit(error)).await;
            }
            draft => draft?,
        };
        // Clients that send no key mean the one in the document.
        let addressed = match &path.partition_key {
            Some(_) => self.place_in(work, resolved, path)?,
            None => draft.place(&resolved.container),
        };
        self.write_item(work, &addressed, &Intent::Replace(draft, condition)).await
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
        let patched = Patched::of(&place.container, patch, filter)?;
        self.write_item(work, &place, &Intent::Patch(patched, condition)).await
    }

    pub(crate) async fn delete_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        let place = self.place(work, path)?;
        self.write_item(work, &place, &Intent::Remove(condition)).await
    }

    pub(super) async fn write_item(
        &self,
        work: &mut Work<'_>,
        place: &ItemPlace,
        intent: &Intent,
    ) -> Result<Outcome> {
        self.core.admit(work, place.live())?;
        self.moves.give_way(place.live().id).await;
        let mut moved = None;
        let written = self.write_admitted(work, place, intent, &mut moved).await;
        self.charge_item(work, moved.as_ref().unwrap_or(place));
        written
    }

    /// Writes until it is decided. `moved` is where the item is by then, if its partition was
    /// replaced by others.
    async fn write_admitted(
        &self,
        work: &mut Work<'_>,
        place: &ItemPlace,
        intent: &Intent,
        moved: &mut Option<ItemPlace>,
    ) -> Result<Outcome> {
        let mut rid = None;
        for _ in 0..ATTEMPTS_MAX {
            let place = moved.as_ref().unwrap_or(place);
            // Until the write happens, the request has cost a look at what is there.
            work.usage.reads = 1;
            let view = self.open_view(work, place)?;
            let prepared = self.prepare(work, &*view, place, intent, &mut rid)?;
            drop(view);
            let Prepared { batch, counts, effects, outcome } = prepared;
            let _until_committed = self.hold(work, &batch)?;
            let served = work.served.as_mut();
            match self.commit_items(served, place.live(), batch, effects).await {
                Ok(commit) => {
                    work.usage = counts.usage();
                    if let Some(served) = work.served.as_mut() {
                        served.item_lsn = Some(commit.lsn);
                    }
                    return Ok(outcome);
                }
                Err(error @ StorageError::Conflict { .. }) => {
                    rid = rid.filter(|_| !place.live().rids.note_conflict(&error));
                }
                Err(error) => {
                    let container = self.moves.after_move(&place.container, error).await?;
                    work.container = Some(Arc::clone(&container));
                    // Its resource id, if it got one, was one of the partition that is no more.
                    rid = None;
                    *moved = Some(place.within(container));
                }
            }
        }
        Err(Error::retry_with(
            "Conflicting request to resource has been attempted: the item is being written by many \
             requests at once. Retry to avoid conflicts.",
        ))
    }

    /// Reserves memory for a batch until it is committed: one with very many changes, or one of
    /// those that are under way together.
    fn hold(&self, work: &mut Work<'_>, batch: &Batch) -> Result<Option<Reservation>> {
        let mut held = match &work.held_in {
            Some(share) => share.reservation(memory::WRITES),
            None if batch.writes.len() < LARGE_WRITES => return Ok(None),
            None => self.core.settings.memory.share().reservation(memory::ENTRIES),
        };
        let grown = held.grow(memory::bytes_of(batch));
        work.lacks_memory = grown.is_err();
        grown.map(|()| Some(held))
    }

    /// All that a write changes, given this view of its partition.
    pub(super) fn prepare(
        &self,
        work: &mut Work<'_>,
        view: &dyn Snapshot,
        place: &ItemPlace,
        intent: &Intent,
        rid: &mut Option<FreshRid>,
    ) -> Result<Prepared> {
        let stored = self.current(work, view, place)?;
        let renewed = self.renewed(place, stored.as_ref())?;
        let place = renewed.as_ref().unwrap_or(place);
        let live = stored.as_ref().filter(|current| current.live);
        let draft = match intent.decide(place, live.map(|current| &current.record))? {
            Next::Put(draft) => Some(draft),
            Next::Remove => None,
        };
        let moved = match &draft {
            Some(draft) if draft.id != place.id => Some(free_place(draft, place, view)?),
            Some(_) | None => None,
        };
        let mut taken = None;
        let record = match &draft {
            None => None,
            Some(draft) => {
                let item_rid = match live {
                    Some(current) => current.record.rid,
                    None => {
                        let fresh = self.take_rid(rid, place, view)?;
                        taken.insert(fresh).rid
                    }
                };
                Some(self.new_record(place, draft, item_rid))
            }
        };
        let to = moved.as_ref().unwrap_or(place);
        let keeps_all = self.core.retention_minutes(&to.container) > 0;
        let (old, new) = (stored.as_ref(), record.as_ref());
        let memory = Some(&self.core.settings.memory);
        let way = Transition { from: place, to, old, new, keeps_all, memory };
        let (mut batch, counts) = changeset::build(way, view, self.core.now_seconds())?;
        self.core.check_quota(to, view, counts.grown)?;
        let rids = taken.map(|fresh| fresh.claim(&mut batch)).unwrap_or_default();
        let effects = Effects::new(&counts, rids);
        Ok(Prepared { batch, counts, effects, outcome: outcome(live, record) })
    }

    /// The same place in the container as it is now, if the stored version of the item was indexed
    /// by a policy that came after the request.
    fn renewed(&self, place: &ItemPlace, stored: Option<&StoredItem>) -> Result<Option<ItemPlace>> {
        let rid = place.container.rid;
        let version = stored.map(|current| current.record.policy_version);
        if version.is_none_or(|version| place.container.policy(version).is_some()) {
            return Ok(None);
        }
        let container = self.core.container_by_rid(rid).ok_or_else(|| {
            Error::retry_with("The container was changed while the request was served: retry")
        })?;
        Ok(Some(ItemPlace::new(container, place.key.clone(), place.id.clone())))
    }

    /// The resource id of a new item: taken once, whatever the number of attempts.
    fn take_rid(
        &self,
        taken: &mut Option<FreshRid>,
        place: &ItemPlace,
        view: &dyn Snapshot,
    ) -> Result<FreshRid> {
        match taken {
            Some(rid) => Ok(*rid),
            None => Ok(*taken.insert(place.live().rids.take(view, self.core.process)?)),
        }
    }

    fn new_record(&self, place: &ItemPlace, draft: &Draft, rid: u64) -> ItemRecord {
        let (etag, ts) = self.core.fresh_stamp();
        let container = &place.container;
        let item_rid = container.item_rid(rid).to_text();
        let self_link = [container.self_link().as_str(), "docs/", &item_rid, "/"].concat();
        let system = SystemProperties { rid: &item_rid, self_link: &self_link, etag, ts };
        ItemRecord {
            indexed: true,
            asked: draft.asked,
            policy_version: container.policies.current,
            ts: u32::try_from(ts).unwrap_or(u32::MAX),
            ttl: draft.ttl,
            etag,
            rid,
            changed: None,
            body: Bytes::from(stamp(&draft.text, &system)),
        }
    }
}

/// The place that a replaced item moves to when its id changes.
fn free_place(draft: &Draft, from: &ItemPlace, view: &dyn Snapshot) -> Result<ItemPlace> {
    // The keys are equal as values; only the one that was addressed has its place in this
    // partition.
    let to = ItemPlace::new(Arc::clone(&from.container), from.key.clone(), draft.id.clone());
    match view.get(Space::Items, &to.item_key)? {
        None => Ok(to),
        Some(_) => Err(exists(&draft.id)),
    }
}

/// A write that awaits the store's decision.
pub(super) struct Prepared {
    pub(super) batch: Batch,
    pub(super) counts: Counts,
    pub(super) effects: Effects,
    pub(super) outcome: Outcome,
}

fn outcome(live: Option<&StoredItem>, record: Option<ItemRecord>) -> Outcome {
    let Some(record) = record else { return Outcome::Deleted };
    let change = if live.is_some() { Change::Replaced } else { Change::Created };
    Outcome::Item { etag: record.etag, body: ItemBody(record.body), change }
}
