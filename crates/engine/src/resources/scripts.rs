//! Scripts as resources. A text that the runtime cannot read is stored all the same, as the service
//! does it (a test of the Python SDK stores prose): the log says so at once, its callers later.

use std::sync::Arc;

use partita_model::{ContainerRid, Error, Lsn, Result, ScriptKind, ScriptRid, limits};
use partita_query::Filter;

use super::Resources;
use super::script_body::ScriptBody;
use super::{check_unchanged, not_modified, page};
use crate::catalog::{Catalog, Changes, Container, StoredScript};
use crate::context::Work;
use crate::op::{Change, Condition, ContainerPath, Outcome, PageRequest, ScriptOp, ScriptPath};

/// A kind of scripts in a container.
#[derive(Clone, Copy)]
struct ScriptGroup<'a> {
    container: &'a ContainerPath,
    kind: ScriptKind,
}

impl Resources {
    pub(crate) async fn script_op(&self, work: &mut Work<'_>, op: ScriptOp) -> Result<Outcome> {
        self.core.script_runtime(op.kind())?;
        match &op {
            ScriptOp::Read { .. } | ScriptOp::List { .. } => work.usage.metadata_reads = 1,
            ScriptOp::Create { .. }
            | ScriptOp::Upsert { .. }
            | ScriptOp::Replace { .. }
            | ScriptOp::Delete { .. } => work.usage.metadata_writes = 1,
        }
        match op {
            ScriptOp::Create { container, kind, body } => {
                let body = ScriptBody::parse(kind, &body)?;
                self.create_script(work, ScriptGroup { container: &container, kind }, &body).await
            }
            ScriptOp::Upsert { container, kind, body, condition } => {
                let (body, place) =
                    (ScriptBody::parse(kind, &body)?, ScriptGroup { container: &container, kind });
                self.upsert_script(work, place, &body, condition.as_ref()).await
            }
            ScriptOp::Read { script, condition } => {
                self.read_script(work, &script, condition.as_ref())
            }
            ScriptOp::Replace { script, body, condition } => {
                let body = ScriptBody::parse(script.kind, &body)?;
                self.replace_script(work, &script, &body, condition.as_ref()).await
            }
            ScriptOp::Delete { script, condition } => {
                self.delete_script(work, &script, condition.as_ref()).await
            }
            ScriptOp::List { container, kind, filter, page } => {
                self.list_scripts(work, (&container, kind), filter.as_ref(), &page)
            }
        }
    }

    async fn create_script(
        &self,
        work: &mut Work<'_>,
        place: ScriptGroup<'_>,
        body: &ScriptBody,
    ) -> Result<Outcome> {
        self.core.item_container(work, place.container)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let mut changes = Changes::default();
                let container = catalog.parent_container(place.container)?.container;
                let rid = self.add_script(&catalog, &mut changes, &container, place.kind, body)?;
                Ok((changes, rid))
            })
            .await?;
        self.script_reply(rid, Change::Created)
    }

    async fn upsert_script(
        &self,
        work: &mut Work<'_>,
        place: ScriptGroup<'_>,
        body: &ScriptBody,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        self.core.item_container(work, place.container)?;
        let (rid, change) = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let mut changes = Changes::default();
                let container = catalog.parent_container(place.container)?.container;
                let old = catalog.script_by_name(container.rid, place.kind, &body.name);
                let Some(old) = old else {
                    let rid =
                        self.add_script(&catalog, &mut changes, &container, place.kind, body)?;
                    return Ok((changes, (rid, Change::Created)));
                };
                check_unchanged(condition, &old.etag)?;
                changes.replace_script(old, &self.stored_script(old.rid, body, old.lsn)?);
                Ok((changes, (old.rid, Change::Replaced)))
            })
            .await?;
        self.script_reply(rid, change)
    }

    fn read_script(
        &self,
        work: &mut Work<'_>,
        path: &ScriptPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        let script = self.known_script(work, path)?;
        if not_modified(condition, &script.etag)? {
            return Ok(Outcome::NotModified { etag: script.etag.to_string() });
        }
        let catalog = self.core.catalog.current();
        let count = catalog.scripts(script.rid.container, script.rid.kind).count();
        Ok(Outcome::Script { script, count, change: Change::None })
    }

    async fn replace_script(
        &self,
        work: &mut Work<'_>,
        path: &ScriptPath,
        body: &ScriptBody,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        self.known_script(work, path)?;
        let rid = self
            .core
            .change(|| {
                let catalog = self.core.catalog.current();
                let resolved = catalog.parent_container(&path.container)?;
                let old = catalog.script(&resolved, path.kind, &path.script)?;
                check_unchanged(condition, &old.etag)?;
                if old.name != body.name {
                    check_free(&catalog, old.rid.container, path.kind, &body.name)?;
                }
                let mut changes = Changes::default();
                changes.replace_script(&old, &self.stored_script(old.rid, body, old.lsn)?);
                Ok((changes, old.rid))
            })
            .await?;
        self.script_reply(rid, Change::Replaced)
    }

    async fn delete_script(
        &self,
        work: &mut Work<'_>,
        path: &ScriptPath,
        condition: Option<&Condition>,
    ) -> Result<Outcome> {
        self.known_script(work, path)?;
        self.core
            .change(|| {
                let catalog = self.core.catalog.current();
                let resolved = catalog.parent_container(&path.container)?;
                let script = catalog.script(&resolved, path.kind, &path.script)?;
                check_unchanged(condition, &script.etag)?;
                let mut changes = Changes::default();
                changes.delete_script(&script);
                Ok((changes, ()))
            })
            .await?;
        Ok(Outcome::Deleted)
    }

    pub(super) fn list_scripts(
        &self,
        work: &mut Work<'_>,
        (path, kind): (&ContainerPath, ScriptKind),
        filter: Option<&Filter>,
        request: &PageRequest,
    ) -> Result<Outcome> {
        let container = self.core.item_container(work, path)?.container;
        let catalog = self.core.catalog.current();
        let all = catalog.scripts(container.rid, kind).map(Arc::clone);
        let (scripts, continuation) =
            page(all, |s| s.rid, ScriptRid::parse, |s| s.to_value(), (filter, request))?;
        Ok(Outcome::Scripts { kind, scripts, continuation })
    }

    /// Deletes all scripts of a container that is being deleted.
    pub(super) fn delete_scripts_of(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        container: ContainerRid,
    ) -> Result<()> {
        let counted = self.core.catalog.script_count(container)?;
        if counted.count != catalog.all_scripts(container).count() {
            return Err(Error::retry_with("A script is being created: retry"));
        }
        let scripts = catalog.all_scripts(container).map(|script| &**script);
        changes.delete_scripts_with_container(container, scripts, counted.lsn);
        Ok(())
    }

    pub(crate) fn known_script(
        &self,
        work: &mut Work<'_>,
        path: &ScriptPath,
    ) -> Result<Arc<StoredScript>> {
        let resolved = self.core.item_container(work, &path.container)?;
        self.core.catalog.current().script(&resolved, path.kind, &path.script)
    }

    fn add_script(
        &self,
        catalog: &Catalog,
        changes: &mut Changes,
        container: &Container,
        kind: ScriptKind,
        body: &ScriptBody,
    ) -> Result<ScriptRid> {
        check_free(catalog, container.rid, kind, &body.name)?;
        let (count, count_max) = (catalog.scripts(container.rid, kind).count(), count_max(kind));
        if count >= count_max {
            return Err(Error::forbidden(format!(
                "The container has {count} resources of the kind {}: that is the limit",
                kind.name()
            )));
        }
        let rid = self.fresh_script_rid(catalog, container.rid, kind);
        changes.create_script(container, &self.stored_script(rid, body, Lsn(0))?);
        Ok(rid)
    }

    /// The script with a new stamp.
    fn stored_script(&self, rid: ScriptRid, body: &ScriptBody, lsn: Lsn) -> Result<StoredScript> {
        let (etag, ts) = self.core.fresh_stamp();
        let script = StoredScript {
            rid,
            name: body.name.clone(),
            source: Arc::clone(&body.source),
            trigger: body.trigger.clone(),
            etag,
            ts,
            lsn,
        };
        if let Err(error) = self.core.script_runtime(rid.kind)?.check(&script.to_script()) {
            tracing::warn!(script = script.name, %error, "a script was stored that cannot run");
        }
        Ok(script)
    }

    /// As other resource ids: random, and without characters that a URL would have to escape.
    fn fresh_script_rid(
        &self,
        catalog: &Catalog,
        container: ContainerRid,
        kind: ScriptKind,
    ) -> ScriptRid {
        loop {
            let rid = ScriptRid { container, kind, script: self.core.entropy.next_u64() >> 4 };
            let plain = !rid.to_string().contains(['+', '-']);
            if plain && catalog.script_by_rid(rid).is_none() {
                return rid;
            }
        }
    }

    /// The script just written, unless somebody was quick to delete it again.
    fn script_reply(&self, rid: ScriptRid, change: Change) -> Result<Outcome> {
        let catalog = self.core.catalog.current();
        let count = catalog.scripts(rid.container, rid.kind).count();
        match catalog.script_by_rid(rid) {
            Some(found) => Ok(Outcome::Script { script: Arc::clone(found), count, change }),
            None => Err(Error::not_found("Resource Not Found: the script was deleted meanwhile")),
        }
    }
}

fn count_max(kind: ScriptKind) -> usize {
    match kind {
        ScriptKind::Procedure => limits::PROCEDURES_MAX,
        ScriptKind::Trigger => limits::TRIGGERS_MAX,
        ScriptKind::Function => limits::FUNCTIONS_MAX,
    }
}

/// Refuses a name that another script of the kind has.
fn check_free(
    catalog: &Catalog,
    container: ContainerRid,
    kind: ScriptKind,
    name: &str,
) -> Result<()> {
    if catalog.script_by_name(container, kind, name).is_some() {
        return Err(Error::conflict(format!(
            "Resource with specified id or name already exists: {} '{name}'",
            kind.name()
        )));
    }
    Ok(())
}
