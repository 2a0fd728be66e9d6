//! Writes of one item with triggers.
//!
//! The pre-trigger runs first and may change the document, then the item is written, then the
//! post-trigger runs and may change what the client is told. All of it, and whatever else the
//! triggers write, is one transaction.

use std::sync::Arc;

use partita_model::{
    Document, Error, ErrorKind, KEY_MISMATCH, PartitionKeyHeader, Result, ScriptKind, json,
};

use super::Home;
use super::host::Host;
use crate::catalog::{AddressedBy, Container, StoredScript, TriggerMoment};
use crate::context::Work;
use crate::item::Items;
use crate::item::draft::{Draft, too_large};
use crate::item::intent::{Intent, Patched};
use crate::item::{ItemPlace, key_of_request};
use crate::op::{
    Condition, ContainerPath, Indexing, ItemBody, ItemPath, NewItem, Op, Outcome, TriggerNames,
};
use crate::script_runtime::{HostLink, Script, ScriptHost, ScriptRole, WriteKind};

/// A write, understood as far as it can be before its pre-trigger has run.
pub(super) struct Write {
    pub(super) kind: WriteKind,
    /// The item that is addressed by id; creates and upserts address none.
    pub(super) id: Option<String>,
    /// None for a delete, and for a patch until it has met the item.
    pub(super) document: Option<String>,
    /// A patch is a replace by what it makes of the item that is there.
    pub(super) patch: Option<Patched>,
    pub(super) indexing: Indexing,
    pub(super) condition: Option<Condition>,
    /// How long the item shall live, if not as its property says.
    pub(super) ttl_seconds: Option<i32>,
}

/// The triggers of a write.
pub(super) struct Triggers {
    pre: Option<Script>,
    post: Option<Script>,
}

impl Items {
    pub(crate) async fn write_with_triggers(
        &self,
        work: &mut Work<'_>,
        op: Op,
        names: &TriggerNames,
    ) -> Result<Outcome> {
        self.core.script_runtime(ScriptKind::Trigger)?;
        let (mut home, write) = self.triggering_write(work, op)?;
        let triggers = self.triggers(&home.container, names, write.kind)?;
        let outcome = self
            .transact(work, &mut home, |host, log| self.run_write(host, log, &write, &triggers))
            .await?;
        if let Some(served) = work.served.as_mut() {
            served.item_lsn = Some(served.lsn);
        }
        Ok(outcome)
    }

    fn triggering_write(&self, work: &mut Work<'_>, op: Op) -> Result<(Home, Write)> {
        match op {
            Op::CreateItem { container, item } => {
                self.write_of_item(work, &container, item, (WriteKind::Create, None))
            }
            Op::UpsertItem { container, item, condition } => {
                self.write_of_item(work, &container, item, (WriteKind::Upsert, condition))
            }
            Op::ReplaceItem { path, item, condition } => {
                let (home, id) = match &path.partition_key {
                    Some(_) => self.home_of_item(work, &path)?,
                    None => {
                        // Clients that send no key mean the one in the document.
                        let container = self.core.item_container(work, &path.container)?.container;
                        (home_of_document(container, &document_of(&item.body)?, None)?, path.id)
                    }
                };
                let (document, indexing) = (document_of(&item.body)?, item.indexing);
                check_header(&home, item.partition_key.as_ref())?;
                let (kind, id, document) = (WriteKind::Replace, Some(id), Some(document));
                let (patch, ttl_seconds) = (None, None);
                let write = Write { kind, id, document, patch, indexing, condition, ttl_seconds };
                Ok((home, write))
            }
            Op::PatchItem { path, patch, filter, condition } => {
                let (home, id) = self.home_of_item(work, &path)?;
                let patch = Some(Patched::of(&home.container, patch, filter)?);
                let (kind, id, indexing) = (WriteKind::Replace, Some(id), Indexing::default());
                let (document, ttl_seconds) = (None, None);
                let write = Write { kind, id, document, patch, indexing, condition, ttl_seconds };
                Ok((home, write))
            }
            Op::DeleteItem { path, condition } => {
                let (home, id) = self.home_of_item(work, &path)?;
                let (kind, id, indexing) = (WriteKind::Delete, Some(id), Indexing::default());
                let (document, patch, ttl_seconds) = (None, None, None);
                let write = Write { kind, id, document, patch, indexing, condition, ttl_seconds };
                Ok((home, write))
            }
            _ => Err(Error::unsupported(
                "Not supported by this server yet: triggers on operations other than creating, \
                 upserting, replacing, patching and deleting an item",
            )),
        }
    }

    fn write_of_item(
        &self,
        work: &mut Work<'_>,
        path: &ContainerPath,
        item: NewItem,
        (kind, condition): (WriteKind, Option<Condition>),
    ) -> Result<(Home, Write)> {
        let container = self.core.item_container(work, path)?.container;
        let document = document_of(&item.body)?;
        let home = home_of_document(container, &document, item.partition_key.as_ref())?;
        let (document, indexing) = (Some(document), item.indexing);
        let (id, patch, ttl_seconds) = (None, None, None);
        Ok((home, Write { kind, id, document, patch, indexing, condition, ttl_seconds }))
    }

    /// The logical partition and id of an item that is addressed by id or by resource id.
    fn home_of_item(&self, work: &mut Work<'_>, path: &ItemPath) -> Result<(Home, String)> {
        let resolved = self.core.item_container(work, &path.container)?;
        if resolved.by == AddressedBy::Name {
            let key = key_of_request(&resolved.container, path.partition_key.as_ref())?;
            return Ok((Home::new(resolved.container, key), path.id.clone()));
        }
        let place = self.place_in(work, resolved, path)?;
        let ItemPlace { container, epk, key, id, .. } = place;
        Ok((Home { container, epk, key }, id))
    }

    pub(super) fn triggers(
        &self,
        container: &Container,
        names: &TriggerNames,
        write: WriteKind,
    ) -> Result<Triggers> {
        let one = |names: &[String], moment| match names {
            [] => Ok(None),
            [name] => self.trigger(container, name, moment, write).map(Some),
            [_, _, ..] => Err(Error::bad_request(format!(
                "Only one pre-trigger and one post-trigger can run with a request: {} are named",
                names.join(", ")
            ))),
        };
        let pre = one(&names.pre, TriggerMoment::Pre)?;
        Ok(Triggers { pre, post: one(&names.post, TriggerMoment::Post)? })
    }

    fn trigger(
        &self,
        container: &Container,
        name: &str,
        moment: TriggerMoment,
        write: WriteKind,
    ) -> Result<Script> {
        let catalog = self.core.catalog.current();
        let found = catalog.script_by_name(container.rid, ScriptKind::Trigger, name);
        let Some(script) = found else {
            return Err(Error::bad_request(format!(
                "Resource Not Found: the container has no trigger '{name}'"
            )));
        };
        check_applies(script, moment, write)?;
        Ok(script.to_script())
    }

    pub(super) fn run_write(
        &self,
        host: &mut Host<'_>,
        log: &mut Option<String>,
        write: &Write,
        triggers: &Triggers,
    ) -> Result<Outcome> {
        let (operation, mut indexing) = (write.kind, write.indexing);
        let mut document = write.document.clone();
        if let Some(patched) = write.patched(host)? {
            (document, indexing) = (Some(patched.text), patched.asked);
        }
        if let Some(script) = &triggers.pre {
            let doomed = write.doomed(host)?;
            let shown = doomed.as_deref().or(document.as_deref());
            let role = ScriptRole::PreTrigger { operation, document: shown };
            let changed = self.run_script((ScriptKind::Trigger, script), role, false, host, log)?;
            if let Some(changed) = changed.filter(|_| document.is_some()) {
                document = Some(changed);
            }
        }
        let (place, intent) = write.intent(host, document.as_deref(), indexing)?;
        let outcome = host.apply(&place, &intent)?;
        let Some(script) = &triggers.post else { return Ok(outcome) };
        let answer = match &outcome {
            Outcome::Item { body, .. } => {
                let text = std::str::from_utf8(&body.0);
                Some(text.map_err(|_| Error::corrupt("the text of an item is not UTF-8"))?)
            }
            _ => None,
        };
        let role = ScriptRole::PostTrigger { operation, document: document.as_deref(), answer };
        let told = self.run_script((ScriptKind::Trigger, script), role, false, host, log)?;
        Ok(match (outcome, told) {
            (Outcome::Item { etag, change, .. }, Some(told)) => {
                Outcome::Item { etag, body: ItemBody(told.into()), change }
            }
            (outcome, _) => outcome,
        })
    }
}

impl Write {
    /// What a patch makes of the item that is there.
    fn patched(&self, host: &mut Host<'_>) -> Result<Option<Draft>> {
        let (Some(patch), Some(id)) = (&self.patch, &self.id) else { return Ok(None) };
        host.patched(id, patch, self.condition.as_ref()).map(Some)
    }

    /// The item that a delete is about to end, if there is one.
    fn doomed(&self, host: &mut Host<'_>) -> Result<Option<String>> {
        let Some(id) = self.id.as_ref().filter(|_| self.kind == WriteKind::Delete) else {
            return Ok(None);
        };
        match host.read(HostLink::Name(id), None) {
            Ok(item) => Ok(item.map(|item| item.text)),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn intent(
        &self,
        host: &Host<'_>,
        document: Option<&str>,
        indexing: Indexing,
    ) -> Result<(ItemPlace, Intent)> {
        let condition = self.condition.clone();
        let addressed = self.id.as_ref().map(|id| host.place(id.clone()));
        let draft = |text: &str| -> Result<Draft> {
            let (body, partition_key) = (text.as_bytes().to_vec(), None);
            let mut draft = host.draft(NewItem { body, partition_key, indexing })?;
            draft.ttl = self.ttl_seconds.unwrap_or(draft.ttl);
            Ok(draft)
        };
        match (self.kind, document.map(draft).transpose(), addressed) {
            (WriteKind::Replace, Err(error), Some(place))
                if error.kind == ErrorKind::PartitionKeyMismatch =>
            {
                Ok((place, Intent::Misfit(error)))
            }
            (_, Err(error), _) => Err(error),
            (WriteKind::Create, Ok(Some(draft)), _) => {
                Ok((draft.place(host.container()), Intent::Create(draft)))
            }
            (WriteKind::Upsert, Ok(Some(draft)), _) => {
                Ok((draft.place(host.container()), Intent::Upsert(draft, condition)))
            }
            (WriteKind::Replace, Ok(Some(draft)), Some(place)) => {
                Ok((place, Intent::Replace(draft, condition)))
            }
            (WriteKind::Delete, Ok(None), Some(place)) => Ok((place, Intent::Remove(condition))),
            _ => Err(Error::internal("a write with triggers lacks its item")),
        }
    }
}

/// Refuses a trigger that is for another moment or another operation.
fn check_applies(script: &StoredScript, moment: TriggerMoment, write: WriteKind) -> Result<()> {
    let trigger = script
        .trigger
        .as_ref()
        .ok_or_else(|| Error::corrupt("a trigger does not say when it runs"))?;
    if trigger.moment != moment {
        return Err(Error::bad_request(format!(
            "The trigger '{}' is of the type {}: it cannot be included as a {moment:?}-trigger",
            script.name, trigger.moment_text
        )));
    }
    if !trigger.operation.covers(write) {
        return Err(Error::bad_request(format!(
            "The trigger '{}' is for the operation {}: it cannot run with a {write:?}",
            script.name, trigger.operation_text
        )));
    }
    Ok(())
}

/// The document that was sent, checked as far as it can be before a trigger may change it.
pub(super) fn document_of(body: &[u8]) -> Result<String> {
    if body.len() > partita_model::limits::ITEM_BYTES_MAX {
        return Err(too_large(body.len()));
    }
    Ok(json::compact_object(body)?)
}

pub(super) fn home_of_document(
    container: Arc<Container>,
    document: &str,
    header: Option<&PartitionKeyHeader>,
) -> Result<Home> {
    let definition = &container.definition.partition_key;
    let key = match header {
        Some(header) => definition.resolve(header)?,
        None => definition.extract(Document::new(document)),
    };
    Ok(Home::new(container, key))
}

/// Refuses a key beside the document that is not the one in the path.
fn check_header(home: &Home, header: Option<&PartitionKeyHeader>) -> Result<()> {
    let definition = &home.container.definition.partition_key;
    match header {
        Some(header) if definition.resolve(header)? != home.key => {
            Err(Error::key_mismatch(KEY_MISMATCH))
        }
        Some(_) | None => Ok(()),
    }
}
