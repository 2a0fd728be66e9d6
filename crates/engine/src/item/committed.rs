//! What follows a commit that changed items, whoever made it: a single write, a transaction, a
//! script or the sweep of expired items.
//!
//! In the store everything changed together. What is left to do is about what is kept in memory of
//! the partition: readers of the change feed are woken, the source of resource ids learns what
//! is stored about it, and the bytes are counted, for quotas and for splits. A crash before this
//! loses nothing that a restart does not find out anew.

use partita_storage::Commit;

use super::batch::Counts;
use crate::catalog::{Partition, RidClaim};
use crate::database::Database;
use crate::op::Served;

/// What a commit did to its partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Bytes of all versions that came or went.
    pub(super) bytes: u64,
    /// By how many bytes the partition grew or shrank.
    pub(super) grown: i64,
    /// What it did to the source of resource ids.
    pub(super) rids: RidClaim,
}

impl Effects {
    pub(super) fn new(counts: &Counts, rids: RidClaim) -> Effects {
        Effects { bytes: counts.bytes, grown: counts.grown, rids }
    }

    /// The effects of both.
    pub(super) fn and(self, other: Effects) -> Effects {
        Effects {
            bytes: self.bytes + other.bytes,
            grown: self.grown + other.grown,
            rids: self.rids.and(other.rids),
        }
    }
}

impl Database {
    /// Takes note of a commit. `served` is what the reply to its request tells, if there is one.
    pub(crate) fn committed(
        &self,
        served: Option<&mut Served>,
        partition: &Partition,
        commit: Commit,
        effects: Effects,
    ) {
        partition.bell.ring();
        partition.rids.committed(commit.lsn, effects.rids);
        partition.meter.grow(effects.grown);
        self.note_growth(partition, effects.bytes);
        if let Some(served) = served {
            served.lsn = commit.lsn;
        }
    }
}
