//! All that changes with an item, as one batch.
//!
//! The item itself, its index entries (only those that differ), the way to it by resource id, its
//! unique keys, the feed's record, and the counters of its logical and physical partition. They
//! commit together, so a crash leaves all of it or nothing.

use std::collections::BTreeSet;

use partita_model::{Document, Epk, Error, KeyPart, PartitionKey, Raw, Result, UniqueKey, keycode};
use partita_storage::{Batch, Snapshot, Space};

use super::{Current, Place};
use crate::catalog::Container;
use crate::feed;
use crate::index;
use crate::keys::{self, ItemKey, Total};
use crate::record::ItemRecord;

/// The version of an item that is about to be written.
#[derive(Debug)]
pub(super) struct NewVersion {
    pub(super) record: ItemRecord,
}

/// What a batch amounts to, for its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Versions of the item that come or go.
    pub(super) versions: u64,
    pub(super) bytes: u64,
    pub(super) index_entries: u64,
}

/// The batch that leads from the stored version (expired ones included) to the new one.
pub(super) fn build(
    place: &Place,
    view: &dyn Snapshot,
    old: Option<&Current>,
    new: Option<&NewVersion>,
    now_seconds: u64,
) -> Result<(Batch, Counts)> {
    let mut batch = Batch::new();
    let mut counts = Counts::default();
    expect(&mut batch, place, old);
    let new_record = new.map(|version| &version.record);
    put_item(&mut batch, place, old, new_record, &mut counts);
    change_terms(&mut batch, place, old, new_record, &mut counts)?;
    change_rid(&mut batch, place, old, new_record);
    change_uniques(&mut batch, place, view, old, new_record, now_seconds)?;
    let kind = match (old.filter(|current| current.live), new) {
        (None, Some(_)) => feed::Kind::Create,
        (Some(_), Some(_)) => feed::Kind::Replace,
        (_, None) => feed::Kind::Delete,
    };
    batch.log(feed::ordinal(0), feed::encode(kind, &place.item_key));
    Ok((batch, counts))
}

fn expect(batch: &mut Batch, place: &Place, old: Option<&Current>) {
    let key = place.item_key.clone();
    match old {
        Some(current) => batch.expect_unchanged(Space::Items, key, current.lsn),
        None => batch.expect_absent(Space::Items, key),
    }
}

fn put_item(
    batch: &mut Batch,
    place: &Place,
    old: Option<&Current>,
    new: Option<&ItemRecord>,
    counts: &mut Counts,
) {
    let size = |record: &ItemRecord| place.item_key.len() + record.body.len();
    let (mut items, mut bytes) = (0_i64, 0_i64);
    if let Some(current) = old {
        items -= 1;
        bytes -= signed(size(&current.record));
        counts.versions += 1;
        counts.bytes += current.record.body.len() as u64;
    }
    match new {
        Some(record) => {
            items += 1;
            bytes += signed(size(record));
            counts.versions += 1;
            counts.bytes += record.body.len() as u64;
            batch.put(Space::Items, place.item_key.clone(), record.encode());
        }
        None => batch.delete(Space::Items, place.item_key.clone()),
    }
    let head = keys::head(&place.epk, &place.key);
    batch.add(Space::Meta, head, keys::head_delta(items, bytes));
    batch.add(Space::Meta, keys::total(Total::Items), items);
    batch.add(Space::Meta, keys::total(Total::Bytes), bytes);
}

fn change_terms(
    batch: &mut Batch,
    place: &Place,
    old: Option<&Current>,
    new: Option<&ItemRecord>,
    counts: &mut Counts,
) -> Result<()> {
    let before = entries(&place.container, old.map(|current| &current.record))?;
    let after = entries(&place.container, new)?;
    for key in before.difference(&after) {
        batch.delete(Space::Index, key.clone());
        counts.index_entries += 1;
    }
    for key in after.difference(&before) {
        batch.put(Space::Index, key.clone(), place.item_key.clone());
        counts.index_entries += 1;
    }
    Ok(())
}

/// The index entries of a version.
fn entries(container: &Container, record: Option<&ItemRecord>) -> Result<BTreeSet<Vec<u8>>> {
    let Some(record) = record.filter(|record| record.indexed) else { return Ok(BTreeSet::new()) };
    let policy = container.policy(record.policy_version).ok_or_else(|| {
        Error::corrupt(format!(
            "an item was indexed by the unknown policy {}",
            record.policy_version
        ))
    })?;
    let terms = index::terms(record.text()?, policy);
    Ok(terms.iter().map(|term| keys::term(term, record.rid)).collect())
}

/// All keys in the index space that lead to an item: what a check compares.
pub(crate) fn derived_entries(
    container: &Container,
    key: &ItemKey,
    record: &ItemRecord,
) -> Result<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = entries(container, Some(record))?.into_iter().collect();
    all.push(keys::rid(record.rid));
    all.extend(unique_keys(container, &key.epk, &key.key, Some(record))?);
    Ok(all)
}

fn change_rid(batch: &mut Batch, place: &Place, old: Option<&Current>, new: Option<&ItemRecord>) {
    let before = old.map(|current| current.record.rid);
    let after = new.map(|record| record.rid);
    if before == after {
        return;
    }
    if let Some(rid) = before {
        batch.delete(Space::Index, keys::rid(rid));
    }
    if let Some(rid) = after {
        batch.put(Space::Index, keys::rid(rid), place.item_key.clone());
    }
}

fn change_uniques(
    batch: &mut Batch,
    place: &Place,
    view: &dyn Snapshot,
    old: Option<&Current>,
    new: Option<&ItemRecord>,
    now_seconds: u64,
) -> Result<()> {
    if place.container.definition.unique_keys.is_empty() {
        return Ok(());
    }
    let guards = |record| unique_keys(&place.container, &place.epk, &place.key, record);
    let before = guards(old.map(|current| &current.record))?;
    let after = guards(new)?;
    for key in before.iter().filter(|key| !after.contains(key)) {
        // An expired item's claim may have passed to another item already.
        if let Some(claim) = view.get(Space::Index, key)?
            && claim.value == place.item_key
        {
            batch.expect_unchanged(Space::Index, key.clone(), claim.lsn);
            batch.delete(Space::Index, key.clone());
        }
    }
    for key in after {
        match view.get(Space::Index, &key)? {
            None => batch.expect_absent(Space::Index, key.clone()),
            Some(claim) if claim.value == place.item_key => continue,
            Some(claim) if abandoned(place, view, &claim.value, now_seconds)? => {
                batch.expect_unchanged(Space::Index, key.clone(), claim.lsn);
            }
            Some(_) => {
                return Err(Error::conflict(
                    "Unique index constraint violation: another item of this partition key has the \
                     same values under a unique key",
                ));
            }
        }
        batch.put(Space::Index, key, place.item_key.clone());
    }
    Ok(())
}

/// Whether the item that claims a unique key has outlived its time.
fn abandoned(place: &Place, view: &dyn Snapshot, owner: &[u8], now_seconds: u64) -> Result<bool> {
    let Some(stored) = view.get(Space::Items, owner)? else {
        return Err(Error::corrupt("a unique key is claimed by an item that is not there"));
    };
    let record = ItemRecord::decode(&stored.value)?;
    Ok(record.expired(place.container.definition.default_ttl, now_seconds))
}

/// The keys that guard a version's unique values, one per constraint.
fn unique_keys(
    container: &Container,
    epk: &Epk,
    key: &PartitionKey,
    record: Option<&ItemRecord>,
) -> Result<Vec<Vec<u8>>> {
    let Some(record) = record else { return Ok(Vec::new()) };
    let document = Document::new(record.text()?);
    let constraints = container.definition.unique_keys.iter().enumerate();
    let guard = |(n, constraint): (usize, &UniqueKey)| {
        let mut values = Vec::new();
        for path in &constraint.paths {
            put_unique_value(&mut values, document.get(path));
        }
        keys::unique(n, epk, key, &values)
    };
    Ok(constraints.map(guard).collect())
}

/// Marks a value that is no scalar; the scalars' own tags are lower.
const COMPOUND: u8 = 0x0B;

fn put_unique_value(out: &mut Vec<u8>, value: Option<Raw<'_>>) {
    match value.map(|raw| (raw, raw.scalar())) {
        None => keycode::put_key_part(out, &KeyPart::Undefined),
        Some((_, Some(scalar))) => keycode::put_scalar(out, &scalar),
        Some((raw, None)) => {
            out.push(COMPOUND);
            keycode::put_str(out, raw.text());
        }
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
