//! The records of scripts.

use std::sync::Arc;

use partita_model::{Result, ScriptKind, ScriptRid};
use partita_storage::Record;

use super::super::codec::{Fields, damaged, integer, object};
use super::{StoredScript, Trigger, TriggerMoment, TriggerOperation};

pub(super) fn encode_script(script: &StoredScript) -> Vec<u8> {
    let fields = object()
        .with("rid", script.rid.to_string())
        .with("name", script.name.as_str())
        .with("body", &*script.source)
        .with("etag", script.etag.to_string())
        .with("ts", integer(script.ts));
    let fields = match &script.trigger {
        Some(trigger) => fields
            .with("triggerType", trigger.moment_text.as_str())
            .with("triggerOperation", trigger.operation_text.as_str()),
        None => fields,
    };
    fields.into_bytes()
}

pub(in super::super) fn script(record: &Record) -> Result<StoredScript> {
    let fields = Fields::of("script", record)?;
    let rid = ScriptRid::parse(fields.text("rid")?).ok_or_else(|| damaged("script", "rid"))?;
    Ok(StoredScript {
        rid,
        name: fields.text("name")?.to_owned(),
        source: Arc::from(fields.text("body")?),
        trigger: (rid.kind == ScriptKind::Trigger).then(|| trigger(&fields)).transpose()?,
        etag: fields.etag()?,
        ts: fields.number("ts")?,
        lsn: record.lsn,
    })
}

fn trigger(fields: &Fields) -> Result<Trigger> {
    let (moment, operation) = (fields.text("triggerType")?, fields.text("triggerOperation")?);
    Ok(Trigger {
        moment: TriggerMoment::parse(moment).ok_or_else(|| damaged("script", "triggerType"))?,
        operation: TriggerOperation::parse(operation)
            .ok_or_else(|| damaged("script", "triggerOperation"))?,
        moment_text: moment.to_owned(),
        operation_text: operation.to_owned(),
    })
}
