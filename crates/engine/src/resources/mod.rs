//! Databases, containers, offers, users, permissions, scripts, keys: the operations on the catalog.
//!
//! All of them prepare [`Changes`] from the catalog as it is, commit them, and prepare again if
//! another change was faster. They are rare and small; none is in the way of a request on items.

mod conflicts;
mod containers;
mod databases;
mod encryption_keys;
mod offers;
mod permission_body;
mod permissions;
mod script_body;
mod scripts;
mod select;
mod users;

pub use containers::FIRST_LSN;

use std::fmt::Display;
use std::sync::Arc;

use partita_model::{Error, Etag, Result, Value};
use partita_query::Filter;

use crate::core::Core;
use crate::maintenance::Maintainer;
use crate::moves::Moves;
use crate::op::{CONDITION_FAILED, Condition, EtagPattern, PageRequest};
use crate::query::Queries;

/// Resources of a page when the client does not say, and at most.
const PAGE_RESOURCES_DEFAULT: usize = 100;
const PAGE_RESOURCES_MAX: usize = 1_000;

/// A page of this size has no end but the list's.
const EVERYTHING: usize = usize::MAX;

/// The operations on databases, containers and all that belongs to them beside items.
pub(crate) struct Resources {
    core: Arc<Core>,
    queries: Arc<Queries>,
    moves: Arc<Moves>,
    maintainer: Arc<Maintainer>,
}

impl Resources {
    pub(crate) fn new(
        core: Arc<Core>,
        queries: Arc<Queries>,
        moves: Arc<Moves>,
        maintainer: Arc<Maintainer>,
    ) -> Resources {
        Resources { core, queries, moves, maintainer }
    }
}

/// Whether a condition lets the reading of a resource go on; true means "the client has it
/// already".
fn not_modified(condition: Option<&Condition>, etag: &Etag) -> Result<bool> {
    match condition {
        None => Ok(false),
        Some(Condition::NoneMatch(pattern)) => Ok(matches(pattern, etag)),
        Some(Condition::Match(pattern)) if matches(pattern, etag) => Ok(false),
        Some(Condition::Match(_)) => Err(changed_since()),
    }
}

/// Whether a condition lets the change of a resource go on.
fn check_unchanged(condition: Option<&Condition>, etag: &Etag) -> Result<()> {
    match condition {
        Some(Condition::Match(pattern)) if !matches(pattern, etag) => Err(changed_since()),
        Some(Condition::Match(_) | Condition::NoneMatch(_)) | None => Ok(()),
    }
}

fn matches(pattern: &EtagPattern, etag: &Etag) -> bool {
    match pattern {
        EtagPattern::Any => true,
        EtagPattern::Exact(wanted) => *wanted == etag.to_string(),
    }
}

fn changed_since() -> Error {
    Error::precondition_failed(format!(
        "{CONDITION_FAILED}: the resource's ETag is another one by now"
    ))
}

fn invalid_continuation() -> Error {
    Error::bad_request("Invalid Continuation Token: pass it on as the page before returned it")
}

/// One page of a list of resources, which come in the order of their ids: those after the
/// continuation that pass the filter. The continuation is the last id delivered; it stays good when
/// that resource is deleted.
fn page<T, R: Ord + Display>(
    all: impl Iterator<Item = T>,
    rid: impl Fn(&T) -> R,
    parse: impl Fn(&str) -> Option<R>,
    row: impl Fn(&T) -> Value,
    (filter, request): (Option<&Filter>, &PageRequest),
) -> Result<(Vec<T>, Option<String>)> {
    let items_max = match request.items_max {
        Some(EVERYTHING) => EVERYTHING,
        asked => asked.unwrap_or(PAGE_RESOURCES_DEFAULT).clamp(1, PAGE_RESOURCES_MAX),
    };
    let after = match &request.continuation {
        Some(token) => Some(parse(token).ok_or_else(invalid_continuation)?),
        None => None,
    };
    let mut kept: Vec<T> = Vec::new();
    for resource in all.skip_while(|resource| after.as_ref().is_some_and(|a| rid(resource) <= *a)) {
        if let Some(filter) = filter
            && !filter.matches(&row(&resource))?
        {
            continue;
        }
        if kept.len() == items_max {
            let continuation = kept.last().map(|last| rid(last).to_string());
            return Ok((kept, continuation));
        }
        kept.push(resource);
    }
    Ok((kept, None))
}
