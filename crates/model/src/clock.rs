//! Time, randomness and threads, handed in.
//!
//! The core never asks the operating system what time it is, for a random number or for a thread:
//! it is given a [`Clock`], an [`Entropy`] and [`Threads`], real ones by the binary, scripted ones
//! by tests, so that a run can be repeated exactly.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What time it is.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970, for what users see. May jump.
    fn unix_millis(&self) -> u64;
    /// Nanoseconds since some moment, for durations. Never goes back.
    fn monotonic_nanos(&self) -> u64;
}

/// Numbers that nobody can guess, or, in tests, that everybody can repeat.
pub trait Entropy: Send + Sync {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Threads for work that may be done by others as well as by whoever has it.
pub trait Threads: Send + Sync + fmt::Debug {
    /// Runs this on a thread of its own. False if there is none to be had; then it is not run.
    fn start(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> bool;
}

/// No threads: everything is done by whoever has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThreads;

impl Threads for NoThreads {
    fn start(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> bool {
        false
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct FixedClock {
    started_millis: u64,
    elapsed_nanos: AtomicU64,
}

impl FixedClock {
    /// A clock that shows this time.
    pub fn new(unix_millis: u64) -> FixedClock {
        FixedClock { started_millis: unix_millis, elapsed_nanos: AtomicU64::new(0) }
    }

    /// Lets time pass.
    pub fn advance_millis(&self, millis: u64) {
        self.elapsed_nanos.fetch_add(millis * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn unix_millis(&self) -> u64 {
        self.started_millis + self.monotonic_nanos() / 1_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.elapsed_nanos.load(Ordering::SeqCst)
    }
}

/// Another clock's time, and some more: for those who test what becomes of their items in a week.
/// Durations are not touched.
pub struct ShiftedClock {
    real: Arc<dyn Clock>,
    ahead_millis: AtomicU64,
}

impl ShiftedClock {
    /// A clock that shows what the real one shows, until it is told to go ahead.
    pub fn new(real: Arc<dyn Clock>) -> ShiftedClock {
        ShiftedClock { real, ahead_millis: AtomicU64::new(0) }
    }

    /// Goes ahead by so much; by how much in all. There is no way back: what was seen to expire
    /// must not return.
    pub fn advance_millis(&self, millis: u64) -> u64 {
        let ahead = |ahead: u64| Some(ahead.saturating_add(millis));
        let update = self.ahead_millis.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ahead);
        update.unwrap_or_default().saturating_add(millis)
    }

    /// By how much it is ahead.
    pub fn ahead_millis(&self) -> u64 {
        self.ahead_millis.load(Ordering::SeqCst)
    }

    /// What the real clock shows.
    pub fn real_unix_millis(&self) -> u64 {
        self.real.unix_millis()
    }
}

impl Clock for ShiftedClock {
    fn unix_millis(&self) -> u64 {
        self.real.unix_millis().saturating_add(self.ahead_millis())
    }

    fn monotonic_nanos(&self) -> u64 {
        self.real.monotonic_nanos()
    }
}

/// A repeatable sequence: splitmix64, whose state is a counter, so that threads can share it
/// without a lock.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

/// The odd constant by which splitmix64 steps: 2^64 divided by the golden ratio.
const SPLITMIX_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl SeededEntropy {
    /// The sequence that belongs to this seed.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        let state = self.0.fetch_add(SPLITMIX_STEP, Ordering::SeqCst).wrapping_add(SPLITMIX_STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_clock_moves_only_when_told() {
        let clock = FixedClock::new(1_000);
        assert_eq!((clock.unix_millis(), clock.monotonic_nanos()), (1_000, 0));
        clock.advance_millis(250);
        assert_eq!((clock.unix_millis(), clock.monotonic_nanos()), (1_250, 250_000_000));
    }

    #[test]
    fn seeded_entropy_repeats_the_published_splitmix_sequence() {
        let entropy = SeededEntropy::new(1234567);
        let drawn: Vec<u64> = (0..3).map(|_| entropy.next_u64()).collect();
        assert_eq!(drawn, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }
}
