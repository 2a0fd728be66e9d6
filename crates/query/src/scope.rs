//! What an evaluation may see besides its row, and what it may use up.
//!
//! Time and randomness are handed in, so that an evaluation with the same settings gives the same
//! answer. Memory and work are metered: an expression that builds or computes more than any honest
//! one ends with an error instead of taking the server with it. The meter starts anew with every
//! item, so a query over many items is not held back by their number.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use partita_model::{Error, MemoryShare, MemoryUse, Reservation, Result, Value};

use crate::function::Patterns;

/// Several times the largest item.
const BUILD_BYTES_MAX: usize = 64 << 20;
/// So much is built without asking for it: most queries build less for each item.
const BUILD_BYTES_FREE: usize = 64 << 10;
/// What was reserved beyond this for one item is not kept for the next.
const BUILD_BYTES_KEPT: usize = 1 << 20;
const BUILT: MemoryUse = MemoryUse {
    name: "the values that it builds for one item",
    advice: "Select less, or build less per item",
};
/// About a second of work.
const STEPS_MAX: u64 = 10_000_000;
/// Steps between two questions to [`Interrupt`]: a tenth of a millisecond. The first stretch of an
/// item is all that most items take; it is not counted.
const STRETCH: u64 = 1_000;
const STEPS_OF_MILLI: u64 = 10_000;
/// Groups that are made rows between two questions: half a millisecond.
const ASK_EVERY: usize = 1_024;

/// Asked now and then, within one item too, whether an evaluation may go on.
pub trait Interrupt: Send + Sync {
    /// So many steps are about to be taken. An error ends the evaluation. May take its time, so
    /// that others go first.
    fn check(&self, steps: u64) -> Result<()>;
}

/// Functions that a container's owner wrote, ready to be called.
pub trait Functions: Send + Sync {
    /// Calls `udf.name(…)`. `None` is undefined, as argument and as result.
    fn call(&self, name: &str, arguments: &[Option<Value>]) -> Result<Option<Value>>;

    /// The milliseconds of a processor that calls took since this was asked last: whole ones of
    /// each call, so that usual functions have none. 0 where nobody measures it.
    fn take_millis(&self) -> u64 {
        0
    }
}

/// What is handed in for one execution of a query.
#[derive(Clone, Default)]
pub struct ScopeSettings {
    /// The time, in units of 100 ns since 1970.
    pub now_ticks: u64,
    /// The time at which the whole execution started: the same on all of its pages.
    pub static_now_ticks: u64,
    /// Decides what `RAND()` returns.
    pub random_seed: u64,
    /// The user-defined functions of the container, if they can be called.
    pub functions: Option<Arc<dyn Functions>>,
    /// How many steps of evaluation one item may take, if not as many as is usual.
    pub steps_max: Option<u64>,
    /// Who may end a long evaluation. None: nobody.
    pub interrupt: Option<Arc<dyn Interrupt>>,
    /// The working memory of the execution.
    pub memory: MemoryShare,
}

impl fmt::Debug for ScopeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeSettings")
            .field("now_ticks", &self.now_ticks)
            .field("static_now_ticks", &self.static_now_ticks)
            .field("random_seed", &self.random_seed)
            .field("functions", &self.functions.is_some())
            .field("steps_max", &self.steps_max)
            .field("interrupt", &self.interrupt.is_some())
            .finish()
    }
}

/// The surroundings of one evaluation. Belongs to one thread.
pub(crate) struct Scope {
    /// The time, in units of 100 ns since 1970.
    pub(crate) now_ticks: u64,
    /// The time at which the whole execution started.
    pub(crate) static_now_ticks: u64,
    /// Patterns that were compiled for earlier rows.
    pub(crate) patterns: RefCell<Patterns>,
    pub(crate) functions: Option<Arc<dyn Functions>>,
    random: Cell<u64>,
    /// What may be built for an item as far as memory is reserved for it, and what is left of it.
    bytes_granted: Cell<usize>,
    bytes_left: Cell<usize>,
    built: RefCell<Reservation>,
    memory: MemoryShare,
    interrupt: Option<Arc<dyn Interrupt>>,
    steps_max: u64,
    /// Steps of this stretch.
    steps_left: Cell<u64>,
    /// Steps of the item behind this stretch.
    steps_beyond: Cell<u64>,
    /// Steps that items took beyond their first stretch, in whole stretches.
    long_steps: Cell<u64>,
}

impl Scope {
    pub(crate) fn new(now_ticks: u64, seed: u64) -> Scope {
        Scope::of(&ScopeSettings {
            now_ticks,
            static_now_ticks: now_ticks,
            random_seed: seed,
            ..ScopeSettings::default()
        })
    }

    pub(crate) fn of(settings: &ScopeSettings) -> Scope {
        let steps_max = settings.steps_max.unwrap_or(STEPS_MAX);
        let first = steps_max.min(STRETCH);
        Scope {
            now_ticks: settings.now_ticks,
            static_now_ticks: settings.static_now_ticks,
            patterns: RefCell::default(),
            functions: settings.functions.clone(),
            random: Cell::new(settings.random_seed),
            bytes_granted: Cell::new(BUILD_BYTES_FREE),
            bytes_left: Cell::new(BUILD_BYTES_FREE),
            built: RefCell::new(settings.memory.reservation(BUILT)),
            memory: settings.memory.clone(),
            interrupt: settings.interrupt.clone(),
            steps_max,
            steps_left: Cell::new(first),
            steps_beyond: Cell::new(steps_max - first),
            long_steps: Cell::new(0),
        }
    }

    /// Starts the meter anew.
    pub(crate) fn begin_item(&self) {
        if self.bytes_granted.get() > BUILD_BYTES_KEPT {
            let mut built = self.built.borrow_mut();
            let bytes = built.bytes();
            built.shrink(bytes);
            self.bytes_granted.set(BUILD_BYTES_FREE);
        }
        self.bytes_left.set(self.bytes_granted.get());
        let first = self.steps_max.min(STRETCH);
        self.steps_left.set(first);
        self.steps_beyond.set(self.steps_max - first);
    }

    /// Steps that items took beyond what is usual, since the scope was made.
    pub(crate) fn long_steps(&self) -> u64 {
        self.long_steps.get()
    }

    /// The next of a sequence of numbers in [0, 1) that the seed decides.
    pub(crate) fn random_f64(&self) -> f64 {
        // SplitMix64: one addition, then a mixing of bits.
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = (mixed ^ (mixed >> 31)) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    /// The working memory of the execution.
    pub(crate) fn memory(&self) -> &MemoryShare {
        &self.memory
    }

    /// Takes room for that many bytes more.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        match self.bytes_left.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes_left.set(left);
                Ok(())
            }
            None => self.reserve_anew(bytes),
        }
    }

    /// The same where more has to be reserved than was granted.
    #[cold]
    fn reserve_anew(&self, bytes: usize) -> Result<()> {
        let needed = self.built().saturating_add(bytes);
        if needed > BUILD_BYTES_MAX {
            return Err(Error::bad_request(format!(
                "The query builds values of more than {BUILD_BYTES_MAX} bytes for one item. \
                 Select less, or build less per item."
            )));
        }
        let mut built = self.built.borrow_mut();
        let roomy = needed.next_power_of_two();
        let held = built.bytes();
        let granted = if built.try_grow(roomy.saturating_sub(held)) { roomy } else { needed };
        built.set(granted)?;
        self.bytes_granted.set(granted);
        self.bytes_left.set(granted - needed);
        Ok(())
    }

    /// What was built for this item so far, and is still there.
    pub(crate) fn built(&self) -> usize {
        self.bytes_granted.get() - self.bytes_left.get()
    }

    /// What was built since then is gone, or somebody else's.
    pub(crate) fn forget_built(&self, before: usize) {
        self.bytes_left.set(self.bytes_granted.get().saturating_sub(before));
    }

    /// Counts one step of work.
    pub(crate) fn step(&self) -> Result<()> {
        self.steps(1)
    }

    /// Counts several steps of work at once.
    pub(crate) fn steps(&self, count: u64) -> Result<()> {
        match self.steps_left.get().checked_sub(count) {
            Some(left) => {
                self.steps_left.set(left);
                Ok(())
            }
            None => self.next_stretch(count),
        }
    }

    /// Asks whether to go on, now and then: this is the n-th of many things that take a moment.
    pub(crate) fn may_go_on(&self, n: usize) -> Result<()> {
        match &self.interrupt {
            Some(interrupt) if n % ASK_EVERY == ASK_EVERY - 1 => interrupt.check(0),
            _ => Ok(()),
        }
    }

    /// Counts work that somebody else did for the item, and asks whether to go on.
    pub(crate) fn worked(&self, millis: u64) -> Result<()> {
        if millis == 0 {
            return Ok(());
        }
        let steps = millis.saturating_mul(STEPS_OF_MILLI);
        self.long_steps.set(self.long_steps.get().saturating_add(steps));
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check(steps))
    }

    /// Counts steps that do not fit into the stretch any more, and asks whether to go on.
    #[cold]
    fn next_stretch(&self, count: u64) -> Result<()> {
        let lacking = count.saturating_sub(self.steps_left.get());
        let beyond = self.steps_beyond.get();
        let taken = lacking.next_multiple_of(STRETCH).min(beyond);
        self.long_steps.set(self.long_steps.get() + taken);
        self.steps_beyond.set(beyond - taken);
        let left = taken.checked_sub(lacking).ok_or_else(|| {
            Error::bad_request(
                "The query asks for too much work on one item: its JOINs and subqueries multiply \
                 to too many rows. Make them narrower.",
            )
        })?;
        self.steps_left.set(left);
        self.interrupt.as_ref().map_or(Ok(()), |interrupt| interrupt.check(taken))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Lets so many stretches pass.
    struct Patience(AtomicU64);

    impl Interrupt for Patience {
        fn check(&self, _steps: u64) -> Result<()> {
            let left = self.0.load(Ordering::Relaxed).checked_sub(1);
            let left = left.ok_or_else(|| Error::timeout("enough"))?;
            self.0.store(left, Ordering::Relaxed);
            Ok(())
        }
    }

    fn scope(steps_max: u64, stretches: u64) -> Scope {
        let interrupt: Arc<dyn Interrupt> = Arc::new(Patience(AtomicU64::new(stretches)));
        Scope::of(&ScopeSettings {
            steps_max: Some(steps_max),
            interrupt: Some(interrupt),
            ..ScopeSettings::default()
        })
    }

    #[test]
    fn steps_beyond_the_usual_are_counted_and_their_sum_is_limited() {
        let scope = scope(5_500, 1_000);
        (0..1_000).for_each(|_| scope.step().unwrap());
        assert_eq!(scope.long_steps(), 0, "most items take no more");
        scope.step().unwrap();
        assert_eq!(scope.long_steps(), 1_000);
        scope.steps(2_000).unwrap();
        assert_eq!(scope.long_steps(), 3_000);
        scope.begin_item();
        scope.steps(5_500).unwrap();
        assert_eq!(scope.long_steps(), 7_500);
        assert!(scope.step().unwrap_err().message.contains("too much work on one item"));
    }

    #[test]
    fn an_evaluation_is_ended_within_an_item() {
        let scope = scope(1_000_000, 3);
        let steps = (0..).take_while(|_| scope.step().is_ok()).count();
        assert_eq!(steps, 4_000);
    }
}
