//! Partitions that outgrow their size while other things happen to them, in containers of all
//! kinds: while they are split, after a merge, around a restart, with a time to live, and with a
//! disk that fails now and then.

use std::sync::Arc;

use partita_engine::{EngineSettings, PartitionSettings};
use partita_storage::{FaultPlan, FaultStore, MemoryStore, Store};

use super::STEP;
use super::growing::{BYTES_MAX, assert_divided, item, settings, sizes};
use crate::harness::*;

/// A server that has nothing to do, and then a container with these fields.
fn idle(fields: &str) -> Bench {
    let bench = Bench::with_settings(settings());
    bench.settle();
    bench.make_container(400, fields);
    bench
}

fn fill(bench: &Bench, from: usize, to: usize) {
    for n in from..to {
        bench.upsert(&item(n, 800), None).result.unwrap();
    }
}

#[test]
fn containers_with_keys_of_all_kinds_are_divided() {
    let levels =
        |paths: &str, more: &str| format!(r#""partitionKey":{{"paths":[{paths}],{more}}}"#);
    for fields in [
        levels(r#""/pk""#, r#""kind":"Hash","version":1"#),
        levels(r#""/pk""#, r#""kind":"Hash","version":2,"systemKey":true"#),
        levels(r#""/pk/inner""#, r#""kind":"Hash","version":2"#),
        levels(r#""/tenant","/pk""#, r#""kind":"MultiHash","version":2"#),
        levels(r#""/tenant","/pk","/id""#, r#""kind":"MultiHash","version":2"#),
    ] {
        let bench = idle(&fields);
        for n in 0..100 {
            // Nine of ten items have one value of the first level.
            let tenant = if n % 10 == 0 { n } else { 1 };
            let pk =
                if fields.contains("inner") { r#"{"inner":"#.to_owned() } else { String::new() };
            let end = if pk.is_empty() { "" } else { "}" };
            let text = "x".repeat(800);
            let body = format!(
                r#"{{"id":"{n}","tenant":{tenant},"pk":{pk}{}{end},"v":"{text}"}}"#,
                n % 40
            );
            bench.create(&body).result.unwrap();
        }
        assert_divided(&bench);
    }
}

#[test]
fn what_grows_while_it_is_split_is_split_again() {
    for steps_per_item in [1, 3, 10] {
        let bench = idle(KEY_PK);
        for n in 0..200 {
            fill(&bench, n, n + 1);
            for _ in 0..steps_per_item {
                bench.database.maintain(&STEP).unwrap();
            }
        }
        assert!(bench.range_ids().len() > 1, "nothing was split yet");
        assert_divided(&bench);
    }
}

#[test]
fn a_restart_at_any_moment_of_a_split_hinders_none() {
    for steps in [0, 1, 2, 5, 10, 20, 40, 80] {
        let bench = idle(KEY_PK);
        fill(&bench, 0, 60);
        for _ in 0..steps {
            bench.database.maintain(&STEP).unwrap();
        }
        fill(&bench, 60, 100);
        let bench = bench.reopened();
        fill(&bench, 100, 140);
        assert_divided(&bench);
    }
}

#[test]
fn what_grows_after_a_merge_is_split() {
    let bench = idle(KEY_PK);
    fill(&bench, 0, 25);
    bench.settle();
    let ids = bench.range_ids();
    assert_eq!(ids.len(), 2);
    for n in 0..25 {
        bench.delete(&n.to_string(), &format!("[{}]", n % 20)).result.unwrap();
    }
    bench.merge([ids[0], ids[1]]).result.unwrap();
    bench.settle();
    assert_eq!(bench.range_ids().len(), 1);
    fill(&bench, 0, 100);
    assert_divided(&bench);
}

#[test]
fn a_partition_that_a_key_alone_outgrew_is_split_when_others_come() {
    let bench = idle(KEY_PK);
    for n in 0..40 {
        let body = item(n, 800).replace(&format!(r#""pk":{}"#, n % 20), r#""pk":"one""#);
        bench.create(&body).result.unwrap();
    }
    bench.settle();
    assert_eq!(bench.range_ids().len(), 1);
    fill(&bench, 40, 140);
    bench.settle();
    let sizes = sizes(&bench);
    let alone = sizes.iter().filter(|bytes| **bytes > BYTES_MAX).count();
    assert!(alone == 1 && sizes.len() > 4, "{sizes:?}");
    bench.assert_whole();
}

#[test]
fn items_with_a_time_to_live_count_until_they_are_swept_and_no_longer() {
    let bench = idle(&format!(r#"{KEY_PK},"defaultTtl":10"#));
    fill(&bench, 0, 15);
    bench.clock.advance_millis(3_600_000);
    bench.settle();
    assert_eq!(sizes(&bench), [0]);
    fill(&bench, 15, 30);
    bench.settle();
    assert_eq!(bench.range_ids(), [0], "what expired does not count");
    fill(&bench, 30, 130);
    assert_divided(&bench);
}

#[test]
fn reads_that_fail_delay_a_split_for_size_and_do_not_forget_it() {
    let mut opened = 0;
    for seed in 0..40 {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let large = PartitionSettings::default();
        let bench =
            Bench::with(Arc::clone(&inner), EngineSettings { partitions: large, ..settings() });
        let bench = bench.unwrap();
        bench.make_container(400, KEY_PK);
        fill(&bench, 0, 30);
        drop(bench);
        let plan = FaultPlan { seed, failed_reads_per_mille: 150, ..FaultPlan::default() };
        let store = Arc::new(FaultStore::new(inner, plan));
        let Some(bench) = Bench::with(store, settings()) else { continue };
        opened += 1;
        // Nobody writes any more: what one look could not do the next one does.
        let is_split = (0..20_000).any(|_| {
            drop(bench.database.maintain(&STEP));
            bench.database.status().partitions > 1
        });
        assert!(is_split, "seed {seed}");
    }
    assert!(opened > 4, "{opened}");
}
