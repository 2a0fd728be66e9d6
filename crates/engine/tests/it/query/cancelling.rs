//! Queries that are ended early: by their client's going, by their time. They pay for what they
//! did, and their partitions owe it while they run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use partita_engine::{
    ChangesFrom, ChangesMode, ChangesQuery, ChangesRequest, EngineSettings, Meter, QuerySettings,
    Supervisor,
};
use partita_model::{ErrorKind, FixedClock};

use super::*;

/// Every item has 21³ rows, which are more than the steps that are free.
const ITEMS: u32 = 12;
const JOINED: &str = "SELECT COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t";

/// Counts questions; at one of them the client is gone, and each lets some time pass.
struct Counting {
    asked: AtomicU64,
    gone_at: u64,
    passing: Option<(Arc<FixedClock>, u64)>,
    at_each: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Counting {
    fn until(gone_at: u64) -> Counting {
        Counting { asked: AtomicU64::new(0), gone_at, passing: None, at_each: None }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked {} times", self.asked())
    }
}

impl Supervisor for Counting {
    fn is_cancelled(&self) -> bool {
        self.asked() >= self.gone_at
    }

    fn step_aside(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some((clock, millis)) = &self.passing {
            clock.advance_millis(*millis);
        }
        if let Some(at_each) = &self.at_each {
            at_each();
        }
    }

    fn help(&self, _work: Box<dyn FnOnce() + Send>) -> bool {
        false
    }

    fn wait_for_help(&self, wait: &mut dyn FnMut()) {
        wait();
    }
}

fn filled(settings: EngineSettings, throughput: u32) -> Bench {
    let bench = Bench::with_settings(settings);
    bench.make_container(throughput, KEY_PK);
    let elements = (0..21).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    for n in 0..ITEMS {
        let body = format!(r#"{{"id":"{n}","pk":"{n}","two":[1,2],"t":[{elements}]}}"#);
        bench.create(&body).result.unwrap();
    }
    bench
}

fn supervised(bench: &Bench, text: &str, supervisor: &Arc<Counting>) -> Reply {
    let supervisor: Arc<dyn Supervisor> = Arc::<Counting>::clone(supervisor);
    let context = Context { supervisor: Some(supervisor), ..Context::default() };
    bench.run_with(Op::Query { container: path(), query: Box::new(global(text)) }, &context)
}

/// What all partitions were charged.
pub(crate) fn consumed(bench: &Bench) -> f64 {
    let op = Op::ReadContainer { container: path(), condition: None };
    let container = bench.run(op).container.unwrap();
    container.meters().map(Meter::consumed_ru).sum()
}

#[test]
fn a_cancelled_query_ends_within_an_item_and_pays_for_what_it_did() {
    for throughput in THROUGHPUTS {
        let bench = filled(unthrottled(), throughput);
        let all = Arc::new(Counting::until(u64::MAX));
        let whole = supervised(&bench, JOINED, &all);
        assert!(whole.result.is_ok());
        assert!(all.asked() > u64::from(ITEMS) * 8, "asked within items: {all:?}");
        for percent in [50, 90] {
            let before = consumed(&bench);
            let gone = Arc::new(Counting::until(all.asked() * percent / 100));
            let reply = supervised(&bench, JOINED, &gone);
            assert_eq!(error(&reply), ErrorKind::Cancelled);
            assert!(gone.asked() < all.asked(), "it has ended: {gone:?} of {all:?}");
            let share = reply.charge.0 / whole.charge.0;
            let fair = percent as f64 / 100.0;
            assert!((fair - 0.2..fair + 0.2).contains(&share), "{share} at {percent} %");
            let charged = consumed(&bench) - before;
            assert!((charged - reply.charge.0).abs() < 0.01, "{charged} of {:?}", reply.charge);
        }
    }
}

#[test]
fn entries_of_a_cancelled_query_are_paid_once_wherever_it_ends() {
    // Nothing is remembered: every time it is the same work.
    let query = QuerySettings { cache_entries_min: u64::MAX, ..QuerySettings::default() };
    let bench = Bench::with_settings(EngineSettings { query, ..unthrottled() });
    bench.make_container(400, KEY_PK);
    for n in 0..6_000 {
        bench.create(&format!(r#"{{"id":"{n}","pk":"a","n":{n},"m":{}}}"#, n % 7)).result.unwrap();
    }
    for text in [
        "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5990 LIMIT 5",
        "SELECT VALUE c.n FROM c WHERE c.m >= 0 ORDER BY c.n OFFSET 5000 LIMIT 5",
        "SELECT c.m, COUNT(1) AS k FROM c GROUP BY c.m",
        "SELECT VALUE COUNT(1) FROM c WHERE c.m > 1 AND c.n > 50",
    ] {
        // The first one finds out what the items look like, which is kept.
        run(&bench, global(text));
        let all = Arc::new(Counting::until(u64::MAX));
        let whole = supervised(&bench, text, &all);
        assert!(whole.result.is_ok(), "{text}: {:?}", whole.result);
        assert!(all.asked() > 3, "{text}: {all:?}");
        let mut last = 0.0;
        for gone_at in 1..=all.asked() {
            let reply = supervised(&bench, text, &Arc::new(Counting::until(gone_at)));
            assert_eq!(error(&reply), ErrorKind::Cancelled, "{text}");
            let charge = reply.charge.0;
            assert!(
                charge <= whole.charge.0,
                "{text} at {gone_at}: {charge} of {:?}",
                whole.charge
            );
            last = charge;
        }
        assert!(last > whole.charge.0 * 0.4, "{text}: {last} of {:?}", whole.charge);
    }
}

#[test]
fn a_query_beyond_its_time_is_refused_and_pays_for_what_it_did() {
    for throughput in THROUGHPUTS {
        for own_limit in [false, true] {
            let query = match own_limit {
                true => QuerySettings::default(),
                false => QuerySettings::default().limited(60),
            };
            let bench = filled(EngineSettings { query, ..unthrottled() }, throughput);
            let whole = run(&bench, global(JOINED)).charge.0;
            let slow = Counting {
                passing: Some((Arc::clone(&bench.clock), 1)),
                ..Counting::until(u64::MAX)
            };
            let context = Context {
                supervisor: Some(Arc::new(slow)),
                query_millis_max: own_limit.then_some(60),
                ..Context::default()
            };
            let op = Op::Query { container: path(), query: Box::new(global(JOINED)) };
            let reply = bench.run_with(op, &context);
            let failed = reply.result.unwrap_err();
            assert_eq!(failed.kind, ErrorKind::Timeout);
            assert!(failed.message.contains("limit of 60 ms"), "{}", failed.message);
            assert!(failed.message.contains("--query-seconds-max"), "{}", failed.message);
            // Of about 120 looks 60 were had.
            assert!(reply.charge.0 > whole * 0.3, "{:?} of {whole}", reply.charge);
        }
    }
}

#[test]
fn pages_end_before_the_limit_and_go_on() {
    // A partition so large that its rows come as they lie, and not oldest first.
    let query = QuerySettings { age_order_items_max: 0, ..QuerySettings::default() };
    let bench = filled(EngineSettings { query, ..unthrottled() }, 400);
    let text = "SELECT VALUE x FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t WHERE z = -1";
    let (mut continuation, mut pages) = (None, 0);
    loop {
        let slow =
            Counting { passing: Some((Arc::clone(&bench.clock), 1)), ..Counting::until(u64::MAX) };
        let context = Context {
            supervisor: Some(Arc::new(slow)),
            query_millis_max: Some(60),
            ..Context::default()
        };
        let request = PageRequest { continuation, ..PageRequest::default() };
        let got = page_with(&bench, QueryRequest { page: request, ..global(text) }, &context);
        pages += 1;
        continuation = got.continuation;
        if continuation.is_none() {
            break;
        }
    }
    assert!((3..=12).contains(&pages), "{pages}");
}

#[test]
fn who_comes_while_a_query_runs_is_admitted_by_what_it_owes() {
    // The clock stands still: nothing is paid off.
    let bench = Arc::new(filled(EngineSettings::default(), 400));
    let (refused, asked) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let (other, counted) = (Arc::clone(&bench), Arc::clone(&refused));
    let running = Counting {
        at_each: Some(Box::new(move || {
            // Now and then: the reads themselves are not to use up what there is.
            if asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(200) {
                let read = other.read("0", r#"["0"]"#).result;
                let is_refused =
                    read.is_err_and(|error| matches!(error.kind, ErrorKind::Throttled { .. }));
                counted.fetch_add(u64::from(is_refused), Ordering::SeqCst);
            }
        })),
        ..Counting::until(u64::MAX)
    };
    // Two times 21⁴ rows of each item: about forty request units, and there are twelve items.
    let text = "SELECT COUNT(1) FROM c JOIN v IN c.two JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t \
                JOIN w IN c.t";
    let reply = supervised(&bench, text, &Arc::new(running));
    assert!(reply.result.is_ok(), "it was admitted");
    assert!((450.0..650.0).contains(&reply.charge.0), "{:?}", reply.charge);
    assert!(refused.load(Ordering::SeqCst) > 0, "others were refused while it ran");
    // What it owed is not charged a second time: with the writes it is less than a second's debt.
    match bench.read("0", r#"["0"]"#).result.map_err(|error| error.kind) {
        Err(ErrorKind::Throttled { retry_after_ms, .. }) => {
            assert!((1..1_200).contains(&retry_after_ms), "{retry_after_ms}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_join_over_nothing_counts_its_steps_too() {
    let bench = Bench::with_settings(unthrottled());
    bench.make_container(400, KEY_PK);
    let elements = (0..300).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"id":"1","pk":"1","t":[{elements}],"none":[]}}"#);
    bench.create(&body).result.unwrap();
    let text = "SELECT COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.none";
    let charge = run(&bench, global(text)).charge.0;
    assert!(charge > 3.2 + 8.0, "90 000 steps: {charge}");
}

#[test]
fn a_read_of_the_change_feed_is_cancelled_and_pays() {
    let bench = filled(unthrottled(), 400);
    let text = "SELECT * FROM c WHERE EXISTS(SELECT 1 FROM x IN c.t JOIN y IN c.t JOIN z IN c.t \
                WHERE z < 0)";
    let query = ChangesQuery { text: text.to_owned(), parameters: Vec::new(), previous: false };
    let request = ChangesRequest {
        scope: Scope::All,
        from: ChangesFrom::Beginning,
        mode: ChangesMode::LatestVersion,
        since: None,
        query: Some(query),
        items_max: None,
        listen: false,
    };
    let read = |supervisor: &Arc<Counting>| {
        let supervisor: Arc<dyn Supervisor> = Arc::<Counting>::clone(supervisor);
        let context = Context { supervisor: Some(supervisor), ..Context::default() };
        let request = Box::new(request.clone());
        bench.run_with(Op::ReadChanges { container: path(), request }, &context)
    };
    let all = Arc::new(Counting::until(u64::MAX));
    let whole = read(&all);
    assert!(whole.result.is_ok());
    let half = read(&Arc::new(Counting::until(all.asked() / 2)));
    assert_eq!(error(&half), ErrorKind::Cancelled);
    assert!(half.charge.0 > whole.charge.0 * 0.3, "{:?} of {:?}", half.charge, whole.charge);
}
