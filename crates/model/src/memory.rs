//! Working memory: what operations gather while they run, drawn from one budget.
//!
//! Groups, sorted rows, the rows of a page or the writes of a transaction grow with the data and
//! with what a client asks. Each of them takes its memory from a [`Reservation`], which belongs to
//! a [`MemoryShare`], the one of its operation; all shares draw on one [`MemoryBudget`]. Whoever is
//! refused fails, with an error that says for what, how much there is, and how to get more:
//!
//! - An operation that wants more than one may have is a bad request: trying again is no use.
//! - If there would be enough but others have it, the server is unavailable for the moment: try
//!   again. So that a few large operations do not lock out all small ones, the last part of the
//!   budget is only for operations that hold little.
//!
//! What is reserved is never all that is taken: allocators keep what was freed, and what is read
//! from a store is not counted. Whoever sees the real memory can have a part of the budget *held
//! back* meanwhile ([`MemoryBudget::hold_back`]). The last part stays for operations that hold
//! little, and an operation that is alone may have what it always may: so something can always go
//! on, however much is held back.
//!
//! What was reserved goes back when the reservation is dropped: at the end, after an error, when an
//! operation is abandoned or panics. Memory is taken in steps, so that most growth is an addition
//! that no other thread sees. It is counted as it was asked for; what an allocator adds is not.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use crate::error::{Error, Result};

/// Memory is taken from the budget in multiples of this, where these are to be had.
const STEP_BYTES: usize = 64 << 10;

/// One operation may have one part in so many of the budget.
const ONE_PART: usize = 4;

/// The last part in so many of the budget is for operations that hold little …
const KEPT_PART: usize = 8;
/// … which is one part in so many of it.
const LITTLE_PART: usize = 32;

/// What memory is for, and what its user could do to need less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// As a noun: "GROUP BY's groups".
    pub name: &'static str,
    /// As a command: "Group by fewer values".
    pub advice: &'static str,
}

/// The working memory of all operations together. Clones are the same budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    bytes_max: usize,
    /// Not to be given out for the moment.
    held_back: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    too_much: AtomicU64,
    short: AtomicU64,
}

/// What a budget has been asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes that there are.
    pub bytes_max: usize,
    /// Bytes of them that are not given out for the moment.
    pub held_back: usize,
    /// Bytes that are reserved now.
    pub used: usize,
    /// The most bytes that were reserved at a time.
    pub peak: usize,
    /// How many operations wanted more than one may have.
    pub too_much: u64,
    /// How many operations were refused because others had the memory.
    pub short: u64,
}

impl Default for MemoryBudget {
    /// No limit, for those who have no server around them.
    fn default() -> MemoryBudget {
        MemoryBudget::new(usize::MAX)
    }
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: usize) -> MemoryBudget {
        MemoryBudget(Arc::new(Budget {
            bytes_max,
            held_back: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            too_much: AtomicU64::new(0),
            short: AtomicU64::new(0),
        }))
    }

    /// Begins an operation, which has reserved nothing yet.
    pub fn share(&self) -> MemoryShare {
        MemoryShare(Arc::new(Share { budget: self.clone(), used: AtomicUsize::new(0) }))
    }

    /// Gives out so much less from now on, until another number is told. What is reserved stays so;
    /// no more is held back than all but the last part, which is for operations that hold little.
    pub fn hold_back(&self, bytes: usize) {
        let bytes_max = self.0.bytes_max;
        let most = bytes_max - bytes_max / KEPT_PART;
        self.0.held_back.store(bytes.min(most), Ordering::Relaxed);
    }

    /// The bytes that one operation may have.
    pub fn one_bytes_max(&self) -> usize {
        self.0.bytes_max / ONE_PART
    }

    /// The error of somebody who knows, without having reserved it, that it would be more than one
    /// operation may have.
    pub fn too_much(&self, what: MemoryUse) -> Error {
        self.0.too_much.fetch_add(1, Ordering::Relaxed);
        Refusal { what, bytes_max: self.0.bytes_max, is_short: false }.into_error()
    }

    /// What is reserved, and what was.
    pub fn figures(&self) -> MemoryFigures {
        MemoryFigures {
            bytes_max: self.0.bytes_max,
            held_back: self.0.held_back.load(Ordering::Relaxed),
            used: self.0.used.load(Ordering::Relaxed),
            peak: self.0.peak.load(Ordering::Relaxed),
            too_much: self.0.too_much.load(Ordering::Relaxed),
            short: self.0.short.load(Ordering::Relaxed),
        }
    }

    /// Takes bytes for an operation that has so many with them. False if others have them.
    fn take(&self, bytes: usize, of_one: usize) -> bool {
        let Budget { bytes_max, held_back, used, peak, .. } = &*self.0;
        let kept = if of_one <= bytes_max / LITTLE_PART { 0 } else { bytes_max / KEPT_PART };
        let most = bytes_max - kept;
        let held_back = held_back.load(Ordering::Relaxed);
        let fits = |used: usize| {
            let sum = used.checked_add(bytes)?;
            let is_alone = sum == of_one;
            let most = if is_alone { most } else { most.saturating_sub(held_back) };
            (sum <= most).then_some(sum)
        };
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(before) => {
                peak.fetch_max(before + bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }
}

/// The working memory of one operation. Clones, in all of its threads, are the same share.
#[derive(Clone, Debug)]
pub struct MemoryShare(Arc<Share>);

#[derive(Debug)]
struct Share {
    budget: MemoryBudget,
    used: AtomicUsize,
}

impl Default for MemoryShare {
    /// No limit. All of these are one share.
    fn default() -> MemoryShare {
        static UNLIMITED: LazyLock<MemoryShare> = LazyLock::new(|| MemoryBudget::default().share());
        UNLIMITED.clone()
    }
}

impl MemoryShare {
    /// Begins to reserve memory for a purpose. Nothing is reserved yet.
    pub fn reservation(&self, what: MemoryUse) -> Reservation {
        Reservation { share: self.clone(), what, held: 0, used: 0 }
    }

    /// The bytes that the operation may have.
    pub fn bytes_max(&self) -> usize {
        self.0.budget.one_bytes_max()
    }

    /// The bytes that it has.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Takes bytes; the reason why not as an error.
    fn take(&self, bytes: usize, what: MemoryUse) -> Result<(), Refusal> {
        let Share { budget, used } = &*self.0;
        let one_max = budget.one_bytes_max();
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= one_max);
        let Ok(before) = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else {
            return Err(Refusal { what, bytes_max: budget.0.bytes_max, is_short: false });
        };
        if budget.take(bytes, before + bytes) {
            return Ok(());
        }
        used.fetch_sub(bytes, Ordering::Relaxed);
        Err(Refusal { what, bytes_max: budget.0.bytes_max, is_short: true })
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.0.budget.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn note(&self, refusal: &Refusal) {
        let Budget { too_much, short, .. } = &*self.0.budget.0;
        if refusal.is_short { short } else { too_much }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Memory of an operation that is reserved for one purpose, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    share: MemoryShare,
    what: MemoryUse,
    /// What was taken from the budget.
    held: usize,
    /// What is needed of it: `used ≤ held`.
    used: usize,
}

impl Reservation {
    /// Reserves so many bytes more. After an error all is as it was before.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        let used = self.used.saturating_add(bytes);
        if used > self.held {
            self.extend(used).map_err(|refusal| {
                self.share.note(&refusal);
                refusal.into_error()
            })?;
        }
        self.used = used;
        Ok(())
    }

    /// Reserves so many bytes more if they are to be had: for those who can do with less.
    #[must_use]
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let fits = used <= self.held || self.extend(used).is_ok();
        if fits {
            self.used = used;
        }
        fits
    }

    /// Needs so many bytes less. What is held beyond a step goes back.
    pub fn shrink(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        let keep = self.used.saturating_add(STEP_BYTES);
        if self.held > keep.saturating_add(STEP_BYTES) {
            self.share.give_back(self.held - keep);
            self.held = keep;
        }
    }

    /// Needs so many bytes, whatever it was before.
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.used) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.used - bytes);
                Ok(())
            }
        }
    }

    /// What is reserved.
    pub fn bytes(&self) -> usize {
        self.used
    }

    /// Takes in what another reservation of the same operation holds: what it was for belongs to
    /// this one now.
    pub fn absorb(&mut self, mut other: Reservation) {
        debug_assert!(Arc::ptr_eq(&self.share.0, &other.share.0), "of another operation");
        self.held += std::mem::take(&mut other.held);
        self.used += std::mem::take(&mut other.used);
    }

    /// Holds at least so many bytes, some more if they are to be had.
    fn extend(&mut self, used: usize) -> Result<(), Refusal> {
        let least = used - self.held;
        let steps = least.checked_next_multiple_of(STEP_BYTES).unwrap_or(least);
        let taken = match self.share.take(steps, self.what) {
            Ok(()) => steps,
            Err(_) => {
                self.share.take(least, self.what)?;
                least
            }
        };
        self.held += taken;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.share.give_back(self.held);
    }
}

/// Why there is no memory.
struct Refusal {
    what: MemoryUse,
    bytes_max: usize,
    /// There would be enough if others had less.
    is_short: bool,
}

impl Refusal {
    fn into_error(self) -> Error {
        let Refusal { what: MemoryUse { name, advice }, bytes_max, is_short } = self;
        let (all, one) = (Size(bytes_max), Size(bytes_max / ONE_PART));
        if is_short {
            return Error::unavailable(format!(
                "There is no working memory left for {name}: other operations have most of the \
                 {all} that there are. Try again in a while. More of them run at a time if the \
                 server is started with more memory (--memory-mb)."
            ));
        }
        Error::bad_request(format!(
            "The operation needs more working memory for {name} than the {one} that one may have. \
             {advice}, or start the server with more memory (--memory-mb): an operation may have a \
             quarter of the working memory, which is {all}."
        ))
    }
}

/// Bytes as a person reads them.
struct Size(usize);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes >= 10 << 20 => write!(f, "{} MB", bytes >> 20),
            bytes if bytes >= 10 << 10 => write!(f, "{} KB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;
    use crate::ErrorKind;

    const LISTS: MemoryUse = MemoryUse { name: "lists", advice: "Make shorter ones" };
    const MB: usize = 1 << 20;

    fn used(budget: &MemoryBudget) -> usize {
        budget.figures().used
    }

    #[test]
    fn memory_is_taken_in_steps_and_goes_back_when_it_is_dropped() {
        let budget = MemoryBudget::new(64 * MB);
        let share = budget.share();
        let mut lists = share.reservation(LISTS);
        assert_eq!(used(&budget), 0);
        lists.grow(1).unwrap();
        assert_eq!((used(&budget), lists.bytes()), (STEP_BYTES, 1));
        lists.grow(STEP_BYTES - 1).unwrap();
        assert_eq!(used(&budget), STEP_BYTES);
        lists.grow(1).unwrap();
        assert_eq!(used(&budget), 2 * STEP_BYTES);
        lists.set(4 * MB).unwrap();
        lists.set(10).unwrap();
        assert_eq!((used(&budget) <= 2 * STEP_BYTES, lists.bytes()), (true, 10));
        assert_eq!(budget.figures().peak, 4 * MB);
        drop(lists);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn one_operation_has_a_quarter_over_all_that_it_reserves() {
        let budget = MemoryBudget::new(64 * MB);
        let share = budget.share();
        let (mut a, mut b) = (share.reservation(LISTS), share.reservation(LISTS));
        a.grow(10 * MB).unwrap();
        b.grow(6 * MB).unwrap();
        let error = b.grow(1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
        for part in ["lists", "16 MB", "64 MB", "Make shorter ones", "--memory-mb"] {
            assert!(error.message.contains(part), "{part}: {}", error.message);
        }
        assert_eq!(b.bytes(), 6 * MB, "as it was");
        assert!(!b.try_grow(1));
        drop(a);
        assert!(b.try_grow(MB));
        assert_eq!(budget.figures().too_much, 1, "who can do with less is not refused");
    }

    #[test]
    fn who_is_refused_for_others_may_try_again() {
        let budget = MemoryBudget::new(64 * MB);
        let held: Vec<Reservation> = (0..7)
            .map(|_| {
                let mut one = budget.share().reservation(LISTS);
                one.grow(8 * MB).unwrap();
                one
            })
            .collect();
        let mut late = budget.share().reservation(LISTS);
        let error = late.grow(3 * MB).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("Try again"), "{}", error.message);
        assert_eq!(budget.figures().short, 1);
        // Those that need little still find something.
        late.grow(2 * MB).unwrap();
        drop(late);
        drop(held);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn what_is_held_back_is_given_to_nobody_but_who_is_alone() {
        let budget = MemoryBudget::new(64 * MB);
        let (first, second) = (budget.share(), budget.share());
        let (mut a, mut b) = (first.reservation(LISTS), second.reservation(LISTS));
        budget.hold_back(usize::MAX);
        assert_eq!(budget.figures().held_back, 56 * MB, "all but the last eighth");
        a.grow(16 * MB).unwrap();
        let error = b.grow(MB).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "others have what there is for now");
        assert!(error.message.contains("Try again"), "{}", error.message);
        a.set(6 * MB).unwrap();
        b.grow(MB).unwrap();
        assert!(!b.try_grow(2 * MB), "the last eighth is for those who hold little");
        budget.hold_back(30 * MB);
        b.grow(14 * MB).unwrap();
        budget.hold_back(0);
        a.grow(10 * MB).unwrap();
        assert_eq!((budget.figures().held_back, used(&budget)), (0, 31 * MB));
    }

    #[test]
    fn a_small_budget_is_used_up_to_its_last_byte() {
        let budget = MemoryBudget::new(4_000);
        let share = budget.share();
        let mut lists = share.reservation(LISTS);
        lists.grow(999).unwrap();
        lists.grow(1).unwrap();
        assert!(lists.grow(1).is_err());
        assert!(lists.grow(usize::MAX).is_err());
        assert_eq!(used(&budget), 1_000);
    }

    #[test]
    fn what_is_absorbed_is_held_until_the_end() {
        let budget = MemoryBudget::new(64 * MB);
        let share = budget.share();
        let (mut a, mut b) = (share.reservation(LISTS), share.reservation(LISTS));
        a.grow(MB).unwrap();
        b.grow(2 * MB).unwrap();
        a.absorb(b);
        assert_eq!((a.bytes(), used(&budget)), (3 * MB, 3 * MB));
        drop(a);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn nothing_is_left_after_threads_errors_and_panics() {
        let budget = MemoryBudget::new(64 * MB);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let share = budget.share();
                    for bytes in 0..2_000 {
                        let mut one = share.reservation(LISTS);
                        let _more_or_less = one.grow(bytes * 1_000).and_then(|()| one.grow(MB));
                        let panicked = catch_unwind(AssertUnwindSafe(|| {
                            let mut held = share.reservation(LISTS);
                            held.grow(bytes).unwrap();
                            std::panic::resume_unwind(Box::new("as expected"));
                        }));
                        assert!(panicked.is_err());
                    }
                });
            }
        });
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn without_a_server_there_is_no_limit() {
        let share = MemoryShare::default();
        share.reservation(LISTS).grow(usize::MAX / 8).unwrap();
    }
}
