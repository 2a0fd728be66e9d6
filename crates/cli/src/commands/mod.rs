//! The commands, a file each, and what they print.

pub(crate) mod advise;
pub(crate) mod check;
pub(crate) mod dev_token;
pub(crate) mod explain_key;
pub(crate) mod healthcheck;
pub(crate) mod keys;
pub(crate) mod moves;
pub(crate) mod partitions;
pub(crate) mod trust_guide;
