//! Dropped partitions, and how their bytes go.
//!
//! Deleting a partition key by key would write as many tombstones as it has records, and a seek
//! over thousands of them is slow. Instead its id goes into a durable set, which hides it at once,
//! and the engine leaves its records out whenever it rewrites a table anyway: a *compaction
//! filter*. Ids are never reused, so a record that is still lying about can never come back to
//! life.
//!
//! Tables that hold nothing else are not rewritten any more, for nobody writes between their keys;
//! they are taken out whole ([`free`]). What is left then are tables at the edges.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};

use fjall::{AbstractTree, Keyspace};

use crate::contract::{PartitionId, Result};
use crate::embedded::keys::{SYSTEM, partition_of};
use crate::embedded::view::engine_error;

/// The set, shared between the store and the filters of all lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped(Arc<Mutex<Arc<HashSet<PartitionId>>>>);

impl Dropped {
    /// The set as it is now.
    pub(super) fn get(&self) -> Arc<HashSet<PartitionId>> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn extend(&self, ids: impl IntoIterator<Item = PartitionId>) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut set).extend(ids);
    }
}

impl Factory for Dropped {
    fn name(&self) -> &str {
        "dropped partitions"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter { dropped: self.get(), last: None })
    }
}

/// The filter of one compaction.
struct Filter {
    dropped: Arc<HashSet<PartitionId>>,
    /// Keys come in order, so the answer for one is mostly that for the next.
    last: Option<(PartitionId, bool)>,
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        let Some(partition) = partition_of(item.key()) else { return Ok(Verdict::Keep) };
        let is_dropped = match self.last {
            Some((last, answer)) if last == partition => answer,
            _ => self.dropped.contains(&partition),
        };
        self.last = Some((partition, is_dropped));
        // Without a tombstone: an older version that shows up below is just as dropped.
        Ok(if is_dropped { Verdict::Destroy } else { Verdict::Keep })
    }
}

/// Takes tables out of a keyspace that hold no record of a living partition; whether there were
/// some. Waits for merges under way.
pub(super) fn free(keyspace: &Keyspace, living: &BTreeSet<PartitionId>) -> Result<bool> {
    // From the first to the last key of what lies together, by the living partition behind it.
    let mut dead: BTreeMap<Option<PartitionId>, (Vec<u8>, Vec<u8>)> = BTreeMap::new();
    for table in keyspace.tree.current_version().iter_tables() {
        let keys = &table.metadata.key_range;
        let (first, last) = (keys.min().to_vec(), keys.max().to_vec());
        let (Some(from), Some(to)) = (partition_of(&first), partition_of(&last)) else { continue };
        let behind = living.range(from..).next().copied();
        if to == SYSTEM || behind.is_some_and(|id| id <= to) {
            continue;
        }
        let together = dead.entry(behind).or_insert_with(|| (first.clone(), last.clone()));
        together.0 = first.min(std::mem::take(&mut together.0));
        together.1 = last.max(std::mem::take(&mut together.1));
    }
    for (first, last) in dead.values() {
        let dropped = keyspace.tree.drop_range(first.as_slice()..=last.as_slice());
        dropped.map_err(|error| engine_error(error.into()))?;
    }
    Ok(!dead.is_empty())
}
