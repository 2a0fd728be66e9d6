//! The catalog: which databases, containers, offers, users, scripts and partitions there are.
//!
//! The truth is a set of small records in the catalog's own partition of the store (`store.rs`).
//! Requests read a copy in memory, an immutable [`Catalog`] behind an `Arc`: resolving a container
//! takes no lock and no I/O. Changes are batches with expectations, as every write; after a commit
//! the touched records are read back from a fresh snapshot and a new copy replaces the old one
//! (`changes.rs`), so the copy moves only forward, whatever order the commits' waiters wake in.
//!
//! A path is resolved by names first and by resource ids second (`resolve.rs`).

mod budgets;
mod changes;
mod codec;
mod default_offers;
mod encryption_keys;
mod former;
mod resolve;
mod resource;
mod scripts;
mod store;
mod users;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use partita_model::{ContainerRid, DatabaseRid, OfferRid};

pub(crate) use budgets::{Budgets, slot_count};
pub(crate) use changes::Changes;
use changes::RecordKey;
pub(crate) use default_offers::ASKED_FOR_BITS;
pub use default_offers::DefaultThroughput;
pub use encryption_keys::EncryptionKey;
use encryption_keys::EncryptionKeys;
pub(crate) use former::FormerRanges;
pub(crate) use resolve::{AddressedBy, Resolved};
pub use resource::{Container, Database, Move, Observed, Offer, Partition, Policies};
use scripts::Scripts;
pub use scripts::{StoredScript, Trigger, TriggerMoment, TriggerOperation};
pub(crate) use store::CatalogStore;
use users::Users;
pub use users::{Owner, Permission, PermissionMode, Target, User};
pub use value::KeyRequired;

/// All resources at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    names: HashMap<String, DatabaseRid>,
    databases: BTreeMap<DatabaseRid, Arc<Contents>>,
    offers: BTreeMap<OfferRid, Arc<Offer>>,
    offer_of: HashMap<String, OfferRid>,
    default_throughput: DefaultThroughput,
}

/// A database with its containers, their scripts, its users and its client encryption keys.
#[derive(Clone, Debug)]
struct Contents {
    database: Arc<Database>,
    names: HashMap<String, ContainerRid>,
    containers: BTreeMap<ContainerRid, Arc<Container>>,
    scripts: BTreeMap<ContainerRid, Arc<Scripts>>,
    users: Arc<Users>,
    encryption_keys: Arc<EncryptionKeys>,
}

impl Catalog {
    pub(crate) fn new(default_throughput: DefaultThroughput) -> Catalog {
        Catalog { default_throughput, ..Catalog::default() }
    }

    /// All databases in the order of their resource ids.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values().map(|contents| &contents.database)
    }

    /// All containers of a database in the order of their resource ids.
    pub(crate) fn containers(
        &self,
        database: DatabaseRid,
    ) -> impl Iterator<Item = &Arc<Container>> {
        self.databases.get(&database).into_iter().flat_map(|contents| contents.containers.values())
    }

    pub(crate) fn container_by_rid(&self, rid: ContainerRid) -> Option<&Arc<Container>> {
        self.databases.get(&rid.database)?.containers.get(&rid)
    }

    /// All containers of all databases.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.databases.values().flat_map(|contents| contents.containers.values())
    }

    /// All offers in the order of their resource ids.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.offers.values()
    }

    pub(crate) fn offer(&self, rid: OfferRid) -> Option<&Arc<Offer>> {
        self.offers.get(&rid)
    }

    /// The offer of a database or container, by the owner's resource id.
    pub(crate) fn offer_of(&self, owner_rid: &str) -> Option<&Arc<Offer>> {
        self.offers.get(self.offer_of.get(owner_rid)?)
    }

    /// The offer that tells a container's throughput: its own, or its database's.
    pub(crate) fn offer_for(&self, container: &Container) -> Option<&Arc<Offer>> {
        let own = self.offer_of(&container.rid.to_string());
        own.or_else(|| self.offer_of(&container.database.rid.to_string()))
    }

    /// The same, if the container's requests are limited by it.
    pub(crate) fn throughput_of(&self, container: &Container) -> Option<&Arc<Offer>> {
        self.offer_for(container).filter(|offer| self.limits(offer))
    }

    /// Does an offer limit what its owner may use, or is it only shown?
    pub(crate) fn limits(&self, offer: &Offer) -> bool {
        offer.asked_for || self.default_throughput == DefaultThroughput::Enforced
    }

    /// The containers whose throughput a record of the catalog decides.
    fn limited_by(&self, key: &RecordKey) -> Vec<&Arc<Container>> {
        let by_name = |database, name: &str| {
            let contents = self.databases.get(database)?;
            contents.containers.get(contents.names.get(name)?)
        };
        match key {
            RecordKey::Container { database, name } => {
                by_name(database, name).into_iter().collect()
            }
            RecordKey::Offer { rid } => {
                let Some(offer) = self.offer(*rid) else { return Vec::new() };
                match DatabaseRid::parse(&offer.owner_rid) {
                    Some(database) => self.containers(database).collect(),
                    None => {
                        let owner = ContainerRid::parse(&offer.owner_rid);
                        let found = owner.and_then(|rid| {
                            self.databases.get(&rid.database)?.containers.get(&rid)
                        });
                        found.into_iter().collect()
                    }
                }
            }
            RecordKey::Database { .. }
            | RecordKey::User { .. }
            | RecordKey::Permission { .. }
            | RecordKey::Script { .. }
            | RecordKey::EncryptionKey { .. } => Vec::new(),
        }
    }

    /// Adds or replaces a database; one of the same name and another id is gone by that.
    pub(crate) fn insert_database(&mut self, database: Arc<Database>) {
        if let Some(former) = self.names.insert(database.name.clone(), database.rid)
            && former != database.rid
        {
            self.remove_contents(former);
        }
        let contents = match self.databases.get(&database.rid) {
            Some(old) => Contents { database: Arc::clone(&database), ..(**old).clone() },
            None => Contents {
                database: Arc::clone(&database),
                names: HashMap::new(),
                containers: BTreeMap::new(),
                scripts: BTreeMap::new(),
                users: Arc::default(),
                encryption_keys: Arc::default(),
            },
        };
        self.databases.insert(database.rid, Arc::new(contents));
    }

    pub(crate) fn remove_database(&mut self, name: &str) {
        if let Some(rid) = self.names.remove(name) {
            self.remove_contents(rid);
        }
    }

    fn remove_contents(&mut self, database: DatabaseRid) {
        if let Some(contents) = self.databases.remove(&database) {
            contents.containers.keys().for_each(|rid| self.hide_default_offer(*rid));
        }
    }

    /// Adds or replaces a container; one of the same name and another id is gone by that.
    pub(crate) fn insert_container(&mut self, container: Arc<Container>) {
        let Some(contents) = self.databases.get_mut(&container.rid.database) else { return };
        let contents = Arc::make_mut(contents);
        let name = container.definition.name.clone();
        let former = contents.names.insert(name, container.rid).filter(|rid| *rid != container.rid);
        if let Some(former) = former {
            contents.containers.remove(&former);
            contents.scripts.remove(&former);
        }
        contents.containers.insert(container.rid, Arc::clone(&container));
        if let Some(former) = former {
            self.hide_default_offer(former);
        }
        self.show_default_offer(&container);
    }

    pub(crate) fn remove_container(&mut self, database: DatabaseRid, name: &str) {
        if let Some(contents) = self.databases.get_mut(&database) {
            let contents = Arc::make_mut(contents);
            if let Some(rid) = contents.names.remove(name) {
                contents.containers.remove(&rid);
                contents.scripts.remove(&rid);
                self.hide_default_offer(rid);
            }
        }
    }

    /// Adds or replaces an offer; another one of the same owner is gone by that.
    pub(crate) fn insert_offer(&mut self, offer: Arc<Offer>) {
        if let Some(former) = self.offer_of.insert(offer.owner_rid.clone(), offer.rid)
            && former != offer.rid
        {
            self.offers.remove(&former);
        }
        self.offers.insert(offer.rid, offer);
    }

    /// Removes an offer that was stored; one that nobody asked for never was.
    pub(crate) fn remove_offer(&mut self, rid: OfferRid) {
        if self.offer(rid).is_some_and(|offer| offer.asked_for)
            && let Some(offer) = self.offers.remove(&rid)
        {
            self.offer_of.remove(&offer.owner_rid);
        }
    }
}
