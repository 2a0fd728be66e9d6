//! All that changes in the store with an item.
//!
//! An item has a place ([`ItemPlace`]): its container, the partition that its key leads to, and its
//! key there. `batch.rs` computes from what is stored and what shall be the batch that a write, the
//! removal of an expired item or a new indexing policy comes to; `arrivals.rs` does the same for
//! items that come from another partition. Pure, but for what a view of the partition is asked.

mod arrivals;
mod batch;

use std::sync::Arc;

use partita_model::{Epk, Lsn, PartitionKey};

pub(crate) use self::arrivals::Arrivals;
pub(crate) use self::batch::{
    Counts, Transition, brought_over, build, derived, removal_of_expired,
};
use crate::catalog::{Container, Partition};
use crate::keys;
use crate::live::{LivePartition, RidClaim};
use crate::record::ItemRecord;

/// Where an item lives, or would live.
#[derive(Debug)]
pub(crate) struct ItemPlace {
    pub(crate) container: Arc<Container>,
    /// Index into the container's partitions.
    pub(crate) partition: usize,
    pub(crate) epk: Epk,
    pub(crate) key: PartitionKey,
    pub(crate) id: String,
    pub(crate) item_key: Vec<u8>,
}

impl ItemPlace {
    pub(crate) fn new(container: Arc<Container>, key: PartitionKey, id: String) -> ItemPlace {
        let epk = container.definition.partition_key.epk(&key);
        let item_key = keys::item(&epk, &key, &id);
        ItemPlace { partition: container.partition_index(&epk), container, epk, key, id, item_key }
    }

    pub(crate) fn partition(&self) -> &Partition {
        &self.container.partitions[self.partition]
    }

    /// What is kept in memory of its partition.
    pub(crate) fn live(&self) -> &Arc<LivePartition> {
        self.container.live(self.partition)
    }

    /// The same place in the container as it is after its partitions have changed.
    pub(crate) fn within(&self, container: Arc<Container>) -> ItemPlace {
        ItemPlace {
            partition: container.partition_index(&self.epk),
            container,
            epk: self.epk.clone(),
            key: self.key.clone(),
            id: self.id.clone(),
            item_key: self.item_key.clone(),
        }
    }
}

/// A stored item with the LSN of its last write.
#[derive(Debug)]
pub(crate) struct StoredItem {
    pub(crate) record: ItemRecord,
    pub(crate) lsn: Lsn,
    /// False for an item that has outlived its time and was not removed yet.
    pub(crate) live: bool,
}

/// What a commit did to its partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Bytes of all versions that came or went.
    pub(crate) bytes: u64,
    /// By how many bytes the partition grew or shrank.
    pub(crate) grown: i64,
    /// What it did to the source of resource ids.
    pub(crate) rids: RidClaim,
}

impl Effects {
    pub(crate) fn new(counts: &Counts, rids: RidClaim) -> Effects {
        Effects { bytes: counts.bytes, grown: counts.grown, rids }
    }

    /// The effects of both.
    pub(crate) fn and(self, other: Effects) -> Effects {
        Effects {
            bytes: self.bytes + other.bytes,
            grown: self.grown + other.grown,
            rids: self.rids.and(other.rids),
        }
    }
}
