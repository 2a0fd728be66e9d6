//! Bugs that the simulator must find.
//!
//! Each is a mistake that somebody could make in the engine or in a store. They are put in between
//! the two, in the simulated store, and exist nowhere else: no build of the server can have them.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// A write gets through the fence while a move cuts over.
    FenceLeak,
    /// A move loses records of the feed when it copies.
    LostCopy,
    /// A move copies records of the feed twice.
    DoubleCopy,
    /// A commit is acknowledged before it is synced.
    EarlyAck,
    /// Writes do not expect that a unique key is still free.
    UnguardedUnique,
    /// The sweep removes what has expired without a look whether it was written again.
    BlindExpiry,
}
