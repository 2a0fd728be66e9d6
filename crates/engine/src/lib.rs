//! The database itself: partitions, items, indexes, the catalog. Knows no wire and no socket.
//!
//! A newcomer reads in this order: `op/` (everything the database can do, as data), `database.rs`
//! (the one entry), `core/` (what all operations share), `catalog/` (what there is, and where),
//! `item/` (reading and writing), `keys/` and `record.rs` (what it looks like in the store),
//! `index/`, `pricing.rs`. ARCHITECTURE.md has the layers, and a sentence on each module.
//!
//! **The layers.** Lowest are keys, records and the index, then the catalog and operations as data,
//! then `core/`. On it stand the services (`item/`, `query/`, `changes/`, `moves/`, `maintenance/`,
//! `resources/`, `describe/`): each owns what it keeps in memory and knows those below it only.
//! `database.rs` owns them all.
//!
//! **The life of a point read.** `Database::execute` → `core/` resolves the container from the
//! catalog's copy in memory → `item/mod.rs` completes the key, hashes it, and finds the partition
//! by binary search → `item/read.rs` takes a snapshot of that partition, checks the session token,
//! and gets one record → the text inside it rises as it is; `pricing.rs` puts a number on what was
//! used.
//!
//! **The life of a write.** `item/draft.rs` understands what was sent → `item/write.rs` looks at
//! what is stored and decides → `changeset/` computes everything that changes: item, index
//! entries, counters, feed → the store decides in order and commits together with others → the
//! ticket resolves when it is durable. A conflict goes back to "looks at what is stored".
//!
//! Invariants:
//! - Nothing here asks the operating system for time, randomness or threads: they are handed in.
//! - Nothing here builds a storage key outside `keys/` and `catalog/`.
//! - No lock is held while waiting for the store.
//! - An item, its index entries, its unique keys, its feed record and the counters change together.

mod access;
mod catalog;
mod changes;
mod changeset;
mod check;
mod context;
mod core;
mod database;
mod describe;
mod entry_value;
mod feed;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod item;
mod keys;
mod live;
mod maintenance;
mod memory;
mod moves;
mod op;
mod path;
mod pricing;
mod query;
mod record;
mod resources;
mod script_runtime;
mod settings;
mod step;
mod throughput;
mod wait;

pub use access::{Access, DataAction, Grant, RoleAssignment, RoleScope, Roles};
pub use catalog::{
    Container, Database as DatabaseResource, DefaultThroughput, EncryptionKey, Move, Observed,
    Offer, Owner, Partition, Permission, PermissionMode, Policies, StoredScript, Target, Trigger,
    TriggerMoment, TriggerOperation, User,
};
pub use check::{CheckReport, Finding};
pub use context::{Context, Supervisor};
pub use database::{Database, DatabaseStatus};
pub use describe::{Alert, AlertKind, PartitionMetrics, Watch};
pub use index::ServedPolicy;
pub use item::Turn;
pub use op::*;
pub use resources::FIRST_LSN;
pub use script_runtime::{
    HostItem, HostLink, HostPage, HostQuery, HostTarget, HostWrite, Script, ScriptCall, ScriptEnd,
    ScriptHost, ScriptRole, ScriptRuntime, WriteKind,
};
pub use settings::{
    ChangeFeedSettings, EngineSettings, PartitionSettings, QuerySettings, ScriptSettings,
};
pub use step::{Maintenance, MaintenanceBudget};
pub use throughput::{Demand, HotKey, LargeKey, Meter, Priority, ThroughputMode};
pub use wait::block_on;
