//! What was counted: operations with their latencies and charges, refusals, errors.
//!
//! Every client counts for itself, and the counts are added up whenever somebody looks. Latencies
//! are in a histogram with a relative error below 1 %, so that an hour of measuring takes no more
//! memory than a second.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use partita_http_client::RequestError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Read,
    Write,
    Query,
}

impl OperationKind {
    const ALL: [OperationKind; 3] =
        [OperationKind::Read, OperationKind::Write, OperationKind::Query];

    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Read => "read",
            OperationKind::Write => "write",
            OperationKind::Query => "query",
        }
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// Status and sub-status.
    Refused(u16, u32),
    /// The connection could not be made, or was lost.
    Connection,
    /// There was no response in time.
    Timeout,
}

impl From<&RequestError> for ErrorClass {
    fn from(error: &RequestError) -> ErrorClass {
        match error {
            RequestError::Connection(_) => ErrorClass::Connection,
            RequestError::Timeout(_) => ErrorClass::Timeout,
        }
    }
}

/// How often an error came, and what the first one said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    pub count: u64,
    pub example: String,
}

/// Operations that succeeded.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub latencies: Latencies,
    pub charge: f64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.latencies.add(&other.latencies);
        self.charge += other.charge;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Measurements {
    by_kind: [Stats; 3],
    /// Responses 429. Their operations were tried again.
    pub throttled: u64,
    /// How long clients waited because they were told to, all together.
    pub throttled_wait: Duration,
    pub errors: BTreeMap<ErrorClass, ErrorCount>,
}

impl Measurements {
    pub(crate) fn succeeded(&mut self, kind: OperationKind, latency: Duration, charge: f64) {
        let Some(stats) = self.by_kind.get_mut(kind as usize) else { return };
        stats.latencies.record(latency);
        stats.charge += charge;
    }

    pub(crate) fn failed(&mut self, class: ErrorClass, example: String) {
        self.errors.entry(class).or_insert(ErrorCount { count: 0, example }).count += 1;
    }

    pub(crate) fn add(&mut self, other: &Measurements) {
        for (mine, others) in self.by_kind.iter_mut().zip(&other.by_kind) {
            mine.add(others);
        }
        self.throttled += other.throttled;
        self.throttled_wait += other.throttled_wait;
        for (class, error) in &other.errors {
            let mine = self.errors.entry(*class);
            mine.or_insert(ErrorCount { count: 0, example: error.example.clone() }).count +=
                error.count;
        }
    }

    /// The kinds that were measured, with what was.
    pub fn kinds(&self) -> impl Iterator<Item = (OperationKind, &Stats)> {
        let all = OperationKind::ALL.into_iter().zip(&self.by_kind);
        all.filter(|(_, stats)| stats.latencies.count() > 0)
    }

    /// All kinds together.
    pub fn total(&self) -> Stats {
        let mut total = Stats::default();
        for stats in &self.by_kind {
            total.add(stats);
        }
        total
    }

    pub fn errors_count(&self) -> u64 {
        self.errors.values().map(|error| error.count).sum()
    }
}

/// How long things took.
#[derive(Clone, Debug)]
pub struct Latencies {
    micros: Histogram<u64>,
    /// Exact, unlike the histogram's.
    max_micros: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let micros = Histogram::new(2).expect("two significant digits are possible");
        Latencies { micros, max_micros: 0 }
    }
}

impl Latencies {
    fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.micros.record(micros).expect("the histogram grows as needed");
        self.max_micros = self.max_micros.max(micros);
    }

    fn add(&mut self, other: &Latencies) {
        self.micros.add(&other.micros).expect("the histogram grows as needed");
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    pub fn count(&self) -> u64 {
        self.micros.len()
    }

    /// The latency that this share of all did not exceed, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        // A bucket may end above the longest of all.
        self.micros.value_at_quantile(share).min(self.max_micros) as f64 / 1e3
    }

    pub fn max_ms(&self) -> f64 {
        self.max_micros as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_that_was_recorded() {
        let (mut one, mut two) = (Latencies::default(), Latencies::default());
        for micros in 1..=1_000 {
            let half = if micros % 2 == 0 { &mut one } else { &mut two };
            half.record(Duration::from_micros(micros));
        }
        one.add(&two);
        assert_eq!(one.count(), 1_000);
        for (share, micros) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = one.percentile_ms(share) * 1e3;
            assert!((micros..=micros * 1.01).contains(&found), "{share}: {found}");
        }
        assert!((one.max_ms() - 1.0).abs() < 1e-9);
        assert!((Latencies::default().percentile_ms(0.5)).abs() < 1e-9);
    }

    #[test]
    fn any_latency_can_be_recorded() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(86_400));
        latencies.record(Duration::MAX);
        assert_eq!(latencies.count(), 3);
        assert!((latencies.percentile_ms(0.6) / 86_400e3 - 1.0).abs() < 0.01);
    }

    #[test]
    fn counts_of_clients_add_up() {
        let mut all = Measurements::default();
        for client in 0..3 {
            let mut counts = Measurements::default();
            counts.succeeded(OperationKind::Read, Duration::from_millis(2), 1.5);
            counts.succeeded(OperationKind::Query, Duration::from_millis(4), 2.5);
            counts.failed(ErrorClass::Refused(503, 0), format!("client {client}"));
            counts.throttled += 2;
            all.add(&counts);
        }
        assert_eq!(all.kinds().map(|(kind, _)| kind.name()).collect::<Vec<_>>(), ["read", "query"]);
        assert_eq!((all.total().latencies.count(), all.throttled), (6, 6));
        assert!((all.total().charge - 12.0).abs() < 1e-9);
        let error = ErrorCount { count: 3, example: "client 0".to_owned() };
        assert_eq!(
            all.errors.into_iter().collect::<Vec<_>>(),
            [(ErrorClass::Refused(503, 0), error)]
        );
    }
}
