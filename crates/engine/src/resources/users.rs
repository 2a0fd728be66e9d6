//! Users.

use std::sync::Arc;

use partita_model::{DatabaseRid, Error, Lsn, Result, UserRid, check_resource_name};
use partita_query::Filter;

use super::Resources;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{Catalog, Changes, User};
use crate::context::Work;
use crate::op::{Change, Condition, DatabasePath, Outcome, PageRequest, UserOp, UserPath};

impl Resources {
    pub(crate) async fn user_op(&self, work: &mut Work<'_>, op: UserOp) -> Result<Outcome> {
        match &op {
            UserOp::Read { .. } | UserOp::List { .. } => work.usage.metadata_reads = 1,
            UserOp::Create { .. }
            | UserOp::Upsert { .. }
            | UserOp::Replace { .. }
            | UserOp::Delete { .. } => work.usage.metadata_writes = 1,
        }
        match op {
            UserOp::Create { database, name } => self.create_user(&database, &name).await,
            UserOp::Upsert { database, name, condition } => {
                self.upsert_user(&database, &name, condition.as_ref()).await
            }
            UserOp::Read { user, condition } => self.read_user(&user, condition.as_ref()),
            UserOp::Replace { user, name, condition } => {
                self.replace_user(&user, &name, condition.as_ref()).await
            }
            UserOp::Delete { user, condition } => self.delete_user(&user, condition.as_ref()).await,
            UserOp::List { database, filter, page } => {
                self.list_users(&database, filter.as_ref(), &page)
            }
        }
    }

    async fn create_user(&self, database: &DatabasePath, name: &str) -> Result<Outcome> {
        check_resource_name("user", name)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let mut changes = Changes::default();
                let rid = self.add_user(&catalog, &mut changes, database, name)?;
                Ok((changes, rid))
            })
            .await?;
        self.user_reply(rid, Change::Created)
    }

    async fn upsert_user(
        &self,
        database: &DatabasePath,
        name: &str,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        check_resource_name("user", name)?;
        let (rid, change) = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let parent = catalog.parent_database(database)?;
                let mut changes = Changes::default();
                let old = catalog.users(parent.rid).find(|user| user.name == name);
                let Some(old) = old else {
                    let rid = self.add_user(&catalog, &mut changes, database, name)?;
                    return Ok((changes, (rid, Change::Created)));
                };
                check_unchanged(condition, &old.etag)?;
                changes.replace_user(old, &self.renewed_user(old, name));
                Ok((changes, (old.rid, Change::Replaced)))
            })
            .await?;
        self.user_reply(rid, change)
    }

    fn read_user(&self, path: &UserPath, condition: Option<&Condition>) -> Result<Outcome> {
        let user = self.core.catalog.current().user(path)?;
        if not_modified(condition, &user.etag)? {
            return Ok(Outcome::NotModified { etag: user.etag.to_string() });
        }
        Ok(Outcome::User { user, change: Change::None })
    }

    async fn replace_user(
        &self,
        path: &UserPath,
        name: &str,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        check_resource_name("user", name)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let old = catalog.user(path)?;
                check_unchanged(condition, &old.etag)?;
                if old.name != name {
                    check_free(&catalog, old.rid, name)?;
                }
                let mut changes = Changes::default();
                changes.replace_user(&old, &self.renewed_user(&old, name));
                Ok((changes, old.rid))
            })
            .await?;
        self.user_reply(rid, Change::Replaced)
    }

    async fn delete_user(&self, path: &UserPath, condition: Option<&Condition>) -> Result<Outcome> {
        self.core
            .change(|| {
                let catalog = self.core.catalog.current();
                let user = catalog.user(path)?;
                check_unchanged(condition, &user.etag)?;
                let mut changes = Changes::default();
                let permissions = self.delete_permissions_of(&catalog, &mut changes, user.rid)?;
                changes.delete_user(&user, permissions);
                Ok((changes, ()))
            })
            .await?;
        Ok(Outcome::Deleted)
    }

    pub(super) fn list_users(
        &self,
        path: &DatabasePath,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        let catalog = self.core.catalog.current();
        let database = catalog.parent_database(path)?;
        let all = catalog.users(database.rid).map(Arc::clone);
        let (users, continuation) =
            page(all, |user| user.rid, UserRid::parse, |user| user.to_value(), (filter, request))?;
        Ok(Outcome::Users { database, users, continuation })
    }

    /// Deletes all users of a database that is being deleted.
    pub(super) fn delete_users_of(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        database: DatabaseRid,
    ) -> Result<()> {
        for user in catalog.users(database) {
            let permissions = self.delete_permissions_of(catalog, changes, user.rid)?;
            changes.delete_user_with_database(user, permissions);
        }
        Ok(())
    }

    /// Deletes all permissions of a user that is being deleted; the answer is what its deletion
    /// has to expect of them.
    fn delete_permissions_of(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        user: UserRid,
    ) -> Result<Option<Lsn>> {
        let counted = self.core.catalog.permission_count(user)?;
        if counted.count != catalog.permissions(user).count() {
            return Err(Error::retry_with("A permission is being created: retry"));
        }
        for permission in catalog.permissions(user) {
            changes.delete_permission_with_user(permission);
        }
        Ok(counted.lsn)
    }

    fn add_user(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        database: &DatabasePath,
        name: &str,
    ) -> Result<UserRid> {
        let database = catalog.parent_database(database)?;
        let make = |n: u32| UserRid { database: database.rid, user: (n >> 1).max(1) };
        let taken = |rid: &UserRid| catalog.users(database.rid).any(|user| user.rid == *rid);
        let rid = self.core.fresh_rid(make, taken);
        check_free(catalog, rid, name)?;
        let (etag, ts) = self.core.fresh_stamp();
        let user = User { rid, name: name.to_owned(), etag, ts, lsn: Lsn(0) };
        changes.create_user(&database, &user);
        Ok(rid)
    }

    fn renewed_user(&self, old: &User, name: &str) -> User {
        let (etag, ts) = self.core.fresh_stamp();
        User { name: name.to_owned(), etag, ts, ..old.clone() }
    }

    /// The user just written, unless somebody was quick to delete it again.
    fn user_reply(&self, rid: UserRid, change: Change) -> Result<Outcome> {
        let catalog = self.core.catalog.current();
        match catalog.users(rid.database).find(|user| user.rid == rid) {
            Some(user) => Ok(Outcome::User { user: Arc::clone(user), change }),
            None => Err(Error::not_found("Resource Not Found: the user was deleted meanwhile")),
        }
    }
}

/// Refuses a name that another user of the database has.
fn check_free(catalog: &Catalog, rid: UserRid, name: &str) -> Result<()> {
    if catalog.users(rid.database).any(|user| user.name == name) {
        return Err(Error::conflict(format!(
            "Resource with specified id or name already exists: user '{name}'"
        )));
    }
    Ok(())
}
