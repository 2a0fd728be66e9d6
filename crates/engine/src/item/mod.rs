//! Items: reading, writing and listing them.
//!
//! Every operation on one item begins the same way: the container is resolved, the key that the
//! client sent is completed and hashed, and the hash names the partition ([`Place`]). From there a
//! read is one lookup (`read.rs`), a write is prepare, submit, and again on a conflict
//! (`write.rs`), where `draft.rs` understands what was sent and `batch.rs` computes everything that
//! changes with an item; `committed.rs` is what follows every commit. A feed is a query without a
//! filter (`list.rs`).

mod addressed;
mod arrivals;
mod batch;
mod committed;
mod draft;
mod intent;
mod list;
mod read;
mod transaction;
mod write;

pub(crate) use arrivals::Arrivals;
pub(crate) use batch::{brought_over, derived, removal_of_expired};
pub(crate) use committed::LeftCommits;
pub(crate) use list::scope_epks;
pub use transaction::Turn;
pub(crate) use transaction::{Overruns, Turns};

use std::sync::Arc;

use partita_model::{
    Consistency, Document, Epk, Error, ErrorKind, ItemRid, Lsn, PartitionKey, PartitionKeyHeader,
    Result,
};
use partita_storage::{Snapshot, Space};

use crate::catalog::{AddressedBy, Container, Partition, Resolved};
use crate::context::{Context, Work};
use crate::database::Database;
use crate::keys;
use crate::op::{Condition, ContainerPath, EtagPattern, ItemPath, Served};
use crate::pricing;
use crate::record::ItemRecord;
use crate::session;
use crate::throughput::Home;

/// Where an item lives, or would live.
#[derive(Debug)]
struct Place {
    container: Arc<Container>,
    /// Index into the container's partitions.
    partition: usize,
    epk: Epk,
    key: PartitionKey,
    id: String,
    item_key: Vec<u8>,
}

impl Place {
    fn new(container: Arc<Container>, key: PartitionKey, id: String) -> Place {
        let epk = container.definition.partition_key.epk(&key);
        let item_key = keys::item(&epk, &key, &id);
        Place { partition: container.partition_index(&epk), container, epk, key, id, item_key }
    }

    fn partition(&self) -> &Partition {
        &self.container.partitions[self.partition]
    }

    /// The same place in the container as it is after its partitions have changed.
    fn within(&self, container: Arc<Container>) -> Place {
        Place {
            partition: container.partition_index(&self.epk),
            container,
            epk: self.epk.clone(),
            key: self.key.clone(),
            id: self.id.clone(),
            item_key: self.item_key.clone(),
        }
    }

    /// The logical partition.
    fn home(&self) -> Home<'_> {
        let (container, partition) = (&*self.container, self.partition());
        Home { container, partition, epk: &self.epk, key: &self.key }
    }
}

/// A stored item with the LSN of its last write.
#[derive(Debug)]
struct Current {
    record: ItemRecord,
    lsn: Lsn,
    /// False for an item that has outlived its time and was not removed yet.
    live: bool,
}

impl Database {
    /// Resolves the container of an operation on what is in it, and checks that it is the one the
    /// client means.
    pub(crate) fn item_container(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
    ) -> Result<Resolved> {
        let resolved = self.catalog.current().parent_container(path)?;
        work.container = Some(Arc::clone(&resolved.container));
        self.check_intended(work, &resolved.container)?;
        Ok(resolved)
    }

    /// Finds the place of an item that a client addressed by id or by resource id.
    fn place(&self, work: &mut Work<'_>, path: &ItemPath) -> Result<Place> {
        let resolved = self.item_container(work, &path.container)?;
        self.place_in(work, resolved, path)
    }

    /// The same in a container that was resolved before: an operation resolves its container once,
    /// so that all it does is about one container, whatever becomes of the name meanwhile.
    fn place_in(&self, work: &mut Work<'_>, resolved: Resolved, path: &ItemPath) -> Result<Place> {
        let container = resolved.container;
        let key = key_of_request(&container, path.partition_key.as_ref())?;
        let rid = match resolved.by {
            AddressedBy::Rid => {
                ItemRid::parse(&path.id).filter(|rid| rid.container == container.rid)
            }
            AddressedBy::Name => None,
        };
        let place = Place::new(container, key, path.id.clone());
        let Some(rid) = rid else { return Ok(place) };
        let snapshot = self.open_view(work, &place)?;
        let Some(pointer) = snapshot.get(Space::Index, &keys::rid(rid.item))? else {
            return Ok(place);
        };
        let components = place.container.definition.partition_key.paths.len();
        match keys::parse_item(&pointer.value, components) {
            Some(found) if found.key == place.key => {
                Ok(Place::new(place.container, place.key, found.id))
            }
            Some(_) => Err(not_found(&path.id)),
            None => Err(Error::corrupt("a resource id leads to a damaged key")),
        }
    }

    /// Opens the partition of a place: see [`Database::open_partition`].
    fn open_view(&self, work: &mut Work<'_>, place: &Place) -> Result<Box<dyn Snapshot>> {
        self.open_partition(work, place.partition())
    }

    /// Opens a partition as of now and notes how far it is, so that also an error can tell.
    pub(crate) fn open_partition(
        &self,
        work: &mut Work<'_>,
        partition: &Partition,
    ) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.store.snapshot(partition.id)?;
        let served = Served { range_id: partition.range_id, lsn: snapshot.lsn(), item_lsn: None };
        work.served = Some(served);
        Ok(snapshot)
    }

    /// Charges an item's partition what the operation on it has used.
    fn settle_item(&self, work: &Work<'_>, place: &Place) {
        let charge = pricing::charge(&work.usage, self.consistency(work.context));
        self.settle(work, place.partition(), charge, Some((&place.epk, &place.key)));
    }

    /// Fails if a client under session consistency has seen more of the partition than this.
    pub(crate) fn check_session(
        &self,
        work: &Work<'_>,
        partition: &Partition,
        lsn: Lsn,
    ) -> Result<()> {
        match &work.context.session {
            Some(token) if self.consistency(work.context) == Consistency::Session => {
                session::check(token, partition, lsn)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a write whose session token makes no sense, before anything is looked at.
    pub(crate) fn check_session_form(&self, context: &Context) -> Result<()> {
        match &context.session {
            Some(token) if self.consistency(context) == Consistency::Session => {
                session::check_form(token)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Looks an item up.
    fn current(
        &self,
        work: &mut Work<'_>,
        view: &dyn Snapshot,
        place: &Place,
    ) -> Result<Option<Current>> {
        let Some(stored) = view.get(Space::Items, &place.item_key)? else { return Ok(None) };
        let record = ItemRecord::decode(&stored.value)?;
        let ttl = place.container.definition.default_ttl;
        let live = ttl.is_none() || !record.expired(ttl, self.now_seconds());
        if let (true, Some(served)) = (live, work.served.as_mut()) {
            served.item_lsn = Some(stored.lsn);
        }
        Ok(Some(Current { record, lsn: stored.lsn, live }))
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

/// The service has two sentences for this, and clients look for either.
pub(crate) const CONDITION_FAILED: &str = "Operation cannot be performed because one of the \
    specified precondition is not met. One of the specified pre-condition is not met";

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
