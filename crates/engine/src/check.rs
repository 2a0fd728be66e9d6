//! Checking that a database is whole: every item with its index entries, nothing without an item.
//!
//! For each partition what should be there is computed from the items alone and compared with what
//! is there: index entries, shapes, resource ids, unique keys, heads and totals, and the record of
//! every item's last change in the feed. A difference is a
//! finding; a whole database has none, whatever happened to the process that wrote it. It reads
//! everything, so it is for tests and for `partita check`, not for serving.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use partita_model::{Lsn, Result};
use partita_storage::{Direction, Entry, KeyRange, ScanLimit, Snapshot, Space, counter};

use crate::catalog::{Container, Partition};
use crate::changeset::derived;
use crate::core::Core;
use crate::feed::Change;
use crate::index::Shape;
use crate::keys::{self, Total};
use crate::record::ItemRecord;

const PAGE: ScanLimit = ScanLimit { entries_max: 1_000, bytes_max: 4 << 20 };

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Partitions that were read.
    pub partitions: u64,
    /// Items that were read.
    pub items: u64,
    /// Index entries, resource ids and unique keys that were compared.
    pub entries: u64,
    /// What is wrong; empty for a whole database.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `database/container`.
    pub container: String,
    /// The range id of the partition.
    pub range_id: u32,
    /// What is wrong, in words.
    pub what: String,
}

/// What the items of a partition call for.
#[derive(Default)]
struct Expected {
    /// Every derived key with the value that it has: nothing for an entry of the index, or the item
    /// that it leads to; two items with one unique key are two values.
    entries: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The unique keys of items that have outlived their time: they may be theirs still, or belong
    /// to another item, or have gone with that.
    abandoned: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// The shapes in use with their paths.
    shapes: BTreeMap<u64, Vec<u8>>,
    heads: BTreeMap<Vec<u8>, i64>,
    /// The items with the LSNs of their last changes.
    changes: BTreeSet<(Lsn, Vec<u8>)>,
    items: i64,
    bytes: i64,
    excluded: i64,
}

/// Reads everything and compares. Other writers must rest meanwhile.
pub(crate) fn check(core: &Core) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let catalog = core.catalog.current();
    let now = core.now_seconds();
    for container in catalog.all_containers() {
        for partition in &container.partitions {
            let view = core.store.snapshot(partition.id)?;
            let wrong = check_partition(container, partition, (&*view, now), &mut report)?;
            let name = format!("{}/{}", container.database.name, container.definition.name);
            report.findings.extend(wrong.into_iter().map(|what| Finding {
                container: name.clone(),
                range_id: partition.range_id,
                what,
            }));
            report.partitions += 1;
        }
    }
    Ok(report)
}

fn check_partition(
    container: &Container,
    partition: &Partition,
    (view, now_seconds): (&dyn Snapshot, u64),
    report: &mut CheckReport,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut expected = Expected::default();
    for_each(view, Space::Items, everything(), &mut |entry| {
        report.items += 1;
        expect_item(container, partition, (entry, now_seconds), &mut expected, &mut wrong)
    })?;
    let all = [
        keys::all_terms(),
        keys::all_rids(),
        keys::all_uniques(),
        keys::all_shape_entries(),
        keys::all_composites(),
    ];
    for range in all {
        for_each(view, Space::Index, range, &mut |entry| {
            report.entries += 1;
            let abandoned = expected.abandoned.remove(entry.key.as_ref());
            match expected.entries.remove(entry.key.as_ref()).or(abandoned) {
                None => wrong.push(format!("index entry {:02x?} has no item", &entry.key[..])),
                Some(values) if !values.iter().any(|value| *value == entry.record.value) => {
                    wrong
                        .push(format!("index entry {:02x?} leads to another item", &entry.key[..]));
                }
                Some(_) => {}
            }
            Ok(())
        })?;
    }
    wrong.extend(expected.entries.keys().map(|key| format!("index entry {key:02x?} is missing")));
    check_shapes(view, expected.shapes.clone(), &mut wrong)?;
    check_counters(view, &mut expected, &mut wrong)?;
    check_feed(view, expected.changes, &mut wrong)?;
    Ok(wrong)
}

/// The dictionary has every shape in use. It may have others: shapes stay when their items go.
fn check_shapes(
    view: &dyn Snapshot,
    mut used: BTreeMap<u64, Vec<u8>>,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for_each(view, Space::Index, keys::shapes(), &mut |entry| {
        let shape = keys::shape_of(&entry.key);
        let paths = Shape::parse(&entry.record.value);
        match shape.filter(|_| paths.is_some()) {
            None => wrong.push(format!("shape {:02x?} is damaged", &entry.key[..])),
            Some(shape) if used.remove(&shape).is_some_and(|p| p != entry.record.value) => {
                wrong.push(format!("shape {shape:016x} has other paths than its items"));
            }
            Some(_) => {}
        }
        Ok(())
    })?;
    wrong.extend(used.keys().map(|shape| format!("shape {shape:016x} is not described")));
    Ok(())
}

fn expect_item(
    container: &Container,
    partition: &Partition,
    (entry, now_seconds): (&Entry, u64),
    expected: &mut Expected,
    wrong: &mut Vec<String>,
) -> Result<()> {
    let record = ItemRecord::decode(&entry.record.value)?;
    let components = container.definition.partition_key.paths.len();
    let Some(key) = keys::parse_item(&entry.key, components) else {
        wrong.push(format!("item key {:02x?} is damaged", &entry.key[..]));
        return Ok(());
    };
    if !partition.epks.contains(&key.epk) {
        wrong.push(format!("item '{}' belongs to another partition", key.id));
    }
    let bytes = i64::try_from(entry.key.len() + record.body.len()).unwrap_or(i64::MAX);
    expected.items += 1;
    expected.bytes += bytes;
    expected.excluded += i64::from(record.is_left_out());
    *expected.heads.entry(keys::head(&key.epk, &key.key)).or_default() +=
        keys::head_delta(1, bytes);
    expected.changes.insert((record.changed_at(entry.record.lsn), entry.key.to_vec()));
    let derived = derived(container, &key, &record)?;
    let expired = record.expired(container.definition.default_ttl, now_seconds);
    for pointer in derived.pointers {
        let is_abandoned = expired && keys::all_uniques().contains(&pointer);
        let of = if is_abandoned { &mut expected.abandoned } else { &mut expected.entries };
        of.entry(pointer).or_default().push(entry.key.to_vec());
    }
    for key in derived.entries {
        expected.entries.entry(key.into()).or_default().push(Vec::new());
    }
    expected.shapes.extend(derived.shape);
    Ok(())
}

/// The feed names every item under the LSN of its last change. It names others, too: what was
/// changed again or deleted.
fn check_feed(
    view: &dyn Snapshot,
    mut changes: BTreeSet<(Lsn, Vec<u8>)>,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for_each(view, Space::Feed, everything(), &mut |entry| {
        match (keys::feed_lsn(&entry.key), Change::decode(&entry.record.value)) {
            (Some(lsn), Ok(change)) => drop(changes.remove(&(lsn, change.item_key.to_vec()))),
            (_, _) => wrong.push(format!("record {:02x?} of the feed is damaged", &entry.key[..])),
        }
        Ok(())
    })?;
    let missing = |(lsn, key): &(Lsn, Vec<u8>)| {
        format!("the feed lacks the change of item {key:02x?} at LSN {lsn}")
    };
    wrong.extend(changes.iter().map(missing));
    Ok(())
}

fn check_counters(
    view: &dyn Snapshot,
    expected: &mut Expected,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for_each(view, Space::Meta, keys::all_heads(), &mut |entry| {
        let wanted = expected.heads.remove(entry.key.as_ref()).unwrap_or(0);
        let found = counter(&entry.record.value)?;
        if found != wanted {
            let (found, wanted) = (keys::head_parts(found), keys::head_parts(wanted));
            wrong.push(format!("a logical partition counts {found:?} instead of {wanted:?}"));
        }
        Ok(())
    })?;
    if !expected.heads.is_empty() {
        wrong.push(format!("{} logical partitions have no head", expected.heads.len()));
    }
    let totals = [
        (Total::Items, expected.items),
        (Total::Bytes, expected.bytes),
        (Total::Excluded, expected.excluded),
    ];
    for (which, wanted) in totals {
        let record = view.get(Space::Meta, &keys::total(which))?;
        let found = record.map_or(Ok(0), |record| counter(&record.value))?;
        if found != wanted {
            wrong.push(format!("the total of {which:?} is {found} instead of {wanted}"));
        }
    }
    Ok(())
}

fn everything() -> KeyRange {
    KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
}

fn for_each(
    view: &dyn Snapshot,
    space: Space,
    mut range: KeyRange,
    f: &mut dyn FnMut(&Entry) -> Result<()>,
) -> Result<()> {
    loop {
        let page = view.scan(space, &range, Direction::Forward, PAGE)?;
        for entry in &page.entries {
            f(entry)?;
        }
        match page.entries.last() {
            Some(last) if page.more => range.start = Bound::Excluded(last.key.to_vec()),
            _ => return Ok(()),
        }
    }
}
