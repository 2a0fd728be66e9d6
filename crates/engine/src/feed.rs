//! The feed: what changed, in the order of commits.
//!
//! Every write files a record under the LSN of its commit. Readers of the change feed come later;
//! the records are written from the first day, so that no history is missing when they do.
//!
//! ```text
//! key   LSN (the store's) · ordinal within the commit, 2 bytes big-endian
//! value kind: 1 created, 2 replaced, 3 deleted · item key
//! ```
//!
//! A transaction files one record for each of its changes, in their order, all under one LSN. An
//! item that it wrote several times has several: who wants only the latest version takes the last.

use partita_model::{Error, Result};

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create = 1,
    Replace = 2,
    Delete = 3,
}

/// The record of one change.
pub(crate) fn encode(kind: Kind, item_key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(item_key.len() + 1);
    out.push(kind as u8);
    out.extend_from_slice(item_key);
    out
}

/// What a record tells.
pub(crate) struct Change<'a> {
    pub(crate) item_key: &'a [u8],
}

impl<'a> Change<'a> {
    pub(crate) fn decode(value: &'a [u8]) -> Result<Change<'a>> {
        let (_, item_key) =
            value.split_first().ok_or_else(|| Error::corrupt("a record of the feed is damaged"))?;
        Ok(Change { item_key })
    }
}

/// The position of a change within its commit.
pub(crate) fn ordinal(position: u16) -> Vec<u8> {
    position.to_be_bytes().to_vec()
}
