//! Queries that run inline, on the threads of their requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use partita_engine::{Database, EngineSettings, QuerySettings, block_on};
use partita_model::{Clock, SeededEntropy};
use partita_storage::{MemoryStore, Store};

use super::*;

const BRIEF: [&str; 5] = [
    "SELECT * FROM c WHERE c.n = 59",
    "SELECT VALUE c.id FROM c WHERE c.n > 20 AND c.m = 1",
    "SELECT TOP 5 * FROM c WHERE c.n > 7 ORDER BY c.n DESC",
    "SELECT VALUE COUNT(1) FROM c WHERE c.m = 2",
    "SELECT VALUE COUNT(1) FROM c",
];

/// Every look at it takes this many nanoseconds.
struct Busy {
    now: AtomicU64,
    step: u64,
}

impl Clock for Busy {
    fn unix_millis(&self) -> u64 {
        1_700_000_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.now.fetch_add(self.step, Ordering::SeqCst)
    }
}

fn filled(bench: &Bench) {
    bench.make_container(42_000, KEY_PK);
    for n in 0..300 {
        let body = format!(r#"{{"id":"{n}","pk":"k{}","n":{n},"m":{}}}"#, n % 23, n % 4);
        bench.create(&body).result.unwrap();
    }
}

fn query(text: &str) -> Op {
    Op::Query { container: path(), query: Box::new(global(text)) }
}

/// What a reply tells, without what it took.
fn told(reply: Reply) -> (Vec<String>, Option<String>, f64) {
    match reply.result {
        Ok(Outcome::Query { rows, continuation, .. }) => (rows, continuation, reply.charge.0),
        other => panic!("no page: {other:?}"),
    }
}

fn used(database: &Database) -> (f64, usize) {
    let figures = database.partition_metrics();
    let used = figures.iter().map(|found| found.figures.consumed_ru).sum();
    let op = Op::RecentQueries { container: path() };
    match block_on(database.execute(op, &Context::default())).result {
        Ok(Outcome::RecentQueries { queries }) => (used, queries.len()),
        other => panic!("no queries: {other:?}"),
    }
}

#[test]
fn the_answer_of_an_attempt_is_the_answer() {
    let bench = Bench::new();
    filled(&bench);
    for text in BRIEF {
        let reply = bench.database.try_inline(&query(text), &Context::default());
        assert_eq!(told(reply.unwrap()), told(bench.run(query(text))), "{text}");
    }
    let wrong = bench.database.try_inline(&query("SELECT"), &Context::default()).unwrap();
    assert_eq!(error(&wrong), error(&bench.run(query("SELECT"))));
}

#[test]
fn what_may_take_long_without_a_look_at_the_clock_is_not_attempted() {
    let bench = Bench::new();
    filled(&bench);
    let long = format!("SELECT * FROM c WHERE c.n IN ({}1)", "1,".repeat(1_000));
    for text in [
        "SELECT * FROM c WHERE REGEXMATCH(c.id, '(a*)*b')",
        "SELECT VALUE n FROM c JOIN n IN c.list JOIN m IN c.list",
        "SELECT VALUE (SELECT VALUE c.n) FROM c",
        "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
        "SELECT VALUE SUM(c.n) FROM c WHERE c.m = 1",
        "SELECT DISTINCT VALUE c.m FROM c",
        &long,
    ] {
        let reply = bench.database.try_inline(&query(text), &Context::default());
        assert!(reply.is_none(), "{text}");
    }
    let read = Op::ReadItem { path: item_path("1", r#"["k1"]"#), condition: None };
    assert!(bench.database.try_inline(&read, &Context::default()).is_none());
}

#[test]
fn an_attempt_that_is_given_up_leaves_no_trace() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store), 1);
    filled(&bench);
    let (mut answered, mut given_up) = (0, 0);
    for step in [100, 2_000, 5_000, 10_000, 20_000, 50_000, 1_000_000, 10_000_000] {
        for text in BRIEF {
            let clock = Arc::new(Busy { now: AtomicU64::new(0), step });
            let entropy = Arc::new(SeededEntropy::new(1));
            let settings = EngineSettings {
                query: QuerySettings { scan_items: 0, ..QuerySettings::default() },
                ..unthrottled()
            };
            let database = Database::open(Arc::clone(&store), clock, entropy, settings).unwrap();
            let before = used(&database);
            let Some(reply) = database.try_inline(&query(text), &Context::default()) else {
                assert_eq!(used(&database), before, "{text}");
                given_up += 1;
                continue;
            };
            answered += 1;
            assert_ne!(used(&database), before, "{text}");
            let op = query(text);
            let other = block_on(database.execute(op, &Context::default()));
            assert_eq!(told(reply), told(other), "{text}");
        }
    }
    assert!(answered >= BRIEF.len() && given_up >= BRIEF.len(), "{answered} {given_up}");
}
