//! The tests of the storage layer, in one binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop loudly")]

mod conformance;
mod crash;
mod damage;
mod dir;
mod disk;
mod faults;
mod inventory;
mod kept;
mod lifecycle;
mod merges;
mod model;
mod pending;
mod poison;
mod reopen;
mod room;
mod torn;
mod write_memory;
