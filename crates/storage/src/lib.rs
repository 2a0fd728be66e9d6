//! Where the bytes live: ordered maps in partitions, behind one narrow contract.
//!
//! Read [`contract`] first: it is the whole interface and says what every store promises. Then:
//!
//! - [`memory`](MemoryStore): the reference, and the store of throw-away runs;
//! - `prepared`: what a batch means, shared by all stores;
//! - [`ticket`](Ticket): how an answer travels from a committer to who waits for it.
//!
//! Nothing in this crate knows a document, and nothing above it knows which store it has.

pub mod contract;
mod error;
mod memory;
mod prepared;
mod range;
mod ticket;

pub use contract::{
    Batch, Commit, Direction, Entry, Expect, KeyRange, Page, PartitionId, Record, Result,
    ScanLimit, Snapshot, Space, Status, Store, Write, counter,
};
pub use error::StorageError;
pub use memory::MemoryStore;
pub use prepared::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use ticket::{Ticket, TicketSetter};
