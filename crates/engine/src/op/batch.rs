//! Several operations on items in one request, as data.

use partita_model::{Charge, Error, Etag, PartitionKeyHeader};

use super::{Change, Condition, Indexing, ItemBody, TriggerNames};

/// How the operations of a batch belong together.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchMode {
    /// All or none, in order, on one logical partition, in one commit.
    Atomic {
        /// None: the container knows no partition keys.
        partition_key: Option<PartitionKeyHeader>,
    },
    /// Each for itself, on one physical partition.
    Bulk {
        /// The partition's range id.
        range_id: String,
        on_error: OnError,
    },
}

/// What becomes of a bulk's operations after one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// They are done all the same; operations that do not depend on each other run at once.
    Continue,
    /// They are left undone; each waits for the one before it.
    Stop,
}

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchOperation {
    pub action: BatchAction,
    /// None: that of the batch; in a bulk, that of the body.
    pub partition_key: Option<PartitionKeyHeader>,
    pub condition: Option<Condition>,
    /// How long the item that it writes shall live, in seconds, whatever the item's own property
    /// says; -1: for ever. None: as the property says.
    pub ttl_seconds: Option<i32>,
    /// What runs before and after it, in the batch's transaction; in a bulk, in its own.
    pub triggers: TriggerNames,
    pub returns: Returns,
}

/// What an operation does. Bodies are raw: what is wrong with one is that operation's result.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchAction {
    Create {
        body: Vec<u8>,
        indexing: Indexing,
    },
    Upsert {
        body: Vec<u8>,
        indexing: Indexing,
    },
    Replace {
        id: String,
        body: Vec<u8>,
        indexing: Indexing,
    },
    Patch {
        id: String,
        body: Vec<u8>,
    },
    Read {
        id: String,
    },
    Delete {
        id: String,
    },
    /// The door could not make sense of it: this error is its result.
    Refused(Error),
}

/// What a write tells of the item that it wrote. A read tells all of it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    Item,
    /// Only its ETag.
    Etag,
}

/// What came of one operation.
#[derive(Debug)]
pub struct BatchResult {
    pub result: Result<BatchDone, Error>,
    pub charge: Charge,
}

/// What an operation did.
#[derive(Debug)]
pub enum BatchDone {
    /// `body` is absent where the operation asked for none.
    Item {
        etag: Etag,
        body: Option<ItemBody>,
        change: Change,
    },
    /// A condition on a read said that the client has it already.
    NotModified {
        etag: String,
    },
    Deleted,
}
