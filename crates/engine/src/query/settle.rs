//! Who pays for a page: the partitions that were asked, by what each did for it.

use partita_model::{Error, ErrorKind, PartitionKey, Result, Usage};

use super::Job;
use super::cursor::Unit;
use crate::catalog::Partition;
use crate::context::Work;
use crate::database::Database;
use crate::op::QueryReport;
use crate::pricing;
use crate::throughput::Share;

impl Job<'_> {
    /// Admits the request to all partitions that it will ask.
    pub(super) fn admit_all(&self, work: &mut Work<'_>, units: &[Unit]) -> Result<()> {
        for unit in units {
            if let Some(partition) = self.container.partitions.get(unit.partition) {
                self.database.admit_once(work, partition)?;
            }
        }
        Ok(())
    }

    /// Admits the request to the partitions of as many of these units as possible; how many those
    /// are. It is an error if the first one cannot be asked.
    pub(super) fn admit_first(&self, work: &mut Work<'_>, units: &[Unit]) -> Result<usize> {
        for at in 0..units.len() {
            match self.admit_all(work, units.get(at..=at).unwrap_or_default()) {
                Err(error) if at == 0 => return Err(error),
                Err(_) => return Ok(at),
                Ok(()) => {}
            }
        }
        Ok(units.len())
    }

    /// Charges the partitions. What the page costs in itself is for the first one.
    pub(super) fn settle(&self, work: &Work<'_>, report: &QueryReport) {
        let consistency = self.database.consistency(work.context);
        let mut shares: Vec<Share<'_>> = Vec::new();
        for leaf in &report.leaves {
            let usage = Usage { queries: u64::from(shares.is_empty()), ..leaf.usage() };
            let weight = pricing::charge(&usage, consistency).0;
            let is_same = |share: &&mut Share<'_>| share.partition.range_id == leaf.range_id;
            match shares.iter_mut().find(is_same) {
                Some(share) => share.weight += weight,
                None => {
                    let mut partitions = self.container.partitions.iter();
                    let asked = partitions.find(|known| known.range_id == leaf.range_id);
                    shares.extend(asked.map(|partition| Share { partition, weight }));
                }
            }
        }
        if shares.is_empty() {
            // Nobody had to be asked: it is for the one that the reply names.
            shares.extend(self.first().map(|partition| Share { partition, weight: 1.0 }));
        }
        let definition = &self.container.definition.partition_key;
        let is_whole = self.only.len() == definition.paths.len();
        let key = is_whole.then(|| PartitionKey(self.only.clone()));
        let key = key.map(|key| (definition.epk(&key), key));
        let key = key.as_ref().map(|(epk, key)| (epk, key));
        self.database.settle_shares(work, report.charge, &shares, key);
    }

    /// The first partition of the area that the request names.
    pub(super) fn first(&self) -> Option<&Partition> {
        self.container.partitions.iter().find(|partition| partition.epks.overlaps(&self.area))
    }
}

impl Database {
    /// A query that failed after it had begun is for the partition that was asked first. One that
    /// was not admitted costs nothing.
    pub(super) fn settle_failed(&self, work: &mut Work<'_>, error: &Error) {
        if matches!(error.kind, ErrorKind::Throttled { .. }) {
            work.usage = Usage::default();
            return;
        }
        let Some(container) = &work.container else { return };
        let asked = work.admitted.first();
        let asked = container.partitions.iter().find(|partition| asked == Some(&partition.id));
        if let Some(partition) = asked {
            let charge = pricing::charge(&work.usage, self.consistency(work.context));
            self.settle(work, partition, charge, None);
        }
    }
}
