//! Readers of the change feed who wait: what wakes them, and what does not.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

use partita_engine::{
    ChangesFrom, ChangesMode, ChangesRequest, ContainerPath, NextChange, Op, Outcome, Scope,
    SplitAt,
};

use crate::batches::{atomic, create};
use crate::changes::{key, range};
use crate::harness::*;

/// Reads up to now: what to wait with for more.
fn wait(bench: &Bench, container: ContainerPath, scope: Scope) -> NextChange {
    let request = Box::new(ChangesRequest {
        scope,
        mode: ChangesMode::LatestVersion,
        from: ChangesFrom::Now,
        since: None,
        query: None,
        items_max: None,
        listen: true,
    });
    match bench.run(Op::ReadChanges { container, request }).result {
        Ok(Outcome::Changes { next: Some(next), .. }) => next,
        other => panic!("{other:?}"),
    }
}

fn is_over(next: &mut NextChange) -> bool {
    let polled = Pin::new(next).poll(&mut TaskContext::from_waker(Waker::noop()));
    polled == Poll::Ready(())
}

#[test]
fn every_kind_of_write_ends_the_waiting() {
    for throughput in [400, 30_000] {
        let bench = Bench::new();
        bench.make_container(throughput, &format!(r#"{KEY_PK},"defaultTtl":-1"#));
        type Write = fn(&Bench);
        let writes: [(&str, Write); 6] = [
            ("create", |bench| drop(bench.create(r#"{"id":"a","pk":"k"}"#).result.unwrap())),
            ("upsert", |bench| drop(bench.upsert(r#"{"id":"a","pk":"k"}"#, None).result.unwrap())),
            ("patch", |bench| {
                let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
                drop(bench.patch("a", r#"["k"]"#, patch).result.unwrap());
            }),
            ("batch", |bench| {
                let operations = vec![create(r#"{"id":"b","pk":"k","ttl":1}"#)];
                drop(atomic(bench, r#"["k"]"#, operations).result.unwrap());
            }),
            ("expiry", |bench| {
                bench.clock.advance_millis(5_000);
                bench.settle();
            }),
            ("delete", |bench| drop(bench.delete("a", r#"["k"]"#).result.unwrap())),
        ];
        for (name, write) in writes {
            let mut next = wait(&bench, path(), key(r#"["k"]"#));
            assert!(!is_over(&mut next), "before {name}");
            write(&bench);
            assert!(is_over(&mut next), "after {name}");
        }
        assert!(!is_over(&mut wait(&bench, path(), Scope::All)), "nothing since");
    }
}

#[test]
fn a_write_in_another_partition_or_container_wakes_nobody() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    bench.create_container("other", 400, KEY_PK).result.unwrap();
    let other = ContainerPath { container: "other".into(), ..path() };
    let written = bench.create(r#"{"id":"a","pk":"k"}"#).served.unwrap().range_id;
    let elsewhere = (written + 1) % 5;
    let mut here = wait(&bench, path(), range(written));
    let mut next_door = wait(&bench, path(), range(elsewhere));
    let mut far_away = wait(&bench, other, Scope::All);
    let mut everywhere = wait(&bench, path(), Scope::All);
    bench.create(r#"{"id":"b","pk":"k"}"#).result.unwrap();
    assert!(is_over(&mut here) && is_over(&mut everywhere));
    assert!(!is_over(&mut next_door) && !is_over(&mut far_away));
}

#[test]
fn a_refused_write_wakes_nobody() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"a","pk":"k"}"#).result.unwrap();
    let mut next = wait(&bench, path(), Scope::All);
    bench.create(r#"{"id":"a","pk":"k"}"#).result.unwrap_err();
    assert!(!is_over(&mut next));
}

#[test]
fn a_partition_or_container_that_is_no_more_ends_the_waiting() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"a","pk":"k"}"#).result.unwrap();
    let mut next = wait(&bench, path(), range(0));
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    bench.settle();
    assert!(is_over(&mut next), "split");
    let mut next = wait(&bench, path(), Scope::All);
    assert!(!is_over(&mut next));
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    bench.settle();
    assert!(is_over(&mut next), "deleted");
}
