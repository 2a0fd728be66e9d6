//! Plans as documents: a query, and below it what its plan says.
//!
//! Only what a plan says beyond "send the query as it is, everywhere" is shown. Set
//! `UPDATE_GOLDENFILES=1` to write the documents anew, then read the difference.

use crate::plan::{Question, key_of};
use goldenscript::{Command, Context, Runner};
use partita_model::{PartitionKeyDefinition, Value};
use partita_query::{DistinctType, HybridInfo, PlanKind, PlanRange, QueryInfo, QueryPlan};
use std::error::Error;

struct Planner {
    key: PartitionKeyDefinition,
    parameters: Vec<(String, Value)>,
    features: Option<String>,
}

impl Runner for Planner {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let mut consumer = command.consume_args();
        let arguments: Vec<&str> = std::iter::from_fn(|| consumer.next_pos()).collect();
        match (command.name.as_str(), arguments.as_slice()) {
            ("key", [kind, paths @ ..]) => self.key = key_of(paths, kind),
            ("parameter", [name, value]) => {
                self.parameters.push(((*name).to_owned(), Value::parse(value.as_bytes())?));
            }
            ("features", features) => self.features = Some(features.join(",")),
            (text, _) => return Ok(self.plan(text)),
        }
        Ok(String::new())
    }
}

impl Planner {
    fn plan(&self, text: &str) -> String {
        let question = Question {
            parameters: self.parameters.clone(),
            features: self.features.as_deref(),
            ..Question::new(text, self.key.clone())
        };
        match question.answer() {
            Ok(plan) => told(&plan),
            Err(message) => format!("error: {message}"),
        }
    }
}

fn told(plan: &QueryPlan) -> String {
    let mut lines: Vec<String> = plan.ranges.iter().map(range_line).collect();
    match &plan.kind {
        PlanKind::Query(info) => lines.extend(query_lines(info)),
        PlanKind::Hybrid(info) => lines.extend(hybrid_lines(info)),
    }
    lines.join("\n")
}

fn range_line(range: &PlanRange) -> String {
    let (min, max) = (range.min.to_json(), range.max.to_json());
    match (range.is_min_inclusive, range.is_max_inclusive) {
        (true, true) if min == "[]" => "ask nobody in particular".to_owned(),
        (true, false) if max == "\"Infinity\"" => "ask everybody".to_owned(),
        (true, true) if min == max => format!("ask {min}"),
        (true, false) if min == max => format!("ask all keys that begin with {min}"),
        (from, to) => format!(
            "ask {}{min} to {max}{}",
            if from { "from " } else { "behind " },
            if to { "" } else { " exclusive" }
        ),
    }
}

fn query_lines(info: &QueryInfo) -> Vec<String> {
    let mut lines = Vec::new();
    match info.distinct {
        DistinctType::None => {}
        DistinctType::Ordered => lines.push("drop repeats, which are neighbours".to_owned()),
        DistinctType::Unordered => lines.push("drop repeats".to_owned()),
    }
    let streamed = if info.has_non_streaming_order_by { "sort" } else { "merge" };
    lines.extend(info.order_by.iter().map(|column| {
        let order = if column.descending { "descending" } else { "ascending" };
        format!("{streamed} by {}, {order}", column.expression)
    }));
    lines.extend(info.group_by.iter().map(|expression| format!("group by {expression}")));
    lines.extend(info.aggregates.iter().map(|aggregate| format!("aggregate {aggregate}")));
    lines.extend(
        info.aliases.iter().map(|(alias, aggregate)| {
            format!("member {alias}: {}", aggregate.unwrap_or("as it is"))
        }),
    );
    lines.extend(info.counts_rows_as.iter().map(|alias| format!("count rows as {alias:?}")));
    lines.extend(info.offset.map(|count| format!("skip {count}")));
    lines.extend(info.limit.map(|count| format!("then keep {count}")));
    lines.extend(info.top.map(|count| format!("keep {count}")));
    lines.extend(info.rewritten.lines().map(|line| format!("| {line}")));
    lines
}

fn hybrid_lines(info: &HybridInfo) -> Vec<String> {
    let mut lines = vec![format!("first count ({}):", info.needs_statistics)];
    lines.extend(info.statistics_query.lines().map(|line| format!("| {line}")));
    for component in &info.components {
        lines.push("component:".to_owned());
        lines.extend(query_lines(component).into_iter().map(|line| format!("  {line}")));
    }
    lines.push(format!(
        "fuse with weights {:?}, skip {:?}, keep {:?}",
        info.weights, info.skip, info.take
    ));
    lines
}

#[track_caller]
fn run(name: &str) {
    let mut planner =
        Planner { key: key_of(&["/pk"], "Hash"), parameters: Vec::new(), features: None };
    let path = format!("{}/tests/it/golden/plan/{name}.golden", env!("CARGO_MANIFEST_DIR"));
    goldenscript::run(&mut planner, path).expect("a golden script");
}

#[test]
fn routing_reads_as_documented() {
    run("routing");
}

#[test]
fn hierarchical_keys_read_as_documented() {
    run("hierarchical");
}

#[test]
fn keys_in_order_read_as_documented() {
    run("ordered_keys");
}

#[test]
fn order_by_reads_as_documented() {
    run("order_by");
}

#[test]
fn aggregates_and_groups_read_as_documented() {
    run("aggregates");
}

#[test]
fn distinct_reads_as_documented() {
    run("distinct");
}

#[test]
fn counts_of_rows_read_as_documented() {
    run("counts");
}

#[test]
fn rank_fusion_reads_as_documented() {
    run("rank");
}
