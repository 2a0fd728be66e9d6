//! Whether the store still accepts work: one answer for all lanes.
//!
//! A failed write in one lane stops them all. What reached the disk is unknown then, and a store
//! that goes on with some of its partitions is harder to reason about than one that is opened
//! again.
//!
//! ```text
//!   serving ──► (a write fails) ──► reopening ──► reopened ──► serving
//!      └──────────────┴────────────────┴──────────────┴──► closed
//! ```
//!
//! A store that failed and is not reopening yet goes on reading what it shows. Each opening has a
//! number; snapshots know theirs, and those of another one than the present are refused.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::disk::DiskWatch;

/// What the store does, but for a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Serving,
    /// The engine is let go of and opened.
    Reopening,
    /// It is open: there are views, but batches are refused for a little longer.
    Reopened,
    Closed,
}

/// The number of no opening: snapshots of a closed store are all refused.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Health {
    phase: AtomicU8,
    /// A write failed since the store was opened last.
    failed: AtomicBool,
    reason: Mutex<String>,
    opening: AtomicU64,
    reopenings: AtomicU64,
    disk: Arc<DiskWatch>,
}

impl Health {
    pub(super) fn new(disk: Arc<DiskWatch>) -> Health {
        Health {
            phase: AtomicU8::new(Phase::Serving as u8),
            failed: AtomicBool::new(false),
            reason: Mutex::default(),
            opening: AtomicU64::new(0),
            reopenings: AtomicU64::new(0),
            disk,
        }
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    fn reason(&self) -> MutexGuard<'_, String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the store until it is opened again. The first reason is the one that is told.
    pub(super) fn poison(&self, reason: String) -> StorageError {
        let mut told = self.reason();
        if !self.failed.load(Ordering::Acquire) {
            *told = match self.disk.after_failure() {
                Some(disk) => format!("{reason}; {disk}"),
                None => reason,
            };
            self.failed.store(true, Ordering::Release);
            tracing::error!(reason = *told, "a write failed: the store accepts nothing more");
        }
        StorageError::Poisoned(told.clone())
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// A write failed, and the store has not been opened again since.
    pub(super) fn is_to_be_opened(&self) -> bool {
        self.is_poisoned() || self.is(Phase::Reopening)
    }

    /// A write failed, or the store is being opened again.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_poisoned() || self.is(Phase::Reopening) || self.is(Phase::Reopened)
    }

    /// Why, if batches are refused.
    pub(super) fn trouble(&self) -> Option<String> {
        self.check_writable().err().map(|error| error.to_string())
    }

    pub(super) fn reopenings(&self) -> u64 {
        self.reopenings.load(Ordering::Relaxed)
    }

    /// True for the first caller.
    pub(super) fn close(&self) -> bool {
        let before = self.phase.swap(Phase::Closed as u8, Ordering::AcqRel);
        self.opening.store(NONE, Ordering::Release);
        before != Phase::Closed as u8
    }

    /// The number of the present opening, which views are made with.
    pub(super) fn opening(&self) -> u64 {
        self.opening.load(Ordering::Acquire)
    }

    /// Whether what was taken at this opening may still be read.
    pub(super) fn check_opening(&self, opening: u64) -> Result<()> {
        match self.opening.load(Ordering::Acquire) {
            now if now == opening => Ok(()),
            NONE => Err(StorageError::Closed),
            _ => Err(StorageError::Reopened),
        }
    }

    /// Why there is no view.
    pub(super) fn why_nothing_is_shown(&self) -> StorageError {
        if self.is(Phase::Closed) { StorageError::Closed } else { self.stopped() }
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.is(Phase::Closed) { Err(StorageError::Closed) } else { Ok(()) }
    }

    /// Whether a write may begin.
    pub(super) fn check_writable(&self) -> Result<()> {
        if !self.is(Phase::Serving) {
            return Err(self.why_nothing_is_shown());
        }
        self.check_not_poisoned()
    }

    /// Whether what prepares for writes may begin: also when the store was just opened again.
    pub(super) fn check_working(&self) -> Result<()> {
        if self.is(Phase::Closed) || self.is(Phase::Reopening) {
            return Err(self.why_nothing_is_shown());
        }
        self.check_not_poisoned()
    }

    pub(super) fn check_not_poisoned(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(self.stopped()) } else { Ok(()) }
    }

    pub(super) fn stopped(&self) -> StorageError {
        StorageError::Stopped(self.reason().clone())
    }

    /// The engine is about to be let go of: whatever is held is not to be read any more. Not if the
    /// store is open again already, and sound.
    pub(super) fn begin_reopening(&self) -> Result<bool> {
        if self.is(Phase::Reopening) {
            return Ok(true);
        }
        self.check_open()?;
        if !self.is_poisoned() {
            return Ok(false);
        }
        let begins =
            [Phase::Serving, Phase::Reopened].map(|from| self.step(from, Phase::Reopening));
        if begins.contains(&true) {
            let next = |opening| (opening != NONE).then_some(opening + 1);
            // It stays that of a closed store.
            let _is_closed = self.opening.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        }
        self.check_open().map(|()| true)
    }

    /// From one phase to another, if it is in that.
    fn step(&self, from: Phase, to: Phase) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Nothing of before runs any more: what fails from now on is another failure.
    pub(super) fn forget_failure(&self) {
        self.failed.store(false, Ordering::Release);
    }

    /// The engine is open again.
    pub(super) fn end_reopening(&self) {
        self.reopenings.fetch_add(1, Ordering::Relaxed);
        self.step(Phase::Reopening, Phase::Reopened);
    }

    /// Serves again, if the store is open again.
    pub(super) fn resume(&self) {
        self.step(Phase::Reopened, Phase::Serving);
    }
}
