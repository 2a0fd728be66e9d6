//! The working memory of what writes or reads many items in one request.

use partita_engine::{
    BatchDone, BatchOperation, BatchResult, ChangesFrom, ChangesMode, EngineSettings, Existing,
    OnError, Outcome, Reply, Returns, Scope,
};
use partita_model::{ErrorKind, MemoryBudget, Value};

use crate::batches::{atomic, bulk, create, patch, read, under};
use crate::changes::Reader;
use crate::harness::*;
use crate::imports::{count, import, into_range};
use crate::query::cancelling::consumed;

const KB: usize = 1 << 10;

fn bench(memory: &MemoryBudget) -> Bench {
    bench_with(memory, "")
}

fn bench_with(memory: &MemoryBudget, fields: &str) -> Bench {
    let bench = Bench::with_settings(EngineSettings { memory: memory.clone(), ..unthrottled() });
    bench.make_container(400, &format!("{KEY_PK}{fields}"));
    bench
}

fn document(n: usize, bytes: usize) -> String {
    format!(r#"{{"id":"i{n}","pk":"a","long":"{}"}}"#, "x".repeat(bytes))
}

fn results(reply: Reply) -> Vec<BatchResult> {
    match reply.result {
        Ok(Outcome::Batch { results }) => results,
        other => panic!("no results: {other:?}"),
    }
}

fn refused(results: &[BatchResult], what: &str) -> usize {
    let is_it = |result: &&BatchResult| match &result.result {
        Err(error) => error.kind == ErrorKind::BadRequest && error.message.contains(what),
        Ok(_) => false,
    };
    results.iter().filter(is_it).count()
}

#[test]
fn a_batch_that_writes_too_much_writes_nothing() {
    let memory = MemoryBudget::new(400 * KB);
    let bench = bench(&memory);
    let creates = || (0..40).map(|n| create(&document(n, 4_000))).collect();
    let failed = results(atomic(&bench, r#"["a"]"#, creates()));
    assert_eq!(refused(&failed, "the writes of a batch"), 1);
    assert_eq!((bench.items_stored(), memory.figures().used), (0, 0));
    let few = (0..5).map(|n| create(&document(n, 4_000))).collect();
    assert!(results(atomic(&bench, r#"["a"]"#, few)).iter().all(|one| one.result.is_ok()));
    assert_eq!((bench.items_stored(), memory.figures().used), (5, 0));
    bench.assert_whole();
}

#[test]
fn an_import_ends_where_its_memory_does_and_goes_on_behind() {
    let memory = MemoryBudget::new(400 * KB);
    let bench = bench(&memory);
    let documents: Vec<String> = (0..60).map(|n| document(n, 4_000)).collect();
    let (mut left, mut requests) = (documents.as_slice(), 0);
    while !left.is_empty() {
        let made = count(&bench.run(import(into_range(0), left, Existing::Fails)));
        assert!(made > 0);
        left = &left[made..];
        requests += 1;
        assert_eq!(memory.figures().used, 0);
    }
    assert!(requests > 1);
    assert_eq!(bench.items_stored(), 60);
    bench.assert_whole();
    let large = [document(100, 200 * KB)];
    let error = bench.run(import(into_range(0), &large, Existing::Fails)).result.unwrap_err();
    assert!(error.message.contains("the writes of a batch, script or import"), "{error}");
}

#[test]
fn a_bulk_that_reads_too_much_tells_which_items_to_read_alone() {
    let memory = MemoryBudget::new(400 * KB);
    let bench = bench(&memory);
    for n in 0..40 {
        bench.create(&document(n, 4_000)).result.unwrap();
    }
    let reads = (0..40).map(|n| under(read(&format!("i{n}")), r#"["a"]"#)).collect();
    let done = results(bulk(&bench, 0, OnError::Continue, reads));
    let whole = |one: &BatchResult| matches!(one.result, Ok(BatchDone::Item { .. }));
    let told = done.iter().filter(|one| whole(one)).count();
    assert!((1..40).contains(&told), "{told}");
    assert_eq!(refused(&done, "the results of a bulk"), 40 - told);
    assert_eq!(memory.figures().used, 0);
}

#[test]
fn the_writes_of_a_bulk_hold_no_more_at_a_time_than_there_is() {
    for returns in [Returns::Etag, Returns::Item] {
        let memory = MemoryBudget::new(400 * KB);
        let bench = bench(&memory);
        for n in 0..60 {
            bench.create(&document(n, 4_000)).result.unwrap();
        }
        let increment = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
        let one =
            |n| BatchOperation { returns, ..under(patch(&format!("i{n}"), increment), r#"["a"]"#) };
        let before = consumed(&bench);
        let done = results(bulk(&bench, 0, OnError::Continue, (0..60).map(one).collect()));
        let told: f64 = done.iter().map(|one| one.charge.0).sum();
        let charged = consumed(&bench) - before;
        assert!((charged - told).abs() < 0.01, "{charged} charged, {told} told");
        assert!(done.iter().all(|one| one.result.is_ok()), "{done:?}");
        for n in 0..60 {
            let now = body(&bench.read(&format!("i{n}"), r#"["a"]"#));
            assert_eq!(now.get("n").and_then(Value::as_i64), Some(1), "{n}");
        }
        let figures = memory.figures();
        assert!((50 * KB..=100 * KB).contains(&figures.peak), "{figures:?}");
        assert_eq!(figures.used, 0);
        bench.assert_whole();
    }
}

#[test]
fn a_page_of_the_change_feed_ends_before_a_commit_that_does_not_fit_behind_others() {
    let memory = MemoryBudget::new(400 * KB);
    for mode in [ChangesMode::LatestVersion, ChangesMode::AllVersions] {
        let bench = bench_with(&memory, r#","changeFeedPolicy":{"retentionDuration":60}"#);
        let mut reader = Reader { mode, from: ChangesFrom::Now, ..Reader::of(Scope::All) };
        assert!(reader.changes(&bench).0.is_empty());
        for n in 0..10 {
            bench.create(&document(n, 4_000)).result.unwrap();
        }
        bench.create(&document(10, 80_000)).result.unwrap();
        let pages = [reader.changes(&bench), reader.changes(&bench)];
        assert_eq!(pages.map(|(changes, more)| (changes.len(), more)), [(10, true), (1, false)]);
        assert_eq!(memory.figures().used, 0);
    }
}

#[test]
fn a_page_of_the_change_feed_ends_where_its_memory_does() {
    let memory = MemoryBudget::new(400 * KB);
    let bench = bench(&memory);
    for n in 0..60 {
        bench.create(&document(n, 4_000)).result.unwrap();
    }
    let mut reader = Reader::of(Scope::All);
    let (mut told, mut pages) = (0, 0);
    loop {
        let (changes, more) = reader.changes(&bench);
        assert!(!changes.is_empty() || !more);
        told += changes.len();
        pages += 1;
        assert_eq!(memory.figures().used, 0);
        if !more {
            break;
        }
    }
    assert_eq!(told, 60);
    assert!(pages > 1);
}

#[test]
fn an_item_with_too_many_index_entries_is_refused_and_can_be_removed_later() {
    let memory = MemoryBudget::new(4 << 20);
    let numbers = |count: usize| {
        let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        format!(r#"{{"id":"i","pk":"a","{}":[{}]}}"#, "x".repeat(150), numbers.join(","))
    };
    let bench = bench(&memory);
    let error = bench.create(&numbers(20_000)).result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.contains("the index entries of one item"), "{error}");
    assert!(error.message.contains("--memory-mb"), "{error}");
    bench.create(&numbers(1_100)).result.unwrap();
    assert_eq!(memory.figures().used, 0);
    assert!(memory.figures().peak > 0, "it was reserved until it was committed");
    bench.delete("i", r#"["a"]"#).result.unwrap();
    bench.assert_whole();
}
