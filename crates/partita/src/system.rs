//! The real clock, the real randomness, and real threads for the core.
//!
//! These are the only places of the program that ask the operating system what time it is or for a
//! random number; everything else is handed a [`Clock`] and an [`Entropy`], and the engine
//! [`Threads`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use partita_model::{Clock, Entropy, Threads};

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    started: Instant,
}

#[allow(clippy::disallowed_methods, reason = "this is the clock that everybody else is handed")]
impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub(crate) fn start() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

#[allow(clippy::disallowed_methods, reason = "this is the clock that everybody else is handed")]
impl Clock for SystemClock {
    fn unix_millis(&self) -> u64 {
        // A clock set before 1970 reads as 1970: signatures will say that it is wrong.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The machine's threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemThreads;

impl Threads for SystemThreads {
    fn start(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> bool {
        thread::Builder::new().name(name.to_owned()).spawn(run).is_ok()
    }
}

/// Random numbers for ids and etags: unique, well spread and fast, but no secrets.
///
/// A counter is mixed twice (splitmix64) with a random number in between. Both steps are one to
/// one, so no value comes twice before the counter has gone round or the number in between is
/// changed, which happens every [`REFRESH`] draws.
#[derive(Debug)]
pub(crate) struct SystemEntropy {
    counter: AtomicU64,
    salt: AtomicU64,
}

/// How many numbers are drawn between two questions to the operating system.
const REFRESH: u64 = 1 << 20;

impl SystemEntropy {
    /// Asks the operating system for the beginning.
    pub(crate) fn start() -> Result<SystemEntropy, getrandom::Error> {
        Ok(SystemEntropy {
            counter: AtomicU64::new(getrandom::u64()?),
            salt: AtomicU64::new(getrandom::u64()?),
        })
    }

    fn refresh(&self) {
        // It worked at the start; should it fail now, the old number goes on serving.
        if let Ok(salt) = getrandom::u64() {
            self.salt.store(salt, Ordering::Relaxed);
        }
    }
}

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        let drawn = self.counter.fetch_add(1, Ordering::Relaxed);
        if drawn.is_multiple_of(REFRESH) {
            self.refresh();
        }
        mix(mix(drawn) ^ self.salt.load(Ordering::Relaxed))
    }
}

/// The output function of splitmix64: a permutation of all 64-bit numbers.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn two_starts_draw_different_numbers_and_neither_repeats() {
        let (one, two) = (SystemEntropy::start().unwrap(), SystemEntropy::start().unwrap());
        let drawn: HashSet<u64> =
            (0..50_000).flat_map(|_| [one.next_u64(), two.next_u64()]).collect();
        assert_eq!(drawn.len(), 100_000);
    }

    #[test]
    fn every_bit_is_set_about_half_the_time() {
        let entropy = SystemEntropy::start().unwrap();
        let mut set = [0_u32; 64];
        for _ in 0..10_000 {
            let number = entropy.next_u64();
            for (bit, count) in set.iter_mut().enumerate() {
                *count += u32::from(number >> bit & 1 == 1);
            }
        }
        // Ten standard deviations: 5000 ± 500.
        assert!(set.iter().all(|count| (4500..=5500).contains(count)), "{set:?}");
    }

    #[test]
    fn the_clock_is_past_2020_and_does_not_go_back() {
        let clock = SystemClock::start();
        assert!(clock.unix_millis() > 1_577_836_800_000);
        let before = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= before);
    }
}
