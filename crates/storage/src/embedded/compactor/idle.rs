//! What a lane does when nobody writes.
//!
//! While there are writes, the newest of them are in write buffers, which are slower to search than
//! tables, and each view keeps the tables alive that were there when it was taken: also those that
//! merges have replaced since. The next writes change both. When none come, a lane that has just
//! been filled would stay like that for as long as it is only read. So after a second without work
//! its buffers are written into tables, changes of the index are sorted in (`index_memtable/`),
//! what is in several runs of tables and not very large is made one (`compactor/`), and as
//! long as there are replaced tables, the view is renewed, so that they can go. That does not wait
//! for the one run: on a full disk there may never be room for it, and what merges replaced is what
//! was deleted.
//!
//! Buffers with little in them stay: they cost little, and small tables cost merges. But not on a
//! full disk: a few deletions may free much, and merges see only tables. Looks get rarer and end
//! after a minute or two; a lane that is not written to then sleeps without a clock.

use std::time::{Duration, Instant};

use fjall::{AbstractTree, Keyspace};

use crate::contract::{DiskLevel, Space};
use crate::embedded::committer::now;
use crate::embedded::compactor;
use crate::embedded::view::Spaces;

/// A buffer with less than this stays, if there is room on the disk.
const BUFFER_BYTES_MIN: u64 = 1024 * 1024;

/// So often on a full disk, where there is always work, what was deleted becomes tables.
const RELIEF_AFTER: Duration = Duration::from_secs(2);

/// The time without work before the first look; after every other one it is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LOOKS_MAX: u32 = 12;

/// What has this size at most is made one run in any rest, which takes a second; what has more, up
/// to a limit that takes some seconds, in a rest that has lasted for so many looks: six seconds.
const SMALL_BYTES_MAX: u64 = 64 * 1024 * 1024;
const WHOLE_BYTES_MAX: u64 = 256 * 1024 * 1024;
const LONG_REST_LOOKS: u32 = 3;

/// Those whose tables count.
const LARGE: [Space; 3] = [Space::Items, Space::Index, Space::Feed];

/// A time without work.
#[derive(Debug)]
pub(in crate::embedded) struct Rest {
    looks_left: u32,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Next {
    /// Nothing, until there was work again.
    Done,
    /// Nothing yet: the engine is busy.
    Wait,
    /// Write the buffers of these spaces into tables.
    Flush(Vec<Space>),
    /// Make one run of what has several and no more bytes than this, and let go of replaced tables
    /// that there are already.
    Merge(u64),
    /// Let go of replaced tables.
    LetGo,
}

impl Rest {
    /// After work, or when the lane was opened.
    pub(in crate::embedded) fn begin() -> Rest {
        Rest { looks_left: LOOKS_MAX }
    }

    /// No more looks.
    pub(in crate::embedded) fn end(&mut self) {
        self.looks_left = 0;
    }

    /// How long until the next look; none when there is nothing to look for.
    pub(in crate::embedded) fn wait(&self) -> Option<Duration> {
        let looks = LOOKS_MAX - self.looks_left.min(LOOKS_MAX);
        (self.looks_left > 0).then(|| FIRST_WAIT * 2u32.saturating_pow(looks / 2))
    }

    /// Looks. `merges` says whether it is for us to merge tables, `least` in how small a buffer
    /// [there is something worth a table](bytes_worth_a_table).
    pub(in crate::embedded) fn next(&mut self, spaces: &Spaces, merges: bool, least: u64) -> Next {
        let whole_bytes = if merges { self.whole_bytes() } else { 0 };
        self.looks_left = self.looks_left.saturating_sub(1);
        let keyspaces = || LARGE.into_iter().map(|space| (space, spaces.get(space)));
        let full = worth_a_table(spaces, least);
        let in_parts = |bytes| keyspaces().any(|(_, keyspace)| is_in_parts(keyspace, bytes));
        let next = if !full.is_empty() {
            Next::Flush(full)
        } else if keyspaces().any(|(_, keyspace)| keyspace.sealed_memtable_count() > 0) {
            Next::Wait
        } else if in_parts(whole_bytes) {
            Next::Merge(whole_bytes)
        } else if has_replaced_tables(spaces) {
            Next::LetGo
        } else if merges && in_parts(WHOLE_BYTES_MAX) {
            Next::Wait
        } else {
            Next::Done
        };
        if next == Next::Done {
            self.end();
        }
        next
    }

    /// How large a keyspace may be that is worth being made one run now.
    fn whole_bytes(&self) -> u64 {
        match LOOKS_MAX - self.looks_left.min(LOOKS_MAX) {
            0 => 0,
            looks if looks < LONG_REST_LOOKS => SMALL_BYTES_MAX,
            _ => WHOLE_BYTES_MAX,
        }
    }
}

/// Whether a keyspace has no more bytes than this, and those are not one run.
fn is_in_parts(keyspace: &Keyspace, bytes_max: u64) -> bool {
    keyspace.tree.disk_space() <= bytes_max && !compactor::is_whole(keyspace)
}

/// Whether there are tables that merges have replaced and a view may keep.
pub(in crate::embedded) fn has_replaced_tables(spaces: &Spaces) -> bool {
    LARGE.into_iter().any(|space| spaces.get(space).tree.version_free_list_len() > 0)
}

/// How much a buffer or the pending changes of the index must have to be made tables of when there
/// is time. Many small tables that cannot be merged would keep even deletes from being written.
pub(in crate::embedded) fn bytes_worth_a_table(spaces: &Spaces, level: DiskLevel) -> u64 {
    let is_relief = level >= DiskLevel::Full && spaces.has_few_runs();
    if is_relief { 1 } else { BUFFER_BYTES_MIN }
}

/// The spaces that have so much in their buffers.
pub(in crate::embedded) fn worth_a_table(spaces: &Spaces, least: u64) -> Vec<Space> {
    let bytes = |space: &Space| spaces.get(*space).tree.active_memtable().size();
    LARGE.into_iter().filter(|space| bytes(space) >= least).collect()
}

/// When what was deleted on a full disk becomes tables while there is work.
#[derive(Debug, Default)]
pub(in crate::embedded) struct Relief {
    /// Something was deleted that may be in no table yet.
    is_needed: bool,
    last: Option<Instant>,
}

impl Relief {
    /// A group was written; true if it is time.
    pub(in crate::embedded) fn is_due(&mut self, frees: bool, level: DiskLevel) -> bool {
        self.is_needed |= frees;
        let is_due = self.is_needed
            && level >= DiskLevel::Full
            && self.last.is_none_or(|last| now().duration_since(last) >= RELIEF_AFTER);
        if is_due {
            *self = Relief { is_needed: false, last: Some(now()) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_get_rarer_and_end() {
        let mut rest = Rest::begin();
        let mut waits = Vec::new();
        while let Some(wait) = rest.wait() {
            waits.push(wait.as_secs());
            rest.looks_left -= 1;
        }
        assert_eq!(waits, [1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32]);
    }
}
