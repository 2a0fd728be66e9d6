//! The feed: what changed, in the order of commits.
//!
//! Every write files a record under the LSN of its commit.
//!
//! ```text
//! key   LSN (the store's) · ordinal within the commit, 2 bytes · of a record that came from
//!       another partition possibly more, which only tells it from others
//! value kind (1 created, 2 replaced, 3 deleted) and flags
//!       · 10: time of the change, Unix seconds, 4 bytes
//!       · 20: LSN of the version before, 8 bytes (0: none; all ones: of this commit) · length of
//!             the item key, 4 bytes · item key · length of the present version, 4 bytes · present
//!             version · version before, of items that were deleted
//!         otherwise: item key
//! ```
//!
//! Numbers are big-endian, flags in hexadecimal; 40 says that the item was deleted because its time
//! was over. Versions are in the records of containers that keep all versions for a while
//! (`changeFeedPolicy`); the oldest records have no time. A transaction files one record for each
//! of its changes, in their order, all under one LSN. An item that it wrote several times has
//! several: who wants only the latest version takes the last.
//!
//! `changes/` reads the feed for clients; `maintenance/trim.rs` removes what nobody can ask for.

mod mark;

use partita_model::{Error, Lsn, Result};

pub(crate) use self::mark::FeedMark;

const TIMED: u8 = 0x10;
const WITH_VERSIONS: u8 = 0x20;
const EXPIRED: u8 = 0x40;

/// Stands for the LSN of the commit that the record itself belongs to.
const THIS_COMMIT: Lsn = Lsn(u64::MAX);

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    /// Deleted because its time was over.
    pub(crate) expired: bool,
    pub(crate) item_key: &'a [u8],
    /// The item before and after, where all versions are kept.
    pub(crate) versions: Option<Versions<'a>>,
}

/// The texts of an item before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Versions<'a> {
    pub(crate) current: Option<&'a [u8]>,
    /// The commit that made the version before.
    pub(crate) previous_lsn: Option<Lsn>,
    /// That version, where it is told.
    pub(crate) previous: Option<&'a [u8]>,
}

impl<'a> Change<'a> {
    /// The record of the change.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.item_key.len() + 5);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.ts.is_some(), TIMED)
            | flag(self.versions.is_some(), WITH_VERSIONS)
            | flag(self.expired, EXPIRED);
        out.push(self.kind as u8 | flags);
        if let Some(ts) = self.ts {
            out.extend_from_slice(&ts.to_be_bytes());
        }
        match &self.versions {
            None => out.extend_from_slice(self.item_key),
            Some(versions) => versions.put(&mut out, self.item_key),
        }
        out
    }

    pub(crate) fn decode(value: &'a [u8]) -> Result<Change<'a>> {
        let (first, mut rest) = value.split_first().ok_or_else(damaged)?;
        let kind = match first & !(TIMED | WITH_VERSIONS | EXPIRED) {
            1 => Kind::Create,
            2 => Kind::Replace,
            3 => Kind::Delete,
            _ => return Err(damaged()),
        };
        let mut ts = None;
        if first & TIMED != 0 {
            ts = Some(u32::from_be_bytes(take(&mut rest)?));
        }
        let expired = first & EXPIRED != 0;
        if first & WITH_VERSIONS == 0 {
            return Ok(Change { kind, ts, expired, item_key: rest, versions: None });
        }
        let previous_lsn = Some(Lsn(u64::from_be_bytes(take(&mut rest)?)));
        let previous_lsn = previous_lsn.filter(|lsn| *lsn != Lsn(0));
        let item_key = take_sized(&mut rest)?;
        let current = Some(take_sized(&mut rest)?).filter(|text| !text.is_empty());
        let previous = Some(rest).filter(|text| !text.is_empty());
        let versions = Some(Versions { current, previous_lsn, previous });
        Ok(Change { kind, ts, expired, item_key, versions })
    }
}

impl Versions<'_> {
    fn put(&self, out: &mut Vec<u8>, item_key: &[u8]) {
        let current = self.current.unwrap_or_default();
        let previous_lsn = self.previous_lsn.unwrap_or(Lsn(0));
        let previous = self.previous.unwrap_or_default();
        out.reserve(16 + item_key.len() + current.len() + previous.len());
        out.extend_from_slice(&previous_lsn.0.to_be_bytes());
        put_sized(out, item_key);
        put_sized(out, current);
        out.extend_from_slice(previous);
    }
}

/// The LSN of a version, given the LSN of the commit whose record names it.
pub(crate) fn version_lsn(named: Lsn, commit: Lsn) -> Lsn {
    if named == THIS_COMMIT { commit } else { named }
}

/// The position of a change within its commit.
pub(crate) fn ordinal(position: u16) -> Vec<u8> {
    position.to_be_bytes().to_vec()
}

/// Items and keys are limited to a few megabytes.
fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, left) = rest.split_first_chunk().ok_or_else(damaged)?;
    *rest = left;
    Ok(*taken)
}

fn take_sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = u32::from_be_bytes(take(rest)?) as usize;
    let (taken, left) = rest.split_at_checked(length).ok_or_else(damaged)?;
    *rest = left;
    Ok(taken)
}

fn damaged() -> Error {
    Error::corrupt("a record of the feed is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_comes_back_as_it_went() {
        let (new, old, lsn) = (Some(&b"{new}"[..]), Some(&b"{old}"[..]), Some(Lsn(7)));
        let versions = [(None, None, None), (new, None, None), (new, lsn, None), (None, lsn, old)];
        let versions = versions.map(|(current, previous_lsn, previous)| Versions {
            current,
            previous_lsn,
            previous,
        });
        for kind in [Kind::Create, Kind::Replace, Kind::Delete] {
            for ts in [None, Some(0), Some(u32::MAX)] {
                for versions in versions.map(Some).into_iter().chain([None]) {
                    let expired = kind == Kind::Delete;
                    let change = Change { kind, ts, expired, item_key: b"\x01key", versions };
                    assert_eq!(Change::decode(&change.encode()).unwrap(), change);
                }
            }
        }
    }

    #[test]
    fn a_record_without_time_is_read() {
        let change = Change::decode(b"\x02key").unwrap();
        assert_eq!((change.kind, change.ts, change.item_key), (Kind::Replace, None, &b"key"[..]));
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        let whole = Change {
            kind: Kind::Create,
            ts: Some(1),
            expired: false,
            item_key: b"key",
            versions: Some(Versions { current: Some(b"{}"), previous_lsn: None, previous: None }),
        };
        let whole = whole.encode();
        for end in 0..whole.len() {
            assert!(Change::decode(&whole[..end]).is_err(), "{end}");
        }
        for bytes in [&[0, 1][..], &[4, 1], &[0x13, 0, 0, 0], &[0x81, 0]] {
            assert!(Change::decode(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_version_of_the_same_commit_has_its_lsn() {
        assert_eq!(version_lsn(Lsn(3), Lsn(9)), Lsn(3));
        assert_eq!(version_lsn(THIS_COMMIT, Lsn(9)), Lsn(9));
    }
}
