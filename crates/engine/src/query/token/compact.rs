//! The short form of a query's progress, for clients that limit the length of continuations.
//!
//! The place of a query is the key of an item, or the sort keys of a row, and both may be longer
//! than a token: ids have up to a thousand bytes, partition keys up to six, and one can order by a
//! text of any length. The short form holds what fits and the item's resource id. To go on, the
//! item is looked up by it and gives the whole key again.
//!
//! If the item was deleted meanwhile (or, for a sort, changed) the cut keys decide, where they can:
//! by key, the logical partition is found by the digest of its partition key, and an id that is
//! whole is a place; else the place is before all that begin as the cut key does, provided that
//! nothing does any more. If something does, nobody knows which of it was delivered: that is an
//! error and not a guess. It takes an item that is gone *and* others with the same first hundreds
//! of bytes.

use std::ops::{Bound, ControlFlow};

use partita_model::{Document, Epk, PartitionKey, Result, keycode};
use partita_storage::{Direction, KeyRange, ScanLimit, Snapshot, Space};
use sha2::{Digest, Sha256};

use super::super::Job;
use super::super::cursor::{Cursor, Progress, Stretch};
use super::super::places::{ALL_ROWS, Order, Position, SortPosition};
use super::super::token;
use super::codec::{Input, put_blob, put_blobs, put_epk, put_number};
use crate::context::Work;
use crate::keys;
use crate::record::ItemRecord;

/// A progress whose keys may be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::query) struct Compact {
    delivered: u64,
    skipped: u64,
    started_ticks: u64,
    rid: u64,
    row: u32,
    keys: CutKeys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CutKeys {
    /// Of an item: its EPK, a digest of its partition key, and the beginning of its id.
    Item { epk: Epk, key_digest: Vec<u8>, id: Vec<u8>, whole: bool },
    /// Of a row in its order: the first sort keys, the last one cut, and a digest of all.
    Sort { keys: Vec<Vec<u8>>, digest: Vec<u8> },
}

/// Rows that must not come next: if they do, the place is not known.
pub(in crate::query) struct Doubt {
    keys: Vec<Vec<u8>>,
}

impl Doubt {
    /// Does this row begin as the one that is gone?
    pub(in crate::query) fn concerns(&self, at: &SortPosition) -> bool {
        let Some((cut, whole)) = self.keys.split_last() else { return true };
        at.keys.starts_with(whole) && at.keys.get(whole.len()).is_some_and(|k| k.starts_with(cut))
    }
}

/// What a digest of keys has in bytes: two keys with the same one are the same.
const DIGEST_BYTES: usize = 16;
/// Partition keys with one EPK that are looked through for a digest.
const KEYS_OF_EPK_MAX: usize = 256;
const ONE: ScanLimit = ScanLimit { entries_max: 1, bytes_max: usize::MAX };
/// Counts, rid, lengths: all but the keys.
const FIXED_BYTES: usize = 64;

/// The short form of a progress; None if there is none, because the keys are short already.
pub(in crate::query) fn shorten(
    progress: &Progress,
    partition_key_paths: usize,
    room: usize,
) -> Option<Compact> {
    let (keys, rid, row) = match &progress.cursor {
        Cursor::Spread { stretches, .. } => match &stretches.first()?.position {
            // A place in the order of keys is good for all EPKs: there is no other stretch.
            Position::Key { item_key, rid, row } => {
                (cut_item(item_key, partition_key_paths, room)?, *rid, *row)
            }
            Position::Rid { .. } | Position::Sorted(_) => return None,
        },
        Cursor::Sorted(at) => (cut_sort(at, room), at.rid, at.row),
        Cursor::Counted { .. } => return None,
    };
    let Progress { delivered, skipped, started_ticks, .. } = *progress;
    Some(Compact { delivered, skipped, started_ticks, rid, row, keys })
}

fn cut_item(item_key: &[u8], partition_key_paths: usize, room: usize) -> Option<CutKeys> {
    let parsed = keys::parse_item(item_key, partition_key_paths)?;
    let used = FIXED_BYTES + DIGEST_BYTES + parsed.epk.as_bytes().len();
    let mut id = parsed.id.into_bytes();
    let whole = id.len() <= room.saturating_sub(used);
    id.truncate(room.saturating_sub(used));
    Some(CutKeys::Item { epk: parsed.epk, key_digest: digest_of_key(&parsed.key), id, whole })
}

fn cut_sort(at: &SortPosition, room: usize) -> CutKeys {
    let mut left = room.saturating_sub(FIXED_BYTES + DIGEST_BYTES);
    let mut keys = Vec::new();
    for key in &at.keys {
        let take = key.len().min(left);
        keys.push(key.iter().copied().take(take).collect());
        // A length before each key.
        left = left.saturating_sub(take + 3);
        if take < key.len() {
            break;
        }
    }
    CutKeys::Sort { keys, digest: digest_of_keys(&at.keys) }
}

fn digest_of_key(key: &PartitionKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.0.iter().for_each(|part| keycode::put_key_part(&mut bytes, part));
    digest(&bytes)
}

fn digest_of_keys(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_blobs(&mut bytes, keys);
    digest(&bytes)
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).iter().copied().take(DIGEST_BYTES).collect()
}

const ITEM: u8 = 0;
const SORT: u8 = 1;

impl Compact {
    /// Is it a place in an order?
    pub(in crate::query) fn is_sorted(&self) -> bool {
        matches!(self.keys, CutKeys::Sort { .. })
    }

    pub(in crate::query) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.delivered, self.skipped, self.started_ticks, self.rid] {
            put_number(out, number);
        }
        put_number(out, u64::from(self.row));
        match &self.keys {
            CutKeys::Item { epk, key_digest, id, whole } => {
                out.push(ITEM);
                put_epk(out, epk);
                put_blob(out, key_digest);
                put_blob(out, id);
                out.push(u8::from(*whole));
            }
            CutKeys::Sort { keys, digest } => {
                out.push(SORT);
                put_blobs(out, keys);
                put_blob(out, digest);
            }
        }
    }

    pub(in crate::query) fn read(input: &mut Input<'_>) -> Option<Compact> {
        let (delivered, skipped) = (input.number()?, input.number()?);
        let (started_ticks, rid) = (input.number()?, input.number()?);
        let row = input.row()?;
        let keys = match input.byte()? {
            ITEM => CutKeys::Item {
                epk: input.epk()?,
                key_digest: input.blob()?,
                id: input.blob()?,
                whole: input.byte()? != 0,
            },
            SORT => CutKeys::Sort { keys: input.blobs()?, digest: input.blob()? },
            _ => return None,
        };
        Some(Compact { delivered, skipped, started_ticks, rid, row, keys })
    }

    /// The whole progress again, and what must not come next if it is not certain.
    pub(in crate::query) fn complete(
        &self,
        job: &Job<'_>,
        work: &mut Work<'_>,
    ) -> Result<(Progress, Option<Doubt>)> {
        let (cursor, doubt) = match &self.keys {
            CutKeys::Item { epk, key_digest, id, whole } => {
                let position = self.item_position(job, work, epk, key_digest, id, *whole)?;
                let stretches = vec![Stretch { until: Epk::max(), position }];
                (Cursor::Spread { from: epk.clone(), stretches }, None)
            }
            CutKeys::Sort { keys, digest } => match self.sort_position(job, work, digest)? {
                Some(position) => (Cursor::Sorted(position), None),
                None => {
                    let order = Order::of(job.query.facts());
                    let position = order.before_prefix(keys.clone());
                    (Cursor::Sorted(position), Some(Doubt { keys: keys.clone() }))
                }
            },
        };
        let Compact { delivered, skipped, started_ticks, .. } = *self;
        Ok((Progress { cursor, delivered, skipped, started_ticks }, doubt))
    }

    fn item_position(
        &self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        epk: &Epk,
        key_digest: &[u8],
        id: &[u8],
        whole: bool,
    ) -> Result<Position> {
        let index = job.container.partition_index(epk);
        let view = job.open(work, index)?;
        if let Some(entry) = view.get(Space::Index, &keys::rid(self.rid))? {
            let (rid, row) = (self.rid, self.row);
            return Ok(Position::Key { item_key: entry.value.to_vec(), rid, row });
        }
        let Some(key) = find_key(job, &*view, epk, key_digest)? else {
            // Nothing of this EPK is left: its beginning is as good as any place in it.
            return Ok(behind(keys::items_of_epk(epk)));
        };
        let begin = keys::item_prefix(epk, &key, id);
        if whole {
            return Ok(behind(keys::item(epk, &key, &String::from_utf8_lossy(id))));
        }
        let range = KeyRange { start: Bound::Included(begin.clone()), end: Bound::Unbounded };
        let next = view.scan(Space::Items, &range, Direction::Forward, ONE)?;
        if next.entries.first().is_some_and(|entry| entry.key.starts_with(&begin)) {
            return Err(token::lost());
        }
        Ok(behind(begin))
    }

    /// The row's sort keys from its item, if it is there and has not changed.
    fn sort_position(
        &self,
        job: &Job<'_>,
        work: &mut Work<'_>,
        digest: &[u8],
    ) -> Result<Option<SortPosition>> {
        for index in 0..job.container.partitions.len() {
            let view = job.open(work, index)?;
            let Some(entry) = view.get(Space::Index, &keys::rid(self.rid))? else { continue };
            let Some(item) = view.get(Space::Items, &entry.value)? else { continue };
            let record = ItemRecord::decode(&item.value)?;
            let mut found = None;
            let mut run = job.query.start(&job.scope);
            run.rows(Document::new(record.text()?), &mut |row| {
                if row.ordinal.saturating_add(1) < self.row {
                    return ControlFlow::Continue(());
                }
                found = Some(row.keys);
                ControlFlow::Break(())
            })?;
            let keys = found.filter(|keys| digest_of_keys(keys) == digest);
            return Ok(keys.map(|keys| SortPosition { keys, rid: self.rid, row: self.row }));
        }
        Ok(None)
    }
}

/// The place behind a key that no item has.
fn behind(item_key: Vec<u8>) -> Position {
    Position::Key { item_key, rid: 0, row: ALL_ROWS }
}

/// The partition key with this digest among those of an EPK. None if the EPK has no items.
fn find_key(
    job: &Job<'_>,
    view: &dyn Snapshot,
    epk: &Epk,
    wanted: &[u8],
) -> Result<Option<PartitionKey>> {
    let components = job.container.definition.partition_key.paths.len();
    let mut start = Bound::Included(keys::items_of_epk(epk));
    for seen in 0..KEYS_OF_EPK_MAX {
        let range = KeyRange { start, end: Bound::Unbounded };
        let page = view.scan(Space::Items, &range, Direction::Forward, ONE)?;
        let next = page.entries.first().and_then(|e| keys::parse_item(&e.key, components));
        match next.filter(|next| next.epk == *epk) {
            Some(next) if digest_of_key(&next.key) == wanted => return Ok(Some(next.key)),
            Some(next) => start = Bound::Excluded(keys::behind_partition_key(epk, &next.key)),
            None if seen == 0 => return Ok(None),
            None => return Err(token::lost()),
        }
    }
    Err(token::lost())
}
