//! The change feed of all versions and deletes, what is kept of it and for how long, and what
//! becomes of items that have outlived their time.

use partita_engine::{
    ChangeFeedSettings, ChangeKind, ChangedItem, ChangesFrom, ChangesMode, ChangesQuery,
    Maintenance, MaintenanceBudget, Op, Scope, SplitAt,
};
use partita_model::{Error, ErrorKind, Value};

use crate::batches::{atomic, create, delete, upsert};
use crate::changes::{Reader, key, range};
use crate::harness::*;

const KEPT: &str = r#""changeFeedPolicy":{"retentionDuration":10}"#;
const MINUTE: u64 = 60_000;

fn follower(scope: Scope) -> Reader {
    Reader { mode: ChangesMode::AllVersions, from: ChangesFrom::Now, ..Reader::of(scope) }
}

/// A bench that trims its feeds after so many commits.
fn trimming(commits: u64) -> Bench {
    Bench::with_changes(ChangeFeedSettings { trim_commits_min: commits, ..Default::default() })
}

/// Lets some time pass and everything be done that is to be done.
pub(crate) fn tidy(bench: &Bench) {
    bench.clock.advance_millis(5_000);
    let budget = MaintenanceBudget { items_max: 3, bytes_max: 1 << 20 };
    while bench.database.maintain(&budget).unwrap() != Maintenance::Idle {}
}

fn value_of(change: &ChangedItem) -> Option<String> {
    Some(text(&Value::parse(&change.current.as_ref()?.0).unwrap(), "v"))
}

fn previous(change: &ChangedItem) -> Option<String> {
    let body = change.version.as_ref()?.previous.as_ref()?;
    Some(text(&Value::parse(&body.0).unwrap(), "v"))
}

/// A change in short: what, id, before, after.
fn short(change: &ChangedItem) -> String {
    let version = change.version.as_ref().unwrap();
    let expired = if version.expired { " expired" } else { "" };
    format!(
        "{:?}{expired} {} {}>{}",
        version.kind,
        version.id,
        previous(change).unwrap_or_default(),
        value_of(change).unwrap_or_default()
    )
}

fn story(reader: &mut Reader, bench: &Bench) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let (changes, more) = reader.changes(bench);
        all.extend(changes.iter().map(short));
        if !more {
            return all;
        }
    }
}

fn put(bench: &Bench, id: &str, v: &str) {
    bench.upsert(&format!(r#"{{"id":"{id}","pk":"k","v":"{v}"}}"#), None).result.unwrap();
}

fn refusal(reader: &Reader, bench: &Bench) -> Error {
    reader.ask(bench).result.unwrap_err()
}

#[test]
fn every_change_is_told_with_the_item_after_and_a_delete_with_the_item_before() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, &format!("{KEY_PK},{KEPT}"));
        put(&bench, "early", "0");
        let mut reader = Reader { items_max: 1, ..follower(key(r#"["k"]"#)) };
        assert_eq!(story(&mut reader, &bench), Vec::<String>::new());
        put(&bench, "a", "1");
        put(&bench, "a", "2");
        bench.delete("a", r#"["k"]"#).result.unwrap();
        bench
            .replace("early", r#"["k"]"#, r#"{"id":"late","pk":"k","v":"3"}"#, None)
            .result
            .unwrap();
        let told =
            ["Create a >1", "Replace a >2", "Delete a 2>", "Delete early 0>", "Create late >3"];
        assert_eq!(story(&mut reader, &bench), told);
        put(&bench, "b", "4");
        assert_eq!(story(&mut reader, &bench), ["Create b >4"]);
    }
}

#[test]
fn a_transaction_is_told_step_by_step() {
    let bench = Bench::new();
    bench.make_container(400, &format!("{KEY_PK},{KEPT}"));
    let mut reader = Reader { items_max: 1, ..follower(range(0)) };
    reader.changes(&bench);
    let item = |v: &str| format!(r#"{{"id":"a","pk":"k","v":"{v}"}}"#);
    let operations = vec![create(&item("1")), upsert(&item("2")), delete("a")];
    let lsn = atomic(&bench, r#"["k"]"#, operations).served.unwrap().lsn;
    let (changes, more) = reader.changes(&bench);
    assert!(!more, "it stays together");
    let told: Vec<String> = changes.iter().map(short).collect();
    assert_eq!(told, ["Create a >1", "Replace a >2", "Delete a 2>"]);
    for change in &changes {
        assert_eq!(change.lsn, lsn);
        let previous = change.version.as_ref().unwrap().previous_lsn;
        assert!(previous.is_none_or(|before| before == lsn), "of the same commit");
    }
}

#[test]
fn all_versions_are_told_where_they_are_kept_and_from_then_on() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let error = refusal(&follower(range(0)), &bench);
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.contains("All Versions and Deletes"), "{error}");
    assert!(error.message.contains("must be enabled"), "{error}");
    put(&bench, "a", "1");
    let mut early = Reader::of(range(0));
    early.page(&bench);
    put(&bench, "a", "2");
    let body = format!(r#"{{"id":"c",{KEY_PK},{KEPT}}}"#);
    let op = Op::ReplaceContainer { container: path(), body: json(&body), condition: None };
    bench.run(op).result.unwrap();
    let mut reader = follower(range(0));
    reader.changes(&bench);
    put(&bench, "a", "3");
    assert_eq!(story(&mut reader, &bench), ["Replace a >3"]);
    for from in [ChangesFrom::Beginning, early.from] {
        let error = refusal(&Reader { from, ..follower(range(0)) }, &bench);
        assert_eq!(error.kind, ErrorKind::BadRequest);
        assert!(error.message.contains("retention period"), "{error}");
    }
}

#[test]
fn superfluous_records_go_and_every_item_keeps_its_last() {
    let bench = trimming(20);
    bench.make_container(400, KEY_PK);
    for n in 0..50 {
        put(&bench, &format!("i{}", n % 7), &n.to_string());
    }
    bench.delete("i3", r#"["k"]"#).result.unwrap();
    let mut reader = Reader::of(range(0));
    let before = reader.rest(&bench);
    assert_eq!((before.len(), bench.feed_records()), (6, 51));
    tidy(&bench);
    assert_eq!(bench.feed_records(), 6);
    assert_eq!(Reader::of(range(0)).rest(&bench), before);
    assert_eq!(reader.rest(&bench), []);
    put(&bench, "i1", "x");
    assert_eq!(reader.rest(&bench).len(), 1);
    tidy(&bench);
    assert_eq!(bench.feed_records(), 7, "one more is not worth a walk");
    bench.assert_whole();
}

#[test]
fn versions_go_when_their_time_is_over() {
    let bench = trimming(1_000);
    bench.make_container(400, &format!("{KEY_PK},{KEPT}"));
    let mut early = follower(range(0));
    early.changes(&bench);
    for v in ["1", "2"] {
        put(&bench, "a", v);
        put(&bench, "b", v);
    }
    bench.delete("b", r#"["k"]"#).result.unwrap();
    bench.clock.advance_millis(9 * MINUTE);
    put(&bench, "c", "1");
    let mut late = follower(range(0));
    late.changes(&bench);
    put(&bench, "c", "2");
    tidy(&bench);
    assert_eq!(story(&mut early.clone(), &bench).len(), 7, "nothing is too old yet");
    bench.clock.advance_millis(MINUTE);
    tidy(&bench);
    assert_eq!(bench.feed_records(), 3, "the last change of a, and all of c");
    assert!(refusal(&early, &bench).message.contains("retention period"));
    assert_eq!(story(&mut late, &bench), ["Replace c >2"]);
    let items = Reader::of(range(0)).rest(&bench);
    assert_eq!(items.iter().map(|item| text(item, "id")).collect::<Vec<_>>(), ["a", "c"]);
    bench.assert_whole();
    for n in 0..9 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{n}}}"#)).result.unwrap();
    }
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    bench.settle();
    for child in [1, 2] {
        let error = refusal(&Reader { scope: range(child), ..early.clone() }, &bench);
        assert!(error.message.contains("retention period"), "{error}");
        assert!(Reader { scope: range(child), ..late.clone() }.ask(&bench).result.is_ok());
    }
}

#[test]
fn expired_items_are_removed_and_their_end_is_told() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/v"]}]}"#;
        let fields = format!(r#"{KEY_PK},{KEPT},{unique},"defaultTtl":30"#);
        bench.make_container(throughput, &fields);
        let mut reader = follower(key(r#"["k"]"#));
        reader.changes(&bench);
        for n in 0..10 {
            put(&bench, &format!("i{n}"), &n.to_string());
        }
        bench.clock.advance_millis(20_000);
        put(&bench, "i9", "9");
        assert_eq!(story(&mut reader, &bench).len(), 11);
        bench.clock.advance_millis(10_000);
        put(&bench, "i0", "0");
        tidy(&bench);
        let told = story(&mut reader, &bench);
        assert_eq!(told[..2], ["Delete expired i0 >", "Create i0 >0"], "told in one commit");
        let rest: Vec<String> = (1..9).map(|n| format!("Delete expired i{n} >")).collect();
        assert_eq!(told[2..], rest);
        assert_eq!(bench.items_stored(), 2);
        bench.assert_whole();
        bench.clock.advance_millis(60_000);
        tidy(&bench);
        assert_eq!(bench.items_stored(), 0);
        assert_eq!(story(&mut reader, &bench), ["Delete expired i0 >", "Delete expired i9 >"]);
        bench.assert_whole();
    }
}

#[test]
fn kinds_of_changes_are_told_apart() {
    let bench = Bench::new();
    bench.make_container(400, &format!("{KEY_PK},{KEPT}"));
    let mut reader = follower(range(0));
    reader.changes(&bench);
    put(&bench, "a", "1");
    let lsn = bench.upsert(r#"{"id":"a","pk":"k","v":"2"}"#, None).served.unwrap().lsn;
    let (changes, _) = reader.changes(&bench);
    let version = changes[1].version.as_ref().unwrap();
    assert_eq!((version.kind, changes[1].lsn), (ChangeKind::Replace, lsn));
    assert_eq!(version.previous_lsn, Some(changes[0].lsn));
    assert_eq!(version.previous, None);
    assert_eq!(u64::from(changes[1].ts), bench.clock_seconds());
    assert_eq!(version.partition_key.to_string(), r#"["k"]"#);
}

#[test]
fn a_query_sees_the_version_after_and_on_request_the_one_before() {
    let bench = Bench::new();
    bench.make_container(400, &format!("{KEY_PK},{KEPT}"));
    let start = {
        let mut reader = follower(range(0));
        reader.changes(&bench);
        reader.from
    };
    for (id, v) in [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")] {
        put(&bench, id, v);
    }
    bench.delete("a", r#"["k"]"#).result.unwrap();
    bench.delete("b", r#"["k"]"#).result.unwrap();
    let told = |text: &str, previous: bool| {
        let query = ChangesQuery { text: text.into(), parameters: Vec::new(), previous };
        let from = start.clone();
        story(&mut Reader { from, query: Some(query), ..follower(range(0)) }, &bench)
    };
    let one = "SELECT c.v FROM c WHERE c.id = 'a'";
    assert_eq!(told(one, false), ["Create a >1", "Replace a >2"]);
    assert_eq!(told(one, true), ["Create a >1", "Replace a >2", "Delete a 2>"]);
    let all = "SELECT * FROM c WHERE NOT IS_DEFINED(c.v) OR c.v = '2'";
    assert_eq!(told(all, false), ["Replace a >2", "Replace b >2", "Delete a 2>", "Delete b 2>"]);
}

#[test]
fn all_versions_can_be_kept_of_containers_whose_policy_does_not_say() {
    let settings = || ChangeFeedSettings {
        retention_minutes: 10,
        trim_commits_min: 1,
        ..ChangeFeedSettings::default()
    };
    for (_, throughput) in PARTITIONS {
        for fields in [KEY_PK.to_owned(), format!(r#"{KEY_PK},"defaultTtl":30"#)] {
            let mut bench = Bench::with_changes(settings());
            bench.make_container(throughput, &fields);
            let mut reader = follower(key(r#"["k"]"#));
            reader.changes(&bench);
            put(&bench, "a", "1");
            put(&bench, "a", "2");
            tidy(&bench);
            bench = bench.reopened();
            bench.delete("a", r#"["k"]"#).result.unwrap();
            put(&bench, "b", "3");
            let late = reader.clone();
            let told = ["Create a >1", "Replace a >2", "Delete a 2>", "Create b >3"];
            assert_eq!(story(&mut reader, &bench), told);
            if fields.contains("defaultTtl") {
                bench.clock.advance_millis(30_000);
                tidy(&bench);
                assert_eq!(story(&mut reader, &bench), ["Delete expired b >"]);
            }
            bench.clock.advance_millis(11 * MINUTE);
            tidy(&bench);
            assert!(refusal(&late, &bench).message.contains("retention"), "for ten minutes");
            bench.assert_whole();
        }
    }
}
