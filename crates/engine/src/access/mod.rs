//! May this caller do this? One function, one table.
//!
//! Who the caller is has been established before (the gateway's business). Read-only credentials
//! may read databases, containers, items and offers, and change nothing: not even users and
//! permissions are open to them, since a permission comes with a token that may write. What a
//! resource token opens is in `grant.rs`, what roles allow in `roles.rs`.

mod grant;
mod roles;

use std::sync::Arc;

use partita_model::{Error, PartitionKey, PermissionRid, Result, ScriptRid};

use crate::catalog::{CatalogStore, Container, PermissionMode, Target};
use crate::op::{BatchAction, Effect, ItemPath, Op};

pub use self::roles::{DataAction, RoleAssignment, RoleScope, Roles};

/// What the caller's credentials allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Access {
    #[default]
    ReadWrite,
    ReadOnly,
    /// What a resource token opens.
    Grant(Arc<Grant>),
    /// What the roles of a principal allow.
    Roles(Arc<Roles>),
}

/// The contents of a resource token: a permission as it was when the token was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub permission: PermissionRid,
    pub mode: PermissionMode,
    pub target: Target,
}

/// Finds the id and partition key of the item that a path means.
pub(crate) type FindItem<'a> = &'a dyn Fn(&ItemPath) -> Result<(String, PartitionKey)>;

pub(crate) fn check(
    catalog: &CatalogStore,
    access: &Access,
    op: &Op,
    find_item: FindItem<'_>,
) -> Result<()> {
    match access {
        Access::ReadWrite => Ok(()),
        Access::Grant(granted) => grant::check(catalog, granted, op, find_item),
        Access::Roles(given) => roles::check(catalog, given, op),
        Access::ReadOnly if reads(op) => Ok(()),
        Access::ReadOnly => Err(Error::forbidden(
            "The input authorization token can't serve the request: a read-only key cannot write. \
             Use a read-write key",
        )),
    }
}

/// Are these credentials good for anything still? A resource token is not once its permission is
/// gone.
pub(crate) fn check_standing(catalog: &CatalogStore, access: &Access) -> Result<()> {
    match access {
        Access::ReadWrite | Access::ReadOnly => Ok(()),
        Access::Grant(granted) => grant::standing(catalog, granted).map(|_| ()),
        Access::Roles(given) => roles::standing(given),
    }
}

/// Refuses a container that the credentials do not open. [`check`] has looked at it already, but
/// its name may have been given to another container in between.
pub(crate) fn check_container(access: &Access, container: &Container) -> Result<()> {
    match access {
        Access::Grant(granted) if !granted.target.owner.is(container) => {
            Err(grant::refused("the token is for another resource"))
        }
        // Roles are about names: whatever has the name now is meant.
        Access::Grant(_) | Access::Roles(_) | Access::ReadWrite | Access::ReadOnly => Ok(()),
    }
}

/// Refuses a script that the credentials do not open: its name may have been given to another one
/// since [`check`] looked at it.
pub(crate) fn check_script(access: &Access, script: ScriptRid) -> Result<()> {
    match access {
        Access::Grant(granted) if granted.target.script.is_some_and(|opened| opened != script) => {
            Err(grant::refused("the token is for another resource"))
        }
        Access::Grant(_) | Access::Roles(_) | Access::ReadWrite | Access::ReadOnly => Ok(()),
    }
}

/// Is it open to credentials that may only read?
fn reads(op: &Op) -> bool {
    match op {
        Op::Batch { operations, .. } => {
            operations.iter().all(|operation| matches!(operation.action, BatchAction::Read { .. }))
        }
        Op::QueryResources { list, .. } => reads(list),
        // Whoever reads a permission has a token that may write.
        Op::User(_) | Op::Permission(_) => false,
        op => op.effect() == Effect::Reads,
    }
}
