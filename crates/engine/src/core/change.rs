//! Changes of the catalog: prepared, committed, and prepared again if another one was faster.

use std::fmt::Display;

use partita_model::{Entropy, Error, ErrorKind, Etag, Result};
use partita_storage::{PartitionId, StorageError};

use super::Core;
use crate::catalog::Changes;

/// How often a change is prepared before the client is asked to retry.
const ATTEMPTS_MAX: usize = 20;

impl Core {
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
            self.doorbell.ring();
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
    pub(crate) fn fresh_rid<R: Display>(
        &self,
        make: impl Fn(u32) -> R,
        taken: impl Fn(&R) -> bool,
    ) -> R {
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
pub(super) fn fresh_etag(entropy: &dyn Entropy, ts: u64) -> Etag {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&entropy.next_u64().to_be_bytes());
    bytes[8..].copy_from_slice(&(ts << 16).to_be_bytes());
    Etag(bytes)
}
