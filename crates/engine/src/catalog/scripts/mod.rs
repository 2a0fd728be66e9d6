//! The scripts of containers in the catalog: stored procedures, triggers, user-defined functions.
//!
//! They belong to a container as a whole, not to a partition, and are few and small, so they are
//! kept in memory with the rest of the catalog: running one costs no lookup in the store.

mod changes;
mod codec;
mod resolve;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use partita_model::{ContainerRid, Etag, Lsn, Object, ScriptKind, ScriptRid, Value};

pub(super) use changes::{script_key, scripts_key};
pub(super) use codec::script;

use super::Catalog;
use super::value::{number, with_system};
use crate::script_runtime::{Script, WriteKind};

/// A script as a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredScript {
    pub rid: ScriptRid,
    pub name: String,
    pub source: Arc<str>,
    /// Set for triggers, and only for them.
    pub trigger: Option<Trigger>,
    pub etag: Etag,
    /// Unix seconds of the last write.
    pub ts: u64,
    pub(crate) lsn: Lsn,
}

/// When a trigger runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub moment: TriggerMoment,
    pub operation: TriggerOperation,
    /// Both as they were sent, which is how clients want them back.
    pub moment_text: String,
    pub operation_text: String,
}

/// Before or after the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerMoment {
    Pre,
    Post,
}

impl TriggerMoment {
    /// Reads a `triggerType`, in any case: SDKs do not agree on it.
    pub fn parse(text: &str) -> Option<TriggerMoment> {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("pre") {
            return Some(TriggerMoment::Pre);
        }
        is("post").then_some(TriggerMoment::Post)
    }
}

/// The writes that a trigger is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerOperation {
    All,
    Create,
    /// Replaces and upserts.
    Update,
    Upsert,
    Replace,
    Delete,
}

impl TriggerOperation {
    /// Reads a `triggerOperation`, in any case.
    pub fn parse(text: &str) -> Option<TriggerOperation> {
        let words = [
            ("all", TriggerOperation::All),
            ("create", TriggerOperation::Create),
            ("update", TriggerOperation::Update),
            ("upsert", TriggerOperation::Upsert),
            ("replace", TriggerOperation::Replace),
            ("delete", TriggerOperation::Delete),
        ];
        let found = words.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
        found.map(|(_, operation)| operation)
    }

    /// Is the trigger for this write?
    pub fn covers(self, write: WriteKind) -> bool {
        match self {
            TriggerOperation::All => true,
            TriggerOperation::Create => write == WriteKind::Create,
            TriggerOperation::Update => matches!(write, WriteKind::Replace | WriteKind::Upsert),
            TriggerOperation::Upsert => write == WriteKind::Upsert,
            TriggerOperation::Replace => write == WriteKind::Replace,
            TriggerOperation::Delete => write == WriteKind::Delete,
        }
    }
}

impl StoredScript {
    /// The link by resource ids.
    pub fn self_link(&self) -> String {
        let ScriptRid { container, kind, .. } = self.rid;
        let database = container.database;
        format!("dbs/{database}/colls/{container}/{}/{}/", kind.segment(), self.rid)
    }

    /// The script as JSON, system properties included.
    pub fn to_value(&self) -> Value {
        let mut object = Object::new().with("body", &*self.source).with("id", self.name.as_str());
        if let Some(trigger) = &self.trigger {
            object.insert("triggerType", trigger.moment_text.as_str());
            object.insert("triggerOperation", trigger.operation_text.as_str());
        }
        let object = with_system(object, &self.rid.to_string(), self.self_link(), self.etag);
        Value::from(object.with("_ts", number(self.ts)))
    }

    /// What a runtime has to know of it. Every write gives it another ETag, so that tells its texts
    /// apart.
    pub(crate) fn to_script(&self) -> Script {
        let version = u128::from_be_bytes(self.etag.0);
        Script { name: self.name.clone(), source: Arc::clone(&self.source), version }
    }
}

/// All scripts of one container.
#[derive(Clone, Debug, Default)]
pub(super) struct Scripts {
    names: HashMap<(ScriptKind, String), ScriptRid>,
    scripts: BTreeMap<ScriptRid, Arc<StoredScript>>,
}

impl Scripts {
    /// Adds or replaces a script; one of the same name and another id is gone by that.
    fn insert(&mut self, script: Arc<StoredScript>) {
        let name = (script.rid.kind, script.name.clone());
        if let Some(former) = self.names.insert(name, script.rid)
            && former != script.rid
        {
            self.scripts.remove(&former);
        }
        self.scripts.insert(script.rid, script);
    }

    /// Forgets a name, and the script that bears it still: it may have got another one.
    fn remove(&mut self, kind: ScriptKind, name: &str) {
        if let Some(rid) = self.names.remove(&(kind, name.to_owned()))
            && self.scripts.get(&rid).is_some_and(|script| script.name == name)
        {
            self.scripts.remove(&rid);
        }
    }
}

impl Catalog {
    /// Adds or replaces a script. A container that went away in the same moment takes it along.
    pub(super) fn insert_script(&mut self, script: Arc<StoredScript>) {
        self.change_scripts(script.rid.container, |scripts| scripts.insert(script));
    }

    pub(super) fn remove_script(&mut self, container: ContainerRid, kind: ScriptKind, name: &str) {
        self.change_scripts(container, |scripts| scripts.remove(kind, name));
    }

    fn change_scripts(&mut self, container: ContainerRid, change: impl FnOnce(&mut Scripts)) {
        let Some(contents) = self.databases.get_mut(&container.database) else { return };
        if contents.containers.contains_key(&container) {
            let scripts = Arc::make_mut(contents).scripts.entry(container).or_default();
            change(Arc::make_mut(scripts));
        }
    }
}
