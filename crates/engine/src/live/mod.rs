//! What is kept in memory of a partition by whoever serves it.
//!
//! None of it is stored: it begins anew with the process, or is looked up. [`LivePartition`]
//! bundles the meter (`throughput/`), the source of resource ids (`rids.rs`), the shapes that the
//! dictionary is known to have (`shapes.rs`), how much was written since the size was looked at
//! (`growth.rs`) and the bell that readers of the change feed wait for (`bell.rs`).

mod bell;
mod growth;
mod rids;
mod shapes;

use std::sync::Arc;

use partita_storage::PartitionId;

use self::bell::Bell;
pub use self::bell::NextChange;
use self::growth::Growth;
use self::rids::RidSource;
pub(crate) use self::rids::{FreshRid, RidClaim};
use self::shapes::KnownShapes;
use crate::throughput::Meter;

/// What is kept in memory of one partition. It stays with the partition when the container's record
/// is read again.
#[derive(Debug)]
pub(crate) struct LivePartition {
    /// The id that clients see.
    pub(crate) range_id: u32,
    /// Where the store keeps the partition.
    pub(crate) id: PartitionId,
    /// What it uses, and how much it may.
    pub(crate) meter: Meter,
    pub(crate) rids: RidSource,
    pub(crate) shapes: KnownShapes,
    pub(crate) growth: Growth,
    /// Rung when items have changed. Who waits for it does not keep it.
    pub(crate) bell: Arc<Bell>,
}

impl LivePartition {
    /// Of a partition that nobody has used yet since the process began.
    pub(crate) fn new(range_id: u32, id: PartitionId) -> LivePartition {
        LivePartition {
            range_id,
            id,
            meter: Meter::new(),
            rids: RidSource::new(range_id),
            shapes: KnownShapes::new(),
            growth: Growth::default(),
            bell: Arc::default(),
        }
    }
}
