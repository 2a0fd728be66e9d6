//! Plans as documents: a container, queries, and below each the plan that ran and what it took.
//!
//! A change of the table of costs, or of what `choose` does with it, shows here as a difference to
//! read. Set `UPDATE_GOLDENFILES=1` to write the documents anew.
//!
//! ```text
//! > SELECT * FROM c WHERE c.a = 1
//! ---
//! fetch 60 items by resource id
//!   index /a = 1: 60
//! 60 rows for 27.7 RU: 120 entries, 60 items loaded, 60 rows evaluated
//! ```
//!
//! What partitions do is shown once if all of them do the same.

use std::error::Error;

use goldenscript::{Command, Context, Runner};
use partita_engine::{LeafReport, QuerySettings};

use super::*;

/// A database with one container, and how it is asked.
struct Planner {
    bench: Bench,
    scope: Scope,
    rows: usize,
}

impl Runner for Planner {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut consumer = command.consume_args();
        let arguments: Vec<&str> = std::iter::from_fn(|| consumer.next_pos()).collect();
        match (command.name.as_str(), arguments.as_slice()) {
            ("container", [partitions, fields]) => {
                let throughput = 6_000 * partitions.parse::<u32>()?;
                self.bench.make_container(throughput, fields);
            }
            ("items", [first, behind]) => {
                let numbers = first.parse::<usize>()?..behind.parse()?;
                numbers.for_each(|n| drop(self.bench.create(&body(n)).result.unwrap()));
            }
            ("key", [header]) => self.scope = key(header),
            ("everywhere", []) => self.scope = Scope::All,
            ("rows", [rows]) => self.rows = rows.parse()?,
            (text, []) => return Ok(self.explained(text)),
            (name, _) => return Err(format!("no such command: {name}").into()),
        }
        Ok(String::new())
    }
}

/// Numbers of few and of many values, strings, arrays, and what only some items have.
fn body(n: usize) -> String {
    let rare = if n.is_multiple_of(10) { format!(r#","rare":{}"#, n % 30) } else { String::new() };
    let mixed = match n % 9 {
        0 => r#","mixed":[1]"#.to_owned(),
        1 => r#","mixed":"text""#.to_owned(),
        2 => String::new(),
        _ => format!(r#","mixed":{n}"#),
    };
    let ttl = if n.is_multiple_of(7) { r#","ttl":100000"# } else { "" };
    format!(
        r#"{{"id":"i{n}","pk":"k{}","a":{},"b":{},"n":{n},"s":"name {}","o":{{"x":{}}},
            "tags":["t{}","u{}"],"free":{n}{rare}{mixed}{ttl}}}"#,
        n % 13,
        n % 50,
        n % 4,
        n % 97,
        n % 11,
        n % 5,
        n % 7
    )
}

impl Planner {
    fn explained(&self, text: &str) -> String {
        let page_request = PageRequest { items_max: Some(self.rows), continuation: None };
        let request =
            QueryRequest { scope: self.scope.clone(), page: page_request, ..global(text) };
        let reply = run(&self.bench, request);
        let (rows, report) = match reply.result {
            Ok(Outcome::Query { rows, report, .. }) => (rows, report),
            Ok(other) => panic!("no page: {other:?}"),
            Err(error) => return format!("refused: {}", error.message),
        };
        if report.leaves.is_empty() {
            return "no partition is asked".to_owned();
        }
        let mut plans: Vec<&str> = Vec::new();
        for leaf in &report.leaves {
            if !plans.contains(&leaf.plan.as_str()) {
                plans.push(&leaf.plan);
            }
        }
        let sum = |count: fn(&LeafReport) -> u64| report.leaves.iter().map(count).sum::<u64>();
        format!(
            "{}\n{} rows for {} RU: {} entries, {} items loaded, {} rows evaluated",
            plans.join("\nor\n"),
            rows.len(),
            report.charge,
            sum(|leaf| leaf.entries_scanned),
            sum(|leaf| leaf.documents_loaded),
            sum(|leaf| leaf.rows_evaluated)
        )
    }
}

#[track_caller]
fn run_script(name: &str, settings: QuerySettings) {
    let bench = Bench::with_queries(settings);
    let mut planner = Planner { bench, scope: Scope::All, rows: 100 };
    let path = format!("{}/tests/it/query/plans/{name}.golden", env!("CARGO_MANIFEST_DIR"));
    goldenscript::run(&mut planner, path).expect("a golden script");
}

#[test]
fn plans_of_a_partition_read_as_documented() {
    run_script("default", QuerySettings::default());
}

#[test]
fn plans_of_few_items_read_as_documented() {
    run_script("small", QuerySettings::default());
}

#[test]
fn plans_inside_a_partition_key_read_as_documented() {
    run_script("key", QuerySettings::default());
}

#[test]
fn plans_of_several_partitions_read_as_documented() {
    run_script("several", QuerySettings::default());
}

#[test]
fn plans_with_composite_indexes_read_as_documented() {
    run_script("composites", QuerySettings::default());
}

#[test]
fn plans_with_few_indexes_read_as_documented() {
    run_script("excluded", QuerySettings::default());
    run_script("unindexed", QuerySettings::default());
}

#[test]
fn plans_of_items_that_expire_read_as_documented() {
    run_script("expiring", QuerySettings::default());
}

#[test]
fn plans_of_partitions_too_large_for_the_order_of_age_read_as_documented() {
    let settings = QuerySettings { age_order_items_max: 500, ..QuerySettings::default() };
    run_script("large", settings);
}
