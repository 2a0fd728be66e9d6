//! Counters of what the server does, for Prometheus.
//!
//! One registry, made by the binary and handed to whoever counts; there is no global. Doors report
//! each request once ([`Telemetry::observe`]), the gateway counts what never reaches a door.
//! Operations are a fixed list of words, so the number of series is bounded by the code, never by
//! what clients send: no database, container or path is a label. What others count comes in as
//! sources (`series.rs`), which answer for their own labels; those that name resources of the
//! account are shown to some only.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::series::{SeriesSource, Source};

/// The counters. See the module's text.
pub struct Telemetry {
    registry: Registry,
    /// What names resources of the account.
    naming: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
    charge: Family<OperationLabels, Counter<f64, AtomicU64>>,
    /// The counters of the requests that came first: see [`Known`].
    known: [OnceLock<Known>; KNOWN],
    refused: Family<ReasonLabels, Counter>,
    connections_open: Gauge<i64, AtomicI64>,
    connections_total: Counter,
    tls_handshake_failures: Counter,
    panics: Counter,
    queries_queued: Gauge<i64, AtomicI64>,
    queries_running: Gauge<i64, AtomicI64>,
    queries_cancelled: Counter,
}

/// Which figures somebody may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Those of the process as a whole.
    OfProcess,
    /// Those that name resources of the account, too.
    All,
}

/// Something that goes on, as long as this is there.
#[derive(Debug)]
#[must_use]
pub struct Ongoing(Gauge<i64, AtomicI64>);

impl Ongoing {
    fn new(gauge: &Gauge<i64, AtomicI64>) -> Ongoing {
        gauge.inc();
        Ongoing(gauge.clone())
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    door: &'static str,
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    door: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// The counters of one kind of request, found already. A family would be asked three times for each
/// request, each time under a lock and with a hash of the labels, which takes longer than to count.
struct Known {
    labels: RequestLabels,
    requests: Counter,
    seconds: Histogram,
    charge: OnceLock<Counter<f64, AtomicU64>>,
}

/// Places for kinds of requests, more than a server usually sees. Two kinds that fall on one place
/// are counted all the same, the second by way of the families.
const KNOWN: usize = 128;

impl Telemetry {
    /// All counters at zero. `version` is shown in `partita_build_info`.
    pub fn new(version: &'static str) -> Telemetry {
        let mut telemetry = Telemetry {
            registry: Registry::with_prefix("partita"),
            naming: Registry::with_prefix("partita"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(new_histogram),
            charge: Family::default(),
            known: [const { OnceLock::new() }; KNOWN],
            refused: Family::default(),
            connections_open: Gauge::default(),
            connections_total: Counter::default(),
            tls_handshake_failures: Counter::default(),
            panics: Counter::default(),
            queries_queued: Gauge::default(),
            queries_running: Gauge::default(),
            queries_cancelled: Counter::default(),
        };
        telemetry.register(version);
        telemetry
    }

    fn register(&mut self, version: &'static str) {
        let registry = &mut self.registry;
        let build = Info::new(vec![("version", version)]);
        registry.register("build", "The running version", build);
        registry.register("requests", "Requests answered by a door", self.requests.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from a request's head to its response",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register("request_units", "Request units charged", self.charge.clone());
        registry.register(
            "refused",
            "Connections and requests turned away before a door saw them",
            self.refused.clone(),
        );
        registry.register("connections_open", "Open connections", self.connections_open.clone());
        registry.register("connections", "Connections accepted", self.connections_total.clone());
        registry.register(
            "tls_handshake_failures",
            "TLS handshakes that failed or took too long",
            self.tls_handshake_failures.clone(),
        );
        registry.register("panics", "Requests ended by a panic", self.panics.clone());
        registry.register(
            "queries_queued",
            "Queries and reads of feeds that wait for a thread",
            self.queries_queued.clone(),
        );
        registry.register(
            "queries_running",
            "Queries and reads of feeds that threads have begun, those included that have stood aside",
            self.queries_running.clone(),
        );
        registry.register(
            "queries_cancelled",
            "Queries and reads of feeds whose client was gone before they were done",
            self.queries_cancelled.clone(),
        );
    }

    /// Adds metrics that come from outside, about the process as a whole.
    pub fn add_source(&mut self, source: SeriesSource) {
        self.registry.register_collector(Box::new(Source(source)));
    }

    /// Adds metrics whose labels name resources of the account.
    pub fn add_naming_source(&mut self, source: SeriesSource) {
        self.naming.register_collector(Box::new(Source(source)));
    }

    /// Counts one request that a door answered. `operation` is a word from the door's fixed list.
    pub fn observe(
        &self,
        door: &'static str,
        operation: &'static str,
        status: u16,
        seconds: f64,
        charge: f64,
    ) {
        let labels = RequestLabels { door, operation, status };
        let known = self.known.get(labels.place());
        match known.map(|place| place.get_or_init(|| self.find(&labels))) {
            Some(known) if known.labels == labels => self.count(known, seconds, charge),
            Some(_) | None => self.count(&self.find(&labels), seconds, charge),
        }
    }

    fn find(&self, labels: &RequestLabels) -> Known {
        let operation = OperationLabels { door: labels.door, operation: labels.operation };
        Known {
            labels: labels.clone(),
            requests: self.requests.get_or_create_owned(labels),
            seconds: self.seconds.get_or_create_owned(&operation),
            charge: OnceLock::new(),
        }
    }

    fn count(&self, known: &Known, seconds: f64, charge: f64) {
        known.requests.inc();
        known.seconds.observe(seconds);
        if charge > 0.0 {
            let RequestLabels { door, operation, .. } = known.labels;
            let labels = OperationLabels { door, operation };
            // Operations that are never charged shall not be listed with a charge of nothing.
            known.charge.get_or_init(|| self.charge.get_or_create_owned(&labels)).inc_by(charge);
        }
    }

    /// The counters in the OpenMetrics text format: those of the process, or all.
    pub fn render(&self, figures: Figures) -> String {
        let mut out = String::with_capacity(8 * 1024);
        let mut encode = |registry| encode_registry(&mut out, registry);
        let encoded = encode(&self.registry).and_then(|()| match figures {
            Figures::OfProcess => Ok(()),
            Figures::All => encode(&self.naming),
        });
        encoded.and_then(|()| encode_eof(&mut out)).expect("a String takes every write");
        out
    }

    /// Connections that are open now.
    pub fn connections_open(&self) -> i64 {
        self.connections_open.get()
    }

    /// A query waits for a thread.
    pub fn query_queued(&self) -> Ongoing {
        Ongoing::new(&self.queries_queued)
    }

    /// A thread has begun a query.
    pub fn query_running(&self) -> Ongoing {
        Ongoing::new(&self.queries_running)
    }

    /// The client of a query was gone before it was done.
    pub fn query_cancelled(&self) {
        self.queries_cancelled.inc();
    }

    pub(crate) fn connection_opened(&self) {
        self.connections_total.inc();
        self.connections_open.inc();
    }

    pub(crate) fn connection_closed(&self) {
        self.connections_open.dec();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn tls_handshake_failed(&self) {
        self.tls_handshake_failures.inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }
}

impl RequestLabels {
    /// Where the counters are, if they are known: words of a door's list mostly differ in these.
    fn place(&self) -> usize {
        let letter = |at: usize| self.operation.as_bytes().get(at).copied().map_or(0, usize::from);
        let word = self.operation.len() + letter(0) * 3 + letter(self.operation.len() / 2) * 7;
        (word + usize::from(self.status) * 11) % KNOWN
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

/// From 50 µs, a point read from memory, to 26 s, in steps of two.
fn new_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_timed_and_charged() {
        let telemetry = Telemetry::new("1.2.3");
        telemetry.observe("nosql", "read_item", 200, 0.000_07, 1.0);
        telemetry.observe("nosql", "read_item", 200, 0.000_2, 1.5);
        telemetry.observe("nosql", "read_item", 404, 0.000_01, 0.0);
        // Both fall on one place.
        telemetry.observe("other", "read_item", 200, 0.000_2, 2.0);
        telemetry.observe("other", "read_item", 200, 0.000_2, 2.0);
        telemetry.refused("body_timeout");
        telemetry.connection_opened();

        let text = telemetry.render(Figures::OfProcess);
        for line in [
            r#"partita_build_info{version="1.2.3"} 1"#,
            r#"partita_requests_total{door="nosql",operation="read_item",status="200"} 2"#,
            r#"partita_requests_total{door="nosql",operation="read_item",status="404"} 1"#,
            r#"partita_request_duration_seconds_count{door="nosql",operation="read_item"} 3"#,
            r#"partita_request_units_total{door="nosql",operation="read_item"} 2.5"#,
            r#"partita_requests_total{door="other",operation="read_item",status="200"} 2"#,
            r#"partita_request_units_total{door="other",operation="read_item"} 4.0"#,
            r#"partita_refused_total{reason="body_timeout"} 1"#,
            "partita_connections_open 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
