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
