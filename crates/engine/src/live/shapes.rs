//! The shapes that a partition's dictionary is known to hold.
//!
//! Nearly every write has a shape that was seen before; asking the store each time would cost a
//! lookup per write. Records of the dictionary are never removed, so what was seen in a committed
//! view stays true. A few slots are enough: a shape that lost its slot to another is looked up
//! again.

use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 64;

/// Remembers some shapes of one partition.
#[derive(Debug)]
pub(crate) struct KnownShapes([AtomicU64; SLOTS]);

impl KnownShapes {
    pub(crate) fn new() -> KnownShapes {
        KnownShapes(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    pub(crate) fn contains(&self, shape: u64) -> bool {
        self.slot(shape).is_some_and(|slot| slot.load(Ordering::Relaxed) == shape)
    }

    /// The shape was seen in the dictionary.
    pub(crate) fn insert(&self, shape: u64) {
        if let Some(slot) = self.slot(shape) {
            slot.store(shape, Ordering::Relaxed);
        }
    }

    fn slot(&self, shape: u64) -> Option<&AtomicU64> {
        self.0.get((shape % SLOTS as u64) as usize)
    }
}
