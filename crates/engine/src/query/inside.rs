//! Queries inside a transaction.
//!
//! A script's query runs on the view of its transaction, so it sees what the script wrote before.
//! It takes no longer than the script has left, charges nobody (the transaction does), and nothing
//! of it is kept: another query on the same LSN would see something else.

use std::sync::Arc;

use partita_model::Lsn;
use partita_storage::{Direction, KeyRange, Page, Record, Result, ScanLimit, Snapshot, Space};

use crate::database::QuerySettings;

/// The transaction that a query is part of.
pub(crate) struct Inside {
    pub(crate) view: Arc<dyn Snapshot>,
    pub(crate) millis_left: u64,
}

impl Inside {
    pub(super) fn view(&self) -> Box<dyn Snapshot> {
        Box::new(Shared(Arc::clone(&self.view)))
    }

    /// The limits of a query that has no more time than this.
    pub(super) fn limited(&self, settings: &QuerySettings) -> QuerySettings {
        QuerySettings {
            page_millis_max: settings.page_millis_max.min(self.millis_left),
            whole_millis_max: settings.whole_millis_max.min(self.millis_left),
            ..settings.clone()
        }
    }
}

/// A view that others have as well.
struct Shared(Arc<dyn Snapshot>);

impl Snapshot for Shared {
    fn lsn(&self) -> Lsn {
        self.0.lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        self.0.get(space, key)
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        self.0.get_many(space, keys)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        self.0.scan(space, range, direction, limit)
    }
}
