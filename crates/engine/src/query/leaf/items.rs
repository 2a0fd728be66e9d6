//! Items by resource id.
//!
//! Index entries end in rids. `02 rid → item key` and then the item itself are read in batches, in
//! the order of the rids; what a query must not see, or what lies outside the leaf's range of keys,
//! is left out before it is loaded where possible. The keys of items that were found lately, and of
//! their neighbours, are remembered (`index/pointers.rs`); they count as if they were read, so that
//! a query costs the same whoever asked before. Of a batch with large items only the first are
//! loaded, until whoever asked is done with them.

use std::ops::ControlFlow;

use bytes::Bytes;
use partita_model::{Document, Error, Reservation, Result};
use partita_query::{PlainRow, Row};
use partita_storage::{Direction, KeyRange, Space};

use super::plan::ItemSet;
use super::{Emit, End, Leaf};
use crate::index::{KeyList, RidSet, piece_range};
use crate::keys;
use crate::memory;
use crate::query::places::{ALL_ROWS, LeafRow, PlaceList, Position};
use crate::record::SeenItem;

/// Loads grow from the first number to the second.
pub(super) const BATCH_FIRST: usize = 16;
pub(super) const BATCH_MAX: usize = 256;
/// So many items are read from the store at a time …
pub(super) const LOAD_MAX: usize = 4;
/// … and one, if there are large ones among them …
const LARGE_BYTES: usize = 256 << 10;
/// … until they have so many bytes together: the rest of a batch comes when these are done.
pub(super) const LOAD_BYTES_MAX: usize = 1 << 20;

/// The first items of a batch.
pub(super) struct Loaded {
    pub(super) items: Vec<Item>,
    /// Of how many resource ids these are all that the query may see.
    pub(super) done: usize,
    pub(super) memory: Reservation,
}

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

/// The row of a query that gives items as they are, of one that passes its filter.
pub(super) fn item_row(leaf: &mut Leaf<'_>, item: &Item) -> Result<Row> {
    leaf.report.rows_evaluated += 1;
    Ok(Row { text: item.text()?.to_owned(), keys: Vec::new(), hash: 0, ordinal: 0 })
}

/// The rows of the items of a set, oldest first. `resumed`: the item to go on with, and how many of
/// its rows are done.
pub(super) fn rows(
    leaf: &mut Leaf<'_>,
    set: &ItemSet,
    resumed: Option<(u64, u32)>,
    emit: &mut Emit<'_>,
) -> Result<End> {
    let mut left = set.rids.iter_from(resumed.map_or(0, |(rid, _)| rid)).peekable();
    let mut size = BATCH_FIRST;
    let facts = leaf.query.facts();
    let is_item = set.exact && facts.plain == Some(PlainRow::Item) && !facts.distinct;
    while left.peek().is_some() {
        let batch: Vec<u64> = left.by_ref().take(size).collect();
        size = (size * 2).min(BATCH_MAX);
        let mut unread = batch.as_slice();
        let is_last_batch = left.peek().is_none();
        while !unread.is_empty() {
            let Loaded { items, done, memory: _held } = fetch(leaf, unread)?;
            unread = unread.get(done..).unwrap_or_default();
            let is_last = is_last_batch && unread.is_empty();
            for (at, item) in items.iter().enumerate() {
                let done = resumed.filter(|(rid, _)| *rid == item.rid).map_or(0, |(_, row)| row);
                let flow = match is_item {
                    true if done > 0 => ControlFlow::Continue(()),
                    true => {
                        leaf.report.rows_out += 1;
                        let (row, rid) = (item_row(leaf, item)?, item.rid);
                        emit(LeafRow { row, position: Position::Rid { rid, row: 1 } })
                    }
                    false => rows_of(leaf, item, done, emit)?,
                };
                if flow.is_break() {
                    let is_end = is_last && at + 1 == items.len() && !leaf.query.facts().joins;
                    return Ok(if is_end { End::Exhausted } else { End::Stopped });
                }
            }
        }
        if let (false, Some(rid)) = (is_last_batch, batch.last())
            && leaf.page_is_over()?
        {
            return Ok(End::OutOfBudget(Position::Rid { rid: *rid, row: ALL_ROWS }));
        }
    }
    Ok(End::Exhausted)
}

/// The rows of an item that are not done yet.
pub(super) fn rows_of(
    leaf: &mut Leaf<'_>,
    item: &Item,
    done: u32,
    emit: &mut Emit<'_>,
) -> Result<ControlFlow<()>> {
    let (run, report) = (&mut leaf.run, &mut leaf.report);
    let rid = item.rid;
    let mut flow = ControlFlow::Continue(());
    report.rows_evaluated += 1;
    run.rows(Document::new(item.text()?), &mut |row| {
        let number = row.ordinal.saturating_add(1);
        if number > done {
            report.rows_out += 1;
            flow = emit(LeafRow { row, position: Position::Rid { rid, row: number } });
        }
        flow
    })?;
    Ok(flow)
}

/// All items of a set as a list.
pub(super) fn listed(leaf: &Leaf<'_>, rids: &RidSet) -> Result<(Vec<u64>, Reservation)> {
    let mut memory = leaf.memory.reservation(memory::FOUND);
    let count = usize::try_from(rids.len()).unwrap_or(usize::MAX);
    memory.grow(count.saturating_mul(memory::NUMBER_BYTES))?;
    Ok((rids.iter_from(0).collect(), memory))
}

/// As many of them as are a batch.
pub(super) fn first(rids: &[u64]) -> &[u64] {
    rids.get(..BATCH_MAX).unwrap_or(rids)
}

/// The first items with these rids, in this order, as far as the query may see them: all of them
/// unless they are large.
pub(super) fn fetch(leaf: &mut Leaf<'_>, rids: &[u64]) -> Result<Loaded> {
    let begun = leaf.moment();
    let items = fetch_now(leaf, rids);
    leaf.report.load_nanos += leaf.since(begun);
    items
}

fn fetch_now(leaf: &mut Leaf<'_>, rids: &[u64]) -> Result<Loaded> {
    let wanted: Vec<KeyRange> = leaf.parts.iter().map(keys::items_in).collect();
    // Which of the rids they are.
    let mut reached = Vec::with_capacity(rids.len());
    let mut item_keys = Vec::with_capacity(rids.len());
    for (at, key) in keys_of(leaf, rids)?.iter().enumerate() {
        if wanted.iter().any(|part| part.contains(key)) {
            reached.push(at);
            item_keys.push(key.to_vec());
        }
    }
    let mut items = Vec::with_capacity(item_keys.len());
    let mut memory = leaf.memory.reservation(memory::LOADED);
    let (mut few, mut read) = (1, 0);
    while read < item_keys.len() {
        if memory.bytes() > LOAD_BYTES_MAX {
            let done = reached.get(read).copied().unwrap_or(rids.len());
            return Ok(loaded(leaf, (items, done), rids.len(), memory));
        }
        let next = read..item_keys.len().min(read + few);
        (few, read) = (LOAD_MAX, next.end);
        let keys = item_keys.get(next.clone()).unwrap_or_default();
        let places = reached.get(next).unwrap_or_default();
        let records = leaf.view.get_many(Space::Items, keys)?;
        for ((at, key), record) in places.iter().zip(keys).zip(records) {
            let gone = || Error::corrupt("a resource id leads to an item that is gone");
            let record = record.ok_or_else(gone)?;
            let item = SeenItem::read(&record.value)?;
            if rids.get(*at) != Some(&item.rid) {
                return Err(Error::corrupt("a resource id leads to another item"));
            }
            let rid = item.rid;
            if !memory.try_grow(item.body.len()) {
                if *at > 0 {
                    return Ok(loaded(leaf, (items, *at), rids.len(), memory));
                }
                memory.grow(item.body.len())?;
            }
            few = if item.body.len() > LARGE_BYTES { 1 } else { few };
            leaf.report.documents_loaded += 1;
            leaf.report.document_bytes += item.body.len() as u64;
            if leaf.sees(key, &item)? {
                items.push(Item { rid, record: record.value });
            }
        }
    }
    Ok(Loaded { items, done: rids.len(), memory })
}

/// The items of the first so many of all resource ids: what was scanned for the others is scanned
/// again.
fn loaded(
    leaf: &mut Leaf<'_>,
    (items, done): (Vec<Item>, usize),
    all: usize,
    memory: Reservation,
) -> Loaded {
    leaf.report.entries_scanned -= (all - done) as u64;
    Loaded { items, done, memory }
}

/// The keys of the items at places, if they are wanted.
pub(super) fn keys_if(
    leaf: &mut Leaf<'_>,
    are_wanted: bool,
    places: &PlaceList,
) -> Result<KeyList> {
    if are_wanted { keys_of(leaf, places.rids()) } else { Ok(KeyList::default()) }
}

/// The keys of the items with these rids.
fn keys_of(leaf: &mut Leaf<'_>, rids: &[u64]) -> Result<KeyList> {
    leaf.report.entries_scanned += rids.len() as u64;
    let (partition, pointers) = (leaf.partition.id, &leaf.cache.pointers);
    if let Some(known) = pointers.all(partition, rids) {
        return Ok(known);
    }
    let mut known = pointers.get(partition, rids);
    if !known.unread.is_empty() {
        for piece in &known.unread {
            read_piece(leaf, *piece)?;
        }
        known = pointers.get(partition, rids);
    }
    let mut item_keys = known.keys;
    let is_unknown = |(_, key): &(&u64, &Option<Vec<u8>>)| key.is_none();
    let unknown: Vec<Vec<u8>> =
        rids.iter().zip(&item_keys).filter(is_unknown).map(|(rid, _)| keys::rid(*rid)).collect();
    if unknown.is_empty() {
        return Ok(item_keys.into_iter().flatten().collect());
    }
    let mut found = leaf.view.get_many(Space::Index, &unknown)?.into_iter();
    let mut fresh = Vec::with_capacity(unknown.len());
    for (rid, key) in rids.iter().zip(&mut item_keys).filter(|(_, key)| key.is_none()) {
        let gone = || Error::corrupt("an index entry leads to a resource id that is gone");
        let pointer = found.next().flatten().ok_or_else(gone)?;
        *key = Some(pointer.value.to_vec());
        fresh.push((*rid, pointer.value));
    }
    pointers.put(partition, fresh.iter().map(|(rid, key)| (*rid, &**key)));
    Ok(item_keys.into_iter().flatten().collect())
}

/// Remembers the keys of neighbours.
fn read_piece(leaf: &Leaf<'_>, piece: u64) -> Result<()> {
    let mut found = Vec::new();
    let range = piece_range(piece);
    leaf.view.walk(Space::Index, &range, Direction::Forward, &mut |key, item_key| {
        found.extend(keys::entry_rid(key).map(|rid| (rid, item_key.to_vec())));
        ControlFlow::Continue(())
    })?;
    let found = found.iter().map(|(rid, key)| (*rid, key.as_slice()));
    leaf.cache.pointers.put(leaf.partition.id, found);
    Ok(())
}
