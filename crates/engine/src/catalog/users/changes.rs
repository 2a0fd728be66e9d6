//! Changes to users and permissions.
//!
//! As with a database and its containers, a parent's counter is touched by every child that comes
//! or goes, so that the deletion of the parent can expect that nothing came meanwhile. A record
//! under the resource's name keeps a user from having two permissions for one resource and
//! partition key.

use partita_model::keycode;
use partita_model::{DatabaseRid, Lsn, UserRid};
use partita_storage::Space;

use super::super::Database;
use super::super::changes::{Changes, RecordKey, children_key, database_key};
use super::super::store::{CHILDREN, GRANT, PERMISSION, USER};
use super::{Permission, User, codec};

pub(in super::super) fn user_key(database: DatabaseRid, name: &str) -> Vec<u8> {
    let mut out = vec![USER];
    keycode::put_u64(&mut out, u64::from(database.0));
    keycode::put_str(&mut out, name);
    out
}

pub(in super::super) fn permission_key(user: UserRid, name: &str) -> Vec<u8> {
    of_user(PERMISSION, user, Some(name))
}

/// The record that a user has a permission for a resource and partition key.
fn grant_key(user: UserRid, resource: &str) -> Vec<u8> {
    of_user(GRANT, user, Some(resource))
}

/// The counter of a user's permissions; longer than that of a database's children.
pub(in super::super) fn permissions_key(user: UserRid) -> Vec<u8> {
    of_user(CHILDREN, user, None)
}

fn of_user(tag: u8, user: UserRid, name: Option<&str>) -> Vec<u8> {
    let mut out = vec![tag];
    keycode::put_u64(&mut out, u64::from(user.database.0));
    keycode::put_u64(&mut out, u64::from(user.user));
    if let Some(name) = name {
        keycode::put_str(&mut out, name);
    }
    out
}

impl Changes {
    pub(crate) fn create_user(&mut self, database: &Database, user: &User) {
        let parent = database_key(database);
        self.batch.expect_unchanged(Space::Meta, parent.encode(), database.lsn);
        self.touched.push(parent);
        self.batch.add(Space::Meta, children_key(database.rid), 1);
        self.create(key_of_user(user), codec::encode_user(user));
    }

    /// Writes a user in place of its former self, which may have had another name.
    pub(crate) fn replace_user(&mut self, old: &User, user: &User) {
        if old.name == user.name {
            return self.replace(key_of_user(user), old.lsn, codec::encode_user(user));
        }
        self.delete(key_of_user(old), old.lsn);
        self.create(key_of_user(user), codec::encode_user(user));
    }

    /// Deletes a user; `permissions` is the LSN of its last permission created or deleted.
    pub(crate) fn delete_user(&mut self, user: &User, permissions: Option<Lsn>) {
        self.batch.add(Space::Meta, children_key(user.rid.database), -1);
        self.delete_user_with_database(user, permissions);
    }

    /// Deletes a user together with its database, whose deletion guards the set of users.
    pub(crate) fn delete_user_with_database(&mut self, user: &User, permissions: Option<Lsn>) {
        self.delete(key_of_user(user), user.lsn);
        self.delete_counter(permissions_key(user.rid), permissions);
    }

    pub(crate) fn create_permission(&mut self, user: &User, permission: &Permission) {
        let parent = key_of_user(user);
        self.batch.expect_unchanged(Space::Meta, parent.encode(), user.lsn);
        self.touched.push(parent);
        self.batch.add(Space::Meta, permissions_key(user.rid), 1);
        self.create(key_of_permission(permission), codec::encode_permission(permission));
        self.grant(permission);
    }

    /// Writes a permission in place of its former self, which may have had another name and
    /// another resource.
    pub(crate) fn replace_permission(&mut self, old: &Permission, permission: &Permission) {
        let record = codec::encode_permission(permission);
        if old.name == permission.name {
            self.replace(key_of_permission(permission), old.lsn, record);
        } else {
            self.delete(key_of_permission(old), old.lsn);
            self.create(key_of_permission(permission), record);
        }
        if old.target.resource() != permission.target.resource() {
            self.revoke(old);
            self.grant(permission);
        }
    }

    pub(crate) fn delete_permission(&mut self, permission: &Permission) {
        self.batch.add(Space::Meta, permissions_key(permission.rid.user), -1);
        self.delete_permission_with_user(permission);
    }

    /// Deletes a permission together with its user, whose deletion guards the set.
    pub(crate) fn delete_permission_with_user(&mut self, permission: &Permission) {
        self.delete(key_of_permission(permission), permission.lsn);
        self.revoke(permission);
    }

    fn grant(&mut self, permission: &Permission) {
        let key = grant_key(permission.rid.user, &permission.target.resource());
        self.batch.expect_absent(Space::Meta, key.clone());
        self.batch.put(Space::Meta, key, permission.rid.to_string().into_bytes());
    }

    fn revoke(&mut self, permission: &Permission) {
        let key = grant_key(permission.rid.user, &permission.target.resource());
        self.batch.delete(Space::Meta, key);
    }
}

fn key_of_user(user: &User) -> RecordKey {
    RecordKey::User { database: user.rid.database, name: user.name.clone() }
}

fn key_of_permission(permission: &Permission) -> RecordKey {
    RecordKey::Permission { user: permission.rid.user, name: permission.name.clone() }
}
