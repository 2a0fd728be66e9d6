//! The door over a database in memory, driven as an SDK drives it: signed HTTP requests in, HTTP
//! responses out, no socket in between.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod access;
mod account;
mod admin;
mod bad_input;
mod batch_triggers;
mod batches;
mod binary_items;
mod by_rid;
mod changes;
mod conditions;
mod controls;
mod direct_mode;
mod dotnet_requests;
mod duplicate_names;
mod encryption_keys;
mod hybrid_row;
mod imports;
mod items;
mod leaving;
mod metadata;
mod offers;
mod old_clients;
mod queries;
mod ranges;
mod resource_queries;
mod scopes;
mod scripts;
mod sdk_requests;
mod support;
mod told;
mod users;
mod waiting;
