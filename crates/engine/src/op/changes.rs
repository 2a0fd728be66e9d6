//! Reading the change feed, as an operation.

use super::Scope;

/// A page of the change feed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangesRequest {
    pub scope: Scope,
    pub from: ChangesFrom,
    /// Only what changed at this time or later, in Unix seconds, whatever the place to begin: the
    /// line of times has steps in it after a change of the clock or a merge of partitions.
    pub since: Option<u64>,
    /// None: the server's choice. What was committed together comes together, even if it is more.
    pub items_max: Option<usize>,
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
