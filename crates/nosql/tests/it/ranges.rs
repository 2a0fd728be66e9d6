//! Partition key ranges.

use partita_model::Value;

use crate::support::{PARTITIONS, World};

const RANGES: &str = "/dbs/d/colls/c/pkranges/";

#[test]
fn ranges_cover_everything_without_gap() {
    for (throughput, partitions) in PARTITIONS {
        let world = World::with_container(throughput);
        let answer = world.get(RANGES).expect(200);
        let container = world.get("/dbs/d/colls/c").expect(200);
        assert_eq!(answer.member("_rid"), container.member("_rid"));
        let rows = answer.feed("PartitionKeyRanges");
        assert_eq!(rows.len(), partitions);
        let mut end = String::new();
        let mut share = 0.0;
        for (index, row) in rows.iter().enumerate() {
            let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap();
            assert_eq!(text("id"), index.to_string());
            assert_eq!(text("minInclusive"), end);
            end = text("maxExclusive").to_owned();
            share += row.get("throughputFraction").and_then(Value::as_f64).unwrap();
            assert_eq!(text("status"), "online");
            assert_eq!(row.get("parents").and_then(Value::as_array).map(<[_]>::len), Some(0));
            let (rid, own) = (text("_rid"), container.member("_self"));
            assert_eq!(rid.len(), 24);
            assert_eq!(text("_self"), format!("{own}pkranges/{rid}/"));
        }
        assert_eq!(end, "FF");
        assert!((share - 1.0).abs() < 1e-9);
    }
}

#[test]
fn thirty_thousand_units_are_cut_where_the_service_cuts() {
    let rows = World::with_container("30000").get(RANGES).expect(200).feed("PartitionKeyRanges");
    let ends: Vec<&str> =
        rows.iter().map(|row| row.get("maxExclusive").and_then(Value::as_str).unwrap()).collect();
    assert!(ends[0].starts_with("0CCCCCCC") && ends[0].ends_with("CC"), "{ends:?}");
    assert!(ends[1].starts_with("19999999") && ends[1].ends_with("98"), "{ends:?}");
    assert!(ends[3].starts_with("33333333") && ends[3].ends_with("30"), "{ends:?}");
}

#[test]
fn the_incremental_feed_ends_with_not_modified() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let incremental = || {
            world.get(RANGES).header("a-im", "Incremental Feed").header("x-ms-max-item-count", "-1")
        };
        let first = incremental().expect(200);
        let etag = first.header("etag").unwrap();
        assert!(etag.starts_with('"') && etag.len() > 2);
        world.post("/dbs/d/colls/c/docs", r#"{"id":"1","pk":"a"}"#).key(r#"["a"]"#).expect(201);
        for _ in 0..2 {
            let again = incremental().header("if-none-match", etag).expect(304);
            assert_eq!(again.header("etag"), Some(etag));
            assert!(again.body.is_empty());
        }
        incremental().header("if-none-match", "\"another\"").expect(200);
    }
}

#[test]
fn ranges_of_a_missing_container_are_the_owners_fault() {
    let world = World::with_container("400");
    world.get("/dbs/d/colls/x/pkranges").refused(404, "1003", "");
    world.get("/dbs/x/colls/x/pkranges").refused(404, "1003", "");
    world.get("/dbs/d/colls/x/docs/1").key("[1]").refused(404, "1003", "");
}
