//! Many items for one partition, as an operation.

use partita_model::PartitionKeyHeader;

use super::ContainerPath;

/// Items to be made in one commit. All of them lie in one partition, under as many partition keys
/// as they like, or under the one that the request names.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    pub container: ContainerPath,
    pub target: ImportTarget,
    /// Raw, as single creates have them.
    pub documents: Vec<Vec<u8>>,
    pub ids: ImportIds,
    pub existing: Existing,
}

/// Where the items of an import belong.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportTarget {
    /// None: the container knows no partition keys.
    Key(Option<PartitionKeyHeader>),
    /// Into the partition with this range id.
    Range(String),
}

/// What becomes of an item without an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportIds {
    /// It is wrong.
    Given,
    /// It gets one.
    Made,
}

/// What becomes of an import that meets an item which is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced, and the import goes on.
    Replaced,
    /// What came before it is done, and the outcome names it.
    Ends,
    /// Nothing is done.
    Fails,
}
