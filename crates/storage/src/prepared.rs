//! A batch made ready for its decision, and the decision itself.
//!
//! What can be done before the order of commits is known is done on the caller's thread, in
//! parallel: keys get their prefix, values get room for their LSN, repeated adds are summed, and
//! whatever makes the batch invalid is refused. What remains for the moment of the decision is
//! small: compare the expectations, read the counters, fill in the LSN.
//!
//! All stores decide with this code, so that they cannot differ in what a batch means. A stored
//! value is the record's LSN as 8 bytes big-endian followed by the value.

use bytes::Bytes;
use partita_model::Lsn;

use crate::contract::{Batch, Expect, Record, Result, Space, Write, counter};
use crate::error::StorageError;

/// Longest key of a record. Engines count the length in two bytes and need some for themselves.
pub const KEY_BYTES_MAX: usize = 65_000;

/// Largest value of a record. Far above any item; keeps one batch from filling the memory.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of an LSN in front of a stored value and inside a feed key.
pub(crate) const LSN_BYTES: usize = 8;

/// A valid batch whose keys carry the store's prefix.
#[derive(Debug)]
pub(crate) struct Prepared {
    expects: Vec<Expectation>,
    changes: Vec<Draft>,
    lsn_min: Option<Lsn>,
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

#[derive(Debug)]
struct Draft {
    space: Space,
    key: Vec<u8>,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    /// The value with room for the LSN in front.
    Put(Vec<u8>),
    Delete,
    Add(i64),
    /// As `Put`; the key has room for the LSN after the prefix.
    Log(Vec<u8>),
}

/// What a decided batch does to one key: the stored value, or none if the record goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) space: Space,
    pub(crate) key: Vec<u8>,
    pub(crate) stored: Option<Vec<u8>>,
}

impl Prepared {
    /// Checks the batch and brings it into the stored form.
    pub(crate) fn new(prefix: &[u8], batch: Batch) -> Result<Prepared> {
        let mut prepared = Prepared {
            expects: Vec::with_capacity(batch.expects.len()),
            changes: Vec::with_capacity(batch.writes.len()),
            lsn_min: batch.lsn_min,
            prefix_bytes: prefix.len(),
            size_bytes: 0,
        };
        for expect in batch.expects {
            let (space, key, lsn) = match expect {
                Expect::Absent { space, key } => (space, key, None),
                Expect::Unchanged { space, key, lsn } => (space, key, Some(lsn)),
            };
            check_key(space, &key)?;
            prepared.expects.push(Expectation { space, key: join(prefix, &key), lsn });
        }
        for write in batch.writes {
            prepared.changes.push(draft(prefix, write)?);
        }
        prepared.unite_repeated_keys()?;
        prepared.size_bytes = prepared.changes.iter().map(Draft::size_bytes).sum();
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

    /// Sums adds to one counter and refuses any other repetition: what two changes of one key in
    /// one batch mean would depend on their order, and nobody says so by accident.
    fn unite_repeated_keys(&mut self) -> Result<()> {
        // Sorted, equal keys are neighbours. Logs, whose keys are not complete yet, are apart.
        self.changes.sort_unstable_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        let mut fault = None;
        self.changes.dedup_by(|next, kept| {
            if next.sort_key() != kept.sort_key() {
                return false;
            }
            let united = match (&mut kept.effect, &next.effect) {
                (Effect::Add(sum), Effect::Add(delta)) => {
                    add(*sum, *delta).map(|united| *sum = united)
                }
                _ => Err(repeated(next.space)),
            };
            fault = fault.take().or(united.err());
            true
        });
        fault.map_or(Ok(()), Err)
    }

    /// Decides the batch: either every change with its final key and value, or why not.
    ///
    /// `current` answers the record that is there now, all batches decided before included.
    pub(crate) fn decide(
        self,
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
        let mut changes = Vec::with_capacity(self.changes.len());
        for draft in self.changes {
            changes.push(draft.complete(self.prefix_bytes, lsn, &mut current)?);
        }
        check_log_keys(&changes, self.prefix_bytes, lsn)?;
        Ok(changes)
    }
}

impl Draft {
    fn sort_key(&self) -> (Space, bool, &[u8]) {
        (self.space, matches!(self.effect, Effect::Log(_)), &self.key)
    }

    fn size_bytes(&self) -> usize {
        self.key.len()
            + match &self.effect {
                Effect::Put(value) | Effect::Log(value) => value.len(),
                Effect::Delete => 0,
                Effect::Add(_) => 2 * LSN_BYTES,
            }
    }

    fn complete(
        mut self,
        prefix_bytes: usize,
        lsn: Lsn,
        current: &mut impl FnMut(Space, &[u8]) -> Result<Option<Record>>,
    ) -> Result<Change> {
        let stored = match self.effect {
            Effect::Delete => None,
            Effect::Put(value) => Some(stamped(value, lsn)),
            Effect::Log(value) => {
                stamp(&mut self.key, prefix_bytes, lsn);
                Some(stamped(value, lsn))
            }
            Effect::Add(delta) => {
                let before = match current(self.space, &self.key)? {
                    Some(record) => counter(&record.value)?,
                    None => 0,
                };
                let mut value = vec![0; LSN_BYTES];
                value.extend_from_slice(&add(before, delta)?.to_be_bytes());
                Some(stamped(value, lsn))
            }
        };
        Ok(Change { space: self.space, key: self.key, stored })
    }
}

fn draft(prefix: &[u8], write: Write) -> Result<Draft> {
    let (space, key, effect) = match write {
        Write::Put { space, key, value } => (space, key, Effect::Put(with_room(space, &value)?)),
        Write::Delete { space, key } => (space, key, Effect::Delete),
        Write::Add { space, key, delta } => (space, key, Effect::Add(delta)),
        Write::Log { suffix, value } => {
            let key = join(&[0; LSN_BYTES], &suffix);
            (Space::Feed, key, Effect::Log(with_room(Space::Feed, &value)?))
        }
    };
    check_key(space, &key)?;
    Ok(Draft { space, key: join(prefix, &key), effect })
}

fn check_key(space: Space, key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let length = key.len();
    Err(StorageError::BadBatch(format!(
        "a key of {length} bytes in {space:?}; at most {KEY_BYTES_MAX} are allowed"
    )))
}

fn with_room(space: Space, value: &[u8]) -> Result<Vec<u8>> {
    if value.len() > VALUE_BYTES_MAX {
        let length = value.len();
        return Err(StorageError::BadBatch(format!(
            "a value of {length} bytes in {space:?}; at most {VALUE_BYTES_MAX} are allowed"
        )));
    }
    Ok(join(&[0; LSN_BYTES], value))
}

fn join(front: &[u8], back: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(front.len() + back.len());
    joined.extend_from_slice(front);
    joined.extend_from_slice(back);
    joined
}

fn stamped(mut value: Vec<u8>, lsn: Lsn) -> Vec<u8> {
    stamp(&mut value, 0, lsn);
    value
}

fn stamp(bytes: &mut [u8], at: usize, lsn: Lsn) {
    let room = bytes.get_mut(at..at + LSN_BYTES).expect("room was left when the batch was made");
    room.copy_from_slice(&lsn.0.to_be_bytes());
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
    let mut keys: Vec<&[u8]> = changes.iter().filter(under_lsn).map(|c| c.key.as_slice()).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(repeated(Space::Feed));
    }
    Ok(())
}

/// Takes a stored value apart.
pub(crate) fn record(stored: Bytes) -> Result<Record> {
    let Some(head) = stored.first_chunk::<LSN_BYTES>() else {
        return Err(no_lsn(&stored));
    };
    Ok(Record { lsn: Lsn(u64::from_be_bytes(*head)), value: stored.slice(LSN_BYTES..) })
}

pub(crate) fn no_lsn(stored: &[u8]) -> StorageError {
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
        assert!(matches!(Prepared::new(b"", batch), Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn the_same_key_in_two_spaces_is_fine() {
        let mut batch = Batch::new();
        batch.put(Space::Items, b"k".to_vec(), vec![]);
        batch.put(Space::Meta, b"k".to_vec(), vec![]);
        assert!(Prepared::new(b"", batch).is_ok());
    }

    #[test]
    fn adds_to_one_counter_are_summed() {
        let mut batch = Batch::new();
        batch.add(Space::Meta, b"n".to_vec(), 5);
        batch.add(Space::Meta, b"n".to_vec(), -2);
        let changes = Prepared::new(b"p", batch).unwrap().decide(Lsn(9), nothing).unwrap();
        let [change] = changes.as_slice() else { panic!("one change, not {changes:?}") };
        let record = record(Bytes::from(change.stored.clone().unwrap())).unwrap();
        assert_eq!((record.lsn, counter(&record.value)), (Lsn(9), Ok(3)));
    }

    #[test]
    fn a_counter_that_overflows_changes_nothing() {
        let mut batch = Batch::new();
        batch.add(Space::Meta, b"n".to_vec(), i64::MAX);
        let full = |_: Space, _: &[u8]| {
            Ok(Some(Record { lsn: Lsn(1), value: Bytes::copy_from_slice(&i64::MAX.to_be_bytes()) }))
        };
        let decided = Prepared::new(b"", batch).unwrap().decide(Lsn(2), full);
        assert!(matches!(decided, Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn a_log_is_filed_under_prefix_lsn_and_suffix() {
        let mut batch = Batch::new();
        batch.log(b"s".to_vec(), b"v".to_vec());
        let changes = Prepared::new(b"part", batch).unwrap().decide(Lsn(2), nothing).unwrap();
        assert_eq!(changes.first().unwrap().key, b"part\0\0\0\0\0\0\0\x02s");
    }

    #[test]
    fn a_put_under_the_key_of_a_log_is_refused() {
        let mut batch = Batch::new();
        batch.log(b"s".to_vec(), vec![]);
        batch.put(Space::Feed, b"\0\0\0\0\0\0\0\x02s".to_vec(), vec![]);
        let prepared = Prepared::new(b"part", batch).unwrap();
        assert!(matches!(prepared.decide(Lsn(2), nothing), Err(StorageError::BadBatch(_))));
    }

    #[test]
    fn a_key_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
        for (length, fits) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
            let mut batch = Batch::new();
            batch.put(Space::Index, vec![1; length], vec![]);
            assert_eq!(Prepared::new(b"", batch).is_ok(), fits);
        }
    }
}
