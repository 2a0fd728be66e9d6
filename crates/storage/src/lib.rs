//! Where the bytes live: ordered maps in partitions, behind one narrow contract.
//!
//! Read [`contract`] first: it is the whole interface and says what every store promises, also how
//! an answer travels from a committer to the caller (`contract/ticket.rs`). Then:
//!
//! - `memory`: the reference, and the store of throw-away runs;
//! - `prepared`: what a batch means, shared by all stores;
//! - `embedded`: the store on this machine's disk, fjall and what is built around it;
//! - `mirror` and `fault`: stores around stores, to compare and to fail on purpose;
//! - [`suite`]: what every store must do, as tests.
//!
//! Nothing in this crate knows a document, and nothing above it knows which store it has.

pub mod contract;
mod embedded;
mod fault;
mod memory;
mod mirror;
mod prepared;
mod range;
pub mod suite;

pub use contract::{
    Batch, Commit, Direction, Disk, DiskLevel, Entry, Expect, KeyRange, Page, PartitionId, Record,
    Result, ScanLimit, Snapshot, Space, Status, StorageError, Store, Ticket, TicketSetter, Visit,
    Write, counter,
};
pub use embedded::{
    Capacity, DiskProbe, DiskSettings, Durability, EmbeddedSettings, EmbeddedStore, Report,
    SystemDisk, check,
};
pub use fault::{FaultPlan, FaultStore};
pub use memory::MemoryStore;
pub use mirror::MirrorStore;
pub use prepared::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
