//! Imports: one commit, whatever the keys, and all that hangs together with items.

use std::thread;

use partita_engine::{
    Existing, Import, ImportIds, ImportTarget, Op, Outcome, Reply, Scope, SplitAt, block_on,
};
use partita_model::{ErrorKind, PartitionKeyHeader};

use crate::harness::*;

pub(crate) fn import(target: ImportTarget, documents: &[String], existing: Existing) -> Op {
    let documents = documents.iter().map(|text| text.clone().into_bytes()).collect();
    let ids = ImportIds::Given;
    Op::Import(Box::new(Import { container: path(), target, documents, ids, existing }))
}

fn document(id: usize, pk: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","u":{id}}}"#)
}

#[track_caller]
pub(crate) fn count(reply: &Reply) -> usize {
    match &reply.result {
        Ok(Outcome::Imported { count, .. }) => *count,
        other => panic!("no import: {other:?}"),
    }
}

pub(crate) fn into_range(range: u32) -> ImportTarget {
    ImportTarget::Range(range.to_string())
}

#[test]
fn an_import_keeps_index_feed_and_counters_whole() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
        bench.make_container(throughput, &format!("{KEY_PK},{unique}"));
        let range = bench.read("0", r#"["a"]"#).served.unwrap().range_id;
        let documents: Vec<String> = (0..50).map(|id| document(id, "a")).collect();
        let reply = bench.run(import(into_range(range), &documents, Existing::Fails));
        assert_eq!(count(&reply), 50);
        let before = reply.served.as_ref().unwrap().lsn;
        assert_eq!(bench.read("7", r#"["a"]"#).served.unwrap().item_lsn, Some(before));
        bench.assert_whole();
        let taken = [document(99, "a"), r#"{"id":"100","pk":"a","u":7}"#.to_owned()];
        let hard = bench.run(import(into_range(range), &taken, Existing::Fails));
        assert_eq!(error(&hard), ErrorKind::ScriptFailed { number: 409 });
        assert_eq!(bench.read("7", r#"["a"]"#).served.unwrap().lsn, before, "nothing was done");
        let soft = bench.run(import(into_range(range), &taken, Existing::Ends));
        assert_eq!(count(&soft), 1, "a unique key is a conflict, too");
        let replaced: Vec<String> = (0..50).map(|id| document(id, "a")).collect();
        let reply = bench.run(import(into_range(range), &replaced, Existing::Replaced));
        assert_eq!(count(&reply), 50);
        assert_eq!(bench.list(&Scope::All, 1_000).len(), 51);
        bench.assert_whole();
        let bench = bench.reopened();
        assert_eq!(bench.list(&Scope::All, 1_000).len(), 51);
        bench.assert_whole();
    }
}

#[test]
fn what_an_import_costs_is_what_its_partition_is_charged() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let metered = || {
        let container = bench.read("x", r#"["a"]"#).container.unwrap();
        container.meters().next().unwrap().consumed_ru()
    };
    let one = bench.read("x", r#"["a"]"#).charge.0;
    for (documents, existing) in [
        (vec![document(1, "a"), document(2, "b")], Existing::Fails),
        (vec![document(3, "a"), document(2, "b")], Existing::Ends),
        (vec![document(4, "a"), document(2, "b")], Existing::Fails),
    ] {
        let before = metered();
        let reply = bench.run(import(into_range(0), &documents, existing));
        let spent = metered() - before - one;
        assert!((spent - reply.charge.0).abs() < 0.011, "{spent} and {:?}", reply.charge);
        assert!(reply.charge.0 >= one);
    }
}

#[test]
fn imports_at_once_lose_nothing() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let database = &bench.database;
    thread::scope(|scope| {
        for client in 0..4_usize {
            scope.spawn(move || {
                let context = partita_engine::Context::default();
                for round in 0..20 {
                    let id = |n: usize| (client * 100 + round) * 10 + n;
                    let keys = ["a", "b", "c", "d"];
                    let documents: Vec<String> =
                        (0..10).map(|n| document(id(n), keys[n % 4])).collect();
                    let op = || import(into_range(0), &documents, Existing::Replaced);
                    let mut reply = block_on(database.execute(op(), &context));
                    while reply.result.as_ref().is_err_and(|e| e.kind == ErrorKind::RetryWith) {
                        reply = block_on(database.execute(op(), &context));
                    }
                    assert_eq!(count(&reply), 10);
                }
            });
        }
    });
    assert_eq!(bench.list(&Scope::All, 1_000).len(), 800);
    bench.assert_whole();
}

#[test]
fn an_import_into_a_range_that_was_split_is_sent_again_and_one_by_key_finds_its_way() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for key in ["a", "b", "c", "d"] {
        bench.create(&document(0, key)).result.unwrap();
    }
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    bench.settle();
    let documents = [document(1, "a")];
    let gone = bench.run(import(into_range(0), &documents, Existing::Fails));
    assert_eq!(error(&gone), ErrorKind::RangeGone);
    let key = ImportTarget::Key(Some(PartitionKeyHeader::parse(r#"["a"]"#).unwrap()));
    assert_eq!(count(&bench.run(import(key.clone(), &documents, Existing::Fails))), 1);
    let other = bench.run(import(key, &[document(2, "b")], Existing::Fails));
    assert_eq!(error(&other), ErrorKind::ScriptFailed { number: 400 });
    bench.assert_whole();
}
