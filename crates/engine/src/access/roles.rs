//! What roles allow: who was given which actions, and where.
//!
//! A principal that an identity provider vouches for has no key. What it may do is the sum of its
//! assignments, each a set of [`DataAction`]s at a scope: the account, a database, a container. An
//! assignment reaches everything below its scope. Actions are about data; making and changing
//! databases, containers, throughput, scripts, users and permissions is not for roles, as with the
//! service.
//!
//! [`needed`] is the table: what every operation needs. An operation that is not in it does not
//! compile, and one that says `None` is closed to all roles.

use std::collections::BTreeSet;

use partita_model::{Error, ErrorKind, Result};

use crate::catalog::CatalogStore;
use crate::op::{BatchAction, BatchOperation, ContainerPath, DatabasePath, EncryptionKeyOp, Op};

/// What the roles of one principal allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Who it is, for messages.
    pub principal: String,
    pub assignments: Vec<RoleAssignment>,
}

/// Actions that are allowed somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAssignment {
    pub scope: RoleScope,
    pub actions: BTreeSet<DataAction>,
}

/// Where actions are allowed. Resources are named, so a new one of the same name is meant, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleScope {
    Account,
    Database(String),
    Container { database: String, container: String },
}

/// What can be allowed, as the service divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataAction {
    /// To see that databases, containers and partition key ranges are there, and how they are
    /// defined.
    ReadMetadata,
    CreateItem,
    ReadItem,
    ReplaceItem,
    UpsertItem,
    DeleteItem,
    ExecuteQuery,
    ReadChangeFeed,
    ExecuteStoredProcedure,
    ManageConflicts,
}

impl DataAction {
    /// All of them.
    pub const ALL: [DataAction; 10] = [
        DataAction::ReadMetadata,
        DataAction::CreateItem,
        DataAction::ReadItem,
        DataAction::ReplaceItem,
        DataAction::UpsertItem,
        DataAction::DeleteItem,
        DataAction::ExecuteQuery,
        DataAction::ReadChangeFeed,
        DataAction::ExecuteStoredProcedure,
        DataAction::ManageConflicts,
    ];

    /// The name that the service has for it.
    pub fn name(self) -> &'static str {
        match self {
            DataAction::ReadMetadata => "Microsoft.DocumentDB/databaseAccounts/readMetadata",
            DataAction::CreateItem => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create"
            }
            DataAction::ReadItem => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read"
            }
            DataAction::ReplaceItem => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace"
            }
            DataAction::UpsertItem => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/upsert"
            }
            DataAction::DeleteItem => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete"
            }
            DataAction::ExecuteQuery => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery"
            }
            DataAction::ReadChangeFeed => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed"
            }
            DataAction::ExecuteStoredProcedure => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeStoredProcedure"
            }
            DataAction::ManageConflicts => {
                "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/manageConflicts"
            }
        }
    }

    /// The actions that a name stands for: one, or with a `*` at its end all that begin like it.
    /// None if there are none.
    pub fn named(name: &str) -> Option<BTreeSet<DataAction>> {
        let is_meant = |action: &DataAction| match name.strip_suffix('*') {
            Some(start) => action.name().starts_with(start),
            None => action.name().eq_ignore_ascii_case(name),
        };
        let actions: BTreeSet<DataAction> = DataAction::ALL.into_iter().filter(is_meant).collect();
        (!actions.is_empty()).then_some(actions)
    }
}

/// What an operation needs, and where.
struct Needed<'a> {
    place: ResourceRef<'a>,
    actions: Vec<DataAction>,
}

#[derive(Clone, Copy)]
enum ResourceRef<'a> {
    Account,
    Database(&'a str),
    Container(&'a ContainerPath),
}

fn needed(op: &Op) -> Option<Needed<'_>> {
    use DataAction as Do;
    let at = |place, action| Some(Needed { place, actions: vec![action] });
    let inside = |container, action| at(ResourceRef::Container(container), action);
    match op {
        Op::ListDatabases { .. } => at(ResourceRef::Account, Do::ReadMetadata),
        Op::ReadDatabase { database, .. } | Op::ListContainers { database, .. } => {
            at(ResourceRef::Database(&database.0), Do::ReadMetadata)
        }
        // Without its keys a client cannot read what it encrypted.
        Op::EncryptionKey(EncryptionKeyOp::Read { key, .. }) => {
            at(ResourceRef::Database(&key.database), Do::ReadMetadata)
        }
        Op::EncryptionKey(EncryptionKeyOp::List { database, .. }) => {
            at(ResourceRef::Database(&database.0), Do::ReadMetadata)
        }
        Op::ReadContainer { container, .. }
        | Op::ContainerStatistics { container }
        | Op::ListPartitions { container, .. } => inside(container, Do::ReadMetadata),
        Op::ReadItem { path, .. } => inside(&path.container, Do::ReadItem),
        Op::CreateItem { container, .. } => inside(container, Do::CreateItem),
        Op::UpsertItem { container, .. } => inside(container, Do::UpsertItem),
        Op::ReplaceItem { path, .. } | Op::PatchItem { path, .. } => {
            inside(&path.container, Do::ReplaceItem)
        }
        Op::DeleteItem { path, .. } => inside(&path.container, Do::DeleteItem),
        Op::DeletePartitionKey { container, .. } => inside(container, Do::DeleteItem),
        Op::ListItems { container, .. } => inside(container, Do::ReadItem),
        Op::Query { container, .. } | Op::PlanQuery { container, .. } => {
            inside(container, Do::ExecuteQuery)
        }
        Op::ReadChanges { container, .. } => inside(container, Do::ReadChangeFeed),
        Op::ListConflicts { container } | Op::FindConflict { container, .. } => {
            inside(container, Do::ManageConflicts)
        }
        Op::ExecuteProcedure(call) => inside(&call.container, Do::ExecuteStoredProcedure),
        // For its callers it is a procedure.
        Op::Import(import) => inside(&import.container, Do::ExecuteStoredProcedure),
        Op::QueryResources { list, .. } => needed(list),
        // What a trigger does was decided by those who may change the container.
        Op::Triggered { write, .. } => needed(write),
        Op::Batch { container, operations, .. } => Some(Needed {
            place: ResourceRef::Container(container),
            actions: operations.iter().filter_map(of_member).collect(),
        }),
        Op::CreateDatabase { .. }
        | Op::DeleteDatabase { .. }
        | Op::CreateContainer { .. }
        | Op::ReplaceContainer { .. }
        | Op::DeleteContainer { .. }
        | Op::DescribePartitions { .. }
        | Op::LocateKey { .. }
        | Op::SplitPartition { .. }
        | Op::MergePartitions { .. }
        | Op::RecentQueries { .. }
        | Op::ReadOffer { .. }
        | Op::ReplaceOffer { .. }
        | Op::ListOffers { .. }
        | Op::EncryptionKey(EncryptionKeyOp::Create { .. } | EncryptionKeyOp::Replace { .. })
        | Op::Script(_)
        | Op::User(_)
        | Op::Permission(_) => None,
    }
}

/// What an operation of a batch needs; one that makes no sense is refused for that.
fn of_member(operation: &BatchOperation) -> Option<DataAction> {
    match &operation.action {
        BatchAction::Create { .. } => Some(DataAction::CreateItem),
        BatchAction::Upsert { .. } => Some(DataAction::UpsertItem),
        BatchAction::Replace { .. } | BatchAction::Patch { .. } => Some(DataAction::ReplaceItem),
        BatchAction::Read { .. } => Some(DataAction::ReadItem),
        BatchAction::Delete { .. } => Some(DataAction::DeleteItem),
        BatchAction::Refused(_) => None,
    }
}

/// May the principal do this?
pub(super) fn check(catalog: &CatalogStore, roles: &Roles, op: &Op) -> Result<()> {
    let Some(needed) = needed(op) else {
        return Err(Error::new(
            ErrorKind::NotForRoles,
            "Request blocked by Auth: this request cannot be authorized by an AAD token in the data \
             plane. Use one of the account's keys.",
        ));
    };
    let place = Named::of(catalog, needed.place);
    // A batch without a single operation still tells about its container.
    let least = needed.actions.is_empty().then_some(DataAction::ReadMetadata);
    let missing = needed
        .actions
        .into_iter()
        .chain(least)
        .find(|action| !roles.assignments.iter().any(|given| given.allows(&place, *action)));
    match missing {
        None => Ok(()),
        Some(action) => Err(Error::new(
            ErrorKind::ActionNotGranted,
            format!(
                "Request blocked by Auth: Request is blocked because principal [{}] does not have \
                 required RBAC permissions to perform action [{}] on resource [{}].",
                roles.principal,
                action.name(),
                place.link()
            ),
        )),
    }
}

/// Does the principal have anything to do here at all?
pub(super) fn standing(roles: &Roles) -> Result<()> {
    if roles.assignments.iter().any(|given| !given.actions.is_empty()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ActionNotGranted,
        format!(
            "Request blocked by Auth: principal [{}] has no role in this account.",
            roles.principal
        ),
    ))
}

/// A place by its names. One that is not there is called as the request calls it.
enum Named {
    Account,
    Database(String),
    Container { database: String, container: String },
}

impl Named {
    fn of(catalog: &CatalogStore, place: ResourceRef<'_>) -> Named {
        let catalog = catalog.current();
        match place {
            ResourceRef::Account => Named::Account,
            ResourceRef::Database(path) => {
                let path = DatabasePath(path.to_owned());
                let found = catalog.database(&path).map(|found| found.name.clone());
                Named::Database(found.unwrap_or(path.0))
            }
            ResourceRef::Container(path) => match catalog.container(path) {
                Ok(found) => Named::Container {
                    database: found.container.database.name.clone(),
                    container: found.container.definition.name.clone(),
                },
                Err(_) => Named::Container {
                    database: path.database.clone(),
                    container: path.container.clone(),
                },
            },
        }
    }

    fn link(&self) -> String {
        match self {
            Named::Account => "/".to_owned(),
            Named::Database(database) => format!("/dbs/{database}"),
            Named::Container { database, container } => {
                format!("/dbs/{database}/colls/{container}")
            }
        }
    }
}

impl RoleAssignment {
    fn allows(&self, place: &Named, action: DataAction) -> bool {
        let reaches = match (&self.scope, place) {
            (RoleScope::Account, _) => true,
            (RoleScope::Database(scope), Named::Database(database))
            | (RoleScope::Database(scope), Named::Container { database, .. }) => scope == database,
            (
                RoleScope::Container { database: of, container: scope },
                Named::Container { database, container },
            ) => of == database && scope == container,
            (RoleScope::Database(_) | RoleScope::Container { .. }, _) => false,
        };
        reaches && self.actions.contains(&action)
    }
}
