//! Databases, containers, offers and partitions.

use partita_engine::{
    Context, DatabasePath, EtagPattern, KeyRequired, Migrate, OfferChange, Op, Outcome, PageRequest,
};
use partita_model::{ErrorKind, Throughput};
use partita_query::Filter;

use crate::harness::*;

fn offers(bench: &Bench, owner: &str) -> Vec<std::sync::Arc<partita_engine::Offer>> {
    let query = "SELECT * FROM root r WHERE r.offerResourceId = @rid";
    let filter = Filter::parse_query(query, &[("@rid".into(), owner.into())]).unwrap();
    let op = Op::ListOffers { filter: Some(filter), page: PageRequest::default() };
    match bench.run(op).result {
        Ok(Outcome::Offers { offers, .. }) => offers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn throughput_decides_the_partitions_of_a_new_container() {
    for (throughput, partitions) in [(400, 1), (6_000, 1), (6_100, 2), (12_000, 2), (30_000, 5)] {
        let bench = Bench::new();
        bench.make_database("db");
        let reply = bench.create_container("c", throughput, KEY_PK);
        let container = reply.container.unwrap();
        assert_eq!(container.partitions.len(), partitions, "{throughput}");
        assert_eq!(container.partitions[0].epks.min.to_string(), "");
        assert_eq!(container.partitions[partitions - 1].epks.max.to_string(), "FF");
        let offer = &offers(&bench, &container.rid.to_string())[0];
        assert_eq!(offer.throughput, Throughput::Manual(throughput));
    }
}

#[test]
fn names_are_taken_once_and_free_again_after_deletion() {
    let bench = Bench::new();
    bench.make_database("db");
    let again = bench.run(Op::CreateDatabase { name: "db".into(), throughput: None });
    assert_eq!(error(&again), ErrorKind::Conflict);
    let first = bench.create_container("c", 400, KEY_PK).container.unwrap();
    assert_eq!(error(&bench.create_container("c", 400, KEY_PK)), ErrorKind::Conflict);
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    assert_eq!(error(&bench.read("x", r#"["a"]"#)), ErrorKind::OwnerNotFound);
    assert!(offers(&bench, &first.rid.to_string()).is_empty());
    let second = bench.create_container("c", 400, KEY_PK).container.unwrap();
    assert_ne!(first.rid, second.rid);
    assert!(second.partitions[0].id > first.partitions[0].id, "partition ids are never reused");
}

#[test]
fn a_client_that_means_the_old_container_is_told() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let context =
        Context { intended_container_rid: Some("AAAAAYAAAAE=".into()), ..Context::default() };
    // A stale client has a stale idea of the key too: the container comes first.
    let op = Op::ReadItem { path: item_path("x", r#"["a","b"]"#), condition: None };
    assert_eq!(error(&bench.run_with(op, &context)), ErrorKind::ContainerRidMismatch);
}

#[test]
fn a_database_goes_with_all_it_holds() {
    let bench = Bench::new();
    let op = Op::CreateDatabase { name: "db".into(), throughput: Some(Throughput::Manual(400)) };
    bench.run(op).result.unwrap();
    for n in 0..5 {
        bench.create_container(&format!("c{n}"), 12_000, KEY_PK).result.unwrap();
    }
    assert_eq!(bench.database.status().partitions, 10);
    let op = Op::DeleteDatabase { database: DatabasePath("db".into()), condition: None };
    assert!(matches!(bench.run(op).result, Ok(Outcome::Deleted)));
    let status = bench.database.status();
    assert_eq!((status.databases, status.containers, status.store.partitions), (0, 0, 1));
    let all = bench.run(Op::ListOffers { filter: None, page: PageRequest::default() });
    assert!(matches!(all.result, Ok(Outcome::Offers { offers, .. }) if offers.is_empty()));
}

#[test]
fn a_container_shares_its_databases_throughput_unless_it_has_its_own() {
    let bench = Bench::new();
    let op = Op::CreateDatabase { name: "db".into(), throughput: Some(Throughput::Manual(400)) };
    bench.run(op).result.unwrap();
    let create = |name: &str, throughput| Op::CreateContainer {
        database: DatabasePath("db".into()),
        body: json(&format!(r#"{{"id":"{name}",{KEY_PK}}}"#)),
        throughput,
        key_required: KeyRequired::Yes,
    };
    let shared = bench.run(create("shared", None)).container.unwrap();
    assert!(offers(&bench, &shared.rid.to_string()).is_empty());
    let own = bench.run(create("own", Some(Throughput::Manual(500)))).container.unwrap();
    assert_eq!(offers(&bench, &own.rid.to_string())[0].throughput, Throughput::Manual(500));
}

#[test]
fn offers_are_replaced_within_the_rules() {
    let bench = Bench::new();
    bench.make_container(400, KEY_PK);
    let container =
        bench.run(Op::ReadContainer { container: path(), condition: None }).container.unwrap();
    let rid = offers(&bench, &container.rid.to_string())[0].rid.to_string();
    let replace = |throughput, migrate| {
        let change = OfferChange { throughput, migrate, buckets: None };
        bench.run(Op::ReplaceOffer { rid: rid.clone(), change, condition: None })
    };
    assert!(replace(Throughput::Manual(100_000), Migrate::No).result.is_ok());
    assert_eq!(error(&replace(Throughput::Manual(400), Migrate::No)), ErrorKind::BadRequest);
    assert!(replace(Throughput::Manual(1_000), Migrate::No).result.is_ok());
    let autoscale = Throughput::Autoscale { max: 20_000, increment_percent: Some(0) };
    assert_eq!(error(&replace(autoscale.clone(), Migrate::No)), ErrorKind::BadRequest);
    assert!(replace(autoscale.clone(), Migrate::ToAutoscale).result.is_ok());
    let now = offers(&bench, &container.rid.to_string())[0].throughput.clone();
    assert_eq!(now, Throughput::Autoscale { max: 10_000, increment_percent: None });
    assert!(replace(autoscale, Migrate::No).result.is_ok());
}

#[test]
fn a_changed_indexing_policy_leaves_no_orphans() {
    for (_, throughput) in PARTITIONS {
        let bench = Bench::new();
        bench.make_container(throughput, KEY_PK);
        for n in 0..10 {
            bench
                .create(&format!(r#"{{"id":"i{n}","pk":{n},"a":{n},"b":{{"c":[{n},1]}}}}"#))
                .result
                .unwrap();
        }
        let policy = r#""indexingPolicy":{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#;
        let body = json(&format!(r#"{{"id":"c",{KEY_PK},{policy}}}"#));
        bench
            .run(Op::ReplaceContainer { container: path(), body, condition: None })
            .result
            .unwrap();
        bench.assert_whole();
        bench.delete("i1", "[1]").result.unwrap();
        bench.upsert(r#"{"id":"i2","pk":2,"a":"new"}"#, None).result.unwrap();
        bench.create(r#"{"id":"i99","pk":99,"a":1,"z":1}"#).result.unwrap();
        bench.assert_whole();
        assert_eq!(bench.list(&partita_engine::Scope::All, 100).len(), 10);
    }
}

#[test]
fn the_ranges_keep_their_etag_while_nothing_changes() {
    let bench = Bench::new();
    bench.make_container(30_000, KEY_PK);
    let list = |known| {
        let op = Op::ListPartitions { container: path(), known, incremental: true };
        match bench.run(op).result {
            Ok(Outcome::Partitions { etag, unchanged, .. }) => (etag, unchanged),
            other => panic!("{other:?}"),
        }
    };
    let (etag, unchanged) = list(None);
    assert!(!unchanged);
    bench.create(r#"{"id":"x","pk":1}"#).result.unwrap();
    assert_eq!(list(Some(EtagPattern::Exact(etag.clone()))), (etag, true));
}

#[test]
fn lists_of_resources_come_in_pages() {
    let bench = Bench::new();
    for n in 0..7 {
        bench.make_database(&format!("d{n}"));
    }
    let mut names = Vec::new();
    let mut continuation = None;
    loop {
        let page = PageRequest { items_max: Some(3), continuation };
        let Ok(Outcome::Databases { databases, continuation: next }) =
            bench.run(Op::ListDatabases { filter: None, page }).result
        else {
            panic!()
        };
        names.extend(databases.iter().map(|database| database.name.clone()));
        continuation = next;
        if continuation.is_none() {
            break;
        }
    }
    names.sort();
    assert_eq!(names, ["d0", "d1", "d2", "d3", "d4", "d5", "d6"]);
}

#[test]
fn a_page_of_resources_survives_the_deletion_of_its_last_one() {
    let bench = Bench::new();
    for n in 0..6 {
        bench.make_database(&format!("d{n}"));
    }
    let page = |continuation| {
        let page = PageRequest { items_max: Some(3), continuation };
        match bench.run(Op::ListDatabases { filter: None, page }).result {
            Ok(Outcome::Databases { databases, continuation }) => (databases, continuation),
            other => panic!("{other:?}"),
        }
    };
    let (first, continuation) = page(None);
    let last = DatabasePath(first[2].name.clone());
    bench.run(Op::DeleteDatabase { database: last, condition: None }).result.unwrap();
    let (second, end) = page(continuation);
    assert_eq!((second.len(), end), (3, None));
    let junk = PageRequest { items_max: None, continuation: Some("junk".into()) };
    let reply = bench.run(Op::ListDatabases { filter: None, page: junk });
    assert_eq!(error(&reply), ErrorKind::BadRequest);
}
