//! How much was used in each of the last seconds.
//!
//! A ring of seconds. Each slot is one number, the second and what was used in it, so that counting
//! is one atomic operation and a slot whose second has passed is simply overwritten.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{CENTS_PER_RU, NANOS_PER_SECOND};

/// A minute, and a little to read it in.
const SLOTS: usize = 64;

/// Bits of a slot that count; the others tell its second. A partition would have to use ten
/// billion request units in a second to run over.
const COUNT_BITS: u32 = 40;

/// Consumption by the second.
#[derive(Debug)]
pub(super) struct Window([AtomicU64; SLOTS]);

impl Window {
    pub(super) fn new() -> Window {
        Window(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Counts hundredths of request units.
    pub(super) fn add(&self, now: u64, cents: u64) {
        let second = now / NANOS_PER_SECOND;
        let Some(slot) = self.0.get(place(second)) else { return };
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |counted| {
            let before = if tag_of(counted) == tag(second) { count_of(counted) } else { 0 };
            let count = before.saturating_add(cents).min((1 << COUNT_BITS) - 1);
            Some(tag(second) << COUNT_BITS | count)
        });
    }

    /// Request units that were used in a second.
    pub(super) fn ru_in(&self, second: u64) -> f64 {
        let counted = self.0.get(place(second)).map_or(0, |slot| slot.load(Ordering::Relaxed));
        if tag_of(counted) == tag(second) { count_of(counted) as f64 / CENTS_PER_RU } else { 0.0 }
    }

    /// What was used in each of the last full seconds, the latest first, for at most a minute.
    pub(super) fn seconds(&self, now: u64) -> impl Iterator<Item = f64> {
        let this = now / NANOS_PER_SECOND;
        (1..=60.min(this)).map(move |ago| self.ru_in(this - ago))
    }
}

fn place(second: u64) -> usize {
    (second % SLOTS as u64) as usize
}

/// A second as a slot knows it. Zero is what an empty slot has.
fn tag(second: u64) -> u64 {
    (second + 1) & ((1 << (u64::BITS - COUNT_BITS)) - 1)
}

fn tag_of(counted: u64) -> u64 {
    counted >> COUNT_BITS
}

fn count_of(counted: u64) -> u64 {
    counted & ((1 << COUNT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_its_own_sum() {
        let window = Window::new();
        for (millis, cents) in [(0, 100), (999, 50), (1_000, 7), (5_500, 30)] {
            window.add(millis * 1_000_000, cents);
        }
        assert_eq!([0, 1, 2, 5].map(|second| window.ru_in(second)), [1.5, 0.07, 0.0, 0.3]);
        let last: Vec<f64> = window.seconds(3 * NANOS_PER_SECOND).collect();
        assert_eq!(last, [0.0, 0.07, 1.5]);
    }

    #[test]
    fn what_is_older_than_a_minute_is_forgotten() {
        let window = Window::new();
        window.add(0, 100);
        window.add(64 * NANOS_PER_SECOND, 200);
        assert_eq!([0, 64].map(|second| window.ru_in(second)), [0.0, 2.0]);
        assert_eq!(window.seconds(200 * NANOS_PER_SECOND).sum::<f64>(), 0.0);
        assert_eq!(window.seconds(200 * NANOS_PER_SECOND).count(), 60);
    }
}
