//! Client encryption keys.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use partita_model::{EncryptionKeyRid, Error, Lsn, Result, Value, check_resource_name};
use partita_query::Filter;

use super::Resources;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{Changes, EncryptionKey};
use crate::context::Work;
use crate::op::{
    Change, Condition, DatabasePath, EncryptionKeyOp, EncryptionKeyPath, Outcome, PageRequest,
};

/// The one algorithm that data keys are for.
const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";

/// A wrapped key has a few hundred bytes; this is far more.
const WRAPPED_BYTES_MAX: usize = 16_384;

impl Resources {
    pub(crate) async fn encryption_key_op(
        &self,
        work: &mut Work<'_>,
        op: EncryptionKeyOp,
    ) -> Result<Outcome> {
        match &op {
            EncryptionKeyOp::Read { .. } | EncryptionKeyOp::List { .. } => {
                work.usage.metadata_reads = 1;
            }
            EncryptionKeyOp::Create { .. } | EncryptionKeyOp::Replace { .. } => {
                work.usage.metadata_writes = 1;
            }
        }
        match op {
            EncryptionKeyOp::Create { database, body } => {
                self.create_encryption_key(&database, &body).await
            }
            EncryptionKeyOp::Read { key, condition } => {
                self.read_encryption_key(&key, condition.as_ref())
            }
            EncryptionKeyOp::Replace { key, body, condition } => {
                self.replace_encryption_key(&key, &body, condition.as_ref()).await
            }
            EncryptionKeyOp::List { database, filter, page } => {
                self.list_encryption_keys(&database, filter.as_ref(), &page)
            }
        }
    }

    async fn create_encryption_key(&self, path: &DatabasePath, body: &Value) -> Result<Outcome> {
        let sent = Sent::parse(body)?;
        let key = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let database = catalog.parent_database(path)?;
                let mut known = catalog.encryption_keys(database.rid);
                if known.any(|key| key.name == sent.name) {
                    return Err(Error::conflict(format!(
                        "Resource with specified id or name already exists: client encryption \
                         key '{}'",
                        sent.name
                    )));
                }
                let make =
                    |n: u32| EncryptionKeyRid { database: database.rid, key: (n >> 1).max(1) };
                let taken = |rid: &EncryptionKeyRid| {
                    catalog.encryption_keys(database.rid).any(|key| key.rid == *rid)
                };
                let (etag, ts) = self.core.fresh_stamp();
                let key = EncryptionKey {
                    rid: self.core.fresh_rid(make, taken),
                    name: sent.name.to_owned(),
                    algorithm: ALGORITHM.to_owned(),
                    wrapped: sent.wrapped.to_owned(),
                    metadata: sent.metadata.clone(),
                    etag,
                    created: ts,
                    ts,
                    lsn: Lsn(0),
                };
                let mut changes = Changes::default();
                changes.create_encryption_key(&database, &key);
                Ok((changes, key))
            })
            .await?;
        Ok(Outcome::EncryptionKey { key: Arc::new(key), change: Change::Created })
    }

    fn read_encryption_key(
        &self,
        path: &EncryptionKeyPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let key = self.core.catalog.current().encryption_key(path)?;
        if not_modified(condition, &key.etag)? {
            return Ok(Outcome::NotModified { etag: key.etag.to_string() });
        }
        Ok(Outcome::EncryptionKey { key, change: Change::None })
    }

    async fn replace_encryption_key(
        &self,
        path: &EncryptionKeyPath,
        body: &Value,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let sent = Sent::parse(body)?;
        let key = self
            .core
            .change(|| {
                let old = self.core.catalog.current().encryption_key(path)?;
                check_unchanged(condition, &old.etag)?;
                if old.name != sent.name {
                    return Err(Error::bad_request(
                        "The id of a client encryption key cannot be changed",
                    ));
                }
                let (etag, ts) = self.core.fresh_stamp();
                let key = EncryptionKey {
                    wrapped: sent.wrapped.to_owned(),
                    metadata: sent.metadata.clone(),
                    etag,
                    ts,
                    ..(*old).clone()
                };
                let mut changes = Changes::default();
                changes.replace_encryption_key(&key);
                Ok((changes, key))
            })
            .await?;
        Ok(Outcome::EncryptionKey { key: Arc::new(key), change: Change::Replaced })
    }

    pub(super) fn list_encryption_keys(
        &self,
        path: &DatabasePath,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        let catalog = self.core.catalog.current();
        let database = catalog.parent_database(path)?;
        let mut all: Vec<Arc<EncryptionKey>> =
            catalog.encryption_keys(database.rid).map(Arc::clone).collect();
        all.sort_by_key(|key| key.rid);
        let (keys, continuation) = page(
            all.into_iter(),
            |key| key.rid,
            EncryptionKeyRid::parse,
            |key| key.to_value(),
            (filter, request),
        )?;
        Ok(Outcome::EncryptionKeys { database, keys, continuation })
    }
}

/// A key as a client sends it.
struct Sent<'a> {
    name: &'a str,
    wrapped: &'a str,
    metadata: &'a Value,
}

impl<'a> Sent<'a> {
    fn parse(body: &'a Value) -> Result<Sent<'a>> {
        let name = text(body, "id")?;
        check_resource_name("client encryption key", name)?;
        let algorithm = text(body, "encryptionAlgorithm")?;
        if algorithm != ALGORITHM {
            return Err(Error::bad_request(format!(
                "The encryptionAlgorithm '{algorithm}' is invalid: use {ALGORITHM}"
            )));
        }
        let wrapped = text(body, "wrappedDataEncryptionKey")?;
        let is_key = STANDARD.decode(wrapped).is_ok_and(|key| !key.is_empty());
        if !is_key || wrapped.len() > WRAPPED_BYTES_MAX {
            return Err(Error::bad_request(
                "The property 'wrappedDataEncryptionKey' must be the base64 of a wrapped key",
            ));
        }
        let metadata = body.get("keyWrapMetadata").ok_or_else(|| missing("keyWrapMetadata"))?;
        for name in ["type", "name", "value"] {
            text(metadata, name)?;
        }
        Ok(Sent { name, wrapped, metadata })
    }
}

fn text<'a>(body: &'a Value, name: &str) -> Result<&'a str> {
    match body.get(name) {
        None => Err(missing(name)),
        Some(value) => value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| {
            Error::bad_request(format!(
                "The property '{name}' of a client encryption key must be a string"
            ))
        }),
    }
}

fn missing(name: &str) -> Error {
    Error::bad_request(format!(
        "The input content is invalid because the required properties - '{name}; ' - are missing"
    ))
}
