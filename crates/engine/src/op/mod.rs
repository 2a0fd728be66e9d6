//! Everything the database can do, as data.
//!
//! Doors, scripts, tests and background jobs all speak [`Op`] and get a [`Reply`]. An op says what
//! is wanted in the database's words; the reply carries the outcome together with what every wire
//! must tell about a request: its charge, and which partition served it at which LSN, for errors
//! as well as for successes.
//!
//! Resources are addressed by path segments that may each be a name or a resource id: the catalog
//! decides (a name wins; the whole path is of one kind).

mod batch;
mod changes;
mod effect;
mod encryption_keys;
mod import;
mod partitions;
mod query;
mod report;
mod scripts;
mod users;

use std::sync::Arc;

use partita_model::{
    Charge, Epk, EpkRange, Error, Etag, Lsn, PartitionKeyHeader, Patch, Reservation, ScriptKind,
    Throughput, ThroughputBucket, Value,
};
use partita_query::{Filter, Query};

pub use batch::{BatchAction, BatchDone, BatchMode, BatchOperation, BatchResult, OnError, Returns};

pub use changes::{
    ChangeKind, ChangedItem, ChangesFrom, ChangesMode, ChangesQuery, ChangesRequest, VersionChange,
};
pub(crate) use effect::Effect;
pub use encryption_keys::EncryptionKeyOp;
pub use import::{Existing, Import, ImportIds, ImportTarget};
pub use partitions::{
    HotPartition, KeyLocation, LogicalPartition, MoveKind, Moving, PartitionDescription,
    PartitionFigures, PartitionReport, RangesSeen, RecentQuery,
};
pub use query::{
    IndexUse, LeafReport, PlanHint, PlanQueryRequest, QueryReport, QueryRequest, Serving, TieOrder,
};
pub use scripts::{ProcedureCall, ScriptOp, TriggerNames};
pub use users::{PermissionOp, UserOp};

pub use crate::catalog::KeyRequired;
use crate::catalog::{
    Container, Database as DatabaseResource, EncryptionKey, Offer, Permission, StoredScript, User,
};
pub use crate::live::NextChange;
pub use crate::path::{
    ContainerPath, DatabasePath, EncryptionKeyPath, PermissionPath, ScriptPath, UserPath,
};
pub use crate::record::Indexing;

/// A condition on the ETag of what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `If-Match: "etag"` or `*`.
    Match(EtagPattern),
    /// `If-None-Match: "etag"` or `*`.
    NoneMatch(EtagPattern),
}

/// An ETag as a client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagPattern {
    Any,
    /// Without quotes.
    Exact(String),
}

/// The part of a container that a feed covers.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    All,
    /// A full key, or a prefix of a hierarchical key.
    PartitionKey(PartitionKeyHeader),
    /// One physical partition by its range id, and within it possibly only some EPKs.
    Range {
        id: String,
        within: Option<EpkRange>,
    },
    /// Some EPKs. If they lie in several physical partitions, the answer is a `RangeGone` error.
    Epks(EpkRange),
}

/// How much of a feed to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// None: the server's choice.
    pub items_max: Option<usize>,
    /// As returned by the page before, verbatim.
    pub continuation: Option<String>,
}

/// One item, addressed.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemPath {
    pub container: ContainerPath,
    /// The item's id, or its resource id if the container was addressed by resource id.
    pub id: String,
    pub partition_key: Option<PartitionKeyHeader>,
}

/// What an error says whose condition did not hold: the service has two sentences for this, and
/// clients look for either.
pub(crate) const CONDITION_FAILED: &str = "Operation cannot be performed because one of the \
    specified precondition is not met. One of the specified pre-condition is not met";

/// An operation.
#[derive(Debug)]
pub enum Op {
    CreateDatabase {
        name: String,
        throughput: Option<Throughput>,
    },
    ReadDatabase {
        database: DatabasePath,
        condition: Option<Condition>,
    },
    DeleteDatabase {
        database: DatabasePath,
        condition: Option<Condition>,
    },
    /// All databases, or those the filter keeps.
    ListDatabases {
        filter: Option<Filter>,
        page: PageRequest,
    },

    CreateContainer {
        database: DatabasePath,
        /// The resource as the client sent it; `model::policy` validates and completes it.
        body: Value,
        /// None: the container shares the database's throughput if that has any, else what
        /// [`DefaultThroughput`](crate::DefaultThroughput) says.
        throughput: Option<Throughput>,
        /// Clients older than 2018-12-31 may create containers without a partition key.
        key_required: KeyRequired,
    },
    ReadContainer {
        container: ContainerPath,
        condition: Option<Condition>,
    },
    ReplaceContainer {
        container: ContainerPath,
        body: Value,
        condition: Option<Condition>,
    },
    DeleteContainer {
        container: ContainerPath,
        condition: Option<Condition>,
    },
    ListContainers {
        database: DatabasePath,
        filter: Option<Filter>,
        page: PageRequest,
        /// What the filter, or a query over the list, sees of containers without a partition key.
        key_required: KeyRequired,
    },
    /// Sizes and counts of a container and of each of its partitions.
    ContainerStatistics {
        container: ContainerPath,
    },
    /// The partition key ranges. `known` is the ETag of those that the client has seen.
    ListPartitions {
        container: ContainerPath,
        known: Option<EtagPattern>,
        /// Only those that came since.
        incremental: bool,
    },
    /// What every partition holds, and the `top` largest logical partitions.
    DescribePartitions {
        container: ContainerPath,
        top: usize,
    },
    /// The queries that were asked lately, without the values of their parameters.
    RecentQueries {
        container: ContainerPath,
    },
    /// Where a partition key, or the beginning of a hierarchical one, leads.
    LocateKey {
        container: ContainerPath,
        key: PartitionKeyHeader,
    },

    /// One partition becomes two. Answered when that is planned durably; the work follows in the
    /// background.
    SplitPartition {
        container: ContainerPath,
        range_id: String,
        at: SplitAt,
    },
    /// Two neighbours become one partition; as for a split, in the background.
    MergePartitions {
        container: ContainerPath,
        range_ids: Vec<String>,
    },

    ReadOffer {
        rid: String,
    },
    /// The offer with a changed content.
    ReplaceOffer {
        rid: String,
        change: OfferChange,
        condition: Option<Condition>,
    },
    ListOffers {
        filter: Option<Filter>,
        page: PageRequest,
    },

    /// The rows of a query over all that `list`, one of the operations that list resources, has.
    QueryResources {
        list: Box<Op>,
        query: Query,
        page: PageRequest,
    },

    User(UserOp),
    EncryptionKey(EncryptionKeyOp),
    Permission(PermissionOp),
    Script(ScriptOp),

    CreateItem {
        container: ContainerPath,
        item: NewItem,
    },
    UpsertItem {
        container: ContainerPath,
        item: NewItem,
        condition: Option<Condition>,
    },
    ReplaceItem {
        path: ItemPath,
        item: NewItem,
        condition: Option<Condition>,
    },
    PatchItem {
        path: ItemPath,
        patch: Patch,
        filter: Option<Filter>,
        condition: Option<Condition>,
    },
    ReadItem {
        path: ItemPath,
        condition: Option<Condition>,
    },
    DeleteItem {
        path: ItemPath,
        condition: Option<Condition>,
    },
    ListItems {
        container: ContainerPath,
        scope: Scope,
        page: PageRequest,
    },
    /// A page of the change feed.
    ReadChanges {
        container: ContainerPath,
        request: Box<ChangesRequest>,
    },
    /// A page of a query's result.
    Query {
        container: ContainerPath,
        query: Box<QueryRequest>,
    },
    /// How a client would run a query on the partitions and merge what they answer.
    PlanQuery {
        container: ContainerPath,
        query: Box<PlanQueryRequest>,
    },
    /// All items under one partition key.
    DeletePartitionKey {
        container: ContainerPath,
        partition_key: Option<PartitionKeyHeader>,
    },

    ListConflicts {
        container: ContainerPath,
    },
    /// Reading or deleting a conflict begins with finding it.
    FindConflict {
        container: ContainerPath,
        id: String,
    },

    /// A run of a stored procedure: a transaction on one logical partition.
    ExecuteProcedure(ProcedureCall),
    /// A write of one item with triggers: all of it is one transaction.
    Triggered {
        /// A create, upsert, replace or delete of an item.
        write: Box<Op>,
        triggers: TriggerNames,
    },

    /// Several operations on items: all or none of them, or each for itself.
    Batch {
        container: ContainerPath,
        operations: Vec<BatchOperation>,
        mode: BatchMode,
    },
    /// Many new items for one partition, in one commit.
    Import(Box<Import>),
}

/// Where a partition is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitAt {
    /// In the middle of its hash range.
    Midpoint,
    /// At this EPK, which becomes the first of the second half.
    Epk(Epk),
    /// Where about half of the stored bytes are on each side.
    Storage,
}

/// May a replaced offer change between manual and autoscale throughput?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    No,
    ToAutoscale,
    ToManual,
}

/// What becomes of an offer.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferChange {
    pub throughput: Throughput,
    /// Allows the change between manual and autoscale.
    pub migrate: Migrate,
    /// None: as they are.
    pub buckets: Option<Vec<ThroughputBucket>>,
}

/// An item to be written, as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct NewItem {
    /// The raw body; the engine validates it.
    pub body: Vec<u8>,
    /// None: derived from the body.
    pub partition_key: Option<PartitionKeyHeader>,
    pub indexing: Indexing,
}

/// The answer to an [`Op`].
#[derive(Debug)]
pub struct Reply {
    pub result: Result<Outcome, Error>,
    pub charge: Charge,
    /// Set for operations on items that reached a partition.
    pub served: Option<Served>,
    /// Set once the op's container was found.
    pub container: Option<Arc<Container>>,
    /// What scripts logged, if they ran and that was asked for.
    pub log: Option<String>,
    /// The memory of what came out: reserved until whoever sends it has no need of it any more.
    pub memory: Vec<Reservation>,
}

/// Which partition served a request, and how far it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub range_id: u32,
    /// The partition's LSN: of the commit for a write, of the view for a read.
    pub lsn: Lsn,
    /// The LSN of the item's last write, where one item was concerned.
    pub item_lsn: Option<Lsn>,
}

/// What came out.
#[derive(Debug)]
pub enum Outcome {
    Database {
        database: Arc<DatabaseResource>,
        change: Change,
    },
    Databases {
        databases: Vec<Arc<DatabaseResource>>,
        continuation: Option<String>,
    },
    /// The container itself is in [`Reply::container`].
    Container {
        change: Change,
        /// How much of it is indexed by its present policy, in percent.
        index_progress: u8,
        /// It has a part of its database's throughput, and none of its own.
        shares_throughput: bool,
    },
    Containers {
        database: Arc<DatabaseResource>,
        containers: Vec<Arc<Container>>,
        continuation: Option<String>,
    },
    Statistics {
        partitions: Vec<PartitionStatistics>,
    },
    /// `unchanged` when the client's ETag is the current one. With `since`, the client has seen the
    /// partitions as they were then.
    Partitions {
        etag: String,
        unchanged: bool,
        since: Option<RangesSeen>,
    },
    PartitionReport(Box<PartitionReport>),
    KeyLocation(Box<KeyLocation>),
    /// A split or merge that begins: range ids before and after.
    MovePlanned {
        parents: Vec<u32>,
        children: Vec<u32>,
    },
    RecentQueries {
        queries: Vec<RecentQuery>,
    },
    Offer {
        offer: Arc<Offer>,
        change: Change,
    },
    Offers {
        offers: Vec<Arc<Offer>>,
        continuation: Option<String>,
    },
    /// Rows of a query over resources; `of` is what it looked at.
    ResourceRows {
        of: Box<Outcome>,
        rows: Vec<Value>,
        continuation: Option<String>,
    },
    EncryptionKey {
        key: Arc<EncryptionKey>,
        change: Change,
    },
    EncryptionKeys {
        database: Arc<DatabaseResource>,
        keys: Vec<Arc<EncryptionKey>>,
        continuation: Option<String>,
    },
    User {
        user: Arc<User>,
        change: Change,
    },
    Users {
        database: Arc<DatabaseResource>,
        users: Vec<Arc<User>>,
        continuation: Option<String>,
    },
    Permission {
        permission: Arc<Permission>,
        change: Change,
    },
    Permissions {
        user: Arc<User>,
        permissions: Vec<Arc<Permission>>,
        continuation: Option<String>,
    },
    Script {
        script: Arc<StoredScript>,
        /// How many of its kind the container has.
        count: usize,
        change: Change,
    },
    /// Their container is in [`Reply::container`].
    Scripts {
        kind: ScriptKind,
        scripts: Vec<Arc<StoredScript>>,
        continuation: Option<String>,
    },
    /// One item's stored text, system properties included.
    Item {
        etag: Etag,
        body: ItemBody,
        change: Change,
    },
    Items {
        items: Vec<ItemBody>,
        continuation: Option<String>,
    },
    /// What changed, in the order of commits.
    Changes {
        changes: Vec<ChangedItem>,
        /// How far the reader is now.
        etag: String,
        /// The page ended before the end of the feed.
        more: bool,
        /// Ends when it is worth looking again, if that was asked for.
        next: Option<NextChange>,
    },
    /// Rows as JSON texts.
    Query {
        rows: Vec<String>,
        continuation: Option<String>,
        report: Box<QueryReport>,
    },
    Plan {
        plan: Value,
    },
    PartitionKeyDeleted,
    /// The conflicts of a container with one write region.
    NoConflicts,
    /// One for each operation, in their order.
    Batch {
        results: Vec<BatchResult>,
    },
    /// What came of an import.
    Imported {
        /// So many of its documents are items now, the first ones.
        count: usize,
        /// The one behind them, if it ended the import because it is there already.
        existing: Option<Vec<u8>>,
    },
    /// What a procedure answered, as JSON text; None: nothing.
    ProcedureAnswer {
        answer: Option<String>,
    },
    /// A condition on a read said that the client has it already.
    NotModified {
        etag: String,
    },
    Deleted,
}

/// What an op did to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    Created,
    Replaced,
}

/// Sizes of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionStatistics {
    pub range_id: u32,
    pub items: u64,
    pub bytes: u64,
}

/// The JSON text of an item, shared with the store's buffers where possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemBody(pub bytes::Bytes);
