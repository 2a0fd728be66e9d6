//! The file for programs: everything that was measured, round by round.
//!
//! ```text
//! {
//!   "format": 1,
//!   "facts": { "cores": "2", … },              about the machine and the run, all as texts
//!   "systems": [ { "name": "partita", "description": "…" },
//!                { "name": "vercel", "absent": "why" } ],
//!   "workloads": [ {
//!     "name": "point read, 64 clients",
//!     "unit": "1/s", "better": "higher",       what `value` is, and which way is good
//!     "systems": [ {
//!       "name": "partita",
//!       "median": 41000.0,                     of the rounds' values
//!       "ratio": 1.0,                          how many times better Partita is than this one
//!       "rounds": [ {
//!         "value": 40500.0,
//!         "operations": 40512, "errors": 0,
//!         "latencies_ms": [ … ],               at the percentiles 50, 90, 99, 99.9 and 100
//!         "cpu_us": 21.5                       the server's processes, for each operation
//!       } ]
//!     }, { "name": "vercel", "refused": "400 no route" } ]
//!   } ],
//!   "targets": [ { "target": "…", "verdict": "held", "measured": "…" } ]
//! }
//! ```
//!
//! `verdict` is `held`, `missed` or `not measured`. Members that were not measured are missing.

use partita_model::{Object, Value};

use super::results::{Better, Cell, Contender, Results, Row, Sample};
use super::targets::Checked;

pub(crate) fn render(results: &Results, targets: &[Checked]) -> String {
    let mut facts = Object::new();
    for (name, value) in &results.facts {
        facts = facts.with(name.as_str(), Value::from(value.as_str()));
    }
    let systems: Vec<Value> = results.contenders.iter().map(contender).collect();
    let workloads: Vec<Value> = results.rows.iter().map(workload).collect();
    let targets: Vec<Value> = targets.iter().map(target).collect();
    let all = Object::new()
        .with("format", 1_i64)
        .with("facts", facts)
        .with("systems", systems)
        .with("workloads", workloads)
        .with("targets", targets);
    Value::from(all).to_json()
}

fn contender(contender: &Contender) -> Value {
    let object = Object::new().with("name", contender.name.as_str());
    Value::from(match &contender.description {
        Ok(description) => object.with("description", description.as_str()),
        Err(why) => object.with("absent", why.as_str()),
    })
}

fn target(checked: &Checked) -> Value {
    let object = Object::new()
        .with("target", checked.text.as_str())
        .with("verdict", checked.verdict.word())
        .with("measured", checked.measured.as_str());
    Value::from(object)
}

fn workload(row: &Row) -> Value {
    let better = match row.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    let systems: Vec<Value> =
        row.cells.iter().map(|(name, cell)| system(row, name, cell)).collect();
    let object = Object::new()
        .with("name", row.name.as_str())
        .with("unit", row.unit)
        .with("better", better)
        .with("systems", systems);
    Value::from(object)
}

fn system(row: &Row, name: &str, cell: &Cell) -> Value {
    let object = Object::new().with("name", name);
    let samples = match cell {
        Cell::Refused(why) => return Value::from(object.with("refused", why.as_str())),
        Cell::Measured(samples) => samples,
    };
    let object = optional(object, "median", row.value(name));
    let object = optional(object, "ratio", row.ratio(name));
    Value::from(object.with("rounds", samples.iter().map(round).collect::<Vec<_>>()))
}

fn round(sample: &Sample) -> Value {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut object = Object::new()
        .with("value", rounded(sample.value))
        .with("operations", count(sample.operations))
        .with("errors", count(sample.errors));
    if let Some(latencies) = sample.latencies_ms {
        object = object.with("latencies_ms", latencies.map(rounded).to_vec());
    }
    Value::from(optional(object, "cpu_us", sample.cpu_us))
}

fn optional(object: Object, name: &str, value: Option<f64>) -> Object {
    match value {
        Some(value) => object.with(name, rounded(value)),
        None => object,
    }
}

/// Six digits are more than any measurement is good for.
fn rounded(value: f64) -> Value {
    Value::from((value * 1e4).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::golden;
    use crate::compare::results::tests::example;
    use crate::compare::targets;

    #[test]
    fn the_file_reads_like_this() {
        let results = example();
        let text = render(&results, &targets::check(&results));
        assert!(Value::parse(text.as_bytes()).is_ok());
        golden("compare.json", &(text + "\n"));
    }
}
