//! Databases, containers and their throughput.

use crate::account::{VARIATIONS, client, container, on_one_runtime, unique};
use azure_data_cosmos::Query;
use azure_data_cosmos::models::ThroughputProperties;
use futures::TryStreamExt;

#[test]
fn databases_are_created_read_found_and_deleted() {
    on_one_runtime(async {
        let client = client(true).await;
        let name = unique("life");
        let created = client.create_database(&name, None).await.unwrap().into_model().unwrap();
        assert_eq!(created.id.as_ref(), Some(&name));
        let error = client.create_database(&name, None).await.unwrap_err();
        assert!(error.status().is_conflict(), "{error}");

        let database = client.database_client(name.as_str());
        let read = database.read(None).await.unwrap().into_model().unwrap();
        assert_eq!(read.id.as_ref(), Some(&name));
        let query = Query::from("SELECT * FROM root r WHERE r.id = @id");
        let query = query.with_parameter("@id", &name).unwrap();
        let found = client.query_databases(query, None).await.unwrap();
        let found: Vec<_> = found.try_collect().await.unwrap();
        assert_eq!(found.len(), 1);

        database.delete(None).await.unwrap();
        let error = database.read(None).await.unwrap_err();
        assert!(error.status().is_not_found(), "{error}");
    });
}

#[test]
fn a_container_has_as_many_feed_ranges_as_its_throughput_asks_for() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            let ranges = container.read_feed_ranges(None).await.unwrap();
            assert_eq!(ranges.len(), variation.partitions, "{variation:?}");
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn containers_are_found_and_keys_lie_in_their_ranges() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            let query = Query::from("SELECT * FROM root r WHERE r.id = 'items'");
            let found = database.query_containers(query, None).await.unwrap();
            let found: Vec<_> = found.try_collect().await.unwrap();
            assert_eq!(found.len(), 1, "{variation:?}");

            let ranges = container.read_feed_ranges(None).await.unwrap();
            for n in 0..10 {
                let (key, id) = (format!("key-{n}"), format!("{n}"));
                let body = serde_json::json!({"id": id, "pk": key});
                let created = container.create_item(&key, &id, body, None).await.unwrap();
                let of_key = container.feed_range_from_partition_key(&key, None).await.unwrap();
                assert_eq!(of_key.len(), 1, "{variation:?}");
                let homes = ranges.iter().filter(|range| range.overlaps(&of_key[0]));
                assert_eq!(homes.count(), 1, "{key}, {variation:?}");
                let token = created.headers().session_token().unwrap().clone();
                let known = [(of_key[0].clone(), token)];
                assert!(container.get_latest_session_token(&known, &of_key[0]).is_ok());
            }
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn container_properties_survive_a_round_trip() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, ("/tenant", "/user").into()).await;
            let mut properties = container.read(None).await.unwrap().into_model().unwrap();
            assert_eq!(properties.id, "items");
            assert_eq!(properties.partition_key.paths().len(), 2);
            properties = properties.with_default_ttl(3600);
            container.replace(properties, None).await.unwrap();
            let replaced = container.read(None).await.unwrap().into_model().unwrap();
            assert_eq!(replaced.default_ttl, 3600.into());
            container.delete(None).await.unwrap();
            let error = container.read(None).await.unwrap_err();
            assert!(error.status().is_not_found(), "{error}");
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn throughput_is_read_and_replaced() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            let offer = container.read_throughput(None).await.unwrap().expect("it has an offer");
            assert_eq!(offer.throughput(), Some(variation.throughput));
            let more = ThroughputProperties::manual(variation.throughput + 100);
            let poller = container.begin_replace_throughput(more, None).await.unwrap();
            let replaced = poller.await.unwrap().into_model().unwrap();
            assert_eq!(replaced.throughput(), Some(variation.throughput + 100));
            database.delete(None).await.unwrap();
        }
    });
}
