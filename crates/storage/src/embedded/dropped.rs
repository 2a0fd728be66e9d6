//! Dropped partitions, and how their bytes go.
//!
//! Deleting a partition key by key would write as many tombstones as it has records, and a seek
//! over thousands of them is slow. Instead its id goes into a durable set, which hides it at once,
//! and the engine leaves its records out whenever it rewrites a table anyway: a *compaction
//! filter*. Ids are never reused, so a record that is still lying about can never come back to
//! life.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};

use super::keys::partition_of;
use crate::contract::PartitionId;

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
