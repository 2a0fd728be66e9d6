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

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

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
    until_nanos: u64,
    gone: Cell<bool>,
}

impl Spot {
    pub(super) fn new(until_nanos: Option<u64>) -> Spot {
        Spot { until_nanos: until_nanos.unwrap_or(u64::MAX), gone: Cell::new(false) }
    }

    pub(super) fn is_try(&self) -> bool {
        self.until_nanos < u64::MAX
    }

    /// Is the time of the try over?
    pub(super) fn is_over(&self, now_nanos: u64) -> bool {
        if now_nanos > self.until_nanos {
            self.gone.set(true);
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
        let until_nanos = self.clock.monotonic_nanos() + micros * 1_000;
        work.spot_until_nanos = Some(until_nanos);
        let result = match access::check(self, context, op) {
            Ok(()) => self.query(&mut work, container, query),
            Err(error) => Err(error),
        };
        place.note(work.given_up || self.clock.monotonic_nanos() > until_nanos);
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
}

impl Default for Tries {
    fn default() -> Tries {
        Tries { places: (0..PLACES).map(|_| AtomicU32::new(0)).collect() }
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
        Place(self.places.get(at))
    }
}

const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
}

/// What is remembered of one kind of queries.
struct Place<'t>(Option<&'t AtomicU32>);

impl Place<'_> {
    /// Is this one to be tried? If not, it counts as passed over.
    fn may_try(&self) -> bool {
        let Some(place) = self.0 else { return true };
        let now = place.load(Ordering::Relaxed);
        let left = now & ((1 << HALF) - 1);
        if left > 0 {
            // Who is overtaken here passes one over too many or too few.
            place.store(now - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Remembers whether a try took too long.
    fn note(&self, too_long: bool) {
        let Some(place) = self.0 else { return };
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
        place.note(true);
        passed
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
        place.note(false);
        assert!(place.may_try());
    }
}
