//! Changes of the indexing policy: immediate for writes, in the background for what is there.
//!
//! A check of the whole database derives every entry from the policy that an item's record names
//! and fails on a version that the container does not know. So a container that says 100 % and is
//! found whole has all its items under its present policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use partita_engine::{
    Container, Indexing, Maintenance, MaintenanceBudget, NewItem, Op, Outcome, Reply,
};
use partita_model::{Entropy, ErrorKind, IndexPath, SeededEntropy};
use partita_storage::{MemoryStore, Store};

use crate::harness::*;

const POLICIES: [&str; 7] = [
    "{}",
    r#"{"excludedPaths":[{"path":"/*"}],"includedPaths":[{"path":"/a/?"},{"path":"/l/[]/?"}]}"#,
    r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"descending"}]]}"#,
    r#"{"indexingMode":"none","automatic":false}"#,
    r#"{"excludedPaths":[{"path":"/b/*"}],"compositeIndexes":[[{"path":"/a"},
        {"path":"/b/c","order":"descending"}],[{"path":"/l"},{"path":"/a"}]]}"#,
    r#"{"automatic":false}"#,
    r#"{"includedPaths":[{"path":"/*"},{"path":"/b/c/?"}],"excludedPaths":[{"path":"/b/*"}]}"#,
];

fn set_policy(bench: &Bench, policy: &str) -> Reply {
    let body = format!(r#"{{"id":"c",{KEY_PK},"indexingPolicy":{policy}}}"#);
    bench.run(Op::ReplaceContainer { container: path(), body: json(&body), condition: None })
}

fn read_container(bench: &Bench) -> (Arc<Container>, u8) {
    let reply = bench.run(Op::ReadContainer { container: path(), condition: None });
    match reply.result {
        Ok(Outcome::Container { index_progress, .. }) => (reply.container.unwrap(), index_progress),
        other => panic!("no container: {other:?}"),
    }
}

fn progress(bench: &Bench) -> u8 {
    read_container(bench).1
}

/// Takes steps until there is nothing to do; how many were taken.
fn finish(bench: &Bench, items_max: usize) -> usize {
    let budget = MaintenanceBudget { items_max, bytes_max: 1 << 20 };
    let mut steps = 0;
    loop {
        match bench.database.maintain(&budget).unwrap() {
            Maintenance::Idle => return steps,
            Maintenance::Busy | Maintenance::Resting(_) => steps += 1,
            Maintenance::Blocked => panic!("nothing is under way"),
        }
    }
}

fn serves(container: &Container, path: &str) -> bool {
    let path = IndexPath::parse(&format!("{path}/?")).unwrap();
    container.served_policy().indexes(path.steps())
}

/// A number below `below`.
fn pick(entropy: &SeededEntropy, below: usize) -> usize {
    (entropy.next_u64() % below as u64) as usize
}

/// A document of one of many shapes.
fn document(entropy: &SeededEntropy, id: usize) -> String {
    const PARTS: [&str; 8] = [
        r#""a":1"#,
        r#""a":"\ud83d\ude00x""#,
        r#""b":{"c":null,"d":[]}"#,
        r#""b":[{"c":1},{"c":2}]"#,
        r#""l":["x","y","x",{}]"#,
        r#""l":[]"#,
        r#""e":{"f":{"g":{"h":{"i":true}}}}"#,
        r#""_x":"…""#,
    ];
    let at = pick(entropy, 8) / 2 * 2;
    let (one, two) = (PARTS[at + pick(entropy, 2)], PARTS[(at + 2) % 8 + pick(entropy, 2)]);
    let n = pick(entropy, 5);
    format!(r#"{{"id":"{id}","pk":{},"n":{n},{one},{two}}}"#, id % 7)
}

/// A write of one of a few items, whatever is there.
fn write(bench: &Bench, entropy: &SeededEntropy, ids: usize) {
    let id = pick(entropy, ids);
    let key = format!("[{}]", id % 7);
    let reply = match pick(entropy, 6) {
        0 => bench.delete(&id.to_string(), &key),
        1 => bench.patch(&id.to_string(), &key, r#"[{"op":"set","path":"/a","value":[7]}]"#),
        asked => {
            let indexing = match asked {
                2 => Indexing::Exclude,
                3 => Indexing::Include,
                _ => Indexing::ByPolicy,
            };
            let item = NewItem { indexing, ..item(&document(entropy, id), None) };
            bench.run(Op::UpsertItem { container: path(), item, condition: None })
        }
    };
    match reply.result {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind, ErrorKind::NotFound, "{error}"),
    }
}

#[test]
fn items_that_are_there_follow_a_new_policy() {
    for (_, throughput) in PARTITIONS {
        for (from, to) in [(0, 1), (1, 2), (2, 4), (4, 3), (3, 0), (5, 6), (6, 2)] {
            let bench = Bench::new();
            let fields = format!(r#"{KEY_PK},"indexingPolicy":{}"#, POLICIES[from]);
            bench.make_container(throughput, &fields);
            let entropy = SeededEntropy::new(from as u64);
            for id in 0..60 {
                bench.create(&document(&entropy, id)).result.unwrap();
            }
            set_policy(&bench, POLICIES[to]).result.unwrap();
            assert_eq!(progress(&bench), 0);
            bench.assert_whole();
            assert!(finish(&bench, 7) > 8, "a step is bounded");
            assert_eq!(progress(&bench), 100);
            bench.assert_whole();
            // The same items written under the policy from the start have the same entries.
            let fresh = Bench::new();
            let fields = format!(r#"{KEY_PK},"indexingPolicy":{}"#, POLICIES[to]);
            fresh.make_container(throughput, &fields);
            let entropy = SeededEntropy::new(from as u64);
            for id in 0..60 {
                fresh.create(&document(&entropy, id)).result.unwrap();
            }
            let entries = |bench: &Bench| bench.database.check().unwrap().entries;
            assert_eq!(entries(&bench), entries(&fresh), "from {from} to {to}");
        }
    }
}

#[test]
fn nothing_of_it_is_seen_in_the_items() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let made = body(&bench.create(r#"{"id":"x","pk":"a","b":{"c":1}}"#));
    bench.clock.advance_millis(5_000);
    set_policy(&bench, POLICIES[1]).result.unwrap();
    finish(&bench, 10);
    let read = bench.read("x", r#"["a"]"#);
    assert_eq!(body(&read), made);
    bench
        .replace("x", r#"["a"]"#, r#"{"id":"x","pk":"a"}"#, if_match(&text(&made, "_etag")))
        .result
        .unwrap();
    bench.assert_whole();
}

#[test]
fn an_index_serves_when_it_is_whole_and_not_after_it_was_dropped() {
    let bench = Bench::new();
    bench.make_container(400, &format!(r#"{KEY_PK},"indexingPolicy":{}"#, POLICIES[4]));
    for id in 0..30 {
        bench.create(&document(&SeededEntropy::new(1), id)).result.unwrap();
    }
    let composites = |container: &Container| container.served_policy().composites().count();
    let (before, _) = read_container(&bench);
    assert!(!serves(&before, "/b/d") && serves(&before, "/a") && composites(&before) == 2);
    drop(before);
    set_policy(&bench, POLICIES[2]).result.unwrap();
    let (during, _) = read_container(&bench);
    assert!(!serves(&during, "/b/d") && serves(&during, "/a") && composites(&during) == 1);
    drop(during);
    finish(&bench, 100);
    let (after, _) = read_container(&bench);
    assert!(serves(&after, "/b/d") && serves(&after, "/a") && composites(&after) == 1);
    drop(after);
    set_policy(&bench, POLICIES[3]).result.unwrap();
    let (none, _) = read_container(&bench);
    assert!(!serves(&none, "/a") && !serves(&none, "/id") && composites(&none) == 0);
}

#[test]
fn progress_grows_to_a_hundred() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for id in 0..200 {
            bench.create(&format!(r#"{{"id":"{id}","pk":{id},"b":{id}}}"#)).result.unwrap();
        }
        set_policy(&bench, POLICIES[1]).result.unwrap();
        let budget = MaintenanceBudget { items_max: 10, bytes_max: 1 << 20 };
        let mut seen = vec![progress(&bench)];
        while bench.database.maintain(&budget).unwrap() == Maintenance::Busy {
            seen.push(progress(&bench));
        }
        assert!(seen.is_sorted(), "{seen:?}");
        assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&100)));
        assert!(seen.iter().any(|percent| (30..70).contains(percent)), "{seen:?}");
    }
}

#[test]
fn it_waits_for_those_who_know_the_former_policy() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    bench.create(r#"{"id":"x","pk":"a"}"#).result.unwrap();
    let (held, _) = read_container(&bench);
    set_policy(&bench, POLICIES[1]).result.unwrap();
    let budget = MaintenanceBudget::default();
    assert_eq!(bench.database.maintain(&budget).unwrap(), Maintenance::Blocked);
    assert_eq!(progress(&bench), 0);
    drop(held);
    finish(&bench, 10);
    assert_eq!(progress(&bench), 100);
}

#[test]
fn a_restart_in_the_middle_loses_nothing() {
    for (_, throughput) in PARTITIONS {
        let mut bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let entropy = SeededEntropy::new(4);
        for id in 0..80 {
            bench.create(&document(&entropy, id)).result.unwrap();
        }
        for (round, policy) in POLICIES.iter().enumerate().cycle().skip(1).take(10) {
            set_policy(&bench, policy).result.unwrap();
            let budget = MaintenanceBudget { items_max: 9, bytes_max: 1 << 20 };
            for _ in 0..round % 5 {
                bench.database.maintain(&budget).unwrap();
            }
            for _ in 0..10 {
                write(&bench, &entropy, 80);
            }
            bench = bench.reopened();
            bench.assert_whole();
        }
        finish(&bench, 9);
        assert_eq!(progress(&bench), 100);
        bench.assert_whole();
    }
}

#[test]
fn a_container_that_goes_away_is_no_obstacle() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    bench.create(r#"{"id":"x","pk":"a"}"#).result.unwrap();
    set_policy(&bench, POLICIES[1]).result.unwrap();
    let one = MaintenanceBudget { items_max: 1, bytes_max: 1 };
    assert_eq!(bench.database.maintain(&one).unwrap(), Maintenance::Busy);
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    assert_eq!(bench.database.maintain(&one).unwrap(), Maintenance::Idle);
}

#[test]
fn policies_change_amid_concurrent_writes() {
    for (partitions, throughput) in PARTITIONS {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let bench = Bench::on(store, 3);
        bench.make_container(throughput, KEY_PK);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (bench, is_over) = (&bench, &is_over);
            for writer in 0..3 {
                scope.spawn(move || {
                    let entropy = SeededEntropy::new(writer);
                    for _ in 0..600 {
                        write(bench, &entropy, 90);
                    }
                });
            }
            let changer = scope.spawn(move || {
                let entropy = SeededEntropy::new(77);
                for _ in 0..25 {
                    set_policy(bench, POLICIES[pick(&entropy, POLICIES.len())]).result.unwrap();
                    for _ in 0..pick(&entropy, 40) {
                        write(bench, &entropy, 90);
                    }
                }
            });
            scope.spawn(move || {
                let budget = MaintenanceBudget { items_max: 5, bytes_max: 4 << 10 };
                while !is_over.load(Ordering::SeqCst) {
                    bench.database.maintain(&budget).unwrap();
                }
            });
            let changed = changer.join();
            is_over.store(true, Ordering::SeqCst);
            changed.unwrap();
        });
        finish(&bench, 16);
        assert_eq!(progress(&bench), 100, "{partitions} partitions");
        bench.assert_whole();
    }
}
