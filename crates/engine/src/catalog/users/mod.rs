//! Users and their permissions, as the catalog's copy in memory has them.
//!
//! A user is a name within a database; a permission says what a user may do with one resource. What
//! a permission opens ([`Target`]) is fixed when it is written: its link is resolved to resource
//! ids then, so a container that is created again under the same name is not opened by it. Only a
//! link to a container that is not there yet stays a name, in a database that is.

mod changes;
mod codec;
mod resolve;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use partita_model::{
    ContainerRid, DatabaseRid, Etag, Lsn, Object, PartitionKeyHeader, PermissionRid, ScriptRid,
    UserRid, Value,
};

use super::value::{number, with_system};
use super::{Catalog, Container};

pub(super) use changes::{permission_key, permissions_key, user_key};
pub(super) use codec::{permission, user};

/// A user of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub rid: UserRid,
    pub name: String,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    /// The LSN of its record: what a change of it expects.
    pub(crate) lsn: Lsn,
}

impl User {
    /// The link by resource ids, `dbs/…/users/…/`.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/users/{}/", self.rid.database, self.rid)
    }

    /// The user as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let object = Object::new().with("id", self.name.as_str());
        let object = with_system(object, &self.rid.to_string(), self.self_link(), self.etag);
        Value::from(object.with("_permissions", "permissions/").with("_ts", number(self.ts)))
    }
}

/// What the holder of a permission may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionMode {
    /// Reads, feeds and queries.
    Read,
    /// Writes of items and runs of procedures as well.
    All,
}

impl PermissionMode {
    /// Reads a mode, in any case: SDKs do not agree on it.
    pub fn parse(text: &str) -> Option<PermissionMode> {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("read") {
            return Some(PermissionMode::Read);
        }
        is("all").then_some(PermissionMode::All)
    }
}

/// What a permission opens: a container, an item or script of it, or what is under a partition
/// key.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub owner: Owner,
    /// Only the item with this id; under every partition key, unless one is named too.
    pub item: Option<String>,
    /// Only this script; a procedure under every partition key, unless one is named too.
    pub script: Option<ScriptRid>,
    /// Only what is under this partition key, or under this prefix of a hierarchical one.
    pub partition_key: Option<PartitionKeyHeader>,
}

/// The container that a permission is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Known(ContainerRid),
    /// It was not there when the permission was written: the one that has this name when a token
    /// is used.
    Named {
        database: DatabaseRid,
        name: String,
    },
}

impl Owner {
    /// Is it this container?
    pub(crate) fn is(&self, container: &Container) -> bool {
        match self {
            Owner::Known(rid) => *rid == container.rid,
            Owner::Named { database, name } => {
                *database == container.rid.database && *name == container.definition.name
            }
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Known(rid) => rid.fmt(f),
            Owner::Named { database, name } => write!(f, "{database}/colls/{name}"),
        }
    }
}

impl Target {
    /// Names the resource and the partition key: a user has one permission for both.
    pub(crate) fn resource(&self) -> String {
        let resource = match (&self.item, &self.script) {
            (Some(id), _) => format!("{}/docs/{id}", self.owner),
            (None, Some(script)) => script.to_string(),
            (None, None) => self.owner.to_string(),
        };
        match &self.partition_key {
            // The key comes first, as it says itself where it ends: an item's id may be anything.
            Some(key) => format!("{} {resource}", key.to_header_json()),
            None => resource,
        }
    }
}

/// A permission of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    pub rid: PermissionRid,
    pub name: String,
    /// The mode as it was sent, which is how clients want it back.
    pub mode_text: String,
    pub mode: PermissionMode,
    /// The link of the resource as it was sent.
    pub resource: String,
    /// The partition key as it was sent.
    pub resource_partition_key: Option<Value>,
    /// What link and partition key mean.
    pub target: Target,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    pub(crate) lsn: Lsn,
}

impl Permission {
    /// The permission as JSON, system properties included; a door adds the token.
    pub fn to_value(&self) -> Value {
        let mut object = Object::new()
            .with("id", self.name.as_str())
            .with("permissionMode", self.mode_text.as_str())
            .with("resource", self.resource.as_str());
        if let Some(key) = &self.resource_partition_key {
            object.insert("resourcePartitionKey", key.clone());
        }
        let user = self.rid.user;
        let link = format!("dbs/{}/users/{user}/permissions/{}/", user.database, self.rid);
        let object = with_system(object, &self.rid.to_string(), link, self.etag);
        Value::from(object.with("_ts", number(self.ts)))
    }
}

/// All users of one database with their permissions.
#[derive(Clone, Debug, Default)]
pub(super) struct Users {
    names: HashMap<String, UserRid>,
    users: BTreeMap<UserRid, Arc<User>>,
    permission_names: HashMap<(UserRid, String), PermissionRid>,
    permissions: BTreeMap<PermissionRid, Arc<Permission>>,
}

impl Users {
    /// Adds or replaces a user; one of the same name and another id is gone by that.
    fn insert_user(&mut self, user: Arc<User>) {
        if let Some(former) = self.names.insert(user.name.clone(), user.rid)
            && former != user.rid
        {
            self.users.remove(&former);
        }
        self.users.insert(user.rid, user);
    }

    /// Forgets a name, and the user who bears it still: it may have got another one.
    fn remove_user(&mut self, name: &str) {
        if let Some(rid) = self.names.remove(name)
            && self.users.get(&rid).is_some_and(|user| user.name == name)
        {
            self.users.remove(&rid);
        }
    }

    /// The same for permissions.
    fn insert_permission(&mut self, permission: Arc<Permission>) {
        let name = (permission.rid.user, permission.name.clone());
        if let Some(former) = self.permission_names.insert(name, permission.rid)
            && former != permission.rid
        {
            self.permissions.remove(&former);
        }
        self.permissions.insert(permission.rid, permission);
    }

    fn remove_permission(&mut self, user: UserRid, name: &str) {
        if let Some(rid) = self.permission_names.remove(&(user, name.to_owned()))
            && self.permissions.get(&rid).is_some_and(|permission| permission.name == name)
        {
            self.permissions.remove(&rid);
        }
    }
}

impl Catalog {
    /// A target as it would be written now: a name that has come to a container is that container.
    pub(crate) fn resolved(&self, target: &Target) -> Target {
        let known = match &target.owner {
            Owner::Known(_) => None,
            Owner::Named { database, name } => {
                let contents = self.databases.get(database);
                contents.and_then(|contents| contents.names.get(name)).copied()
            }
        };
        let owner = known.map_or_else(|| target.owner.clone(), Owner::Known);
        Target { owner, ..target.clone() }
    }

    /// Adds or replaces a user. A database that went away in the same moment takes it along.
    pub(super) fn insert_user(&mut self, user: Arc<User>) {
        self.change_users(user.rid.database, |users| users.insert_user(user));
    }

    pub(super) fn remove_user(&mut self, database: DatabaseRid, name: &str) {
        self.change_users(database, |users| users.remove_user(name));
    }

    pub(super) fn insert_permission(&mut self, permission: Arc<Permission>) {
        let database = permission.rid.user.database;
        self.change_users(database, |users| users.insert_permission(permission));
    }

    pub(super) fn remove_permission(&mut self, user: UserRid, name: &str) {
        self.change_users(user.database, |users| users.remove_permission(user, name));
    }

    fn change_users(&mut self, database: DatabaseRid, change: impl FnOnce(&mut Users)) {
        if let Some(contents) = self.databases.get_mut(&database) {
            change(Arc::make_mut(&mut Arc::make_mut(contents).users));
        }
    }
}
