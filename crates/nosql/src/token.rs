//! What a resource token says: the grant of a permission, as a short JSON text.
//!
//! The gateway signs and verifies these bytes, the engine knows what the grant opens; this file is
//! the format between both. Only this server reads what it wrote, so there is one form of it.

use std::sync::Arc;

use partita_engine::{Access, Grant, Owner, Permission, PermissionMode, Target};
use partita_gateway::auth::{AuthError, Keys};
use partita_model::{
    Clock, ContainerRid, DatabaseRid, Object, PartitionKeyHeader, PermissionRid, ScriptRid, Value,
};

use crate::error::Failure;

const PERMISSION: &str = "p";
const CONTAINER: &str = "c";
/// Of a container that has but a name: its database, and the name.
const DATABASE: &str = "d";
const NAME: &str = "n";
const ITEM: &str = "i";
const SCRIPT: &str = "s";
const KEY: &str = "k";
const MODE: &str = "m";

/// Hands out tokens for permissions.
#[derive(Clone, Copy)]
pub(crate) struct Issuer<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) clock: &'a dyn Clock,
}

impl Issuer<'_> {
    /// The permission with a new token that lives so long. An account without a read-write key has
    /// none to give.
    pub(crate) fn with_token(self, permission: &Permission, seconds: u64) -> Value {
        let ends = self.clock.unix_millis() / 1_000 + seconds;
        let token = self.keys.issue_token(&write_permission(permission), ends);
        match (permission.to_value(), token) {
            (Value::Object(body), Some(token)) => Value::from(body.with("_token", token)),
            (body, _) => body,
        }
    }
}

fn write_permission(permission: &Permission) -> Vec<u8> {
    let Permission { rid, mode, target, .. } = permission;
    write(*rid, *mode, target)
}

pub(crate) fn write(permission: PermissionRid, mode: PermissionMode, target: &Target) -> Vec<u8> {
    let Target { owner, item, script, partition_key } = target;
    let mode = match mode {
        PermissionMode::Read => "read",
        PermissionMode::All => "all",
    };
    let mut grant = Object::new().with(PERMISSION, permission.to_string()).with(MODE, mode);
    match owner {
        Owner::Known(rid) => grant.insert(CONTAINER, rid.to_string()),
        Owner::Named { database, name } => {
            grant.insert(DATABASE, database.to_string());
            grant.insert(NAME, name.as_str());
        }
    }
    if let Some(item) = item {
        grant.insert(ITEM, item.as_str());
    }
    if let Some(script) = script {
        grant.insert(SCRIPT, script.to_string());
    }
    if let Some(key) = partition_key {
        grant.insert(KEY, key.to_header_json());
    }
    Value::from(grant).to_json().into_bytes()
}

/// What the contents of a verified token allow.
pub(crate) fn read(contents: &[u8]) -> Result<Access, Failure> {
    let grant = Value::parse(contents).ok().and_then(|value| grant(&value));
    match grant {
        Some(grant) => Ok(Access::Grant(Arc::new(grant))),
        None => Err(AuthError::Malformed("the resource token makes no sense".to_owned()).into()),
    }
}

fn grant(value: &Value) -> Option<Grant> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let partition_key = match text(KEY) {
        Some(key) => Some(PartitionKeyHeader::parse(key).ok()?),
        None => None,
    };
    let script = match text(SCRIPT) {
        Some(rid) => Some(ScriptRid::parse(rid)?),
        None => None,
    };
    let owner = match text(NAME) {
        Some(name) => {
            Owner::Named { database: DatabaseRid::parse(text(DATABASE)?)?, name: name.to_owned() }
        }
        None => Owner::Known(ContainerRid::parse(text(CONTAINER)?)?),
    };
    Some(Grant {
        permission: PermissionRid::parse(text(PERMISSION)?)?,
        mode: PermissionMode::parse(text(MODE)?)?,
        target: Target { owner, item: text(ITEM).map(str::to_owned), script, partition_key },
    })
}
