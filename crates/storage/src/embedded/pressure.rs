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
//! leave room for others knows of it long before ([`Spaces::pressure`]).

use std::thread;
use std::time::Duration;

use fjall::{AbstractTree, Keyspace};

use super::view::Spaces;
use crate::contract::Space;

/// With these the engine halts writers.
const BUFFERS_HALT: usize = 4;
const RUNS_HALT: usize = 30;

/// From here on there is a breath after each group.
const RUNS_MANY: usize = 18;
const BREATH_PER_RUN: Duration = Duration::from_millis(4);

const STEP: Duration = Duration::from_millis(2);
/// Should the engine not get on at all, it may as well halt the writer itself.
const STEPS_MAX: usize = 2_500;

impl Spaces {
    /// From 0, nothing to catch up with, to 1, writers are halted.
    pub(super) fn pressure(&self) -> f64 {
        let share = |now: usize, most: usize| now as f64 / most as f64;
        let buffers = share(self.buffers_waiting(), BUFFERS_HALT);
        buffers.max(share(self.runs(), RUNS_HALT)).min(1.0)
    }

    /// Lets the engine catch up before the next group is written.
    pub(super) fn let_catch_up(&self) {
        let runs = self.runs().saturating_sub(RUNS_MANY).min(RUNS_HALT - RUNS_MANY);
        if runs > 0 {
            // At most a dozen.
            thread::sleep(BREATH_PER_RUN * runs as u32);
        }
        for _ in 0..STEPS_MAX {
            if self.buffers_waiting() + 1 < BUFFERS_HALT {
                return;
            }
            thread::sleep(STEP);
        }
    }

    /// The same in words.
    pub(super) fn pressures(&self) -> String {
        let told = |(space, keyspace): (Space, &Keyspace)| {
            let (buffers, runs) = (keyspace.sealed_memtable_count(), keyspace.tree.l0_run_count());
            format!("{space:?}: {buffers} full buffers, {runs} new runs")
        };
        let told: Vec<String> = Space::ALL.into_iter().zip(&self.keyspaces).map(told).collect();
        told.join(", ")
    }

    fn buffers_waiting(&self) -> usize {
        self.keyspaces.iter().map(Keyspace::sealed_memtable_count).max().unwrap_or(0)
    }

    fn runs(&self) -> usize {
        self.keyspaces.iter().map(|keyspace| keyspace.tree.l0_run_count()).max().unwrap_or(0)
    }
}
