//! Metrics that somebody else counts.
//!
//! The gateway knows nothing of what it serves, so numbers about that come from outside: a source
//! is asked at each scrape and answers with whole series. It is asked on a connection's thread and
//! must be quick. Labels may hold anything (names of users' own resources): they are escaped here.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// One metric with all its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Without the prefix `partita_`, and for counters without `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: SeriesKind,
    pub samples: Vec<Sample>,
}

/// What a series' numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// They only grow, until a restart.
    Counter,
    /// They go up and down.
    Gauge,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The same names in the same order within a series.
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// Asked at each scrape.
pub type SeriesSource = Box<dyn Fn() -> Vec<Series> + Send + Sync>;

/// A source in the registry's words.
pub(crate) struct Source(pub(crate) SeriesSource);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Collector for Source {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for series in (self.0)() {
            let kind = match series.kind {
                SeriesKind::Counter => MetricType::Counter,
                SeriesKind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(series.name, series.help, None, kind)?;
            for Sample { labels, value } in &series.samples {
                let mut sample = metric.encode_family(labels)?;
                match series.kind {
                    SeriesKind::Counter => {
                        sample.encode_counter::<NoLabelSet, _, u64>(value, None)?;
                    }
                    SeriesKind::Gauge => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{Figures, Telemetry};

    #[test]
    fn a_source_is_asked_at_each_scrape_and_its_labels_are_escaped() {
        let asked = std::sync::atomic::AtomicU32::new(0);
        let source = move || {
            let round = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let sample = |name: &str, value| Sample {
                labels: vec![("database", name.to_owned()), ("range", "0".to_owned())],
                value,
            };
            let gauge = vec![sample("a\"b\\c\nd", 1.5), sample("é", f64::from(round))];
            let series = |name, kind, samples| Series { name, help: "Bytes", kind, samples };
            vec![
                series("partition_storage_bytes", SeriesKind::Gauge, gauge),
                series("partition_requests", SeriesKind::Counter, vec![sample("d", 3.0)]),
            ]
        };
        let mut telemetry = Telemetry::new("1");
        telemetry.add_naming_source(Box::new(source));
        telemetry.render(Figures::All);
        let text = telemetry.render(Figures::All);
        for line in [
            "# TYPE partita_partition_storage_bytes gauge",
            r#"partita_partition_storage_bytes{database="a\"b\\c\nd",range="0"} 1.5"#,
            r#"partita_partition_storage_bytes{database="é",range="0"} 1.0"#,
            "# TYPE partita_partition_requests counter",
            r#"partita_partition_requests_total{database="d",range="0"} 3.0"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let of_process = telemetry.render(Figures::OfProcess);
        assert!(!of_process.contains("partition"), "{of_process}");
        for line in ["partita_connections_open 0", "# EOF"] {
            assert!(of_process.lines().any(|found| found == line), "{line}: {of_process}");
        }
    }
}
