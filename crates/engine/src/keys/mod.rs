//! Every key of every family, encoded and decoded in one place.
//!
//! Nothing else in the database builds a storage key. Within a partition the spaces hold:
//!
//! ```text
//! Items   item      epk · partition key · id                 → item record (record.rs)
//! Index   01 term   path · value · rid                       → nothing (index/terms.rs)
//!         02 rid    rid                                      → item key
//!         03 unique constraint · epk · partition key · values → item key
//!         04 shape  shape · rid                              → nothing (index/shape.rs)
//!         05 paths  shape                                    → its paths
//!         06 composite index · columns · rid                 → nothing (index/composite.rs)
//! Feed    (LSN, given by the store) · ordinal · …            → what changed (feed/)
//! Meta    01 head   epk · partition key                      → counter: items and bytes
//!         02 total  which                                    → counter
//!         03 mark   —                                        → rids below it are taken
//!         04 cursor range id of a source                     → how far a move has filled this
//!         05 feed   —                                        → how far the feed was trimmed
//!         06 holder —                                        → the process that gives out rids
//! ```
//!
//! All parts are order-preserving and self-delimiting (`model::keycode`), so a prefix of a key is a
//! range of keys. Items are in EPK order: a range of EPKs is a range of item keys, which is what
//! feeds, splits and hierarchical prefixes rely on. Equal index values are in rid order, which
//! ORDER BY ties rely on.
//!
//! The catalog partition has its own families, see `catalog/store.rs`.

mod totals;

use std::borrow::Cow;
use std::ops::Bound;

use partita_model::keycode::{self, Reader};
use partita_model::{Epk, EpkRange, Error, Lsn, PartitionKey, Result};
use partita_storage::KeyRange;

pub(crate) use self::totals::stored_total;
use crate::entry_value::{
    COLUMN_STRING_BYTES_MAX, EntryValue, fit, is_cut, put_column, string_bytes_max,
};

const TERM: u8 = 0x01;
const RID: u8 = 0x02;
const UNIQUE: u8 = 0x03;
const SHAPE: u8 = 0x04;
const SHAPE_PATHS: u8 = 0x05;
const COMPOSITE: u8 = 0x06;
const HEAD: u8 = 0x01;
const TOTAL: u8 = 0x02;
const RID_MARK: u8 = 0x03;
const MOVE_CURSOR: u8 = 0x04;
const FEED_MARK: u8 = 0x05;
const RID_HOLDER: u8 = 0x06;

/// Entries of the index end with their item's rid.
const RID_BYTES: usize = 8;

/// The counters of a whole partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Total {
    Items,
    Bytes,
    /// Items that a former version left out of the index because their writes asked for it.
    Excluded,
}

/// The key of an item, as the Items space holds it and as index entries point at it.
pub(crate) fn item(epk: &Epk, key: &PartitionKey, id: &str) -> Vec<u8> {
    let mut out = logical_partition(epk, key);
    keycode::put_str(&mut out, id);
    out
}

/// What an item key says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ItemKey {
    pub(crate) epk: Epk,
    pub(crate) key: PartitionKey,
    pub(crate) id: String,
}

/// Takes an item key apart; `components` is the number of the partition key's paths.
pub(crate) fn parse_item(bytes: &[u8], components: usize) -> Option<ItemKey> {
    let mut reader = Reader::new(bytes);
    let epk = Epk::from_bytes(reader.bytes()?);
    let parts = (0..components).map(|_| reader.key_part()).collect::<Option<Vec<_>>>()?;
    let id = reader.str()?;
    reader.is_empty().then_some(ItemKey { epk, key: PartitionKey(parts), id })
}

/// The id in an item key, without a look at the rest.
pub(crate) fn id_of_item(bytes: &[u8], components: usize) -> Option<Cow<'_, str>> {
    let mut reader = Reader::new(bytes);
    reader.skip_bytes()?;
    (0..components).try_for_each(|_| reader.skip_key_part())?;
    let id = reader.text()?;
    reader.is_empty().then_some(id)
}

/// All items whose EPK lies in the range.
pub(crate) fn items_in(range: &EpkRange) -> KeyRange {
    KeyRange {
        start: Bound::Included(epk_bound(&range.min)),
        end: Bound::Excluded(epk_bound(&range.max)),
    }
}

/// The EPK in an item key.
pub(crate) fn epk_of_item(bytes: &[u8]) -> Option<Epk> {
    Reader::new(bytes).bytes().map(Epk::from_bytes)
}

/// Where the items of an EPK begin.
pub(crate) fn items_of_epk(epk: &Epk) -> Vec<u8> {
    epk_bound(epk)
}

/// Where the items of a partition key end: behind all of them, before those of the next key.
pub(crate) fn behind_partition_key(epk: &Epk, key: &PartitionKey) -> Vec<u8> {
    let mut out = logical_partition(epk, key);
    // Ids are UTF-8, which has no such byte.
    out.push(0xFF);
    out
}

/// How the keys of items begin whose ids begin with these bytes.
pub(crate) fn item_prefix(epk: &Epk, key: &PartitionKey, id_begins: &[u8]) -> Vec<u8> {
    let mut out = logical_partition(epk, key);
    keycode::put_bytes(&mut out, id_begins);
    // Without the two bytes that end a string.
    out.truncate(out.len() - 2);
    out
}

fn epk_bound(epk: &Epk) -> Vec<u8> {
    let mut out = Vec::with_capacity(epk.as_bytes().len() + 2);
    keycode::put_bytes(&mut out, epk.as_bytes());
    out
}

fn logical_partition(epk: &Epk, key: &PartitionKey) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    keycode::put_bytes(&mut out, epk.as_bytes());
    for part in &key.0 {
        keycode::put_key_part(&mut out, part);
    }
    out
}

/// Begins the key of a term with its encoded path (`index::path_prefix`).
pub(crate) fn put_term_prefix(out: &mut Vec<u8>, path: &[u8]) {
    out.push(TERM);
    out.extend_from_slice(path);
}

/// The terms of one path whose values lie between two sort keys. The range may hold more: entries
/// whose values were cut belong to it if they could (`entry_value::is_cut`).
pub(crate) fn term_range(path: &[u8], low: Bound<&[u8]>, high: Bound<&[u8]>) -> KeyRange {
    let mut prefix = Vec::with_capacity(path.len() + 1);
    put_term_prefix(&mut prefix, path);
    let bound = |value| {
        let fitted = fit(value, string_bytes_max(path));
        ([&prefix[..], &fitted].concat(), is_cut(&fitted))
    };
    between(&prefix, low.map(bound), high.map(bound))
}

/// The term of an item with a value at a path.
pub(crate) fn term(path: &[u8], value: &[u8], rid: u64) -> Vec<u8> {
    let mut out = term_prefix(path, value);
    keycode::put_u64(&mut out, rid);
    out
}

/// What the terms of a path begin with whose value begins like this.
pub(crate) fn term_prefix(path: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + value.len() + 1 + RID_BYTES);
    put_term_prefix(&mut out, path);
    out.extend_from_slice(value);
    out
}

/// The value in a term's key, given the encoded path that it begins with.
pub(crate) fn term_value<'k>(key: &'k [u8], path: &[u8]) -> Option<EntryValue<'k>> {
    let value = key.strip_prefix(&[TERM])?.strip_prefix(path)?;
    let end = value.len().checked_sub(RID_BYTES)?;
    Some(EntryValue::new(value.get(..end)?))
}

/// All terms of all paths.
pub(crate) fn all_terms() -> KeyRange {
    family(TERM)
}

/// The rid in which the keys of terms, shapes and composites end.
pub(crate) fn entry_rid(key: &[u8]) -> Option<u64> {
    let tail = key.len().checked_sub(RID_BYTES)?;
    Reader::new(key.get(tail..)?).u64()
}

/// The entry of an item under its shape.
pub(crate) fn shape_entry(shape: u64, rid: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(17);
    out.push(SHAPE);
    keycode::put_u64(&mut out, shape);
    keycode::put_u64(&mut out, rid);
    out
}

/// Is this the key of an item's shape?
pub(crate) fn is_shape_entry(key: &[u8]) -> bool {
    key.first() == Some(&SHAPE)
}

/// All items of a shape, oldest first.
pub(crate) fn shape_range(shape: u64) -> KeyRange {
    let mut prefix = vec![SHAPE];
    keycode::put_u64(&mut prefix, shape);
    between(&prefix, Bound::Unbounded, Bound::Unbounded)
}

/// All items by shape.
pub(crate) fn all_shape_entries() -> KeyRange {
    family(SHAPE)
}

/// The dictionary's record of a shape.
pub(crate) fn shape(shape: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    out.push(SHAPE_PATHS);
    keycode::put_u64(&mut out, shape);
    out
}

/// The number of the shape that a key of the dictionary is about.
pub(crate) fn shape_of(key: &[u8]) -> Option<u64> {
    Reader::new(key.strip_prefix(&[SHAPE_PATHS])?).u64()
}

/// The dictionary: all shapes, some of which may have no items.
pub(crate) fn shapes() -> KeyRange {
    family(SHAPE_PATHS)
}

/// What all keys of a composite index begin with: `id` is `index::composite_id`. Columns follow
/// (`entry_value::put_column`).
pub(crate) fn composite_prefix(id: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(COMPOSITE);
    keycode::put_u64(&mut out, id);
    out
}

/// The entries of a composite index that begin with `prefix` (from [`composite_prefix`], with the
/// leading columns appended), and whose next column lies between two sort keys. The range is in the
/// order of the index: of a descending column the high values come first. Entries whose values were
/// cut belong to the range if they could.
pub(crate) fn composite_range(
    prefix: &[u8],
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    descending: bool,
) -> KeyRange {
    let bound = |value: &[u8]| {
        let mut out = prefix.to_vec();
        put_column(&mut out, value, descending);
        (out, is_cut(&fit(value, COLUMN_STRING_BYTES_MAX)))
    };
    let (low, high) = (low.map(bound), high.map(bound));
    if descending { between(prefix, high, low) } else { between(prefix, low, high) }
}

/// The columns in the key of a composite entry.
pub(crate) fn composite_columns(key: &[u8]) -> Option<&[u8]> {
    let end = key.len().checked_sub(RID_BYTES)?;
    key.strip_prefix(&[COMPOSITE])?.get(8..end.checked_sub(1)?)
}

/// All entries of all composite indexes.
pub(crate) fn all_composites() -> KeyRange {
    family(COMPOSITE)
}

/// The keys that begin with `prefix` and lie between two beginnings of keys. A bound that was cut
/// is part of the range in any case.
fn between(prefix: &[u8], low: Bound<(Vec<u8>, bool)>, high: Bound<(Vec<u8>, bool)>) -> KeyRange {
    let start = match low {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        Bound::Excluded((key, false)) => after(key).map_or(Bound::Unbounded, Bound::Included),
        Bound::Included((key, _)) | Bound::Excluded((key, true)) => Bound::Included(key),
    };
    let end = match high {
        Bound::Excluded((key, false)) => Some(key),
        Bound::Included((key, _)) | Bound::Excluded((key, true)) => after(key),
        Bound::Unbounded => after(prefix.to_vec()),
    };
    KeyRange { start, end: end.map_or(Bound::Unbounded, Bound::Excluded) }
}

/// The least bytes above all that begin with these; none if these are all FF.
fn after(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

/// Finds an item by its resource id.
pub(crate) fn rid(rid: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    out.push(RID);
    keycode::put_u64(&mut out, rid);
    out
}

/// All items by resource id, oldest first.
pub(crate) fn all_rids() -> KeyRange {
    family(RID)
}

/// Guards one value tuple of one unique-key constraint in one logical partition.
pub(crate) fn unique(constraint: usize, epk: &Epk, key: &PartitionKey, values: &[u8]) -> Vec<u8> {
    let mut out = vec![UNIQUE];
    keycode::put_u64(&mut out, constraint as u64);
    out.extend_from_slice(&logical_partition(epk, key));
    out.extend_from_slice(values);
    out
}

/// All entries of all unique-key constraints.
pub(crate) fn all_uniques() -> KeyRange {
    family(UNIQUE)
}

/// The head of a logical partition: see [`head_delta`].
pub(crate) fn head(epk: &Epk, key: &PartitionKey) -> Vec<u8> {
    let mut out = vec![HEAD];
    out.extend_from_slice(&logical_partition(epk, key));
    out
}

/// The EPK in the key of a head.
pub(crate) fn epk_of_head(key: &[u8]) -> Option<Epk> {
    epk_of_item(key.strip_prefix(&[HEAD])?)
}

/// All heads.
pub(crate) fn all_heads() -> KeyRange {
    family(HEAD)
}

/// All heads of logical partitions whose EPK lies in the range.
pub(crate) fn heads_in(range: &EpkRange) -> KeyRange {
    let bound = |epk: &Epk| [&[HEAD], epk_bound(epk).as_slice()].concat();
    KeyRange { start: Bound::Included(bound(&range.min)), end: Bound::Excluded(bound(&range.max)) }
}

/// The EPK and the partition key in the key of a head; `components` is the number of the partition
/// key's paths.
pub(crate) fn parse_head(bytes: &[u8], components: usize) -> Option<(Epk, PartitionKey)> {
    let mut reader = Reader::new(bytes.strip_prefix(&[HEAD])?);
    let epk = Epk::from_bytes(reader.bytes()?);
    let parts = (0..components).map(|_| reader.key_part()).collect::<Option<Vec<_>>>()?;
    reader.is_empty().then_some((epk, PartitionKey(parts)))
}

const HEAD_BYTES_BITS: u32 = 36;

/// A head counts items and bytes in one counter, so that a write touches one record and not two:
/// the low 36 bits are bytes, the rest is items. A logical partition is limited to 20 GB (2^35),
/// and an item with its system properties is over 200 bytes, so neither part can overflow.
pub(crate) fn head_delta(items: i64, bytes: i64) -> i64 {
    (items << HEAD_BYTES_BITS) + bytes
}

/// Items and bytes of a head's counter.
pub(crate) fn head_parts(counter: i64) -> (i64, i64) {
    (counter >> HEAD_BYTES_BITS, counter & ((1 << HEAD_BYTES_BITS) - 1))
}

/// A counter of the whole partition.
pub(crate) fn total(which: Total) -> Vec<u8> {
    match which {
        Total::Items => vec![TOTAL, 0],
        Total::Bytes => vec![TOTAL, 1],
        Total::Excluded => vec![TOTAL, 2],
    }
}

/// Resource ids below the number in this record may be in use.
pub(crate) fn rid_mark() -> Vec<u8> {
    vec![RID_MARK]
}

/// The process that gives out resource ids.
pub(crate) fn rid_holder() -> Vec<u8> {
    vec![RID_HOLDER]
}

/// How far a move has brought over what the partition with this range id holds.
pub(crate) fn move_cursor(source: u32) -> Vec<u8> {
    let mut out = vec![MOVE_CURSOR];
    out.extend_from_slice(&source.to_be_bytes());
    out
}

/// How far the feed was trimmed.
pub(crate) fn feed_mark() -> Vec<u8> {
    vec![FEED_MARK]
}

/// The LSN under which a record of the feed is filed.
pub(crate) fn feed_lsn(key: &[u8]) -> Option<Lsn> {
    key.first_chunk().map(|lsn| Lsn(u64::from_be_bytes(*lsn)))
}

/// The records of the feed after an LSN.
pub(crate) fn feed_after(lsn: Lsn) -> KeyRange {
    let start = match lsn.0.checked_add(1) {
        Some(next) => Bound::Included(next.to_be_bytes().to_vec()),
        // Nobody gets this LSN, so there is nothing after it.
        None => Bound::Excluded(vec![0xFF; 64]),
    };
    KeyRange { start, end: Bound::Unbounded }
}

/// The records of the feed behind this one that have the same LSN.
pub(crate) fn rest_of_commit(key: &[u8]) -> Result<KeyRange> {
    let lsn = key.get(..8).ok_or_else(|| Error::corrupt("a key of the feed is cut short"))?;
    Ok(KeyRange { start: Bound::Excluded(key.to_vec()), end: KeyRange::prefix(lsn).end })
}

fn family(tag: u8) -> KeyRange {
    KeyRange { start: Bound::Included(vec![tag]), end: Bound::Excluded(vec![tag + 1]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::KeyPart;

    #[test]
    fn an_item_key_says_what_went_into_it() {
        let epk = Epk::parse_hex("0A00FF").unwrap();
        let key = PartitionKey(vec![KeyPart::String("a\0b".into()), KeyPart::Number(-1.5)]);
        let bytes = item(&epk, &key, "id/with\u{0}zero");
        let parsed = parse_item(&bytes, 2).unwrap();
        assert_eq!(parsed, ItemKey { epk, key, id: "id/with\u{0}zero".into() });
        assert_eq!(parse_item(&bytes, 1), None);
        assert_eq!(parse_item(&bytes[..bytes.len() - 1], 2), None);
        assert_eq!(id_of_item(&bytes, 2).as_deref(), Some(&*parsed.id));
        assert_eq!(id_of_item(&bytes, 1), None);
        assert_eq!(id_of_item(&bytes[..bytes.len() - 1], 2), None);
    }

    #[test]
    fn a_range_of_epks_is_a_range_of_item_keys() {
        let epks = ["", "00", "0000", "05", "0500", "05FF", "06", "3F", "FF"];
        let all: Vec<Epk> = epks.iter().map(|hex| Epk::parse_hex(hex).unwrap()).collect();
        let key = PartitionKey(vec![KeyPart::Undefined]);
        for min in &all {
            for max in &all {
                let range = EpkRange { min: min.clone(), max: max.clone() };
                let keys = items_in(&range);
                for epk in &all {
                    let bytes = item(epk, &key, "x");
                    let after_start = matches!(&keys.start, Bound::Included(s) if *s <= bytes);
                    let before_end = matches!(&keys.end, Bound::Excluded(e) if bytes < *e);
                    assert_eq!(
                        after_start && before_end,
                        range.contains(epk),
                        "{epk} in {range:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_partition_key_has_a_beginning_and_an_end() {
        let epk = Epk::parse_hex("0A00FF").unwrap();
        let keys =
            ["", "a", "a\0", "a\0b", "b"].map(|k| PartitionKey(vec![KeyPart::String(k.into())]));
        for (at, key) in keys.iter().enumerate() {
            for id in ["\0", "x", "\u{10FFFF}"] {
                let bytes = item(&epk, key, id);
                assert!(items_of_epk(&epk) < bytes && bytes < behind_partition_key(&epk, key));
                assert!(bytes.starts_with(&item_prefix(&epk, key, &id.as_bytes()[..1])));
                assert!(
                    keys[at + 1..]
                        .iter()
                        .all(|k| behind_partition_key(&epk, key) < item(&epk, k, id))
                );
            }
        }
    }

    #[test]
    fn a_head_counts_items_and_bytes_in_one_number() {
        let steps = [(1, 300), (1, 2_000_000), (0, -1_999_999), (-1, -300), (-1, -1)];
        let counter: i64 = steps.iter().map(|(items, bytes)| head_delta(*items, *bytes)).sum();
        assert_eq!(head_parts(counter), (0, 0));
        let counter: i64 = steps[..2].iter().map(|(items, bytes)| head_delta(*items, *bytes)).sum();
        assert_eq!(head_parts(counter), (2, 2_000_300));
    }
}
