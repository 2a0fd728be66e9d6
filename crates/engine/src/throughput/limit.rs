//! One rate limit: a token bucket that is one number.
//!
//! What was charged is paid off at the limit's rate. [`Limit`] keeps the moment at which all of it
//! will have been paid (`paid_at`, the "theoretical arrival time" of the generic cell rate
//! algorithm). Seen from now that moment says everything: behind now lies unused capacity, ahead of
//! it debt.
//!
//! ```text
//!    now − bank            now            now + 1 s
//!  ──────┼──────────────────┼─────────────────┼──────────►
//!        │  saved capacity  │  this second's  │  debt: nobody is admitted
//! ```
//!
//! A request is admitted while `paid_at` lies before the end of the second that begins now, and
//! charged afterwards what it really cost, so the last one admitted may overdraw. The debt is
//! carried: over any stretch of time no more is used than the rate allows, and one second. But no
//! request shuts others out for longer than [`DEBT_NANOS_MAX`]: what a very large one costs beyond
//! that is told, and forgiven.
//!
//! Somebody who is refused is told when to come again. If many are refused at once they are told
//! different moments, one request's cost apart: else they would come back together, one would be
//! admitted, and the others would use up their retries within a blink.
//!
//! All of it is a handful of atomic operations; nothing is locked, and nothing asks for the time.

use std::sync::atomic::{AtomicU64, Ordering};

/// What may be used of the present before it has passed.
pub(crate) const CREDIT_NANOS: u64 = 1_000_000_000;

/// Debt beyond the second's credit that is carried at most. Clients wait up to 30 seconds.
const DEBT_NANOS_MAX: u64 = 10_000_000_000;

/// Refused requests are spread over so much time at most.
const SPREAD_NANOS_MAX: u64 = 1_000_000_000;

const NANOS_PER_SECOND: f64 = 1e9;

/// A number of request units per second.
#[derive(Debug)]
pub(crate) struct Limit {
    /// When all that was charged is paid off.
    paid_at: AtomicU64,
    /// Bits of an `f64`.
    nanos_per_ru: AtomicU64,
    /// How much unused time may be saved up.
    bank_nanos: AtomicU64,
    /// Those who were refused have been told moments before this one.
    told_until: AtomicU64,
    /// What the last request took of the limit's time.
    last_nanos: AtomicU64,
}

impl Limit {
    /// A limit with nothing saved and nothing owed.
    pub(crate) fn new(ru_per_second: f64, bank_nanos: u64, now: u64) -> Limit {
        Limit {
            paid_at: AtomicU64::new(now),
            nanos_per_ru: AtomicU64::new((NANOS_PER_SECOND / ru_per_second).to_bits()),
            bank_nanos: AtomicU64::new(bank_nanos),
            told_until: AtomicU64::new(0),
            last_nanos: AtomicU64::new(0),
        }
    }

    /// How long somebody has to wait who may use this much of the second's credit; 0: not at all.
    pub(crate) fn wait_nanos(&self, now: u64, credit_nanos: u64) -> u64 {
        let paid_at = self.paid_at.load(Ordering::Relaxed);
        // The next nanosecond after the debt has shrunk to the credit.
        (paid_at + 1).saturating_sub(now + credit_nanos)
    }

    /// When a refused request shall come again, in nanoseconds from now: after `wait`, or after
    /// those who were refused before it.
    pub(crate) fn tell(&self, now: u64, wait: u64) -> u64 {
        let earliest = now + wait;
        let step = self.last_nanos.load(Ordering::Relaxed);
        let turn = |told: u64| told.clamp(earliest, earliest + SPREAD_NANOS_MAX);
        let next = |told: u64| Some(turn(told) + step);
        let told = self.told_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        turn(told.unwrap_or(earliest)) - now
    }

    /// Charges what a request cost.
    pub(crate) fn charge(&self, now: u64, ru: f64) {
        let nanos = (ru * self.nanos_per_ru()) as u64;
        let saved_from = now.saturating_sub(self.bank_nanos.load(Ordering::Relaxed));
        let latest = now + CREDIT_NANOS + DEBT_NANOS_MAX;
        let paid_at = |before: u64| {
            let after = before.max(saved_from).saturating_add(nanos);
            Some(after.min(latest).max(before))
        };
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid_at);
        self.last_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Changes the rate. What was saved or is owed keeps its worth in request units.
    pub(crate) fn set_rate(&self, now: u64, ru_per_second: f64, bank_nanos: u64) {
        let before = self.nanos_per_ru();
        let after = NANOS_PER_SECOND / ru_per_second;
        let scale = |nanos: u64| (nanos as f64 * after / before) as u64;
        let bank_before = self.bank_nanos.swap(bank_nanos, Ordering::Relaxed);
        if before == after && bank_before == bank_nanos {
            return;
        }
        self.nanos_per_ru.store(after.to_bits(), Ordering::Relaxed);
        let paid_at = |paid_at: u64| {
            let paid_at = paid_at.max(now.saturating_sub(bank_before));
            Some(if paid_at >= now {
                now + scale(paid_at - now)
            } else {
                now.saturating_sub(scale(now - paid_at).min(bank_nanos))
            })
        };
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid_at);
        self.told_until.store(0, Ordering::Relaxed);
    }

    /// Request units per second.
    pub(crate) fn ru_per_second(&self) -> f64 {
        NANOS_PER_SECOND / self.nanos_per_ru()
    }

    fn nanos_per_ru(&self) -> f64 {
        f64::from_bits(self.nanos_per_ru.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Request units that come through when one of this size is tried every millisecond.
    fn used(limit: &Limit, from: u64, seconds: u64, ru: f64) -> f64 {
        let mut used = 0.0;
        for millis in 0..seconds * 1_000 {
            let now = from + millis * 1_000_000;
            if limit.wait_nanos(now, CREDIT_NANOS) == 0 {
                limit.charge(now, ru);
                used += ru;
            }
        }
        used
    }

    #[test]
    fn whoever_asks_for_more_gets_the_rate_and_one_second() {
        let limit = Limit::new(400.0, 0, SECOND);
        assert!((used(&limit, SECOND, 30, 1.7) - 31.0 * 400.0).abs() < 2.0);
        assert!((used(&limit, 31 * SECOND, 30, 7.3) - 30.0 * 400.0).abs() < 8.0);
    }

    #[test]
    fn a_request_larger_than_a_second_is_paid_off_before_the_next() {
        let limit = Limit::new(100.0, 0, 0);
        assert_eq!(limit.wait_nanos(0, CREDIT_NANOS), 0);
        limit.charge(0, 500.0);
        assert_eq!(limit.wait_nanos(0, CREDIT_NANOS), 4 * SECOND + 1);
        assert_eq!(limit.wait_nanos(3 * SECOND, CREDIT_NANOS), SECOND + 1);
        assert_eq!(limit.wait_nanos(4 * SECOND + 1, CREDIT_NANOS), 0);
    }

    #[test]
    fn nobody_is_shut_out_for_longer_than_ten_seconds() {
        let limit = Limit::new(100.0, 0, 0);
        for _ in 0..3 {
            limit.charge(0, 1e9);
        }
        assert_eq!(limit.wait_nanos(0, CREDIT_NANOS), DEBT_NANOS_MAX + 1);
    }

    #[test]
    fn idle_time_is_saved_up_to_the_bank_and_spent_once() {
        let bank = 300 * SECOND;
        let limit = Limit::new(100.0, bank, 0);
        // Ten idle seconds, and the one that is always there.
        assert!((used(&limit, 10 * SECOND, 1, 5.0) - 1_200.0).abs() < 6.0);
        assert!((used(&limit, 11 * SECOND, 5, 5.0) - 500.0).abs() < 6.0);
        let later = 10_000 * SECOND;
        let saved = used(&limit, later, 10, 50.0);
        assert!((saved - 31_100.0).abs() < 60.0, "{saved}: no more than the bank holds");
    }

    #[test]
    fn those_who_are_refused_together_are_told_different_times() {
        let limit = Limit::new(100.0, 0, 0);
        for _ in 0..20 {
            limit.charge(0, 10.0);
        }
        let wait = limit.wait_nanos(0, CREDIT_NANOS);
        let told: Vec<u64> = (0..4).map(|_| limit.tell(0, wait) / 1_000_000).collect();
        assert_eq!(told, [1_000, 1_100, 1_200, 1_300]);
        for _ in 0..100 {
            limit.tell(0, wait);
        }
        assert_eq!(limit.tell(0, wait), wait + SPREAD_NANOS_MAX);
        assert_eq!(limit.tell(5 * SECOND, 1), 1, "their turns have passed");
    }

    #[test]
    fn a_changed_rate_keeps_debts_and_savings_in_request_units() {
        let limit = Limit::new(100.0, 0, 0);
        limit.charge(0, 500.0);
        limit.set_rate(0, 500.0, 0);
        assert_eq!(limit.wait_nanos(0, CREDIT_NANOS), 1, "500 units are a second's now");
        let limit = Limit::new(100.0, 300 * SECOND, 0);
        limit.set_rate(10 * SECOND, 1_000.0, 300 * SECOND);
        assert!((used(&limit, 10 * SECOND, 1, 20.0) - 3_000.0).abs() < 25.0);
        limit.set_rate(500 * SECOND, 5_000.0, 0);
        assert!((used(&limit, 500 * SECOND, 1, 20.0) - 10_000.0).abs() < 25.0);
    }
}
