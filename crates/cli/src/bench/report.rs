//! What was measured, as a table for people or as JSON for programs.

use partita_http_client::Endpoint;
use partita_load::{ErrorClass, Outcome, Settings, Stats};
use partita_model::{Object, Value};

use crate::table::{Align, count, table};

/// The percentiles that are shown, by name.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A run that is over.
pub(crate) struct Report<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) outcome: Outcome,
}

impl Report<'_> {
    pub(crate) fn json(&self) -> Value {
        let (settings, measurements) = (self.settings, &self.outcome.measurements);
        let kinds = measurements.kinds().map(|(kind, stats)| {
            Value::from(self.stats(Object::new().with("operation", kind.name()), stats))
        });
        let errors = measurements.errors.iter().map(|(class, error)| {
            let (status, substatus) = match class {
                ErrorClass::Refused(status, substatus) => (u32::from(*status), *substatus),
                ErrorClass::Connection | ErrorClass::Timeout => (0, 0),
            };
            let object = Object::new()
                .with("error", name(*class))
                .with("status", status)
                .with("substatus", substatus)
                .with("count", error.count as f64)
                .with("example", error.example.as_str());
            Value::from(object)
        });
        let head = Object::new()
            .with("endpoint", self.endpoint.url())
            .with("workload", settings.workload.name())
            .with("clients", u32::from(settings.clients))
            .with("keys", settings.keys as f64)
            .with("itemBytes", settings.item_bytes as f64)
            .with("throughput", settings.throughput.map_or(Value::Null, Value::from))
            .with("seconds", rounded(self.seconds()))
            .with("interrupted", self.outcome.is_interrupted);
        self.stats(head, &measurements.total())
            .with("throttled", measurements.throttled as f64)
            .with("throttledWaitSeconds", rounded(measurements.throttled_wait.as_secs_f64()))
            .with("kinds", kinds.collect::<Vec<_>>())
            .with("errors", errors.collect::<Vec<_>>())
            .into()
    }

    fn stats(&self, object: Object, stats: &Stats) -> Object {
        let (latencies, operations) = (&stats.latencies, stats.latencies.count() as f64);
        let mut times = Object::new();
        for (name, share) in PERCENTILES {
            times = times.with(name, latencies.percentile_ms(share));
        }
        object
            .with("operations", operations)
            .with("operationsPerSecond", rounded(operations / self.seconds()))
            .with("requestUnits", rounded(stats.charge))
            .with("requestUnitsPerSecond", rounded(stats.charge / self.seconds()))
            .with("latencyMs", times.with("max", latencies.max_ms()))
    }

    pub(crate) fn text(&self) -> String {
        let (settings, measurements) = (self.settings, &self.outcome.measurements);
        let interrupted =
            if self.outcome.is_interrupted { ", then it was interrupted" } else { "" };
        let mut out = format!(
            "{} on {}: {} clients, items of {} bytes under {} keys, {:.1} s{interrupted}\n\n",
            settings.workload.name(),
            self.endpoint.url(),
            settings.clients,
            settings.item_bytes,
            count(settings.keys as f64),
            self.seconds(),
        );
        out.push_str(&self.latencies());
        out.push_str(&format!("\n  {} throttled (429)", count(measurements.throttled as f64)));
        if measurements.throttled > 0 {
            let waited = measurements.throttled_wait.as_secs_f64();
            out.push_str(&format!(
                "; the clients waited {waited:.1} s for it, all together. More --throughput, or \
                 fewer --clients, would spare that"
            ));
        }
        out.push_str(&format!("\n  {} errors\n", count(measurements.errors_count() as f64)));
        for (class, error) in &measurements.errors {
            let times = count(error.count as f64);
            out.push_str(&format!("    {times} × {}, first: {}\n", name(*class), error.example));
        }
        out
    }

    fn latencies(&self) -> String {
        let headings = [
            ("OPERATION", Align::Left),
            ("COUNT", Align::Right),
            ("PER SECOND", Align::Right),
            ("RU/S", Align::Right),
            ("RU EACH", Align::Right),
            ("P50 MS", Align::Right),
            ("P90", Align::Right),
            ("P99", Align::Right),
            ("P99.9", Align::Right),
            ("MAX", Align::Right),
        ];
        let measurements = &self.outcome.measurements;
        let mut rows: Vec<Vec<String>> =
            measurements.kinds().map(|(kind, stats)| self.row(kind.name(), stats)).collect();
        if rows.len() != 1 {
            rows.push(self.row("all", &measurements.total()));
        }
        table(&headings, &rows)
    }

    fn row(&self, name: &str, stats: &Stats) -> Vec<String> {
        let (latencies, operations) = (&stats.latencies, stats.latencies.count() as f64);
        let mut row = vec![
            name.to_owned(),
            count(operations),
            count(operations / self.seconds()),
            count(stats.charge / self.seconds()),
            format!("{:.2}", stats.charge / operations.max(1.0)),
        ];
        let times = PERCENTILES.iter().map(|(_, share)| latencies.percentile_ms(*share));
        row.extend(times.chain([latencies.max_ms()]).map(|ms| format!("{ms:.2}")));
        row
    }

    fn seconds(&self) -> f64 {
        self.outcome.elapsed.as_secs_f64().max(1e-9)
    }
}

fn name(class: ErrorClass) -> String {
    match class {
        ErrorClass::Refused(status, 0) => status.to_string(),
        ErrorClass::Refused(status, substatus) => format!("{status}/{substatus}"),
        ErrorClass::Connection => "no connection".to_owned(),
        ErrorClass::Timeout => "no answer in time".to_owned(),
    }
}

/// To the hundredth: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
