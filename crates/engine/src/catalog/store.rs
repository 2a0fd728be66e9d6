//! The catalog's records in the store.
//!
//! ```text
//! Meta of the catalog partition
//!   01 database   name                → JSON
//!   02 container  database rid · name → JSON, partitions included
//!   03 offer      rid                 → JSON
//!   04 children   database or user rid → counter, touched by every child created or deleted
//!   05 ids        —                   → partition ids below it may be in use
//!   06 format     —                   → version of all formats in the store
//!   07 user       database rid · name → JSON
//!   08 permission user rid · name     → JSON
//!   0A secret     —                   → 32 random bytes, made once, that sign continuations
//!   0C script     container rid · kind · name → JSON
//!   0D scripts    container rid       → counter, touched by every script created or deleted
//!   0E key        database rid · name → JSON: a client encryption key
//!   0F grant      user rid · resource, partition key → the permission's rid: one for both; older
//!                 stores have some under 09, without the key, which nobody looks at
//! ```
//!
//! Names are in the keys, so "there is one already" is an expectation on a key. The children
//! counter lets the deletion of a database expect that no container appeared meanwhile.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use partita_model::keycode;
use partita_model::{
    Clock, ContainerRid, DatabaseRid, Entropy, Epoch, Error, ErrorKind, Lsn, Result, UserRid,
};
use partita_storage::{
    Batch, Direction, Entry, KeyRange, PartitionId, Record, ScanLimit, Snapshot, Space,
    StorageError, Store, counter,
};

use super::changes::{Changes, RecordKey, children_key, container_key};
use super::users::{self, permissions_key};
use super::{Budgets, Catalog, Container, DefaultThroughput, codec, encryption_keys, scripts};

/// The partition that holds the catalog.
pub(crate) const CATALOG: PartitionId = PartitionId(0);

pub(super) const DATABASE: u8 = 0x01;
pub(super) const CONTAINER: u8 = 0x02;
pub(super) const OFFER: u8 = 0x03;
pub(super) const CHILDREN: u8 = 0x04;
const PARTITION_IDS: u8 = 0x05;
const FORMAT: u8 = 0x06;
pub(super) const USER: u8 = 0x07;
pub(super) const PERMISSION: u8 = 0x08;
pub(super) const GRANT: u8 = 0x0F;
const SECRET: u8 = 0x0A;
pub(super) const SCRIPT: u8 = 0x0C;
pub(super) const SCRIPTS: u8 = 0x0D;
pub(super) const ENCRYPTION_KEY: u8 = 0x0E;

const FORMAT_VERSION: u64 = 2;

/// Partition ids are reserved in blocks, so that making a container costs no commit for its ids.
const PARTITION_ID_BLOCK: u64 = 1_024;

/// How often ids are looked for. Each time in vain, somebody else has reserved a block.
const RESERVING_ATTEMPTS_MAX: usize = 100;

/// Scanning the catalog goes page by page.
const LOAD_PAGE: ScanLimit = ScanLimit { entries_max: 1_000, bytes_max: 4 << 20 };

/// Reads and writes the catalog partition and keeps the copy that requests read.
pub(crate) struct CatalogStore {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    budgets: Budgets,
    current: ArcSwap<Catalog>,
    /// Held while a new copy is made from a snapshot, so that a later copy has a later snapshot.
    refreshing: Mutex<()>,
    ids: Mutex<IdBlock>,
    /// Containers as they were before they were changed, as long as an operation holds them.
    replaced: Mutex<Vec<Weak<Container>>>,
    /// Records that changed when they could not be read.
    unread: Mutex<Vec<RecordKey>>,
    secret: Vec<u8>,
}

/// The children of a database, container or user, counted.
pub(crate) struct Children {
    pub(crate) count: usize,
    /// The LSN of the last one created or deleted.
    pub(crate) lsn: Option<Lsn>,
}

/// Partitions of a container that its record does not name any more.
pub(crate) struct Unknown {
    pub(crate) container: ContainerRid,
    /// That of the container now; none if it is gone.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) ids: Vec<PartitionId>,
}

/// Partition ids that are ours to give out.
struct IdBlock {
    next: u64,
    reserved_until: u64,
}

impl CatalogStore {
    /// Opens the catalog of a store, making it if the store is new, and loads all of it.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        budgets: Budgets,
        default_throughput: DefaultThroughput,
        entropy: &dyn Entropy,
    ) -> Result<CatalogStore> {
        if !store.partitions()?.contains(&CATALOG) {
            store.create_partitions(&[CATALOG], Lsn(0))?;
        }
        let snapshot = store.snapshot(CATALOG)?;
        check_format(&*store, &*snapshot)?;
        let used = read_number(&*snapshot, PARTITION_IDS)?.unwrap_or(0);
        let catalog = load(&*snapshot, default_throughput)?;
        drop_orphans(&*store, &catalog)?;
        let secret = load_secret(&*store, &*snapshot, entropy)?;
        budgets.assign(clock.monotonic_nanos(), &catalog, catalog.all_containers());
        Ok(CatalogStore {
            store,
            clock,
            budgets,
            current: ArcSwap::from_pointee(catalog),
            refreshing: Mutex::new(()),
            ids: Mutex::new(IdBlock { next: used + 1, reserved_until: used + 1 }),
            replaced: Mutex::default(),
            unread: Mutex::default(),
            secret,
        })
    }

    /// The catalog as of now.
    pub(crate) fn current(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// What the store's continuations are signed with.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Commits changes and shows them to the requests that come after. After a conflict the copy is
    /// brought up to date as well, so that preparing again sees what was in the way.
    pub(crate) async fn commit(&self, changes: Changes) -> std::result::Result<(), StorageError> {
        let committed = self.store.submit(CATALOG, changes.batch).await;
        if matches!(committed, Ok(_) | Err(StorageError::Conflict { .. })) {
            self.refresh(&changes.touched).map_err(|error| match error.kind {
                // The store failed meanwhile: all of the copy is read when it is open again.
                ErrorKind::Unavailable => StorageError::Poisoned(error.to_string()),
                ErrorKind::Corrupt => StorageError::Corrupt(error.to_string()),
                _ => StorageError::Io(error.to_string()),
            })?;
        }
        committed.map(|_| ())
    }

    /// How many containers, users and keys a database has, straight from the store.
    pub(crate) fn children(&self, database: DatabaseRid) -> Result<Children> {
        self.counted(&children_key(database))
    }

    /// How many permissions a user has, straight from the store.
    pub(crate) fn permission_count(&self, user: UserRid) -> Result<Children> {
        self.counted(&permissions_key(user))
    }

    /// How many scripts a container has, straight from the store.
    pub(crate) fn script_count(&self, container: ContainerRid) -> Result<Children> {
        self.counted(&scripts::scripts_key(container))
    }

    fn counted(&self, key: &[u8]) -> Result<Children> {
        let snapshot = self.store.snapshot(CATALOG)?;
        match snapshot.get(Space::Meta, key)? {
            None => Ok(Children { count: 0, lsn: None }),
            Some(record) => {
                let count = usize::try_from(counter(&record.value)?).unwrap_or(0);
                Ok(Children { count, lsn: Some(record.lsn) })
            }
        }
    }

    /// Ids for new partitions. A block is reserved durably before any id of it is used, so an id is
    /// never used twice, not even when the process dies between making a partition and its record.
    pub(crate) async fn take_partition_ids(&self, count: usize) -> Result<Vec<PartitionId>> {
        let count = count as u64;
        for _ in 0..RESERVING_ATTEMPTS_MAX {
            if let Some(ids) = self.take_reserved_ids(count) {
                return Ok(ids);
            }
            self.reserve_ids(count.max(PARTITION_ID_BLOCK)).await?;
        }
        Err(Error::retry_with("many partitions are being made at once: retry"))
    }

    /// Reserves a block of ids behind all that are reserved, by whatever process. If another
    /// reservation comes first there may be ids or not; who needs some looks again.
    async fn reserve_ids(&self, block: u64) -> Result<()> {
        let key = vec![PARTITION_IDS];
        let (mut used, mut batch) = (0, Batch::new());
        match self.store.snapshot(CATALOG)?.get(Space::Meta, &key)? {
            Some(record) => {
                used = number(&record, PARTITION_IDS)?;
                batch.expect_unchanged(Space::Meta, key.clone(), record.lsn);
            }
            None => batch.expect_absent(Space::Meta, key.clone()),
        }
        batch.put(Space::Meta, key, (used + block).to_be_bytes().to_vec());
        match self.store.submit(CATALOG, batch).await {
            Ok(_) => {
                let (next, reserved_until) = (used + 1, used + 1 + block);
                let mut ids = lock(&self.ids);
                // Blocks may be noted in another order than they were reserved in: none goes back.
                if next >= ids.reserved_until {
                    *ids = IdBlock { next, reserved_until };
                }
                Ok(())
            }
            Err(StorageError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn take_reserved_ids(&self, count: u64) -> Option<Vec<PartitionId>> {
        let mut ids = lock(&self.ids);
        let until = ids.next + count;
        if until > ids.reserved_until {
            return None;
        }
        let taken = (ids.next..until).map(PartitionId).collect();
        ids.next = until;
        Some(taken)
    }

    /// Reads what changed when it could not be read, if there is such.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let is_through = lock(&self.unread).is_empty();
        if is_through { Ok(()) } else { self.refresh(&[]) }
    }

    /// Brings the copy up to date with these records, and with those that could not be read before.
    fn refresh(&self, touched: &[RecordKey]) -> Result<()> {
        let _order = lock(&self.refreshing);
        let mut keys = lock(&self.unread).clone();
        keys.extend(touched.iter().filter(|key| !keys.contains(key)).cloned().collect::<Vec<_>>());
        let read = self.read_records(&keys);
        *lock(&self.unread) = if read.is_ok() { Vec::new() } else { keys };
        read
    }

    fn read_records(&self, touched: &[RecordKey]) -> Result<()> {
        let snapshot = self.store.snapshot(CATALOG)?;
        let mut copy = Catalog::clone(&self.current.load());
        for key in touched {
            let before = container_of(&copy, key);
            apply(&mut copy, key, snapshot.get(Space::Meta, &key.encode())?)?;
            if let Some(before) = before {
                // Noted before anybody can see the new one.
                let mut replaced = lock(&self.replaced);
                replaced.retain(|held| held.strong_count() > 0);
                replaced.push(Arc::downgrade(&before));
            }
        }
        let limited = touched.iter().flat_map(|key| copy.limited_by(key));
        self.budgets.assign(self.clock.monotonic_nanos(), &copy, limited);
        self.current.store(Arc::new(copy));
        Ok(())
    }

    /// Reads all of it again: what became of commits whose end was unknown. Answers what the copy
    /// knew and the store does not any more.
    pub(crate) fn reload(&self) -> Result<Vec<Unknown>> {
        let _order = lock(&self.refreshing);
        let snapshot = self.store.snapshot(CATALOG)?;
        let known = self.current.load_full();
        let mut copy = load(&*snapshot, known.default_throughput)?;
        let mut unknown = Vec::new();
        for before in known.all_containers() {
            let now = copy.container_by_rid(before.rid).cloned();
            let ids: Vec<PartitionId> = before.partition_ids().collect();
            let epoch = now.as_ref().map(|now| now.epoch);
            let remaining: HashSet<PartitionId> =
                now.iter().flat_map(|now| now.partition_ids()).collect();
            if let Some(now) = now {
                let now = Container::clone(&now).with_live(Some(before));
                copy.insert_container(Arc::new(now));
            }
            let ids: Vec<PartitionId> =
                ids.into_iter().filter(|id| !remaining.contains(id)).collect();
            if !ids.is_empty() {
                unknown.push(Unknown { container: before.rid, epoch, ids });
            }
            lock(&self.replaced).push(Arc::downgrade(before));
        }
        self.budgets.assign(self.clock.monotonic_nanos(), &copy, copy.all_containers());
        self.current.store(Arc::new(copy));
        lock(&self.unread).clear();
        Ok(unknown)
    }

    /// Brings the copy of a container up to date.
    pub(crate) fn read_again(&self, container: &Container) -> Result<()> {
        self.refresh(&[container_key(container)])
    }

    /// Has this container still the indexing policy that it is known with? Items are written under
    /// another one only after this has become false, so a view that was taken before a yes shows
    /// none of them.
    pub(crate) fn has_policy_of(&self, container: &Container) -> bool {
        let catalog = self.current();
        let known = catalog.container_by_rid(container.rid);
        known.is_some_and(|known| known.policies.current == container.policies.current)
    }

    /// Does an operation under way know this container under another indexing policy? It may know
    /// it as it was several changes ago.
    pub(crate) fn is_held(&self, container: &Container) -> bool {
        let is_other = |held: Arc<Container>| {
            held.rid == container.rid && held.policies.current != container.policies.current
        };
        lock(&self.replaced).iter().filter_map(Weak::upgrade).any(is_other)
    }

    /// Does an operation under way know this container as it was before an epoch?
    pub(crate) fn is_held_before(&self, rid: ContainerRid, epoch: Epoch) -> bool {
        let is_older = |held: Arc<Container>| held.rid == rid && held.epoch < epoch;
        lock(&self.replaced).iter().filter_map(Weak::upgrade).any(is_older)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The container that a record is about.
fn container_of(catalog: &Catalog, key: &RecordKey) -> Option<Arc<Container>> {
    let RecordKey::Container { database, name } = key else { return None };
    let contents = catalog.databases.get(database)?;
    contents.containers.get(contents.names.get(name)?).cloned()
}

/// Applies a stored record, or its absence, to a copy of the catalog.
fn apply(catalog: &mut Catalog, key: &RecordKey, record: Option<Record>) -> Result<()> {
    match (key, record) {
        (RecordKey::Database { .. }, Some(record)) => {
            catalog.insert_database(Arc::new(codec::database(&record)?));
        }
        (RecordKey::Database { name }, None) => catalog.remove_database(name),
        (RecordKey::Container { database, .. }, Some(record)) => {
            insert_container(catalog, *database, &record)?;
        }
        (RecordKey::Container { database, name }, None) => {
            catalog.remove_container(*database, name);
        }
        (RecordKey::Offer { .. }, Some(record)) => {
            catalog.insert_offer(Arc::new(codec::offer(&record)?));
        }
        (RecordKey::Offer { rid }, None) => catalog.remove_offer(*rid),
        (RecordKey::User { .. }, Some(record)) => {
            catalog.insert_user(Arc::new(users::user(&record)?));
        }
        (RecordKey::User { database, name }, None) => catalog.remove_user(*database, name),
        (RecordKey::Permission { .. }, Some(record)) => {
            catalog.insert_permission(Arc::new(users::permission(&record)?));
        }
        (RecordKey::Permission { user, name }, None) => catalog.remove_permission(*user, name),
        (RecordKey::Script { .. }, Some(record)) => {
            catalog.insert_script(Arc::new(scripts::script(&record)?));
        }
        (RecordKey::Script { container, kind, name }, None) => {
            catalog.remove_script(*container, *kind, name);
        }
        (RecordKey::EncryptionKey { .. }, Some(record)) => {
            catalog.insert_encryption_key(Arc::new(encryption_keys::encryption_key(&record)?));
        }
        (RecordKey::EncryptionKey { database, name }, None) => {
            catalog.remove_encryption_key(*database, name);
        }
    }
    Ok(())
}

fn insert_container(catalog: &mut Catalog, database: DatabaseRid, record: &Record) -> Result<()> {
    // A database that went away in the same moment takes its containers along.
    let Some(contents) = catalog.databases.get(&database) else { return Ok(()) };
    let container = codec::container(&contents.database, record)?;
    let old = contents.containers.get(&container.rid).map(Arc::clone);
    let container = container.with_live(old.as_deref());
    catalog.insert_container(Arc::new(container));
    Ok(())
}

fn load(snapshot: &dyn Snapshot, default_throughput: DefaultThroughput) -> Result<Catalog> {
    let mut catalog = Catalog::new(default_throughput);
    // Before the containers: these are given offers if they have none.
    for entry in family(snapshot, OFFER)? {
        catalog.insert_offer(Arc::new(codec::offer(&entry.record)?));
    }
    for entry in family(snapshot, DATABASE)? {
        catalog.insert_database(Arc::new(codec::database(&entry.record)?));
    }
    for entry in family(snapshot, CONTAINER)? {
        let database = keycode::Reader::new(entry.key.get(1..).unwrap_or_default()).u64();
        let database = database.and_then(|rid| u32::try_from(rid).ok()).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the key of a container's record is damaged")
        })?;
        insert_container(&mut catalog, DatabaseRid(database), &entry.record)?;
    }
    for entry in family(snapshot, USER)? {
        catalog.insert_user(Arc::new(users::user(&entry.record)?));
    }
    for entry in family(snapshot, PERMISSION)? {
        catalog.insert_permission(Arc::new(users::permission(&entry.record)?));
    }
    for entry in family(snapshot, SCRIPT)? {
        catalog.insert_script(Arc::new(scripts::script(&entry.record)?));
    }
    for entry in family(snapshot, ENCRYPTION_KEY)? {
        catalog.insert_encryption_key(Arc::new(encryption_keys::encryption_key(&entry.record)?));
    }
    Ok(catalog)
}

fn family(snapshot: &dyn Snapshot, tag: u8) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut start = Bound::Included(vec![tag]);
    loop {
        let range = KeyRange { start, end: Bound::Excluded(vec![tag + 1]) };
        let page = snapshot.scan(Space::Meta, &range, Direction::Forward, LOAD_PAGE)?;
        let more = page.more;
        entries.extend(page.entries);
        match entries.last() {
            Some(last) if more => start = Bound::Excluded(last.key.to_vec()),
            _ => return Ok(entries),
        }
    }
}

/// Partitions that no container knows are left over from a creation, deletion or move that was cut
/// off.
fn drop_orphans(store: &dyn Store, catalog: &Catalog) -> Result<()> {
    let known: HashSet<PartitionId> = catalog
        .all_containers()
        .flat_map(|container| container.partition_ids())
        .chain([CATALOG])
        .collect();
    let orphans: Vec<PartitionId> =
        store.partitions()?.into_iter().filter(|id| !known.contains(id)).collect();
    if !orphans.is_empty() {
        tracing::info!(partitions = orphans.len(), "dropping partitions of unfinished changes");
        store.drop_partitions(&orphans)?;
    }
    Ok(())
}

fn check_format(store: &dyn Store, snapshot: &dyn Snapshot) -> Result<()> {
    match read_number(snapshot, FORMAT)? {
        Some(FORMAT_VERSION) => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the data has format {other}, this version reads format {FORMAT_VERSION}; \
                 use the version that wrote it, or export and import"
            ),
        )),
        None => {
            let mut batch = Batch::new();
            batch.put(Space::Meta, vec![FORMAT], FORMAT_VERSION.to_be_bytes().to_vec());
            store.submit(CATALOG, batch).wait()?;
            Ok(())
        }
    }
}

/// The store's secret, made if it has none yet.
fn load_secret(
    store: &dyn Store,
    snapshot: &dyn Snapshot,
    entropy: &dyn Entropy,
) -> Result<Vec<u8>> {
    if let Some(record) = snapshot.get(Space::Meta, &[SECRET])? {
        return Ok(record.value.to_vec());
    }
    let fresh: Vec<u8> = (0..4).flat_map(|_| entropy.next_u64().to_be_bytes()).collect();
    let mut batch = Batch::new();
    batch.expect_absent(Space::Meta, vec![SECRET]);
    batch.put(Space::Meta, vec![SECRET], fresh.clone());
    match store.submit(CATALOG, batch).wait() {
        Ok(_) => Ok(fresh),
        // Another server on the same store was faster.
        Err(StorageError::Conflict { .. }) => {
            match store.snapshot(CATALOG)?.get(Space::Meta, &[SECRET])? {
                Some(record) => Ok(record.value.to_vec()),
                None => Err(Error::corrupt("the catalog's secret is there and is not")),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn read_number(snapshot: &dyn Snapshot, tag: u8) -> Result<Option<u64>> {
    let record = snapshot.get(Space::Meta, &[tag])?;
    record.map(|record| number(&record, tag)).transpose()
}

fn number(record: &Record, tag: u8) -> Result<u64> {
    let bytes: [u8; 8] = record.value.as_ref().try_into().map_err(|_| {
        Error::new(ErrorKind::Corrupt, format!("the catalog's number {tag} is damaged"))
    })?;
    Ok(u64::from_be_bytes(bytes))
}
