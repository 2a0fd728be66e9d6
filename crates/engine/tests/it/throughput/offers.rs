//! Where the throughput comes from, and what an offer tells of it.

use std::sync::Arc;

use partita_engine::{
    Container, Context, DatabasePath, DefaultThroughput, Demand, EngineSettings, KeyRequired,
    Migrate, Offer, OfferChange, Op, Outcome, PageRequest, PartitionSettings,
};
use partita_model::{ErrorKind, Throughput, ThroughputBucket, Value};

use super::{bench, exhaust, told, used};
use crate::harness::*;

fn make_database(bench: &Bench, throughput: Option<Throughput>) {
    bench.run(Op::CreateDatabase { name: "db".into(), throughput }).result.unwrap();
}

fn make_container(
    bench: &Bench,
    name: &str,
    throughput: Option<Throughput>,
    fields: &str,
) -> Arc<Container> {
    let reply = bench.run(Op::CreateContainer {
        database: DatabasePath("db".into()),
        body: json(&format!(r#"{{"id":"{name}",{fields}}}"#)),
        throughput,
        key_required: KeyRequired::Yes,
    });
    reply.container.unwrap()
}

fn offer(bench: &Bench) -> Arc<Offer> {
    let reply = bench.run(Op::ListOffers { filter: None, page: PageRequest::default() });
    let Ok(Outcome::Offers { offers, .. }) = reply.result else { panic!("{reply:?}") };
    assert_eq!(offers.len(), 1);
    Arc::clone(&offers[0])
}

fn replace(
    bench: &Bench,
    throughput: Throughput,
    buckets: Option<Vec<ThroughputBucket>>,
) -> Result<Arc<Offer>, String> {
    let change = OfferChange { throughput, migrate: Migrate::No, buckets };
    let rid = offer(bench).rid.to_string();
    match bench.run(Op::ReplaceOffer { rid, change, condition: None }).result {
        Ok(Outcome::Offer { offer, .. }) => Ok(offer),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.message),
    }
}

fn shown(offer: &Offer) -> Option<i64> {
    offer.to_value().get("content")?.get("offerThroughput").and_then(Value::as_i64)
}

fn read_in(bench: &Bench, container: &str) -> partita_engine::Reply {
    let mut path = item_path("nothing", r#"["a"]"#);
    path.container.container = container.into();
    let mut reply = bench.run(Op::ReadItem { path, condition: None });
    // That it is not there does not matter here.
    if error_is_not_found(&reply) {
        reply.result = Ok(Outcome::Deleted);
    }
    reply
}

fn error_is_not_found(reply: &partita_engine::Reply) -> bool {
    matches!(&reply.result, Err(error) if error.kind == ErrorKind::NotFound)
}

fn with_default(default_throughput: DefaultThroughput) -> Bench {
    Bench::with_settings(EngineSettings { default_throughput, ..EngineSettings::default() })
}

fn offers(bench: &Bench) -> Vec<Arc<Offer>> {
    let reply = bench.run(Op::ListOffers { filter: None, page: PageRequest::default() });
    let Ok(Outcome::Offers { offers, .. }) = reply.result else { panic!("{reply:?}") };
    offers
}

/// What the description of a container's partitions says of its throughput.
fn described(bench: &Bench) -> Option<f64> {
    let reply = bench.run(Op::DescribePartitions { container: path(), top: 0 });
    let Ok(Outcome::PartitionReport(report)) = reply.result else { panic!("{reply:?}") };
    report.partitions[0].figures.provisioned_ru
}

#[test]
fn throughput_that_nobody_asked_for_is_shown_and_limits_nothing() {
    let bench = bench();
    make_database(&bench, None);
    let container = make_container(&bench, "c", None, KEY_PK);
    let shown = offer(&bench);
    assert_eq!(shown.owner_rid, container.rid.to_string());
    assert_eq!(shown.owner_link, container.self_link());
    assert_eq!(
        (shown.throughput.clone(), described(&bench)),
        (Throughput::Manual(400), Some(400.0))
    );
    for n in 0..200 {
        assert_eq!(told(&bench.upsert(&format!(r#"{{"id":"i{n}","pk":"a"}}"#), None)), None);
    }
    assert_eq!(container.meters().next().unwrap().throttled(), 0);

    let bench = bench.reopened();
    let again = offer(&bench);
    assert_eq!((again.rid, again.etag, again.ts), (shown.rid, shown.etag, shown.ts));
    let read = bench.run(Op::ReadOffer { rid: shown.rid.to_string() });
    assert!(matches!(read.result, Ok(Outcome::Offer { .. })));

    replace(&bench, Throughput::Manual(400), None).unwrap();
    assert_eq!(offer(&bench).rid, shown.rid);
    exhaust(&bench, "a");
    let bench = bench.reopened();
    assert_eq!(offer(&bench).rid, shown.rid);
    exhaust(&bench, "a");
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    assert!(offers(&bench).is_empty() && offers(&bench.reopened()).is_empty());
}

#[test]
fn throughput_that_nobody_asked_for_splits_nothing() {
    let partitions = PartitionSettings { ru_max: 100, ..PartitionSettings::default() };
    let bench = Bench::with_settings(EngineSettings { partitions, ..EngineSettings::default() });
    make_database(&bench, None);
    make_container(&bench, "c", None, KEY_PK);
    for n in 0..20 {
        assert_eq!(told(&bench.upsert(&format!(r#"{{"id":"{n}","pk":{n}}}"#), None)), None);
    }
    bench.settle();
    assert_eq!((shown(&offer(&bench)), bench.partitions().len()), (Some(400), 1));
    let bench = bench.reopened();
    bench.settle();
    assert_eq!(bench.partitions().len(), 1);
}

#[test]
fn throughput_that_somebody_asked_for_splits() {
    let partitions = PartitionSettings { ru_max: 100, ..PartitionSettings::default() };
    let bench = Bench::with_settings(EngineSettings { partitions, ..EngineSettings::default() });
    make_database(&bench, None);
    make_container(&bench, "c", None, KEY_PK);
    replace(&bench, Throughput::Manual(400), None).unwrap();
    bench.settle();
    assert_eq!(bench.partitions().len(), 4);
}

#[test]
fn throughput_that_nobody_asked_for_goes_with_its_container_and_database() {
    let bench = bench();
    make_database(&bench, None);
    make_container(&bench, "c", None, KEY_PK);
    let first = offer(&bench).rid;
    bench.run(Op::DeleteContainer { container: path(), condition: None }).result.unwrap();
    assert!(offers(&bench).is_empty());
    assert_eq!(error(&bench.run(Op::ReadOffer { rid: first.to_string() })), ErrorKind::NotFound);
    make_container(&bench, "c", None, KEY_PK);
    assert_ne!(offer(&bench).rid, first, "another container, another offer");
    make_container(&bench, "d", Some(Throughput::Manual(500)), KEY_PK);
    assert_eq!(offers(&bench).len(), 2);
    let op = Op::DeleteDatabase { database: DatabasePath("db".into()), condition: None };
    bench.run(op).result.unwrap();
    assert!(offers(&bench).is_empty() && offers(&bench.reopened()).is_empty());
}

#[test]
fn an_offer_that_nobody_asked_for_can_be_replaced_by_many_at_once() {
    let bench = bench();
    make_database(&bench, None);
    make_container(&bench, "c", None, KEY_PK);
    let rid = offer(&bench).rid;
    std::thread::scope(|scope| {
        for n in 0..8 {
            let bench = &bench;
            scope.spawn(move || replace(bench, Throughput::Manual(500 + n * 100), None).unwrap());
        }
    });
    assert!(offer(&bench).throughput.provisioned() >= 500);
    assert_eq!(offer(&bench.reopened()).rid, rid);
}

#[test]
fn an_offer_that_is_replaced_while_its_container_goes_leaves_nothing() {
    let bench = bench();
    make_database(&bench, None);
    for n in 0..40 {
        make_container(&bench, "c", None, KEY_PK);
        let rid = offer(&bench).rid.to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let throughput = Throughput::Manual(500);
                let change = OfferChange { throughput, migrate: Migrate::No, buckets: None };
                let reply = bench.run(Op::ReplaceOffer { rid, change, condition: None });
                if let Err(error) = reply.result {
                    let gone = [ErrorKind::NotFound, ErrorKind::RetryWith];
                    assert!(gone.contains(&error.kind), "{error:?}");
                }
            });
            let op = Op::DeleteContainer { container: path(), condition: None };
            bench.run(op).result.unwrap();
        });
        assert!(offers(&bench).is_empty(), "{n}");
    }
    assert!(offers(&bench.reopened()).is_empty());
}

#[test]
fn a_container_of_a_database_with_throughput_shows_none_of_its_own() {
    let bench = bench();
    make_database(&bench, Some(Throughput::Manual(500)));
    make_container(&bench, "c", None, KEY_PK);
    assert_eq!(offer(&bench).throughput, Throughput::Manual(500), "the database's");
    assert_eq!(described(&bench), Some(500.0));
    let bench = bench.reopened();
    assert_eq!(offer(&bench).throughput, Throughput::Manual(500));
}

#[test]
fn throughput_that_nobody_asked_for_limits_where_that_is_chosen() {
    let bench = with_default(DefaultThroughput::Enforced);
    make_database(&bench, None);
    let container = make_container(&bench, "c", None, KEY_PK);
    assert_eq!(container.meters().next().unwrap().provisioned_ru(), Some(400.0));
    exhaust(&bench, "a");
    let bench = bench.reopened();
    assert_eq!(offer(&bench).throughput, Throughput::Manual(400));
    exhaust(&bench, "a");
}

#[test]
fn a_container_without_throughput_is_serverless_where_that_is_chosen() {
    let bench = with_default(DefaultThroughput::None);
    make_database(&bench, None);
    let container = make_container(&bench, "c", None, KEY_PK);
    assert!(offers(&bench).is_empty());
    for n in 0..2_000 {
        assert_eq!(told(&bench.upsert(&format!(r#"{{"id":"i{n}","pk":"a"}}"#), None)), None);
    }
    let meter = container.meters().next().unwrap();
    assert!(meter.consumed_ru() > 10_000.0);
    assert_eq!((meter.provisioned_ru(), meter.throttled()), (None, 0));
}

#[test]
fn a_new_throughput_takes_effect_at_once() {
    let bench = bench();
    bench.make_container(400, KEY_PK);
    exhaust(&bench, "a");
    replace(&bench, Throughput::Manual(4_000), None).unwrap();
    let got = used(&bench, 10, 12_000.0, || bench.upsert(r#"{"id":"i","pk":"a"}"#, None));
    assert!((38_000.0..=44_100.0).contains(&got), "{got}");
    replace(&bench, Throughput::Manual(400), None).unwrap();
    let got = used(&bench, 10, 1_200.0, || bench.upsert(r#"{"id":"i","pk":"a"}"#, None));
    assert!(got < 4_100.0, "{got}");
}

#[test]
fn containers_share_the_throughput_of_their_database() {
    let bench = bench();
    make_database(&bench, Some(Throughput::Manual(400)));
    make_container(&bench, "c1", None, KEY_PK);
    make_container(&bench, "c2", None, KEY_PK);
    let mut turn = 0;
    let got = used(&bench, 30, 1_200.0, || {
        turn += 1;
        read_in(&bench, ["c1", "c2"][turn % 2])
    });
    assert!((0.95..=1.05).contains(&(got / 12_000.0)), "{got}");
    let own = make_container(&bench, "own", Some(Throughput::Manual(400)), KEY_PK);
    assert_eq!(told(&read_in(&bench, "own")), None, "it has its own");
    assert_eq!(own.meters().next().unwrap().provisioned_ru(), Some(400.0));
}

#[test]
fn a_large_shared_throughput_is_cut_into_slots() {
    let bench = bench();
    make_database(&bench, Some(Throughput::Manual(25_000)));
    let shared = make_container(&bench, "c1", None, KEY_PK);
    let slot = 25_000.0 / 3.0;
    let provisioned = shared.meters().next().unwrap().provisioned_ru().unwrap();
    assert!((provisioned - slot).abs() < 0.01, "{provisioned}");
    replace(&bench, Throughput::Manual(5_000), None).unwrap();
    assert_eq!(shared.meters().next().unwrap().provisioned_ru(), Some(5_000.0));
}

#[test]
fn a_shared_autoscale_offer_shows_what_its_busiest_slot_uses() {
    let bench = bench();
    let scaled = Throughput::Autoscale { max: 30_000, increment_percent: None };
    make_database(&bench, Some(scaled));
    make_container(&bench, "c1", None, KEY_PK);
    make_container(&bench, "c2", None, KEY_PK);
    let mut turn = 0;
    used(&bench, 3, 6_000.0, || {
        turn += 1;
        read_in(&bench, ["c1", "c2"][turn % 2])
    });
    // 2 000 in one of three slots.
    let at = shown(&offer(&bench)).unwrap();
    assert!((5_900..=6_200).contains(&at), "{at}");
}

#[test]
fn autoscale_gives_its_maximum_at_once_and_shows_what_is_used() {
    let bench = bench();
    make_database(&bench, None);
    let scaled = |max| Throughput::Autoscale { max, increment_percent: Some(0) };
    make_container(&bench, "c", Some(scaled(5_000)), KEY_PK);
    assert_eq!(shown(&offer(&bench)), Some(500));
    let got = used(&bench, 10, 15_000.0, || read_in(&bench, "c"));
    assert!((47_500.0..=55_100.0).contains(&got), "{got}");
    assert_eq!(shown(&offer(&bench)), Some(5_000));
    bench.clock.advance_millis(70_000);
    assert_eq!(shown(&offer(&bench)), Some(500));
    // A read counts for three there.
    used(&bench, 2, 4_500.0, || read_in(&bench, "c"));
    let at = shown(&offer(&bench)).unwrap();
    assert!((1_400..=1_600).contains(&at), "{at}");
}

#[test]
fn a_throughput_bucket_limits_only_its_requests() {
    let bench = bench();
    bench.make_container(4_000, KEY_PK);
    bench.upsert(r#"{"id":"i","pk":"a"}"#, None).result.unwrap();
    let bucket = |id, percent| ThroughputBucket { id, percent, is_default: false };
    let buckets = vec![bucket(1, 10), bucket(2, 50)];
    let changed = replace(&bench, Throughput::Manual(4_000), Some(buckets.clone())).unwrap();
    assert_eq!(changed.buckets, buckets);
    let kept = replace(&bench, Throughput::Manual(4_000), None).unwrap();
    assert_eq!(kept.buckets, buckets, "a client that knows of none leaves them");
    let read = |bucket| {
        let demand = Demand { bucket, ..Demand::default() };
        let context = Context { demand, ..Context::default() };
        let op = Op::ReadItem { path: item_path("i", r#"["a"]"#), condition: None };
        bench.run_with(op, &context)
    };
    let got = used(&bench, 10, 9_000.0, || read(Some(1)));
    assert!((3_900.0..=4_500.0).contains(&got), "{got}");
    let refused = read(Some(1)).result.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Throttled { bucket: Some(1), .. }), "{refused:?}");
    for bucket in [None, Some(2), Some(4)] {
        assert_eq!(told(&read(bucket)), None, "{bucket:?}");
    }
    let bench = bench.reopened();
    assert_eq!(offer(&bench).buckets, buckets);
    assert!(
        replace(&bench, Throughput::Manual(4_000), Some(Vec::new())).unwrap().buckets.is_empty()
    );
}

#[test]
fn the_least_throughput_depends_on_what_was_and_what_shares_it() {
    let bench = bench();
    make_database(&bench, Some(Throughput::Manual(400)));
    assert_eq!(offer(&bench).observed.minimum_ru, 400);
    for n in 0..27 {
        make_container(&bench, &format!("c{n}"), None, KEY_PK);
    }
    assert_eq!(offer(&bench).observed.minimum_ru, 600);
    let message = replace(&bench, Throughput::Manual(500), None).unwrap_err();
    let text = "Requested throughput 500 is less than required minimum throughput 600";
    assert!(message.starts_with(text), "{message}");
    replace(&bench, Throughput::Manual(100_100), None).unwrap();
    assert_eq!(offer(&bench).observed.minimum_ru, 1_100);
    assert!(replace(&bench, Throughput::Manual(1_000), None).is_err());
    replace(&bench, Throughput::Manual(1_100), None).unwrap();
}

#[test]
fn an_offer_tells_what_is_stored() {
    let bench = bench();
    bench.make_container(30_000, KEY_PK);
    for n in 0..20 {
        bench.upsert(&format!(r#"{{"id":"i","pk":"k{n}","s":"{}"}}"#, "x".repeat(10_000)), None);
    }
    let stored = |offer: &Offer| {
        let content = offer.to_value().get("content").unwrap().clone();
        let parameters = content.get("offerMinimumThroughputParameters").unwrap().clone();
        parameters.get("maxConsumedStorageEverInKB").and_then(Value::as_i64).unwrap()
    };
    let before = stored(&offer(&bench));
    assert!((195..=220).contains(&before), "{before}");
    replace(&bench, Throughput::Manual(30_000), None).unwrap();
    for n in 0..20 {
        bench.delete("i", &format!(r#"["k{n}"]"#)).result.unwrap();
    }
    assert_eq!(stored(&offer(&bench.reopened())), before, "the most there ever was");
}
