//! The change feed as this wire tells it.
//!
//! An item of the latest version is the item with its LSN in `_lsn`. Clients that ask for a version
//! of the wire format get it in an envelope, and so is everything where all versions are told:
//! `{"current":…,"previous":…,"metadata":{…}}`. Who wants items without their system properties is
//! told the LSN all the same: it is the feed's and says where the reader is.

use std::borrow::Cow;

use http::{StatusCode, header};
use partita_engine::{ChangeKind, ChangedItem, Container, ItemBody, VersionChange};
use partita_gateway::{Lines, Response};
use partita_model::{KeyPart, Object, PartitionKey, Value, unstamp, with_lsn};

use super::{empty, envelope, put_page, quoted, with_body};
use crate::request::ResponseOptions;

/// What the database found.
pub(super) struct FeedPage<'a> {
    pub(super) changes: &'a [ChangedItem],
    pub(super) etag: &'a str,
    /// It is not the end of the feed.
    pub(super) more: bool,
}

/// A page. Clients stop at 304, so that is the end of the feed and nothing else.
pub(super) fn page(
    page: FeedPage<'_>,
    container: Option<&Container>,
    mut headers: Lines,
    options: ResponseOptions,
) -> Response {
    headers.push(&header::ETAG, quoted(page.etag));
    put_page(&mut headers, page.changes.len(), None);
    if page.changes.is_empty() && !page.more {
        return empty(StatusCode::NOT_MODIFIED, headers);
    }
    let text = |change: &ChangedItem| match (&change.version, &change.current) {
        (None, Some(current)) if !options.wrapped => {
            let text = text_of(current, options);
            if change.queried { text.into_owned() } else { with_lsn(&text, change.lsn) }
        }
        (_, _) => element(change, container, options),
    };
    let texts: Vec<String> = page.changes.iter().map(text).collect();
    with_body(StatusCode::OK, headers, envelope(&texts, container))
}

/// The database has checked that it is a text.
fn text_of(body: &ItemBody, options: ResponseOptions) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(&body.0);
    if options.bare { Cow::Owned(unstamp(&text)) } else { text }
}

fn element(
    change: &ChangedItem,
    container: Option<&Container>,
    options: ResponseOptions,
) -> String {
    let current = change.current.as_ref().map_or("{}".into(), |body| text_of(body, options));
    let mut out = format!("{{\"current\":{current}");
    let previous = change.version.as_ref().and_then(|version| version.previous.as_ref());
    if let Some(previous) = previous {
        out.push_str(",\"previous\":");
        out.push_str(&text_of(previous, options));
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
