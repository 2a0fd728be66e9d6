//! Batches and bulks whose operations name triggers: one transaction, or one for each.

use partita_engine::{BatchOperation, Meter, OnError, SplitAt, TriggerNames};
use partita_model::ErrorKind;

use super::triggers::{scripted_container, trigger};
use super::*;
use crate::batches::{
    atomic, bulk, create as creates, delete, item_of, lsn, patch, read as reads, replace, results,
    summary, under, upsert,
};

const KEY: &str = r#"["a"]"#;

fn with(operation: BatchOperation, pre: &[&str], post: &[&str]) -> BatchOperation {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let triggers = TriggerNames { pre: owned(pre), post: owned(post) };
    BatchOperation { triggers, ..operation }
}

/// What partitions were charged so far.
fn metered(bench: &Bench) -> f64 {
    let reply = bench.read("x", KEY);
    let container = reply.container.unwrap();
    container.meters().map(Meter::consumed_ru).sum::<f64>()
}

#[test]
fn triggers_see_what_the_batch_did_before_and_all_of_it_is_one_commit() {
    for (_, throughput) in PARTITIONS {
        let bench = scripted_container(throughput);
        bench.create(r#"{"id":"rest","pk":"a","n":9}"#).result.unwrap();
        trigger(&bench, "pre", "Pre", "All", r#"[["document",{"seen":true}]]"#);
        trigger(&bench, "post", "Post", "All", r#"[["document",{"told":1}]]"#);
        trigger(&bench, "move", "Post", "Replace", r#"[["move","rest","1",2]]"#);
        trigger(&bench, "log", "Post", "Delete", r#"[["create",{"id":"log","pk":"a"}]]"#);
        let before = lsn(&bench.read("rest", KEY));
        let reply = atomic(
            &bench,
            KEY,
            vec![
                with(creates(r#"{"id":"1","pk":"a","n":0}"#), &["pre"], &["post"]),
                reads("1"),
                with(replace("1", r#"{"id":"1","pk":"a","n":5}"#), &["pre"], &["move"]),
                with(patch("1", r#"[{"op":"incr","path":"/n","value":1}]"#), &["pre"], &[]),
                upsert(r#"{"id":"2","pk":"a"}"#),
                with(delete("2"), &[], &["log"]),
                reads("log"),
            ],
        );
        assert_eq!(summary(&reply), "CRWWCDR", "{reply:?}");
        assert_eq!((lsn(&reply), reply.served.as_ref().unwrap().item_lsn), (before + 1, None));
        let told = |at: usize| item_of(&reply, at).1.to_json();
        assert!(told(0).contains(r#""told":1"#) && !told(1).contains("told"), "{}", told(0));
        assert!(told(1).contains(r#""n":0,"seen":true"#), "{}", told(1));
        assert!(told(3).contains(r#""n":8,"seen":true"#), "5, 2 moved here, and 1: {}", told(3));
        let n = |id: &str| crate::harness::body(&bench.read(id, KEY)).get("n").unwrap().to_json();
        assert_eq!((n("rest"), n("1")), ("7".into(), "8".into()));
        bench.read("log", KEY).result.unwrap();
        assert_eq!(error(&bench.read("2", KEY)), ErrorKind::NotFound);
        bench.assert_whole();
    }
}

#[test]
fn a_trigger_that_fails_breaks_the_batch_at_its_operation() {
    for (_, throughput) in PARTITIONS {
        let bench = scripted_container(throughput);
        bench.create(r#"{"id":"1","pk":"a"}"#).result.unwrap();
        trigger(&bench, "no", "Pre", "All", r#"[["create",{"id":"x","pk":"a"}],["throw","no"]]"#);
        trigger(&bench, "late", "Post", "All", r#"[["throw","never"]]"#);
        trigger(&bench, "slow", "Post", "All", r#"[["overrun","slow"]]"#);
        trigger(&bench, "away", "Pre", "All", r#"[["document",{"pk":"b"}]]"#);
        trigger(&bench, "creates", "Pre", "Create", "[]");
        let before = lsn(&bench.read("1", KEY));
        for (pre, post, kind, word) in [
            (&["no"][..], &[][..], ErrorKind::BadRequest, "no"),
            (&[][..], &["late"][..], ErrorKind::BadRequest, "never"),
            (&[][..], &["slow"][..], ErrorKind::Timeout, "slow"),
            (&["away"][..], &[][..], ErrorKind::BadRequest, "different partition key value"),
            (&["nobody"][..], &[][..], ErrorKind::BadRequest, "nobody"),
            (&["creates"][..], &[][..], ErrorKind::BadRequest, "Create"),
            (&["no", "away"][..], &[][..], ErrorKind::BadRequest, "one pre-trigger"),
            (&["late"][..], &[][..], ErrorKind::BadRequest, "Post"),
        ] {
            let reply = atomic(
                &bench,
                KEY,
                vec![
                    creates(r#"{"id":"2","pk":"a"}"#),
                    with(upsert(r#"{"id":"3","pk":"a"}"#), pre, post),
                    delete("1"),
                ],
            );
            let [first, second, third] = results(&reply) else { panic!("{reply:?}") };
            let failed = second.result.as_ref().unwrap_err();
            assert_eq!(failed.kind, kind, "{failed:?}");
            assert!(failed.message.contains(word), "{}", failed.message);
            for other in [first, third] {
                let kind = &other.result.as_ref().unwrap_err().kind;
                assert_eq!(*kind, ErrorKind::FailedDependency);
            }
        }
        assert_eq!(lsn(&bench.read("1", KEY)), before, "nothing was written");
        let other = with(under(delete("1"), r#"["b"]"#), &["no"], &[]);
        assert_eq!(summary(&atomic(&bench, KEY, vec![other])), "b");
        let read = with(reads("1"), &["no"], &[]);
        let refused = atomic(&bench, KEY, vec![reads("1"), read]);
        assert_eq!(summary(&refused), "-b");
        let missing = vec![with(replace("9", r#"{"id":"9","pk":"a"}"#), &[], &["late"])];
        assert_eq!(summary(&atomic(&bench, KEY, missing)), "n");
        bench.assert_whole();
    }
}

#[test]
fn a_batch_with_triggers_runs_again_if_another_commit_was_faster() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"rest","pk":"a","n":9}"#).result.unwrap();
    bench.create(r#"{"id":"1","pk":"a","n":0}"#).result.unwrap();
    trigger(&bench, "move", "Post", "All", r#"[["hook"],["move","rest","1",2]]"#);
    let database = Arc::clone(&bench.database);
    let mut runs = 0;
    steps.on_hook(move || {
        runs += 1;
        let item = item(r#"{"id":"rest","pk":"a","n":5}"#, Some(KEY));
        let op = Op::UpsertItem { container: path(), item, condition: None };
        if runs == 1 {
            let context = partita_engine::Context::default();
            partita_engine::block_on(database.execute(op, &context)).result.unwrap();
        }
    });
    let batch =
        vec![with(creates(r#"{"id":"2","pk":"a"}"#), &[], &["move"]), reads("2"), reads("rest")];
    let reply = atomic(&bench, KEY, batch);
    assert_eq!(summary(&reply), "CRR");
    assert!(item_of(&reply, 2).1.to_json().contains(r#""n":3"#), "of what came in between");
    bench.assert_whole();
}

#[test]
fn scripts_of_one_request_share_the_time_of_one() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    trigger(&bench, "slow", "Pre", "All", r#"[["hook"]]"#);
    let clock = Arc::clone(&bench.clock);
    steps.on_hook(move || clock.advance_millis(3_000));
    let make = |id: &str| with(creates(&format!(r#"{{"id":"{id}","pk":"a"}}"#)), &["slow"], &[]);
    let reply = atomic(&bench, KEY, vec![make("1"), make("2"), make("3")]);
    let kinds: Vec<Option<ErrorKind>> = results(&reply)
        .iter()
        .map(|result| result.result.as_ref().err().map(|error| error.kind.clone()))
        .collect();
    let dependency = || Some(ErrorKind::FailedDependency);
    assert_eq!(kinds, [dependency(), dependency(), Some(ErrorKind::Timeout)]);
    // Without triggers there is nothing to wait for.
    let plain = creates(r#"{"id":"3","pk":"a"}"#);
    assert_eq!(summary(&atomic(&bench, KEY, vec![make("1"), make("2"), plain])), "CCC");
    let make = |id: &str| under(make(id), KEY);
    let reply = bulk(&bench, 0, OnError::Continue, vec![make("4"), make("5"), make("6")]);
    assert_eq!(summary(&reply), "CC?", "what is done is done");
    assert_eq!(bench.list(&partita_engine::Scope::All, 10).len(), 5);
}

#[test]
fn the_operations_of_a_bulk_run_their_triggers_each_for_itself() {
    for (_, throughput) in PARTITIONS {
        let bench = scripted_container(throughput);
        bench.create(r#"{"id":"rest","pk":"a","n":9}"#).result.unwrap();
        bench.create(r#"{"id":"count","pk":"a","n":0}"#).result.unwrap();
        trigger(&bench, "move", "Post", "All", r#"[["move","rest","count",1]]"#);
        trigger(&bench, "no", "Post", "All", r#"[["throw","no"]]"#);
        trigger(&bench, "pre", "Pre", "All", r#"[["document",{"seen":true}]]"#);
        let range = bench.read("rest", KEY).served.unwrap().range_id;
        let operations = |continues: bool| {
            let id = |n: u8| if continues { n } else { n + 3 };
            let make = |n: u8| creates(&format!(r#"{{"id":"{}","pk":"a"}}"#, id(n)));
            vec![
                with(under(make(1), KEY), &["pre"], &["move"]),
                with(under(make(2), KEY), &[], &["no"]),
                with(under(delete("1"), KEY), &[], &["move"]),
                with(make(3), &["pre"], &[]),
                with(under(reads("1"), KEY), &["pre"], &[]),
            ]
        };
        let reply = bulk(&bench, range, OnError::Continue, operations(true));
        assert_eq!(summary(&reply), "CbDCb", "{reply:?}");
        let sum: f64 = results(&reply).iter().map(|result| result.charge.0).sum();
        assert!((reply.charge.0 - sum).abs() < 0.001 && sum > 20.0, "{sum}");
        let n = |id: &str| crate::harness::body(&bench.read(id, KEY)).get("n").unwrap().to_json();
        assert_eq!((n("rest"), n("count")), ("7".into(), "2".into()));
        assert_eq!(error(&bench.read("2", KEY)), ErrorKind::NotFound);
        assert!(crate::harness::body(&bench.read("3", KEY)).get("seen").is_some());
        let reply = bulk(&bench, range, OnError::Stop, operations(false));
        assert_eq!(summary(&reply), "Cb---");
        bench.assert_whole();
    }
}

#[test]
fn what_a_batch_with_triggers_costs_is_what_its_partition_is_charged() {
    let bench = scripted_container(30_000);
    trigger(&bench, "log", "Post", "Create", r#"[["upsert",{"id":"log","pk":"a"}]]"#);
    trigger(&bench, "no", "Pre", "All", r#"[["throw","no"]]"#);
    for last in [reads("log"), with(delete("log"), &["no"], &[])] {
        let before = metered(&bench);
        let make = |id: &str| creates(&format!(r#"{{"id":"{id}","pk":"a"}}"#));
        let first = with(make(&format!("{before}")), &[], &["log"]);
        let reply = atomic(&bench, KEY, vec![first, make(&format!("{before}-2")), last]);
        let sum: f64 = results(&reply).iter().map(|result| result.charge.0).sum();
        assert!(sum > 15.0, "{reply:?}");
        let one = bench.read("nobody", KEY).charge.0;
        assert!((reply.charge.0 - sum - one).abs() < 0.011, "the run itself is a look: {reply:?}");
        // The two reads that asked for the meters, and the one for a price.
        let spent = metered(&bench) - before;
        assert!((spent - reply.charge.0 - 2.0 * one).abs() < 0.03, "{spent} and {reply:?}");
    }
}

#[test]
fn a_time_to_live_and_conditions_go_along_with_triggers() {
    let bench = {
        let (bench, _) = scripted(unthrottled());
        bench.make_container(400, &format!(r#"{KEY_PK},"defaultTtl":-1"#));
        bench
    };
    trigger(&bench, "pre", "Pre", "All", r#"[["document",{"seen":true}]]"#);
    let living = |operation, seconds| BatchOperation { ttl_seconds: Some(seconds), ..operation };
    let make = |id: &str| with(creates(&format!(r#"{{"id":"{id}","pk":"a"}}"#)), &["pre"], &[]);
    let set = with(patch("2", r#"[{"op":"set","path":"/v","value":1}]"#), &["pre"], &[]);
    let batch = vec![living(make("1"), 10), make("2"), living(set, 10), make("3")];
    assert_eq!(summary(&atomic(&bench, KEY, batch)), "CCWC");
    bench.clock.advance_millis(11_000);
    let left = bench.list(&partita_engine::Scope::All, 10);
    assert_eq!(left.iter().map(|item| text(item, "id")).collect::<Vec<_>>(), ["3"]);
    assert_eq!(summary(&atomic(&bench, KEY, vec![living(make("4"), 0)])), "b");
    let matching = |operation, etag| BatchOperation { condition: if_match(etag), ..operation };
    let stale = matching(with(delete("3"), &["pre"], &[]), "nonsense");
    assert_eq!(summary(&atomic(&bench, KEY, vec![reads("3"), stale])), "-p");
    let etag = text(&crate::harness::body(&bench.read("3", KEY)), "_etag");
    let fresh = matching(with(delete("3"), &["pre"], &[]), etag.trim_matches('"'));
    assert_eq!(summary(&atomic(&bench, KEY, vec![fresh])), "D");
    bench.assert_whole();
}

#[test]
fn a_batch_with_triggers_follows_its_partition_key_through_a_split() {
    let (bench, steps) = scripted(unthrottled());
    bench.make_container(400, KEY_PK);
    for key in ["a", "b", "c", "d"] {
        bench.create(&format!(r#"{{"id":"1","pk":"{key}"}}"#)).result.unwrap();
    }
    trigger(&bench, "pre", "Pre", "All", r#"[["hook"]]"#);
    let bench = Arc::new(bench);
    let split = Arc::clone(&bench);
    let mut runs = 0;
    steps.on_hook(move || {
        runs += 1;
        if runs == 1 {
            split.split(0, SplitAt::Midpoint).result.unwrap();
            // The source stays for as long as the batch knows it.
            while split.partitions().len() < 2 {
                split.database.maintain(&crate::moves::STEP).unwrap();
            }
        }
    });
    let make = with(creates(r#"{"id":"2","pk":"a"}"#), &["pre"], &[]);
    let reply = atomic(&bench, KEY, vec![make, reads("1"), reads("2")]);
    assert_eq!(summary(&reply), "CRR");
    assert_ne!(reply.served.unwrap().range_id, 0);
    bench.assert_whole();
}
