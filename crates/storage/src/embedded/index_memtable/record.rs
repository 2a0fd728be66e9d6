//! How a run is written down: one record of the engine, which makes a group's changes of the index
//! durable.
//!
//! ```text
//! record = version 01 · entries · entry*
//! entry  = shared · own << 2 | kind · own bytes of the key · (kind value: length · stored value)
//! ```
//!
//! Numbers have seven bits a byte, the lowest first. A key begins with the first `shared` bytes of
//! the one before. The kinds: 0, a record without a stored value; 1, the record is gone; 2, a value
//! follows.

use super::run::{Entry, Run};
use crate::contract::Result;
use crate::contract::StorageError;

const VERSION: u8 = 1;

const KIND_BITS: u32 = 2;
const KIND_BARE: usize = 0;
const KIND_GONE: usize = 1;
const KIND_VALUE: usize = 2;

/// A run as the bytes of a record.
pub(super) fn pack<'a>(entries: impl ExactSizeIterator<Item = Entry<'a>>) -> Vec<u8> {
    // Half of an entry is shared with the one before, or more.
    let mut out = Vec::with_capacity(16 + entries.len() * 32);
    out.push(VERSION);
    put_number(&mut out, entries.len());
    let mut before: &[u8] = &[];
    for Entry { key, stored } in entries {
        let shared = shared_bytes(before, key);
        let own = key.get(shared..).unwrap_or_default();
        let kind = match stored {
            None => KIND_GONE,
            Some([]) => KIND_BARE,
            Some(_) => KIND_VALUE,
        };
        put_number(&mut out, shared);
        put_number(&mut out, own.len() << KIND_BITS | kind);
        out.extend_from_slice(own);
        if let Some(value @ [_, ..]) = stored {
            put_number(&mut out, value.len());
            out.extend_from_slice(value);
        }
        before = key;
    }
    out
}

/// The run in a record.
pub(super) fn unpack(record: &[u8]) -> Result<Run> {
    let damaged = || StorageError::Corrupt("a record of index entries is damaged".to_owned());
    let mut reader = Reader(record);
    read(&mut reader).filter(|_| reader.0.is_empty()).ok_or_else(damaged)
}

fn read(reader: &mut Reader<'_>) -> Option<Run> {
    if reader.bytes(1)? != [VERSION] {
        return None;
    }
    let entries = reader.number()?;
    // An entry has two bytes at least.
    let mut run = Run::with_capacity(entries.min(reader.0.len()), reader.0.len());
    let mut key = Vec::new();
    for _ in 0..entries {
        let shared = reader.number()?;
        let head = reader.number()?;
        let own = reader.bytes(head >> KIND_BITS)?;
        if shared > key.len() {
            return None;
        }
        key.truncate(shared);
        key.extend_from_slice(own);
        let stored = match head & ((1 << KIND_BITS) - 1) {
            KIND_BARE => Some(&[][..]),
            KIND_GONE => None,
            KIND_VALUE => {
                let length = reader.number()?;
                Some(reader.bytes(length)?)
            }
            _ => return None,
        };
        if run.last().is_some_and(|last| last.key >= &key[..]) {
            return None;
        }
        run.push(Entry { key: &key, stored });
    }
    Some(run)
}

/// How many bytes two keys have in common at their beginning.
fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    const WORD: usize = 8;
    let words = a.chunks_exact(WORD).zip(b.chunks_exact(WORD));
    let whole = words.take_while(|(a, b)| a == b).count() * WORD;
    let rest = a.iter().skip(whole).zip(b.iter().skip(whole));
    whole + rest.take_while(|(a, b)| a == b).count()
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = 0_usize;
        for shift in (0..usize::BITS).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Run {
        let mut run = Run::default();
        let long = vec![7; 70_000];
        let entries: [(&[u8], Option<&[u8]>); 5] = [
            (b"partition-path-1", Some(b"")),
            (b"partition-path-2", None),
            (b"partition-path-2-more", Some(b"value")),
            (b"q", Some(&long)),
            (&long[..300], None),
        ];
        let mut sorted = entries.to_vec();
        sorted.sort();
        sorted.iter().for_each(|(key, stored)| run.push(Entry { key, stored: *stored }));
        run
    }

    #[test]
    fn a_record_gives_the_run_back() {
        for run in [Run::default(), sample()] {
            assert_eq!(unpack(&pack(run.entries())).unwrap(), run);
        }
    }

    #[test]
    fn a_record_that_is_cut_or_altered_is_damage_or_another_run_but_never_a_panic() {
        let record = pack(sample().entries());
        for end in (0..100).chain(record.len() - 100..record.len()) {
            assert!(matches!(unpack(&record[..end]), Err(StorageError::Corrupt(_))), "{end}");
        }
        for at in 0..100 {
            let mut altered = record.clone();
            altered[at] ^= 0x81;
            assert!(unpack(&altered).is_err() || unpack(&altered).unwrap() != sample());
        }
    }

    #[test]
    fn keys_out_of_order_are_damage() {
        let two = [Entry { key: b"b", stored: None }, Entry { key: b"a", stored: None }];
        assert!(unpack(&pack(two.into_iter())).is_err());
    }
}
