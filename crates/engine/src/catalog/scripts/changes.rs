//! Changes to scripts.
//!
//! As elsewhere in the catalog, a counter of the container is touched by every script that comes or
//! goes, so that the deletion of the container can expect that nothing came meanwhile.

use partita_model::keycode;
use partita_model::{ContainerRid, Lsn, ScriptKind};
use partita_storage::Space;

use super::super::Container;
use super::super::changes::{Changes, RecordKey, container_key};
use super::super::store::{SCRIPT, SCRIPTS};
use super::{StoredScript, codec};

pub(in super::super) fn script_key(
    container: ContainerRid,
    kind: ScriptKind,
    name: &str,
) -> Vec<u8> {
    let mut out = of_container(SCRIPT, container);
    keycode::put_str(&mut out, kind.segment());
    keycode::put_str(&mut out, name);
    out
}

/// The counter of a container's scripts.
pub(in super::super) fn scripts_key(container: ContainerRid) -> Vec<u8> {
    of_container(SCRIPTS, container)
}

fn of_container(tag: u8, container: ContainerRid) -> Vec<u8> {
    let mut out = vec![tag];
    keycode::put_u64(&mut out, u64::from(container.database.0));
    keycode::put_u64(&mut out, u64::from(container.container));
    out
}

impl Changes {
    pub(crate) fn create_script(&mut self, container: &Container, script: &StoredScript) {
        let parent = container_key(container);
        self.batch.expect_unchanged(Space::Meta, parent.encode(), container.lsn);
        self.touched.push(parent);
        self.batch.add(Space::Meta, scripts_key(container.rid), 1);
        self.create(key_of(script), codec::encode_script(script));
    }

    /// Writes a script in place of its former self, which may have had another name.
    pub(crate) fn replace_script(&mut self, old: &StoredScript, script: &StoredScript) {
        let record = codec::encode_script(script);
        if old.name == script.name {
            return self.replace(key_of(script), old.lsn, record);
        }
        self.delete(key_of(old), old.lsn);
        self.create(key_of(script), record);
    }

    pub(crate) fn delete_script(&mut self, script: &StoredScript) {
        self.batch.add(Space::Meta, scripts_key(script.rid.container), -1);
        self.delete(key_of(script), script.lsn);
    }

    /// Deletes all scripts of a container together with it; `counted` is the LSN of the last one
    /// created or deleted.
    pub(crate) fn delete_scripts_with_container<'s>(
        &mut self,
        container: ContainerRid,
        scripts: impl Iterator<Item = &'s StoredScript>,
        counted: Option<Lsn>,
    ) {
        for script in scripts {
            self.delete(key_of(script), script.lsn);
        }
        self.delete_counter(scripts_key(container), counted);
    }
}

fn key_of(script: &StoredScript) -> RecordKey {
    let (container, kind) = (script.rid.container, script.rid.kind);
    RecordKey::Script { container, kind, name: script.name.clone() }
}
