//! How conflicting writes of several regions would be resolved.
//!
//! Kept and shown as the service does. With a single write region no conflict can arise, so
//! nothing here is ever consulted.

use crate::error::{Error, Result};
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// A container's conflict resolution policy.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictResolution {
    /// The write with the highest value at this path wins.
    LastWriterWins {
        /// The path as it was written.
        path: String,
    },
    /// A stored procedure decides, or the user by reading the conflicts feed.
    Custom {
        /// The procedure's link; empty for the conflicts feed.
        procedure: String,
    },
}

impl Default for ConflictResolution {
    fn default() -> ConflictResolution {
        ConflictResolution::LastWriterWins { path: TIMESTAMP_PATH.to_owned() }
    }
}

impl ConflictResolution {
    /// Reads the member `conflictResolutionPolicy`.
    pub(super) fn parse(value: &Value) -> Result<ConflictResolution> {
        let policy = shape::object(value, "conflictResolutionPolicy")?;
        let mode = text(policy, "mode")?;
        let path = text(policy, "conflictResolutionPath")?;
        let procedure = text(policy, "conflictResolutionProcedure")?;
        match shape::one_of(mode, &[("LastWriterWins", false), ("Custom", true), ("", false)]) {
            None => Err(Error::bad_request(format!(
                "'conflictResolutionPolicy.mode' is '{mode}'; it must be LastWriterWins or Custom"
            ))),
            Some(true) if !path.is_empty() => Err(Error::bad_request(
                "'conflictResolutionPath' belongs to the mode LastWriterWins, not to Custom",
            )),
            Some(true) => Ok(ConflictResolution::Custom { procedure: procedure.to_owned() }),
            Some(false) if !procedure.is_empty() => Err(Error::bad_request(
                "'conflictResolutionProcedure' belongs to the mode Custom, not to LastWriterWins",
            )),
            Some(false) if path.is_empty() => Ok(ConflictResolution::default()),
            Some(false) => {
                PropertyPath::parse(path)?;
                Ok(ConflictResolution::LastWriterWins { path: path.to_owned() })
            }
        }
    }

    /// The policy as clients see it: all three members, always.
    pub(super) fn to_value(&self) -> Value {
        let (mode, path, procedure) = match self {
            ConflictResolution::LastWriterWins { path } => ("LastWriterWins", path.as_str(), ""),
            ConflictResolution::Custom { procedure } => ("Custom", "", procedure.as_str()),
        };
        Value::from(
            Object::new()
                .with("mode", mode)
                .with("conflictResolutionPath", path)
                .with("conflictResolutionProcedure", procedure),
        )
    }

    /// The policy after a replace: the path or procedure may change, the mode may not.
    pub(super) fn replace(&self, new: ConflictResolution) -> Result<ConflictResolution> {
        match (self, &new) {
            (Self::LastWriterWins { .. }, Self::LastWriterWins { .. })
            | (Self::Custom { .. }, Self::Custom { .. }) => Ok(new),
            _ => Err(Error::bad_request(
                "'conflictResolutionPolicy.mode' cannot be changed after the container was made",
            )),
        }
    }
}

const TIMESTAMP_PATH: &str = "/_ts";

fn text<'v>(policy: &'v Object, name: &str) -> Result<&'v str> {
    shape::present(policy, name).map_or(Ok(""), |value| shape::string(value, name))
}
