//! A batch made ready for its decision, and the decision itself.
//!
//! What can be done before the order of commits is known is done on the caller's thread, in
//! parallel: keys are sorted and get their prefix, values get room for their LSN, repeated adds are
//! summed, and whatever makes the batch invalid is refused. What remains for the moment of the
//! decision is small: compare the expectations, read the counters, fill in the LSN.
//!
//! A write of an item touches twenty keys, a transaction thousands. So keys and values of a batch
//! lie one behind the other in one buffer per space and are handed on as parts of it: nothing is
//! allocated for each. A part keeps its whole buffer alive; parts of one space go to the same
//! place and leave it together. Records without a value share one, which is their LSN.
//!
//! All stores decide with this code, so that they cannot differ in what a batch means. A stored
//! value is the record's LSN as 8 bytes big-endian followed by the value. Entries of the index that
//! are nothing but a key have no LSN either ([`Entries`]): they are most of all records, and nobody
//! asks when one was written.

use std::ops::Range;

use bytes::Bytes;
use partita_model::Lsn;

use crate::contract::StorageError;
use crate::contract::{Batch, Expect, Record, Result, Space, Write, counter};

/// Longest key of a record. Engines count the length in two bytes and need some for themselves.
pub const KEY_BYTES_MAX: usize = 65_000;

/// Largest value of a record. Far above any item; keeps one batch from filling the memory.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of an LSN in front of a stored value and inside a feed key.
pub(crate) const LSN_BYTES: usize = 8;

/// The bytes of a counter.
const COUNTER_BYTES: usize = 8;

/// Whether records of the index space that have no value have an LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// They have one: stores of the first format.
    Stamped,
    Bare,
}

/// A valid batch whose keys carry the store's prefix.
#[derive(Debug)]
pub(crate) struct Prepared {
    expects: Vec<Expectation>,
    /// In the order of spaces and keys; those of logs, which are not complete yet, come after the
    /// other ones of their space.
    changes: Vec<Draft>,
    buffers: Box<[Buffer; Space::ALL.len()]>,
    lsn_min: Option<Lsn>,
    /// See [`Batch::frees`].
    pub(crate) frees: bool,
    prefix_bytes: usize,
    size_bytes: usize,
}

#[derive(Debug)]
struct Expectation {
    space: Space,
    key: Vec<u8>,
    /// The LSN the record must have; none means that there must be no record.
    lsn: Option<Lsn>,
}

/// A change whose key, and value if it has one, are parts of its space's buffer.
#[derive(Debug)]
struct Draft {
    space: Space,
    key: Range<usize>,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    /// The value with room for the LSN in front.
    Put(Range<usize>),
    Delete,
    /// What to add, and room for the LSN and the sum.
    Add(i64, Range<usize>),
    /// As `Put`; the key has room for the LSN after the prefix.
    Log(Range<usize>),
    /// A key and nothing else.
    Enter,
}

/// What a decided batch does to one key: the stored value, or none if the record goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) space: Space,
    pub(crate) key: Bytes,
    pub(crate) stored: Option<Bytes>,
}

impl Change {
    pub(crate) fn size_bytes(&self) -> usize {
        self.key.len() + self.stored.as_ref().map_or(0, Bytes::len)
    }
}

/// The keys and values of one space.
#[derive(Debug, Default)]
struct Buffer {
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The value of all records that have none.
    nothing: Option<Range<usize>>,
}

impl Buffer {
    fn put_key(&mut self, parts: [&[u8]; 3]) -> Range<usize> {
        append(&mut self.keys, parts)
    }

    fn put_value(&mut self, value: &[u8]) -> Range<usize> {
        if let (true, Some(nothing)) = (value.is_empty(), &self.nothing) {
            return nothing.clone();
        }
        let range = append(&mut self.values, [&[0; LSN_BYTES], value, &[]]);
        if value.is_empty() {
            self.nothing = Some(range.clone());
        }
        range
    }

    fn freeze(self) -> Frozen {
        Frozen { keys: self.keys.into(), values: self.values.into() }
    }
}

/// A buffer that is complete.
struct Frozen {
    keys: Bytes,
    values: Bytes,
}

impl Prepared {
    /// Checks the batch and brings it into the stored form.
    pub(crate) fn new(prefix: &[u8], batch: Batch, entries: Entries) -> Result<Prepared> {
        let Batch { expects, mut writes, lsn_min, frees } = batch;
        let mut prepared = Prepared {
            expects: Vec::with_capacity(expects.len()),
            changes: Vec::with_capacity(writes.len()),
            buffers: Box::default(),
            lsn_min,
            frees,
            prefix_bytes: prefix.len(),
            size_bytes: 0,
        };
        for expect in expects {
            prepared.expects.push(expectation(prefix, expect)?);
        }
        // Equal keys become neighbours, and stores, which keep keys in order, find the places of
        // sorted ones sooner. Transactions come sorted already, up to a few pieces.
        writes.sort_by(|a, b| place(a).cmp(&place(b)));
        prepared.reserve(prefix, &writes);
        let mut before = None;
        for write in &writes {
            if before.is_some_and(|before| place(before) == place(write)) {
                prepared.unite(write)?;
            } else {
                prepared.push(prefix, write, entries)?;
            }
            before = Some(write);
        }
        prepared.size_bytes =
            prepared.buffers.iter().map(|buffer| buffer.keys.len() + buffer.values.len()).sum();
        Ok(prepared)
    }

    /// About how much memory the batch holds.
    pub(crate) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The LSN of this batch if it is committed after `last`.
    pub(crate) fn lsn_after(&self, last: Lsn) -> Lsn {
        self.lsn_min.map_or(last.next(), |min| last.next().max(min))
    }

    /// Makes room for all keys and values.
    fn reserve(&mut self, prefix: &[u8], writes: &[Write]) {
        let mut bytes = [(0, 0); Space::ALL.len()];
        for write in writes {
            let (space, is_log, key) = place(write);
            let (keys, values) = &mut bytes[space as usize];
            *keys += prefix.len() + key.len() + if is_log { LSN_BYTES } else { 0 };
            *values += match write {
                Write::Put { value, .. } if value.is_empty() => 0,
                Write::Put { value, .. } => LSN_BYTES + value.len(),
                Write::Log { value, .. } => LSN_BYTES + value.len(),
                Write::Add { .. } => LSN_BYTES + COUNTER_BYTES,
                Write::Delete { .. } => 0,
            };
        }
        for (buffer, (keys, values)) in self.buffers.iter_mut().zip(bytes) {
            buffer.keys.reserve_exact(keys);
            // One more for the value of those that have none.
            buffer.values.reserve_exact(if keys == 0 { 0 } else { values + LSN_BYTES });
        }
    }

    fn push(&mut self, prefix: &[u8], write: &Write, entries: Entries) -> Result<()> {
        let (space, is_log, key) = place(write);
        check_key(space, key.len() + if is_log { LSN_BYTES } else { 0 })?;
        let buffer = &mut self.buffers[space as usize];
        let effect = match write {
            Write::Put { space: Space::Index, value, .. }
                if value.is_empty() && entries == Entries::Bare =>
            {
                Effect::Enter
            }
            Write::Put { value, .. } => {
                check_value(space, value)?;
                Effect::Put(buffer.put_value(value))
            }
            Write::Delete { .. } => Effect::Delete,
            Write::Add { delta, .. } => Effect::Add(*delta, buffer.put_value(&[0; COUNTER_BYTES])),
            Write::Log { value, .. } => {
                check_value(space, value)?;
                Effect::Log(buffer.put_value(value))
            }
        };
        let room: &[u8] = if is_log { &[0; LSN_BYTES] } else { &[] };
        let key = buffer.put_key([prefix, room, key]);
        self.changes.push(Draft { space, key, effect });
        Ok(())
    }

    /// Sums adds to one counter and refuses any other repetition: what two changes of one key in
    /// one batch mean would depend on their order, and nobody says so by accident.
    fn unite(&mut self, write: &Write) -> Result<()> {
        match (self.changes.last_mut().map(|last| &mut last.effect), write) {
            (Some(Effect::Add(sum, _)), Write::Add { delta, .. }) => {
                *sum = add(*sum, *delta)?;
                Ok(())
            }
            _ => Err(repeated(place(write).0)),
        }
    }

    /// Decides the batch: either every change with its final key and value, or why not. Changes are
    /// in the order of spaces and keys.
    ///
    /// `current` answers the record that is there now, all batches decided before included.
    pub(crate) fn decide(
        mut self,
        lsn: Lsn,
        mut current: impl FnMut(Space, &[u8]) -> Result<Option<Record>>,
    ) -> Result<Vec<Change>> {
        for expect in &self.expects {
            let found = current(expect.space, &expect.key)?.map(|record| record.lsn);
            if found != expect.lsn {
                let key = expect.key.get(self.prefix_bytes..).unwrap_or_default().to_vec();
                return Err(StorageError::Conflict { space: expect.space, key });
            }
        }
        for draft in &self.changes {
            let buffer = &mut self.buffers[draft.space as usize];
            draft.complete(buffer, self.prefix_bytes, lsn, &mut current)?;
        }
        let frozen = (*self.buffers).map(Buffer::freeze);
        let change = |draft: &Draft| draft.change(&frozen[draft.space as usize]);
        let mut changes: Vec<Change> = self.changes.iter().map(change).collect();
        let has_puts =
            |draft: &Draft| draft.space == Space::Feed && !matches!(draft.effect, Effect::Log(_));
        if self.changes.iter().any(has_puts) {
            check_log_keys(&changes, self.prefix_bytes, lsn)?;
            // What comes before and after the logs is known only now.
            changes.sort_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
        }
        Ok(changes)
    }
}

impl Draft {
    /// Fills in what was not known before.
    fn complete(
        &self,
        buffer: &mut Buffer,
        prefix_bytes: usize,
        lsn: Lsn,
        current: &mut impl FnMut(Space, &[u8]) -> Result<Option<Record>>,
    ) -> Result<()> {
        match &self.effect {
            Effect::Delete | Effect::Enter => {}
            Effect::Put(value) => fill(&mut buffer.values, value.start, lsn.0),
            Effect::Log(value) => {
                fill(&mut buffer.keys, self.key.start + prefix_bytes, lsn.0);
                fill(&mut buffer.values, value.start, lsn.0);
            }
            Effect::Add(delta, value) => {
                let key = buffer.keys.get(self.key.clone()).unwrap_or_default();
                let before = match current(self.space, key)? {
                    Some(record) => counter(&record.value)?,
                    None => 0,
                };
                fill(&mut buffer.values, value.start, lsn.0);
                let sum = add(before, *delta)?;
                fill(&mut buffer.values, value.start + LSN_BYTES, sum.cast_unsigned());
            }
        }
        Ok(())
    }

    fn change(&self, frozen: &Frozen) -> Change {
        let stored = match &self.effect {
            Effect::Delete => None,
            Effect::Enter => Some(Bytes::new()),
            Effect::Put(value) | Effect::Log(value) | Effect::Add(_, value) => {
                Some(frozen.values.slice(value.clone()))
            }
        };
        Change { space: self.space, key: frozen.keys.slice(self.key.clone()), stored }
    }
}

/// Where a write belongs in the order of a batch: its space, whether it is a log, its key.
fn place(write: &Write) -> (Space, bool, &[u8]) {
    match write {
        Write::Put { space, key, .. } | Write::Delete { space, key } => (*space, false, key),
        Write::Add { space, key, .. } => (*space, false, key),
        Write::Log { suffix, .. } => (Space::Feed, true, suffix),
    }
}

fn expectation(prefix: &[u8], expect: Expect) -> Result<Expectation> {
    let (space, key, lsn) = match expect {
        Expect::Absent { space, key } => (space, key, None),
        Expect::Unchanged { space, key, lsn } => (space, key, Some(lsn)),
    };
    check_key(space, key.len())?;
    Ok(Expectation { space, key: [prefix, &key].concat(), lsn })
}

fn check_key(space: Space, length: usize) -> Result<()> {
    if length <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(StorageError::BadBatch(format!(
        "a key of {length} bytes in {space:?}; at most {KEY_BYTES_MAX} are allowed"
    )))
}

fn check_value(space: Space, value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let length = value.len();
    Err(StorageError::BadBatch(format!(
        "a value of {length} bytes in {space:?}; at most {VALUE_BYTES_MAX} are allowed"
    )))
}

fn append(out: &mut Vec<u8>, parts: [&[u8]; 3]) -> Range<usize> {
    let start = out.len();
    parts.iter().for_each(|part| out.extend_from_slice(part));
    start..out.len()
}

fn fill(bytes: &mut [u8], at: usize, number: u64) {
    let room = bytes.get_mut(at..at + LSN_BYTES).expect("room was left when the batch was made");
    room.copy_from_slice(&number.to_be_bytes());
}

fn add(sum: i64, delta: i64) -> Result<i64> {
    sum.checked_add(delta)
        .ok_or_else(|| StorageError::BadBatch(format!("the counter overflows: {sum} + {delta}")))
}

fn repeated(space: Space) -> StorageError {
    StorageError::BadBatch(format!("one key of {space:?} is changed twice"))
}

/// A put into the feed under exactly the key that a log of the same batch gets.
fn check_log_keys(changes: &[Change], prefix_bytes: usize, lsn: Lsn) -> Result<()> {
    let under_lsn = |change: &&Change| {
        let tail = change.key.get(prefix_bytes..).unwrap_or_default();
        change.space == Space::Feed && tail.starts_with(&lsn.0.to_be_bytes())
    };
    let mut keys: Vec<&[u8]> = changes.iter().filter(under_lsn).map(|c| &c.key[..]).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(repeated(Space::Feed));
    }
    Ok(())
}

/// Takes a stored value of a space apart.
pub(crate) fn record(space: Space, stored: Bytes) -> Result<Record> {
    if is_bare(space, &stored) {
        return Ok(Record { lsn: Lsn(0), value: stored });
    }
    let Some(head) = stored.first_chunk::<LSN_BYTES>() else {
        return Err(no_lsn(&stored));
    };
    Ok(Record { lsn: Lsn(u64::from_be_bytes(*head)), value: stored.slice(LSN_BYTES..) })
}

/// The value in a stored value of a space.
pub(crate) fn value_of(space: Space, stored: &[u8]) -> Result<&[u8]> {
    if is_bare(space, stored) {
        return Ok(stored);
    }
    stored.get(LSN_BYTES..).ok_or_else(|| no_lsn(stored))
}

/// See [`Entries`].
fn is_bare(space: Space, stored: &[u8]) -> bool {
    space == Space::Index && stored.is_empty()
}

fn no_lsn(stored: &[u8]) -> StorageError {
    StorageError::Corrupt(format!("a record of {} bytes has no LSN", stored.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: Space, _: &[u8]) -> Result<Option<Record>> {
        Ok(None)
    }

    #[test]
    fn a_key_changed_twice_is_refused() {
        let mut batch = Batch::new();
        batch.put(Space::Items, b"k".to_vec(), vec![]);
        batch.delete(Space::Items, b"k".to_vec());
        assert!(matches!(Prepared::new(b"", batch, Entries::Bare), Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn the_same_key_in_two_spaces_is_fine() {
        let mut batch = Batch::new();
        batch.put(Space::Items, b"k".to_vec(), vec![]);
        batch.put(Space::Meta, b"k".to_vec(), vec![]);
        assert!(Prepared::new(b"", batch, Entries::Bare).is_ok());
    }

    #[test]
    fn adds_to_one_counter_are_summed() {
        let mut batch = Batch::new();
        batch.add(Space::Meta, b"n".to_vec(), 5);
        batch.add(Space::Meta, b"n".to_vec(), -2);
        let changes =
            Prepared::new(b"p", batch, Entries::Bare).unwrap().decide(Lsn(9), nothing).unwrap();
        let [change] = changes.as_slice() else { panic!("one change, not {changes:?}") };
        let record = record(change.space, change.stored.clone().unwrap()).unwrap();
        assert_eq!((record.lsn, counter(&record.value)), (Lsn(9), Ok(3)));
    }

    #[test]
    fn a_counter_that_overflows_changes_nothing() {
        let mut batch = Batch::new();
        batch.add(Space::Meta, b"n".to_vec(), i64::MAX);
        let full = |_: Space, _: &[u8]| {
            Ok(Some(Record { lsn: Lsn(1), value: Bytes::copy_from_slice(&i64::MAX.to_be_bytes()) }))
        };
        let decided = Prepared::new(b"", batch, Entries::Bare).unwrap().decide(Lsn(2), full);
        assert!(matches!(decided, Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn a_log_is_filed_under_prefix_lsn_and_suffix() {
        let mut batch = Batch::new();
        batch.log(b"s".to_vec(), b"v".to_vec());
        let changes =
            Prepared::new(b"part", batch, Entries::Bare).unwrap().decide(Lsn(2), nothing).unwrap();
        assert_eq!(changes.first().unwrap().key[..], *b"part\0\0\0\0\0\0\0\x02s");
    }

    #[test]
    fn a_put_under_the_key_of_a_log_is_refused() {
        let mut batch = Batch::new();
        batch.log(b"s".to_vec(), vec![]);
        batch.put(Space::Feed, b"\0\0\0\0\0\0\0\x02s".to_vec(), vec![]);
        let prepared = Prepared::new(b"part", batch, Entries::Bare).unwrap();
        assert!(matches!(prepared.decide(Lsn(2), nothing), Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn a_key_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
        for (length, fits) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
            let mut batch = Batch::new();
            batch.put(Space::Index, vec![1; length], vec![]);
            assert_eq!(Prepared::new(b"", batch, Entries::Bare).is_ok(), fits);
        }
    }

    #[test]
    fn entries_without_a_value_have_an_lsn_only_in_stores_of_the_first_format() {
        for (entries, bytes, lsn) in [(Entries::Stamped, 8, Lsn(7)), (Entries::Bare, 0, Lsn(0))] {
            let mut batch = Batch::new();
            batch.put(Space::Index, b"a".to_vec(), vec![]);
            batch.put(Space::Index, b"b".to_vec(), b"value".to_vec());
            let prepared = Prepared::new(b"", batch, entries).unwrap();
            let changes = prepared.decide(Lsn(7), nothing).unwrap();
            let stored: Vec<Bytes> = changes.into_iter().flat_map(|change| change.stored).collect();
            let [bare, whole] = stored.as_slice() else { panic!("two records, not {stored:?}") };
            assert_eq!((bare.len(), whole.len()), (bytes, 13));
            assert_eq!(value_of(Space::Index, bare), Ok(&b""[..]));
            assert_eq!(value_of(Space::Index, whole), Ok(&b"value"[..]));
            let read = |stored: &Bytes| record(Space::Index, stored.clone()).unwrap().lsn;
            assert_eq!((read(bare), read(whole)), (lsn, Lsn(7)));
        }
    }

    #[test]
    fn other_records_without_an_lsn_are_damaged() {
        for space in [Space::Items, Space::Feed, Space::Meta] {
            assert!(record(space, Bytes::new()).is_err() && value_of(space, b"").is_err());
        }
        assert!(record(Space::Index, Bytes::from_static(b"1234567")).is_err());
    }
}
