//! The feed of a container's items, page by page.
//!
//! A feed is `SELECT *` without a filter (`query/`): partition after partition, and within one the
//! oldest item first. Its continuation is that of the query, so it survives restarts and splits,
//! and the server keeps nothing between two pages. Only the price differs: a feed costs a read of
//! what it returns.

use std::sync::Arc;

use partita_model::{Epk, EpkRange, Error, KeyPart, PartitionKeyHeader, Result, Usage};

use crate::catalog::Container;
use crate::context::Work;
use crate::database::Database;
use crate::op::{ContainerPath, ItemBody, LeafReport, Outcome, PageRequest, Scope};
use crate::pricing;
use crate::query::{Inside, ItemPage};
use crate::throughput::Share;

/// Items of a page when the client does not say: as the service does.
const PAGE_ITEMS_DEFAULT: usize = 100;
/// The most items of a page, whatever the client asks for.
const PAGE_ITEMS_MAX: usize = 1_000;

impl Database {
    pub(crate) fn list_items(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        scope: &Scope,
        page: &PageRequest,
    ) -> Result<Outcome> {
        let (container, found) = self.with_policy(work, path, None, |work, container| {
            let found = self.all_items(work, container, scope, limited(page), None)?;
            Ok((Arc::clone(container), found))
        })?;
        work.usage = usage(&found);
        let charge = pricing::charge(&work.usage, self.consistency(work.context));
        let mut shares = Vec::with_capacity(found.reports.len());
        for report in &found.reports {
            let asked = container.partitions.iter().find(|p| p.range_id == report.range_id);
            let weight = (1 + paid(report)) as f64;
            shares.extend(asked.map(|partition| Share { partition, weight }));
        }
        self.settle_shares(work, charge, &shares, None);
        let items = found.items.into_iter().map(|text| ItemBody(text.into())).collect();
        Ok(Outcome::Items { items, continuation: found.continuation })
    }

    /// A page of the items of one logical partition as a transaction sees them, and what it took.
    pub(super) fn list_logical(
        &self,
        work: &mut Work<'_>,
        container: &Arc<Container>,
        key: PartitionKeyHeader,
        page: &PageRequest,
        inside: &Inside,
    ) -> Result<(Vec<String>, Option<String>, Usage)> {
        let scope = Scope::PartitionKey(key);
        let found = self.all_items(work, container, &scope, limited(page), Some(inside))?;
        let usage = usage(&found);
        Ok((found.items, found.continuation, usage))
    }
}

fn limited(page: &PageRequest) -> PageRequest {
    let items_max = page.items_max.unwrap_or(PAGE_ITEMS_DEFAULT).clamp(1, PAGE_ITEMS_MAX);
    PageRequest { items_max: Some(items_max), ..page.clone() }
}

fn usage(page: &ItemPage) -> Usage {
    Usage {
        reads: 1,
        read_bytes: page.items.iter().map(|text| text.len() as u64).sum(),
        entries_scanned: page.reports.iter().map(paid).sum(),
        ..Usage::default()
    }
}

/// Items that were looked at and are paid for.
fn paid(report: &LeafReport) -> u64 {
    report.documents_loaded.saturating_sub(report.spared_documents)
}

/// The EPKs that a feed covers.
pub(crate) fn scope_epks(container: &Container, scope: &Scope) -> Result<EpkRange> {
    match scope {
        Scope::All => Ok(EpkRange::all()),
        Scope::PartitionKey(header) => {
            container.definition.partition_key.range_of(&named_key(container, header))
        }
        Scope::Range { id, within } => {
            let partition = container.partitions.iter().find(|p| p.range_id.to_string() == *id);
            let partition = partition.ok_or_else(|| gone(id))?;
            match within {
                None => Ok(partition.epks.clone()),
                Some(within) => Ok(partition
                    .epks
                    .intersect(within)
                    .unwrap_or(EpkRange { min: Epk::max(), max: Epk::max() })),
            }
        }
        Scope::Epks(range) => {
            let touched = container.partitions.iter().filter(|p| p.epks.overlaps(range)).count();
            if touched > 1 {
                return Err(Error::range_gone(format!(
                    "The requested EPK range covers {touched} partition key ranges: read the ranges \
                     and ask each of them"
                )));
            }
            Ok(range.clone())
        }
    }
}

/// The key that a feed is restricted to. In a container without a key, none is one: that of the
/// items without a value for the system's.
fn named_key(container: &Container, header: &PartitionKeyHeader) -> PartitionKeyHeader {
    match header.0.is_empty() && container.definition.partition_key.system_key {
        true => PartitionKeyHeader(vec![KeyPart::Undefined]),
        false => header.clone(),
    }
}

pub(super) fn gone(id: &str) -> Error {
    Error::range_gone(format!(
        "The requested partition key range '{id}' does not exist, or no longer: read the partition \
         key ranges again"
    ))
}
