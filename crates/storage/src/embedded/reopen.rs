//! Opening the store again in the same process, after a write failed.
//!
//! What a failed write left behind only recovery can tell: journals are read to their last whole
//! group, and tables that nobody knows are removed. The engine does that when it is opened, so it
//! is let go of, wholly, and opened:
//!
//! ```text
//!   failed ─► room on the disk? ─► snapshots are refused, committers end ─► nobody holds anything
//!          ─► lanes are opened as at a start ─► new committers, new views ─► reopened
//! ```
//!
//! Before there is room nothing is let go of: the views of before can still be read. From then on
//! every step can fail and be tried again; the store stays without views until it has succeeded.
//! The lock of the directory is kept all the time.
//!
//! The failed write may have been a sync. What the system shows of that journal then need not be
//! on the disk, and a second sync of it proves nothing, so the journal is written into a new file
//! first (see `files/journal.rs`).
//!
//! Nothing that was acknowledged is lost by this, which every opening checks against the mark. A
//! group whose write failed is there as a whole or not at all, and if it is, its LSNs were never
//! shown before. So what was read before is true of what is read afterwards, and LSNs only grow.

use std::sync::Weak;

use crate::contract::Result;
use crate::contract::StorageError;
use crate::embedded::{EmbeddedStore, Running, Use, lock, open_lanes};

impl EmbeddedStore {
    pub(super) fn open_again(&self) -> Result<()> {
        let _no_changes = lock(&self.changing);
        let mut running = lock(&self.running);
        self.health.check_open()?;
        if !self.health.is_to_be_opened() {
            return Ok(());
        }
        self.disk.check_room_to_open()?;
        if !self.health.begin_reopening()? {
            return Ok(());
        }
        self.let_go(&mut running)?;
        self.health.forget_failure();
        if let Err(error) = self.open_lanes_again(&mut running) {
            // Some lanes may have been started.
            return match self.let_go(&mut running) {
                Ok(()) | Err(StorageError::Stopped(_)) => Err(error),
                Err(other) => Err(other),
            };
        }
        self.health.end_reopening();
        tracing::warn!("the store was opened again after a failed write");
        Ok(())
    }

    /// Ends the committers, and with them the engine, as far as nobody else holds parts of it.
    fn let_go(&self, running: &mut Running) -> Result<()> {
        for lane in &self.lanes {
            lane.queue.end(self.health.stopped());
        }
        for committer in running.committers.drain(..) {
            // How it ended does not matter any more.
            drop(committer.join());
        }
        for lane in &self.lanes {
            lane.view.store(None);
            lane.queue.refuse_waiting(&self.health.stopped());
        }
        running.spaces.retain(|spaces| Weak::strong_count(spaces) > 0);
        match running.spaces.len() {
            0 => Ok(()),
            _ => Err(StorageError::Stopped("readers are still at work on it".to_owned())),
        }
    }

    fn open_lanes_again(&self, running: &mut Running) -> Result<()> {
        let Some(directory) = &running.directory else { return Err(StorageError::Closed) };
        let (_, lanes) = open_lanes(directory, &self.settings, &self.dropped, Use::ServeAgain)?;
        self.lanes.iter().for_each(|lane| lane.queue.begin_again());
        self.start(running, lanes)?;
        self.health.check_not_poisoned()
    }
}
