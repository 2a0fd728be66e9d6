//! Reads ranges of a partition's index, and counts what it looks at.
//!
//! A walk shows all entries of a range, one after another. Chunks are for those who stop and go on:
//! they begin small, for most questions are answered by a few entries, and grow, for a way along a
//! million entries should not begin a new search of the store for every hundred of them.

use std::ops::{Bound, ControlFlow};

use partita_model::{Error, Result};
use partita_storage::{Direction, Entry, KeyRange, ScanLimit, Snapshot, Space};

use crate::index::Terms;
use crate::keys;

const FIRST_CHUNK: usize = 64;
const LAST_CHUNK: usize = 16_384;
/// Keys of entries are small; this only bounds the memory of a chunk of unusual ones.
const CHUNK_BYTES: usize = 4 << 20;

/// The time is looked at once in so many entries: in a tenth of a millisecond, about.
const CHECK_EVERY: u64 = 1_024;

/// Asks whether a leaf has to stop: its time may be over.
pub(super) type Deadline<'a> = &'a (dyn Fn() -> Result<()> + 'a);

/// The index of one partition at one moment.
pub(super) struct IndexReader<'a> {
    pub(super) view: &'a dyn Snapshot,
    pub(super) deadline: Deadline<'a>,
    /// How the container's index is written.
    pub(super) terms: Terms,
    /// Entries looked at so far.
    pub(super) scanned: u64,
}

impl IndexReader<'_> {
    /// Calls `f` for the entries of a range until it breaks or fails. True if it came to the end.
    pub(super) fn walk(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<bool> {
        (self.deadline)()?;
        let mut end: Result<bool> = Ok(true);
        let (scanned, deadline) = (&mut self.scanned, self.deadline);
        self.view.walk(Space::Index, range, direction, &mut |key, value| {
            *scanned += 1;
            let in_time = if *scanned % CHECK_EVERY == 0 { deadline() } else { Ok(()) };
            match in_time.and_then(|()| f(key, value)) {
                Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                Ok(ControlFlow::Break(())) => {
                    end = Ok(false);
                    ControlFlow::Break(())
                }
                Err(error) => {
                    end = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        end
    }

    /// Calls `f` with the rid of every entry of a range, until it breaks.
    pub(super) fn walk_rids(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut f: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.walk(range, direction, |key, _| Ok(f(rid_of(key)?, key)))
    }
}

/// The rid that an entry ends with.
pub(super) fn rid_of(key: &[u8]) -> Result<u64> {
    keys::entry_rid(key).ok_or_else(|| Error::corrupt("an index entry has no resource id"))
}

/// A range, cut into pieces that are read one at a time.
pub(super) struct Chunks {
    range: Option<KeyRange>,
    direction: Direction,
    entries_max: usize,
}

impl Chunks {
    pub(super) fn new(range: KeyRange, direction: Direction) -> Chunks {
        Chunks { range: Some(range), direction, entries_max: FIRST_CHUNK }
    }

    /// The next entries; None at the end.
    pub(super) fn next(&mut self, reader: &mut IndexReader<'_>) -> Result<Option<Vec<Entry>>> {
        let Some(mut range) = self.range.take() else { return Ok(None) };
        (reader.deadline)()?;
        let limit = ScanLimit { entries_max: self.entries_max, bytes_max: CHUNK_BYTES };
        let page = reader.view.scan(Space::Index, &range, self.direction, limit)?;
        reader.scanned += page.entries.len() as u64;
        self.entries_max = (self.entries_max * 4).min(LAST_CHUNK);
        if let (true, Some(last)) = (page.more, page.entries.last()) {
            let last = Bound::Excluded(last.key.to_vec());
            match self.direction {
                Direction::Forward => range.start = last,
                Direction::Backward => range.end = last,
            }
            self.range = Some(range);
        }
        Ok((!page.entries.is_empty()).then_some(page.entries))
    }
}
