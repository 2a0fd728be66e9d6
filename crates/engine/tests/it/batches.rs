//! Transactional batches and bulks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use partita_engine::{
    Access, BatchAction, BatchDone, BatchMode, BatchOperation, BatchResult, Change, Condition,
    Context, EtagPattern, Indexing, OnError, Op, Outcome, Reply, Returns, Scope, TriggerNames,
};
use partita_model::{Charge, ErrorKind, Etag, PartitionKeyHeader, Value};

use crate::harness::*;

pub(crate) fn operation(action: BatchAction) -> BatchOperation {
    BatchOperation {
        action,
        partition_key: None,
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: Returns::Item,
    }
}

pub(crate) fn create(body: &str) -> BatchOperation {
    operation(BatchAction::Create { body: body.into(), indexing: Indexing::ByPolicy })
}

pub(crate) fn upsert(body: &str) -> BatchOperation {
    operation(BatchAction::Upsert { body: body.into(), indexing: Indexing::ByPolicy })
}

pub(crate) fn replace(id: &str, body: &str) -> BatchOperation {
    let (id, body) = (id.into(), body.into());
    operation(BatchAction::Replace { id, body, indexing: Indexing::ByPolicy })
}

pub(crate) fn patch(id: &str, body: &str) -> BatchOperation {
    operation(BatchAction::Patch { id: id.into(), body: body.into() })
}

pub(crate) fn read(id: &str) -> BatchOperation {
    operation(BatchAction::Read { id: id.into() })
}

pub(crate) fn delete(id: &str) -> BatchOperation {
    operation(BatchAction::Delete { id: id.into() })
}

fn matching(operation: BatchOperation, etag: &str) -> BatchOperation {
    BatchOperation { condition: if_match(etag), ..operation }
}

pub(crate) fn under(operation: BatchOperation, key: &str) -> BatchOperation {
    BatchOperation { partition_key: Some(PartitionKeyHeader::parse(key).unwrap()), ..operation }
}

pub(crate) fn atomic(bench: &Bench, key: &str, operations: Vec<BatchOperation>) -> Reply {
    let partition_key = Some(PartitionKeyHeader::parse(key).unwrap());
    let mode = BatchMode::Atomic { partition_key };
    bench.run(Op::Batch { container: path(), operations, mode })
}

pub(crate) fn bulk(
    bench: &Bench,
    range: u32,
    on_error: OnError,
    operations: Vec<BatchOperation>,
) -> Reply {
    let mode = BatchMode::Bulk { range_id: range.to_string(), on_error };
    bench.run(Op::Batch { container: path(), operations, mode })
}

#[track_caller]
pub(crate) fn results(reply: &Reply) -> &[BatchResult] {
    match &reply.result {
        Ok(Outcome::Batch { results }) => results,
        other => panic!("no results: {other:?}"),
    }
}

/// One letter for each result.
#[track_caller]
pub(crate) fn summary(reply: &Reply) -> String {
    let letter = |result: &BatchResult| match &result.result {
        Ok(BatchDone::Item { change: Change::Created, .. }) => 'C',
        Ok(BatchDone::Item { change: Change::Replaced, .. }) => 'W',
        Ok(BatchDone::Item { change: Change::None, .. }) => 'R',
        Ok(BatchDone::NotModified { .. }) => 'S',
        Ok(BatchDone::Deleted) => 'D',
        Err(error) => match error.kind {
            ErrorKind::FailedDependency => '-',
            ErrorKind::BadRequest => 'b',
            ErrorKind::NotFound => 'n',
            ErrorKind::Conflict => 'c',
            ErrorKind::PreconditionFailed => 'p',
            ErrorKind::RangeGone => 'g',
            ErrorKind::TooLarge | ErrorKind::ResponseTooLarge => 't',
            _ => '?',
        },
    };
    results(reply).iter().map(letter).collect()
}

/// The item in a result.
#[track_caller]
pub(crate) fn item_of(reply: &Reply, at: usize) -> (Etag, Value) {
    match &results(reply)[at].result {
        Ok(BatchDone::Item { etag, body: Some(body), .. }) => {
            (*etag, Value::parse(&body.0).unwrap())
        }
        other => panic!("no item: {other:?}"),
    }
}

pub(crate) fn lsn(reply: &Reply) -> u64 {
    reply.served.as_ref().unwrap().lsn.0
}

fn container(throughput: u32) -> Bench {
    let bench = Bench::new();
    bench.make_container(throughput, KEY_PK);
    bench
}

fn with_unique_key(throughput: u32) -> Bench {
    let bench = Bench::new();
    let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
    bench.make_container(throughput, &format!("{KEY_PK},{unique}"));
    bench
}

const KEY: &str = r#"["a"]"#;

#[test]
fn a_batch_of_all_operations_is_one_commit() {
    for (_, throughput) in PARTITIONS {
        let bench = container(throughput);
        for id in ["read", "replace", "patch", "delete"] {
            bench.create(&format!(r#"{{"id":"{id}","pk":"a","n":0}}"#)).result.unwrap();
        }
        let before = lsn(&bench.read("read", KEY));
        let reply = atomic(
            &bench,
            KEY,
            vec![
                create(r#"{"id":"create","pk":"a"}"#),
                replace("replace", r#"{"id":"replace","pk":"a","n":1}"#),
                upsert(r#"{"id":"upsert","pk":"a"}"#),
                patch("patch", r#"[{"op":"incr","path":"/n","value":5}]"#),
                read("read"),
                delete("delete"),
            ],
        );
        assert_eq!(summary(&reply), "CWCWRD");
        assert_eq!(lsn(&reply), before + 1);
        assert_eq!(lsn(&bench.read("read", KEY)), before + 1);
        assert_eq!(item_of(&reply, 3).1.get("n"), Some(&json("5")));
        for (at, id) in [(0, "create"), (1, "replace"), (2, "upsert"), (3, "patch")] {
            let stored = bench.read(id, KEY);
            assert_eq!(stored.served.as_ref().unwrap().item_lsn.unwrap().0, before + 1);
            assert_eq!(body(&stored), item_of(&reply, at).1, "{id}");
        }
        assert_eq!(error(&bench.read("delete", KEY)), ErrorKind::NotFound);
        let sum: f64 = results(&reply).iter().map(|result| result.charge.0).sum();
        assert!((reply.charge.0 - sum).abs() < 0.001 && sum > 25.0, "{}", reply.charge);
        bench.assert_whole();
    }
}

#[test]
fn operations_see_what_earlier_ones_did() {
    let bench = container(30_000);
    let operations = vec![
        create(r#"{"id":"x","pk":"a","n":1}"#),
        read("x"),
        patch("x", r#"[{"op":"incr","path":"/n","value":1}]"#),
        replace("x", r#"{"id":"y","pk":"a","n":7}"#),
        upsert(r#"{"id":"y","pk":"a","n":8}"#),
        delete("y"),
        create(r#"{"id":"y","pk":"a","n":9}"#),
        read("y"),
    ];
    let reply = atomic(&bench, KEY, operations);
    assert_eq!(summary(&reply), "CRWWWDCR");
    assert_eq!(item_of(&reply, 1).1.get("n"), Some(&json("1")));
    assert_eq!(item_of(&reply, 2).1.get("n"), Some(&json("2")));
    assert_eq!(item_of(&reply, 7), item_of(&reply, 6));
    assert_eq!(error(&bench.read("x", KEY)), ErrorKind::NotFound);
    assert_eq!(body(&bench.read("y", KEY)), item_of(&reply, 7).1);
    bench.assert_whole();
    let reply = atomic(&bench, KEY, vec![delete("y"), read("y")]);
    assert_eq!(summary(&reply), "-n");
    assert!(bench.read("y", KEY).result.is_ok(), "the delete was undone");
    let reply = atomic(&bench, KEY, vec![create(r#"{"id":"z","pk":"a"}"#), delete("z")]);
    assert_eq!(summary(&reply), "CD");
    assert_eq!(bench.list(&Scope::All, 10).len(), 1);
    bench.assert_whole();
}

#[test]
fn one_failure_undoes_everything() {
    for (_, throughput) in PARTITIONS {
        let bench = container(throughput);
        let stored = body(&bench.create(r#"{"id":"x","pk":"a","n":1}"#));
        let before = lsn(&bench.read("x", KEY));
        let filtered = r#"{"condition":"from c where c.n = 2","operations":[
            {"op":"set","path":"/m","value":1}]}"#;
        let failing = [
            (create(r#"{"id":"x","pk":"a"}"#), 'c'),
            (create(r#"{"id":"1","pk":"a"}"#), 'c'),
            (create(r#"{"id":"z","pk":"b"}"#), 'b'),
            (create(r#"{"id":"z"}"#), 'b'),
            (create(r#"{"pk":"a"}"#), 'b'),
            (create(r#"{"id":"z","pk":"a""#), 'b'),
            (under(read("x"), r#"["b"]"#), 'b'),
            (read("none"), 'n'),
            (delete("none"), 'n'),
            (replace("none", r#"{"id":"none","pk":"a"}"#), 'n'),
            (matching(delete("x"), "other"), 'p'),
            (matching(read("x"), "other"), 'p'),
            (patch("x", filtered), 'p'),
            (patch("x", r#"[{"op":"replace","path":"/none","value":1}]"#), 'b'),
            (patch("x", r#"[{"op":"set","path":"/pk","value":1}]"#), 'b'),
            (patch("x", "[]"), 'b'),
        ];
        for (broken, letter) in failing {
            let what = format!("{broken:?}");
            let first = [create(r#"{"id":"1","pk":"a"}"#), delete("x")];
            let second = create(r#"{"id":"2","pk":"a"}"#);
            let [create_1, delete_x] = first;
            let again = create(&stored.to_json());
            let operations = vec![create_1, delete_x, again, broken, second];
            let reply = atomic(&bench, KEY, operations);
            assert_eq!(summary(&reply), format!("---{letter}-"), "{what}");
            assert_eq!(lsn(&reply), before, "{what}");
            assert!(reply.charge.0 > 0.0);
        }
        assert_eq!(body(&bench.read("x", KEY)), stored);
        assert_eq!(bench.list(&Scope::All, 10).len(), 1);
        bench.assert_whole();
    }
}

#[test]
fn conditions_compare_with_the_version_inside_the_batch() {
    let bench = container(400);
    let old = text(&body(&bench.create(r#"{"id":"x","pk":"a","n":1}"#)), "_etag");
    let write = || patch("x", r#"[{"op":"incr","path":"/n","value":1}]"#);
    let reply = atomic(&bench, KEY, vec![matching(write(), &old), matching(write(), &old)]);
    assert_eq!(summary(&reply), "-p");
    let unchanged = Condition::NoneMatch(EtagPattern::Exact(old.trim_matches('"').into()));
    let spared = BatchOperation { condition: Some(unchanged), ..read("x") };
    let reply = atomic(&bench, KEY, vec![spared.clone(), matching(write(), &old), spared]);
    assert_eq!(summary(&reply), "SWR");
}

#[test]
fn unique_keys_hold_after_every_operation() {
    for (_, throughput) in PARTITIONS {
        let bench = with_unique_key(throughput);
        let item = |id: &str, u: u32| format!(r#"{{"id":"{id}","pk":"a","u":{u}}}"#);
        let made = vec![create(&item("x", 1)), create(&item("y", 2))];
        assert_eq!(summary(&atomic(&bench, KEY, made)), "CC");
        let twice = vec![create(&item("v", 3)), create(&item("w", 3))];
        assert_eq!(summary(&atomic(&bench, KEY, twice)), "-c");
        let swapped = vec![replace("x", &item("x", 2)), replace("y", &item("y", 1))];
        assert_eq!(summary(&atomic(&bench, KEY, swapped)), "c-");
        let by_a_third = vec![
            replace("x", &item("x", 3)),
            replace("y", &item("y", 1)),
            replace("x", &item("x", 2)),
        ];
        assert_eq!(summary(&atomic(&bench, KEY, by_a_third)), "WWW");
        bench.assert_whole();
        let handed_over = vec![delete("x"), create(&item("z", 2)), replace("y", &item("y", 4))];
        assert_eq!(summary(&atomic(&bench, KEY, handed_over)), "DCW");
        let freed = vec![create(&item("x", 1)), create(&item("w", 2))];
        assert_eq!(summary(&atomic(&bench, KEY, freed)), "-c");
        let renamed = vec![replace("z", &item("renamed", 2)), upsert(&item("renamed", 9))];
        assert_eq!(summary(&atomic(&bench, KEY, renamed)), "WW");
        bench.assert_whole();
    }
}

#[test]
fn an_expired_item_gives_way_inside_a_batch() {
    let bench = Bench::new();
    let fields = r#""defaultTtl":-1,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#;
    bench.make_container(400, &format!("{KEY_PK},{fields}"));
    bench.create(r#"{"id":"x","pk":"a","u":1,"ttl":5}"#).result.unwrap();
    bench.clock.advance_millis(10_000);
    assert_eq!(summary(&atomic(&bench, KEY, vec![read("x")])), "n");
    let operations = vec![
        create(r#"{"id":"y","pk":"a","u":1}"#),
        create(r#"{"id":"x","pk":"a","u":2}"#),
        delete("y"),
        upsert(r#"{"id":"x","pk":"a","u":1}"#),
    ];
    assert_eq!(summary(&atomic(&bench, KEY, operations)), "CCDW");
    bench.assert_whole();
}

#[test]
fn a_batch_has_limits() {
    let bench = container(400);
    let none = atomic(&bench, KEY, Vec::new()).result.unwrap_err();
    assert_eq!(none.message, "Batch request has no operations.");
    let many = |count: usize| -> Vec<BatchOperation> {
        (0..count).map(|n| create(&format!(r#"{{"id":"{n}","pk":"a"}}"#))).collect()
    };
    let reply = atomic(&bench, KEY, many(101)).result.unwrap_err();
    let told = "Batch request has more operations than what is supported.";
    assert!(reply.message.starts_with(told), "{reply}");
    assert_eq!(summary(&atomic(&bench, KEY, many(100))), "C".repeat(100));
    let whole = |key: &str| error(&atomic(&bench, key, vec![read("1")]));
    assert_eq!(whole(r#"["a","b"]"#), ErrorKind::PartitionKeyMismatch);
    let large = format!(r#"{{"id":"l","pk":"a","s":"{}"}}"#, "x".repeat(1_500_000));
    bench.create(&large).result.unwrap();
    let before = lsn(&bench.read("1", KEY));
    let reads = || (0..3).map(|_| read("l"));
    let operations = reads().chain([delete("1")]).collect();
    assert_eq!(summary(&atomic(&bench, KEY, operations)), "--t-");
    assert_eq!(lsn(&bench.read("1", KEY)), before, "nothing was done");
    let minimal = |operation| BatchOperation { returns: Returns::Etag, ..operation };
    let operations = (0..3).map(|_| minimal(upsert(&large))).chain([read("l")]).collect();
    let reply = atomic(&bench, KEY, operations);
    assert_eq!(summary(&reply), "WWWR");
    let first = &results(&reply)[0].result;
    assert!(matches!(first, Ok(BatchDone::Item { body: None, .. })), "{first:?}");
    bench.assert_whole();
}

#[test]
fn equal_keys_with_different_places_are_different() {
    let bench = container(30_000);
    let operations = vec![create(r#"{"id":"x","pk":-0.0}"#)];
    assert_eq!(summary(&atomic(&bench, "[0]", operations)), "b");
    let operations = vec![create(r#"{"id":"x","pk":0}"#), replace("x", r#"{"id":"y","pk":0}"#)];
    assert_eq!(summary(&atomic(&bench, "[0]", operations)), "CW");
    bench.replace("y", "[0]", r#"{"id":"z","pk":-0.0}"#, None).result.unwrap();
    bench.assert_whole();
}

#[test]
fn a_batch_that_only_reads_commits_nothing() {
    let bench = container(400);
    bench.create(r#"{"id":"x","pk":"a"}"#).result.unwrap();
    let before = lsn(&bench.read("x", KEY));
    let reads = || Op::Batch {
        container: path(),
        operations: vec![read("x"), read("x")],
        mode: BatchMode::Atomic { partition_key: Some(PartitionKeyHeader::parse(KEY).unwrap()) },
    };
    let with_reader = Context { access: Access::ReadOnly, ..Context::default() };
    let reply = bench.run_with(reads(), &with_reader);
    assert_eq!((summary(&reply), lsn(&reply)), ("RR".into(), before));
    assert_eq!(reply.charge.0, 2.0);
    let mode = BatchMode::Bulk { range_id: "0".into(), on_error: OnError::Continue };
    let operations = vec![read("x"), delete("x")];
    let writes = Op::Batch { container: path(), operations, mode };
    assert_eq!(error(&bench.run_with(writes, &with_reader)), ErrorKind::Forbidden);
    let ahead = Context { session: Some("0:-1#999".into()), ..Context::default() };
    assert_eq!(error(&bench.run_with(reads(), &ahead)), ErrorKind::SessionNotAvailable);
}

#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: u64 = 3;
    let bench = container(30_000);
    for n in 0..ACCOUNTS {
        bench.create(&format!(r#"{{"id":"{n}","pk":"a","n":100}}"#)).result.unwrap();
    }
    let incr = |n: u64, by: i64| {
        let body = format!(r#"[{{"op":"incr","path":"/n","value":{by}}}]"#);
        patch(&n.to_string(), &body)
    };
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for t in 0..4 {
            let (bench, done) = (&bench, &done);
            scope.spawn(move || {
                for round in 0..60 {
                    let (from, to) = (round % ACCOUNTS, (round + 1 + t % 2) % ACCOUNTS);
                    let reply = atomic(bench, KEY, vec![incr(from, -1), incr(to, 1)]);
                    match reply.result {
                        Ok(_) => {
                            assert_eq!(summary(&reply), "WW");
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => assert_eq!(error.kind, ErrorKind::RetryWith),
                    }
                    let reads = (0..ACCOUNTS).map(|n| read(&n.to_string())).collect();
                    assert_eq!(sum(&atomic(bench, KEY, reads)), 100 * ACCOUNTS as i64);
                }
            });
        }
    });
    assert!(done.load(Ordering::SeqCst) > 200, "conflicts are retried by the engine");
    bench.assert_whole();
}

fn sum(reply: &Reply) -> i64 {
    let n = |at| item_of(reply, at).1.get("n").and_then(Value::as_i64).unwrap();
    (0..results(reply).len()).map(n).sum()
}

#[test]
fn batches_survive_a_restart() {
    let mut bench = with_unique_key(30_000);
    for round in 0..5 {
        let operations = (0..40)
            .map(|n| upsert(&format!(r#"{{"id":"{n}","pk":"a","u":"{round}-{n}"}}"#)))
            .chain([delete("7"), delete("8")]);
        let reply = atomic(&bench, KEY, operations.collect());
        assert!(results(&reply).iter().all(|result| result.result.is_ok()), "{reply:?}");
        bench = bench.reopened();
        assert_eq!(bench.list(&Scope::All, 100).len(), 38);
        bench.assert_whole();
    }
}

/// Where each of these keys lives: range id and header.
fn keys_by_range(bench: &Bench) -> Vec<(u32, String)> {
    let key = |n: u32| {
        let header = format!(r#"["k{n}"]"#);
        (bench.read("none", &header).served.unwrap().range_id, header)
    };
    (0..40).map(key).collect()
}

#[test]
fn the_operations_of_a_bulk_are_independent() {
    for (partitions, throughput) in PARTITIONS {
        let bench = with_unique_key(throughput);
        let keys = keys_by_range(&bench);
        let range = keys[0].0;
        let here: Vec<&String> =
            keys.iter().filter(|(of, _)| *of == range).map(|(_, key)| key).collect();
        let document = |key: &str, id: &str, u: u32| {
            let pk = key.trim_matches(['[', ']']);
            format!(r#"{{"id":"{id}","pk":{pk},"u":{u}}}"#)
        };
        let mut operations: Vec<BatchOperation> =
            here.iter().map(|key| under(create(&document(key, "x", 1)), key)).collect();
        let key = here[0].as_str();
        operations.push(under(create(&document(key, "x", 1)), key));
        operations.push(under(create(&document(key, "y", 1)), key));
        operations.push(under(patch("x", r#"[{"op":"set","path":"/u","value":2}]"#), key));
        operations.push(under(read("x"), key));
        operations.push(read("x"));
        operations.push(create(&document(key, "z", 3)));
        operations.push(under(delete("none"), key));
        let mut expected = "C".repeat(here.len()) + "ccWRbCn";
        if let Some((_, elsewhere)) = keys.iter().find(|(of, _)| *of != range) {
            assert_eq!(partitions, 5);
            operations.push(under(create(&document(elsewhere, "x", 1)), elsewhere));
            expected.push('g');
        }
        let reply = bulk(&bench, range, OnError::Continue, operations);
        assert_eq!(summary(&reply), expected);
        assert_eq!(item_of(&reply, here.len() + 3).1.get("u"), Some(&json("2")));
        let latest = bench.read("x", key);
        assert_eq!(lsn(&latest), lsn(&reply), "the reply tells the last of its commits");
        assert_eq!(bench.list(&Scope::All, 100).len(), here.len() + 1);
        bench.assert_whole();
    }
}

#[test]
fn a_refused_write_costs_in_batches_and_bulks_what_it_costs_alone() {
    for (_, throughput) in PARTITIONS {
        let bench = container(throughput);
        let (there, other) = (r#"{"id":"1","pk":"a"}"#, "\"another\"");
        let first = bench.create(there);
        let range = first.served.clone().unwrap().range_id;
        let refused = || {
            [
                (create(there), bench.create(there).charge),
                (matching(upsert(there), other), bench.upsert(there, if_match(other)).charge),
                (matching(delete("1"), other), Charge(1.24)),
                (read("none"), bench.read("none", KEY).charge),
                (delete("none"), bench.delete("none", KEY).charge),
            ]
        };
        for (operation, alone) in refused() {
            let tried = atomic(&bench, KEY, vec![read("1"), operation, read("1")]);
            let charges: Vec<Charge> = results(&tried).iter().map(|done| done.charge).collect();
            assert_eq!(charges, [Charge(1.0), alone, Charge(0.0)]);
            assert_eq!(tried.charge, Charge(1.0) + alone);
        }
        let (operations, alone): (Vec<_>, Vec<Charge>) = refused().into_iter().unzip();
        let operations = operations.into_iter().map(|operation| under(operation, KEY)).collect();
        let tried = bulk(&bench, range, OnError::Continue, operations);
        assert_eq!(summary(&tried), "cppnn");
        let charges: Vec<Charge> = results(&tried).iter().map(|done| done.charge).collect();
        assert_eq!(charges, alone);
        assert_eq!(alone[0], Charge(1.24));
    }
}

#[test]
fn a_bulk_may_stop_at_the_first_error() {
    let bench = container(400);
    let operations = vec![
        create(r#"{"id":"1","pk":"a"}"#),
        create(r#"{"id":"1","pk":"a"}"#),
        create(r#"{"id":"2","pk":"a"}"#),
    ];
    assert_eq!(summary(&bulk(&bench, 0, OnError::Stop, operations)), "Cc-");
    assert_eq!(bench.list(&Scope::All, 10).len(), 1, "what was done before stays done");
    let gone = bulk(&bench, 7, OnError::Continue, vec![read("1")]);
    assert_eq!(error(&gone), ErrorKind::RangeGone);
    let none = bulk(&bench, 0, OnError::Continue, Vec::new());
    assert_eq!(error(&none), ErrorKind::BadRequest);
}

#[test]
fn a_bulk_tells_as_much_as_fits() {
    let bench = container(400);
    let large = format!(r#"{{"id":"l","pk":"a","s":"{}"}}"#, "x".repeat(1_500_000));
    bench.create(&large).result.unwrap();
    let touch = || under(patch("l", r#"[{"op":"set","path":"/n","value":1}]"#), KEY);
    let look = || under(read("l"), KEY);
    let operations = vec![touch(), look(), touch(), look()];
    let reply = bulk(&bench, 0, OnError::Continue, operations);
    assert_eq!(summary(&reply), "WRWt");
    let third = &results(&reply)[2].result;
    assert!(matches!(third, Ok(BatchDone::Item { body: None, .. })), "{third:?}");
}

#[test]
fn an_operation_says_how_long_its_item_lives_whatever_the_item_says() {
    for (_, throughput) in PARTITIONS {
        let mut bench = Bench::new();
        bench.make_container(throughput, &format!(r#"{KEY_PK},"defaultTtl":100"#));
        let living =
            |operation, seconds| BatchOperation { ttl_seconds: Some(seconds), ..operation };
        let item = |id: &str| format!(r#"{{"id":"{id}","pk":"k","ttl":50}}"#);
        let incr = r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
        let operations = vec![
            living(create(&item("created")), 10),
            living(upsert(&item("upserted")), 10),
            create(&item("replaced")),
            living(replace("replaced", &item("replaced")), 10),
            create(&item("patched")),
            living(patch("patched", incr), 10),
            living(create(&item("for ever")), -1),
            create(&item("by itself")),
            living(create(&item("gone")), 10),
            living(delete("gone"), 10),
            living(read("created"), 10),
        ];
        let reply = atomic(&bench, r#"["k"]"#, operations);
        assert_eq!(summary(&reply), "CCCWCWCCCDR");
        let there = |bench: &Bench| {
            let names = ["created", "upserted", "replaced", "patched", "by itself", "for ever"];
            let read = |id: &&&str| bench.read(id, r#"["k"]"#).result.is_ok();
            names.iter().filter(read).count()
        };
        bench.clock.advance_millis(9_000);
        assert_eq!(there(&bench), 6);
        bench = bench.reopened();
        bench.clock.advance_millis(1_000);
        assert_eq!(there(&bench), 2);
        assert_eq!(body(&bench.read("by itself", r#"["k"]"#)).get("ttl"), Some(&json("50")));
        bench.clock.advance_millis(1_000_000);
        assert_eq!(there(&bench), 1, "for ever");
        for seconds in [0, -2, i32::MIN] {
            let reply = atomic(&bench, r#"["k"]"#, vec![living(create(&item("x")), seconds)]);
            let failure = results(&reply)[0].result.as_ref().unwrap_err();
            assert_eq!(failure.kind, ErrorKind::BadRequest, "{seconds}");
        }
        let keyed = under(living(create(&item("in a bulk")), 10), r#"["k"]"#);
        let range = atomic(&bench, r#"["k"]"#, vec![read("for ever")]).served.unwrap().range_id;
        assert_eq!(summary(&bulk(&bench, range, OnError::Continue, vec![keyed])), "C");
        bench.clock.advance_millis(10_000);
        assert_eq!(error(&bench.read("in a bulk", r#"["k"]"#)), ErrorKind::NotFound);
        bench.assert_whole();
    }
}
