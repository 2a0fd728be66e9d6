//! Items that come from another partition, with all that is filed with them there.
//!
//! What arrives was decided elsewhere, so nothing is checked and nothing is logged: an item is put
//! with its index entries, the way to it by resource id, its unique keys and its share of the
//! counters, and an item that went is removed with its own. Changes gather here until they become
//! one batch. A key that is both removed and put is put: see `moves/copy.rs` for why the order of
//! the two does not matter.

use std::collections::{HashMap, HashSet};

use partita_model::{Error, Result};
use partita_storage::{Batch, Snapshot, Space};

use super::batch::{dictionary, entries, unique_keys};
use crate::catalog::Container;
use crate::index::UNKNOWN_SHAPE;
use crate::keys::{self, ItemKey, Total};
use crate::live::LivePartition;
use crate::record::ItemRecord;

/// What a partition gets from another one.
pub(crate) struct Arrivals<'a> {
    container: &'a Container,
    live: &'a LivePartition,
    source: &'a dyn Snapshot,
    target: &'a dyn Snapshot,
    items: HashMap<Vec<u8>, Option<Vec<u8>>>,
    index: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Shapes that the dictionary has, or gets from here.
    described: HashSet<u64>,
    feed: Vec<(Vec<u8>, Vec<u8>)>,
    heads: HashMap<Vec<u8>, i64>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    items: i64,
    bytes: i64,
    excluded: i64,
}

impl<'a> Arrivals<'a> {
    /// From a view of one partition into another one, of which there is a view too.
    pub(crate) fn new(
        container: &'a Container,
        live: &'a LivePartition,
        source: &'a dyn Snapshot,
        target: &'a dyn Snapshot,
    ) -> Arrivals<'a> {
        Arrivals {
            container,
            live,
            source,
            target,
            items: HashMap::new(),
            index: HashMap::new(),
            described: HashSet::new(),
            feed: Vec::new(),
            heads: HashMap::new(),
            totals: Totals::default(),
        }
    }

    /// Puts an item where there is none, or none any more.
    pub(crate) fn put(&mut self, item_key: &[u8], record: &ItemRecord) -> Result<()> {
        let key = self.parse(item_key)?;
        self.count(item_key, &key, record, 1);
        let entries = entries(self.container, Some(record), None)?;
        if let Some(shape) = entries.shape.filter(|shape| *shape != UNKNOWN_SHAPE) {
            self.describe(shape, record)?;
        }
        let keys = entries.keys.into_iter();
        self.index.extend(keys.map(|key| (Vec::from(key), Some(Vec::new()))));
        self.index.insert(keys::rid(record.rid), Some(item_key.to_vec()));
        for claim in unique_keys(self.container, &key.epk, &key.key, Some(record))? {
            // An expired item's claim may have passed to another one.
            let owner = self.source.get(Space::Index, &claim)?;
            if owner.is_some_and(|owner| owner.value == item_key) {
                self.index.insert(claim, Some(item_key.to_vec()));
            }
        }
        self.items.insert(item_key.to_vec(), Some(record.encode()));
        Ok(())
    }

    /// Removes an item as it is.
    pub(crate) fn remove(&mut self, item_key: &[u8], record: &ItemRecord) -> Result<()> {
        let key = self.parse(item_key)?;
        self.count(item_key, &key, record, -1);
        let entries = entries(self.container, Some(record), None)?;
        let entries = entries.keys.into_iter().map(Vec::from);
        for entry in entries.chain([keys::rid(record.rid)]) {
            self.index.entry(entry).or_insert(None);
        }
        for claim in unique_keys(self.container, &key.epk, &key.key, Some(record))? {
            let owner = self.target.get(Space::Index, &claim)?;
            if owner.is_some_and(|owner| owner.value == item_key) {
                self.index.entry(claim).or_insert(None);
            }
        }
        self.items.entry(item_key.to_vec()).or_insert(None);
        Ok(())
    }

    /// Puts a record of the feed.
    pub(crate) fn put_feed(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.feed.push((key, value));
    }

    /// All of it.
    pub(crate) fn into_batch(self) -> Batch {
        let mut batch = Batch::new();
        for (space, changes) in [(Space::Items, self.items), (Space::Index, self.index)] {
            for (key, value) in changes {
                match value {
                    Some(value) => batch.put(space, key, value),
                    None => batch.delete(space, key),
                }
            }
        }
        for (key, value) in self.feed {
            batch.put(Space::Feed, key, value);
        }
        let Totals { items, bytes, excluded } = self.totals;
        let totals = [(Total::Items, items), (Total::Bytes, bytes), (Total::Excluded, excluded)];
        let totals = totals.into_iter().map(|(which, delta)| (keys::total(which), delta));
        for (key, delta) in self.heads.into_iter().chain(totals) {
            if delta != 0 {
                batch.add(Space::Meta, key, delta);
            }
        }
        batch
    }

    fn parse(&self, item_key: &[u8]) -> Result<ItemKey> {
        let components = self.container.definition.partition_key.paths.len();
        keys::parse_item(item_key, components)
            .ok_or_else(|| Error::corrupt("the key of an item is damaged"))
    }

    fn count(&mut self, item_key: &[u8], key: &ItemKey, record: &ItemRecord, times: i64) {
        let size = i64::try_from(item_key.len() + record.body.len()).unwrap_or(i64::MAX);
        *self.heads.entry(keys::head(&key.epk, &key.key)).or_default() +=
            keys::head_delta(times, times * size);
        self.totals.items += times;
        self.totals.bytes += times * size;
        self.totals.excluded += times * i64::from(record.is_left_out());
    }

    /// Puts a shape into the dictionary unless it is there.
    fn describe(&mut self, shape: u64, record: &ItemRecord) -> Result<()> {
        let known = &self.live.shapes;
        if known.contains(shape) || !self.described.insert(shape) {
            return Ok(());
        }
        match self.target.get(Space::Index, &keys::shape(shape))? {
            Some(_) => known.insert(shape),
            None => {
                let paths = dictionary(self.container, record)?;
                self.index.insert(keys::shape(shape), Some(paths));
            }
        }
        Ok(())
    }
}
