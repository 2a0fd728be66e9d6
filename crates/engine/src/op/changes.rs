//! Reading the change feed, as an operation and its outcome.

use partita_model::{Lsn, PartitionKey, Value};

use super::{ItemBody, Scope};

pub use crate::feed::Kind as ChangeKind;

/// A page of the change feed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangesRequest {
    pub scope: Scope,
    pub mode: ChangesMode,
    pub from: ChangesFrom,
    /// Only what changed later than this second, in Unix seconds, whatever the place to begin: the
    /// line of times has steps in it after a change of the clock or a merge of partitions.
    pub since: Option<u64>,
    /// Only what a query lets through, as it shows it.
    pub query: Option<ChangesQuery>,
    /// None: the server's choice. What was committed together comes together, even if it is more.
    pub items_max: Option<usize>,
    /// Return something to wait for the next change with.
    pub listen: bool,
}

/// A query on the change feed: it filters with WHERE, chooses with SELECT, and does nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangesQuery {
    pub text: String,
    /// Names with their `@`.
    pub parameters: Vec<(String, Value)>,
    /// Of all versions, look at the version before, too, and not only at the present one.
    pub previous: bool,
}

/// Which changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesMode {
    /// Every item that is there, where it changed last.
    LatestVersion,
    /// Every change, deletes too, of containers that keep them for a while.
    AllVersions,
}

/// Where a reader begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangesFrom {
    Beginning,
    /// After the last commit.
    Now,
    /// Where a page with this ETag ended, without its quotes.
    Etag(String),
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedItem {
    /// The commit that made it.
    pub lsn: Lsn,
    /// Unix seconds.
    pub ts: u32,
    /// The item as it was after the change; None: deleted.
    pub current: Option<ItemBody>,
    /// Set where all versions are told.
    pub version: Option<Box<VersionChange>>,
    /// The texts are what a query made of the item.
    pub queried: bool,
}

/// What is told of a change beside the item.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionChange {
    pub kind: ChangeKind,
    /// Deleted because its time was over.
    pub expired: bool,
    /// The commit that made the version before.
    pub previous_lsn: Option<Lsn>,
    /// The version before, of items that somebody deleted.
    pub previous: Option<ItemBody>,
    pub id: String,
    pub partition_key: PartitionKey,
}
