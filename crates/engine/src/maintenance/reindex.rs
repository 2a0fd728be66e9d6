//! Indexing items anew after a change of the indexing policy.
//!
//! A new policy holds for writes at once. The items that are there keep the entries of the policy
//! that their records name, and the container keeps those policies (*former* ones), until a walk
//! over all items has brought each to the present policy. Then the former ones are dropped from the
//! catalog, and from that commit on all of the index serves (`index/served.rs`).
//!
//! An item is brought over by a batch that changes its record's version and the index entries that
//! differ, and that expects the item unchanged: a write that came first has brought it over itself.
//! Nothing of it is visible in the item, its ETag or the feed.
//!
//! When the walk is through, no item may be left behind and none may come after. A write that began
//! before the policy changed still makes entries of the old one, so the walk begins when nobody
//! holds the container as it was (`CatalogStore::is_held`); and as the writer may have gone away
//! with its batch still in the store's queue, every partition is walked only after a commit of the
//! walk's own has passed through that queue. After a restart nothing is under way.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use partita_model::Result;
use partita_storage::{
    Batch, Direction, Entry, KeyRange, ScanLimit, Snapshot, Space, StorageError,
};

use super::Maintainer;
use super::pass::Pass;
use crate::catalog::{Changes, Container, Partition};
use crate::changeset::brought_over;
use crate::keys::{self, Total, stored_total};
use crate::record::ItemRecord;
use crate::step::{Maintenance, MaintenanceBudget};

impl Maintainer {
    /// The containers with items that may be indexed by former policies.
    pub(super) fn unfinished_policies(&self) -> Vec<Arc<Container>> {
        let catalog = self.core.catalog.current();
        // A move would not notice that an item was indexed anew: it goes first.
        let unfinished = |container: &&Arc<Container>| {
            !container.policies.former.is_empty() && container.moves.is_empty()
        };
        catalog.all_containers().filter(unfinished).map(Arc::clone).collect()
    }

    pub(super) fn is_gone(&self, container: &Container) -> bool {
        self.core.container_by_rid(container.rid).is_none()
    }

    /// Goes on with the walk over a container.
    pub(super) async fn reindex_some(
        &self,
        container: &Arc<Container>,
        budget: &MaintenanceBudget,
    ) -> Result<Maintenance> {
        if self.core.catalog.is_held(container) {
            return Ok(Maintenance::Blocked);
        }
        let mut pass = match self.jobs.passes.get(container) {
            Some(pass) => pass,
            None => Pass::new(container, self.count_items(container)?),
        };
        match container.partitions.get(pass.partition) {
            Some(partition) => {
                if pass.after.is_none() {
                    self.pass_queue(partition).await?;
                }
                self.reindex_chunk(container, partition, &mut pass, budget).await?;
            }
            None => self.drop_former_policies(container).await?,
        }
        self.jobs.passes.put(container, pass);
        Ok(Maintenance::Busy)
    }

    fn count_items(&self, container: &Container) -> Result<u64> {
        let mut items = 0;
        for partition in &container.partitions {
            items += stored_total(&*self.core.store.snapshot(partition.id)?, Total::Items)?;
        }
        Ok(items)
    }

    /// Waits until everything that was submitted to a partition is decided.
    async fn pass_queue(&self, partition: &Partition) -> Result<()> {
        let mut nothing = Batch::new();
        nothing.add(Space::Meta, keys::total(Total::Items), 0);
        self.core.store.submit(partition.id, nothing).await?;
        Ok(())
    }

    /// Brings some items over. If one was in somebody else's hands they are looked at again.
    async fn reindex_chunk(
        &self,
        container: &Arc<Container>,
        partition: &Partition,
        pass: &mut Pass,
        budget: &MaintenanceBudget,
    ) -> Result<()> {
        let view = self.core.store.snapshot(partition.id)?;
        let start = pass.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { start, end: Bound::Unbounded };
        let limit = ScanLimit { entries_max: budget.items_max, bytes_max: budget.bytes_max };
        let page = view.scan(Space::Items, &range, Direction::Forward, limit)?;
        if self.reindex_items(container, partition, &*view, &page.entries).await? > 0 {
            return Ok(());
        }
        pass.walked += page.entries.len() as u64;
        match page.entries.last().filter(|_| page.more) {
            Some(last) => pass.after = Some(last.key.to_vec()),
            None => {
                pass.partition += 1;
                pass.after = None;
            }
        }
        Ok(())
    }

    /// Brings items over that are not there yet; how many were changed by others meanwhile.
    async fn reindex_items(
        &self,
        container: &Container,
        partition: &Partition,
        view: &dyn Snapshot,
        items: &[Entry],
    ) -> Result<usize> {
        let mut tickets = Vec::new();
        let mut conflicts = 0;
        for item in items {
            let record = ItemRecord::decode(&item.record.value)?;
            match record.policy_version.cmp(&container.policies.current) {
                Ordering::Less => {
                    let batch = brought_over(
                        container,
                        container.live_of(partition),
                        view,
                        (item, &record),
                    )?;
                    tickets.push(self.core.store.submit(partition.id, batch));
                }
                Ordering::Equal => {}
                // The policy changed once more: the walk will begin anew.
                Ordering::Greater => conflicts += 1,
            }
        }
        for ticket in tickets {
            match ticket.await {
                Ok(_) => {}
                Err(StorageError::Conflict { .. }) => conflicts += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(conflicts)
    }

    /// All items have been brought over. A container that was changed meanwhile is looked at again.
    async fn drop_former_policies(&self, container: &Container) -> Result<()> {
        let policies = container.policies.without_former();
        let mut changes = Changes::default();
        changes.replace_container(&Container { policies, ..container.clone() });
        match self.core.catalog.commit(changes).await {
            Ok(()) | Err(StorageError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
