//! When writers have to wait for the engine, and how.
//!
//! A full write buffer becomes a table, and new tables are merged into the sorted levels, both in
//! the background. If more is written than these can follow, the engine halts the writer: when four
//! full buffers of a keyspace wait, in steps of 100 ms, and when it has 30 runs of new tables,
//! until a merge ends, which may take many seconds: 25 were seen.
//!
//! The committer goes before it: with three full buffers it waits in small steps until there are
//! fewer, and as runs gather it takes a breath before each group, which gets longer with each run.
//! So writers slow down to what the disk can do, instead of running into a wall, and who wants to
//! leave room for others knows of it long before ([`View::pressure`]). Changes of the index that
//! are not sorted in yet are limited as well (`index_memtable/`).
//!
//! **Memory.** Where little memory was set for changes, buffers do not wait until they are full:
//! when all of them together have half of it, the largest becomes a table, and when they have all
//! of it, the committer waits. What is not in tables is also what is read from the journal at a
//! start, so that is limited with it.

use std::thread;
use std::time::Duration;

use fjall::{AbstractTree, Database, Keyspace};

use crate::contract::{Result, Space};
use crate::embedded::index_memtable;
use crate::embedded::view::{Spaces, View, engine_error};

/// With these the engine halts writers.
const BUFFERS_HALT: usize = 4;
const RUNS_HALT: usize = 30;

/// From here on there is a breath before each group, by its size and by the square of what is over.
/// At 29 runs 2 MB a second are written, and from here to there it takes 20 seconds at least.
const RUNS_MANY: usize = 12;
const BREATH_MICROS_PER_MB: u64 = 1_500;
const BREATH_MAX: Duration = Duration::from_millis(500);

const STEP: Duration = Duration::from_millis(2);
/// Should the engine not get on at all, it may as well halt the writer itself.
const STEPS_MAX: usize = 2_500;

impl View {
    /// From 0, nothing to catch up with, to 1, writers are halted.
    pub(in crate::embedded) fn pressure(&self) -> f64 {
        self.spaces
            .pressure()
            .max(index_memtable::pressure(&self.runs, self.spaces.sort_bytes))
            .min(1.0)
    }
}

impl Spaces {
    /// From 0, nothing to catch up with, to 1, writers are halted.
    fn pressure(&self) -> f64 {
        let share = |now: usize, most: usize| now as f64 / most as f64;
        let buffers = share(self.buffers_waiting(), BUFFERS_HALT);
        buffers.max(share(self.runs(), RUNS_HALT)).min(1.0)
    }

    /// Lets the engine catch up before the next group, of this size, is written.
    /// `check` says whether the engine still works: one that does not never will.
    pub(in crate::embedded) fn let_catch_up(
        &self,
        bytes: usize,
        database: &Database,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let breath = breath(self.runs(), bytes);
        if breath > Duration::ZERO {
            thread::sleep(breath);
        }
        self.make_room(bytes, database)?;
        for _ in 0..STEPS_MAX {
            let fits =
                self.buffer_bytes_max.is_none_or(|most| database.write_buffer_size() <= most);
            if fits && self.buffers_waiting() + 1 < BUFFERS_HALT {
                break;
            }
            check()?;
            thread::sleep(STEP);
        }
        Ok(())
    }

    /// Has buffers written into tables, if all that there are and a group have half of the memory
    /// for changes: the largest, or with all of the memory every one.
    fn make_room(&self, bytes: usize, database: &Database) -> Result<()> {
        let Some(most) = self.buffer_bytes_max else { return Ok(()) };
        let used = database.write_buffer_size().saturating_add(bytes as u64);
        if used <= most / 2 {
            return Ok(());
        }
        let size = |keyspace: &&Keyspace| keyspace.tree.active_memtable().size();
        if used <= most {
            // One at a time: while one is on its way, the next would make small tables.
            if let (0, Some(largest)) = (self.buffers_waiting(), self.all().max_by_key(size)) {
                largest.rotate_memtable().map_err(engine_error)?;
            }
            return Ok(());
        }
        for keyspace in self.all().filter(|keyspace| size(keyspace) > 0) {
            keyspace.rotate_memtable().map_err(engine_error)?;
        }
        Ok(())
    }

    /// The same in words.
    pub(in crate::embedded) fn pressures(&self) -> String {
        let told = |(space, keyspace): (Space, &Keyspace)| {
            let (buffers, runs) = (keyspace.sealed_memtable_count(), keyspace.tree.l0_run_count());
            format!("{space:?}: {buffers} full buffers, {runs} new runs")
        };
        let told: Vec<String> = Space::ALL.into_iter().zip(&self.keyspaces).map(told).collect();
        told.join(", ")
    }

    /// What is in write buffers of keyspaces whose records become tables.
    pub(in crate::embedded) fn buffered_bytes(&self) -> u64 {
        let of = |(keyspace, bytes): (&Keyspace, &u64)| {
            let full = keyspace.sealed_memtable_count() as u64;
            full.saturating_mul(*bytes).saturating_add(keyspace.tree.active_memtable().size())
        };
        self.keyspaces.iter().zip(&self.buffer_bytes).map(of).sum()
    }

    /// Whether the engine would halt a writer until a merge has ended.
    pub(in crate::embedded) fn has_too_many_runs(&self) -> bool {
        self.runs() + 1 >= RUNS_HALT
    }

    /// Whether there are so few that writers are not slowed down.
    pub(in crate::embedded) fn has_few_runs(&self) -> bool {
        self.runs() < RUNS_MANY
    }

    fn buffers_waiting(&self) -> usize {
        self.all().map(Keyspace::sealed_memtable_count).max().unwrap_or(0)
    }

    fn runs(&self) -> usize {
        self.all().map(|keyspace| keyspace.tree.l0_run_count()).max().unwrap_or(0)
    }
}

fn breath(runs: usize, bytes: usize) -> Duration {
    let over = runs.saturating_sub(RUNS_MANY).min(RUNS_HALT - RUNS_MANY) as u64;
    let micros = over * over * BREATH_MICROS_PER_MB * bytes as u64 / 1_000_000;
    Duration::from_micros(micros).min(BREATH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_slow_down_before_the_engine_halts_them() {
        assert_eq!(breath(RUNS_MANY, 1_000_000), Duration::ZERO);
        assert!(breath(20, 10_000) < Duration::from_millis(1), "small groups hardly wait");
        // From many runs to too many, with buffers of 8 MB that are written in groups of 100 KB.
        let runs = RUNS_MANY..RUNS_HALT;
        let all: Duration = runs.map(|runs| breath(runs, 100_000) * 80).sum();
        assert!(all > Duration::from_secs(20), "{all:?}");
        assert!(breath(usize::MAX, usize::MAX / 1_000_000) <= BREATH_MAX);
    }
}
