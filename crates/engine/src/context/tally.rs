//! What a query did in each partition, also if it fails in the end.
//!
//! A page that is returned is charged by its reports. One that is cancelled, or runs into a limit,
//! has none: the leaves that did the work are gone by then. So each leaves behind here what it did,
//! and a failed query pays for that. What a leaf surely costs is owed by its partition while it
//! runs: others are admitted by it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use partita_model::Usage;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Vec<Spent>>);

/// What was done in a partition.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    pub(crate) range_id: u32,
    pub(crate) usage: Usage,
    /// Of the price, what the partition's limit was charged already, in hundredths.
    owed_cents: u64,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Vec<Spent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a leaf did.
    pub(crate) fn add(&self, range_id: u32, usage: &Usage, owed_cents: u64) {
        let mut all = self.lock();
        match all.iter_mut().find(|spent| spent.range_id == range_id) {
            Some(spent) => {
                spent.usage += usage;
                spent.owed_cents += owed_cents;
            }
            None => all.push(Spent { range_id, usage: usage.clone(), owed_cents }),
        }
    }

    /// What was done, by partition.
    pub(crate) fn spent(&self) -> Vec<Spent> {
        self.lock().clone()
    }

    /// What a partition's limit was charged already. Told once.
    pub(crate) fn take_owed_cents(&self, range_id: u32) -> u64 {
        let mut all = self.lock();
        let spent = all.iter_mut().find(|spent| spent.range_id == range_id);
        spent.map_or(0, |spent| std::mem::take(&mut spent.owed_cents))
    }
}
