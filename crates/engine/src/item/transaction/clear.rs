//! Deleting everything under one partition key.
//!
//! The items go in chunks, each a transaction of its own, so that no commit grows without bound and
//! other writers get in between. When the request is answered, everything that was there when it
//! came is gone. One that is cut off in the middle has deleted some items and says nothing; asking
//! again finishes it.

use std::ops::Bound;
use std::sync::Arc;

use partita_model::{Error, ErrorKind, PartitionKey, PartitionKeyHeader, Result, limits};
use partita_storage::{Direction, ScanLimit, Space};

use crate::catalog::Container;
use crate::context::Work;
use crate::item::Items;
use crate::item::key_of_request;
use crate::keys;
use crate::op::{
    BatchAction, BatchOperation, BatchResult, ContainerPath, Outcome, Returns, TriggerNames,
};
use crate::pricing;
use crate::record::ItemRecord;

/// One look into the store; it ends earlier on the number of items.
const SCAN_BYTES_MAX: usize = 4 << 20;

/// Some items of a logical partition.
struct Chunk {
    ids: Vec<String>,
    /// The last key looked at, if there may be more behind it.
    last_key: Option<Vec<u8>>,
}

impl Items {
    pub(crate) async fn delete_partition_key(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        header: Option<&PartitionKeyHeader>,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, path)?.container;
        let key = key_of_request(&container, header)?;
        let epk = container.definition.partition_key.epk(&key);
        let partition = container.live(container.partition_index(&epk));
        // Once for all chunks: who began may finish.
        self.core.admit_once(work, partition)?;
        work.usage.reads = 1;
        let deleted = self.delete_chunks(work, &container, &key).await;
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context));
        self.core.charge(work, partition, charge, Some((&epk, &key)));
        deleted
    }

    async fn delete_chunks(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        key: &PartitionKey,
    ) -> Result<Outcome> {
        let mut after = None;
        loop {
            let chunk = self.next_chunk(work, container, key, after.take())?;
            after = chunk.last_key;
            self.delete_chunk(work, container, key, chunk.ids).await?;
            if after.is_none() {
                return Ok(Outcome::PartitionKeyDeleted);
            }
        }
    }

    /// The living items behind a key; expired ones are gone for everybody already.
    fn next_chunk(
        &self,
        work: &mut Work<'_>,
        container: &Container,
        key: &PartitionKey,
        after: Option<Vec<u8>>,
    ) -> Result<Chunk> {
        let definition = &container.definition;
        let epks = definition.partition_key.range_of(&key.clone().into())?;
        let partition = &container.partitions[container.partition_index(&epks.min)];
        let view = self.core.open_partition(work, partition)?;
        let mut range = keys::items_in(&epks);
        if let Some(after) = after {
            range.start = Bound::Excluded(after);
        }
        let limit =
            ScanLimit { entries_max: limits::BATCH_OPERATIONS_MAX, bytes_max: SCAN_BYTES_MAX };
        let page = view.scan(Space::Items, &range, Direction::Forward, limit)?;
        work.usage.entries_scanned += page.entries.len() as u64;
        let mut ids = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            let record = ItemRecord::decode(&entry.record.value)?;
            let found = keys::parse_item(&entry.key, definition.partition_key.paths.len());
            // Another key may have the same hash.
            if let Some(item) = found.filter(|item| item.key == *key)
                && !record.expired(definition.default_ttl, self.core.now_seconds())
            {
                ids.push(item.id);
            }
        }
        let last = page.entries.last().filter(|_| page.more);
        Ok(Chunk { ids, last_key: last.map(|entry| entry.key.to_vec()) })
    }

    /// Deletes these items together, or those of them that nobody else deleted meanwhile.
    async fn delete_chunk(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        key: &PartitionKey,
        mut ids: Vec<String>,
    ) -> Result<()> {
        let header: PartitionKeyHeader = key.clone().into();
        while !ids.is_empty() {
            let operations = ids.iter().map(|id| deletion(id)).collect();
            let results = self.run_atomic(work, container, Some(&header), operations).await?;
            for result in &results {
                work.parts = work.parts + result.charge;
            }
            match first_failure(results) {
                None => return Ok(()),
                Some((at, error)) if error.kind == ErrorKind::NotFound => drop(ids.remove(at)),
                Some((_, error)) => return Err(error),
            }
        }
        Ok(())
    }
}

fn deletion(id: &str) -> BatchOperation {
    BatchOperation {
        action: BatchAction::Delete { id: id.to_owned() },
        partition_key: None,
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: Returns::Etag,
    }
}

/// The operation that broke a batch; the others only depended on it.
fn first_failure(results: Vec<BatchResult>) -> Option<(usize, Error)> {
    let failed = results
        .into_iter()
        .enumerate()
        .filter_map(|(at, result)| result.result.err().map(|error| (at, error)));
    failed.into_iter().find(|(_, error)| error.kind != ErrorKind::FailedDependency)
}
