//! Operations on users and their permissions.

use partita_model::Value;
use partita_query::Filter;

use super::{Condition, DatabasePath, PageRequest, PermissionPath, UserPath};

/// An operation on users. All a user has is a name.
#[derive(Debug)]
pub enum UserOp {
    Create {
        database: DatabasePath,
        name: String,
    },
    Upsert {
        database: DatabasePath,
        name: String,
        condition: Option<Condition>,
    },
    Read {
        user: UserPath,
        condition: Option<Condition>,
    },
    /// Gives the user a name, possibly another one.
    Replace {
        user: UserPath,
        name: String,
        condition: Option<Condition>,
    },
    /// Deletes the user with all its permissions.
    Delete {
        user: UserPath,
        condition: Option<Condition>,
    },
    List {
        database: DatabasePath,
        filter: Option<Filter>,
        page: PageRequest,
    },
}

/// An operation on permissions. Bodies are as the client sent them.
#[derive(Debug)]
pub enum PermissionOp {
    Create { user: UserPath, body: Value },
    Upsert { user: UserPath, body: Value, condition: Option<Condition> },
    Read { permission: PermissionPath, condition: Option<Condition> },
    Replace { permission: PermissionPath, body: Value, condition: Option<Condition> },
    Delete { permission: PermissionPath, condition: Option<Condition> },
    List { user: UserPath, filter: Option<Filter>, page: PageRequest },
}
