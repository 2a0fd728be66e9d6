//! Running seeds: until one fails, or enough have passed.
//!
//! A panic of the engine is a failure as any other. Each seed is run by one thread; several threads
//! take seeds in turn.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::bug::Bug;
use crate::plan::Plan;
use crate::shrink::shortest;
use crate::world::{Report, Violation, run};

/// Which seeds are run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub first: u64,
    pub seeds: u64,
    /// Events of each run.
    pub steps: usize,
    pub jobs: usize,
    pub bug: Option<Bug>,
    /// Runs all seeds, whatever fails.
    pub goes_on: bool,
}

/// A seed that fails.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub what: Violation,
}

/// What was run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    pub total: Report,
    /// The fewest steps of a seed.
    pub steps_min: u64,
    pub failures: Vec<Failure>,
}

impl Summary {
    /// The first seed that fails.
    pub fn failure(&self) -> Option<&Failure> {
        self.failures.iter().min_by_key(|failure| failure.seed)
    }
}

/// So many seeds of so many steps are expected to do something of everything.
const SEEDS_TYPICAL: u64 = 200;
const STEPS_TYPICAL: u64 = 1_500;

impl Summary {
    /// What was done too little of for the seeds to mean much, if there is such. Some answers are
    /// always right, such as that something is to be tried again: not most of them.
    pub fn shortage(&self) -> Option<String> {
        let total = &self.total;
        let floors = [
            ("commits", total.commits, 20 * self.seeds),
            ("answers", total.acknowledged, total.asked / 2),
            ("moves that begin", total.moves, self.seeds),
            ("moves that end", total.moved, self.seeds / 4),
            ("changes of policies", total.policies, self.seeds),
            ("crashes", total.crashes, self.seeds),
            ("items that expire", total.expiries, self.seeds / 4),
            ("readers who come too late", total.latecomers, self.seeds / 20),
            ("reopenings", total.reopenings, self.seeds / 4),
            ("recoveries cut off", total.recoveries_cut, 1),
        ];
        let is_short = |(_, count, floor): &&(&str, u64, u64)| count < floor;
        let is_typical = self.seeds >= SEEDS_TYPICAL && self.steps_min >= STEPS_TYPICAL;
        let short = floors.iter().find(is_short).filter(|_| is_typical);
        short.map(|(what, count, floor)| format!("{count} {what}, at least {floor} are expected"))
    }
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics noted rather than printed.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.with(|noted| *noted.borrow_mut() = Some(format!("panic: {panic}")));
    }));
}

/// Runs a plan to its end, whatever that is.
pub fn run_safely(plan: &Plan, bug: Option<Bug>) -> Result<Report, Violation> {
    catch_unwind(AssertUnwindSafe(|| run(plan, bug))).unwrap_or_else(|_| {
        Err(PANIC.with(|noted| noted.borrow_mut().take()).unwrap_or_else(|| "panic".to_owned()))
    })
}

impl Search {
    /// Runs the seeds until one fails or `is_over` says that it is enough.
    pub fn run(&self, is_over: &(dyn Fn() -> bool + Sync)) -> Summary {
        let next = AtomicU64::new(self.first);
        let ends = AtomicBool::new(false);
        let summary = Mutex::new(Summary::default());
        let work = || {
            while !ends.load(Ordering::Relaxed) && !is_over() {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= self.first.saturating_add(self.seeds) {
                    return;
                }
                let result = run_safely(&Plan::new(seed, self.steps), self.bug);
                if result.is_err() && !self.goes_on {
                    ends.store(true, Ordering::Relaxed);
                }
                let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                summary.add(seed, result);
            }
        };
        thread::scope(|scope| {
            for job in 1..self.jobs {
                let named = thread::Builder::new().name(format!("sim-{job}"));
                // Without another thread it takes longer.
                drop(named.spawn_scoped(scope, work));
            }
            work();
        });
        summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is the mistake that was put in what a seed fails for? Error: it fails without it, too.
    pub fn blames_bug(&self, failure: &Failure) -> Result<(), Violation> {
        run_safely(&Plan::new(failure.seed, self.steps), None).map(drop)
    }

    /// The shortest plan found for a seed that fails, and how that fails.
    pub fn shorten(&self, failure: &Failure) -> (Plan, Violation) {
        let plan = Plan::new(failure.seed, self.steps);
        let mut what = failure.what.clone();
        let sort = sort_of(&failure.what);
        let short = shortest(&plan, |plan| match run_safely(plan, self.bug) {
            Err(violation) if sort_of(&violation) == sort => {
                what = violation;
                true
            }
            Ok(_) | Err(_) => false,
        });
        (short, what)
    }
}

/// What sort of failure it is, by how its text begins.
fn sort_of(what: &str) -> String {
    const LETTERS: usize = 14;
    what.chars().filter(char::is_ascii_alphabetic).take(LETTERS).collect()
}

impl Summary {
    fn add(&mut self, seed: u64, result: Result<Report, Violation>) {
        self.seeds += 1;
        match result {
            Ok(report) => {
                self.total.add(&report);
                let is_first = self.steps_min == 0;
                self.steps_min =
                    if is_first { report.steps } else { self.steps_min.min(report.steps) };
            }
            Err(what) => {
                self.failures.push(Failure { seed, what });
            }
        }
    }
}
