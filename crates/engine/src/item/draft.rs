//! An item as a client wants it, understood and checked, before it meets what is stored.

use std::sync::Arc;

use partita_model::{
    Document, Error, KEY_MISMATCH, PartitionKey, PartitionKeyHeader, RawKind, Result,
    check_item_id, json, limits,
};

use super::{ItemPlace, item_ttl};
use crate::catalog::Container;
use crate::op::{Indexing, NewItem};

/// What the service says, too, if the item's own key is not the one that the request names.
const EXTRACTED_MISMATCH: &str =
    "PartitionKey extracted from document doesn't match the one specified in the header.";

/// A checked item.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The user's document, valid and without superfluous white space.
    pub(super) text: String,
    pub(super) id: String,
    pub(super) key: PartitionKey,
    pub(super) ttl: i32,
    /// What the write says about its index entries.
    pub(super) asked: Indexing,
}

impl Draft {
    /// Checks what arrived: JSON, size, id, key, time to live.
    pub(super) fn of(container: &Container, item: &NewItem) -> Result<Draft> {
        if item.body.len() > limits::ITEM_BYTES_MAX {
            return Err(too_large(item.body.len()));
        }
        let text = json::compact_object(&item.body)?;
        Draft::of_text(container, text, item.partition_key.as_ref(), item.indexing)
    }

    /// The same for a text that is known to be a valid, compact document.
    pub(super) fn of_text(
        container: &Container,
        text: String,
        header: Option<&PartitionKeyHeader>,
        asked: Indexing,
    ) -> Result<Draft> {
        let document = Document::new(&text);
        let id = item_id(document)?;
        let definition = &container.definition.partition_key;
        let key = definition.extract(document);
        if let Some(header) = header
            && definition.resolve(header)? != key
        {
            return Err(Error::key_mismatch(format!("{EXTRACTED_MISMATCH} {KEY_MISMATCH}")));
        }
        definition.check_size(&key)?;
        let ttl = item_ttl(container, document)?;
        Ok(Draft { id, key, ttl, asked, text })
    }

    pub(super) fn place(&self, container: &Arc<Container>) -> ItemPlace {
        ItemPlace::new(Arc::clone(container), self.key.clone(), self.id.clone())
    }
}

fn item_id(document: Document<'_>) -> Result<String> {
    let Some(raw) = document.member("id") else {
        return Err(Error::bad_request(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        ));
    };
    if raw.kind() != RawKind::String {
        return Err(Error::bad_request(format!(
            "The input content is invalid because the property 'id' must be a string, not {}",
            raw.text().chars().take(40).collect::<String>()
        )));
    }
    let value = raw.to_value();
    let id = value.as_str().unwrap_or_default();
    check_item_id(id)?;
    Ok(id.to_owned())
}

/// The error for an item of this many bytes.
pub(super) fn too_large(bytes: usize) -> Error {
    Error::too_large(format!(
        "Request size is too large: {bytes} bytes, the limit is {} bytes",
        limits::ITEM_BYTES_MAX
    ))
}
