//! Giving back the space of items that have outlived their time.
//!
//! Nobody sees such an item any more; it only takes space, and where all versions of items are told
//! its end must be told. A walk over the items of a partition deletes those it finds, each in a
//! commit of its own that expects it unchanged: one that was written anew meanwhile lives on. The
//! walks are paced (`chores.rs`), so that the work is bounded however many items there are.

use std::ops::Bound;
use std::sync::Arc;

use partita_model::Result;
use partita_storage::{Direction, KeyRange, ScanLimit, Space, StorageError};

use super::Maintainer;
use crate::catalog::{Container, Partition};
use crate::changeset::removal_of_expired;
use crate::record::ItemRecord;
use crate::step::MaintenanceBudget;

/// A walk over the items of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sweep {
    after: Option<Vec<u8>>,
    pub(super) took_nanos: u64,
}

impl Maintainer {
    /// Takes a step of a walk; true when it is through.
    pub(super) async fn expire_some(
        &self,
        container: &Arc<Container>,
        partition: &Partition,
        sweep: &mut Sweep,
        budget: &MaintenanceBudget,
    ) -> Result<bool> {
        let view = self.core.store.snapshot(partition.id)?;
        let start = sweep.after.take().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { start, end: Bound::Unbounded };
        let limit = ScanLimit { entries_max: budget.items_max, bytes_max: budget.bytes_max };
        let page = view.scan(Space::Items, &range, Direction::Forward, limit)?;
        let now = self.core.now_seconds();
        let keeps_all = self.core.retention_minutes(container) > 0;
        let mut tickets = Vec::new();
        for entry in &page.entries {
            let record = ItemRecord::decode(&entry.record.value)?;
            // One that was written under a policy that we do not know yet is left for later.
            if record.expired(container.definition.default_ttl, now)
                && container.policy(record.policy_version).is_some()
            {
                let (batch, effects) =
                    removal_of_expired(container, &*view, entry, record, (now, keeps_all))?;
                tickets.push((self.core.store.submit(partition.id, batch), effects));
            }
        }
        let mut failed = None;
        for (ticket, effects) in tickets {
            match ticket.await {
                Ok(commit) => {
                    self.items.committed(None, container.live_of(partition), commit, effects)
                }
                Err(StorageError::Conflict { .. }) => {}
                // Others may have been committed all the same.
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        sweep.after = page.entries.last().filter(|_| page.more).map(|entry| entry.key.to_vec());
        Ok(sweep.after.is_none())
    }
}
