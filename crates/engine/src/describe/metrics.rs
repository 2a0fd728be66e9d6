//! The same numbers for every partition of every container, for metrics.
//!
//! Asked at each scrape, so it walks over nothing: two counters of each partition and what is in
//! memory.

use partita_model::Result;

use super::Reports;
use crate::op::{Moving, PartitionFigures};

/// A partition and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionMetrics {
    /// The database's name.
    pub database: String,
    /// The container's name.
    pub container: String,
    pub range_id: u32,
    pub figures: PartitionFigures,
    pub moving: Option<Moving>,
}

impl Reports {
    /// What every partition holds, as far as it can be read: one that goes away meanwhile, with its
    /// container or by a split, is left out.
    pub(crate) fn partition_metrics(&self) -> Vec<PartitionMetrics> {
        let catalog = self.core.catalog.current();
        let mut all = Vec::new();
        for container in catalog.all_containers() {
            for live in container.serving() {
                let read = || -> Result<PartitionFigures> {
                    self.figures(live, &*self.core.store.snapshot(live.id)?)
                };
                let Ok(figures) = read() else { continue };
                all.push(PartitionMetrics {
                    database: container.database.name.clone(),
                    container: container.definition.name.clone(),
                    range_id: live.range_id,
                    figures,
                    moving: self.moving(container, live.range_id),
                });
            }
        }
        all
    }
}
