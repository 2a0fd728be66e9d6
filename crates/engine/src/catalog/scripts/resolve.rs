//! Finding scripts, by name or by resource id as their container was addressed.

use std::sync::Arc;

use partita_model::{ContainerRid, ErrorKind, Result, ScriptKind, ScriptRid};

use super::super::resolve::absent;
use super::super::{AddressedBy, Catalog, Resolved};
use super::{Scripts, StoredScript};

impl Catalog {
    /// All scripts of a kind in a container, in the order of their resource ids.
    pub(crate) fn scripts(
        &self,
        container: ContainerRid,
        kind: ScriptKind,
    ) -> impl Iterator<Item = &Arc<StoredScript>> {
        let first = ScriptRid { container, kind, script: 0 };
        let last = ScriptRid { container, kind, script: u64::MAX };
        self.scripts_of(container)
            .into_iter()
            .flat_map(move |scripts| scripts.scripts.range(first..=last))
            .map(|(_, script)| script)
    }

    /// All scripts of a container.
    pub(crate) fn all_scripts(
        &self,
        container: ContainerRid,
    ) -> impl Iterator<Item = &Arc<StoredScript>> {
        self.scripts_of(container).into_iter().flat_map(|scripts| scripts.scripts.values())
    }

    pub(crate) fn script_by_rid(&self, rid: ScriptRid) -> Option<&Arc<StoredScript>> {
        self.scripts_of(rid.container)?.scripts.get(&rid)
    }

    pub(crate) fn script_by_name(
        &self,
        container: ContainerRid,
        kind: ScriptKind,
        name: &str,
    ) -> Option<&Arc<StoredScript>> {
        let scripts = self.scripts_of(container)?;
        scripts.scripts.get(scripts.names.get(&(kind, name.to_owned()))?)
    }

    /// A script of a container that was found before.
    pub(crate) fn script(
        &self,
        resolved: &Resolved,
        kind: ScriptKind,
        segment: &str,
    ) -> Result<Arc<StoredScript>> {
        let container = resolved.container.rid;
        let found = match resolved.by {
            AddressedBy::Name => self.script_by_name(container, kind, segment),
            AddressedBy::Rid => ScriptRid::parse(segment)
                .filter(|rid| rid.container == container && rid.kind == kind)
                .and_then(|rid| self.script_by_rid(rid)),
        };
        found.map(Arc::clone).ok_or_else(|| absent(ErrorKind::NotFound, kind.name(), segment))
    }

    fn scripts_of(&self, container: ContainerRid) -> Option<&Scripts> {
        self.databases.get(&container.database)?.scripts.get(&container).map(|scripts| &**scripts)
    }
}
