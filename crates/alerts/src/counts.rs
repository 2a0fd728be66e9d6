//! How many alerts were raised, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use partita_engine::AlertKind;
use partita_gateway::{Sample, Series, SeriesKind};

/// Alerts by kind, and those that were not delivered.
#[derive(Debug, Default)]
pub struct Counts {
    sizes: AtomicU64,
    throttlings: AtomicU64,
    disks: AtomicU64,
    undelivered: AtomicU64,
}

impl Counts {
    /// The counters as series.
    pub fn series(&self) -> Vec<Series> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let sample = |kind: AlertKind, counter| Sample {
            labels: vec![("kind", kind.word().to_owned())],
            value: load(counter),
        };
        let series =
            |name, help, samples| Series { name, help, kind: SeriesKind::Counter, samples };
        let raised = vec![
            sample(AlertKind::LogicalPartitionSize, &self.sizes),
            sample(AlertKind::Throttling, &self.throttlings),
            sample(AlertKind::Disk, &self.disks),
        ];
        let lost = vec![Sample { labels: Vec::new(), value: load(&self.undelivered) }];
        vec![
            series("alerts", "Alerts raised", raised),
            series("alerts_undelivered", "Alerts that the webhook did not take", lost),
        ]
    }

    pub(crate) fn count(&self, kind: AlertKind) {
        let counter = match kind {
            AlertKind::LogicalPartitionSize => &self.sizes,
            AlertKind::Throttling => &self.throttlings,
            AlertKind::Disk => &self.disks,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn lose(&self) {
        self.undelivered.fetch_add(1, Ordering::Relaxed);
    }
}
