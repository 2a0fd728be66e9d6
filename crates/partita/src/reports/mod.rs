//! What the server tells of itself: to whoever starts it, scrapes it, or asks what it can do.

pub(crate) mod banner;
pub(crate) mod compat;
pub(crate) mod metrics;
