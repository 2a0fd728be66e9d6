//! The feed: what changed, in the order of commits.
//!
//! Every write files a record under the LSN of its commit.
//!
//! ```text
//! key   LSN (the store's) · ordinal within the commit, 2 bytes big-endian · of a record that came
//!       from another partition possibly more, which only tells it from others
//! value kind: 1 created, 2 replaced, 3 deleted, and 10 (hex) if the time follows
//!       · time of the change, Unix seconds, 4 bytes big-endian · item key
//! ```
//!
//! A transaction files one record for each of its changes, in their order, all under one LSN. An
//! item that it wrote several times has several: who wants only the latest version takes the last.
//! Records that are older than the time in them have none; nothing else is different about them.
//! `changes/` reads the feed for clients.

use partita_model::{Error, Result};

/// The time of the change is in the record.
const TIMED: u8 = 0x10;

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create = 1,
    Replace = 2,
    Delete = 3,
}

/// One change, as its record tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) kind: Kind,
    /// Unix seconds, where the record knows it.
    pub(crate) ts: Option<u32>,
    pub(crate) item_key: &'a [u8],
}

impl<'a> Change<'a> {
    /// The record of the change.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.item_key.len() + 5);
        out.push(self.kind as u8 | self.ts.map_or(0, |_| TIMED));
        if let Some(ts) = self.ts {
            out.extend_from_slice(&ts.to_be_bytes());
        }
        out.extend_from_slice(self.item_key);
        out
    }

    pub(crate) fn decode(value: &'a [u8]) -> Result<Change<'a>> {
        let (first, rest) = value.split_first().ok_or_else(damaged)?;
        let kind = match first & !TIMED {
            1 => Kind::Create,
            2 => Kind::Replace,
            3 => Kind::Delete,
            _ => return Err(damaged()),
        };
        if first & TIMED == 0 {
            return Ok(Change { kind, ts: None, item_key: rest });
        }
        let (ts, item_key) = rest.split_first_chunk().ok_or_else(damaged)?;
        Ok(Change { kind, ts: Some(u32::from_be_bytes(*ts)), item_key })
    }
}

/// The position of a change within its commit.
pub(crate) fn ordinal(position: u16) -> Vec<u8> {
    position.to_be_bytes().to_vec()
}

fn damaged() -> Error {
    Error::corrupt("a record of the feed is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_comes_back_as_it_went() {
        for kind in [Kind::Create, Kind::Replace, Kind::Delete] {
            for ts in [None, Some(0), Some(u32::MAX)] {
                let change = Change { kind, ts, item_key: b"\x01key" };
                assert_eq!(Change::decode(&change.encode()).unwrap(), change);
            }
        }
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        for bytes in [&b""[..], &[0, 1], &[4, 1], &[0x13, 0, 0, 0], &[0x21, 0]] {
            assert!(Change::decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
