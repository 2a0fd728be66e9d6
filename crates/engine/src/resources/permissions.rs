//! Permissions.

use std::sync::Arc;

use partita_model::{Error, Lsn, PermissionRid, Result, UserRid, Value};
use partita_query::Filter;

use super::Resources;
use super::permission_body::PermissionBody;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{Catalog, Changes, Permission, Target, User};
use crate::context::Work;
use crate::op::{Change, Condition, Outcome, PageRequest, PermissionOp, PermissionPath, UserPath};

impl Resources {
    pub(crate) async fn permission_op(
        &self,
        work: &mut Work<'_>,
        op: PermissionOp,
    ) -> Result<Outcome> {
        match &op {
            PermissionOp::Read { .. } | PermissionOp::List { .. } => work.usage.metadata_reads = 1,
            PermissionOp::Create { .. }
            | PermissionOp::Upsert { .. }
            | PermissionOp::Replace { .. }
            | PermissionOp::Delete { .. } => work.usage.metadata_writes = 1,
        }
        match op {
            PermissionOp::Create { user, body } => self.create_permission(&user, &body).await,
            PermissionOp::Upsert { user, body, condition } => {
                self.upsert_permission(&user, &body, condition.as_ref()).await
            }
            PermissionOp::Read { permission, condition } => {
                self.read_permission(&permission, condition.as_ref())
            }
            PermissionOp::Replace { permission, body, condition } => {
                self.replace_permission(&permission, &body, condition.as_ref()).await
            }
            PermissionOp::Delete { permission, condition } => {
                self.delete_permission(&permission, condition.as_ref()).await
            }
            PermissionOp::List { user, filter, page } => {
                self.list_permissions(&user, filter.as_ref(), &page)
            }
        }
    }

    async fn create_permission(&self, path: &UserPath, body: &Value) -> Result<Outcome> {
        let body = PermissionBody::parse(body)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let user = catalog.parent_user(path)?;
                let target = self.target(&catalog, &body)?;
                let mut changes = Changes::default();
                let rid = self.add_permission(&catalog, &mut changes, &user, &body, target)?;
                Ok((changes, rid))
            })
            .await?;
        self.permission_reply(rid, Change::Created)
    }

    async fn upsert_permission(
        &self,
        path: &UserPath,
        body: &Value,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let body = PermissionBody::parse(body)?;
        let (rid, change) = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let user = catalog.parent_user(path)?;
                let target = self.target(&catalog, &body)?;
                let mut changes = Changes::default();
                let old = catalog.permissions(user.rid).find(|other| other.name == body.name);
                let Some(old) = old else {
                    let rid = self.add_permission(&catalog, &mut changes, &user, &body, target)?;
                    return Ok((changes, (rid, Change::Created)));
                };
                check_unchanged(condition, &old.etag)?;
                check_free(&catalog, old.rid, &body.name, &target)?;
                changes.replace_permission(old, &self.permission(old.rid, &body, target, old.lsn));
                Ok((changes, (old.rid, Change::Replaced)))
            })
            .await?;
        self.permission_reply(rid, change)
    }

    fn read_permission(
        &self,
        path: &PermissionPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let (_, permission) = self.core.catalog.current().permission(path)?;
        if not_modified(condition, &permission.etag)? {
            return Ok(Outcome::NotModified { etag: permission.etag.to_string() });
        }
        Ok(Outcome::Permission { permission, change: Change::None })
    }

    async fn replace_permission(
        &self,
        path: &PermissionPath,
        body: &Value,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let body = PermissionBody::parse(body)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let (_, old) = catalog.permission(path)?;
                check_unchanged(condition, &old.etag)?;
                let target = self.target(&catalog, &body)?;
                check_free(&catalog, old.rid, &body.name, &target)?;
                let mut changes = Changes::default();
                changes.replace_permission(&old, &self.permission(old.rid, &body, target, old.lsn));
                Ok((changes, old.rid))
            })
            .await?;
        self.permission_reply(rid, Change::Replaced)
    }

    async fn delete_permission(
        &self,
        path: &PermissionPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        self.core
            .change(|| {
                let (_, permission) = self.core.catalog.current().permission(path)?;
                check_unchanged(condition, &permission.etag)?;
                let mut changes = Changes::default();
                changes.delete_permission(&permission);
                Ok((changes, ()))
            })
            .await?;
        Ok(Outcome::Deleted)
    }

    pub(super) fn list_permissions(
        &self,
        path: &UserPath,
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        let catalog = self.core.catalog.current();
        let user = catalog.parent_user(path)?;
        let all = catalog.permissions(user.rid).map(Arc::clone);
        let (permissions, continuation) =
            page(all, |p| p.rid, PermissionRid::parse, |p| p.to_value(), (filter, request))?;
        Ok(Outcome::Permissions { user, permissions, continuation })
    }

    fn add_permission(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        user: &User,
        body: &PermissionBody,
        target: Target,
    ) -> Result<PermissionRid> {
        let rid = self.fresh_permission_rid(catalog, user.rid);
        check_free(catalog, rid, &body.name, &target)?;
        changes.create_permission(user, &self.permission(rid, body, target, Lsn(0)));
        Ok(rid)
    }

    fn permission(
        &self,
        rid: PermissionRid,
        body: &PermissionBody,
        target: Target,
        lsn: Lsn,
    ) -> Permission {
        let (etag, ts) = self.core.fresh_stamp();
        Permission {
            rid,
            name: body.name.clone(),
            mode_text: body.mode_text.clone(),
            mode: body.mode,
            resource: body.resource.clone(),
            resource_partition_key: body.resource_partition_key.clone(),
            target,
            etag,
            ts,
            lsn,
        }
    }

    /// As other resource ids: random, and without characters that a URL would have to escape.
    fn fresh_permission_rid(&self, catalog: &Catalog, user: UserRid) -> PermissionRid {
        loop {
            let rid = PermissionRid { user, permission: self.core.entropy.next_u64() };
            let plain = !rid.to_string().contains(['+', '-']);
            if plain && catalog.permission_by_rid(rid).is_none() {
                return rid;
            }
        }
    }

    /// The permission just written, unless somebody was quick to delete it again.
    fn permission_reply(&self, rid: PermissionRid, change: Change) -> Result<Outcome> {
        match self.core.catalog.current().permission_by_rid(rid) {
            Some(found) => Ok(Outcome::Permission { permission: Arc::clone(found), change }),
            None => {
                Err(Error::not_found("Resource Not Found: the permission was deleted meanwhile"))
            }
        }
    }
}

/// Refuses a name, or a resource and partition key, that another permission of the user has.
fn check_free(catalog: &Catalog, rid: PermissionRid, name: &str, target: &Target) -> Result<()> {
    let resource = catalog.resolved(target).resource();
    for other in catalog.permissions(rid.user).filter(|other| other.rid != rid) {
        if other.name == name {
            return Err(Error::conflict(format!(
                "Resource with specified id or name already exists: permission '{name}'"
            )));
        }
        if catalog.resolved(&other.target).resource() == resource {
            return Err(Error::conflict(format!(
                "The user has a permission for this resource already: '{}'. Replace that one",
                other.name
            )));
        }
    }
    Ok(())
}
