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

use partita_model::{Entropy, Error, ErrorKind, Etag, Result, Value};
use partita_query::Filter;
use partita_storage::{PartitionId, StorageError};

use crate::catalog::Changes;
use crate::database::Database;
use crate::item::CONDITION_FAILED;
use crate::op::{Condition, EtagPattern, PageRequest};

/// How often a change is prepared before the client is asked to retry.
const ATTEMPTS_MAX: usize = 20;

/// Resources of a page when the client does not say, and at most.
const PAGE_RESOURCES_DEFAULT: usize = 100;
const PAGE_RESOURCES_MAX: usize = 1_000;

/// A page of this size has no end but the list's.
const EVERYTHING: usize = usize::MAX;

impl Database {
    /// Commits what `prepare` makes of the current catalog, preparing again after a conflict.
    pub(crate) async fn change<T>(
        &self,
        prepare: impl Fn() -> Result<(Changes, T)> + Send + Sync,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS_MAX {
            let (changes, result) = prepare()?;
            match self.catalog.commit(changes).await {
                Ok(()) => return Ok(result),
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::retry_with("The resource is being changed by many requests at once: retry"))
    }

    /// Lets go of partitions that nothing refers to any more. What cannot be dropped now is dropped
    /// at the next start, so a failure here is none of the request, which is committed.
    pub(crate) fn let_go(&self, partitions: &[PartitionId]) {
        if let Err(error) = self.store.drop_partitions(partitions) {
            tracing::warn!(%error, "partitions are left over until the next start");
        }
        if self.store.is_full() {
            self.jobs.ring();
        }
    }

    /// The same after a change that would have referred to them failed. If that was the store's
    /// fault it may have been committed all the same: then the next start knows.
    pub(crate) fn let_go_after(&self, error: &Error, partitions: &[PartitionId]) {
        let is_known = !matches!(
            error.kind,
            ErrorKind::Corrupt | ErrorKind::Internal | ErrorKind::Unavailable
        );
        if is_known {
            self.let_go(partitions);
        }
    }

    /// A new 32-bit number for a resource id. Ids are random, so that a re-created resource does
    /// not get its predecessor's; numbers whose text would need escaping in a URL are passed over.
    fn fresh_rid<R: Display>(&self, make: impl Fn(u32) -> R, taken: impl Fn(&R) -> bool) -> R {
        loop {
            let rid = make((self.entropy.next_u64() >> 32) as u32);
            let plain = !rid.to_string().contains(['+', '-']);
            if plain && !taken(&rid) {
                return rid;
            }
        }
    }
}

/// An ETag from random numbers and the time, in the shape the service's have.
pub(crate) fn fresh_etag(entropy: &dyn Entropy, ts: u64) -> Etag {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&entropy.next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&(ts << 16).to_be_bytes());
    Etag(bytes)
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
