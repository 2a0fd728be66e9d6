//! What was measured, as a table for people or as JSON for programs.

use std::time::Duration;

use partita_model::{Object, Value};

use super::settings::Settings;
use super::tally::{Done, Tally, Wrong};
use crate::cli::table::{Align, count, table};

/// The percentiles that are shown, by name.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A run that is over.
pub(crate) struct Report<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    /// Did the user end it?
    pub(crate) is_interrupted: bool,
}

impl Report<'_> {
    pub(crate) fn json(&self) -> Value {
        let settings = self.settings;
        let kinds = self.tally.kinds().map(|(kind, done)| {
            Value::from(self.done(Object::new().with("operation", kind.name()), done))
        });
        let errors = self.tally.errors.iter().map(|(wrong, seen)| {
            let (status, substatus) = match wrong {
                Wrong::Refused(status, substatus) => (u32::from(*status), *substatus),
                Wrong::Connection | Wrong::Timeout => (0, 0),
            };
            let error = Object::new()
                .with("error", name(*wrong))
                .with("status", status)
                .with("substatus", substatus)
                .with("count", seen.count as f64)
                .with("example", seen.example.as_str());
            Value::from(error)
        });
        let head = Object::new()
            .with("endpoint", settings.connect.endpoint.url())
            .with("workload", settings.workload.name())
            .with("clients", u32::from(settings.clients))
            .with("keys", settings.keys as f64)
            .with("itemBytes", settings.item_bytes as f64)
            .with("throughput", settings.throughput.map_or(Value::Null, Value::from))
            .with("seconds", rounded(self.seconds()))
            .with("interrupted", self.is_interrupted);
        self.done(head, &self.tally.total())
            .with("throttled", self.tally.throttled as f64)
            .with("throttledWaitSeconds", rounded(self.tally.waited.as_secs_f64()))
            .with("kinds", kinds.collect::<Vec<_>>())
            .with("errors", errors.collect::<Vec<_>>())
            .into()
    }

    fn done(&self, object: Object, done: &Done) -> Object {
        let (latencies, operations) = (&done.latencies, done.latencies.count() as f64);
        let mut times = Object::new();
        for (name, share) in PERCENTILES {
            times = times.with(name, latencies.percentile_ms(share));
        }
        object
            .with("operations", operations)
            .with("operationsPerSecond", rounded(operations / self.seconds()))
            .with("requestUnits", rounded(done.charge))
            .with("requestUnitsPerSecond", rounded(done.charge / self.seconds()))
            .with("latencyMs", times.with("max", latencies.max_ms()))
    }

    pub(crate) fn text(&self) -> String {
        let settings = self.settings;
        let interrupted = if self.is_interrupted { ", then it was interrupted" } else { "" };
        let mut out = format!(
            "{} on {}: {} clients, items of {} bytes under {} keys, {:.1} s{interrupted}\n\n",
            settings.workload.name(),
            settings.connect.endpoint.url(),
            settings.clients,
            settings.item_bytes,
            count(settings.keys as f64),
            self.seconds(),
        );
        out.push_str(&self.latencies());
        out.push_str(&format!("\n  {} throttled (429)", count(self.tally.throttled as f64)));
        if self.tally.throttled > 0 {
            let waited = self.tally.waited.as_secs_f64();
            out.push_str(&format!(
                "; the clients waited {waited:.1} s for it, all together. More --throughput, or \
                 fewer --clients, would spare that"
            ));
        }
        out.push_str(&format!("\n  {} errors\n", count(self.tally.errors_count() as f64)));
        for (wrong, seen) in &self.tally.errors {
            let times = count(seen.count as f64);
            out.push_str(&format!("    {times} × {}, first: {}\n", name(*wrong), seen.example));
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
        let mut rows: Vec<Vec<String>> =
            self.tally.kinds().map(|(kind, done)| self.row(kind.name(), done)).collect();
        if rows.len() != 1 {
            rows.push(self.row("all", &self.tally.total()));
        }
        table(&headings, &rows)
    }

    fn row(&self, name: &str, done: &Done) -> Vec<String> {
        let (latencies, operations) = (&done.latencies, done.latencies.count() as f64);
        let mut row = vec![
            name.to_owned(),
            count(operations),
            count(operations / self.seconds()),
            count(done.charge / self.seconds()),
            format!("{:.2}", done.charge / operations.max(1.0)),
        ];
        let times = PERCENTILES.iter().map(|(_, share)| latencies.percentile_ms(*share));
        row.extend(times.chain([latencies.max_ms()]).map(|ms| format!("{ms:.2}")));
        row
    }

    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-9)
    }
}

fn name(wrong: Wrong) -> String {
    match wrong {
        Wrong::Refused(status, 0) => status.to_string(),
        Wrong::Refused(status, substatus) => format!("{status}/{substatus}"),
        Wrong::Connection => "no connection".to_owned(),
        Wrong::Timeout => "no answer in time".to_owned(),
    }
}

/// To the hundredth: more would be noise.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
