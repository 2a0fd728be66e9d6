//! On whose behalf an operation takes its turn in the pool.
//!
//! Credentials get fair shares, and among the operations of one credential those on each container
//! do. What somebody may do is what tells them apart: the account's keys that may write count as
//! one, those that may read as another, each permission and each principal by itself.

use std::hash::{DefaultHasher, Hash, Hasher};

use partita_engine::{Access, Op};
use partita_gateway::{Origin, Share};

/// Whose it is, and with queries which one: those that differ in values only are likely to take as
/// long as each other, over as much.
pub(crate) fn origin(access: &Access, op: &Op) -> Origin {
    let kind = match op {
        Op::Query { query, .. } => {
            let over = std::mem::discriminant(&query.scope);
            Some(hash(&(over, query.shape().collect::<Vec<u8>>())))
        }
        _ => None,
    };
    Origin { share: share(access, op), kind }
}

/// Whose it is, and what it works on.
fn share(access: &Access, op: &Op) -> Share {
    let container = match op {
        Op::Query { container, .. }
        | Op::ListItems { container, .. }
        | Op::ReadChanges { container, .. }
        | Op::PlanQuery { container, .. }
        | Op::Batch { container, .. } => hash(&(&container.database, &container.container)),
        // Resources of the catalog, and work that is limited elsewhere.
        _ => 0,
    };
    Share { credential: credential(access), container }
}

fn credential(access: &Access) -> u64 {
    match access {
        Access::ReadWrite => 0,
        Access::ReadOnly => 1,
        Access::Grant(grant) => hash(&grant.permission.to_string()),
        Access::Roles(roles) => hash(&roles.principal),
    }
}

/// The same in one process, which is all that is asked of it.
fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
