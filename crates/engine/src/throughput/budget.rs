//! What a partition may use: its share of the provisioned throughput, burst capacity, throughput
//! buckets, priorities.
//!
//! A budget is a few [`Limit`]s. The *steady* one has the partition's share as its rate; if that is
//! small, capacity that was left unused is saved for up to five minutes and may be used later. The
//! *ceiling* bounds how fast: no more than 3 000 request units per second. A *throughput bucket* is
//! a further limit that only requests of that bucket see.
//!
//! Requests of low priority may use only the first half of a second's credit, so that what remains
//! of a busy second is for the others.
//!
//! A container's partitions have a budget each. Where containers share the throughput of their
//! database the budgets are the database's, and partitions of several containers use one.

use std::sync::atomic::{AtomicU8, Ordering};

use partita_model::{ThroughputBucket, limits};

use super::limit::{CREDIT_NANOS, Limit};

/// How long unused capacity is kept: the service's five minutes.
const BANK_NANOS: u64 = 300_000_000_000;

/// A partition with less than this may use saved capacity, up to this rate: as at the service.
const BURST_RU_MAX: f64 = 3_000.0;

/// No bucket: their ids begin at one.
const NONE: u8 = 0;

/// How important a request is to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The last to be throttled.
    #[default]
    High,
    /// The first to be throttled.
    Low,
}

/// What decides how a request is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub priority: Priority,
    /// A throughput bucket, 1 to 5. One that is not configured limits nothing.
    pub bucket: Option<u8>,
}

/// A request that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) retry_after_ms: u64,
    /// The throughput bucket that is exhausted, if it is that and not the whole.
    pub(crate) bucket: Option<u8>,
}

/// The limits of one or more partitions.
#[derive(Debug)]
pub(crate) struct Budget {
    steady: Limit,
    /// How fast saved capacity may be used. Without savings it would never be the one that binds.
    ceiling: Limit,
    buckets: [Limit; limits::THROUGHPUT_BUCKETS_MAX],
    /// Bit n: the bucket n + 1 is configured.
    configured: AtomicU8,
    /// The bucket of requests that name none.
    default_bucket: AtomicU8,
}

impl Budget {
    /// A budget that begins now, with nothing saved.
    pub(crate) fn new(now: u64, ru_per_second: f64, buckets: &[ThroughputBucket]) -> Budget {
        let limit = || Limit::new(ru_per_second, 0, now);
        let budget = Budget {
            steady: Limit::new(ru_per_second, bank_nanos(ru_per_second), now),
            ceiling: Limit::new(ru_per_second.max(BURST_RU_MAX), 0, now),
            buckets: std::array::from_fn(|_| limit()),
            configured: AtomicU8::new(0),
            default_bucket: AtomicU8::new(NONE),
        };
        budget.set(now, ru_per_second, buckets);
        budget
    }

    /// Changes the throughput.
    pub(crate) fn set(&self, now: u64, ru_per_second: f64, buckets: &[ThroughputBucket]) {
        self.steady.set_rate(now, ru_per_second, bank_nanos(ru_per_second));
        self.ceiling.set_rate(now, ru_per_second.max(BURST_RU_MAX), 0);
        let (mut configured, mut default_bucket) = (0, NONE);
        for bucket in buckets {
            let Some(limit) = self.bucket(bucket.id) else { continue };
            limit.set_rate(now, ru_per_second * f64::from(bucket.percent) / 100.0, 0);
            configured |= bit(bucket.id);
            if bucket.is_default {
                default_bucket = bucket.id;
            }
        }
        self.configured.store(configured, Ordering::Relaxed);
        self.default_bucket.store(default_bucket, Ordering::Relaxed);
    }

    /// May a request go ahead?
    pub(crate) fn admit(&self, now: u64, demand: Demand) -> Result<(), Refused> {
        let credit = match demand.priority {
            Priority::High => CREDIT_NANOS,
            Priority::Low => CREDIT_NANOS / 2,
        };
        let refused = |limit: &Limit, wait, bucket| {
            let nanos = limit.tell(now, wait);
            Err(Refused { retry_after_ms: nanos.div_ceil(1_000_000).max(1), bucket })
        };
        if let Some((id, limit)) = self.bucket_of(demand) {
            let wait = limit.wait_nanos(now, credit);
            if wait > 0 {
                return refused(limit, wait, Some(id));
            }
        }
        for limit in [&self.steady, &self.ceiling] {
            let wait = limit.wait_nanos(now, credit);
            if wait > 0 {
                return refused(limit, wait, None);
            }
        }
        Ok(())
    }

    /// Charges what an admitted request cost.
    pub(crate) fn charge(&self, now: u64, demand: Demand, ru: f64) {
        self.steady.charge(now, ru);
        if self.steady.ru_per_second() < BURST_RU_MAX {
            self.ceiling.charge(now, ru);
        }
        if let Some((_, limit)) = self.bucket_of(demand) {
            limit.charge(now, ru);
        }
    }

    /// The rate without what was saved.
    pub(crate) fn ru_per_second(&self) -> f64 {
        self.steady.ru_per_second()
    }

    /// The configured bucket that a request belongs to.
    fn bucket_of(&self, demand: Demand) -> Option<(u8, &Limit)> {
        let configured = self.configured.load(Ordering::Relaxed);
        if configured == 0 {
            return None;
        }
        let default = || self.default_bucket.load(Ordering::Relaxed);
        let id = demand.bucket.unwrap_or_else(default);
        let limit = self.bucket(id).filter(|_| configured & bit(id) != 0)?;
        Some((id, limit))
    }

    fn bucket(&self, id: u8) -> Option<&Limit> {
        self.buckets.get(usize::from(id).checked_sub(1)?)
    }
}

fn bank_nanos(ru_per_second: f64) -> u64 {
    if ru_per_second < BURST_RU_MAX { BANK_NANOS } else { 0 }
}

/// The bit of a bucket; none for what is no bucket.
fn bit(id: u8) -> u8 {
    id.checked_sub(1).and_then(|place| 1_u8.checked_shl(u32::from(place))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LOW: Demand = Demand { priority: Priority::Low, bucket: None };

    fn in_bucket(id: u8) -> Demand {
        Demand { bucket: Some(id), ..Demand::default() }
    }

    fn bucket(id: u8, percent: u8) -> ThroughputBucket {
        ThroughputBucket { id, percent, is_default: false }
    }

    /// What comes through of one unit every tenth of a millisecond.
    fn used(budget: &Budget, from: u64, seconds: u64, demand: Demand) -> f64 {
        let mut used = 0.0;
        for step in 0..seconds * 10_000 {
            let now = from + step * 100_000;
            if budget.admit(now, demand).is_ok() {
                budget.charge(now, demand, 1.0);
                used += 1.0;
            }
        }
        used
    }

    #[test]
    fn saved_capacity_is_used_no_faster_than_three_thousand_a_second() {
        let budget = Budget::new(0, 400.0, &[]);
        let from = 100 * SECOND;
        assert!((used(&budget, from, 1, Demand::default()) - 6_000.0).abs() < 2.0);
        assert!((used(&budget, from + SECOND, 1, Demand::default()) - 3_000.0).abs() < 2.0);
        let more = used(&budget, from + 2 * SECOND, 60, Demand::default());
        let all = (100.0 + 62.0 + 1.0) * 400.0;
        assert!((more - (all - 9_000.0)).abs() < 20.0, "{more}");
    }

    #[test]
    fn a_large_share_has_no_burst() {
        let budget = Budget::new(0, 4_000.0, &[]);
        let got = used(&budget, 1_000 * SECOND, 2, Demand::default());
        assert!((got - 12_000.0).abs() < 2.0, "{got}");
    }

    #[test]
    fn a_refusal_says_when_it_will_be_admitted() {
        let budget = Budget::new(0, 400.0, &[]);
        budget.charge(0, Demand::default(), 500.0);
        let refused = budget.admit(0, Demand::default()).unwrap_err();
        assert_eq!(refused, Refused { retry_after_ms: 251, bucket: None });
        assert!(budget.admit(250 * 1_000_000, Demand::default()).is_err());
        assert!(budget.admit(251 * 1_000_000, Demand::default()).is_ok());
    }

    #[test]
    fn low_priority_waits_while_high_priority_goes_ahead() {
        let budget = Budget::new(0, 5_000.0, &[]);
        let (mut low, mut high) = (0, 0);
        for step in 0..10_000_u64 {
            let now = step * 1_000_000;
            // Each asks for 80 % of what there is.
            for _ in 0..4 {
                for (demand, count) in [(Demand::default(), &mut high), (LOW, &mut low)] {
                    if budget.admit(now, demand).is_ok() {
                        budget.charge(now, demand, 1.0);
                        *count += 1;
                    }
                }
            }
        }
        assert_eq!(high, 40_000);
        assert!((8_000..=13_000).contains(&low), "{low}");
    }

    #[test]
    fn a_throughput_bucket_gets_its_percentage_and_the_others_the_rest() {
        let budget = Budget::new(0, 5_000.0, &[bucket(2, 20), bucket(5, 100)]);
        let got = used(&budget, 0, 10, in_bucket(2));
        assert!((got - 11_000.0).abs() < 2.0, "{got}");
        let refused = budget.admit(10 * SECOND, in_bucket(2)).unwrap_err();
        assert_eq!(refused.bucket, Some(2));
        for demand in [Demand::default(), in_bucket(1), in_bucket(5), in_bucket(7)] {
            assert!(budget.admit(10 * SECOND, demand).is_ok(), "{demand:?}");
        }
        budget.set(10 * SECOND, 5_000.0, &[ThroughputBucket { is_default: true, ..bucket(2, 20) }]);
        assert!(budget.admit(10 * SECOND, Demand::default()).is_err());
        budget.set(10 * SECOND, 5_000.0, &[]);
        assert!(budget.admit(10 * SECOND, in_bucket(2)).is_ok());
    }
}
