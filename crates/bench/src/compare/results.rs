//! What was measured: rows of cells, a cell for each system, a sample for each round.

use std::collections::BTreeMap;

use crate::median;

/// The system that others are compared with.
pub(crate) const PARTITA: &str = "partita";

/// One round of one workload on one system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// In the row's unit.
    pub(crate) value: f64,
    pub(crate) operations: u64,
    /// Operations that were refused, or answered wrongly.
    pub(crate) errors: u64,
    /// At [`crate::client::PERCENTILES`], if single operations were timed.
    pub(crate) latencies_ms: Option<[f64; 5]>,
    /// Processor time of all the server's processes per operation.
    pub(crate) cpu_us: Option<f64>,
}

impl Sample {
    /// A measurement that is no more than a number.
    pub(crate) fn of(value: f64) -> Sample {
        Sample { value, ..Sample::default() }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Measured(Vec<Sample>),
    /// The system does not do this, and what it said.
    Refused(String),
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// A workload on all systems.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) cells: BTreeMap<String, Cell>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, better: Better) -> Row {
        Row { name: name.into(), unit, better, cells: BTreeMap::new() }
    }

    /// Adds one round.
    pub(crate) fn add(&mut self, system: &str, sample: Sample) {
        let cell = self.cells.entry(system.to_owned());
        if let Cell::Measured(samples) = cell.or_insert_with(|| Cell::Measured(Vec::new())) {
            samples.push(sample);
        }
    }

    /// Gives up on a system; what it did in earlier rounds does not count.
    pub(crate) fn refuse(&mut self, system: &str, why: impl Into<String>) {
        self.cells.insert(system.to_owned(), Cell::Refused(why.into()));
    }

    pub(crate) fn refused(&self, system: &str) -> bool {
        matches!(self.cells.get(system), Some(Cell::Refused(_)))
    }

    fn samples(&self, system: &str) -> &[Sample] {
        match self.cells.get(system) {
            Some(Cell::Measured(samples)) => samples,
            _ => &[],
        }
    }

    /// The median round.
    pub(crate) fn value(&self, system: &str) -> Option<f64> {
        middle(self.samples(system).iter().map(|sample| Some(sample.value)))
    }

    /// The median of a percentile, by its place in [`crate::client::PERCENTILES`].
    pub(crate) fn latency_ms(&self, system: &str, place: usize) -> Option<f64> {
        let latency = |sample: &Sample| sample.latencies_ms?.get(place).copied();
        middle(self.samples(system).iter().map(latency))
    }

    pub(crate) fn cpu_us(&self, system: &str) -> Option<f64> {
        middle(self.samples(system).iter().map(|sample| sample.cpu_us))
    }

    /// How many operations failed, of how many.
    pub(crate) fn errors(&self, system: &str) -> (u64, u64) {
        let samples = self.samples(system);
        let sum = |part: fn(&Sample) -> u64| samples.iter().map(part).sum();
        (sum(|sample| sample.errors), sum(|sample| sample.operations))
    }

    /// How many times better Partita is: above 1 it is ahead, whatever the unit.
    pub(crate) fn ratio(&self, system: &str) -> Option<f64> {
        let (ours, theirs) = (self.value(PARTITA)?, self.value(system)?);
        let (over, under) = match self.better {
            Better::Higher => (ours, theirs),
            Better::Lower => (theirs, ours),
        };
        (under > 0.0).then(|| over / under)
    }
}

fn middle(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| median(values))
}

/// A system as it was met.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    /// Its version and how it stores, or why it is absent.
    pub(crate) description: Result<String, String>,
}

/// Everything about a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    /// Facts about the machine and the run, as name and value.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) rows: Vec<Row>,
}

impl Results {
    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = &str> {
        let present = self.contenders.iter().filter(|contender| contender.description.is_ok());
        present.map(|contender| contender.name.as_str())
    }

    pub(crate) fn absent(&self, name: &str) -> Option<&str> {
        let contender = self.contenders.iter().find(|contender| contender.name == name)?;
        contender.description.as_ref().err().map(String::as_str)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small run with everything that a report must show.
    pub(crate) fn example() -> Results {
        let mut read = Row::new("point read", "1/s", Better::Higher);
        for (system, value) in [("partita", 40_000.0), ("postgres", 20_000.0), ("cosmium", 9_000.0)]
        {
            for shift in [0.9, 1.0, 1.3] {
                let p50 = 64_000.0 / value / shift;
                read.add(
                    system,
                    Sample {
                        value: value * shift,
                        operations: 1_000,
                        errors: u64::from(system == "cosmium"),
                        latencies_ms: Some([p50, p50 * 1.5, p50 * 3.0, p50 * 5.0, p50 * 9.0]),
                        cpu_us: Some(400_000.0 / value),
                    },
                );
            }
        }
        let mut start = Row::new("start-up", "ms", Better::Lower);
        start.add("partita", Sample::of(40.0));
        start.add("postgres", Sample::of(300.0));
        let mut group = Row::new("query: GROUP BY with SUM", "1/s", Better::Higher);
        group.add("partita", Sample::of(50.0));
        group.add("postgres", Sample::of(100.0));
        group.refuse("cosmium", "400 Bad Request: | not parsed");
        let contender = |name: &str, description: Result<&str, &str>| Contender {
            name: name.to_owned(),
            description: description.map(str::to_owned).map_err(str::to_owned),
        };
        Results {
            facts: vec![("cores".to_owned(), "2".to_owned())],
            contenders: vec![
                contender("partita", Ok("0.1.0, durable")),
                contender("postgres", Ok("15.20, durable")),
                contender("vercel", Err("npm is not installed")),
                contender("cosmium", Ok("0.1.20, in memory")),
            ],
            rows: vec![read, group, start],
        }
    }

    #[test]
    fn above_one_partita_is_ahead_whatever_the_unit() {
        let results = example();
        let ratio = |row: &str, system: &str| results.row(row).unwrap().ratio(system);
        assert_eq!(ratio("point read", "postgres"), Some(2.0));
        assert_eq!(ratio("start-up", "postgres"), Some(7.5));
        assert_eq!(ratio("query: GROUP BY with SUM", "postgres"), Some(0.5));
        assert_eq!(ratio("query: GROUP BY with SUM", "cosmium"), None);
        assert_eq!(ratio("point read", "vercel"), None);
    }

    #[test]
    fn a_round_after_a_refusal_changes_nothing() {
        let mut row = Row::new("x", "1/s", Better::Higher);
        row.add("a", Sample::of(1.0));
        row.refuse("a", "400");
        row.add("a", Sample::of(1.0));
        assert!(row.refused("a"));
        assert_eq!(row.value("a"), None);
    }
}
