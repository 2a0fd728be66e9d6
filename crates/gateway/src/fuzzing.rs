//! What the fuzz targets do with their input. Compiled for fuzzing only: what they try is private.

pub use crate::http1::tests::fuzzing::http1;
