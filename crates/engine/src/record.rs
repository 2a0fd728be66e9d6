//! The stored form of an item: a small header and a body.
//!
//! ```text
//! byte  0       format of the body: 1 = the JSON text that a read returns
//!       1       flags: bit 0 = not indexed, which no record is that is written now; what the write
//!               asked for: bit 1 = to be left out of the index, bit 2 = to be in it, neither = as
//!               the policy says; bit 3 = it says when the item changed
//!       2..6    version of the indexing policy its index entries were made with
//!       6..10   time of the last write, Unix seconds
//!      10..14   the item's own time to live in seconds, 0 = none, -1 = never expires
//!      14..30   etag
//!      30..38   resource id
//!      38..46   only with flag bit 3: the LSN under which the feed has the item's last change
//!      38.. or 46..  body
//! ```
//!
//! What a write asks for is remembered and changes nothing: every item is indexed as the policy has
//! it, so that every query finds it. Former versions did leave items out, until they are written or
//! indexed anew.
//!
//! Numbers are big-endian. The header answers conditions and expiry without a look into the body,
//! and the body goes to the socket as it is. The LSN of the last write is the store's business: it
//! stamps every record. Only a record that was rewritten without a change of the item (its index
//! entries were made anew, it moved to another partition) has to remember its change's LSN itself.

use bytes::Bytes;
use partita_model::{Error, Etag, Lsn, Result};

const FORMAT_JSON_TEXT: u8 = 1;
const FLAG_NOT_INDEXED: u8 = 1;
const FLAG_EXCLUDE: u8 = 2;
const FLAG_INCLUDE: u8 = 4;
const FLAG_CHANGED: u8 = 8;
const HEADER_BYTES: usize = 38;
const CHANGED_BYTES: usize = 8;

/// An item as stored, apart from its key and its LSN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ItemRecord {
    /// Has it entries in the index?
    pub(crate) indexed: bool,
    /// What the write said about that.
    pub(crate) asked: Indexing,
    pub(crate) policy_version: u32,
    pub(crate) ts: u32,
    pub(crate) ttl: i32,
    pub(crate) etag: Etag,
    pub(crate) rid: u64,
    /// The LSN under which the feed has the item's last change; None: that of the record itself.
    pub(crate) changed: Option<Lsn>,
    pub(crate) body: Bytes,
}

impl ItemRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + CHANGED_BYTES + self.body.len());
        out.push(FORMAT_JSON_TEXT);
        out.push(self.flags());
        out.extend_from_slice(&self.policy_version.to_be_bytes());
        out.extend_from_slice(&self.ts.to_be_bytes());
        out.extend_from_slice(&self.ttl.to_be_bytes());
        out.extend_from_slice(&self.etag.0);
        out.extend_from_slice(&self.rid.to_be_bytes());
        if let Some(Lsn(lsn)) = self.changed {
            out.extend_from_slice(&lsn.to_be_bytes());
        }
        out.extend_from_slice(&self.body);
        out
    }

    /// Shares the body with `bytes`: no copy.
    pub(crate) fn decode(bytes: &Bytes) -> Result<ItemRecord> {
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged("is cut short"))?;
        let (format, flags) = (header[0], header[1]);
        if format != FORMAT_JSON_TEXT {
            return Err(damaged(&format!("has the unknown format {format}")));
        }
        let (changed, body) = match flags & FLAG_CHANGED {
            0 => (None, bytes.slice(HEADER_BYTES..)),
            _ => {
                let tail = bytes.slice(HEADER_BYTES..);
                let lsn = tail.first_chunk().ok_or_else(|| damaged("is cut short"))?;
                (Some(Lsn(u64::from_be_bytes(*lsn))), tail.slice(CHANGED_BYTES..))
            }
        };
        Ok(ItemRecord {
            indexed: flags & FLAG_NOT_INDEXED == 0,
            asked: match (flags & FLAG_EXCLUDE, flags & FLAG_INCLUDE) {
                (0, 0) => Indexing::ByPolicy,
                (0, _) => Indexing::Include,
                (_, _) => Indexing::Exclude,
            },
            policy_version: u32::from_be_bytes(part(header, 2)),
            ts: u32::from_be_bytes(part(header, 6)),
            ttl: i32::from_be_bytes(part(header, 10)),
            etag: Etag(part(header, 14)),
            rid: u64::from_be_bytes(part(header, 30)),
            changed,
            body,
        })
    }

    fn flags(&self) -> u8 {
        let asked = match self.asked {
            Indexing::ByPolicy => 0,
            Indexing::Exclude => FLAG_EXCLUDE,
            Indexing::Include => FLAG_INCLUDE,
        };
        let changed = self.changed.map_or(0, |_| FLAG_CHANGED);
        asked | changed | if self.indexed { 0 } else { FLAG_NOT_INDEXED }
    }

    /// The LSN of the item's last change, given the LSN that the store stamped on the record.
    pub(crate) fn changed_at(&self, stored: Lsn) -> Lsn {
        self.changed.unwrap_or(stored)
    }

    /// Was it left out of the index because its write asked for that?
    pub(crate) fn is_left_out(&self) -> bool {
        !self.indexed && self.asked == Indexing::Exclude
    }

    /// The JSON text.
    pub(crate) fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).map_err(|_| damaged("is not UTF-8"))
    }

    /// Whether the item has outlived its time, given the container's default.
    pub(crate) fn expired(&self, default_ttl: Option<i32>, now_seconds: u64) -> bool {
        expired(self.ts, self.ttl, default_ttl, now_seconds)
    }
}

/// What a query looks at of a stored item, where it is stored: queries look at very many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeenItem<'a> {
    ts: u32,
    ttl: i32,
    pub(crate) rid: u64,
    pub(crate) body: &'a [u8],
}

impl<'a> SeenItem<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<SeenItem<'a>> {
        let cut = || damaged("is cut short");
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
        let (format, flags) = (header[0], header[1]);
        if format != FORMAT_JSON_TEXT {
            return Err(damaged(&format!("has the unknown format {format}")));
        }
        let body = match flags & FLAG_CHANGED {
            0 => rest,
            _ => rest.get(CHANGED_BYTES..).ok_or_else(cut)?,
        };
        Ok(SeenItem {
            ts: u32::from_be_bytes(part(header, 6)),
            ttl: i32::from_be_bytes(part(header, 10)),
            rid: u64::from_be_bytes(part(header, 30)),
            body,
        })
    }

    /// The JSON text.
    pub(crate) fn text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.body).map_err(|_| damaged("is not UTF-8"))
    }

    /// As [`ItemRecord::expired`].
    pub(crate) fn expired(&self, default_ttl: Option<i32>, now_seconds: u64) -> bool {
        expired(self.ts, self.ttl, default_ttl, now_seconds)
    }
}

fn expired(ts: u32, ttl: i32, default_ttl: Option<i32>, now_seconds: u64) -> bool {
    let Some(default) = default_ttl else { return false };
    let ttl = if ttl == 0 { default } else { ttl };
    ttl > 0 && u64::from(ts) + u64::from(ttl.unsigned_abs()) <= now_seconds
}

fn part<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("the header's length was checked")
}

fn damaged(how: &str) -> Error {
    Error::new(partita_model::ErrorKind::Corrupt, format!("a stored item {how}"))
}

/// What a write says of its item and the index. It is remembered, and changes nothing: every item
/// is indexed as the container's policy has it, so that every query finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// Nothing: as the container's policy says.
    #[default]
    ByPolicy,
    Include,
    Exclude,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ItemRecord {
        ItemRecord {
            indexed: false,
            asked: Indexing::Exclude,
            policy_version: 7,
            ts: 1_000,
            ttl: -1,
            etag: Etag([9; 16]),
            rid: 1 << 44,
            changed: None,
            body: Bytes::from_static(b"{\"id\":\"x\"}"),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_went() {
        for asked in [Indexing::ByPolicy, Indexing::Include, Indexing::Exclude] {
            for changed in [None, Some(Lsn(0)), Some(Lsn(u64::MAX))] {
                let indexed = asked == Indexing::Include;
                let record = ItemRecord { asked, indexed, changed, ..sample() };
                assert_eq!(ItemRecord::decode(&record.encode().into()).unwrap(), record);
                let bytes = record.encode();
                let seen = SeenItem::read(&bytes).unwrap();
                assert_eq!((seen.ts, seen.ttl), (record.ts, record.ttl));
                assert_eq!((seen.rid, seen.text()), (record.rid, record.text()));
            }
        }
    }

    #[test]
    fn an_item_changed_when_its_record_was_written_unless_the_record_knows_better() {
        assert_eq!(sample().changed_at(Lsn(7)), Lsn(7));
        let moved = ItemRecord { changed: Some(Lsn(3)), ..sample() };
        assert_eq!(moved.changed_at(Lsn(7)), Lsn(3));
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        let bytes = sample().encode();
        assert!(ItemRecord::decode(&Bytes::copy_from_slice(&bytes[..20])).is_err());
        assert!(SeenItem::read(&bytes[..20]).is_err());
        let mut unknown = bytes.clone();
        unknown[0] = 9;
        assert!(SeenItem::read(&unknown).is_err());
        assert!(ItemRecord::decode(&unknown.into()).is_err());
        let changed = ItemRecord { changed: Some(Lsn(1)), ..sample() }.encode();
        assert!(ItemRecord::decode(&Bytes::copy_from_slice(&changed[..45])).is_err());
        assert!(SeenItem::read(&changed[..45]).is_err());
    }

    #[test]
    fn an_item_expires_by_its_own_time_or_the_default() {
        let with = |ttl| ItemRecord { ttl, ..sample() };
        assert!(!with(5).expired(None, 9_999), "no default: expiry is off");
        assert!(with(5).expired(Some(-1), 1_005));
        assert!(!with(5).expired(Some(-1), 1_004));
        assert!(with(0).expired(Some(10), 1_010));
        assert!(!with(0).expired(Some(-1), 9_999));
        assert!(!with(-1).expired(Some(10), 9_999));
    }
}
