//! Items by resource id.
//!
//! Index entries end in rids. `02 rid → item key` and then the item itself are read in batches, in
//! the order of the rids; what a query must not see, or what lies outside the leaf's range of keys,
//! is left out before it is loaded where possible.

use bytes::Bytes;
use partita_model::{Error, Result};
use partita_storage::Space;

use super::Leaf;
use crate::keys;
use crate::record::SeenItem;

/// An item that the query may see.
pub(super) struct Item {
    pub(super) rid: u64,
    record: Bytes,
}

impl Item {
    /// Its JSON.
    pub(super) fn text(&self) -> Result<&str> {
        SeenItem::read(&self.record)?.text()
    }
}

/// The items with these rids, in this order, as far as the query may see them.
pub(super) fn fetch(leaf: &mut Leaf<'_>, rids: &[u64]) -> Result<Vec<Item>> {
    let pointers: Vec<Vec<u8>> = rids.iter().map(|rid| keys::rid(*rid)).collect();
    let found = leaf.view.get_many(Space::Index, &pointers)?;
    leaf.report.entries_scanned += rids.len() as u64;
    let wanted = keys::items_in(&leaf.restrict);
    let mut item_keys = Vec::with_capacity(rids.len());
    for pointer in found {
        let pointer = pointer
            .ok_or_else(|| Error::corrupt("an index entry leads to a resource id that is gone"))?;
        if wanted.contains(&pointer.value) {
            item_keys.push(pointer.value.to_vec());
        }
    }
    load(leaf, item_keys)
}

/// The items with these keys, in this order, as far as the query may see them.
pub(super) fn load(leaf: &mut Leaf<'_>, item_keys: Vec<Vec<u8>>) -> Result<Vec<Item>> {
    let records = leaf.view.get_many(Space::Items, &item_keys)?;
    let mut items = Vec::with_capacity(item_keys.len());
    for (key, record) in item_keys.into_iter().zip(records) {
        let record =
            record.ok_or_else(|| Error::corrupt("a resource id leads to an item that is gone"))?;
        let item = SeenItem::read(&record.value)?;
        leaf.report.documents_loaded += 1;
        leaf.report.document_bytes += item.body.len() as u64;
        if leaf.sees(&key, &item)? {
            items.push(Item { rid: item.rid, record: record.value });
        }
    }
    Ok(items)
}
