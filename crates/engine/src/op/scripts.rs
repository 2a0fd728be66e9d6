//! Operations on scripts, and those that run them.

use partita_model::{PartitionKeyHeader, ScriptKind, Value};
use partita_query::Filter;

use super::{Condition, ContainerPath, PageRequest, ScriptPath};

/// An operation on the scripts of a container as resources. Bodies are as the client sent them.
#[derive(Debug)]
pub enum ScriptOp {
    /// A new one.
    Create {
        container: ContainerPath,
        kind: ScriptKind,
        body: Value,
    },
    Upsert {
        container: ContainerPath,
        kind: ScriptKind,
        body: Value,
        condition: Option<Condition>,
    },
    Read {
        script: ScriptPath,
        condition: Option<Condition>,
    },
    Replace {
        script: ScriptPath,
        body: Value,
        condition: Option<Condition>,
    },
    Delete {
        script: ScriptPath,
        condition: Option<Condition>,
    },
    List {
        container: ContainerPath,
        kind: ScriptKind,
        filter: Option<Filter>,
        page: PageRequest,
    },
}

impl ScriptOp {
    /// The kind of scripts that it is about.
    pub fn kind(&self) -> ScriptKind {
        match self {
            ScriptOp::Create { kind, .. }
            | ScriptOp::Upsert { kind, .. }
            | ScriptOp::List { kind, .. } => *kind,
            ScriptOp::Read { script, .. }
            | ScriptOp::Replace { script, .. }
            | ScriptOp::Delete { script, .. } => script.kind,
        }
    }
}

/// A run of a stored procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcedureCall {
    pub container: ContainerPath,
    pub procedure: String,
    /// None: the container knows no partition keys.
    pub partition_key: Option<PartitionKeyHeader>,
    /// JSON: an array, or what `apply` takes for one.
    pub arguments: String,
    /// Tell what the script logs.
    pub logs: bool,
}

/// The triggers that a write shall run, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerNames {
    pub pre: Vec<String>,
    pub post: Vec<String>,
}

impl TriggerNames {
    /// None are named.
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}
