//! Operations on client encryption keys.

use partita_model::Value;
use partita_query::Filter;

use super::{Condition, DatabasePath, EncryptionKeyPath, PageRequest};

/// An operation on client encryption keys. Bodies are as the client sent them. Keys are deleted
/// with their database only: items that nobody could read any more would be left otherwise.
#[derive(Debug)]
pub enum EncryptionKeyOp {
    Create {
        database: DatabasePath,
        body: Value,
    },
    Read {
        key: EncryptionKeyPath,
        condition: Option<Condition>,
    },
    /// Wraps the data key anew.
    Replace {
        key: EncryptionKeyPath,
        body: Value,
        condition: Option<Condition>,
    },
    List {
        database: DatabasePath,
        filter: Option<Filter>,
        page: PageRequest,
    },
}
