//! Changes to the catalog, gathered into one batch.
//!
//! Every change says what it relies on: a name that is free, a record that is still as it was read,
//! a database without new containers. So two clients that create the same container at once get one
//! success and one conflict, and a database is never deleted under a container that is being made.

use partita_model::keycode;
use partita_model::{ContainerRid, DatabaseRid, Lsn, OfferRid, ScriptKind, UserRid};
use partita_storage::{Batch, Space};

use super::store::{CHILDREN, CONTAINER, DATABASE, OFFER};
use super::{Container, Database, Offer, codec, encryption_keys, scripts, users};

/// Names a record of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordKey {
    Database { name: String },
    Container { database: DatabaseRid, name: String },
    Offer { rid: OfferRid },
    User { database: DatabaseRid, name: String },
    Permission { user: UserRid, name: String },
    Script { container: ContainerRid, kind: ScriptKind, name: String },
    EncryptionKey { database: DatabaseRid, name: String },
}

impl RecordKey {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        match self {
            RecordKey::Database { name } => {
                out.push(DATABASE);
                keycode::put_str(&mut out, name);
            }
            RecordKey::Container { database, name } => {
                out.push(CONTAINER);
                keycode::put_u64(&mut out, u64::from(database.0));
                keycode::put_str(&mut out, name);
            }
            RecordKey::Offer { rid } => {
                out.push(OFFER);
                keycode::put_u64(&mut out, u64::from(rid.0));
            }
            RecordKey::User { database, name } => return users::user_key(*database, name),
            RecordKey::Permission { user, name } => return users::permission_key(*user, name),
            RecordKey::Script { container, kind, name } => {
                return scripts::script_key(*container, *kind, name);
            }
            RecordKey::EncryptionKey { database, name } => {
                return encryption_keys::encryption_key_key(*database, name);
            }
        }
        out
    }
}

/// The counter of a database's containers, users and client encryption keys.
pub(crate) fn children_key(database: DatabaseRid) -> Vec<u8> {
    let mut out = vec![CHILDREN];
    keycode::put_u64(&mut out, u64::from(database.0));
    out
}

/// A batch for the catalog and the records it is about.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(super) batch: Batch,
    /// What the batch writes or relies on.
    pub(super) touched: Vec<RecordKey>,
}

impl Changes {
    pub(crate) fn create_database(&mut self, database: &Database) {
        self.create(database_key(database), codec::encode_database(database));
    }

    /// Deletes a database; `children` is the LSN of its last child created or deleted.
    pub(crate) fn delete_database(&mut self, database: &Database, children: Option<Lsn>) {
        self.delete(database_key(database), database.lsn);
        self.delete_counter(children_key(database.rid), children);
    }

    /// Deletes a counter, expecting that nobody counted since its LSN.
    pub(super) fn delete_counter(&mut self, key: Vec<u8>, lsn: Option<Lsn>) {
        match lsn {
            Some(lsn) => {
                self.batch.expect_unchanged(Space::Meta, key.clone(), lsn);
                self.batch.delete(Space::Meta, key);
            }
            None => self.batch.expect_absent(Space::Meta, key),
        }
    }

    pub(crate) fn create_container(&mut self, container: &Container) {
        let database = &container.database;
        let parent = database_key(database);
        self.batch.expect_unchanged(Space::Meta, parent.encode(), database.lsn);
        self.touched.push(parent);
        self.batch.add(Space::Meta, children_key(database.rid), 1);
        self.create(container_key(container), codec::encode_container(container));
    }

    pub(crate) fn replace_container(&mut self, container: &Container) {
        let key = container_key(container);
        self.replace(key, container.lsn, codec::encode_container(container));
    }

    pub(crate) fn delete_container(&mut self, container: &Container) {
        self.batch.add(Space::Meta, children_key(container.rid.database), -1);
        self.delete(container_key(container), container.lsn);
    }

    /// Deletes a container together with its database, whose deletion guards the set.
    pub(crate) fn delete_container_with_database(&mut self, container: &Container) {
        self.delete(container_key(container), container.lsn);
    }

    pub(crate) fn create_offer(&mut self, offer: &Offer) {
        self.create(RecordKey::Offer { rid: offer.rid }, codec::encode_offer(offer));
    }

    pub(crate) fn replace_offer(&mut self, offer: &Offer) {
        self.replace(RecordKey::Offer { rid: offer.rid }, offer.lsn, codec::encode_offer(offer));
    }

    /// Stores the offer that a container had without anybody asking for it.
    pub(crate) fn take_up_offer(&mut self, offer: &Offer, container: &Container) {
        let owner = container_key(container);
        self.batch.expect_unchanged(Space::Meta, owner.encode(), container.lsn);
        self.touched.push(owner);
        self.create_offer(offer);
    }

    /// Deletes an offer, or expects that nobody asks for it meanwhile.
    pub(crate) fn delete_offer(&mut self, offer: &Offer) {
        let key = RecordKey::Offer { rid: offer.rid };
        if offer.asked_for {
            return self.delete(key, offer.lsn);
        }
        self.batch.expect_absent(Space::Meta, key.encode());
        self.touched.push(key);
    }

    pub(super) fn create(&mut self, key: RecordKey, value: Vec<u8>) {
        self.batch.expect_absent(Space::Meta, key.encode());
        self.batch.put(Space::Meta, key.encode(), value);
        self.touched.push(key);
    }

    pub(super) fn replace(&mut self, key: RecordKey, lsn: Lsn, value: Vec<u8>) {
        self.batch.expect_unchanged(Space::Meta, key.encode(), lsn);
        self.batch.put(Space::Meta, key.encode(), value);
        self.touched.push(key);
    }

    pub(super) fn delete(&mut self, key: RecordKey, lsn: Lsn) {
        self.batch.frees = true;
        self.batch.expect_unchanged(Space::Meta, key.encode(), lsn);
        self.batch.delete(Space::Meta, key.encode());
        self.touched.push(key);
    }
}

pub(super) fn database_key(database: &Database) -> RecordKey {
    RecordKey::Database { name: database.name.clone() }
}

pub(super) fn container_key(container: &Container) -> RecordKey {
    let name = container.definition.name.clone();
    RecordKey::Container { database: container.rid.database, name }
}
