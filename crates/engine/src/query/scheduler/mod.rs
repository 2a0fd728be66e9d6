//! The scheduler: on which threads a query runs.
//!
//! **Inline, with a deadline.** Most queries take less time than it takes to hand them to another
//! thread and the answer back. So a door may run a query on the thread that read its request, as it
//! does with a point read (`Database::try_inline`). Nobody knows beforehand how long a query
//! takes, so this is an *attempt*: once its deadline has passed it is given up, and the query runs
//! in the pool, where nobody waits behind it. A given-up attempt leaves neither charge nor count;
//! what it parsed and lowered is there for the second run (`prepared.rs`).
//!
//! An attempt ends at a look at the clock. Between two looks lie some hundred index entries or a
//! few items. So only queries are attempted that do little for each: without functions, subqueries
//! and joins, and with a short text, since parsing comes first. What has to see all items before it
//! has a row is not attempted, unless it only counts them. A query that missed its deadline is
//! attempted more and more rarely ([`History`]). With one client at a time nobody waits behind a
//! query, and to wake two threads up is a good part of its time: so if no other operation was
//! answered since an attempt began, its deadline is extended once.
//!
//! **In the pool.** Whatever is not attempted, or was in vain, a door hands to its pool of threads,
//! where a query has no deadline but the limits of its page.
//!
//! **With helper threads.** Inline or in the pool, a query works in rounds: a [`Round`] asks some
//! units the same question (`leaves.rs`), one after the other, and helper threads take some of them
//! off it (`threads.rs`). Most rounds are over before another thread has woken up. So help is
//! called when the query has taken a while, at a look at the clock, and at once only for queries
//! that are known to take longer or run in the pool. There it is threads of the pool that
//! help, which take their turns among those of other queries (`context/supervision.rs`).

pub(super) mod leaves;
pub(super) mod threads;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use partita_model::{Error, Result, Threads, Value};
use partita_query::{Facts, Reads};

use self::leaves::{Answer, Asked, Task};
use self::threads::{HelperThreads, Round};
use super::{Job, Queries};
use crate::context::Work;
use crate::op::{ContainerPath, Outcome, QueryRequest};

/// The longest text that is attempted inline, also as a parameter.
const TEXT_BYTES_MAX: usize = 1_024;
/// The most parameters of an inline attempt.
const PARAMETERS_MAX: usize = 16;

/// What the queries of a database share: helper threads, and how attempts went.
pub(crate) struct Scheduler {
    helper_threads: HelperThreads,
    history: History,
    /// How many operations were answered.
    answered: AtomicU64,
}

impl Scheduler {
    /// `count`: how many threads may work on one query, its own included.
    pub(crate) fn new(count: usize, threads: Arc<dyn Threads>) -> Scheduler {
        Scheduler {
            helper_threads: HelperThreads::new(count.saturating_sub(1), threads),
            history: History::new(),
            answered: AtomicU64::new(0),
        }
    }
}

impl Queries {
    /// Hears of every operation that was answered.
    pub(crate) fn note_answer(&self) {
        self.scheduler.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs a query here if that takes little time. None: it takes longer, and is to be executed
    /// where nobody waits for the thread.
    pub(crate) fn attempt(
        &self,
        work: &mut Work<'_>,
        container: &ContainerPath,
        query: &QueryRequest,
        check: impl FnOnce() -> Result<()>,
    ) -> Option<Result<Outcome>> {
        let settings = &self.core.settings.query;
        if settings.inline_micros == 0 || !is_short(query) {
            return None;
        }
        let shape = self.scheduler.history.shape(container, query);
        if !shape.may_attempt() {
            return None;
        }
        let began_nanos = self.core.clock.monotonic_nanos();
        let helpers_at_once = shape.alone_micros() >= settings.helpers_after_micros;
        let attempt = Attempt::new(self, began_nanos, helpers_at_once);
        let result = check().and_then(|()| self.query(work, container, query, Some(&attempt)));
        let micros = self.core.clock.monotonic_nanos().saturating_sub(began_nanos) / 1_000;
        shape.note(attempt.is_given_up(), micros, helpers_at_once);
        (!attempt.is_given_up()).then_some(result)
    }
}

fn is_short(query: &QueryRequest) -> bool {
    let is_small = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.len() <= TEXT_BYTES_MAX,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    };
    query.text.len() <= TEXT_BYTES_MAX
        && query.parameters.len() <= PARAMETERS_MAX
        && query.parameters.iter().all(|(_, value)| is_small(value))
        && query.resume.is_none()
}

/// May a query take little time, by what it is?
pub(super) fn may_be_brief(facts: &Facts) -> bool {
    let only_counts = matches!(&facts.selects, Reads::Paths(paths) if paths.is_empty());
    facts.is_simple && !facts.distinct && (!facts.is_grouped || only_counts)
}

/// An inline attempt under way.
pub(crate) struct Attempt {
    /// On the clock's nanoseconds.
    deadline_nanos: Cell<u64>,
    /// How far the deadline is extended if no other operation is answered.
    extension_nanos: Cell<u64>,
    /// How many operations had been answered when it began.
    answered_before: u64,
    /// The query is known to take long enough for helper threads.
    helpers_at_once: bool,
    given_up: Cell<bool>,
}

impl Attempt {
    fn new(queries: &Queries, began_nanos: u64, helpers_at_once: bool) -> Attempt {
        let settings = &queries.core.settings.query;
        let extension_micros = settings.inline_quiet_micros.saturating_sub(settings.inline_micros);
        Attempt {
            deadline_nanos: Cell::new(began_nanos + settings.inline_micros * 1_000),
            extension_nanos: Cell::new(extension_micros * 1_000),
            answered_before: queries.scheduler.answered.load(Ordering::Relaxed),
            helpers_at_once,
            given_up: Cell::new(false),
        }
    }

    /// Called with the current time; returns true once the deadline has passed. `answered`: how
    /// many operations have been answered by now.
    fn is_late(&self, now_nanos: u64, answered: &AtomicU64) -> bool {
        if now_nanos > self.deadline_nanos.get() {
            let is_quiet = answered.load(Ordering::Relaxed) == self.answered_before;
            let extension_nanos = if is_quiet { self.extension_nanos.take() } else { 0 };
            let deadline_nanos = self.deadline_nanos.get().saturating_add(extension_nanos);
            self.deadline_nanos.set(deadline_nanos);
            self.given_up.set(now_nanos > deadline_nanos);
        }
        self.given_up.get()
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.get()
    }

    /// Gives up. Nobody hears of the error: the query is executed elsewhere.
    pub(super) fn give_up(&self) -> Error {
        self.given_up.set(true);
        Error::timeout("The query takes longer than others can wait")
    }
}

/// Runs a round on this thread, and on helper threads if it takes a while. The answers are those of
/// the first tasks: of all, unless fewer are enough.
pub(super) fn run(job: &Job<'_>, asked: Asked, tasks: Vec<Task>) -> Result<Vec<Answer>> {
    let settings = job.budget.settings;
    let scheduler = &job.queries.scheduler;
    let wanted = Cell::new(settings.parallelism.min(tasks.len()).saturating_sub(1));
    // What was attempted in vain, or not at all, is likely to take long.
    let at_once = job.attempt.map_or(settings.inline_micros > 0, |attempt| attempt.helpers_at_once);
    let alone_micros = if at_once { 0 } else { settings.helpers_after_micros };
    let alone_until_nanos = job.budget.started_nanos + alone_micros * 1_000;
    let round = Arc::new(Round::new(asked, tasks));
    let watch = |now_nanos: u64| {
        if job.attempt.is_some_and(|attempt| attempt.is_late(now_nanos, &scheduler.answered)) {
            return true;
        }
        if wanted.get() > 0 && now_nanos >= alone_until_nanos {
            call_help(job, wanted.take(), &round);
        }
        false
    };
    round.take_part(Some(&watch));
    // Others wait for the thread of an attempt: it does not wait for one that is held up.
    let wait = |_| Duration::from_micros(settings.inline_micros);
    let is_done = round.is_done_within(job.attempt.map_or(Duration::ZERO, wait));
    if !is_done && job.attempt.is_none() {
        job.budget.supervision.wait_for_help(&mut || {
            round.is_done_within(Duration::MAX);
        });
    }
    match job.attempt {
        Some(attempt) if !is_done || attempt.is_given_up() => Err(attempt.give_up()),
        Some(_) | None => round.answers(),
    }
}

/// Calls helper threads to a round: in the pool of whoever supervises the query those that are to
/// spare there, else the database's own.
fn call_help(job: &Job<'_>, count: usize, round: &Arc<Round<Asked>>) {
    let Some(supervisor) = job.budget.supervision.supervisor() else {
        return job.queries.scheduler.helper_threads.call(count, round);
    };
    for _ in 0..count {
        let round = Arc::clone(round);
        if !supervisor.help(Box::new(move || round.take_part(None))) {
            return;
        }
    }
}

/// Shapes that are told apart.
const SHAPES: usize = 1_024;
/// How many queries are not attempted after the first that missed its deadline, and after many.
const BACK_OFF_FIRST: u32 = 8;
const BACK_OFF_MAX: u32 = 4_096;
const HALF: u32 = 16;

/// How attempts went lately, by the shape of a query: its container and its text without literals.
/// Two shapes may share a slot, which costs time and nothing else.
struct History([Shape; SHAPES]);

#[derive(Default)]
struct Shape {
    /// Low 16 bits: queries still to skip. High 16 bits: the last back-off.
    skips: AtomicU32,
    /// How long a query takes on one thread, about, in microseconds.
    alone: AtomicU32,
}

impl History {
    fn new() -> History {
        History(std::array::from_fn(|_| Shape::default()))
    }

    fn shape(&self, container: &ContainerPath, query: &QueryRequest) -> &Shape {
        let names = container.database.bytes().chain(container.container.bytes());
        // FNV-1a.
        let hash = names.chain(query.shape()).fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        // The remainder is below the number of shapes.
        &self.0[(hash % SHAPES as u64) as usize]
    }
}

impl Shape {
    /// Is this query to be attempted? If not, it counts as skipped.
    fn may_attempt(&self) -> bool {
        let now = self.skips.load(Ordering::Relaxed);
        let left = now & ((1 << HALF) - 1);
        if left > 0 {
            // Of two threads at once, one skip may be lost.
            self.skips.store(now - 1, Ordering::Relaxed);
        }
        left == 0
    }

    fn alone_micros(&self) -> u64 {
        u64::from(self.alone.load(Ordering::Relaxed))
    }

    /// Remembers whether an attempt was late, and how long it took. With help it took less than
    /// alone, so what is known of that is lowered only step by step, until it runs alone again.
    fn note(&self, is_late: bool, micros: u64, had_help: bool) {
        let micros = u32::try_from(micros).unwrap_or(u32::MAX);
        let before = self.alone.load(Ordering::Relaxed);
        let least = if had_help { before - before / 8 } else { 0 };
        self.alone.store(micros.max(least), Ordering::Relaxed);
        let last = self.skips.load(Ordering::Relaxed) >> HALF;
        let skips = match is_late {
            true => (last * 2).clamp(BACK_OFF_FIRST, BACK_OFF_MAX),
            false if last == 0 => return,
            false => 0,
        };
        self.skips.store(skips << HALF | skips, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape<'h>(history: &'h History, text: &str) -> &'h Shape {
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        history.shape(&path, &QueryRequest::new(text))
    }

    /// How many queries are skipped before the next attempt, which is late.
    fn skipped(history: &History, text: &str) -> u32 {
        let shape = shape(history, text);
        let mut skipped = 0;
        while !shape.may_attempt() {
            skipped += 1;
        }
        shape.note(true, 1, false);
        skipped
    }

    #[test]
    fn a_deadline_is_extended_once_if_no_other_operation_was_answered() {
        let attempt = || Attempt {
            deadline_nanos: Cell::new(1_000),
            extension_nanos: Cell::new(4_000),
            answered_before: 7,
            helpers_at_once: false,
            given_up: Cell::new(false),
        };
        let (quiet, busy) = (AtomicU64::new(7), AtomicU64::new(8));
        let alone = attempt();
        let late = [1_000, 1_001, 5_000, 5_001].map(|now| alone.is_late(now, &quiet));
        assert_eq!(late, [false, false, false, true]);
        assert!(attempt().is_late(1_001, &busy));
        let extended = attempt();
        assert!(!extended.is_late(1_001, &quiet) && !extended.is_late(4_999, &busy));
        assert!(extended.is_late(5_001, &quiet) && extended.is_given_up());
    }

    #[test]
    fn what_takes_long_alone_calls_helpers_at_once_until_it_is_seen_alone_again() {
        let history = History::new();
        let shape = shape(&history, "SELECT * FROM c");
        shape.note(false, 400, false);
        let alone = [200, 350, 100, 100].map(|micros| {
            shape.note(false, micros, true);
            shape.alone_micros()
        });
        assert_eq!(alone, [350, 350, 307, 269]);
        shape.note(false, 100, false);
        assert_eq!(shape.alone_micros(), 100);
    }

    #[test]
    fn what_missed_its_deadline_is_attempted_more_and_more_rarely() {
        let history = History::new();
        let text = |n: u32| format!("SELECT * FROM c WHERE c.a = {n} AND c.b = 'b{n}'");
        let counts: Vec<u32> = (0..13).map(|n| skipped(&history, &text(n))).collect();
        assert_eq!(counts, [0, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 4_096, 4_096]);
        assert_eq!(skipped(&history, "SELECT * FROM c WHERE c.a = 1"), 0, "another query");
        let shape = shape(&history, &text(0));
        shape.note(false, 1, false);
        assert!(shape.may_attempt());
    }
}
