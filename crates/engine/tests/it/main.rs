//! The engine through its one entry, on containers with one and with several partitions.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod batch_model;
mod batches;
mod catalog;
mod changes;
mod changes_merges;
mod changes_model;
mod changes_versions;
mod changes_waiting;
mod concurrency;
mod describe;
mod harness;
mod imports;
mod items;
mod lists;
mod model;
mod moves;
mod policy_change;
mod query;
mod query_property;
mod races;
mod restart;
mod scripts;
mod stores;
mod throughput;
mod trouble;
mod users;
mod write_memory;
