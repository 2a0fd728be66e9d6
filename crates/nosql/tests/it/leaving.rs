//! Clients that leave: what they asked for ends, or does not. A client is a future here, and leaves
//! by being dropped, as the gateway drops it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use partita_gateway::{Door, Figures, Response};

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

fn until(what: impl Fn() -> bool) {
    while !what() {
        thread::sleep(Duration::from_millis(1));
    }
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
    // One share has half of the threads, and half of the places in the queue.
    let mut bombs: Vec<Client> = Vec::new();
    for count in 1..=40 {
        bombs.push(waiting(&world, query(&world, BOMB).signed_by(READONLY)));
        until(|| running(&world) == count.min(32));
    }
    assert_eq!(queued(&world), 8);
    drop(bombs);
    until(|| running(&world) == 0);
    assert_eq!(queued(&world), 0);
    assert_eq!(metric(&world, "partita_queries_cancelled_total"), 40);
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

#[test]
fn a_query_that_was_left_is_charged() {
    let world = loaded();
    let consumed = || {
        let partitions = world.database.partition_metrics();
        partitions.iter().map(|found| found.figures.consumed_ru).sum::<f64>()
    };
    let before = consumed();
    let bomb = waiting(&world, query(&world, BOMB));
    until(|| running(&world) == 1);
    drop(bomb);
    until(|| running(&world) == 0);
    // Not even one of its items was done, and at least a step of it.
    assert!(consumed() - before >= 2.8, "{}", consumed() - before);
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
    let answer = loop {
        match poll(&mut bomb) {
            Poll::Ready(response) => break Answer::of(response),
            Poll::Pending => thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert!(answer.text().contains("limit of 1500 ms"), "{}", answer.text());
    let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(charge >= 2.8, "{charge}");
}
