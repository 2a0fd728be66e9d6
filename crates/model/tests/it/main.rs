//! The data model from outside.

// clippy.toml lets tests unwrap; this is for the functions beside them.
#![allow(clippy::unwrap_used)]

mod binary_json;
mod container;
mod document;
mod epk;
mod generate;
mod indexing;
mod json;
mod keycode;
mod mutation;
mod partition_key;
mod patch;
