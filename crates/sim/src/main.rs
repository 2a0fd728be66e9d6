//! `partita-sim`: runs seeds of the simulator, and shows the shortest history of one that fails.
//!
//! ```text
//! cargo run --release -p partita-sim -- --seeds 1000
//! cargo run --release -p partita-sim -- --seconds 7200 --first 1000000
//! cargo run --release -p partita-sim -- --seed 4711
//! cargo run --release -p partita-sim -- --find-bugs
//! ```

#![allow(clippy::print_stdout, reason = "this program talks to people")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use partita_sim::bug::Bug;
use partita_sim::search::{Failure, Search, Summary, note_panics};

/// Runs the database on a simulated store, and checks all it does.
#[derive(Debug, Parser)]
#[command(name = "partita-sim")]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    seeds: u64,

    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,

    /// Run this seed and no other, and show its shortest history if it fails.
    #[arg(long, conflicts_with_all = ["seeds", "first", "seconds"])]
    seed: Option<u64>,

    /// Begin no further seed after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,

    /// Events of each seed; what follows from them comes on top.
    #[arg(long, default_value_t = 1_500)]
    steps: usize,

    /// Put this mistake in.
    #[arg(long)]
    bug: Option<Bug>,

    /// How many threads run seeds; all cores if not given.
    #[arg(long)]
    jobs: Option<usize>,

    /// Run all seeds, and only tell those that fail.
    #[arg(long)]
    keep_going: bool,

    /// Put in one mistake after the other, and fail unless each is found within the seeds.
    #[arg(long, conflicts_with_all = ["seed", "bug"])]
    find_bugs: bool,
}

impl Args {
    fn search(&self) -> Search {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let (first, seeds) = match self.seed {
            Some(seed) => (seed, 1),
            None if self.seeds == u64::MAX && self.seconds.is_none() => (self.first, 1_000),
            None => (self.first, self.seeds),
        };
        let jobs = self.jobs.unwrap_or_else(cores).max(1);
        let (steps, bug, goes_on) = (self.steps, self.bug, self.keep_going);
        Search { first, seeds, steps, jobs, bug, goes_on }
    }
}

#[allow(clippy::disallowed_methods, reason = "how long to run is a matter of real time")]
fn main() -> ExitCode {
    let args = Args::parse();
    note_panics();
    if args.find_bugs {
        return find_bugs(&args);
    }
    let ends = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let search = args.search();
    let summary = search.run(&|| ends.is_some_and(|ends| Instant::now() >= ends));
    for failure in summary.failures.iter().filter(|_| args.keep_going) {
        println!("seed {} fails: {}", failure.seed, failure.what);
    }
    match summary.failure() {
        None => match summary.shortage() {
            None => {
                println!("sim: {}, clean", line(&summary));
                ExitCode::SUCCESS
            }
            Some(what) => {
                println!("sim: {}, FAILED: too few {what}", line(&summary));
                ExitCode::FAILURE
            }
        },
        Some(failure) => {
            if !args.keep_going {
                show(&search, failure);
            }
            println!("sim: {}, FAILED at seed {}", line(&summary), failure.seed);
            ExitCode::FAILURE
        }
    }
}

fn find_bugs(args: &Args) -> ExitCode {
    let mut is_found = true;
    for bug in Bug::value_variants() {
        let search = Search { bug: Some(*bug), ..args.search() };
        let summary = search.run(&|| false);
        let found = summary.failure().map(|failure| (failure, search.blames_bug(failure)));
        is_found &= found.as_ref().is_some_and(|(_, blamed)| blamed.is_ok());
        match found {
            Some((Failure { seed, what }, Ok(()))) => {
                println!("sim: {bug:?} found by seed {seed}: {what}");
            }
            Some((Failure { seed, .. }, Err(what))) => {
                println!("sim: {bug:?} NOT found: seed {seed} fails without it, too: {what}");
            }
            None => println!("sim: {bug:?} NOT found: {}", line(&summary)),
        }
    }
    if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shows the shortest history that fails.
fn show(search: &Search, failure: &Failure) {
    println!("seed {} fails: {}\n", failure.seed, failure.what);
    let (plan, what) = search.shorten(failure);
    println!("The shortest history found: {}", plan.setup);
    plan.events.iter().for_each(|event| println!("{event}"));
    println!("and then everything comes to its end. It fails: {what}\n");
    let bug = search.bug.and_then(|bug| bug.to_possible_value());
    let bug = bug.map_or(String::new(), |bug| format!(" --bug {}", bug.get_name()));
    let (seed, steps) = (failure.seed, search.steps);
    println!(
        "To run it again: cargo run --release -p partita-sim -- --seed {seed} --steps {steps}{bug}"
    );
}

fn line(summary: &Summary) -> String {
    let total = &summary.total;
    format!(
        "{} seeds, {} steps ({} at least), {} commits, {} of {} operations done, {} moves ({} seen \
         through), {} policies, {} expiries, {} latecomers, {} reopenings, {} crashes ({} in \
         recoveries)",
        summary.seeds,
        total.steps,
        summary.steps_min,
        total.commits,
        total.acknowledged,
        total.asked,
        total.moves,
        total.moved,
        total.policies,
        total.expiries,
        total.latecomers,
        total.reopenings,
        total.crashes,
        total.recoveries_cut
    )
}
