//! Going on after a failed write, without a restart.
//!
//! A store that failed is opened again by whoever maintains the database, as a step of its own: so
//! no move is in the middle of one, which relies on sealed partitions, and seals are forgotten by
//! opening. Between that and the first new batch the catalog is read again, because a change whose
//! end was unknown may have been made after all.
//!
//! What is kept in memory stays true, or is looked up anew:
//!
//! - the *catalog* is read as a whole. Partitions that it does not name any more are sealed before
//!   batches are accepted, also those that were replaced before the failure and not dropped yet:
//!   an operation under way may know its container as it was, and what it wrote to a partition that
//!   was replaced would be lost. It finds the seal, and prepares again;
//! - *results* and *pointers* are filed under LSNs. What was cached was shown, what was shown was
//!   durable, and an LSN that was shown is not given again;
//! - *resource ids*: the counter goes on where it was, and a mark or a holder is believed only when
//!   its commit was acknowledged;
//! - *shapes* are noted when they are seen in a view; blocks of partition ids when their
//!   reservation was acknowledged;
//! - a partition's *bytes* may lack a write whose end was unknown: they are looked up anew.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use partita_model::Result;
use partita_storage::StorageError;

use super::Maintainer;
use crate::step::Maintenance;

/// The pause after a failed attempt; each further one is twice as long, up to the second number.
const PAUSE_NANOS: u64 = 1_000_000_000;
const PAUSE_NANOS_MAX: u64 = 30_000_000_000;

/// The pause while there is no room, or while readers still hold what is to be let go of: looking
/// costs next to nothing.
const LOOK_NANOS: u64 = 50_000_000;

/// The attempts to open the store again.
#[derive(Debug, Default)]
pub(crate) struct Reopening(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    /// Failed ones in a row.
    failed: u32,
    next_nanos: u64,
    /// That there is no room was told.
    has_told_of_disk: bool,
    /// What is on the disk is damaged: trying again would not help.
    is_given_up: bool,
}

impl Reopening {
    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maintainer {
    /// Tries to open a store that stopped, if it is time for that.
    pub(crate) fn reopen_store(&self) -> Maintenance {
        let now = self.core.clock.monotonic_nanos();
        let mut attempts = self.reopening.attempts();
        if attempts.is_given_up {
            return Maintenance::Idle;
        }
        if now < attempts.next_nanos {
            return Maintenance::Resting(Duration::from_nanos(attempts.next_nanos - now));
        }
        match self.core.store.reopen() {
            Ok(()) => {}
            Err(error) => return attempts.note(error, now),
        }
        match self.learn_what_became() {
            Ok(()) => {
                *attempts = Attempts::default();
                self.core.store.resume();
                self.moves.ask_for_a_look();
                tracing::info!("the database goes on");
                Maintenance::Busy
            }
            // The store is asked again at the next attempt, and says that it is open.
            Err(error) => attempts.note(StorageError::Io(error.to_string()), now),
        }
    }

    /// Reads the catalog again, and keeps operations under way from what it does not name any more.
    fn learn_what_became(&self) -> Result<()> {
        for unknown in self.core.catalog.reload()? {
            // Noted first: a second attempt is not told of them again.
            match unknown.epoch {
                Some(epoch) => self.moves.retire(unknown.container, epoch, unknown.ids),
                None => self.core.let_go(&unknown.ids),
            }
        }
        for id in self.moves.retired_ids() {
            match self.core.store.seal(id) {
                Ok(_) | Err(StorageError::PartitionGone(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let catalog = self.core.catalog.current();
        let partitions = catalog.all_containers().flat_map(|container| container.serving());
        partitions.for_each(|live| live.meter.forget_bytes());
        Ok(())
    }
}

impl Attempts {
    /// Notes a failed attempt; when to come back.
    fn note(&mut self, error: StorageError, now: u64) -> Maintenance {
        let pause = match error {
            StorageError::Corrupt(_) | StorageError::Closed => {
                self.is_given_up = true;
                tracing::error!(
                    "the store cannot be opened again: {error}. Stop the server and look at the \
                     data with `partita check`"
                );
                return Maintenance::Idle;
            }
            StorageError::DiskFull(_) => {
                if !std::mem::replace(&mut self.has_told_of_disk, true) {
                    tracing::error!("the store is opened again when there is room: {error}");
                }
                LOOK_NANOS
            }
            StorageError::Stopped(_) => LOOK_NANOS,
            _ => {
                let pause = PAUSE_NANOS.saturating_mul(1 << self.failed.min(16));
                self.failed += 1;
                tracing::error!("the store cannot be opened again, it is tried later: {error}");
                pause.min(PAUSE_NANOS_MAX)
            }
        };
        self.next_nanos = now.saturating_add(pause);
        Maintenance::Resting(Duration::from_nanos(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_get_rarer_and_end_where_they_cannot_help() {
        let mut attempts = Attempts::default();
        let broken = || StorageError::Io("broken".to_owned());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let Maintenance::Resting(pause) = attempts.note(broken(), 5) else { panic!() };
            pauses.push(pause.as_secs());
            assert_eq!(attempts.next_nanos, 5 + pauses.last().unwrap() * 1_000_000_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        let full = StorageError::DiskFull("full".to_owned());
        assert_eq!(
            attempts.note(full, 0),
            Maintenance::Resting(Duration::from_millis(50)),
            "somebody may make room at any moment"
        );
        assert!(!attempts.is_given_up);
        let damaged = StorageError::Corrupt("lost".to_owned());
        assert_eq!(attempts.note(damaged, 0), Maintenance::Idle);
        assert!(attempts.is_given_up);
    }
}
