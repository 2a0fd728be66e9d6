//! Queries through the engine's one entry, compared with the plain evaluation of all items.

mod access;
pub(crate) mod cancelling;
mod computed;
mod creation_order;
mod creation_order_kept;
mod first_places;
mod index;
mod index_answers;
mod inline;
mod limits;
mod memory;
mod merging;
mod paging;
mod plans;
mod prepared;
mod reports;
mod resuming;
mod scopes;
mod serving;
mod short_tokens;
mod sifting;
mod tokens;
mod visibility;

use partita_engine::{
    Context, Op, Outcome, PageRequest, PlanHint, QueryReport, QueryRequest, Reply, Scope, Serving,
};
use partita_model::{ItemRid, PartitionKeyHeader};
use partita_query::{Query, ScopeSettings, evaluate};

use crate::harness::*;

/// Throughputs that make one partition, five, and seven.
pub(crate) const THROUGHPUTS: [u32; 3] = [400, 30_000, 42_000];

/// A page: rows, continuation, report.
pub(crate) struct Page {
    pub(crate) rows: Vec<String>,
    pub(crate) continuation: Option<String>,
    pub(crate) report: Box<QueryReport>,
}

pub(crate) fn global(text: &str) -> QueryRequest {
    QueryRequest::new(text)
}

pub(crate) fn as_service(text: &str) -> QueryRequest {
    QueryRequest { serving: Serving::AsService, ..QueryRequest::new(text) }
}

pub(crate) fn run(bench: &Bench, query: QueryRequest) -> Reply {
    bench.run(Op::Query { container: path(), query: Box::new(query) })
}

#[track_caller]
pub(crate) fn page(bench: &Bench, query: QueryRequest) -> Page {
    page_with(bench, query, &Context::default())
}

#[track_caller]
pub(crate) fn page_with(bench: &Bench, query: QueryRequest, context: &Context) -> Page {
    let op = Op::Query { container: path(), query: Box::new(query) };
    match bench.run_with(op, context).result {
        Ok(Outcome::Query { rows, continuation, report }) => Page { rows, continuation, report },
        other => panic!("no page: {other:?}"),
    }
}

/// All rows, in pages of this many.
#[track_caller]
pub(crate) fn all_in_pages(bench: &Bench, query: &QueryRequest, rows_max: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut continuation = None;
    for _ in 0..10_000 {
        let page_request = PageRequest { items_max: Some(rows_max), continuation };
        let Page { rows, continuation: next, .. } =
            page(bench, QueryRequest { page: page_request, ..query.clone() });
        assert!(rows.len() <= rows_max, "{query:?}");
        all.extend(rows);
        continuation = next;
        if continuation.is_none() {
            return all;
        }
    }
    panic!("{query:?} does not end");
}

#[track_caller]
pub(crate) fn all(bench: &Bench, query: &QueryRequest) -> Vec<String> {
    all_in_pages(bench, query, 100_000)
}

/// The texts of all items in the order in which they were created.
pub(crate) fn items(bench: &Bench) -> Vec<String> {
    let mut items: Vec<_> = bench
        .list(&Scope::All, 1_000)
        .into_iter()
        .map(|item| (ItemRid::parse(&text(&item, "_rid")).unwrap().item, item.to_json()))
        .collect();
    items.sort();
    items.into_iter().map(|(_, text)| text).collect()
}

/// What a query means, computed plainly from all items.
pub(crate) fn expected(bench: &Bench, query: &str) -> Vec<String> {
    let items = items(bench);
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let query = Query::parse(query, &[], &[]).unwrap();
    evaluate(&query, &items, &ScopeSettings::default()).unwrap()
}

pub(crate) fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

pub(crate) fn key(text: &str) -> Scope {
    Scope::PartitionKey(PartitionKeyHeader::parse(text).unwrap())
}

pub(crate) fn range(id: usize) -> Scope {
    Scope::Range { id: id.to_string(), within: None }
}

pub(crate) fn scan_only(query: QueryRequest) -> QueryRequest {
    QueryRequest { plan_hint: PlanHint::ScanOnly, ..query }
}

/// Sixty items of all kinds under thirteen partition keys.
pub(crate) fn filled(throughput: u32) -> Bench {
    let bench = Bench::new();
    fill(&bench, throughput);
    bench
}

/// The composite indexes that the tests' orders by several columns need.
pub(crate) const COMPOSITES: &str = r#""indexingPolicy":{"compositeIndexes":[
    [{"path":"/m"},{"path":"/n","order":"descending"}],
    [{"path":"/m"},{"path":"/a"}],
    [{"path":"/m","order":"descending"},{"path":"/a"}],
    [{"path":"/s"},{"path":"/n"}],
    [{"path":"/s","order":"descending"},{"path":"/n"}]]}"#;

pub(crate) fn fill(bench: &Bench, throughput: u32) {
    bench.make_container(throughput, &format!("{KEY_PK},{COMPOSITES}"));
    for n in 0..60 {
        let a = match n % 8 {
            0 => String::new(),
            1 => r#","a":null"#.to_owned(),
            2 => r#","a":true"#.to_owned(),
            3 => format!(r#","a":[{}]"#, n % 3),
            4 => format!(r#","a":"s{}""#, n % 5),
            _ => format!(r#","a":{}"#, n % 6),
        };
        let body = format!(
            r#"{{"id":"i{n}","pk":"k{}","n":{n},"m":{},"tags":["t{}","t{}"]{a}}}"#,
            n % 13,
            n % 4,
            n % 3,
            n % 2
        );
        bench.create(&body).result.unwrap();
    }
}
