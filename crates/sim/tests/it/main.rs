//! The simulator itself: its store conforms, its runs repeat, and it finds what it is for.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

use partita_sim::bug::Bug;
use partita_sim::plan::Plan;
use partita_sim::search::{Search, run_safely};
use partita_sim::store::{Disk, StoreSettings};
use partita_storage::Store;
use partita_storage::suite::{self, Rig};

struct Simulated(Disk);

impl Rig for Simulated {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.0.open())
    }

    fn is_durable(&self) -> bool {
        true
    }
}

#[test]
fn the_simulated_store_conforms() {
    for lanes in [1, 3] {
        let settings = StoreSettings { lanes, ..StoreSettings::default() };
        suite::run("simulated", &|| Box::new(Simulated(Disk::new(settings))));
    }
}

#[test]
fn the_same_seed_has_the_same_trace() {
    let mut traces = Vec::new();
    for seed in 1..=4 {
        let run = || run_safely(&Plan::new(seed, 600), None).unwrap();
        let (one, other) = (run(), run());
        assert_eq!((one.trace, one.steps), (other.trace, other.steps), "seed {seed}");
        assert!(one.commits > 0, "seed {seed} does nothing");
        traces.push(one.trace);
    }
    traces.dedup();
    assert_eq!(traces.len(), 4, "seeds differ");
}

/// Seeds of a short run, each enough for the mistake to show.
fn finds(bug: Bug) {
    let search =
        Search { first: 1, seeds: 1_000, steps: 1_000, jobs: 2, bug: Some(bug), goes_on: false };
    let summary = search.run(&|| false);
    let Some(failure) = summary.failure() else {
        panic!("{bug:?} was not found in {} seeds", summary.seeds);
    };
    let blamed = search.blames_bug(failure);
    assert_eq!(blamed, Ok(()), "seed {} fails without {bug:?}, too", failure.seed);
}

#[test]
fn a_write_let_through_the_fence_is_found() {
    finds(Bug::FenceLeak);
}

#[test]
fn a_record_of_the_feed_lost_in_a_move_is_found() {
    finds(Bug::LostCopy);
}

#[test]
fn a_record_of_the_feed_copied_twice_is_found() {
    finds(Bug::DoubleCopy);
}

#[test]
fn an_acknowledgement_before_the_sync_is_found() {
    finds(Bug::EarlyAck);
}

#[test]
fn a_unique_key_without_its_expectation_is_found() {
    finds(Bug::UnguardedUnique);
}

#[test]
fn the_removal_of_an_item_that_was_written_again_is_found() {
    finds(Bug::BlindExpiry);
}
