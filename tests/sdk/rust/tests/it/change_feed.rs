//! The change feed: latest versions and all versions, of a container and of a partition key, with
//! checkpoints.
//!
//! The feed has no end: a page is empty where there is nothing new, and the SDK asks the partitions
//! in turn. What is there was read when as many pages in a row were empty as there are partitions.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::account::{VARIATIONS, Variation, client, container, on_one_runtime, unique};
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::{ContinuationToken, FeedScope};
use azure_data_cosmos::models::{
    ChangeFeedItem, ChangeFeedOperationType, ChangeFeedPolicy, ContainerProperties,
};
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, MaxItemCountHint,
};
use futures::StreamExt;
use serde_json::{Value, json};

const COUNT: usize = 30;

async fn put(container: &ContainerClient, n: usize, v: i64) {
    let (id, key) = (format!("item-{n}"), format!("key-{}", n % 10));
    container.upsert_item(&key, &id, json!({"id": id, "pk": key, "v": v}), None).await.unwrap();
}

/// Everything up to now, and where to go on.
async fn drain(
    container: &ContainerClient,
    variation: Variation,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: ChangeFeedOptions,
) -> (Vec<ChangeFeedItem<Value>>, ContinuationToken) {
    let mut pages = container.query_change_feed(scope, start, Some(options)).await.unwrap();
    let (mut items, mut empty) = (Vec::new(), 0);
    while empty <= variation.partitions {
        let page = pages.next().await.expect("the feed has no end").unwrap();
        empty = if page.items().is_empty() { empty + 1 } else { 0 };
        items.extend(page.into_items());
    }
    (items, pages.to_continuation_token().unwrap())
}

fn ids(items: &[ChangeFeedItem<Value>]) -> Vec<String> {
    let mut ids: Vec<String> =
        items.iter().map(|item| item.current().unwrap()["id"].as_str().unwrap().into()).collect();
    ids.sort();
    ids
}

fn small_pages() -> ChangeFeedOptions {
    let hint = MaxItemCountHint::Limit(NonZeroU32::new(4).unwrap());
    ChangeFeedOptions::default().with_max_item_count(hint)
}

#[test]
fn every_item_comes_once_and_a_checkpoint_goes_on() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            for n in (0..COUNT).chain([7]) {
                put(&container, n, 1).await;
            }
            let (whole, begin) = (FeedScope::full_container, ChangeFeedStartFrom::Beginning);
            let (items, token) =
                drain(&container, variation, whole(), begin.clone(), small_pages()).await;
            assert_eq!(ids(&items).len(), COUNT, "{variation:?}");
            let lsns = items.iter().filter_map(|item| item.metadata()?.lsn());
            assert_eq!(lsns.count(), COUNT, "{variation:?}");

            put(&container, 5, 2).await;
            let resumed = small_pages().with_continuation_token(token);
            let (items, _) = drain(&container, variation, whole(), begin.clone(), resumed).await;
            assert_eq!(ids(&items), ["item-5"], "{variation:?}");

            let key = FeedScope::partition("key-5");
            let (items, _) = drain(&container, variation, key, begin, small_pages()).await;
            assert_eq!(ids(&items), ["item-15", "item-25", "item-5"], "{variation:?}");
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn all_versions_and_deletes_are_told() {
    on_one_runtime(async {
        let variation = VARIATIONS[0];
        let client = client(variation.binary).await;
        let name = unique("rust-versions");
        client.create_database(&name, None).await.unwrap();
        let database = client.database_client(name.as_str());
        let policy = ChangeFeedPolicy::default().with_retention_duration(Duration::from_secs(300));
        let properties = ContainerProperties::new("items", "/pk".into());
        let properties = properties.with_change_feed_policy(policy);
        database.create_container(properties, None).await.unwrap();
        let container = database.container_client("items", None).await.unwrap();

        let options =
            || ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
        let (whole, now) = (FeedScope::full_container, ChangeFeedStartFrom::Now);
        let (items, token) = drain(&container, variation, whole(), now.clone(), options()).await;
        assert!(items.is_empty());
        put(&container, 1, 1).await;
        put(&container, 1, 2).await;
        container.delete_item("key-1", "item-1", None).await.unwrap();
        let resumed = options().with_continuation_token(token);
        let (items, _) = drain(&container, variation, whole(), now, resumed).await;
        let told: Vec<_> = items
            .iter()
            .map(|item| {
                let v = |item: Option<&Value>| item.and_then(|item| item["v"].as_i64());
                (item.operation_type().unwrap(), v(item.previous()), v(item.current()))
            })
            .collect();
        assert_eq!(
            told,
            [
                (ChangeFeedOperationType::Create, None, Some(1)),
                (ChangeFeedOperationType::Replace, None, Some(2)),
                (ChangeFeedOperationType::Delete, Some(2), None),
            ]
        );
        assert_eq!(items[2].metadata().unwrap().id(), Some("item-1"));
        database.delete(None).await.unwrap();
    });
}
