//! Many callers at once: nothing is lost, nothing happens twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use partita_model::{ErrorKind, Value};

use crate::harness::*;

#[test]
fn increments_of_one_item_add_up() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"x","pk":"a","n":0}"#).result.unwrap();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let reply =
                        bench.patch("x", r#"["a"]"#, r#"[{"op":"incr","path":"/n","value":1}]"#);
                    match reply.result {
                        Ok(_) => done.fetch_add(1, Ordering::SeqCst),
                        Err(error) => {
                            assert_eq!(error.kind, ErrorKind::RetryWith);
                            0
                        }
                    };
                }
            });
        }
    });
    let stored = body(&bench.read("x", r#"["a"]"#));
    let n = stored.get("n").and_then(Value::as_i64).unwrap();
    assert_eq!(n as u64, done.load(Ordering::SeqCst));
    assert!(n > 300, "conflicts are retried by the engine");
    bench.assert_whole();
}

#[test]
fn one_of_many_creates_wins() {
    let bench = Bench::new();
    bench.make_container(
        30_000,
        &format!(r#"{KEY_PK},"uniqueKeyPolicy":{{"uniqueKeys":[{{"paths":["/u"]}}]}}"#),
    );
    let (same_id, same_value) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for t in 0..4 {
            let (bench, same_id, same_value) = (&bench, &same_id, &same_value);
            scope.spawn(move || {
                for n in 0..50 {
                    let id = bench.create(&format!(r#"{{"id":"i{n}","pk":"a","u":"{t}-{n}"}}"#));
                    same_id.fetch_add(u64::from(id.result.is_ok()), Ordering::SeqCst);
                    let value = bench.create(&format!(r#"{{"id":"v{t}-{n}","pk":"b","u":{n}}}"#));
                    same_value.fetch_add(u64::from(value.result.is_ok()), Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(same_id.load(Ordering::SeqCst), 50);
    assert_eq!(same_value.load(Ordering::SeqCst), 50);
    bench.assert_whole();
}

#[test]
fn containers_come_and_go_under_load() {
    let bench = Bench::new();
    bench.make_database("db");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..30 {
                    let made = bench.create_container("c", 12_000, KEY_PK);
                    assert!(
                        made.result.is_ok()
                            || matches!(error(&made), ErrorKind::Conflict | ErrorKind::NotFound)
                    );
                    let gone = bench.run(partita_engine::Op::DeleteContainer {
                        container: path(),
                        condition: None,
                    });
                    assert!(gone.result.is_ok() || matches!(error(&gone), ErrorKind::NotFound));
                }
            });
        }
        for t in 0..2 {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..200 {
                    let reply = bench.create(&format!(r#"{{"id":"{t}-{n}","pk":{n}}}"#));
                    assert!(
                        reply.result.is_ok() || error(&reply) == ErrorKind::OwnerNotFound,
                        "{reply:?}"
                    );
                }
            });
        }
    });
    bench
        .run(partita_engine::Op::DeleteContainer { container: path(), condition: None })
        .result
        .ok();
    assert_eq!(bench.database.status().store.partitions, 1, "only the catalog's is left");
}
