//! Finding users and permissions, by name or by resource id as their database was addressed.

use std::sync::Arc;

use partita_model::{DatabaseRid, ErrorKind, PermissionRid, Result, UserRid};

use super::super::resolve::absent;
use super::super::{AddressedBy, Catalog};
use super::{Permission, User, Users};
use crate::path::{PermissionPath, UserPath};

impl Catalog {
    /// All users of a database in the order of their resource ids.
    pub(crate) fn users(&self, database: DatabaseRid) -> impl Iterator<Item = &Arc<User>> {
        self.users_of(database).into_iter().flat_map(|users| users.users.values())
    }

    /// All permissions of a user in the order of their resource ids.
    pub(crate) fn permissions(&self, user: UserRid) -> impl Iterator<Item = &Arc<Permission>> {
        let first = PermissionRid { user, permission: 0 };
        let last = PermissionRid { user, permission: u64::MAX };
        self.users_of(user.database)
            .into_iter()
            .flat_map(move |users| users.permissions.range(first..=last))
            .map(|(_, permission)| permission)
    }

    /// A permission by its resource id.
    pub(crate) fn permission_by_rid(&self, rid: PermissionRid) -> Option<&Arc<Permission>> {
        self.users_of(rid.user.database)?.permissions.get(&rid)
    }

    pub(crate) fn user(&self, path: &UserPath) -> Result<Arc<User>> {
        self.find_user(path, ErrorKind::NotFound).map(|(user, _)| user)
    }

    /// A user that is the parent of what is asked for: its absence is another error.
    pub(crate) fn parent_user(&self, path: &UserPath) -> Result<Arc<User>> {
        self.find_user(path, ErrorKind::OwnerNotFound).map(|(user, _)| user)
    }

    /// A permission and its user.
    pub(crate) fn permission(&self, path: &PermissionPath) -> Result<(Arc<User>, Arc<Permission>)> {
        let (user, by) = self.find_user(&path.user, ErrorKind::OwnerNotFound)?;
        let users = self.users_of(user.rid.database);
        let found = users.and_then(|users| {
            let rid = match by {
                AddressedBy::Name => {
                    users.permission_names.get(&(user.rid, path.permission.clone())).copied()
                }
                AddressedBy::Rid => {
                    PermissionRid::parse(&path.permission).filter(|rid| rid.user == user.rid)
                }
            };
            users.permissions.get(&rid?).map(Arc::clone)
        });
        let missing = || absent(ErrorKind::NotFound, "permission", &path.permission);
        Ok((user, found.ok_or_else(missing)?))
    }

    fn find_user(&self, path: &UserPath, missing: ErrorKind) -> Result<(Arc<User>, AddressedBy)> {
        let Some((contents, by)) = self.contents(&path.database) else {
            return Err(absent(ErrorKind::OwnerNotFound, "database", &path.database));
        };
        let users = &contents.users;
        let rid = match by {
            AddressedBy::Name => users.names.get(&path.user).copied(),
            AddressedBy::Rid => UserRid::parse(&path.user),
        };
        match rid.and_then(|rid| users.users.get(&rid)) {
            Some(user) => Ok((Arc::clone(user), by)),
            None => Err(absent(missing, "user", &path.user)),
        }
    }

    fn users_of(&self, database: DatabaseRid) -> Option<&Users> {
        self.databases.get(&database).map(|contents| &*contents.users)
    }
}
