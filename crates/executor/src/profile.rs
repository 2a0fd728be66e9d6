//! What the executor knows of each operation: its name, where it runs, what becomes of it without
//! a client, and whether it administers.
//!
//! There is one table, [`Profile::of`], and it has no wildcard: a new operation does not compile
//! until it has its row.

use partita_engine::{
    BatchAction, BatchMode, BatchOperation, EncryptionKeyOp, Op, PermissionOp, ScriptOp, UserOp,
};
use partita_gateway::IfLeft;

/// An operation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name in metrics and in the audit log.
    pub name: &'static str,
    pub mode: RunMode,
    /// What becomes of it if its client leaves before it is answered.
    pub if_left: IfLeft,
    /// It changes what is not data, or hands out what opens data: the audit log has a line of it.
    pub administers: bool,
}

/// Where an operation runs: work of a page's size, and changes of the catalog that make or drop
/// partitions and so wait for the disk, must not hold up an async worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// On the thread of its request.
    Inline,
    /// In the pool, as a page that is mostly made in a moment: it does not wait behind queries.
    BriefJob,
    /// The same up to its commit, for which no thread waits.
    UntilCommit,
    /// In the pool.
    LongJob,
    /// Inline, if it turns out to be brief, else in the pool.
    InlineThenLong,
    /// In the pool, on a thread that waits for scripts, which run in processes of their own.
    ScriptJob,
}

impl Profile {
    pub fn of(op: &Op) -> Profile {
        match op {
            Op::CreateDatabase { .. } => admin("CreateDatabase", RunMode::LongJob),
            Op::ReadDatabase { .. } => read("ReadDatabase", RunMode::Inline),
            Op::DeleteDatabase { .. } => admin("DeleteDatabase", RunMode::LongJob),
            Op::ListDatabases { .. } => read("ListDatabases", RunMode::LongJob),
            Op::CreateContainer { .. } => admin("CreateContainer", RunMode::LongJob),
            Op::ReadContainer { .. } => read("ReadContainer", RunMode::Inline),
            Op::ReplaceContainer { .. } => admin("ReplaceContainer", RunMode::LongJob),
            Op::DeleteContainer { .. } => admin("DeleteContainer", RunMode::LongJob),
            Op::ListContainers { .. } => read("ListContainers", RunMode::LongJob),
            Op::ContainerStatistics { .. } => read("ContainerStatistics", RunMode::LongJob),
            Op::ListPartitions { .. } => read("ListPartitions", RunMode::Inline),
            Op::DescribePartitions { .. } => read("DescribePartitions", RunMode::LongJob),
            Op::RecentQueries { .. } => read("RecentQueries", RunMode::Inline),
            Op::LocateKey { .. } => read("LocateKey", RunMode::Inline),
            Op::SplitPartition { .. } => admin("SplitPartition", RunMode::LongJob),
            Op::MergePartitions { .. } => admin("MergePartitions", RunMode::LongJob),
            Op::ReadOffer { .. } => read("ReadOffer", RunMode::LongJob),
            Op::ReplaceOffer { .. } => admin("ReplaceOffer", RunMode::LongJob),
            Op::ListOffers { .. } => read("ListOffers", RunMode::LongJob),
            Op::QueryResources { list, .. } => {
                Profile { if_left: IfLeft::Cancel, ..Profile::of(list) }
            }
            Op::User(op) => of_user(op),
            Op::Permission(op) => of_permission(op),
            Op::EncryptionKey(op) => of_encryption_key(op),
            Op::Script(op) => of_script(op),
            Op::CreateItem { .. } => write("CreateItem", RunMode::Inline),
            Op::UpsertItem { .. } => write("UpsertItem", RunMode::Inline),
            Op::ReplaceItem { .. } => write("ReplaceItem", RunMode::Inline),
            Op::PatchItem { .. } => write("PatchItem", RunMode::Inline),
            Op::ReadItem { .. } => read("ReadItem", RunMode::Inline),
            Op::DeleteItem { .. } => write("DeleteItem", RunMode::Inline),
            Op::ListItems { .. } => page("ListItems", RunMode::BriefJob),
            // A query may take long with every item.
            Op::ReadChanges { request, .. } if request.query.is_some() => {
                page("ReadChanges", RunMode::LongJob)
            }
            Op::ReadChanges { .. } => page("ReadChanges", RunMode::BriefJob),
            Op::Query { .. } => page("Query", RunMode::InlineThenLong),
            Op::PlanQuery { .. } => read("PlanQuery", RunMode::LongJob),
            Op::DeletePartitionKey { .. } => write("DeletePartitionKey", RunMode::LongJob),
            Op::ListConflicts { .. } => read("ListConflicts", RunMode::Inline),
            Op::FindConflict { .. } => read("FindConflict", RunMode::Inline),
            Op::ExecuteProcedure(_) => write("ExecuteProcedure", RunMode::ScriptJob),
            Op::Import(_) => write("Import", RunMode::LongJob),
            Op::Triggered { write: item, .. } => write(Profile::of(item).name, RunMode::ScriptJob),
            Op::Batch { operations, mode, .. } => of_batch(operations, mode),
        }
    }
}

/// What is brief is answered if it still can be.
const fn read(name: &'static str, mode: RunMode) -> Profile {
    Profile { name, mode, if_left: IfLeft::Answer, administers: false }
}

/// What may take long is cancelled.
const fn page(name: &'static str, mode: RunMode) -> Profile {
    Profile { name, mode, if_left: IfLeft::Cancel, administers: false }
}

/// What changes something is done.
const fn write(name: &'static str, mode: RunMode) -> Profile {
    Profile { name, mode, if_left: IfLeft::Finish, administers: false }
}

const fn admin(name: &'static str, mode: RunMode) -> Profile {
    Profile { administers: true, ..write(name, mode) }
}

/// Who may do what is worth a line of the audit log also where it is only looked at.
const fn audited(profile: Profile) -> Profile {
    Profile { administers: true, ..profile }
}

fn of_user(op: &UserOp) -> Profile {
    match op {
        UserOp::Create { .. } => admin("CreateUser", RunMode::LongJob),
        UserOp::Upsert { .. } => admin("UpsertUser", RunMode::LongJob),
        UserOp::Read { .. } => audited(read("ReadUser", RunMode::Inline)),
        UserOp::Replace { .. } => admin("ReplaceUser", RunMode::LongJob),
        UserOp::Delete { .. } => admin("DeleteUser", RunMode::LongJob),
        UserOp::List { .. } => audited(read("ListUsers", RunMode::LongJob)),
    }
}

fn of_permission(op: &PermissionOp) -> Profile {
    match op {
        PermissionOp::Create { .. } => admin("CreatePermission", RunMode::LongJob),
        PermissionOp::Upsert { .. } => admin("UpsertPermission", RunMode::LongJob),
        PermissionOp::Read { .. } => audited(read("ReadPermission", RunMode::Inline)),
        PermissionOp::Replace { .. } => admin("ReplacePermission", RunMode::LongJob),
        PermissionOp::Delete { .. } => admin("DeletePermission", RunMode::LongJob),
        PermissionOp::List { .. } => audited(read("ListPermissions", RunMode::LongJob)),
    }
}

fn of_encryption_key(op: &EncryptionKeyOp) -> Profile {
    match op {
        EncryptionKeyOp::Create { .. } => admin("CreateEncryptionKey", RunMode::LongJob),
        EncryptionKeyOp::Read { .. } => read("ReadEncryptionKey", RunMode::Inline),
        EncryptionKeyOp::Replace { .. } => admin("ReplaceEncryptionKey", RunMode::LongJob),
        EncryptionKeyOp::List { .. } => read("ListEncryptionKeys", RunMode::LongJob),
    }
}

fn of_script(op: &ScriptOp) -> Profile {
    match op {
        ScriptOp::Create { .. } => admin("CreateScript", RunMode::LongJob),
        ScriptOp::Upsert { .. } => admin("UpsertScript", RunMode::LongJob),
        ScriptOp::Read { .. } => read("ReadScript", RunMode::Inline),
        ScriptOp::Replace { .. } => admin("ReplaceScript", RunMode::LongJob),
        ScriptOp::Delete { .. } => admin("DeleteScript", RunMode::LongJob),
        ScriptOp::List { .. } => read("ListScripts", RunMode::LongJob),
    }
}

fn of_batch(operations: &[BatchOperation], mode: &BatchMode) -> Profile {
    let name = match mode {
        BatchMode::Atomic { .. } => "Batch",
        BatchMode::Bulk { .. } => "Bulk",
    };
    if operations.iter().any(|operation| !operation.triggers.is_empty()) {
        return write(name, RunMode::ScriptJob);
    }
    let reads = |operation: &BatchOperation| matches!(operation.action, BatchAction::Read { .. });
    if operations.iter().all(reads) {
        return read(name, RunMode::UntilCommit);
    }
    write(name, RunMode::UntilCommit)
}

#[cfg(test)]
mod tests {
    use partita_engine::{ContainerPath, DatabasePath, PageRequest, Returns, UserPath};

    use super::*;

    fn batch(actions: Vec<BatchAction>) -> Op {
        let operation = |action| BatchOperation {
            action,
            partition_key: None,
            condition: None,
            ttl_seconds: None,
            triggers: Default::default(),
            returns: Returns::Item,
        };
        Op::Batch {
            container: ContainerPath { database: "d".into(), container: "c".into() },
            operations: actions.into_iter().map(operation).collect(),
            mode: BatchMode::Atomic { partition_key: None },
        }
    }

    #[test]
    fn what_only_reads_ends_with_its_client_and_what_changes_something_does_not() {
        let if_left = |op: &Op| Profile::of(op).if_left;
        let read = || BatchAction::Read { id: "x".into() };
        let delete = || BatchAction::Delete { id: "x".into() };
        assert_eq!(if_left(&batch(vec![read(), read()])), IfLeft::Answer);
        assert_eq!(if_left(&batch(vec![read(), delete()])), IfLeft::Finish);
        let page = PageRequest::default();
        let list = UserOp::List { database: DatabasePath("d".into()), filter: None, page };
        assert_eq!(if_left(&Op::User(list)), IfLeft::Answer);
        let user = UserPath { database: "d".into(), user: "u".into() };
        assert_eq!(if_left(&Op::User(UserOp::Delete { user, condition: None })), IfLeft::Finish);
    }
}
