//! Times to live a container sets for its items, in seconds.
//!
//! Absent: items never expire, whatever they say themselves. -1: they expire only if they say so.
//! A positive number: the default for items that say nothing.

use crate::error::{Error, Result};
use crate::policy::shape;
use crate::value::Object;

/// `defaultTtl`: -1 or a positive number of seconds.
pub(super) fn parse_default(body: &Object) -> Result<Option<i32>> {
    parse(body, "defaultTtl", |ttl| ttl == -1 || ttl > 0, "-1 or between 1 and 2147483647 seconds")
}

/// `analyticalStorageTtl`: as above, and 0 for off.
pub(super) fn parse_analytical(body: &Object) -> Result<Option<i32>> {
    parse(
        body,
        "analyticalStorageTtl",
        |ttl| ttl >= -1,
        "-1, 0 or between 1 and 2147483647 seconds",
    )
}

/// `ttlPropertyPath` says from when an item's time to live counts, so there must be one.
pub(super) fn check_property_path(body: &Object, default_ttl: Option<i32>) -> Result<()> {
    match shape::present(body, "ttlPropertyPath") {
        Some(_) if default_ttl.is_none() => Err(Error::bad_request(
            "'ttlPropertyPath' needs 'defaultTtl': set it, or leave 'ttlPropertyPath' out",
        )),
        Some(_) | None => Ok(()),
    }
}

fn parse(body: &Object, name: &str, fits: fn(i32) -> bool, rule: &str) -> Result<Option<i32>> {
    let Some(value) = shape::present(body, name) else { return Ok(None) };
    let seconds = shape::integer(value, name)?;
    match i32::try_from(seconds) {
        Ok(ttl) if fits(ttl) => Ok(Some(ttl)),
        _ => Err(Error::bad_request(format!("'{name}' must be {rule}, it is {seconds}"))),
    }
}
