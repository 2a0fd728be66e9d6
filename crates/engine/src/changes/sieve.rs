//! A query on the change feed: which changes a reader wants, and what of them.
//!
//! WHERE decides whether a change is told, SELECT what of the item is. Whatever needs more than one
//! item (an order, groups, DISTINCT, TOP) or makes several rows of one has no meaning in a feed
//! that never ends, and is refused.
//!
//! Latest versions are looked at as the feed shows them, with `_lsn`. Where all versions are told,
//! the query sees the item after the change, which a delete leaves empty, and on request the item
//! before it as well: then either of the two that passes has the change told.

use std::ops::ControlFlow;
use std::sync::Arc;

use partita_model::{Document, Error, Lsn, MemoryShare, Result, with_lsn};
use partita_query::{Facts, Interrupt, Query, ScopeSettings};

use super::Changes;
use crate::catalog::Container;
use crate::context::Supervision;
use crate::op::{ChangesQuery, ItemBody};

/// What a query sees of an item that was deleted.
const NOTHING: &str = "{}";

/// A query, understood.
pub(super) struct Sieve {
    query: Query,
    scope: ScopeSettings,
    previous: bool,
}

/// What a query lets through of a change of which all versions are told.
pub(super) struct Passed {
    pub(super) current: Option<ItemBody>,
    pub(super) previous: Option<ItemBody>,
}

impl Changes {
    pub(super) fn sieve(
        &self,
        container: &Container,
        query: &ChangesQuery,
        supervision: &Arc<Supervision>,
        memory: &MemoryShare,
    ) -> Result<Sieve> {
        let ChangesQuery { text, parameters, previous } = query;
        let computed = &container.definition.computed_properties;
        let query = Query::parse(text, parameters, computed)?;
        if let Some(what) = beyond_filtering(query.facts()) {
            return Err(Error::bad_request(format!(
                "A query on the change feed can filter with WHERE and choose with SELECT, and \
                 nothing else: {what} is not supported there."
            )));
        }
        let interrupt: Arc<dyn Interrupt> = Arc::<Supervision>::clone(supervision);
        let scope = self.queries.query_scope(container, &query, supervision)?;
        let memory = memory.clone();
        let scope = ScopeSettings { interrupt: Some(interrupt), memory, ..scope };
        Ok(Sieve { query, scope, previous: *previous })
    }
}

/// What in a query is more than a filter and a projection.
fn beyond_filtering(facts: &Facts) -> Option<&'static str> {
    let found = [
        (!facts.has_from, "a SELECT without FROM"),
        (facts.joins, "a JOIN or an iteration"),
        (facts.has_group_by, "GROUP BY"),
        (facts.is_grouped, "an aggregate"),
        (facts.distinct, "DISTINCT"),
        (facts.ordered, "ORDER BY"),
        (facts.top.is_some(), "TOP"),
        (facts.offset_limit.is_some(), "OFFSET and LIMIT"),
    ];
    found.into_iter().find(|(is_there, _)| *is_there).map(|(_, what)| what)
}

impl Sieve {
    /// What is told of the latest version of an item; None: nothing.
    pub(super) fn latest(&self, text: &str, lsn: Lsn) -> Result<Option<ItemBody>> {
        self.row(&with_lsn(text, lsn))
    }

    /// What is told of a change with the versions before and after; None: nothing.
    pub(super) fn versions(
        &self,
        current: Option<&ItemBody>,
        previous: Option<&ItemBody>,
    ) -> Result<Option<Passed>> {
        let after = self.row(current.map_or(Ok(NOTHING), text_of)?)?;
        let before = match previous.filter(|_| self.previous) {
            Some(body) => self.row(text_of(body)?)?,
            None => None,
        };
        if after.is_none() && before.is_none() {
            return Ok(None);
        }
        let shown = previous.filter(|_| !self.previous).cloned();
        Ok(Some(Passed {
            current: after.filter(|_| current.is_some()),
            previous: before.or(shown),
        }))
    }

    fn row(&self, text: &str) -> Result<Option<ItemBody>> {
        let mut found = None;
        self.query.start(&self.scope).rows(Document::new(text), &mut |row| {
            found = Some(ItemBody(row.text.into()));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

fn text_of(body: &ItemBody) -> Result<&str> {
    std::str::from_utf8(&body.0).map_err(|_| Error::corrupt("the text of an item is not UTF-8"))
}
