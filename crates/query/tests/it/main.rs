//! What a filter accepts, refuses and selects, as its users see it.

mod cases;
mod data;
mod errors;
mod generated;
mod golden;
mod index_metrics;
mod partition_filter;
mod plan;
mod plan_routing;
mod robustness;
mod running;
mod semantics;
