//! Provisioned throughput at work, on a clock that tests move by hand.

mod limits;
mod offers;

use std::sync::Arc;

use partita_engine::{
    BatchAction, BatchMode, BatchOperation, Container, Context, Demand, EngineSettings, Indexing,
    Meter, OnError, Op, Outcome, PageRequest, Priority, QueryRequest, Reply, Returns, Scope,
    TriggerNames,
};
use partita_model::{Clock, ErrorKind, PartitionKeyHeader};

use crate::harness::*;

/// A database in which throughput counts.
fn bench() -> Bench {
    Bench::with_settings(EngineSettings::default())
}

fn container(bench: &Bench) -> Arc<Container> {
    let op = Op::ReadContainer { container: path(), condition: None };
    bench.run(op).container.unwrap()
}

/// How long a refused request is told to wait; None: it was served.
#[track_caller]
fn told(reply: &Reply) -> Option<u64> {
    match &reply.result {
        Ok(_) => None,
        Err(error) => match error.kind {
            ErrorKind::Throttled { retry_after_ms, .. } => Some(retry_after_ms),
            _ => panic!("{error:?}"),
        },
    }
}

fn query(bench: &Bench, text: &str) -> Reply {
    let query = Box::new(QueryRequest::new(text));
    bench.run(Op::Query { container: path(), query })
}

/// For each partition, in their order, a key that belongs to it.
fn keys_of(bench: &Bench) -> Vec<String> {
    let mut keys = vec![None; container(bench).partitions.len()];
    for n in 0..1_000 {
        let reply = bench.read("nothing", &format!(r#"["k{n}"]"#));
        let at = reply.served.unwrap().range_id as usize;
        keys[at].get_or_insert(format!("k{n}"));
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    keys.into_iter().map(Option::unwrap).collect()
}

/// An item of 20 KB under this key, which costs nearly 3 to read.
fn large(key: &str) -> String {
    format!(r#"{{"id":"i","pk":"{key}","padding":"{}"}}"#, "x".repeat(20_000))
}

/// Request units that come through in some seconds when this many are asked for in each.
fn used(bench: &Bench, seconds: u64, asked_ru: f64, mut ask: impl FnMut() -> Reply) -> f64 {
    let started = bench.clock.monotonic_nanos();
    let (mut used, mut asked) = (0.0, 0.0);
    for _ in 0..seconds * 100 {
        bench.clock.advance_millis(10);
        let elapsed = (bench.clock.monotonic_nanos() - started) as f64 / 1e9;
        while asked < elapsed * asked_ru {
            let reply = ask();
            match told(&reply) {
                None => used += reply.charge.0,
                Some(_) => assert_eq!(reply.charge.0, 0.0, "what is refused costs nothing"),
            }
            // What is refused would have cost something too. A small read counts for three.
            asked += reply.charge.0.max(3.0);
        }
    }
    used
}

#[test]
fn whoever_asks_for_three_times_the_budget_gets_the_budget() {
    for (throughput, budget) in [(400, 400.0), (30_000, 6_000.0)] {
        let bench = bench();
        bench.make_container(throughput, KEY_PK);
        let item = large("a");
        assert_eq!(told(&bench.upsert(&item, None)), None);
        let mut turn = 0_u32;
        let used = used(&bench, 30, budget * 3.0, || {
            turn += 1;
            match turn % 8 {
                0 => bench.upsert(&item, None),
                1 => query(&bench, "SELECT c.id FROM c WHERE c.pk = 'a'"),
                _ => bench.read("i", r#"["a"]"#),
            }
        });
        let share = used / (budget * 30.0);
        assert!((0.95..=1.05).contains(&share), "{share} of {throughput}");
        bench.assert_whole();
    }
}

#[test]
fn one_hot_partition_is_throttled_and_the_cold_ones_are_not() {
    let bench = bench();
    bench.make_container(30_000, KEY_PK);
    let keys = keys_of(&bench);
    for key in &keys {
        bench.upsert(&large(key), None).result.unwrap();
    }
    bench.clock.advance_millis(1_000);
    let mut refused = vec![0; keys.len()];
    for _ in 0..3_000 {
        bench.clock.advance_millis(1);
        for (at, key) in keys.iter().enumerate() {
            // 18 a millisecond are asked of the hot one, where there are 6, and 3 of the others.
            for _ in 0..if at == 2 { 6 } else { 1 } {
                let reply = bench.read("i", &format!(r#"["{key}"]"#));
                refused[at] += u64::from(told(&reply).is_some());
            }
        }
    }
    assert!(refused[2] > 8_000, "{refused:?}");
    let throttled: Vec<u64> = container(&bench).meters().map(Meter::throttled).collect();
    assert_eq!(throttled, refused);
    refused.remove(2);
    assert_eq!(refused, [0; 4]);
}

#[test]
fn a_refused_request_changes_nothing_and_is_told_when_to_come_again() {
    let bench = bench();
    bench.make_container(400, KEY_PK);
    let write = |n: u32| bench.create(&format!(r#"{{"id":"i{n}","pk":"a"}}"#));
    let first = (0..).find_map(|n| told(&write(n)).map(|wait| (n, wait)));
    let (n, wait) = first.unwrap();
    assert!((1..1_000).contains(&wait), "{wait}");
    bench.clock.advance_millis(wait - 1);
    assert!(told(&write(n)).is_some());
    bench.clock.advance_millis(wait);
    assert_eq!(told(&write(n)), None, "it was not written before");
    bench.assert_whole();
}

#[test]
fn the_charges_of_partitions_add_up_to_those_of_replies() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        let mut told = 0.0;
        let mut note = |reply: Reply| {
            told += reply.charge.0;
            reply
        };
        for n in 0..60 {
            let item = format!(r#"{{"id":"i{n}","pk":"k{}","n":{n},"s":"text {n}"}}"#, n % 13);
            note(bench.create(&item)).result.unwrap();
            note(bench.create(&item)).result.unwrap_err();
        }
        note(bench.read("i1", r#"["k1"]"#)).result.unwrap();
        note(bench.read("nothing", r#"["k1"]"#)).result.unwrap_err();
        note(bench.patch(
            "i2",
            r#"["k2"]"#,
            r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#,
        ))
        .result
        .unwrap();
        note(bench.delete("i3", r#"["k3"]"#)).result.unwrap();
        for text in [
            "SELECT * FROM c",
            "SELECT * FROM c WHERE c.n > 30",
            "SELECT DISTINCT c.pk FROM c",
            "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
            "SELECT * FROM c ORDER BY c.n",
            "SELECT * FROM c WHERE c.pk = 'k4'",
            "SELECT * FROM c WHERE false",
            "SELECT 1",
        ] {
            note(query(&bench, text)).result.unwrap();
        }
        for items_max in [3, 1_000] {
            let page = PageRequest { items_max: Some(items_max), continuation: None };
            note(bench.run(Op::ListItems { container: path(), scope: Scope::All, page }))
                .result
                .unwrap();
        }
        let key = PartitionKeyHeader::parse(r#"["k5"]"#).unwrap();
        let operations = ["b1", "b2", "b1"].map(|id| created(id, "k5"));
        let mode = BatchMode::Atomic { partition_key: Some(key.clone()) };
        for count in [2, 3] {
            let operations = operations[..count].to_vec();
            let mode = mode.clone();
            note(bench.run(Op::Batch { container: path(), operations, mode })).result.unwrap();
        }
        let range_id = container(&bench).partitions[0].range_id.to_string();
        let mode = BatchMode::Bulk { range_id, on_error: OnError::Continue };
        let operations = (0..20).map(|n| created(&format!("c{n}"), &format!("k{n}"))).collect();
        note(bench.run(Op::Batch { container: path(), operations, mode })).result.unwrap();
        note(bench.run(Op::DeletePartitionKey { container: path(), partition_key: Some(key) }))
            .result
            .unwrap();
        let metered: f64 = container(&bench).meters().map(Meter::consumed_ru).sum();
        assert!((metered - told).abs() < 0.001, "{metered} in partitions, {told} in replies");
    }
}

fn created(id: &str, key: &str) -> BatchOperation {
    BatchOperation {
        action: BatchAction::Create {
            body: format!(r#"{{"id":"{id}","pk":"{key}"}}"#).into_bytes(),
            indexing: Indexing::ByPolicy,
        },
        partition_key: Some(PartitionKeyHeader::parse(&format!(r#"["{key}"]"#)).unwrap()),
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: Returns::Item,
    }
}

/// Takes a partition's budget away for the next seconds.
fn exhaust(bench: &Bench, key: &str) {
    for n in 0..10_000 {
        if told(&bench.upsert(&format!(r#"{{"id":"x{n}","pk":"{key}"}}"#), None)).is_some() {
            return;
        }
    }
    panic!("never throttled");
}

#[test]
fn every_operation_of_a_bulk_has_its_own_refusal_and_all_wait_alike() {
    let bench = bench();
    bench.make_container(400, KEY_PK);
    exhaust(&bench, "a");
    let range_id = container(&bench).partitions[0].range_id.to_string();
    let mode = BatchMode::Bulk { range_id, on_error: OnError::Continue };
    let operations = (0..5).map(|n| created(&format!("c{n}"), "a")).collect();
    let reply = bench.run(Op::Batch { container: path(), operations, mode });
    let Ok(Outcome::Batch { results }) = reply.result else { panic!("{reply:?}") };
    let mut waits = Vec::new();
    for result in results {
        assert_eq!(result.charge.0, 0.0);
        match result.result.unwrap_err().kind {
            ErrorKind::Throttled { retry_after_ms, .. } => waits.push(retry_after_ms),
            other => panic!("{other:?}"),
        }
    }
    assert!(waits[0] > 0 && waits.iter().all(|wait| *wait == waits[0]), "{waits:?}");
    let key = Some(PartitionKeyHeader::parse(r#"["a"]"#).unwrap());
    let mode = BatchMode::Atomic { partition_key: key };
    let operations = vec![created("d", "a")];
    assert!(told(&bench.run(Op::Batch { container: path(), operations, mode })).is_some());
}

#[test]
fn a_page_ends_where_the_throughput_does_and_goes_on_later() {
    let bench = bench();
    bench.make_container(30_000, KEY_PK);
    let keys = keys_of(&bench);
    for key in &keys {
        bench.upsert(&format!(r#"{{"id":"i","pk":"{key}"}}"#), None).result.unwrap();
    }
    exhaust(&bench, &keys[1]);
    for text in
        ["SELECT * FROM c ORDER BY c.pk", "SELECT COUNT(1) FROM c", "SELECT DISTINCT c FROM c"]
    {
        let reply = query(&bench, text);
        assert!(told(&reply).is_some(), "{text} needs all partitions");
        assert_eq!(reply.charge.0, 0.0);
    }
    let ask = |continuation: Option<String>| {
        let page = PageRequest { items_max: Some(100_000), continuation };
        let request =
            QueryRequest { page, ..QueryRequest::new("SELECT c.pk FROM c WHERE c.id = 'i'") };
        bench.run(Op::Query { container: path(), query: Box::new(request) })
    };
    let Ok(Outcome::Query { rows, continuation, .. }) = ask(None).result else { panic!() };
    assert_eq!(rows, [format!(r#"{{"pk":"{}"}}"#, keys[0])]);
    let wait = told(&ask(continuation.clone())).unwrap();
    bench.clock.advance_millis(wait);
    let Ok(Outcome::Query { rows, continuation, .. }) = ask(continuation).result else { panic!() };
    assert_eq!((rows.len(), continuation), (4, None));
    bench.clock.advance_millis(1_000);
    exhaust(&bench, &keys[1]);
    let list = |continuation| {
        let page = PageRequest { items_max: Some(1_000), continuation };
        bench.run(Op::ListItems { container: path(), scope: Scope::All, page })
    };
    let Ok(Outcome::Items { items, continuation }) = list(None).result else { panic!() };
    assert_eq!((items.len(), continuation.is_some()), (1, true));
    assert!(told(&list(continuation)).is_some());
}

#[test]
fn low_priority_is_throttled_before_high_priority() {
    let bench = bench();
    bench.make_container(400, KEY_PK);
    bench.upsert(r#"{"id":"i","pk":"a"}"#, None).result.unwrap();
    bench.clock.advance_millis(1_000);
    let read = |priority| {
        let context = Context { demand: Demand { priority, bucket: None }, ..Context::default() };
        let op = Op::ReadItem { path: item_path("i", r#"["a"]"#), condition: None };
        told(&bench.run_with(op, &context)).is_none()
    };
    let low = (0..1_000).take_while(|_| read(Priority::Low)).count();
    let high = (0..1_000).take_while(|_| read(Priority::High)).count();
    // The write's second has come back; half of the next one is for high priority only.
    assert!(high >= 199 && low >= 199, "{low} and {high}");
    assert!(!read(Priority::Low));
}

#[test]
fn hot_logical_partitions_are_found() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    for n in 0..3_000 {
        bench.read("nothing", &format!(r#"["k{}"]"#, n % 100));
        bench.read("nothing", r#"["hot"]"#);
    }
    let now = bench.clock.monotonic_nanos();
    let container = container(&bench);
    let hottest = container.meters().flat_map(|meter| meter.hot_keys(now, 1));
    let hottest = hottest.max_by(|a, b| a.ru.total_cmp(&b.ru)).unwrap();
    assert_eq!(hottest.key, r#"["hot"]"#);
    assert!((2_000.0..=3_600.0).contains(&hottest.ru), "{}", hottest.ru);
    let mut served = container.partitions.iter().zip(container.meters());
    let (_, home) = served.find(|(home, _)| home.epks.contains(&hottest.epk)).unwrap();
    assert!(home.hot_keys(now, 100).contains(&hottest));
}
