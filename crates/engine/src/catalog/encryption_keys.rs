//! Client encryption keys, as the catalog has them.
//!
//! Applications encrypt properties of items with data keys. A data key is kept here, wrapped by a
//! master key that this database never sees; what is stored says with which, and comes back as it
//! was sent. All there is to do is to keep it durably and under its ETag.

use std::collections::BTreeMap;
use std::sync::Arc;

use partita_model::{
    ContainerDefinition, DatabaseRid, EncryptionKeyRid, Error, ErrorKind, Etag, Lsn, Object,
    Result, Value, keycode,
};
use partita_storage::{Record, Space};

use super::changes::{Changes, RecordKey, children_key, database_key};
use super::codec::{Fields, damaged, integer, object};
use super::resolve::absent;
use super::store::ENCRYPTION_KEY;
use super::value::{number, with_system};
use super::{AddressedBy, Catalog, Database};
use crate::path::EncryptionKeyPath;

/// A client encryption key of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct EncryptionKey {
    pub rid: EncryptionKeyRid,
    pub name: String,
    /// The algorithm that the data key is for.
    pub algorithm: String,
    /// The wrapped data key, in base64.
    pub wrapped: String,
    /// How it is wrapped, as it was sent.
    pub metadata: Value,
    pub etag: Etag,
    /// Unix seconds of its creation.
    pub created: u64,
    /// Unix seconds of the last write.
    pub ts: u64,
    /// The LSN of its record: what a change of it expects.
    pub(crate) lsn: Lsn,
}

/// The keys of a database by name.
pub(super) type EncryptionKeys = BTreeMap<String, Arc<EncryptionKey>>;

impl EncryptionKey {
    /// The link by resource ids, `dbs/…/clientencryptionkeys/…/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/clientencryptionkeys/{}/", self.rid.database, self.rid)
    }

    /// The key as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let object = Object::new()
            .with("id", self.name.as_str())
            .with("encryptionAlgorithm", self.algorithm.as_str())
            .with("wrappedDataEncryptionKey", self.wrapped.as_str())
            .with("keyWrapMetadata", self.metadata.clone());
        let object = with_system(object, &self.rid.to_string(), self.self_link(), self.etag);
        Value::from(object.with("_ts", number(self.ts)).with("_cts", number(self.created)))
    }
}

pub(super) fn encryption_key_key(database: DatabaseRid, name: &str) -> Vec<u8> {
    let mut out = vec![ENCRYPTION_KEY];
    keycode::put_u64(&mut out, u64::from(database.0));
    keycode::put_str(&mut out, name);
    out
}

fn encode(key: &EncryptionKey) -> Vec<u8> {
    object()
        .with("rid", key.rid.to_string())
        .with("name", key.name.as_str())
        .with("algorithm", key.algorithm.as_str())
        .with("wrapped", key.wrapped.as_str())
        .with("metadata", key.metadata.clone())
        .with("etag", key.etag.to_string())
        .with("created", integer(key.created))
        .with("ts", integer(key.ts))
        .into_bytes()
}

pub(super) fn encryption_key(record: &Record) -> Result<EncryptionKey> {
    const WHAT: &str = "client encryption key";
    let fields = Fields::of(WHAT, record)?;
    let rid = EncryptionKeyRid::parse(fields.text("rid")?);
    Ok(EncryptionKey {
        rid: rid.ok_or_else(|| damaged(WHAT, "rid"))?,
        name: fields.text("name")?.to_owned(),
        algorithm: fields.text("algorithm")?.to_owned(),
        wrapped: fields.text("wrapped")?.to_owned(),
        metadata: fields.value("metadata")?.clone(),
        etag: fields.etag()?,
        // Records of older stores say nothing of it.
        created: match fields.number("created") {
            Ok(created) => created,
            Err(_) => fields.number("ts")?,
        },
        ts: fields.number("ts")?,
        lsn: record.lsn,
    })
}

impl Changes {
    pub(crate) fn create_encryption_key(&mut self, database: &Database, key: &EncryptionKey) {
        let parent = database_key(database);
        self.batch.expect_unchanged(Space::Meta, parent.encode(), database.lsn);
        self.touched.push(parent);
        self.batch.add(Space::Meta, children_key(database.rid), 1);
        self.create(record_key(key), encode(key));
    }

    pub(crate) fn replace_encryption_key(&mut self, key: &EncryptionKey) {
        self.replace(record_key(key), key.lsn, encode(key));
    }

    /// Deletes a key together with its database, whose deletion guards the set.
    pub(crate) fn delete_encryption_key_with_database(&mut self, key: &EncryptionKey) {
        self.delete(record_key(key), key.lsn);
    }
}

fn record_key(key: &EncryptionKey) -> RecordKey {
    RecordKey::EncryptionKey { database: key.rid.database, name: key.name.clone() }
}

/// The service's text for keys that are not there; clients look for it.
pub(crate) fn unknown_keys(names: &[&str]) -> String {
    format!("ClientEncryptionKey with id '[{}]' does not exist.", names.join(","))
}

impl Catalog {
    /// Refuses a container whose clients would encrypt with keys that its database has not.
    pub(crate) fn check_encryption(
        &self,
        database: DatabaseRid,
        definition: &ContainerDefinition,
    ) -> Result<()> {
        let Some(policy) = &definition.client_encryption else { return Ok(()) };
        let contents = self.databases.get(&database);
        let is_known = |name: &str| {
            contents.is_some_and(|contents| contents.encryption_keys.contains_key(name))
        };
        let mut unknown: Vec<&str> = policy.paths.iter().map(|path| path.key_id.as_str()).collect();
        unknown.retain(|name| !is_known(name));
        unknown.dedup();
        if unknown.is_empty() { Ok(()) } else { Err(Error::bad_request(unknown_keys(&unknown))) }
    }

    /// All client encryption keys of a database in the order of their names.
    pub(crate) fn encryption_keys(
        &self,
        database: DatabaseRid,
    ) -> impl Iterator<Item = &Arc<EncryptionKey>> {
        let contents = self.databases.get(&database).into_iter();
        contents.flat_map(|contents| contents.encryption_keys.values())
    }

    /// A client encryption key, by name or by resource id as its database was addressed.
    pub(crate) fn encryption_key(&self, path: &EncryptionKeyPath) -> Result<Arc<EncryptionKey>> {
        let Some((contents, by)) = self.contents(&path.database) else {
            return Err(absent(ErrorKind::OwnerNotFound, "database", &path.database));
        };
        let found = match by {
            AddressedBy::Name => contents.encryption_keys.get(&path.key),
            AddressedBy::Rid => {
                let rid = EncryptionKeyRid::parse(&path.key);
                contents.encryption_keys.values().find(|key| Some(key.rid) == rid)
            }
        };
        let missing = || {
            let missing = absent(ErrorKind::NotFound, "client encryption key", &path.key);
            let text = format!("{}. {}", missing.message, unknown_keys(&[&path.key]));
            Error::new(missing.kind, text)
        };
        found.map(Arc::clone).ok_or_else(missing)
    }

    /// Adds or replaces a key. A database that went away in the same moment takes it along.
    pub(super) fn insert_encryption_key(&mut self, key: Arc<EncryptionKey>) {
        let database = key.rid.database;
        self.change_encryption_keys(database, |keys| {
            keys.insert(key.name.clone(), key);
        });
    }

    pub(super) fn remove_encryption_key(&mut self, database: DatabaseRid, name: &str) {
        self.change_encryption_keys(database, |keys| {
            keys.remove(name);
        });
    }

    fn change_encryption_keys(
        &mut self,
        database: DatabaseRid,
        change: impl FnOnce(&mut EncryptionKeys),
    ) {
        if let Some(contents) = self.databases.get_mut(&database) {
            change(Arc::make_mut(&mut Arc::make_mut(contents).encryption_keys));
        }
    }
}
