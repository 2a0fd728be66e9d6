//! What a split and a merge leave behind, step by step.

use partita_engine::{Context, EngineSettings, Maintenance, PartitionSettings, SplitAt};
use partita_model::{Epk, ErrorKind};

use super::{STEP, planned};
use crate::harness::*;

fn filled(bench: &Bench, items: usize) {
    for n in 0..items {
        bench.create(&format!(r#"{{"id":"{n}","pk":{},"v":[{n}]}}"#, n % 17)).result.unwrap();
    }
}

#[test]
fn a_split_keeps_every_item_and_all_that_belongs_to_it() {
    for at in [SplitAt::Midpoint, SplitAt::Storage, SplitAt::Epk(Epk::parse_hex("10").unwrap())] {
        let bench = Bench::new();
        bench.make_container(400, KEY_PK);
        filled(&bench, 60);
        let before = bench.everything();
        let (parents, children) = planned(&bench.split(0, at.clone()));
        assert_eq!((parents, children), (vec![0], vec![1, 2]));
        assert_eq!(bench.range_ids(), [0], "{at:?}: nothing is different yet");
        bench.settle();
        let partitions = bench.partitions();
        assert_eq!(bench.range_ids(), [1, 2], "{at:?}");
        assert!(partitions.iter().all(|partition| partition.parents == [0]));
        assert_eq!(bench.everything(), before);
        bench.assert_whole();
        assert_eq!(bench.database.status().store.partitions, 3, "the source is gone");
    }
}

#[test]
fn writes_between_the_steps_arrive() {
    for steps in 0..60 {
        let bench = Bench::new();
        bench.make_container(400, KEY_PK);
        filled(&bench, 30);
        bench.split(0, SplitAt::Midpoint).result.unwrap();
        for step in 0..steps {
            bench.database.maintain(&STEP).unwrap();
            let n = step % 30;
            let body = format!(r#"{{"id":"{n}","pk":{},"v":"{step}"}}"#, n % 17);
            match step % 3 {
                0 => drop(bench.upsert(&body, None).result.unwrap()),
                1 => drop(bench.delete(&n.to_string(), &format!("[{}]", n % 17)).result),
                _ => {
                    drop(bench.create(&format!(r#"{{"id":"new{step}","pk":{n}}}"#)).result.unwrap())
                }
            }
        }
        let before = bench.everything();
        bench.settle();
        assert_eq!(bench.everything(), before, "after {steps} steps");
        assert_eq!(bench.partitions().len(), 2);
        bench.assert_whole();
    }
}

#[test]
fn neighbours_merge_and_nothing_else_does() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    filled(&bench, 60);
    let before = bench.everything();
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    bench.settle();
    bench.split(1, SplitAt::Storage).result.unwrap();
    bench.settle();
    assert_eq!(bench.range_ids(), [3, 4, 2]);
    assert_eq!(error(&bench.merge([3, 2])), ErrorKind::BadRequest, "no neighbours");
    assert_eq!(error(&bench.merge([3, 0])), ErrorKind::NotFound);
    assert_eq!(planned(&bench.merge([2, 4])), (vec![4, 2], vec![5]));
    assert_eq!(error(&bench.merge([3, 4])), ErrorKind::Conflict, "it is in a move");
    bench.settle();
    assert_eq!(bench.range_ids(), [3, 5]);
    assert_eq!(bench.partitions()[1].parents, [0, 1, 2, 4]);
    assert_eq!(bench.everything(), before);
    bench.assert_whole();
}

#[test]
fn a_session_goes_on_in_the_children() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    filled(&bench, 40);
    let seen = bench.read("7", "[7]").served.unwrap();
    let token = format!("{}:-1#{}", seen.range_id, seen.lsn);
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    bench.settle();
    let context = Context { session: Some(token), ..Context::default() };
    for n in 0..17 {
        let op = partita_engine::Op::ReadItem {
            path: item_path(&n.to_string(), &format!("[{n}]")),
            condition: None,
        };
        bench.run_with(op, &context).result.unwrap();
    }
    let written = bench.upsert(r#"{"id":"7","pk":7}"#, None).served.unwrap();
    assert!(written.lsn > seen.lsn && written.range_id != seen.range_id);
}

#[test]
fn one_logical_partition_is_not_divided() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for n in 0..10 {
        bench.create(&format!(r#"{{"id":"{n}","pk":"one"}}"#)).result.unwrap();
    }
    let reply = bench.split(0, SplitAt::Storage);
    assert_eq!(error(&reply), ErrorKind::BadRequest);
    assert!(reply.result.unwrap_err().message.contains("one partition key"));
    bench.settle();
    assert_eq!(bench.range_ids(), [0]);
}

#[test]
fn a_boundary_lies_strictly_inside() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    for outside in ["", "FF"] {
        let at = SplitAt::Epk(Epk::parse_hex(outside).unwrap());
        assert_eq!(error(&bench.split(0, at)), ErrorKind::BadRequest);
    }
    assert_eq!(error(&bench.split(9, SplitAt::Midpoint)), ErrorKind::NotFound);
    bench.split(0, SplitAt::Midpoint).result.unwrap();
    assert_eq!(error(&bench.split(0, SplitAt::Midpoint)), ErrorKind::Conflict);
    bench.settle();
    bench.partitions();
}

#[test]
fn a_client_that_knows_the_ranges_is_told_of_new_ones_only() {
    let mut bench = Bench::new();
    bench.make_container(12_000, KEY_PK);
    let (first, all) = bench.news(None);
    assert_eq!(all, [0, 1]);
    planned(&bench.split(1, SplitAt::Midpoint));
    assert_eq!(bench.news(Some(&first)), (first.clone(), vec![]), "nobody knows of it yet");
    bench.settle();
    let (second, news) = bench.news(Some(&first));
    assert_eq!(news, [2, 3]);
    planned(&bench.split(2, SplitAt::Midpoint));
    bench.settle();
    let (third, news) = bench.news(Some(&second));
    assert_eq!(news, [4, 5]);
    assert_eq!(bench.news(Some(&first)), (third.clone(), vec![4, 5, 3]), "both splits at once");
    bench = bench.reopened();
    assert_eq!(bench.news(Some(&second)), (third.clone(), vec![4, 5]), "after a restart, too");
    assert_eq!(bench.news(Some(&third)), (third.clone(), vec![]));
    planned(&bench.merge([4, 5]));
    bench.settle();
    assert_eq!(bench.news(Some(&third)).1, [6]);
    for foreign in ["", "1-99", "x", "9-0", "-"] {
        assert_eq!(bench.news(Some(foreign)).1, [0, 6, 3], "{foreign}");
    }
}

#[test]
fn an_announced_split_is_news_and_begins_later() {
    let partitions = PartitionSettings { announced_seconds: 3, ..PartitionSettings::default() };
    let mut bench = Bench::with_settings(EngineSettings { partitions, ..unthrottled() });
    bench.make_container(12_000, KEY_PK);
    let (first, all) = bench.news(None);
    assert_eq!(all, [0, 1]);
    planned(&bench.split(1, SplitAt::Midpoint));
    let (second, news) = bench.news(Some(&first));
    assert_eq!(news, [1]);
    assert_eq!(bench.news(Some(&second)), (second.clone(), vec![]), "once");
    for _ in 0..3 {
        assert_eq!(bench.database.maintain(&STEP).unwrap(), Maintenance::Blocked);
        bench.clock.advance_millis(999);
    }
    assert_eq!(bench.range_ids(), [0, 1]);
    bench = bench.reopened();
    assert_eq!(bench.database.maintain(&STEP).unwrap(), Maintenance::Blocked, "it waits again");
    planned(&bench.split(0, SplitAt::Midpoint));
    let (third, news) = bench.news(Some(&second));
    assert_eq!(news, [0]);
    bench.clock.advance_millis(3_000);
    while bench.range_ids() == [0, 1] {
        assert_eq!(bench.database.maintain(&STEP).unwrap(), Maintenance::Busy);
    }
    let (_, news) = bench.news(Some(&third));
    assert_eq!(news, [2, 3]);
    bench.database.maintain(&STEP).unwrap();
    bench.clock.advance_millis(3_000);
    bench.settle();
    assert_eq!(bench.news(Some(&first)).1, [4, 5, 2, 3]);
}
