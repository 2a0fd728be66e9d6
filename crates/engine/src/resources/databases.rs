//! Databases.

use std::sync::Arc;

use partita_model::{DatabaseRid, Error, Lsn, Result, Throughput, check_resource_name};
use partita_query::Filter;

use super::Resources;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{self, Changes};
use crate::context::Work;
use crate::op::{Change, Condition, DatabasePath, Outcome, PageRequest};

impl Resources {
    pub(crate) async fn create_database(
        &self,
        work: &mut Work<'_>,
        name: String,
        throughput: Option<Throughput>,
    ) -> Result<Outcome> {
        check_resource_name("database", &name)?;
        work.usage.metadata_writes = 1;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                if catalog.databases().any(|database| database.name == name) {
                    return Err(exists(&name));
                }
                let (etag, ts) = self.core.fresh_stamp();
                let rid = self
                    .core
                    .fresh_rid(DatabaseRid, |rid| catalog.databases().any(|d| d.rid == *rid));
                let database = catalog::Database { rid, name: name.clone(), etag, ts, lsn: Lsn(0) };
                let mut changes = Changes::default();
                changes.create_database(&database);
                if let Some(throughput) = &throughput {
                    let link = database.self_link();
                    changes.create_offer(&self.new_offer(
                        link,
                        rid.to_string(),
                        throughput.clone(),
                    ));
                }
                Ok((changes, rid))
            })
            .await?;
        let catalog = self.core.catalog.current();
        let mut known = catalog.databases();
        let database =
            known.find(|database| database.rid == rid).map(Arc::clone).ok_or_else(|| {
                Error::not_found("Resource Not Found: the database was deleted meanwhile")
            })?;
        Ok(Outcome::Database { database, change: Change::Created })
    }

    pub(crate) fn read_database(
        &self,
        work: &mut Work<'_>,
        path: &DatabasePath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let database = self.core.catalog.current().database(path)?;
        if not_modified(condition, &database.etag)? {
            return Ok(Outcome::NotModified { etag: database.etag.to_string() });
        }
        Ok(Outcome::Database { database, change: Change::None })
    }

    /// Deletes a database with all its containers, their scripts, offers, users and keys.
    pub(crate) async fn delete_database(
        &self,
        work: &mut Work<'_>,
        path: &DatabasePath,
        condition: Option<Condition>,
    ) -> Result<Outcome> {
        work.usage.metadata_writes = 1;
        let partitions = self
            .core
            .change(|| {
                let mut changes = Changes::default();
                let catalog = self.core.catalog.current();
                let database = catalog.database(path)?;
                let children = self.core.catalog.children(database.rid)?;
                let known = catalog.containers(database.rid).count()
                    + catalog.users(database.rid).count()
                    + catalog.encryption_keys(database.rid).count();
                if children.count != known {
                    return Err(Error::retry_with("A child is being created: retry"));
                }
                check_unchanged(condition.as_ref(), &database.etag)?;
                let mut partitions = Vec::new();
                for container in catalog.containers(database.rid) {
                    changes.delete_container_with_database(container);
                    self.delete_scripts_of(&catalog, &mut changes, container.rid)?;
                    partitions.extend(container.partition_ids());
                    if let Some(offer) = catalog.offer_of(&container.rid.to_string()) {
                        changes.delete_offer(offer);
                    }
                }
                if let Some(offer) = catalog.offer_of(&database.rid.to_string()) {
                    changes.delete_offer(offer);
                }
                self.delete_users_of(&catalog, &mut changes, database.rid)?;
                for key in catalog.encryption_keys(database.rid) {
                    changes.delete_encryption_key_with_database(key);
                }
                changes.delete_database(&database, children.lsn);
                Ok((changes, partitions))
            })
            .await?;
        self.core.let_go(&partitions);
        Ok(Outcome::Deleted)
    }

    pub(crate) fn list_databases(
        &self,
        work: &mut Work<'_>,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        work.usage.metadata_reads = 1;
        let catalog = self.core.catalog.current();
        let all = catalog.databases().map(Arc::clone);
        let (databases, continuation) =
            page(all, |d| d.rid, DatabaseRid::parse, |d| d.to_value(), (filter, request))?;
        Ok(Outcome::Databases { databases, continuation })
    }
}

fn exists(name: &str) -> Error {
    Error::conflict(format!("Resource with specified id or name already exists: database '{name}'"))
}
