//! What the fuzz targets do with their input. Compiled for fuzzing only: what they try is private.

pub use crate::changes::fuzzing::feed_position;
pub use crate::query::fuzzing::continuation;
