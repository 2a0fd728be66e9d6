//! The executor as a door uses it, without a door: no request, no header, no path.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use partita_engine::{
    Access, ContainerPath, Context, Database, DatabasePath, EngineSettings, ItemPath, Op, block_on,
};
use partita_executor::{
    AnsweredRequest, Controls, Credentials, Executor, ExecutorSettings, FaultSubject, Profile,
    Strike, Trust,
};
use partita_gateway::{Figures, IfLeft, Pool, Shutdown, Telemetry};
use partita_model::{ErrorKind, FixedClock, SeededEntropy, ShiftedClock, Value};
use partita_storage::MemoryStore;

struct World {
    executor: Executor,
    telemetry: Arc<Telemetry>,
    controls: Arc<Controls>,
}

fn world() -> World {
    let clock = Arc::new(ShiftedClock::new(Arc::new(FixedClock::new(1_493_254_272_000))));
    let entropy = Arc::new(SeededEntropy::new(7));
    let (store, settings) = (Arc::new(MemoryStore::new()), EngineSettings::default());
    let database =
        Database::open(store, Arc::clone(&clock) as _, Arc::clone(&entropy) as _, settings);
    let telemetry = Arc::new(Telemetry::new("test"));
    let controls = Arc::new(Controls::new(Arc::clone(&clock)));
    let executor = Executor::new(ExecutorSettings {
        database: database.unwrap(),
        pool: Pool::new(1, 16).unwrap(),
        telemetry: Arc::clone(&telemetry),
        clock,
        entropy,
        credentials: Arc::new(Credentials::new(Trust::default())),
        clock_skew_seconds: 900,
        controls: Some(Arc::clone(&controls)),
        shutdown: Shutdown::new(),
    });
    World { executor, telemetry, controls }
}

fn subject(database: &str) -> FaultSubject<'_> {
    FaultSubject { database: Some(Cow::Borrowed(database)), container: None, client: "a client" }
}

fn create_database() -> Op {
    Op::CreateDatabase { name: "d".into(), throughput: None }
}

fn read_database() -> Op {
    Op::ReadDatabase { database: DatabasePath("d".into()), condition: None }
}

fn order(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap()
}

#[test]
fn an_operation_runs_and_is_counted_without_a_protocol() {
    let World { executor, telemetry, .. } = world();
    for (op, status) in [(create_database(), 201), (read_database(), 200)] {
        let mut record = executor.start("test");
        executor.identify(&mut record, &Access::ReadWrite).unwrap();
        let context = Context::default();
        assert_eq!(executor.admit(&mut record, &op, || subject("d")), None);
        assert!(executor.execute_now(&op, &context).is_none(), "it may wait");
        let mut reply = block_on(executor.execute(op, context)).unwrap();
        reply.result.as_ref().unwrap();
        assert!(record.take_memory(&mut reply).is_none());
        let answered = AnsweredRequest {
            method: "do",
            path: "d",
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            status,
            activity_id: "1",
            nanos: executor.nanos_since_start(&record),
        };
        executor.conclude(&record, &answered);
    }
    let text = telemetry.render(Figures::All);
    for (operation, status) in [("CreateDatabase", 201), ("ReadDatabase", 200)] {
        let labels = format!(r#"door="test",operation="{operation}",status="{status}""#);
        let line = format!("partita_requests_total{{{labels}}} 1");
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_point_read_is_done_at_once() {
    let World { executor, .. } = world();
    let container = ContainerPath { database: "d".into(), container: "c".into() };
    let path = ItemPath { container, id: "x".into(), partition_key: None };
    let op = Op::ReadItem { path, condition: None };
    assert_eq!(Profile::of(&op).if_left, IfLeft::Answer);
    let reply = executor.execute_now(&op, &Context::default()).unwrap();
    assert_eq!(reply.result.unwrap_err().kind, ErrorKind::OwnerNotFound);
}

#[test]
fn a_fault_strikes_what_it_names_as_often_as_it_may() {
    let World { executor, controls, .. } = world();
    let add = |text: &str| controls.add_fault(&order(text)).unwrap();
    add(r#"{"status":429,"operation":"ReadDatabase","database":"d","count":1}"#);
    let mut record = executor.start("test");
    let mut admit = |op: &Op, database| executor.admit(&mut record, op, || subject(database));
    assert_eq!(admit(&create_database(), "d"), None);
    assert_eq!(admit(&read_database(), "e"), None);
    let Some(Strike::Fails(error)) = admit(&read_database(), "d") else { panic!() };
    assert_eq!((error.status, error.substatus), (429, 3200));
    assert_eq!(admit(&read_database(), "d"), None);
    add(r#"{"drop":"request","client":"a cli"}"#);
    assert_eq!(admit(&read_database(), "d"), Some(Strike::Unserved));
    assert!(record.delivery.dropped);
    controls.clear_faults();
    assert_eq!(executor.admit(&mut record, &read_database(), || subject("d")), None);
}
