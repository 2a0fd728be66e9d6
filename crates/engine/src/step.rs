//! One step of the work that is done in the background: how much it may do, and what it came to.

use std::time::Duration;

/// How much one step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceBudget {
    /// Items looked at, at most.
    pub items_max: usize,
    /// Bytes of items, at most, except that a step looks at one item at least.
    pub bytes_max: usize,
}

impl Default for MaintenanceBudget {
    fn default() -> MaintenanceBudget {
        // A write that comes in the same moment waits for all of the step: see `pace.rs`.
        MaintenanceBudget { items_max: 64, bytes_max: 256 << 10 }
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// There is nothing to do.
    Idle,
    /// Something was done; there may be more.
    Busy,
    /// The same, but others should have their turn first, for so long.
    Resting(Duration),
    /// What there is to do has to wait for operations under way: try again in a moment.
    Blocked,
}
