//! Splits that nobody asked for: for throughput, for size.

use partita_engine::{EngineSettings, Op, Outcome, Partition, PartitionSettings, SplitAt};
use partita_model::ErrorKind;

use crate::harness::*;

fn small() -> Bench {
    let partitions = PartitionSettings { bytes_max: 20_000, ..PartitionSettings::default() };
    Bench::with_settings(EngineSettings { partitions, ..unthrottled() })
}

fn bytes_of(bench: &Bench) -> Vec<u64> {
    let reply = bench.run(Op::ContainerStatistics { container: path() });
    match reply.result {
        Ok(Outcome::Statistics { partitions }) => {
            partitions.iter().map(|partition| partition.bytes).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_throughput_brings_more_partitions_and_the_offer_tells_when() {
    for items in [0, 1, 50] {
        let bench = Bench::new();
        bench.make_container(400, KEY_PK);
        for n in 0..items {
            bench.create(&format!(r#"{{"id":"{n}","pk":{n}}}"#)).result.unwrap();
        }
        let before = bench.everything();
        match bench.give_throughput(25_000).result {
            Ok(Outcome::Offer { offer, .. }) => assert!(offer.observed.replace_pending),
            other => panic!("{other:?}"),
        }
        assert!(bench.offer().observed.replace_pending);
        bench.settle();
        assert!(!bench.offer().observed.replace_pending);
        assert_eq!(bench.partitions().len(), 3, "{items} items");
        assert_eq!(bench.everything(), before);
        bench.assert_whole();
    }
}

#[test]
fn for_throughput_no_piece_is_divided_again() {
    for (bench, keys) in [(Bench::new(), 40), (small(), 40), (small(), 3), (small(), 0)] {
        bench.make_container(12_000, KEY_PK);
        for n in 0..100.min(keys * 10) {
            let pk = n % keys.max(1);
            bench.create(&format!(r#"{{"id":"{n}","pk":{pk},"v":"some text"}}"#)).result.unwrap();
        }
        bench.settle();
        let (before, ranges) = (bench.everything(), bench.range_ids());
        assert_eq!(ranges.len(), 2);
        bench.give_throughput(70_000).result.unwrap();
        bench.settle();
        let partitions = bench.partitions();
        assert_eq!(partitions.len(), 7, "{keys} keys");
        let is_first = |partition: &&Partition| ranges.contains(&partition.range_id);
        for partition in partitions.iter().filter(|partition| !is_first(partition)) {
            assert_eq!(partition.parents.len(), 1, "{keys} keys: {partition:?}");
        }
        assert_eq!(bench.everything(), before);
        bench.assert_whole();
    }
}

#[test]
fn pieces_for_throughput_hold_about_as_much_as_each_other() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..90 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{n},"v":"some text"}}"#)).result.unwrap();
    }
    bench.give_throughput(50_000).result.unwrap();
    bench.settle();
    let sizes = bytes_of(&bench);
    assert_eq!(sizes.len(), 5);
    let fair = sizes.iter().sum::<u64>() / 5;
    assert!(sizes.iter().all(|size| (fair / 2..fair * 3 / 2).contains(size)), "{sizes:?}");
}

/// A container of five partitions, and for each of them a key that belongs to it.
fn five_partitions() -> (Bench, Vec<String>) {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    let mut keys = vec![None; bench.partitions().len()];
    for n in 0..1_000 {
        let reply = bench.read("nothing", &format!(r#"["k{n}"]"#));
        keys[reply.served.unwrap().range_id as usize].get_or_insert(format!("k{n}"));
    }
    // What was asked for to find them is forgotten.
    bench.clock.advance_millis(120_000);
    (bench, keys.into_iter().map(Option::unwrap).collect())
}

/// Which partition is split when five become six.
fn split_for_one_more(bench: &Bench) -> Vec<u32> {
    let before = bench.range_ids();
    bench.give_throughput(60_000).result.unwrap();
    bench.settle();
    let after = bench.range_ids();
    assert_eq!(after.len(), 6);
    bench.assert_whole();
    before.into_iter().filter(|id| !after.contains(id)).collect()
}

#[test]
fn for_throughput_the_largest_partition_is_split_first() {
    for largest in 0..5 {
        let (bench, keys) = five_partitions();
        for (at, key) in keys.iter().enumerate() {
            for n in 0..if at == largest { 8 } else { 2 } {
                let text = "x".repeat(200_000);
                let body = format!(r#"{{"id":"{n}","pk":"{key}","v":"{text}"}}"#);
                bench.create(&body).result.unwrap();
            }
        }
        bench.clock.advance_millis(120_000);
        assert_eq!(split_for_one_more(&bench), [largest as u32]);
    }
}

#[test]
fn for_throughput_the_busiest_partition_is_split_first() {
    for busiest in 0..5 {
        let (bench, keys) = five_partitions();
        for (at, key) in keys.iter().enumerate() {
            for _ in 0..if at == busiest { 150 } else { 50 } {
                let read = bench.read("nothing", &format!(r#"["{key}"]"#));
                assert_eq!(error(&read), ErrorKind::NotFound);
            }
        }
        bench.clock.advance_millis(2_000);
        assert_eq!(split_for_one_more(&bench), [busiest as u32]);
    }
}

#[test]
fn a_partition_far_over_its_size_is_divided_at_once() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..300 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{n},"v":"some text"}}"#)).result.unwrap();
    }
    let before = bench.everything();
    bench.settle();
    let sizes = bytes_of(&bench);
    assert!(sizes.iter().sum::<u64>() > 60_000, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 16_000), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size >= 10_000), "{sizes:?}");
    let partitions = bench.partitions();
    assert!(partitions.iter().all(|partition| partition.parents == [0]), "{partitions:?}");
    assert_eq!(bench.everything(), before);
    bench.assert_whole();
}

#[test]
fn a_key_that_is_too_large_alone_becomes_a_partition_alone() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..150 {
        let pk = if n % 2 == 0 { 1_000 } else { n };
        bench.create(&format!(r#"{{"id":"{n}","pk":{pk},"v":"some text"}}"#)).result.unwrap();
    }
    bench.settle();
    let sizes = bytes_of(&bench);
    let (large, others): (Vec<u64>, Vec<u64>) = sizes.iter().partition(|size| **size > 16_000);
    assert_eq!(large.len(), 1, "{sizes:?}");
    assert!((1..=3).contains(&others.len()), "{sizes:?}");
    bench.assert_whole();
}

#[test]
fn a_partition_that_grows_is_split_about_in_half() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..300 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{n},"v":"some text"}}"#)).result.unwrap();
        bench.settle();
    }
    let sizes = bytes_of(&bench);
    let total: u64 = sizes.iter().sum();
    assert!(total > 60_000, "{total}");
    assert!(sizes.len() >= 4, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 20_500), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size > 5_000), "{sizes:?}");
    bench.assert_whole();
}

#[test]
fn one_logical_partition_grows_on() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..150 {
        bench.create(&format!(r#"{{"id":"{n}","pk":"one","v":"some text"}}"#)).result.unwrap();
        bench.settle();
    }
    assert_eq!(bench.range_ids(), [0]);
    bench.create(r#"{"id":"x","pk":"another"}"#).result.unwrap();
    for n in 150..200 {
        bench.create(&format!(r#"{{"id":"{n}","pk":"one","v":"some text"}}"#)).result.unwrap();
    }
    bench.settle();
    assert_eq!(bench.range_ids(), [1, 2]);
    bench.assert_whole();
}

/// The share of the bytes that the first half has after a split by storage, in percent.
fn first_half(bench: &Bench) -> u64 {
    bench.split(0, SplitAt::Storage).result.unwrap();
    bench.settle();
    let sizes = bytes_of(bench);
    assert_eq!(sizes.len(), 2);
    bench.assert_whole();
    100 * sizes[0] / sizes.iter().sum::<u64>()
}

#[test]
fn a_split_by_storage_halves_the_bytes_wherever_no_key_prevents_it() {
    const LEVELS: [&str; 3] = [r#""/a""#, r#""/a","/b""#, r#""/a","/b","/c""#];
    for paths in LEVELS {
        // So many values of the first level: between two of them is half of the bytes, or a third.
        for values in [2, 3, 5, 7, 40] {
            let bench = Bench::new();
            let kind = if paths == LEVELS[0] { "Hash" } else { "MultiHash" };
            bench.make_container(
                400,
                &format!(r#""partitionKey":{{"paths":[{paths}],"kind":"{kind}","version":2}}"#),
            );
            for n in 0..240 {
                let (a, text) = (n % values, "x".repeat(n % 7 * 50));
                let body = format!(r#"{{"id":"{n}","a":{a},"b":{n},"c":1,"v":"{text}"}}"#);
                bench.create(&body).result.unwrap();
            }
            // One key of few would be more than a tenth.
            if kind == "MultiHash" || values == 40 {
                let percent = first_half(&bench);
                assert!((45..=55).contains(&percent), "{paths}, {values} values: {percent} %");
            }
        }
    }
}

#[test]
fn a_first_level_key_stays_together_if_that_is_fair() {
    let bench = Bench::new();
    let hierarchical = r#""partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}"#;
    bench.make_container(400, hierarchical);
    for n in 0..80 {
        let (a, b) = (n % 4, n % 9);
        bench.create(&format!(r#"{{"id":"{n}","a":{a},"b":{b}}}"#)).result.unwrap();
    }
    bench.split(0, SplitAt::Storage).result.unwrap();
    bench.settle();
    let boundary = bench.partitions()[1].epks.min.clone();
    assert_eq!(boundary.as_bytes().len(), 16, "between two first-level keys: {boundary}");
    // One of them alone cannot be divided so.
    for n in 80..400 {
        bench.create(&format!(r#"{{"id":"{n}","a":1,"b":{n}}}"#)).result.unwrap();
    }
    let sizes = bytes_of(&bench);
    let largest = if sizes[0] > sizes[1] { 0 } else { 1 };
    let id = bench.range_ids()[largest];
    bench.split(id, SplitAt::Storage).result.unwrap();
    bench.settle();
    let epks: Vec<_> = bench.partitions().iter().map(|p| p.epks.min.clone()).collect();
    assert!(epks.iter().any(|epk| epk.as_bytes().len() == 32), "{epks:?}");
    bench.assert_whole();
}

#[test]
fn a_merge_that_would_be_split_again_is_refused() {
    let bench = small();
    bench.make_container(400, KEY_PK);
    for n in 0..110 {
        bench.create(&format!(r#"{{"id":"{n}","pk":{n},"v":"some text"}}"#)).result.unwrap();
    }
    bench.settle();
    let ids = bench.range_ids();
    assert_eq!(ids.len(), 2, "{:?}", bytes_of(&bench));
    assert_eq!(error(&bench.merge([ids[0], ids[1]])), ErrorKind::BadRequest);
}
