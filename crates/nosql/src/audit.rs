//! The audit log: who was refused, and who changed what is not data.
//!
//! One line (`target: audit`, level info) for every request that was not allowed (401, 403), and
//! for every one that changes databases, containers, throughput, scripts, users or permissions,
//! hands out tokens, moves partitions, or turns the controls for tests. It says who, what, from
//! where, and how it ended; never a key, a signature, a token or a body.

use std::net::SocketAddr;

use http::{Method, StatusCode};
use partita_engine::{Access, EncryptionKeyOp, Op, ScriptOp};

use crate::activity::ActivityId;

/// A request that was answered.
pub(crate) struct Answered<'a> {
    /// None: nobody that is known.
    pub(crate) who: Option<&'a Access>,
    pub(crate) operation: &'a str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) peer: SocketAddr,
    pub(crate) status: StatusCode,
    pub(crate) activity_id: &'a ActivityId,
    /// It changes what is not data.
    pub(crate) administers: bool,
}

/// Writes the line, if the request is worth one.
pub(crate) fn note(request: &Answered<'_>) {
    let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&request.status);
    if !refused && !request.administers {
        return;
    }
    tracing::info!(
        target: "audit",
        who = who(request.who),
        operation = request.operation,
        method = request.method.as_str(),
        path = request.path,
        from = %request.peer,
        status = request.status.as_u16(),
        activity_id = request.activity_id.as_str(),
        refused,
    );
}

fn who(access: Option<&Access>) -> String {
    match access {
        None => "unknown".to_owned(),
        Some(Access::ReadWrite) => "a read-write key".to_owned(),
        Some(Access::ReadOnly) => "a read-only key".to_owned(),
        Some(Access::Grant(grant)) => format!("the permission {}", grant.permission),
        Some(Access::Roles(roles)) => format!("the principal {}", roles.principal),
    }
}

/// Does it change what is not data, or hand out what opens data?
pub(crate) fn administers(op: &Op) -> bool {
    match op {
        Op::CreateDatabase { .. }
        | Op::DeleteDatabase { .. }
        | Op::CreateContainer { .. }
        | Op::ReplaceContainer { .. }
        | Op::DeleteContainer { .. }
        | Op::SplitPartition { .. }
        | Op::MergePartitions { .. }
        | Op::ReplaceOffer { .. }
        | Op::User(_)
        | Op::Permission(_) => true,
        Op::EncryptionKey(op) => {
            matches!(op, EncryptionKeyOp::Create { .. } | EncryptionKeyOp::Replace { .. })
        }
        Op::QueryResources { list, .. } => administers(list),
        Op::Script(op) => !matches!(op, ScriptOp::Read { .. } | ScriptOp::List { .. }),
        Op::ReadDatabase { .. }
        | Op::ListDatabases { .. }
        | Op::ReadContainer { .. }
        | Op::ListContainers { .. }
        | Op::ContainerStatistics { .. }
        | Op::ListPartitions { .. }
        | Op::DescribePartitions { .. }
        | Op::RecentQueries { .. }
        | Op::LocateKey { .. }
        | Op::ReadOffer { .. }
        | Op::ListOffers { .. }
        | Op::CreateItem { .. }
        | Op::UpsertItem { .. }
        | Op::ReplaceItem { .. }
        | Op::PatchItem { .. }
        | Op::ReadItem { .. }
        | Op::DeleteItem { .. }
        | Op::ListItems { .. }
        | Op::ReadChanges { .. }
        | Op::Query { .. }
        | Op::PlanQuery { .. }
        | Op::DeletePartitionKey { .. }
        | Op::ListConflicts { .. }
        | Op::FindConflict { .. }
        | Op::ExecuteProcedure(_)
        | Op::Triggered { .. }
        | Op::Batch { .. }
        | Op::Import(_) => false,
    }
}
