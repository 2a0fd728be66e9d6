//! What is kept in memory of a partition by whoever serves it.
//!
//! None of it is stored: it begins anew with the process, or is looked up. [`LivePartition`] bundles
//! the meter (`throughput/`), the source of resource ids (`rids.rs`), the shapes that the dictionary
//! is known to have (`shapes.rs`), how much was written since the size was looked at (`growth.rs`)
//! and the bell that readers of the change feed wait for (`bell.rs`).

mod bell;
mod growth;
mod rids;
mod shapes;

pub(crate) use self::bell::Bell;
pub use self::bell::NextChange;
pub(crate) use self::growth::Growth;
pub(crate) use self::rids::{FreshRid, RidClaim, RidSource};
pub(crate) use self::shapes::KnownShapes;
