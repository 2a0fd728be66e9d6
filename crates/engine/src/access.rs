//! May this caller do this? One function, one table.
//!
//! Who the caller is has been established before (the gateway's business). Read-only credentials
//! may read databases, containers, items and offers, and change nothing.

use partita_model::{Error, Result};

use crate::context::Access;
use crate::op::Op;

pub(crate) fn check(access: Access, op: &Op) -> Result<()> {
    match access {
        Access::ReadWrite => Ok(()),
        Access::ReadOnly if reads(op) => Ok(()),
        Access::ReadOnly => Err(Error::forbidden(
            "The input authorization token can't serve the request: a read-only key cannot write. \
             Use a read-write key",
        )),
    }
}

fn reads(op: &Op) -> bool {
    match op {
        Op::ReadDatabase { .. }
        | Op::ListDatabases { .. }
        | Op::ReadContainer { .. }
        | Op::ListContainers { .. }
        | Op::ContainerStatistics { .. }
        | Op::ListPartitions { .. }
        | Op::ReadOffer { .. }
        | Op::ListOffers { .. }
        | Op::ReadItem { .. }
        | Op::ListItems { .. } => true,
        Op::CreateDatabase { .. }
        | Op::DeleteDatabase { .. }
        | Op::CreateContainer { .. }
        | Op::ReplaceContainer { .. }
        | Op::DeleteContainer { .. }
        | Op::ReplaceOffer { .. }
        | Op::CreateItem { .. }
        | Op::UpsertItem { .. }
        | Op::ReplaceItem { .. }
        | Op::PatchItem { .. }
        | Op::DeleteItem { .. } => false,
    }
}
