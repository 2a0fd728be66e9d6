//! Items: reading, writing and listing them.
//!
//! Every operation on one item begins the same way: the container is resolved, the key that the
//! client sent is completed and hashed, and the hash names the partition ([`ItemPlace`]). From
//! there a read is one lookup (`read.rs`), a write is prepare, submit, and again on a conflict
//! (`write.rs`), where `draft.rs` understands what was sent and `changeset/` computes everything
//! that changes with an item; `committed.rs` is what follows every commit. A feed is a query
//! without a filter (`list.rs`).

mod committed;
mod draft;
mod intent;
mod list;
mod read;
mod transaction;
mod write;

pub use transaction::Turn;

use std::sync::Arc;

use partita_model::{
    Document, Error, ErrorKind, ItemRid, PartitionKey, PartitionKeyHeader, Result,
};
use partita_storage::{Snapshot, Space};

use self::committed::LeftCommits;
use self::transaction::Turns;
use crate::catalog::{AddressedBy, Container, Resolved};
use crate::changeset::{ItemPlace, StoredItem};
use crate::context::Work;
use crate::core::Core;
use crate::keys;
use crate::moves::Moves;
use crate::op::{CONDITION_FAILED, Condition, EtagPattern, ItemPath};
use crate::pricing;
use crate::query::Queries;
use crate::record::ItemRecord;
use crate::script_runtime::Overruns;

/// The operations on items, and what is kept in memory for them.
pub(crate) struct Items {
    core: Arc<Core>,
    queries: Arc<Queries>,
    moves: Arc<Moves>,
    left: LeftCommits,
    turns: Arc<Turns>,
    overruns: Arc<Overruns>,
}

impl Items {
    /// `overruns`: which scripts exceeded their limits lately, also as functions of queries.
    pub(crate) fn new(
        core: Arc<Core>,
        queries: Arc<Queries>,
        moves: Arc<Moves>,
        overruns: Arc<Overruns>,
    ) -> Items {
        let (left, turns) = (LeftCommits::default(), Arc::default());
        Items { core, queries, moves, left, turns, overruns }
    }

    /// Finds the place of an item that a client addressed by id or by resource id.
    fn place(&self, work: &mut Work<'_>, path: &ItemPath) -> Result<ItemPlace> {
        let resolved = self.core.item_container(work, &path.container)?;
        self.place_in(work, resolved, path)
    }

    /// The id and partition key that a path means. A resource id is looked up, so the answer is the
    /// item that the operation itself would find.
    pub(crate) fn addressed_item(
        &self,
        work: &mut Work<'_>,
        path: &ItemPath,
    ) -> Result<(String, PartitionKey)> {
        let place = self.place(work, path)?;
        Ok((place.id, place.key))
    }

    /// The place in a container that was resolved before: an operation resolves its container once,
    /// so that all it does is about one container, whatever becomes of the name meanwhile.
    fn place_in(
        &self,
        work: &mut Work<'_>,
        resolved: Resolved,
        path: &ItemPath,
    ) -> Result<ItemPlace> {
        let container = resolved.container;
        let key = key_of_request(&container, path.partition_key.as_ref())?;
        let rid = match resolved.by {
            AddressedBy::Rid => {
                ItemRid::parse(&path.id).filter(|rid| rid.container == container.rid)
            }
            AddressedBy::Name => None,
        };
        let place = ItemPlace::new(container, key, path.id.clone());
        let Some(rid) = rid else { return Ok(place) };
        let snapshot = self.open_view(work, &place)?;
        let Some(pointer) = snapshot.get(Space::Index, &keys::rid(rid.item))? else {
            return Ok(place);
        };
        let components = place.container.definition.partition_key.paths.len();
        match keys::parse_item(&pointer.value, components) {
            Some(found) if found.key == place.key => {
                Ok(ItemPlace::new(place.container, place.key, found.id))
            }
            Some(_) => Err(not_found(&path.id)),
            None => Err(Error::corrupt("a resource id leads to a damaged key")),
        }
    }

    /// Opens the partition of a place: see [`Database::open_partition`].
    fn open_view(&self, work: &mut Work<'_>, place: &ItemPlace) -> Result<Box<dyn Snapshot>> {
        self.core.open_partition(work, place.partition())
    }

    /// Charges an item's partition what the operation on it has used.
    fn charge_item(&self, work: &Work<'_>, place: &ItemPlace) {
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context));
        self.core.charge(work, place.live(), charge, Some((&place.epk, &place.key)));
    }

    /// Looks an item up.
    fn current(
        &self,
        work: &mut Work<'_>,
        view: &dyn Snapshot,
        place: &ItemPlace,
    ) -> Result<Option<StoredItem>> {
        let Some(stored) = view.get(Space::Items, &place.item_key)? else { return Ok(None) };
        let record = ItemRecord::decode(&stored.value)?;
        let ttl = place.container.definition.default_ttl;
        let live = ttl.is_none() || !record.expired(ttl, self.core.now_seconds());
        if let (true, Some(served)) = (live, work.served.as_mut()) {
            served.item_lsn = Some(stored.lsn);
        }
        Ok(Some(StoredItem { record, lsn: stored.lsn, live }))
    }
}

/// The partition key that a request on one item is about.
fn key_of_request(
    container: &Container,
    header: Option<&PartitionKeyHeader>,
) -> Result<PartitionKey> {
    let definition = &container.definition.partition_key;
    match header {
        Some(header) => definition.resolve(header),
        // Clients that know no partition keys use containers made without one.
        None if definition.is_keyless() => definition.resolve(&PartitionKeyHeader(Vec::new())),
        None => Err(Error::bad_request("PartitionKey value must be supplied for this operation.")),
    }
}

/// Whether `If-Match` lets an operation on an existing item go on.
fn check_match(condition: Option<&Condition>, record: &ItemRecord) -> Result<()> {
    match condition {
        Some(Condition::Match(pattern)) if !matches(pattern, &record.etag.to_string()) => {
            Err(failed_condition("the item's ETag is another one by now"))
        }
        Some(Condition::Match(_) | Condition::NoneMatch(_)) | None => Ok(()),
    }
}

fn matches(pattern: &EtagPattern, etag: &str) -> bool {
    match pattern {
        EtagPattern::Any => true,
        EtagPattern::Exact(wanted) => wanted == etag,
    }
}

fn failed_condition(why: &str) -> Error {
    Error::precondition_failed(format!("{CONDITION_FAILED}: {why}"))
}

fn not_found(id: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "Resource Not Found. Entity with the specified id does not exist in the system. There \
             is no item with id '{id}' under this partition key"
        ),
    )
}

/// The item's own time to live: see `record.rs`.
fn item_ttl(container: &Container, document: Document<'_>) -> Result<i32> {
    let Some(raw) = document.member("ttl") else { return Ok(0) };
    let value = raw.to_value();
    let is_too_small = value.as_f64().is_some_and(|ttl| ttl < 1.0);
    match value.as_i64().and_then(|ttl| i32::try_from(ttl).ok()) {
        Some(ttl) if ttl == -1 || ttl > 0 => Ok(ttl),
        // The property means nothing as long as the container does not expire items; a number must
        // make sense all the same.
        _ if container.definition.default_ttl.is_none() && !is_too_small => Ok(0),
        _ => Err(invalid_ttl(raw.text())),
    }
}

fn invalid_ttl(text: &str) -> Error {
    Error::bad_request(format!(
        "The input ttl '{text}' is invalid. Ensure to provide a nonzero positive integer or -1 for \
         this property."
    ))
}
