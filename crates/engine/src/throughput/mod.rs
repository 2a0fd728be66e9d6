//! Provisioned throughput: who may use how much, and who has used what.
//!
//! Every partition has a [`Meter`]. A request is *admitted* to the partitions that it is about to
//! ask, or refused with the time after which it would be admitted; when it is done, each partition
//! is *charged* what the request cost there. The charges of all partitions add up to the charge of
//! the reply, to the hundredth. A query may run for long: what it costs for sure is *owed* by its
//! partitions while it runs, so that those who come meanwhile are admitted by that.
//!
//! `limit.rs` is the arithmetic of a rate limit, `budget.rs` what a partition may use, `assign.rs`
//! which budget a partition has. `meter.rs`, `window.rs` and `hot.rs` tell what it did. `quota.rs`
//! is about another limit, the size of a logical partition.
//!
//! Reads and writes of items are throttled; the catalog's resources and plans of queries are not.

mod budget;
mod hot;
mod limit;
mod meter;
mod window;

pub(crate) use budget::{Budget, Refused};
pub use budget::{Demand, Priority};
pub use hot::HotKey;
pub use meter::{LargeKey, Meter};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Charges are counted in hundredths.
pub(crate) const CENTS_PER_RU: f64 = 100.0;

/// Whether requests over the provisioned throughput are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThroughputMode {
    /// They are counted, and served.
    Off,
    #[default]
    Enforced,
}
