//! The feed of a container's items, page by page.
//!
//! A feed is `SELECT *` without a filter (`query/`): partition after partition, and within one the
//! oldest item first. Its continuation is that of the query, so it survives restarts and splits,
//! and the server keeps nothing between two pages. Only the price differs: a feed costs a read of
//! what it returns.

use std::sync::Arc;

use partita_model::{PartitionKeyHeader, Result, Usage};

use super::Items;
use crate::catalog::Container;
use crate::context::Work;
use crate::core::Share;
use crate::op::{ContainerPath, ItemBody, LeafReport, Outcome, PageRequest, Scope};
use crate::pricing;
use crate::query::{Inside, ItemPage};

/// Items of a page when the client does not say: as the service does.
const PAGE_ITEMS_DEFAULT: usize = 100;
/// The most items of a page, whatever the client asks for.
const PAGE_ITEMS_MAX: usize = 1_000;

impl Items {
    pub(crate) fn list_items(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        scope: &Scope,
        page: &PageRequest,
    ) -> Result<Outcome> {
        let (container, found) =
            self.queries.with_policy(work, path, None, |work, container| {
                let found = self.queries.all_items(work, container, scope, limited(page), None)?;
                Ok((Arc::clone(container), found))
            })?;
        work.usage = usage(&found);
        let charge = pricing::charge(&work.usage, self.core.consistency(work.context));
        let mut shares = Vec::with_capacity(found.reports.len());
        for report in &found.reports {
            let asked = container.live_range(report.range_id);
            let weight = (1 + paid(report)) as f64;
            shares.extend(asked.map(|live| Share { partition: live, weight }));
        }
        self.core.charge_shares(work, charge, &shares, None);
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
        let found = self.queries.all_items(work, container, &scope, limited(page), Some(inside))?;
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
