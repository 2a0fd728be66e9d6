//! Queries that are answered on the spot.
//!
//! Most queries take less time than it takes to hand them to another thread and the answer back. So
//! a door may let a query run where its request came in, as it does with a point read. Nobody knows
//! beforehand how long it takes: it is tried. When too much time has passed the try is given up. It
//! leaves no trace then, neither charge nor count, and the query begins again where nobody waits
//! behind it.
//!
//! A try ends at a look at the clock. Between two of them lie some hundred entries or a few items,
//! if each takes little: so only queries without functions, subqueries and joins are tried, whose
//! work is in proportion to the items, and only short ones, since reading the text comes first.
//! What has to see all items before it tells anything is not tried, unless it only counts them.
//!
//! What took too long is tried more and more rarely: [`Tries`] remembers it by its text without the
//! literals. Two queries may share a place there, which costs time and nothing else.
//!
//! A server that serves one client at a time has nobody who waits behind a query, and two threads
//! to wake up are a good part of the time that a query of a millisecond takes. So where nothing
//! else was answered since a try began, it gets several times as long.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use partita_model::Value;
use partita_query::{Facts, Reads};

use crate::access;
use crate::context::{Context, Work};
use crate::database::Database;
use crate::op::{ContainerPath, Op, QueryRequest, Reply};

/// The longest text that is tried, also as a parameter.
const TEXT_BYTES_MAX: usize = 1_024;
/// The most parameters of one.
const PARAMETERS_MAX: usize = 16;

/// A try under way, or a query that has all the time of the others.
pub(super) struct Spot {
    until_nanos: Cell<u64>,
    /// How much longer it may take if nobody else is there.
    more_nanos: Cell<u64>,
    /// How many operations had been answered when it began.
    answered: u64,
    /// It shall call others to help at once.
    pub(super) shares_at_once: bool,
    gone: Cell<bool>,
}

impl Spot {
    pub(super) fn new(database: &Database, work: &Work<'_>) -> Spot {
        let settings = &database.settings.query;
        let more_micros = settings.spot_quiet_micros.saturating_sub(settings.spot_micros);
        Spot {
            until_nanos: Cell::new(work.spot_until_nanos.unwrap_or(u64::MAX)),
            more_nanos: Cell::new(more_micros * 1_000),
            answered: database.answered.load(Ordering::Relaxed),
            shares_at_once: work.shares_at_once,
            gone: Cell::new(false),
        }
    }

    pub(super) fn is_try(&self) -> bool {
        self.until_nanos.get() < u64::MAX
    }

    /// Is the time of the try over? `answered`: how many operations have been answered.
    pub(super) fn is_over(&self, now_nanos: u64, answered: &AtomicU64) -> bool {
        if now_nanos > self.until_nanos.get() {
            let is_quiet = answered.load(Ordering::Relaxed) == self.answered;
            let more_nanos = if is_quiet { self.more_nanos.take() } else { 0 };
            self.until_nanos.set(self.until_nanos.get().saturating_add(more_nanos));
            self.gone.set(now_nanos > self.until_nanos.get());
        }
        self.gone.get()
    }

    /// Has it been given up?
    pub(super) fn is_given_up(&self) -> bool {
        self.gone.get()
    }

    pub(super) fn give_up(&self) {
        self.gone.set(true);
    }
}

impl Database {
    /// Answers a query if that takes little time. None: it is no query, or takes longer, and shall
    /// be executed where nobody waits for it.
    pub fn answer_on_the_spot(&self, op: &Op, context: &Context) -> Option<Reply> {
        let Op::Query { container, query } = op else { return None };
        let micros = self.settings.query.spot_micros;
        let is_short = query.text.len() <= TEXT_BYTES_MAX
            && query.parameters.len() <= PARAMETERS_MAX
            && query.parameters.iter().all(|(_, value)| is_small(value))
            && query.resume.is_none();
        if micros == 0 || !is_short {
            return None;
        }
        let place = self.tries.place(container, query);
        if !place.may_try() {
            return None;
        }
        let mut work = Work::new(context);
        let began_nanos = self.clock.monotonic_nanos();
        work.spot_until_nanos = Some(began_nanos + micros * 1_000);
        work.shares_at_once = place.lasted_micros() >= self.settings.query.alone_micros;
        let result = match access::check(self, context, op) {
            Ok(()) => self.query(&mut work, container, query),
            Err(error) => Err(error),
        };
        let micros = self.clock.monotonic_nanos().saturating_sub(began_nanos) / 1_000;
        place.note(work.given_up, micros, work.shares_at_once);
        (!work.given_up).then(|| self.reply(work, result))
    }
}

/// May a query take little time, by what it is?
pub(super) fn is_brief(facts: &Facts) -> bool {
    let only_counts = matches!(&facts.selects, Reads::Paths(paths) if paths.is_empty());
    facts.is_simple && !facts.distinct && (!facts.is_grouped || only_counts)
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => text.len() <= TEXT_BYTES_MAX,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

const PLACES: usize = 1_024;
/// How many queries are not tried after the first one that took too long, and after many.
const PASSED_FIRST: u32 = 8;
const PASSED_MAX: u32 = 4_096;
const HALF: u32 = 16;

/// What came of tries lately. A place has how many are to be passed over, and in its upper half how
/// many it were the last time.
pub(crate) struct Tries {
    places: Vec<AtomicU32>,
    /// How long one takes alone, about, in microseconds.
    lasted: Vec<AtomicU32>,
}

impl Default for Tries {
    fn default() -> Tries {
        let nothing = || (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Tries { places: nothing(), lasted: nothing() }
    }
}

impl Tries {
    fn place(&self, container: &ContainerPath, query: &QueryRequest) -> Place<'_> {
        let names = [container.database.as_bytes(), container.container.as_bytes()];
        let mut hash = names.concat().into_iter().fold(FNV_START, fnv);
        let mut quote = None;
        for byte in query.text.bytes() {
            match quote {
                Some(open) if open == byte => quote = None,
                Some(_) => {}
                None if byte.is_ascii_digit() => {}
                None => {
                    quote = matches!(byte, b'"' | b'\'').then_some(byte);
                    hash = fnv(hash, byte);
                }
            }
        }
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        Place { passed: self.places.get(at), lasted: self.lasted.get(at) }
    }
}

const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
}

/// What is remembered of one kind of queries.
struct Place<'t> {
    passed: Option<&'t AtomicU32>,
    lasted: Option<&'t AtomicU32>,
}

impl Place<'_> {
    /// Is this one to be tried? If not, it counts as passed over.
    fn may_try(&self) -> bool {
        let Some(place) = self.passed else { return true };
        let now = place.load(Ordering::Relaxed);
        let left = now & ((1 << HALF) - 1);
        if left > 0 {
            // Who is overtaken here passes one over too many or too few.
            place.store(now - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// How long a try takes alone, about.
    fn lasted_micros(&self) -> u64 {
        self.lasted.map_or(0, |lasted| u64::from(lasted.load(Ordering::Relaxed)))
    }

    /// Remembers whether a try took too long, and how long it took. If others helped, it would have
    /// taken longer alone, as it did before; that is forgotten step by step, until it runs alone
    /// again.
    fn note(&self, too_long: bool, micros: u64, is_shared: bool) {
        if let Some(lasted) = self.lasted {
            let micros = u32::try_from(micros).unwrap_or(u32::MAX);
            let before = lasted.load(Ordering::Relaxed);
            let least = if is_shared { before - before / 8 } else { 0 };
            lasted.store(micros.max(least), Ordering::Relaxed);
        }
        let Some(place) = self.passed else { return };
        let last = place.load(Ordering::Relaxed) >> HALF;
        let passed = match too_long {
            true => (last * 2).clamp(PASSED_FIRST, PASSED_MAX),
            false if last == 0 => return,
            false => 0,
        };
        place.store(passed << HALF | passed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(tries: &Tries, text: &str) -> u32 {
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        let place = tries.place(&path, &QueryRequest::new(text));
        let mut passed = 0;
        while !place.may_try() {
            passed += 1;
        }
        place.note(true, 1, false);
        passed
    }

    #[test]
    fn a_try_gets_longer_once_if_nobody_else_was_answered() {
        let spot = || Spot {
            until_nanos: Cell::new(1_000),
            more_nanos: Cell::new(4_000),
            answered: 7,
            shares_at_once: false,
            gone: Cell::new(false),
        };
        let (quiet, busy) = (AtomicU64::new(7), AtomicU64::new(8));
        let alone = spot();
        let over = [1_000, 1_001, 5_000, 5_001].map(|now| alone.is_over(now, &quiet));
        assert_eq!(over, [false, false, false, true]);
        assert!(spot().is_over(1_001, &busy));
        let late = spot();
        assert!(!late.is_over(1_001, &quiet) && !late.is_over(4_999, &busy));
        assert!(late.is_over(5_001, &quiet) && late.is_given_up());
    }

    #[test]
    fn what_takes_long_alone_is_shared_until_it_is_seen_alone_again() {
        let tries = Tries::default();
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        let place = tries.place(&path, &QueryRequest::new("SELECT * FROM c"));
        place.note(false, 400, false);
        let lasted = [200, 350, 100, 100].map(|micros| {
            place.note(false, micros, true);
            place.lasted_micros()
        });
        assert_eq!(lasted, [350, 350, 307, 269]);
        place.note(false, 100, false);
        assert_eq!(place.lasted_micros(), 100);
    }

    #[test]
    fn what_took_too_long_is_tried_more_and_more_rarely() {
        let tries = Tries::default();
        let text = |n: u32| format!("SELECT * FROM c WHERE c.a = {n} AND c.b = 'b{n}'");
        let counts: Vec<u32> = (0..13).map(|n| passed(&tries, &text(n))).collect();
        assert_eq!(counts, [0, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 4_096, 4_096]);
        assert_eq!(passed(&tries, "SELECT * FROM c WHERE c.a = 1"), 0, "another query");
        let path = ContainerPath { database: "d".into(), container: "c".into() };
        let place = tries.place(&path, &QueryRequest::new(text(0)));
        place.note(false, 1, false);
        assert!(place.may_try());
    }
}
