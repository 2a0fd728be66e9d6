//! What was counted: operations with their latencies and charges, refusals, errors.
//!
//! Every client counts for itself, and the counts are added up whenever somebody looks. Latencies
//! are kept in a histogram whose buckets are at most 1.6 % wide, so that an hour of measuring takes
//! no more memory than a second.

use std::collections::BTreeMap;
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Query,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Query];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Query => "query",
        }
    }
}

/// What went wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// Status and sub-status.
    Refused(u16, u32),
    /// The connection could not be made, or was lost.
    Connection,
    /// There was no answer in time.
    Timeout,
}

/// How often an error came, and what the first one said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) count: u64,
    pub(crate) example: String,
}

/// Operations of one kind that succeeded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    pub(crate) latencies: Histogram,
    pub(crate) charge: f64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Done) {
        self.latencies.add(&other.latencies);
        self.charge += other.charge;
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    done: [Done; 3],
    /// Answers that said that it is too much (429). Their operations were tried again.
    pub(crate) throttled: u64,
    /// How long clients waited because they were told to, all together.
    pub(crate) waited: Duration,
    pub(crate) errors: BTreeMap<Wrong, Seen>,
}

impl Tally {
    pub(crate) fn succeeded(&mut self, kind: Kind, latency: Duration, charge: f64) {
        let Some(done) = self.done.get_mut(kind as usize) else { return };
        done.latencies.record(latency);
        done.charge += charge;
    }

    pub(crate) fn failed(&mut self, wrong: Wrong, example: String) {
        self.errors.entry(wrong).or_insert(Seen { count: 0, example }).count += 1;
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        for (mine, others) in self.done.iter_mut().zip(&other.done) {
            mine.add(others);
        }
        self.throttled += other.throttled;
        self.waited += other.waited;
        for (wrong, seen) in &other.errors {
            let mine = self.errors.entry(*wrong);
            mine.or_insert(Seen { count: 0, example: seen.example.clone() }).count += seen.count;
        }
    }

    /// The kinds that were measured, with what was.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Kind, &Done)> {
        let all = Kind::ALL.into_iter().zip(&self.done);
        all.filter(|(_, done)| done.latencies.count() > 0)
    }

    /// All kinds together.
    pub(crate) fn total(&self) -> Done {
        let mut total = Done::default();
        for done in &self.done {
            total.add(done);
        }
        total
    }

    pub(crate) fn errors_count(&self) -> u64 {
        self.errors.values().map(|seen| seen.count).sum()
    }
}

/// Buckets for each doubling.
const BUCKETS: u64 = 64;

/// How long things took, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max_micros: u64,
}

impl Histogram {
    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.put(bucket_of(micros), 1);
        self.max_micros = self.max_micros.max(micros);
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        for (bucket, count) in other.buckets.iter().enumerate() {
            self.put(bucket, *count);
        }
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The latency that this share of all did not exceed, in milliseconds.
    pub(crate) fn percentile_ms(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut passed = 0;
        let found = self.buckets.iter().position(|count| {
            passed += count;
            passed >= wanted
        });
        // A bucket's end may lie behind the longest of all.
        let micros = found.map_or(0, |bucket| end_of(bucket as u64).min(self.max_micros));
        micros as f64 / 1e3
    }

    pub(crate) fn max_ms(&self) -> f64 {
        self.max_micros as f64 / 1e3
    }

    fn put(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(here) = self.buckets.get_mut(bucket) {
            *here += count;
            self.count += count;
        }
    }
}

/// Numbers below 128 have a bucket each; from there on each doubling has 64.
fn bucket_of(micros: u64) -> usize {
    let shift = u64::from(micros.max(1).ilog2().saturating_sub(BUCKETS.ilog2()));
    (shift * BUCKETS + (micros >> shift)) as usize
}

/// The last number that belongs to a bucket.
fn end_of(bucket: u64) -> u64 {
    let shift = (bucket / BUCKETS).saturating_sub(1);
    let start = bucket - shift * BUCKETS;
    // The last bucket ends where the numbers do.
    (u128::from(start + 1) << shift).saturating_sub(1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_a_bucket_that_ends_close_behind_it() {
        let mut before = 0;
        for power in 0..64 {
            for offset in [0_u64, 1, 12_345] {
                let micros = (1_u64 << power).saturating_add(offset);
                let end = end_of(bucket_of(micros) as u64);
                assert!(end >= micros && (end - micros) as f64 <= micros as f64 / 60.0, "{micros}");
            }
            let bucket = bucket_of(1 << power);
            assert!(bucket > before || power == 0);
            before = bucket;
        }
        let buckets: Vec<usize> = (0..200).map(bucket_of).collect();
        assert_eq!(buckets.first(), Some(&0));
        assert!(buckets.windows(2).all(|pair| pair[1] - pair[0] <= 1));
        assert_eq!(end_of(bucket_of(u64::MAX) as u64), u64::MAX);
    }

    #[test]
    fn percentiles_are_those_of_all_that_was_recorded() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        for micros in 1..=1_000 {
            let half = if micros % 2 == 0 { &mut one } else { &mut two };
            half.record(Duration::from_micros(micros));
        }
        one.add(&two);
        assert_eq!(one.count(), 1_000);
        for (share, micros) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = one.percentile_ms(share) * 1e3;
            assert!((micros..=micros * 1.016).contains(&found), "{share}: {found}");
        }
        assert!((one.max_ms() - 1.0).abs() < 1e-9);
        assert!((Histogram::default().percentile_ms(0.5)).abs() < 1e-9);
    }

    #[test]
    fn counts_of_clients_add_up() {
        let mut all = Tally::default();
        for client in 0..3 {
            let mut tally = Tally::default();
            tally.succeeded(Kind::Read, Duration::from_millis(2), 1.5);
            tally.succeeded(Kind::Query, Duration::from_millis(4), 2.5);
            tally.failed(Wrong::Refused(503, 0), format!("client {client}"));
            tally.throttled += 2;
            all.add(&tally);
        }
        assert_eq!(all.kinds().map(|(kind, _)| kind.name()).collect::<Vec<_>>(), ["read", "query"]);
        assert_eq!((all.total().latencies.count(), all.throttled), (6, 6));
        assert!((all.total().charge - 12.0).abs() < 1e-9);
        let seen = Seen { count: 3, example: "client 0".to_owned() };
        assert_eq!(all.errors.into_iter().collect::<Vec<_>>(), [(Wrong::Refused(503, 0), seen)]);
    }
}
