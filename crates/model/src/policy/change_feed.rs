//! How long a container's change feed keeps every version and delete.

use crate::error::{Error, Result};
use crate::policy::shape;
use crate::value::{Object, Value};

/// A container's change feed policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeFeedPolicy {
    /// For so many minutes all versions can be read; 0 keeps the latest version only.
    pub retention_minutes: u32,
}

impl ChangeFeedPolicy {
    /// Reads the member `changeFeedPolicy`.
    pub(super) fn parse(value: &Value) -> Result<ChangeFeedPolicy> {
        let policy = shape::object(value, "changeFeedPolicy")?;
        let Some(value) = shape::present(policy, "retentionDuration") else {
            return Ok(ChangeFeedPolicy { retention_minutes: 0 });
        };
        let minutes = shape::integer(value, "changeFeedPolicy.retentionDuration")?;
        let retention_minutes = u32::try_from(minutes).map_err(|_| {
            Error::bad_request(format!(
                "'changeFeedPolicy.retentionDuration' must be a number of minutes between 0 and \
                 {}, it is {minutes}",
                u32::MAX
            ))
        })?;
        Ok(ChangeFeedPolicy { retention_minutes })
    }

    /// The policy as clients see it.
    pub(super) fn to_value(self) -> Value {
        Value::from(
            Object::new().with("retentionDuration", Value::from(i64::from(self.retention_minutes))),
        )
    }
}
