//! What a partition has done, and how much it may do.
//!
//! Every partition has one [`Meter`], in memory only: it begins anew with the process, and with a
//! split. Requests ask it before they run and are counted after; whoever wants to see a partition
//! at work reads it here.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use partita_model::{Epk, PartitionKey};

use super::budget::{Budget, Demand, Refused};
use super::hot::{HotKey, HotKeys};
use super::window::Window;
use super::{CENTS_PER_RU, NANOS_PER_SECOND};

/// One request in so many hundredths of request units is looked at for the hot keys.
const SAMPLE_CENTS: u64 = 1_000;

/// The bytes are not known yet.
const UNKNOWN: i64 = -1;

/// The bytes are counted along, and read again after so many uses in case some were missed.
const BYTES_USES_MAX: u32 = 1_024;

/// How long a partition that refused a request is taken for one that was asked for more than it
/// could give.
const REFUSED_NANOS: u64 = 60 * NANOS_PER_SECOND;

/// Large logical partitions that are remembered.
const LARGE_KEYS_MAX: usize = 32;

/// A logical partition that comes near its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeKey {
    /// The hash that places it.
    pub epk: Epk,
    /// The partition key as a JSON array.
    pub key: String,
    /// Bytes of its items when one was last written.
    pub bytes: u64,
}

/// Counts and limits what one partition does.
pub struct Meter {
    /// None: it may use what it wants.
    budget: ArcSwapOption<Budget>,
    cents: AtomicU64,
    requests: AtomicU64,
    throttled: AtomicU64,
    /// When a request was last refused; 0: never.
    refused_nanos: AtomicU64,
    window: Window,
    hot: Mutex<HotKeys>,
    bytes: AtomicI64,
    bytes_uses: AtomicU32,
    large: Mutex<Vec<LargeKey>>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (consumed, requests) = (self.consumed_ru(), self.requests());
        write!(f, "Meter {{ {consumed} RU in {requests} requests }}")
    }
}

impl Meter {
    /// The meter of a partition that has done nothing yet.
    pub(crate) fn new() -> Meter {
        Meter {
            budget: ArcSwapOption::empty(),
            cents: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            refused_nanos: AtomicU64::new(0),
            window: Window::new(),
            hot: Mutex::default(),
            bytes: AtomicI64::new(UNKNOWN),
            bytes_uses: AtomicU32::new(0),
            large: Mutex::default(),
        }
    }

    /// Request units used since the process began.
    pub fn consumed_ru(&self) -> f64 {
        self.cents.load(Ordering::Relaxed) as f64 / CENTS_PER_RU
    }

    /// Requests that were served since the process began; a query counts in every partition that
    /// it asked.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests that were refused for being over the throughput.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Request units used in the last full second.
    pub fn ru_last_second(&self, now_nanos: u64) -> f64 {
        self.window.seconds(now_nanos).next().unwrap_or(0.0)
    }

    /// Request units per second over the last minute.
    pub fn ru_last_minute(&self, now_nanos: u64) -> f64 {
        self.window.seconds(now_nanos).sum::<f64>() / 60.0
    }

    /// Request units per second that were asked for over the last minute, about. How many the
    /// refused requests would have used is not known, since clients try again: together they count
    /// as much as those that were served.
    pub(crate) fn demand_last_minute(&self, now_nanos: u64) -> f64 {
        let refused = self.refused_nanos.load(Ordering::Relaxed);
        let is_short = refused > 0 && now_nanos.saturating_sub(refused) < REFUSED_NANOS;
        self.ru_last_minute(now_nanos) * if is_short { 2.0 } else { 1.0 }
    }

    /// Request units used in the busiest second of the last minute.
    pub fn ru_peak(&self, now_nanos: u64) -> f64 {
        let this_second = self.window.ru_in(now_nanos / NANOS_PER_SECOND);
        self.window.seconds(now_nanos).fold(this_second, f64::max)
    }

    /// The partition's share of the provisioned throughput; None: it is not limited.
    pub fn provisioned_ru(&self) -> Option<f64> {
        self.budget.load().as_ref().map(|budget| budget.ru_per_second())
    }

    /// Bytes of the partition's items, if they have been looked up.
    pub fn bytes(&self) -> Option<u64> {
        u64::try_from(self.bytes.load(Ordering::Relaxed)).ok()
    }

    /// The logical partitions that cost most lately, the most expensive first.
    pub fn hot_keys(&self, now_nanos: u64, count: usize) -> Vec<HotKey> {
        let mut hot = self.hot.lock().unwrap_or_else(PoisonError::into_inner);
        hot.top(now_nanos, count)
    }

    /// The logical partitions that a write found near their limit, the largest first.
    pub fn large_keys(&self) -> Vec<LargeKey> {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner).clone();
        large.sort_by_key(|key| std::cmp::Reverse(key.bytes));
        large
    }

    /// May a request go ahead?
    pub(crate) fn admit(&self, now: u64, demand: Demand) -> Result<(), Refused> {
        let Some(budget) = &*self.budget.load() else { return Ok(()) };
        let admitted = budget.admit(now, demand);
        if admitted.is_err() {
            self.throttled.fetch_add(1, Ordering::Relaxed);
            self.refused_nanos.store(now.max(1), Ordering::Relaxed);
        }
        admitted
    }

    /// Charges the budget for a request that still runs.
    pub(crate) fn owe(&self, now: u64, cents: u64, demand: Demand) {
        if let Some(budget) = &*self.budget.load() {
            budget.charge(now, demand, cents as f64 / CENTS_PER_RU);
        }
    }

    /// Counts what a request cost. `limited`: and charges the budget what it does not owe already.
    pub(crate) fn charge(
        &self,
        now: u64,
        cents: u64,
        limited: Option<(Demand, u64)>,
        key: Option<(&Epk, &PartitionKey)>,
    ) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.window.add(now, cents);
        let before = self.cents.fetch_add(cents, Ordering::Relaxed);
        if let Some((demand, cents)) = limited {
            self.owe(now, cents, demand);
        }
        let samples = (before + cents) / SAMPLE_CENTS - before / SAMPLE_CENTS;
        if let (1.., Some((epk, key)), Ok(mut hot)) = (samples, key, self.hot.try_lock()) {
            hot.add(now, epk, key, (samples * SAMPLE_CENTS) as f64 / CENTS_PER_RU);
        }
    }

    /// The budget that it uses from now on.
    pub(crate) fn set_budget(&self, budget: Option<Arc<Budget>>) {
        self.budget.store(budget);
    }

    pub(crate) fn budget(&self) -> Option<Arc<Budget>> {
        self.budget.load_full()
    }

    /// The partition's bytes, looked up when they are not known or long known.
    pub(crate) fn bytes_or<E>(&self, look_up: impl FnOnce() -> Result<i64, E>) -> Result<i64, E> {
        let known = self.bytes.load(Ordering::Relaxed);
        let uses = self.bytes_uses.fetch_add(1, Ordering::Relaxed);
        if known != UNKNOWN && !uses.is_multiple_of(BYTES_USES_MAX) {
            return Ok(known);
        }
        let bytes = look_up()?.max(0);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    /// The partition's bytes may not be what is known: they are looked up when they are asked for.
    pub(crate) fn forget_bytes(&self) {
        self.bytes.store(UNKNOWN, Ordering::Relaxed);
    }

    /// A commit has changed the partition's bytes.
    pub(crate) fn grow(&self, delta: i64) {
        let grown = |bytes: i64| (bytes != UNKNOWN).then(|| bytes.saturating_add(delta).max(0));
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
    }

    /// Remembers a logical partition that is near its limit.
    pub(crate) fn note_large(&self, epk: &Epk, key: &PartitionKey, bytes: u64) {
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key.to_string();
        if let Some(known) = large.iter_mut().find(|known| known.epk == *epk && known.key == key) {
            known.bytes = bytes;
            return;
        }
        if large.len() >= LARGE_KEYS_MAX {
            let least = large.iter().enumerate().min_by_key(|(_, known)| known.bytes);
            match least.map(|(at, known)| (at, known.bytes)) {
                Some((at, least)) if least < bytes => drop(large.swap_remove(at)),
                Some(_) | None => return,
            }
        }
        large.push(LargeKey { epk: epk.clone(), key, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_meter_tells_what_was_used_and_when() {
        let meter = Meter::new();
        for (second, cents) in [(0, 150), (1, 1_000), (1, 500), (2, 600)] {
            meter.charge(second * SECOND, cents, None, None);
        }
        assert_eq!((meter.consumed_ru(), meter.requests()), (22.5, 4));
        assert_eq!(meter.ru_last_second(2 * SECOND), 15.0);
        assert_eq!(meter.ru_last_minute(2 * SECOND), 16.5 / 60.0);
        assert_eq!(meter.ru_peak(2 * SECOND), 15.0);
        assert_eq!(meter.provisioned_ru(), None);
    }

    #[test]
    fn who_had_to_refuse_requests_was_asked_for_more_than_it_gave() {
        let meter = Meter::new();
        meter.set_budget(Some(Arc::new(Budget::new(0, 10.0, &[]))));
        meter.charge(0, 60_000, Some((Demand::default(), 60_000)), None);
        assert_eq!(meter.demand_last_minute(SECOND), 10.0);
        assert!(meter.admit(SECOND, Demand::default()).is_err());
        assert_eq!(meter.demand_last_minute(SECOND), 20.0);
        assert_eq!(meter.demand_last_minute(60 * SECOND), 20.0, "within a minute");
        assert_eq!(meter.demand_last_minute(70 * SECOND), 0.0);
    }

    #[test]
    fn bytes_are_counted_along_and_looked_up_again_now_and_then() {
        let meter = Meter::new();
        meter.grow(10);
        assert_eq!(meter.bytes(), None, "not known yet");
        assert_eq!(meter.bytes_or(|| Ok::<_, ()>(100)), Ok(100));
        meter.grow(-30);
        for _ in 1..BYTES_USES_MAX {
            assert_eq!(meter.bytes_or(|| Err(())), Ok(70));
        }
        assert_eq!(meter.bytes_or(|| Ok::<_, ()>(80)), Ok(80));
    }

    #[test]
    fn the_largest_logical_partitions_are_remembered() {
        let meter = Meter::new();
        let key = |n: u8| (Epk::from_bytes(vec![n]), PartitionKey(Vec::new()));
        for n in 0..100 {
            let (epk, key) = key(n);
            meter.note_large(&epk, &key, u64::from(n % 50) + 1);
        }
        let (epk, key) = key(49);
        meter.note_large(&epk, &key, 1_000);
        let large = meter.large_keys();
        assert_eq!(large.len(), LARGE_KEYS_MAX);
        assert_eq!((large[0].bytes, &large[0].epk), (1_000, &epk));
        assert!(large.iter().all(|known| known.bytes > 30));
    }
}
