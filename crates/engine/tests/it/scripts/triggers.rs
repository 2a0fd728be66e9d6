//! Triggers: what they change, when they run, and that all of it is one transaction.

use partita_engine::{Change, Condition, NewItem, TriggerNames};
use partita_model::ErrorKind;

use super::*;

pub(super) fn trigger(bench: &Bench, id: &str, moment: &str, operation: &str, source: &str) {
    let source = Value::from(source).to_json();
    let body = format!(
        r#"{{"id":"{id}","body":{source},"triggerType":"{moment}","triggerOperation":"{operation}"}}"#
    );
    let (kind, body) = (ScriptKind::Trigger, json(&body));
    script(bench.run(Op::Script(ScriptOp::Create { container: path(), kind, body })));
}

fn with(write: Op, pre: &[&str], post: &[&str]) -> Op {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let triggers = TriggerNames { pre: owned(pre), post: owned(post) };
    Op::Triggered { write: Box::new(write), triggers }
}

fn new(body: &str) -> NewItem {
    item(body, Some(r#"["a"]"#))
}

fn create_item(body: &str) -> Op {
    Op::CreateItem { container: path(), item: new(body) }
}

fn replace_item(id: &str, body: &str, condition: Option<Condition>) -> Op {
    Op::ReplaceItem { path: item_path(id, r#"["a"]"#), item: new(body), condition }
}

fn delete_item(id: &str) -> Op {
    Op::DeleteItem { path: item_path(id, r#"["a"]"#), condition: None }
}

pub(super) fn scripted_container(throughput: u32) -> Bench {
    let (bench, _) = scripted(unthrottled());
    bench.make_container(throughput, KEY_PK);
    bench
}

#[test]
fn a_pre_trigger_changes_the_document_and_a_post_trigger_the_answer() {
    for (_, throughput) in PARTITIONS {
        let bench = scripted_container(throughput);
        trigger(&bench, "pre", "Pre", "All", r#"[["document",{"id":"new","seen":true}]]"#);
        trigger(&bench, "post", "Post", "All", r#"[["document",{"told":1}]]"#);
        let op = create_item(r#"{"id":"1","pk":"a"}"#);
        let reply = bench.run(with(op, &["pre"], &["post"]));
        let told = crate::harness::body(&reply);
        assert_eq!((change(&reply), text(&told, "id")), (Change::Created, "new".into()));
        assert_eq!(told.get("told").unwrap().to_json(), "1");
        let served = reply.served.unwrap();
        assert_eq!(served.item_lsn, Some(served.lsn));
        let stored = crate::harness::body(&bench.read("new", r#"["a"]"#));
        assert_eq!(stored.get("seen"), Some(&Value::Bool(true)));
        assert_eq!(stored.get("told"), None, "only the client was told");
        assert_eq!(error(&bench.read("1", r#"["a"]"#)), ErrorKind::NotFound);

        let upsert = Op::UpsertItem {
            container: path(),
            item: new(r#"{"id":"new","pk":"a","v":2}"#),
            condition: None,
        };
        assert_eq!(change(&bench.run(with(upsert, &["pre"], &[]))), Change::Replaced);
        let replace = replace_item("new", r#"{"id":"new","pk":"a","v":3}"#, None);
        let replaced = bench.run(with(replace, &["pre"], &["post"]));
        assert_eq!(crate::harness::body(&replaced).get("v").unwrap().to_json(), "3");
        let deleted = bench.run(with(delete_item("new"), &["pre"], &["post"]));
        assert!(matches!(deleted.result, Ok(Outcome::Deleted)), "{deleted:?}");
        bench.assert_whole();
    }
}

#[test]
fn what_triggers_write_is_part_of_the_write() {
    for (_, throughput) in PARTITIONS {
        let bench = scripted_container(throughput);
        bench.create(r#"{"id":"count","pk":"a","n":0}"#).result.unwrap();
        bench.create(r#"{"id":"rest","pk":"a","n":9}"#).result.unwrap();
        trigger(&bench, "count", "Post", "Create", r#"[["move","rest","count",1]]"#);
        trigger(&bench, "fail", "Post", "All", r#"[["delete","count"],["throw","no"]]"#);
        let before = bench.read("count", r#"["a"]"#).served.unwrap().lsn;
        let op = create_item(r#"{"id":"1","pk":"a"}"#);
        let reply = bench.run(with(op, &[], &["count"]));
        assert_eq!(reply.served.as_ref().unwrap().lsn.0, before.0 + 1, "one commit");
        assert!(reply.charge.0 > 20.0, "{:?}", reply.charge);
        let counted = crate::harness::body(&bench.read("count", r#"["a"]"#));
        assert_eq!(counted.get("n").unwrap().to_json(), "1");
        for op in [create_item(r#"{"id":"2","pk":"a"}"#), delete_item("1")] {
            assert_eq!(error(&bench.run(with(op, &[], &["fail"]))), ErrorKind::BadRequest);
        }
        bench.read("count", r#"["a"]"#).result.unwrap();
        bench.read("1", r#"["a"]"#).result.unwrap();
        assert_eq!(error(&bench.read("2", r#"["a"]"#)), ErrorKind::NotFound);
        bench.assert_whole();
    }
}

#[test]
fn triggers_that_do_not_apply_are_refused_and_nothing_is_written() {
    let bench = scripted_container(400);
    trigger(&bench, "pre", "pre", "create", "[]");
    trigger(&bench, "post", "POST", "delete", "[]");
    trigger(&bench, "update", "Pre", "Update", "[]");
    let op = || create_item(r#"{"id":"1","pk":"a"}"#);
    for (pre, post, word) in [
        (&["nobody"][..], &[][..], "nobody"),
        (&["post"][..], &[][..], "post"),
        (&[][..], &["pre"][..], "pre"),
        (&[][..], &["post"][..], "delete"),
        (&["update"][..], &[][..], "Update"),
        (&["pre", "update"][..], &[][..], "one pre-trigger"),
    ] {
        let reply = bench.run(with(op(), pre, post));
        let refused = reply.result.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
        assert!(refused.message.contains(word), "{}", refused.message);
    }
    assert!(bench.everything().is_empty());
    bench.run(with(op(), &["pre"], &[])).result.unwrap();
    let upsert = || Op::UpsertItem {
        container: path(),
        item: new(r#"{"id":"1","pk":"a"}"#),
        condition: None,
    };
    bench.run(with(upsert(), &["update"], &[])).result.unwrap();
    assert_eq!(error(&bench.run(with(upsert(), &["pre"], &[]))), ErrorKind::BadRequest);
    bench.run(with(delete_item("1"), &[], &["post"])).result.unwrap();
}

#[test]
fn a_write_with_triggers_keeps_its_conditions_and_its_partition_key() {
    let bench = scripted_container(30_000);
    trigger(&bench, "pre", "Pre", "All", r#"[["document",{"v":1}]]"#);
    trigger(&bench, "move", "Pre", "All", r#"[["document",{"pk":"b"}]]"#);
    bench.create(r#"{"id":"1","pk":"a"}"#).result.unwrap();
    let again = bench.run(with(create_item(r#"{"id":"1","pk":"a"}"#), &["pre"], &[]));
    assert_eq!(error(&again), ErrorKind::Conflict);
    let stale = replace_item("1", r#"{"id":"1","pk":"a"}"#, if_match("nonsense"));
    assert_eq!(error(&bench.run(with(stale, &["pre"], &[]))), ErrorKind::PreconditionFailed);
    let away = bench.run(with(create_item(r#"{"id":"2","pk":"a"}"#), &["move"], &[]));
    assert_eq!(error(&away), ErrorKind::PartitionKeyMismatch);
    assert_eq!(error(&bench.run(with(delete_item("9"), &["pre"], &[]))), ErrorKind::NotFound);
    bench.assert_whole();
}

#[test]
fn a_patch_takes_triggers_and_without_a_runtime_nothing_does() {
    let bench = scripted_container(400);
    trigger(&bench, "pre", "Pre", "All", "[]");
    bench.create(r#"{"id":"1","pk":"a"}"#).result.unwrap();
    let patch = partita_model::Patch::parse(br#"[{"op":"set","path":"/v","value":1}]"#).unwrap();
    let path = item_path("1", r#"["a"]"#);
    let op = Op::PatchItem { path, patch, filter: None, condition: None };
    let patched = bench.run(with(op, &["pre"], &[]));
    assert_eq!(crate::harness::body(&patched).get("v").unwrap().to_json(), "1");
    bench.assert_whole();
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let op = create_item(r#"{"id":"1","pk":"a"}"#);
    assert_eq!(error(&bench.run(with(op, &["pre"], &[]))), ErrorKind::Unsupported);
}

#[test]
fn a_trigger_that_takes_too_long_again_and_again_is_not_run_for_a_while() {
    let bench = scripted_container(400);
    trigger(&bench, "slow", "Pre", "All", r#"[["overrun","slow"]]"#);
    let write = || bench.run(with(create_item(r#"{"id":"1","pk":"a"}"#), &["slow"], &[]));
    for _ in 0..3 {
        assert_eq!(error(&write()), ErrorKind::Timeout);
    }
    assert_eq!(error(&write()), ErrorKind::Forbidden);
    bench.run(create_item(r#"{"id":"1","pk":"a"}"#)).result.unwrap();
    bench.assert_whole();
}
