//! Clients that leave: what they asked for ends, or does not. A client is a future here, and leaves
//! by being dropped, as the gateway drops it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use partita_engine::{EngineSettings, Script, ScriptCall, ScriptEnd, ScriptHost, ScriptRuntime};
use partita_gateway::{Door, Figures, Response};

use partita_model::{Result, Value};
use partita_query::Functions;

use crate::support::{Answer, Ask, READONLY, World};

const DOCS: &str = "/dbs/d/colls/c/docs";

/// Runs for minutes: twenty items, of each ten million rows.
const BOMB: &str = "SELECT COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t";

/// Is never tried inline, and brief.
const BRIEF: &str = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.none";

type Client = Pin<Box<dyn Future<Output = Response> + Send>>;

fn loaded() -> World {
    let world = World::with_container("400");
    let elements = (0..210).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    for n in 0..20 {
        let body = format!(r#"{{"id":"{n}","pk":"{n}","t":[{elements}],"none":[]}}"#);
        world.post(DOCS, &body).key(&format!(r#"["{n}"]"#)).expect(201);
    }
    world
}

fn query<'w>(world: &'w World, text: &str) -> Ask<'w> {
    world
        .post(DOCS, &format!(r#"{{"query":"{text}"}}"#))
        .header("content-type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .header("x-partita-query-serving", "global")
}

fn poll(client: &mut Client) -> Poll<Response> {
    client.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Sends a request and waits for the answer in vain so far.
fn waiting(world: &World, ask: Ask<'_>) -> Client {
    let mut client: Client = Box::pin(world.door().handle(ask.request()).response());
    assert!(poll(&mut client).is_pending());
    client
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "what never happens is told by the real clock")]
fn until(mut what: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn answered(client: &mut Client) -> Answer {
    let mut answer = None;
    until(|| {
        if let Poll::Ready(response) = poll(client) {
            answer = Some(Answer::of(response));
        }
        answer.is_some()
    });
    answer.unwrap()
}

/// The value of a metric without labels.
fn metric(world: &World, name: &str) -> u64 {
    let text = world.telemetry.render(Figures::All);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap().parse().unwrap()
}

fn running(world: &World) -> u64 {
    metric(world, "partita_queries_running")
}

fn queued(world: &World) -> u64 {
    metric(world, "partita_queries_queued")
}

#[test]
fn queries_of_clients_that_left_end_whether_they_run_or_wait() {
    let world = loaded();
    // One share has a third of the threads that are there for queries of which nobody knows yet how
    // long they take, and a third of the places in the queue.
    let mut bombs: Vec<Client> = Vec::new();
    for count in 1..=25 {
        bombs.push(waiting(&world, query(&world, BOMB).signed_by(READONLY)));
        until(|| running(&world) == count.min(19));
    }
    assert_eq!(queued(&world), 6);
    drop(bombs);
    until(|| running(&world) == 0);
    assert_eq!(queued(&world), 0);
    assert_eq!(metric(&world, "partita_queries_cancelled_total"), 25);
    query(&world, BRIEF).expect(200);
}

#[test]
fn a_brief_query_is_answered_beside_long_ones_of_the_same_client() {
    let world = loaded();
    let mut bombs: Vec<Client> = (0..3).map(|_| waiting(&world, query(&world, BOMB))).collect();
    until(|| running(&world) == 3);
    // There is one processor for all of them.
    for _ in 0..20 {
        query(&world, BRIEF).expect(200);
    }
    assert_eq!(running(&world), 3, "they go on");
    assert!(bombs.iter_mut().all(|bomb| poll(bomb).is_pending()));
    drop(bombs);
    until(|| running(&world) == 0);
}

/// The base price of a query.
const BASE: f64 = 2.8;

fn consumed(world: &World) -> f64 {
    let partitions = world.database.partition_metrics();
    partitions.iter().map(|found| found.figures.consumed_ru).sum()
}

/// Counts the calls of `udf.f`: one for each row that a bomb makes, as long as somebody wants it.
#[derive(Default)]
struct CountsCalls(Arc<AtomicU64>);

impl ScriptRuntime for CountsCalls {
    fn check(&self, _: &Script) -> Result<()> {
        Ok(())
    }

    fn run(&self, _: &ScriptCall<'_>, _: &mut dyn ScriptHost) -> ScriptEnd {
        ScriptEnd { result: Ok(None), log: String::new() }
    }

    fn functions(&self, _: Vec<Script>) -> Arc<dyn Functions> {
        Arc::new(CountsCalls(Arc::clone(&self.0)))
    }
}

impl Functions for CountsCalls {
    fn call(&self, _: &str, _: &[Option<Value>]) -> Result<Option<Value>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Value::from(1)))
    }
}

/// What the same work costs when it is completed: one item of so many elements. A world of its own,
/// which counts the calls; and the price of a thousand rows.
fn measured(world: &World, calls: &AtomicU64, text: &str) -> f64 {
    let (before, counted) = (consumed(world), calls.load(Ordering::Relaxed));
    query(world, text).expect(200);
    let rows = calls.load(Ordering::Relaxed) - counted;
    assert!(rows > 10_000, "{rows}");
    (consumed(world) - before - BASE) / rows as f64
}

/// Two items with cross joins: a small one under `s`, which comes to its end, and under `b` one
/// that does not.
fn counting() -> (World, Arc<AtomicU64>) {
    let runtime = CountsCalls::default();
    let calls = Arc::clone(&runtime.0);
    let mut settings = EngineSettings::default();
    settings.scripts.runtime = Some(Arc::new(runtime));
    let world = World::with_processors(2, settings);
    world.post("/dbs/d/colls/c/udfs", r#"{"id":"f","body":"function () {}"}"#).expect(201);
    for (key, items, elements) in [("s", 4, 20), ("b", 400, 210)] {
        let elements = (0..elements).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        for n in 0..items {
            let body = format!(r#"{{"id":"{key}{n}","pk":"{key}","t":[{elements}]}}"#);
            world.post(DOCS, &body).key(&format!(r#"["{key}"]"#)).expect(201);
        }
    }
    (world, calls)
}

fn joined(key: &str) -> String {
    format!(
        "SELECT COUNT(1) FROM c JOIN x IN c.t JOIN y IN c.t JOIN z IN c.t \
         WHERE c.pk = '{key}' AND udf.f(z) = 1"
    )
}

#[test]
fn a_query_that_was_left_is_charged_half_of_the_same_work_completed_at_least() {
    let (world, calls) = counting();
    let of_row = measured(&world, &calls, &joined("s"));
    let (before, counted) = (consumed(&world), calls.load(Ordering::Relaxed));
    let bomb = waiting(&world, query(&world, &joined("b")));
    // A helper takes part where it can: both processors are there for it.
    until(|| calls.load(Ordering::Relaxed) - counted > 300_000);
    drop(bomb);
    until(|| running(&world) == 0);
    let rows = (calls.load(Ordering::Relaxed) - counted) as f64;
    let charge = consumed(&world) - before;
    assert!(charge >= BASE + of_row * rows / 2.0, "{charge} for {rows} rows of {of_row}");
}

#[test]
fn a_query_that_ends_at_its_limit_is_charged_half_of_the_same_work_completed_at_least() {
    let (world, calls) = counting();
    let of_row = measured(&world, &calls, &joined("s"));
    let counted = calls.load(Ordering::Relaxed);
    let limited = query(&world, &joined("b")).header("x-partita-query-seconds-max", "1.5");
    let mut bomb = waiting(&world, limited);
    until(|| calls.load(Ordering::Relaxed) - counted > 300_000);
    world.clock.advance_millis(1_500);
    let answer = answered(&mut bomb);
    assert_eq!(answer.status, 408, "{}", answer.text());
    let rows = (calls.load(Ordering::Relaxed) - counted) as f64;
    let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge >= BASE + of_row * rows / 2.0, "{charge} for {rows} rows of {of_row}");
}

#[test]
fn a_request_may_set_a_limit_for_its_query() {
    const LIMIT: &str = "x-partita-query-seconds-max";
    let world = loaded();
    for bad in ["0", "-1", "soon", "NaN", "0.0001"] {
        query(&world, BRIEF).header(LIMIT, bad).refused(400, "0", LIMIT);
    }
    query(&world, BRIEF).header(LIMIT, "1e300").expect(200);
    let mut bomb = waiting(&world, query(&world, BOMB).header(LIMIT, "1.5"));
    until(|| running(&world) == 1);
    world.clock.advance_millis(1_499);
    query(&world, BRIEF).expect(200);
    assert!(poll(&mut bomb).is_pending());
    world.clock.advance_millis(1);
    let answer = answered(&mut bomb);
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert!(answer.text().contains("limit of 1500 ms"), "{}", answer.text());
    let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge >= 2.8, "{charge}");
}

/// Runs functions elsewhere, all of them one after the other: a query has the one that runs them
/// from its first call on, until it is done. None returns before the gate is open.
#[derive(Default)]
struct OneWorker(Arc<Elsewhere>);

#[derive(Default)]
struct Elsewhere {
    state: Mutex<WorkerState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkerState {
    is_open: bool,
    is_taken: bool,
    calls: u64,
}

impl Elsewhere {
    fn change(&self, change: impl FnOnce(&mut WorkerState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait_while(&self, mut what: impl FnMut(&mut WorkerState) -> bool) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| what(state)).unwrap());
    }
}

impl ScriptRuntime for OneWorker {
    fn check(&self, _: &Script) -> Result<()> {
        Ok(())
    }

    fn run(&self, _: &ScriptCall<'_>, _: &mut dyn ScriptHost) -> ScriptEnd {
        ScriptEnd { result: Ok(None), log: String::new() }
    }

    fn functions(&self, _: Vec<Script>) -> Arc<dyn Functions> {
        Arc::new(HasWorker { worker: Arc::clone(&self.0), is_taken: Mutex::default() })
    }
}

struct HasWorker {
    worker: Arc<Elsewhere>,
    is_taken: Mutex<bool>,
}

impl Functions for HasWorker {
    fn call(&self, _: &str, _: &[Option<Value>]) -> Result<Option<Value>> {
        let mut is_taken = self.is_taken.lock().unwrap();
        if !*is_taken {
            self.worker.wait_while(|state| state.is_taken);
            self.worker.change(|state| state.is_taken = true);
            *is_taken = true;
        }
        self.worker.change(|state| state.calls += 1);
        self.worker.wait_while(|state| !state.is_open);
        Ok(Some(Value::from(1)))
    }
}

impl Drop for HasWorker {
    fn drop(&mut self) {
        if *self.is_taken.get_mut().unwrap() {
            self.worker.change(|state| state.is_taken = false);
        }
    }
}

#[test]
fn queries_whose_functions_run_elsewhere_leave_the_processor_to_others() {
    let runtime = Arc::new(OneWorker::default());
    let worker = Arc::clone(&runtime.0);
    let mut settings = EngineSettings::default();
    settings.scripts.runtime = Some(runtime);
    let world = World::with_processors(1, settings);
    for n in 0..5 {
        world
            .post(DOCS, &format!(r#"{{"id":"{n}","pk":"{n}"}}"#))
            .key(&format!(r#"["{n}"]"#))
            .expect(201);
    }
    world.post("/dbs/d/colls/c/udfs", r#"{"id":"f","body":"function () {}"}"#).expect(201);
    let calling = "SELECT VALUE udf.f(c.id) FROM c";
    let mut clients: Vec<Client> = Vec::new();
    for count in 1..=3 {
        clients.push(waiting(&world, query(&world, calling)));
        // One has the worker, the others wait for it: none of them has the processor.
        until(|| running(&world) == count && worker.state.lock().unwrap().calls == 1);
    }
    query(&world, BRIEF).expect(200);
    let left = clients.pop();
    drop(left);
    worker.change(|state| state.is_open = true);
    for client in &mut clients {
        let answer = answered(client);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    until(|| running(&world) == 0);
}
