//! Provisioned throughput: how much a partition may use, and what it has used.
//!
//! Every partition has a [`Meter`]. `limit.rs` is the arithmetic of a rate limit, `budget.rs` what
//! a partition may use; `meter.rs`, `window.rs` and `hot.rs` tell what it did. Which budget a
//! partition has is up to the catalog (`catalog/budgets.rs`); who is admitted and what is charged,
//! to the core (`core/admission.rs`).
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
