//! What an operation does to what is stored.

use super::{EncryptionKeyOp, Op, PermissionOp, ScriptOp, UserOp};

/// The effect of an operation, by what it is. A new operation does not compile without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    /// It writes one item, and nothing else.
    WritesItem,
    /// It writes items, or may.
    WritesItems,
    /// It changes databases, containers, their partitions, or what belongs to them beside items.
    WritesResources,
}

impl Op {
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Op::ReadDatabase { .. }
            | Op::ListDatabases { .. }
            | Op::ReadContainer { .. }
            | Op::ListContainers { .. }
            | Op::ContainerStatistics { .. }
            | Op::ListPartitions { .. }
            | Op::DescribePartitions { .. }
            | Op::LocateKey { .. }
            | Op::RecentQueries { .. }
            | Op::ReadOffer { .. }
            | Op::ListOffers { .. }
            | Op::ReadItem { .. }
            | Op::ListItems { .. }
            | Op::ReadChanges { .. }
            | Op::Query { .. }
            | Op::PlanQuery { .. }
            | Op::ListConflicts { .. }
            | Op::FindConflict { .. }
            | Op::QueryResources { .. }
            | Op::User(UserOp::Read { .. } | UserOp::List { .. })
            | Op::Permission(PermissionOp::Read { .. } | PermissionOp::List { .. })
            | Op::EncryptionKey(EncryptionKeyOp::Read { .. } | EncryptionKeyOp::List { .. })
            | Op::Script(ScriptOp::Read { .. } | ScriptOp::List { .. }) => Effect::Reads,
            Op::CreateItem { .. }
            | Op::UpsertItem { .. }
            | Op::ReplaceItem { .. }
            | Op::PatchItem { .. }
            | Op::DeleteItem { .. } => Effect::WritesItem,
            Op::DeletePartitionKey { .. }
            | Op::ExecuteProcedure(_)
            | Op::Triggered { .. }
            | Op::Batch { .. }
            | Op::Import(_) => Effect::WritesItems,
            Op::CreateDatabase { .. }
            | Op::DeleteDatabase { .. }
            | Op::CreateContainer { .. }
            | Op::ReplaceContainer { .. }
            | Op::DeleteContainer { .. }
            | Op::SplitPartition { .. }
            | Op::MergePartitions { .. }
            | Op::ReplaceOffer { .. }
            | Op::User(_)
            | Op::EncryptionKey(_)
            | Op::Permission(_)
            | Op::Script(_) => Effect::WritesResources,
        }
    }
}
