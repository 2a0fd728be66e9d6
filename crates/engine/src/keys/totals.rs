//! The totals of a partition, as a view shows them.
//!
//! They are counters that every write adds to (`changeset/`); an empty partition has none yet.

use partita_model::Result;
use partita_storage::{Snapshot, Space, counter};

use super::{self as keys, Total};

/// One of them. The sum of what was added is never below zero in a whole database.
pub(crate) fn stored_total(view: &dyn Snapshot, which: Total) -> Result<u64> {
    let record = view.get(Space::Meta, &keys::total(which))?;
    let count = record.map_or(Ok(0), |record| counter(&record.value))?;
    Ok(u64::try_from(count).unwrap_or(0))
}
