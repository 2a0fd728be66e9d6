//! Whether the store still accepts work: one answer for all lanes.
//!
//! A failed write in one lane stops them all. What reached the disk is unknown then, and a store
//! that goes on with some of its partitions is harder to reason about than one that is restarted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::Result;
use crate::error::StorageError;

#[derive(Debug, Default)]
pub(super) struct Health {
    poison: OnceLock<String>,
    closed: AtomicBool,
}

impl Health {
    /// Stops the store for good. The first reason is the one that is told.
    pub(super) fn poison(&self, reason: String) -> StorageError {
        tracing::error!(reason, "a write failed: the store accepts nothing more");
        StorageError::Poisoned(self.poison.get_or_init(|| reason).clone())
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poison.get().is_some()
    }

    /// True for the first caller.
    pub(super) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(StorageError::Closed) } else { Ok(()) }
    }

    /// Whether a write may begin.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.check_not_poisoned()
    }

    pub(super) fn check_not_poisoned(&self) -> Result<()> {
        match self.poison.get() {
            Some(reason) => Err(StorageError::Poisoned(reason.clone())),
            None => Ok(()),
        }
    }
}
