//! A snapshot with a private write set on top: what a transaction sees.
//!
//! The operations of a transaction are prepared one after the other, each as if it were alone, on a
//! view that shows what the ones before it did. Their batches are absorbed here: several changes of
//! one key become its last one, sums of counters add up, feed records are numbered through. What
//! comes out is one batch that changes each key once.
//!
//! An expectation about a key that the transaction wrote itself says nothing about the store and is
//! dropped; the one from before that write was kept. So the final batch expects exactly what the
//! operations saw in the store. The transaction's own feed records cannot be read back: they have
//! no place in the feed before the commit.
//!
//! Where the logical partition of a transaction has no items yet, that is all there is to expect:
//! its items need not be looked up one by one, neither here nor by the store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use partita_model::{Epk, Lsn, MemoryShare, PartitionKey, Reservation};
use partita_storage::{
    Batch, Direction, Entry, Expect, KeyRange, Page, Record, Result, ScanLimit, Snapshot, Space,
    StorageError, Write, counter,
};

use super::index_writes::IndexWrites;
use crate::{feed, keys, memory};

/// The LSN of what is not committed yet. No commit ever gets it, so an expectation that names it
/// by mistake fails instead of passing.
const UNCOMMITTED: Lsn = Lsn(u64::MAX);

pub(super) type Key = (Space, Bytes);

/// The last write of each key; None: deleted.
pub(super) type Written = BTreeMap<Key, Option<Bytes>>;

/// A view of a partition, and what a transaction wants to change in it.
pub(super) struct Overlay {
    base: Box<dyn Snapshot>,
    /// What was seen in the store: the LSN of a record, or its absence.
    seen: BTreeMap<Key, Option<Lsn>>,
    /// In all spaces but that of the index.
    written: Written,
    index: Mutex<IndexWrites>,
    sums: BTreeMap<Key, i64>,
    log: Vec<Vec<u8>>,
    memory: Reservation,
    /// How the keys of items begin of which the store has none, and is expected to have none.
    empty: Option<Vec<u8>>,
}

/// Adds writes to a batch.
pub(super) fn put_all(batch: &mut Batch, written: Written) {
    for ((space, key), value) in written {
        match value {
            Some(value) => batch.put(space, key, value),
            None => batch.delete(space, key),
        }
    }
}

impl Overlay {
    /// What it holds is drawn from `memory`.
    pub(super) fn new(base: Box<dyn Snapshot>, memory: &MemoryShare) -> Overlay {
        Overlay {
            memory: memory.reservation(memory::WRITES),
            base,
            seen: BTreeMap::new(),
            written: Written::new(),
            index: Mutex::default(),
            sums: BTreeMap::new(),
            log: Vec::new(),
            empty: None,
        }
    }

    /// Tells the view that a logical partition is the only one whose items will be asked for, and
    /// answers the record of its head. If it has no items, that is expected of the store.
    pub(super) fn begin_at(&mut self, epk: &Epk, key: &PartitionKey) -> Result<Option<Record>> {
        let head = keys::head(epk, key);
        let record = self.base.get(Space::Meta, &head)?;
        let counted = record.as_ref().map_or(Ok(0), |record| counter(&record.value))?;
        if keys::head_parts(counted).0 == 0 {
            self.saw(Space::Meta, head, record.as_ref().map(|record| record.lsn));
            self.empty = Some(keys::item_prefix(epk, key, &[]));
        }
        Ok(record)
    }

    /// Is it known that the store has no record with this key?
    fn is_known_absent(&self, space: Space, key: &[u8]) -> bool {
        let empty = self.empty.as_ref().filter(|_| space == Space::Items);
        empty.is_some_and(|prefix| key.starts_with(prefix))
    }

    /// Notes that an operation relied on a record, or on its absence.
    pub(super) fn saw(&mut self, space: Space, key: Vec<u8>, lsn: Option<Lsn>) {
        if self.is_known_absent(space, &key) {
            return;
        }
        let key = (space, Bytes::from(key));
        if !self.own(space).get().contains_key(&key) {
            self.seen.entry(key).or_insert(lsn);
        }
    }

    /// The transaction's own writes of a space.
    fn own(&self, space: Space) -> Own<'_> {
        match space {
            Space::Index => {
                let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
                index.merged();
                Own::Index(index)
            }
            Space::Items | Space::Feed | Space::Meta => Own::Other(&self.written),
        }
    }

    fn write(&mut self, space: Space, key: Bytes, value: Option<Bytes>) {
        if space == Space::Index {
            let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
            index.push(key, value);
        } else {
            self.written.insert((space, key), value);
        }
    }

    /// Adds the batch of an operation that was prepared on this view. Nothing of it, if there is no
    /// memory for it.
    pub(super) fn absorb(&mut self, batch: Batch) -> partita_model::Result<()> {
        self.memory.grow(memory::bytes_of(&batch))?;
        for expect in batch.expects {
            match expect {
                Expect::Absent { space, key } => self.saw(space, key, None),
                Expect::Unchanged { space, key, lsn } => self.saw(space, key, Some(lsn)),
            }
        }
        for write in batch.writes {
            match write {
                Write::Put { space, key, value } => self.write(space, key, Some(value)),
                Write::Delete { space, key } => self.write(space, key, None),
                Write::Add { space, key, delta } => {
                    *self.sums.entry((space, key.into())).or_default() += delta;
                }
                Write::Log { value, .. } => self.log.push(value),
            }
        }
        self.index.get_mut().unwrap_or_else(PoisonError::into_inner).end_operation();
        Ok(())
    }

    /// What is in the store, without the transaction's own writes.
    pub(super) fn base(&self) -> &dyn Snapshot {
        &*self.base
    }

    /// Whether nothing was written: then there is nothing to commit.
    pub(super) fn is_untouched(&self) -> bool {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let is_written = !self.written.is_empty() || !index.is_empty();
        !is_written && self.sums.is_empty() && self.log.is_empty()
    }

    /// All of it as one batch.
    pub(super) fn into_batch(self) -> Batch {
        let mut batch = Batch { frees: self.only_deletes(), ..Batch::new() };
        for ((space, key), lsn) in self.seen {
            match lsn {
                Some(lsn) => batch.expect_unchanged(space, key.into(), lsn),
                None => batch.expect_absent(space, key.into()),
            }
        }
        put_all(&mut batch, self.written);
        self.index.into_inner().unwrap_or_else(PoisonError::into_inner).put_into(&mut batch);
        for ((space, key), delta) in self.sums {
            batch.add(space, key.into(), delta);
        }
        for (position, value) in (0..).zip(self.log) {
            batch.log(feed::ordinal(position), value);
        }
        batch
    }

    /// Whether items go and none comes or changes.
    fn only_deletes(&self) -> bool {
        let mut items = self.written.iter().filter(|((space, _), _)| *space == Space::Items);
        let mut changes = items.by_ref().map(|(_, value)| value.is_none()).peekable();
        changes.peek().is_some() && changes.all(|is_gone| is_gone)
    }

    /// A record of the store as the transaction sees it.
    fn overlaid(&self, key: &Key, stored: Option<Record>) -> Result<Option<Record>> {
        if let Some(own) = self.own(key.0).get().get(key) {
            let record = |value: &Bytes| Record { lsn: UNCOMMITTED, value: value.clone() };
            return Ok(own.as_ref().map(record));
        }
        let Some(delta) = self.sums.get(key) else { return Ok(stored) };
        let before = stored.map_or(Ok(0), |record| counter(&record.value))?;
        let sum = before.checked_add(*delta).ok_or_else(|| {
            StorageError::BadBatch(format!("the counter overflows: {before} + {delta}"))
        })?;
        let value = Bytes::copy_from_slice(&sum.to_be_bytes());
        Ok(Some(Record { lsn: UNCOMMITTED, value }))
    }

    /// The entries of a part of the store, with the transaction's own changes in that part.
    fn merged(
        &self,
        space: Space,
        stored: Vec<Entry>,
        part: &KeyRange,
        direction: Direction,
    ) -> Result<Vec<Entry>> {
        let mut merged: BTreeMap<Bytes, Option<Record>> =
            stored.into_iter().map(|entry| (entry.key, Some(entry.record))).collect();
        let own = self.own(space);
        for key in within(own.get(), space, part).chain(within(&self.sums, space, part)) {
            merged.entry(Bytes::copy_from_slice(key)).or_default();
        }
        drop(own);
        let mut entries = Vec::with_capacity(merged.len());
        for (key, stored) in merged {
            if let Some(record) = self.overlaid(&(space, key.clone()), stored)? {
                entries.push(Entry { key, record });
            }
        }
        if direction == Direction::Backward {
            entries.reverse();
        }
        Ok(entries)
    }
}

/// A look at the transaction's own writes.
enum Own<'o> {
    Index(MutexGuard<'o, IndexWrites>),
    Other(&'o Written),
}

impl Own<'_> {
    fn get(&self) -> &Written {
        match self {
            Own::Index(index) => index.written(),
            Own::Other(written) => written,
        }
    }
}

impl Snapshot for Overlay {
    fn lsn(&self) -> Lsn {
        self.base.lsn()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Record>> {
        let own = (space, Bytes::copy_from_slice(key));
        let is_own = self.own(space).get().contains_key(&own);
        if is_own || self.is_known_absent(space, key) {
            self.overlaid(&own, None)
        } else {
            self.overlaid(&own, self.base.get(space, key)?)
        }
    }

    fn get_many(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Record>>> {
        let stored = self.base.get_many(space, keys)?;
        let pairs = keys.iter().zip(stored);
        pairs
            .map(|(key, stored)| {
                let key = Bytes::copy_from_slice(key);
                self.overlaid(&(space, key), stored)
            })
            .collect()
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        direction: Direction,
        limit: ScanLimit,
    ) -> Result<Page> {
        let mut rest = range.clone();
        loop {
            let page = self.base.scan(space, &rest, direction, limit)?;
            let last = page.entries.last().map(|entry| entry.key.to_vec()).filter(|_| page.more);
            let (part, after) = match last {
                Some(last) => split(&rest, last, direction),
                None => (rest, None),
            };
            let mut entries = self.merged(space, page.entries, &part, direction)?;
            match after {
                // All that the page held is deleted here: a page must get on.
                Some(after) if entries.is_empty() => rest = after,
                after => {
                    let cut = truncate(&mut entries, limit);
                    return Ok(Page { entries, more: cut || after.is_some() });
                }
            }
        }
    }
}

/// The keys of a space that lie in a range.
fn within<'m, V>(
    map: &'m BTreeMap<Key, V>,
    space: Space,
    range: &'m KeyRange,
) -> impl Iterator<Item = &'m [u8]> {
    let start = match &range.start {
        Bound::Included(key) => Bound::Included((space, Bytes::copy_from_slice(key))),
        Bound::Excluded(key) => Bound::Excluded((space, Bytes::copy_from_slice(key))),
        Bound::Unbounded => Bound::Included((space, Bytes::new())),
    };
    map.range((start, Bound::Unbounded))
        .map(|((of, key), _)| (*of, &key[..]))
        .take_while(move |(of, key)| *of == space && range.contains(key))
        .map(|(_, key)| key)
}

/// The part of a range up to a key that a scan has reached, and what is left of it.
fn split(range: &KeyRange, last: Vec<u8>, direction: Direction) -> (KeyRange, Option<KeyRange>) {
    let KeyRange { start, end } = range.clone();
    let (reached, beyond) = (Bound::Included(last.clone()), Bound::Excluded(last));
    match direction {
        Direction::Forward => {
            (KeyRange { start, end: reached }, Some(KeyRange { start: beyond, end }))
        }
        Direction::Backward => {
            (KeyRange { start: reached, end }, Some(KeyRange { start, end: beyond }))
        }
    }
}

/// Cuts a page to its limit, but never to nothing; true if something was cut off.
fn truncate(entries: &mut Vec<Entry>, limit: ScanLimit) -> bool {
    let mut bytes = 0_usize;
    let fits = entries.iter().take(limit.entries_max).take_while(|entry| {
        let before = bytes;
        bytes = before.saturating_add(entry.key.len() + entry.record.value.len());
        before == 0 || bytes <= limit.bytes_max
    });
    let kept = fits.count().max(1).min(entries.len());
    let cut = kept < entries.len();
    entries.truncate(kept);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_model::KeyPart;
    use partita_storage::{MemoryStore, PartitionId, Store};
    use proptest::prelude::*;

    const HOME: PartitionId = PartitionId(1);

    /// A change of one of a few keys.
    fn changes() -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
        proptest::collection::vec((0..24_u8, proptest::option::of(any::<u8>())), 0..40)
    }

    fn batches(changes: &[(u8, Option<u8>)]) -> impl Iterator<Item = Batch> {
        changes.iter().map(|(key, value)| {
            let mut batch = Batch::new();
            match value {
                Some(value) => batch.put(Space::Index, vec![*key], vec![*value; 3]),
                None => batch.delete(Space::Index, vec![*key]),
            }
            batch.add(Space::Meta, vec![key % 3], i64::from(*key));
            batch.log(vec![0], vec![*key]);
            batch
        })
    }

    /// Everything in a range, read in pages.
    fn all(
        view: &dyn Snapshot,
        space: Space,
        direction: Direction,
        entries_max: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (start, end) = (Bound::Included(vec![1]), Bound::Excluded(vec![20]));
        let mut range = KeyRange { start, end };
        let mut out = Vec::new();
        loop {
            let limit = ScanLimit { entries_max, bytes_max: 9 };
            let page = view.scan(space, &range, direction, limit).unwrap();
            let entries = page.entries.iter();
            out.extend(entries.map(|entry| (entry.key.to_vec(), entry.record.value.to_vec())));
            let Some((last, _)) = out.last().filter(|_| page.more) else { return out };
            assert!(!page.entries.is_empty() && page.entries.len() <= entries_max);
            range = split(&range, last.clone(), direction).1.unwrap();
        }
    }

    proptest! {
        #[test]
        fn an_overlay_shows_what_its_batch_makes_true(
            before in changes(),
            own in changes(),
            entries_max in 1..6_usize,
        ) {
            let store = MemoryStore::new();
            store.create_partitions(&[HOME], Lsn(0)).unwrap();
            for batch in batches(&before) {
                store.submit(HOME, batch).wait().unwrap();
            }
            let mut overlay = Overlay::new(store.snapshot(HOME).unwrap(), &MemoryShare::default());
            for batch in batches(&own) {
                overlay.absorb(batch).unwrap();
            }
            let read = |view: &dyn Snapshot| {
                let scan = |space, direction| all(view, space, direction, entries_max);
                let keys: Vec<Vec<u8>> = (0..24).map(|key| vec![key]).collect();
                let values: Vec<Option<Bytes>> = view
                    .get_many(Space::Index, &keys)
                    .unwrap()
                    .into_iter()
                    .map(|record| record.map(|record| record.value))
                    .collect();
                for (key, value) in keys.iter().zip(&values) {
                    let one = view.get(Space::Index, key).unwrap();
                    assert_eq!(one.map(|record| record.value), *value);
                }
                let counters = scan(Space::Meta, Direction::Forward);
                let [forward, backward] = [Direction::Forward, Direction::Backward]
                    .map(|direction| scan(Space::Index, direction));
                (values, counters, forward, backward)
            };
            let seen = read(&overlay);
            prop_assert_eq!(overlay.is_untouched(), own.is_empty());
            let committed = store.submit(HOME, overlay.into_batch()).wait().unwrap();
            prop_assert_eq!(committed.lsn, Lsn(before.len() as u64 + 1));
            prop_assert_eq!(read(&*store.snapshot(HOME).unwrap()), seen);
        }
    }

    #[test]
    fn an_empty_logical_partition_is_expected_as_a_whole() {
        let store = MemoryStore::new();
        store.create_partitions(&[HOME], Lsn(0)).unwrap();
        let key = PartitionKey(vec![KeyPart::String("a".into())]);
        let epk = Epk::parse_hex("0A").unwrap();
        let item = keys::item(&epk, &key, "1");
        let create = |count: i64| {
            let mut overlay = Overlay::new(store.snapshot(HOME).unwrap(), &MemoryShare::default());
            overlay.begin_at(&epk, &key).unwrap();
            assert_eq!(overlay.get(Space::Items, &item).unwrap(), None);
            let mut batch = Batch::new();
            batch.expect_absent(Space::Items, item.clone());
            batch.put(Space::Items, item.clone(), vec![1]);
            batch.add(Space::Meta, keys::head(&epk, &key), keys::head_delta(count, 1));
            overlay.absorb(batch).unwrap();
            assert!(overlay.get(Space::Items, &item).unwrap().is_some(), "its own");
            overlay.into_batch()
        };
        let (first, second) = (create(1), create(1));
        let head = Expect::Absent { space: Space::Meta, key: keys::head(&epk, &key) };
        assert_eq!(first.expects, [head]);
        store.submit(HOME, first).wait().unwrap();
        let refused = store.submit(HOME, second).wait();
        assert!(matches!(refused, Err(StorageError::Conflict { space: Space::Meta, .. })));
        let mut overlay = Overlay::new(store.snapshot(HOME).unwrap(), &MemoryShare::default());
        overlay.begin_at(&epk, &key).unwrap();
        assert!(overlay.get(Space::Items, &item).unwrap().is_some(), "it is not empty any more");
        overlay.saw(Space::Items, item.clone(), Some(Lsn(1)));
        let unchanged = Expect::Unchanged { space: Space::Items, key: item.clone(), lsn: Lsn(1) };
        assert_eq!(overlay.into_batch().expects, [unchanged]);
    }

    #[test]
    fn what_a_transaction_wrote_itself_is_not_expected_of_the_store() {
        let store = MemoryStore::new();
        store.create_partitions(&[HOME], Lsn(0)).unwrap();
        let mut overlay = Overlay::new(store.snapshot(HOME).unwrap(), &MemoryShare::default());
        let mut first = Batch::new();
        first.expect_absent(Space::Items, b"k".to_vec());
        first.put(Space::Items, b"k".to_vec(), vec![1]);
        overlay.absorb(first).unwrap();
        let own = overlay.get(Space::Items, b"k").unwrap().unwrap();
        assert_eq!(own.lsn, UNCOMMITTED);
        let mut second = Batch::new();
        second.expect_unchanged(Space::Items, b"k".to_vec(), own.lsn);
        second.put(Space::Items, b"k".to_vec(), vec![2]);
        overlay.absorb(second).unwrap();
        let batch = overlay.into_batch();
        let absent = Expect::Absent { space: Space::Items, key: b"k".to_vec() };
        assert_eq!(batch.expects, [absent]);
        assert_eq!(batch.writes.len(), 1);
    }
}
