//! How much was written to a partition since its size was looked at: see `moves/triggers.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much was written to a partition since its size was looked at.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// False: nobody has looked since the partition was made or the process began, or the look was
    /// not followed up. The next look includes the partition, whatever was written.
    is_known: AtomicBool,
    bytes: AtomicU64,
}

impl Growth {
    /// Adds to it; true if that makes it worth a look.
    pub(crate) fn add(&self, bytes: u64, enough: u64) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        before < enough && before.saturating_add(bytes) >= enough
    }

    pub(crate) fn is_due(&self, enough: u64) -> bool {
        !self.is_known.load(Ordering::Relaxed) || self.bytes.load(Ordering::Relaxed) >= enough
    }

    /// Begins to count anew. Called before the size is read: what is written after this, and
    /// perhaps not in the size, is counted for the next look.
    pub(crate) fn begin_look(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Nothing follows from the look before what is written next has grown enough.
    pub(crate) fn end_look(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// The next look includes the partition, whatever is written.
    pub(crate) fn forget(&self) {
        self.is_known.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_asks_for_a_look_each_time_it_reaches_the_threshold() {
        let growth = Growth::default();
        assert!(growth.is_due(100), "never looked at");
        assert_eq!([60, 60, 60].map(|bytes| growth.add(bytes, 100)), [false, true, false]);
        growth.begin_look();
        assert!(!growth.is_due(100));
        assert_eq!([99, 1, 500].map(|bytes| growth.add(bytes, 100)), [false, true, false]);
        assert!(growth.is_due(100));
        growth.begin_look();
        growth.forget();
        assert!(growth.is_due(100) && growth.add(100, 100));
    }
}
