//! What users declare in files, JSON or TOML: resources that shall exist, and who may do what.
//!
//! ```text
//!   file.rs        reads a file; unknown members are refused
//!   resources.rs   `--init`: databases, containers, items, in the words of the Terraform provider
//!   apply.rs       creates those that are missing
//!   access.rs      `--access-file`: identity providers and roles
//! ```
//!
//! Invariants: a file is read whole before anything is done, and a member that is not known is an
//! error, because it is a wish that nobody would fulfil. Nothing that exists is changed or deleted.

mod access;
mod apply;
mod file;
mod resources;

pub use access::AccessFile;
pub use apply::apply;
