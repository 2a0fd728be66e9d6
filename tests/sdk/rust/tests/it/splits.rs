//! Partitions are split for more throughput while clients read, write, ask and follow the change
//! feed: nobody notices. `examples/split_under_load.rs` does the same with a million items.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::account::{Variation, container, on_one_runtime};
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::FeedScope;
use azure_data_cosmos::models::ThroughputProperties;
use azure_data_cosmos::options::ChangeFeedStartFrom;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

const BEFORE: usize = 500;
/// Partitions after the split.
const RANGES: usize = 4;

/// What the clients of one test share.
struct Clients {
    container: ContainerClient,
    next: AtomicUsize,
    done: AtomicBool,
}

impl Clients {
    async fn create(&self) {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let (id, key) = (format!("item-{n}"), format!("key-{}", n % 97));
        let body = json!({"id": id, "pk": key, "n": n});
        self.container.create_item(&key, &id, body, None).await.unwrap();
    }

    async fn write(self: Arc<Clients>) {
        while !self.done.load(Ordering::Relaxed) {
            self.create().await;
        }
    }

    async fn read(self: Arc<Clients>) {
        while !self.done.load(Ordering::Relaxed) {
            let n = self.next.load(Ordering::Relaxed) % BEFORE;
            let (id, key) = (format!("item-{n}"), format!("key-{}", n % 97));
            let found = self.container.read_item(&key, &id, None).await.unwrap();
            assert_eq!(found.into_model::<Value>().unwrap()["n"], json!(n));
        }
    }

    async fn ask(self: Arc<Clients>) {
        let text = format!("SELECT VALUE c.n FROM c WHERE c.n < {BEFORE} ORDER BY c.n");
        while !self.done.load(Ordering::Relaxed) {
            let expected: Vec<usize> = (0..BEFORE).collect();
            assert_eq!(rows::<usize>(&self.container, &text).await, expected);
        }
    }

    async fn follow(self: Arc<Clients>) {
        while !self.done.load(Ordering::Relaxed) {
            assert!(changed(&self.container).await.len() >= BEFORE);
        }
    }
}

async fn rows<T: serde::de::DeserializeOwned + Send + 'static>(
    container: &ContainerClient,
    text: &str,
) -> Vec<T> {
    let found = container.query_items::<T>(text, FeedScope::full_container(), None).await.unwrap();
    found.try_collect().await.unwrap()
}

/// The numbers of all items in the change feed, from its beginning to its end.
async fn changed(container: &ContainerClient) -> BTreeSet<u64> {
    let start = ChangeFeedStartFrom::Beginning;
    let scope = FeedScope::full_container();
    let mut pages = container.query_change_feed::<Value>(scope, start, None).await.unwrap();
    let mut seen = BTreeSet::new();
    // A range that has nothing gives an empty page; the others may have more.
    let mut empty = 0;
    while empty < RANGES
        && let Some(page) = pages.next().await
    {
        let page = page.unwrap();
        empty = if page.items().is_empty() { empty + 1 } else { 0 };
        let items = page.items().iter().filter_map(|change| change.current());
        seen.extend(items.map(|item| item["n"].as_u64().unwrap()));
    }
    seen
}

#[test]
fn clients_notice_nothing_of_a_split() {
    on_one_runtime(async {
        for binary in [true, false] {
            let variation = Variation { partitions: 1, throughput: 6_000, binary };
            let (database, container) = container(variation, "/pk".into()).await;
            let clients = Arc::new(Clients {
                container: container.clone(),
                next: AtomicUsize::new(0),
                done: AtomicBool::new(false),
            });
            for _ in 0..BEFORE {
                clients.create().await;
            }
            let running = [
                tokio::spawn(Arc::clone(&clients).write()),
                tokio::spawn(Arc::clone(&clients).write()),
                tokio::spawn(Arc::clone(&clients).read()),
                tokio::spawn(Arc::clone(&clients).ask()),
                tokio::spawn(Arc::clone(&clients).follow()),
            ];
            let more = ThroughputProperties::manual(40_000);
            container.begin_replace_throughput(more, None).await.unwrap().await.unwrap();
            assert_eq!(container.read_feed_ranges(None).await.unwrap().len(), RANGES);
            tokio::time::sleep(Duration::from_millis(500)).await;
            clients.done.store(true, Ordering::Relaxed);
            for client in running {
                client.await.unwrap();
            }
            let count = clients.next.load(Ordering::Relaxed);
            let mut stored: Vec<usize> = rows(&container, "SELECT VALUE c.n FROM c").await;
            stored.sort_unstable();
            assert_eq!(stored, (0..count).collect::<Vec<usize>>());
            assert_eq!(changed(&container).await, (0..count as u64).collect());
            database.delete(None).await.unwrap();
        }
    });
}
