//! Procedures at once: nobody sees half of one, and none is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{self, Poll, Waker};
use std::thread;

use partita_engine::{Access, Context, Database, SplitAt, block_on};
use partita_model::ErrorKind;

use super::*;

const ITEMS: i64 = 5;
const EACH: i64 = 100;

fn execute(database: &Database, op: Op) -> Reply {
    // As a door does it: the turn is waited for first.
    let context = Context::default();
    let _turn = block_on(database.turn(&op, &context)).unwrap();
    block_on(database.execute(op, &context))
}

fn fill(bench: &Bench, keys: &[&str]) {
    for key in keys {
        for id in 0..ITEMS {
            let body = format!(r#"{{"id":"{id}","pk":"{key}","n":{EACH}}}"#);
            bench.create(&body).result.unwrap();
        }
    }
}

fn header(key: &str) -> String {
    format!(r#"["{key}"]"#)
}

/// A number that looks random enough.
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 8
}

#[test]
fn amounts_that_are_moved_keep_their_sum_and_nobody_sees_half() {
    const CLIENTS: u64 = 4;
    const TRANSFERS: u64 = 150;
    let keys = ["a", "b", "c"];
    let (bench, _) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    fill(&bench, &keys);
    let kind = ScriptKind::Procedure;
    script(create(&bench, kind, "move", r#"[["move","$0","$1","$2"]]"#));
    script(create(&bench, kind, "sum", r#"[["query","SELECT VALUE SUM(c.n) FROM c",9]]"#));
    let (database, done) = (Arc::clone(&bench.database), AtomicBool::new(false));
    let seen = AtomicU64::new(0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let database = &database;
                scope.spawn(move || {
                    for n in 0..TRANSFERS {
                        let chance = mixed(client * 1_000 + n);
                        let key = header(keys[(chance % 3) as usize]);
                        let (from, to) = ((chance / 3) % 5, (chance / 16) % 5);
                        let arguments = format!(r#"["{from}","{to}",{}]"#, chance % 17);
                        let reply = execute(database, call("move", &key, &arguments));
                        reply.result.unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for key in keys {
                    let sum = answer(&execute(&database, call("sum", &header(key), "[]")));
                    assert_eq!(sum.to_json(), format!("[[{}]]", ITEMS * EACH));
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(|| {
            // A split and a merge while the others go on.
            bench.split(0, SplitAt::Midpoint).result.unwrap();
            bench.settle();
            bench.merge([1, 2]).result.unwrap();
            bench.settle();
        });
        clients.into_iter().for_each(|client| client.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert!(seen.load(Ordering::Relaxed) > 0);
    for key in keys {
        let sum = answer(&bench.run(call("sum", &header(key), "[]")));
        assert_eq!(sum.to_json(), format!("[[{}]]", ITEMS * EACH));
    }
    bench.settle();
    bench.assert_whole();
}

#[test]
fn no_update_is_lost_when_procedures_and_single_writes_meet() {
    const CLIENTS: i64 = 4;
    const ROUNDS: i64 = 50;
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"count","pk":"a","n":0}"#).result.unwrap();
    bench.create(r#"{"id":"rest","pk":"a","n":0}"#).result.unwrap();
    script(create(&bench, ScriptKind::Procedure, "inc", r#"[["move","rest","count",1]]"#));
    let retried = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (bench, retried) = (&bench, &retried);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let reply = match client % 2 {
                        // Without waiting for a turn: conflicts are a matter of course.
                        0 => bench.run(call("inc", r#"["a"]"#, "[]")),
                        _ => bench.patch(
                            "count",
                            r#"["a"]"#,
                            r#"[{"op":"incr","path":"/n","value":1}]"#,
                        ),
                    };
                    match reply.result {
                        Ok(_) => {}
                        Err(error) if error.kind == ErrorKind::RetryWith => {
                            retried.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let lost = i64::try_from(retried.load(Ordering::Relaxed)).unwrap();
    let count = crate::harness::body(&bench.read("count", r#"["a"]"#));
    assert_eq!(count.get("n").unwrap().as_i64(), Some(CLIENTS * ROUNDS - lost));
    bench.assert_whole();
}

/// Two procedures read both items and each writes one of them: with snapshots alone both could
/// commit.
#[test]
fn what_a_procedure_read_is_still_so_when_it_commits() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"x","pk":"a","n":1}"#).result.unwrap();
    bench.create(r#"{"id":"y","pk":"a","n":1}"#).result.unwrap();
    let database = Arc::clone(&bench.database);
    let mut runs = 0;
    steps.on_hook(move || {
        runs += 1;
        if runs == 1 {
            let item = item(r#"{"id":"y","pk":"a","n":2}"#, Some(r#"["a"]"#));
            let op = Op::UpsertItem { container: path(), item, condition: None };
            block_on(database.execute(op, &Context::default())).result.unwrap();
        }
    });
    let source = r#"[["read","y"],["hook"],["replace","x",{"id":"x","pk":"a","n":9}]]"#;
    let reply = run(&bench, source);
    let read = answer(&reply);
    assert_eq!(read.as_array().unwrap()[0].get("n").unwrap().to_json(), "2", "read again");
}

/// The same for items that were not there.
#[test]
fn what_a_procedure_did_not_find_is_still_not_there_when_it_commits() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    let database = Arc::clone(&bench.database);
    let mut runs = 0;
    steps.on_hook(move || {
        runs += 1;
        if runs == 1 {
            let item = item(r#"{"id":"other","pk":"a"}"#, Some(r#"["a"]"#));
            let op = Op::CreateItem { container: path(), item };
            block_on(database.execute(op, &Context::default())).result.unwrap();
        }
    });
    let source = r#"[["query","SELECT VALUE COUNT(1) FROM c",9],["hook"],
        ["query","SELECT VALUE COUNT(1) FROM c",9],["create",{"id":"x","pk":"a"}]]"#;
    let counted = answer(&run(&bench, source));
    assert_eq!(counted.to_json(), "[[1],[1]]", "both reads of a run see the same");
}

#[test]
fn who_will_be_refused_does_not_stand_in_line() {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(30_000, KEY_PK);
    let op = call("any", &header("a"), "[]");
    let turn = |access: Access| {
        let context = Context { access, ..Context::default() };
        let mut waiting = Box::pin(bench.database.turn(&op, &context));
        match waiting.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Poll::Ready(turn.unwrap()),
            Poll::Pending => Poll::Pending,
        }
    };
    let Poll::Ready(Some(_held)) = turn(Access::ReadWrite) else { panic!("nobody is before it") };
    assert!(turn(Access::ReadWrite).is_pending());
    assert!(matches!(turn(Access::ReadOnly), Poll::Ready(None)));
}
