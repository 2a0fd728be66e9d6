//! What a resource token opens.
//!
//! Exactly what its permission names: a container, what is under a partition key, one item, or one
//! script, which can be read, replaced and deleted and, if it is a procedure, run. Who may replace
//! a procedure may do everything that one could: a permission with All for a script is for those
//! who are trusted with the container, unless it is for one partition key, which does not let
//! change what runs under others, too. A script works on all that is under one partition key: who
//! may run one there, or write with triggers, must hold the key, or the procedure itself, and not
//! only an item. The holder may besides read the container's definition and its partition key
//! ranges, without which no client can work. Names are resolved to resource ids before anything is
//! compared, so a token does not outlive its container, unless the permission is for a container
//! that was not there yet and so for its name; and the permission must still be there, with the
//! same target.
//!
//! [`touched`] is the table: what every operation touches. An operation that is not in it does not
//! compile, and one that says `None` is closed to all tokens.

use std::sync::Arc;

use partita_model::{Error, KeyPart, PartitionKeyHeader, Result, ScriptKind, Value};

use super::{FindItem, Grant};
use crate::catalog::{CatalogStore, Container, Permission, PermissionMode, Resolved};
use crate::op::{
    BatchAction, BatchMode, BatchOperation, ContainerPath, ImportTarget, ItemPath, Op,
    ProcedureCall, Scope, ScriptOp, ScriptPath,
};

/// What an operation touches, and how.
struct Touched<'a> {
    container: &'a ContainerPath,
    part: Part<'a>,
    writes: bool,
    /// Triggers run with it, and see everything under the partition key.
    triggers: bool,
}

/// A part of a container.
enum Part<'a> {
    /// What clients must know to ask for anything: the definition and the partition key ranges.
    Definition,
    /// All items, or facts about all of them.
    Everything,
    /// What is under the partition keys that the request names; None where it names none.
    Keys(Vec<Option<&'a PartitionKeyHeader>>),
    /// One item, and what it becomes if the operation might give it another id.
    Item(&'a ItemPath, Option<&'a [u8]>),
    /// One script.
    Script(&'a ScriptPath),
    /// A procedure that runs under a partition key.
    Procedure(&'a ProcedureCall),
}

fn touched(op: &Op) -> Option<Touched<'_>> {
    let reads = |container, part| Some(Touched { container, part, writes: false, triggers: false });
    let writes = |container, part| Some(Touched { container, part, writes: true, triggers: false });
    match op {
        Op::ReadContainer { container, .. } | Op::ListPartitions { container, .. } => {
            reads(container, Part::Definition)
        }
        // A plan says where a query would look, not what is there.
        Op::PlanQuery { container, .. } => reads(container, Part::Definition),
        Op::ContainerStatistics { container } => reads(container, Part::Everything),
        Op::ListItems { container, scope, .. } => reads(container, part_of(scope)),
        Op::ReadChanges { container, request } => reads(container, part_of(&request.scope)),
        Op::Query { container, query } => reads(container, part_of(&query.scope)),
        Op::ReadItem { path, .. } => reads(&path.container, Part::Item(path, None)),
        Op::PatchItem { path, .. } | Op::DeleteItem { path, .. } => {
            writes(&path.container, Part::Item(path, None))
        }
        Op::ReplaceItem { path, item, .. } => {
            writes(&path.container, Part::Item(path, Some(&item.body)))
        }
        Op::CreateItem { container, item } | Op::UpsertItem { container, item, .. } => {
            writes(container, Part::Keys(vec![item.partition_key.as_ref()]))
        }
        Op::DeletePartitionKey { container, partition_key } => {
            writes(container, Part::Keys(vec![partition_key.as_ref()]))
        }
        Op::ExecuteProcedure(call) => writes(&call.container, Part::Procedure(call)),
        Op::Triggered { write, .. } => {
            touched(write).map(|touched| Touched { triggers: true, ..touched })
        }
        Op::QueryResources { list, .. } => touched(list),
        Op::ListConflicts { container } | Op::FindConflict { container, .. } => {
            reads(container, Part::Everything)
        }
        Op::Script(ScriptOp::Read { script, .. }) => reads(&script.container, Part::Script(script)),
        Op::Script(ScriptOp::List { container, .. }) => reads(container, Part::Everything),
        Op::Script(ScriptOp::Create { container, .. } | ScriptOp::Upsert { container, .. }) => {
            writes(container, Part::Everything)
        }
        Op::Script(ScriptOp::Replace { script, .. } | ScriptOp::Delete { script, .. }) => {
            writes(&script.container, Part::Script(script))
        }
        Op::Batch { container, operations, mode } => Some(Touched {
            container,
            part: part_of_batch(operations, mode),
            writes: !operations.iter().all(|o| matches!(o.action, BatchAction::Read { .. })),
            triggers: operations.iter().any(|operation| !operation.triggers.is_empty()),
        }),
        Op::Import(import) => writes(&import.container, part_of_import(&import.target)),
        Op::CreateDatabase { .. }
        | Op::ReadDatabase { .. }
        | Op::DeleteDatabase { .. }
        | Op::ListDatabases { .. }
        | Op::CreateContainer { .. }
        | Op::ReplaceContainer { .. }
        | Op::DeleteContainer { .. }
        | Op::ListContainers { .. }
        | Op::DescribePartitions { .. }
        | Op::LocateKey { .. }
        | Op::SplitPartition { .. }
        | Op::MergePartitions { .. }
        | Op::RecentQueries { .. }
        | Op::ReadOffer { .. }
        | Op::ReplaceOffer { .. }
        | Op::ListOffers { .. }
        | Op::User(_)
        | Op::EncryptionKey(_)
        | Op::Permission(_) => None,
    }
}

/// The part that a feed covers. Only a partition key says whose items come; a range does not.
fn part_of(scope: &Scope) -> Part<'_> {
    match scope {
        Scope::PartitionKey(header) => Part::Keys(vec![Some(header)]),
        Scope::All | Scope::Range { .. } | Scope::Epks(_) => Part::Everything,
    }
}

/// The part that an import touches: a range says nothing of its keys.
fn part_of_import(target: &ImportTarget) -> Part<'_> {
    match target {
        ImportTarget::Key(header) => Part::Keys(vec![header.as_ref()]),
        ImportTarget::Range(_) => Part::Everything,
    }
}

/// The part that a batch touches: the key of the whole, or that of each operation.
fn part_of_batch<'a>(operations: &'a [BatchOperation], mode: &'a BatchMode) -> Part<'a> {
    let own = operations.iter().map(|operation| operation.partition_key.as_ref());
    match mode {
        BatchMode::Atomic { partition_key } => {
            let whole = std::iter::once(partition_key.as_ref());
            Part::Keys(whole.chain(own.filter(Option::is_some)).collect())
        }
        BatchMode::Bulk { .. } => Part::Keys(own.collect()),
    }
}

/// May the holder of a resource token do this?
pub(super) fn check(
    catalog: &CatalogStore,
    grant: &Grant,
    op: &Op,
    find_item: FindItem<'_>,
) -> Result<()> {
    let permission = standing(catalog, grant)?;
    let Some(touched) = touched(op) else {
        return Err(refused("a resource token does not open resources of this kind"));
    };
    let resolved = match catalog.current().parent_container(touched.container) {
        Ok(resolved) if grant.target.owner.is(&resolved.container) => resolved,
        // Who may not see a container is not told either whether it is there.
        Ok(_) | Err(_) => return Err(refused("the token is for another resource")),
    };
    if touched.writes && [grant.mode, permission.mode] != [PermissionMode::All; 2] {
        return Err(refused("the permission's mode is Read"));
    }
    let (target, container) = (&grant.target, &resolved.container);
    if touched.triggers && target.item.is_some() {
        return Err(refused("it is for one item, and triggers see all under the partition key"));
    }
    let is_part = target.item.is_some() || target.script.is_some();
    let opened = match touched.part {
        Part::Definition => true,
        Part::Everything => !is_part && target.partition_key.is_none(),
        Part::Keys(headers) => {
            !is_part && headers.into_iter().all(|header| opens_key(grant, container, header))
        }
        Part::Item(..) if target.script.is_some() => false,
        Part::Item(path, body) => opens_item(grant, container, path, body, find_item)?,
        Part::Script(_) if touched.writes && target.partition_key.is_some() => false,
        Part::Script(path) => opens_script(catalog, grant, &resolved, path)?,
        Part::Procedure(call) => {
            opens_key(grant, container, call.partition_key.as_ref())
                && opens_run(catalog, grant, &resolved, &call.procedure)?
        }
    };
    if opened {
        return Ok(());
    }
    Err(refused("the token is for another item or partition key of the container, or for a script"))
}

/// The permission behind a token, unless it was deleted or is about something else by now.
pub(super) fn standing(catalog: &CatalogStore, grant: &Grant) -> Result<Arc<Permission>> {
    match catalog.current().permission_by_rid(grant.permission) {
        Some(permission) if permission.target == grant.target => Ok(Arc::clone(permission)),
        Some(_) | None => Err(refused("its permission was deleted or changed. Read a new token")),
    }
}

fn opens_key(grant: &Grant, container: &Container, header: Option<&PartitionKeyHeader>) -> bool {
    let Some(opened) = &grant.target.partition_key else { return true };
    match header.map(|header| header.0.as_slice()) {
        Some([]) if container.definition.partition_key.system_key => {
            [KeyPart::Undefined].starts_with(&opened.0)
        }
        Some(key) => key.starts_with(&opened.0),
        None => false,
    }
}

fn opens_item(
    grant: &Grant,
    container: &Container,
    path: &ItemPath,
    body: Option<&[u8]>,
    find_item: FindItem<'_>,
) -> Result<bool> {
    let header = path.partition_key.as_ref();
    let Some(item) = &grant.target.item else { return Ok(opens_key(grant, container, header)) };
    let (id, key) = find_item(path)?;
    let key = PartitionKeyHeader::from(key);
    Ok(id == *item
        && opens_key(grant, container, Some(&key))
        && body.is_none_or(|body| keeps_id(body, item)))
}

fn opens_script(
    catalog: &CatalogStore,
    grant: &Grant,
    resolved: &Resolved,
    path: &ScriptPath,
) -> Result<bool> {
    match grant.target.script {
        // Scripts concern all partition keys.
        None => Ok(grant.target.item.is_none() && grant.target.partition_key.is_none()),
        Some(rid) => {
            let script = catalog.current().script(resolved, path.kind, &path.script)?;
            Ok(script.rid == rid)
        }
    }
}

/// May the holder run this procedure, under a partition key that the token opens? Who may write
/// everything there may do it in one transaction, too.
fn opens_run(
    catalog: &CatalogStore,
    grant: &Grant,
    resolved: &Resolved,
    procedure: &str,
) -> Result<bool> {
    let Some(rid) = grant.target.script else { return Ok(grant.target.item.is_none()) };
    let script = catalog.current().script(resolved, ScriptKind::Procedure, procedure)?;
    Ok(script.rid == rid)
}

/// Does an item that replaces another one keep its id? What is no item at all is refused later.
fn keeps_id(body: &[u8], id: &str) -> bool {
    match Value::parse(body) {
        Ok(body) => body.get("id").and_then(Value::as_str).is_none_or(|new| new == id),
        Err(_) => true,
    }
}

/// The error for what a token does not open.
pub(super) fn refused(why: &str) -> Error {
    Error::forbidden(format!("The input authorization token can't serve the request: {why}"))
}
