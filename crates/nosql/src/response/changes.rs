//! The change feed as this wire tells it.
//!
//! An item of the latest version is the item with its LSN in `_lsn`. Clients that ask for a version
//! of the wire format get it in an envelope, and so is everything where all versions are told:
//! `{"current":…,"previous":…,"metadata":{…}}`.

use std::borrow::Cow;

use http::{StatusCode, header};
use partita_engine::{ChangeKind, ChangedItem, Container, ItemBody, VersionChange};
use partita_gateway::{Lines, Response};
use partita_model::{KeyPart, Object, PartitionKey, Value, with_lsn};

use super::{empty, envelope, put_page, quoted, with_body};

/// A page. Clients stop at 304, so that is the end of the feed and nothing else.
pub(super) fn page(
    (changes, etag, more): (&[ChangedItem], &str, bool),
    container: Option<&Container>,
    mut headers: Lines,
    wrapped: bool,
) -> Response {
    headers.push(&header::ETAG, quoted(etag));
    put_page(&mut headers, changes.len(), None);
    if changes.is_empty() && !more {
        return empty(StatusCode::NOT_MODIFIED, headers);
    }
    let text = |change: &ChangedItem| match (&change.version, &change.current) {
        (None, Some(current)) if !wrapped && change.queried => text_of(current).into_owned(),
        (None, Some(current)) if !wrapped => with_lsn(&text_of(current), change.lsn),
        (_, _) => element(change, container),
    };
    let texts: Vec<String> = changes.iter().map(text).collect();
    with_body(StatusCode::OK, headers, envelope(&texts, container))
}

/// The database has checked that it is a text.
fn text_of(body: &ItemBody) -> Cow<'_, str> {
    String::from_utf8_lossy(&body.0)
}

fn element(change: &ChangedItem, container: Option<&Container>) -> String {
    let current = change.current.as_ref().map(text_of).unwrap_or_else(|| "{}".into());
    let mut out = format!("{{\"current\":{current}");
    let previous = change.version.as_ref().and_then(|version| version.previous.as_ref());
    if let Some(previous) = previous {
        out.push_str(",\"previous\":");
        out.push_str(&text_of(previous));
    }
    out.push_str(",\"metadata\":");
    out.push_str(&metadata(change, container).to_json());
    out.push('}');
    out
}

fn metadata(change: &ChangedItem, container: Option<&Container>) -> Value {
    let lsn = |lsn: u64| i64::try_from(lsn).unwrap_or(i64::MAX);
    let mut metadata =
        Object::new().with("lsn", lsn(change.lsn.0)).with("crts", i64::from(change.ts));
    if let Some(version) = &change.version {
        metadata.insert("operationType", operation(version.kind));
        if let Some(previous) = version.previous_lsn {
            metadata.insert("previousImageLSN", lsn(previous.0));
        }
        if version.kind == ChangeKind::Delete {
            put_identity(&mut metadata, version, container);
        }
    }
    Value::from(metadata)
}

fn operation(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Replace => "replace",
        ChangeKind::Delete => "delete",
    }
}

/// Who was deleted, and by whom.
fn put_identity(metadata: &mut Object, version: &VersionChange, container: Option<&Container>) {
    if version.expired {
        metadata.insert("timeToLiveExpired", true);
    }
    metadata.insert("id", version.id.as_str());
    if let Some(container) = container {
        metadata.insert("partitionKey", key(container, &version.partition_key));
    }
}

/// The values of a key by the names of its paths; what is undefined has none.
fn key(container: &Container, key: &PartitionKey) -> Value {
    let mut object = Object::new();
    for (path, part) in container.definition.partition_key.paths.iter().zip(&key.0) {
        let name = path.segments().join("/");
        match part {
            KeyPart::Undefined => {}
            KeyPart::Null => object.insert(name, Value::Null),
            KeyPart::Bool(value) => object.insert(name, *value),
            KeyPart::Number(value) => object.insert(name, *value),
            KeyPart::String(value) => object.insert(name, value.as_str()),
        }
    }
    Value::from(object)
}
