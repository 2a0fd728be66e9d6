//! Whatever the items, the policy and the query: an index plan, a full scan and the naive evaluator
//! give the same rows, on one partition and on seven, in pages of any size, and when the policy
//! changes between two pages.

mod generate;

use std::collections::BTreeMap;

use partita_engine::{
    Indexing, Maintenance, MaintenanceBudget, NewItem, Op, Outcome, PageRequest, PlanHint,
    QueryRequest, QuerySettings, Scope,
};
use partita_model::{ErrorKind, ItemRid, Value};
use partita_query::{Query, ScopeSettings, evaluate};

use self::generate::{Asked, Kind, Random};
use crate::harness::*;

/// Cases are spread over worlds: a world has its items and policies, and is asked many queries.
const WORLDS: u64 = 190;
const QUERIES_PER_WORLD: usize = 64;
const CASES_MIN: usize = 10_000;

#[test]
fn an_index_plan_a_full_scan_and_the_naive_evaluator_agree() {
    let worlds = |first: u64| -> usize {
        (first..WORLDS).step_by(2).map(|seed| World::new(seed).ask_all()).sum()
    };
    let cases: usize = std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || worlds(first)));
        halves.into_iter().map(|half| half.join().unwrap()).sum()
    });
    assert!(cases >= CASES_MIN, "only {cases} queries had an answer");
}

struct World {
    random: Random,
    seed: u64,
    /// The same items in a container of one partition and of seven.
    benches: [Bench; 2],
    policy: String,
    items: usize,
}

/// The rows of a query, or the kind of its error.
type Answer = Result<Vec<String>, ErrorKind>;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let policy = generate::policy(&mut random);
        let fields = format!(r#"{KEY_PK},"indexingPolicy":{policy}"#);
        // With the usual settings so few items would be scanned, whatever the index knows.
        let settings = QuerySettings {
            scan_items: 0,
            sort_items: [0, 5, 2_000][random.below(3)],
            sample_items: [0, 0, 256][random.below(3)],
            cache_entries_min: 1,
            helpers_after_micros: [0, 250][random.below(2)],
            ..QuerySettings::default()
        };
        let benches = [400, 42_000].map(|throughput| {
            let bench = Bench::with_queries(settings.clone());
            bench.make_container(throughput, &fields);
            bench
        });
        let items = 5 + random.below(35);
        let mut world = World { random, seed, benches, policy, items };
        (0..items).for_each(|id| world.write(id));
        world.disturb();
        world
    }

    /// Replaces and deletes some, so that old entries would show.
    fn disturb(&mut self) {
        for id in 0..self.items {
            if self.random.one_in(4) {
                self.write(id);
            }
        }
    }

    /// Some writes want their item to stay out of the index: it is found all the same.
    fn write(&mut self, id: usize) {
        let body = generate::item(&mut self.random, id);
        let indexing = match self.random.below(5) {
            0 => Indexing::Exclude,
            1 => Indexing::Include,
            _ => Indexing::ByPolicy,
        };
        for bench in &self.benches {
            let item = NewItem { indexing, ..item(&body, None) };
            let op = Op::UpsertItem { container: path(), item, condition: None };
            bench.run(op).result.unwrap();
        }
    }

    fn ask_all(mut self) -> usize {
        let mut answered = 0;
        for _ in 0..QUERIES_PER_WORLD {
            let asked = generate::query(&mut self.random);
            if self.random.one_in(8) {
                self.disturb();
            }
            let change = self.random.one_in(10);
            for which in 0..self.benches.len() {
                answered += usize::from(self.ask(which, &asked, change));
            }
        }
        for bench in &self.benches {
            bench.assert_whole();
        }
        answered / 2
    }

    /// One case on one of the containers; true if the query has an answer under the policy.
    fn ask(&mut self, which: usize, asked: &Asked, change_policy: bool) -> bool {
        let context = format!(
            "seed {}, partitions {}, policy {}: {}",
            self.seed,
            [1, 7][which],
            self.policy,
            asked.text
        );
        let scanned = self.pages(which, asked, PlanHint::ScanOnly, false);
        let indexed = self.pages(which, asked, PlanHint::Best, change_policy);
        let (scanned, indexed) = match (scanned, indexed) {
            (Ok(scanned), Ok(indexed)) => (scanned, indexed),
            (Err(scanned), Err(indexed)) => {
                assert_eq!(scanned, indexed, "{context}");
                return false;
            }
            // Between two pages the policy may lose what the query needs.
            (Ok(_), Err(_)) if change_policy => return false,
            (scanned, indexed) => panic!("{context}\nscan {scanned:?}\nindex {indexed:?}"),
        };
        let expected = self.naive(which, &asked.text);
        let all = match asked.kind {
            Kind::Rows | Kind::Ordered => Vec::new(),
            Kind::Some | Kind::Top => self.naive(which, &without_limit(&asked.text)),
        };
        for (way, found) in [("scan", scanned), ("index", indexed)] {
            let context = format!("{way}, {context}");
            compare(asked.kind, &found, &expected, &all, &context);
            let is_by_age = matches!(asked.kind, Kind::Rows | Kind::Some);
            if is_by_age && !asked.text.contains("DISTINCT") && !asked.text.contains("SUM(") {
                // The order of age: in partitions that were never split, that of all resource ids.
                let in_order = |rows: &[String]| -> Vec<String> {
                    rows.iter().map(|row| canonical(row, exact)).collect()
                };
                assert_eq!(in_order(&found), in_order(&expected), "{context}");
            }
            if which == 0 && matches!(asked.kind, Kind::Ordered | Kind::Top) {
                // In one partition equal keys are in the order of age, too.
                assert_eq!(found, expected, "{context}");
            }
        }
        true
    }

    fn pages(&mut self, which: usize, asked: &Asked, hint: PlanHint, change: bool) -> Answer {
        let largest = if self.random.one_in(3) { 4 } else { 40 };
        let page_rows = 1 + self.random.below(largest);
        let (mut rows, mut continuation) = (Vec::<String>::new(), None);
        for page in 0.. {
            if change && page == 1 {
                self.change_policy();
            }
            let text = match rows.last() {
                Some(last) if self.random.one_in(2) => resumed(&asked.text, last),
                _ => asked.text.clone(),
            };
            let mut request = QueryRequest::new(text);
            request.plan_hint = hint;
            request.page = PageRequest { items_max: Some(page_rows), continuation };
            let op = Op::Query { container: path(), query: Box::new(request) };
            match self.benches[which].run(op).result {
                Ok(Outcome::Query { rows: more, continuation: next, .. }) => {
                    assert!(more.len() <= page_rows, "{}", asked.text);
                    rows.extend(more);
                    continuation = next;
                }
                Err(error) => return Err(error.kind),
                Ok(other) => panic!("no rows: {other:?}"),
            }
            if continuation.is_none() {
                break;
            }
            assert!(page < 2_000, "{} does not end", asked.text);
        }
        Ok(rows)
    }

    /// Gives both containers another policy; half of the time the re-indexing has not happened when
    /// the next page is asked for.
    fn change_policy(&mut self) {
        self.policy = generate::policy(&mut self.random);
        let finish = self.random.one_in(2);
        let body = format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{}}}"#, self.policy);
        for bench in &self.benches {
            let (container, body) = (path(), json(&body));
            bench.run(Op::ReplaceContainer { container, body, condition: None }).result.unwrap();
            if finish {
                finish_maintenance(bench);
            }
        }
    }

    /// The answer of the naive evaluator over the items as they are stored, oldest first.
    fn naive(&self, which: usize, text: &str) -> Vec<String> {
        let items = items_by_age(&self.benches[which]);
        let texts: Vec<&str> = items.iter().map(String::as_str).collect();
        let query = Query::parse(text, &[], &[]).unwrap();
        evaluate(&query, &texts, &ScopeSettings::default()).unwrap()
    }
}

fn finish_maintenance(bench: &Bench) {
    let budget = MaintenanceBudget::default();
    while bench.database.maintain(&budget).unwrap() != Maintenance::Idle {}
}

/// The texts of all items, oldest first.
fn items_by_age(bench: &Bench) -> Vec<String> {
    let page = PageRequest { items_max: Some(1_000), continuation: None };
    let op = Op::ListItems { container: path(), scope: Scope::All, page };
    let Ok(Outcome::Items { items, .. }) = bench.run(op).result else { panic!("no items") };
    let mut items: Vec<String> =
        items.iter().map(|item| String::from_utf8(item.0.to_vec()).unwrap()).collect();
    items.sort_by_key(|item| ItemRid::parse(&text(&json(item), "_rid")).unwrap().item);
    items
}

/// The query with a filter as clients put it in that go on behind a row on their own: it drops what
/// comes before. Only where rows of a JOIN are ordered by one number.
fn resumed(text: &str, last: &str) -> String {
    let Some((begin, order)) = text.split_once(" ORDER BY c.k ") else { return text.to_owned() };
    let Some((begin, filter)) = begin.split_once("JOIN t IN c.tags WHERE ") else {
        return text.to_owned();
    };
    let keys = keys_of(last);
    let at = keys.trim_matches(['[', ']', ',']);
    let operator = if order == "ASC" { ">=" } else { "<=" };
    format!(
        "{begin}JOIN t IN c.tags WHERE ({filter}) AND (c.k {operator} {at}) ORDER BY c.k {order}"
    )
}

/// The query without TOP, OFFSET and LIMIT.
fn without_limit(text: &str) -> String {
    let text = text.split(" OFFSET ").next().unwrap();
    match text.strip_prefix("SELECT TOP ") {
        Some(rest) => format!("SELECT {}", rest.split_once(' ').unwrap().1),
        None => text.to_owned(),
    }
}

fn compare(kind: Kind, found: &[String], expected: &[String], all: &[String], context: &str) {
    match kind {
        Kind::Rows if context.contains("SUM(") => {
            let counted = |rows: &[String]| counted_as(rows, sums);
            assert_eq!(counted(found), counted(expected), "{context}");
        }
        Kind::Rows => assert_eq!(counted(found), counted(expected), "{context}"),
        Kind::Ordered => assert_eq!(runs(found), runs(expected), "{context}"),
        Kind::Some => {
            assert_eq!(found.len(), expected.len(), "{context}");
            assert!(is_part(found, all), "{context}: {found:?} of {all:?}");
        }
        Kind::Top => {
            let keys = |rows: &[String]| rows.iter().map(|row| keys_of(row)).collect::<Vec<_>>();
            assert_eq!(keys(found), keys(expected), "{context}");
            assert!(is_part(found, all), "{context}: {found:?} of {all:?}");
        }
    }
}

/// Rows in no order, with how often each occurs; members of objects have none either.
fn counted(rows: &[String]) -> BTreeMap<String, usize> {
    counted_as(rows, exact)
}

fn counted_as(rows: &[String], number: fn(f64) -> String) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(canonical(row, number)).or_default() += 1;
    }
    counts
}

fn is_part(part: &[String], whole: &[String]) -> bool {
    let whole = counted(whole);
    counted(part).iter().all(|(row, count)| whole.get(row).is_some_and(|there| count <= there))
}

/// Runs of rows with equal keys; within one the order says nothing.
fn runs(rows: &[String]) -> Vec<(String, BTreeMap<String, usize>)> {
    let mut runs: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let keys = keys_of(row);
        match runs.last_mut() {
            Some((last, members)) if *last == keys => members.push(row.clone()),
            _ => runs.push((keys, vec![row.clone()])),
        }
    }
    runs.into_iter().map(|(keys, members)| (keys, counted(&members))).collect()
}

fn keys_of(row: &str) -> String {
    let value = json(row);
    canonical(&value.get("keys").unwrap().to_string(), exact)
}

fn exact(number: f64) -> String {
    format!("{number:?}")
}

/// The last digits of a sum of large numbers depend on which were added first.
fn sums(number: f64) -> String {
    match number.abs() >= 9_007_199_254_740_992.0 {
        true => format!("{number:.13e}"),
        false => exact(number),
    }
}

/// One text for all ways to write a value, with numbers as they are told.
fn canonical(text: &str, number: fn(f64) -> String) -> String {
    fn write(value: &Value, out: &mut String, as_text: fn(f64) -> String) {
        match value {
            Value::Number(number) => out.push_str(&as_text(number.as_f64() + 0.0)),
            Value::Array(elements) => {
                out.push('[');
                elements.iter().for_each(|element| {
                    write(element, out, as_text);
                    out.push(',');
                });
                out.push(']');
            }
            Value::Object(object) => {
                let mut members: Vec<_> = object.iter().collect();
                members.sort_by(|a, b| a.0.cmp(b.0));
                out.push('{');
                for (name, member) in members {
                    out.push_str(&format!("{name:?}:"));
                    write(member, out, as_text);
                    out.push(',');
                }
                out.push('}');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut out = String::new();
    write(&json(text), &mut out, number);
    out
}
