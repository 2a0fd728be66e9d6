//! The audit log: who was refused, and who changed what is not data.
//!
//! One line (`target: audit`, level info) for every request that was not allowed (401, 403), and
//! for every one that changes databases, containers, throughput, scripts, users or permissions,
//! hands out tokens, moves partitions, or turns the controls for tests. It says who, what, from
//! where, and how it ended; never a key, a signature, a token or a body.

use partita_engine::Access;

use crate::record::{AnsweredRequest, RequestRecord};

/// Statuses of requests that were not allowed: unauthenticated, and forbidden.
const REFUSED: [u16; 2] = [401, 403];

/// Writes the line, if the request is worth one.
pub(crate) fn note(record: &RequestRecord, answered: &AnsweredRequest<'_>) {
    let refused = REFUSED.contains(&answered.status);
    if !refused && !record.administers {
        return;
    }
    tracing::info!(
        target: "audit",
        who = who(record.who.as_ref()),
        operation = record.operation,
        method = answered.method,
        path = answered.path,
        from = %answered.peer,
        status = answered.status,
        activity_id = answered.activity_id,
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
