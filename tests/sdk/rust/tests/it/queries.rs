//! Queries: of one partition key and of the whole container, with plans made by the SDK and plans
//! asked of the server.
//!
//! The SDK merges filters, projections, ORDER BY, TOP and OFFSET; what else a query may have, it
//! sends to one partition key only.

use std::num::NonZeroU32;

use crate::account::{VARIATIONS, Variation, container, on_one_runtime};
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::feed::{ContinuationToken, FeedScope};
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions, QueryPlanMode};
use azure_data_cosmos::{PartitionKey, Query};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

const COUNT: i64 = 60;

/// Sixty items under twelve keys.
async fn filled(variation: Variation) -> (DatabaseClient, ContainerClient) {
    let (database, container) = container(variation, "/pk".into()).await;
    for n in 0..COUNT {
        let (id, key) = (format!("item-{n}"), format!("key-{}", n % 12));
        let body = json!({"id": id, "pk": key, "n": n, "even": n % 2 == 0, "tags": ["a", n % 3]});
        container.create_item(&key, &id, body, None).await.unwrap();
    }
    (database, container)
}

async fn rows(
    container: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
    options: QueryOptions,
) -> Vec<Value> {
    let found = container.query_items::<Value>(query, scope, Some(options)).await.unwrap();
    found.try_collect().await.unwrap()
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(Value::to_string);
    rows
}

fn pages_of(count: u32) -> QueryOptions {
    let count = MaxItemCountHint::Limit(NonZeroU32::new(count).unwrap());
    QueryOptions::default().with_max_item_count(count)
}

#[test]
fn a_query_of_one_key_may_use_the_whole_language() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = filled(variation).await;
            for (text, expected) in [
                ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", json!([51, 39, 27, 15, 3])),
                ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 20", json!([3])),
                ("SELECT VALUE SUM(c.n) FROM c", json!([135])),
                ("SELECT DISTINCT VALUE c.even FROM c", json!([false])),
                (
                    "SELECT c.even, COUNT(1) AS n FROM c GROUP BY c.even",
                    json!([{"even": false, "n": 5}]),
                ),
                ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 2", json!([15, 27])),
                ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 15", json!(["a", 0])),
            ] {
                let scope = FeedScope::partition("key-3");
                let found = rows(&container, text, scope, QueryOptions::default()).await;
                assert_eq!(Value::from(found), expected, "{text}, {variation:?}");
            }
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn a_query_of_all_keys_is_merged() {
    on_one_runtime(async {
        let numbers = |keep: fn(&i64) -> bool| -> Vec<Value> {
            (0..COUNT).filter(keep).map(Value::from).collect()
        };
        for variation in VARIATIONS {
            let (database, container) = filled(variation).await;
            for mode in [QueryPlanMode::LocalPreferred, QueryPlanMode::GatewayOnly] {
                for size in [1, 7, 1000] {
                    let options = || pages_of(size).with_query_plan_mode(mode);
                    let all = FeedScope::full_container;
                    let plain = "SELECT VALUE c.n FROM c WHERE c.even";
                    let found = sorted(rows(&container, plain, all(), options()).await);
                    assert_eq!(
                        found,
                        sorted(numbers(|n| n % 2 == 0)),
                        "{mode:?}, {size}, {variation:?}"
                    );
                    let ordered = "SELECT VALUE c.n FROM c ORDER BY c.n";
                    let found = rows(&container, ordered, all(), options()).await;
                    assert_eq!(found, numbers(|_| true), "{mode:?}, {size}, {variation:?}");
                    let top = "SELECT TOP 9 VALUE c.n FROM c ORDER BY c.n DESC";
                    let found = rows(&container, top, all(), options()).await;
                    let last: Vec<Value> = (COUNT - 9..COUNT).rev().map(Value::from).collect();
                    assert_eq!(found, last, "{mode:?}, {size}, {variation:?}");
                    let skipped = "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5";
                    let found = rows(&container, skipped, all(), options()).await;
                    assert_eq!(found, numbers(|n| (10..15).contains(n)), "{mode:?}, {size}");
                    let parameter =
                        Query::from("SELECT VALUE c.n FROM c WHERE c.pk = @key ORDER BY c.n")
                            .with_parameter("@key", "key-5")
                            .unwrap();
                    let found = rows(&container, parameter, all(), options()).await;
                    assert_eq!(found, numbers(|n| n % 12 == 5), "{mode:?}, {size}, {variation:?}");
                }
            }
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn a_query_goes_on_from_a_token() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = filled(variation).await;
            for text in ["SELECT VALUE c.n FROM c ORDER BY c.n", "SELECT VALUE c.n FROM c"] {
                let mut found: Vec<Value> = Vec::new();
                let mut token: Option<ContinuationToken> = None;
                loop {
                    let mut options = pages_of(7);
                    if let Some(token) = token.take() {
                        options = options.with_continuation_token(token);
                    }
                    let scope = FeedScope::full_container();
                    let query = container.query_items::<Value>(text, scope, Some(options));
                    let mut pages = query.await.unwrap().into_pages();
                    let Some(page) = pages.next().await else { break };
                    found.extend(page.unwrap().into_items());
                    assert!(found.len() <= COUNT as usize, "{text}, {variation:?}: {found:?}");
                    let Ok(next) = pages.to_continuation_token() else { break };
                    token = Some(ContinuationToken::from_string(next.as_str().to_owned()));
                }
                let all: Vec<Value> = (0..COUNT).map(Value::from).collect();
                match text.contains("ORDER") {
                    true => assert_eq!(found, all, "{variation:?}"),
                    false => assert_eq!(sorted(found), sorted(all), "{variation:?}"),
                }
            }
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn a_prefix_of_a_hierarchical_key_restricts_a_query() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, ("/t", "/u").into()).await;
            for n in 0..24 {
                let (id, t, u) = (format!("item-{n}"), format!("t{}", n % 3), n % 4);
                let body = json!({"id": id, "t": t, "u": u, "n": n});
                container.create_item(PartitionKey::from((t, u)), &id, body, None).await.unwrap();
            }
            let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
            let under =
                |key: PartitionKey| rows(&container, text, FeedScope::partition(key), pages_of(5));
            let whole = under(PartitionKey::from(("t1".to_owned(), 3i64))).await;
            assert_eq!(whole, [json!(7), json!(19)], "{variation:?}");
            let prefix = under(PartitionKey::from("t1")).await;
            let expected: Vec<Value> = (0..24).filter(|n| n % 3 == 1).map(Value::from).collect();
            assert_eq!(prefix, expected, "{variation:?}");
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn metrics_and_errors_reach_the_client() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = filled(variation).await;
            let options = QueryOptions::default()
                .with_populate_query_metrics(true)
                .with_populate_index_metrics(true);
            let scope = || FeedScope::partition("key-3");
            let query = container.query_items::<Value>("SELECT * FROM c", scope(), Some(options));
            let page = query.await.unwrap().into_pages().next().await.unwrap().unwrap();
            assert!(page.query_metrics().unwrap().contains("outputDocumentCount=5"));
            assert!(page.index_metrics().is_some());
            assert!(page.headers().request_charge().is_some_and(|charge| charge.value() > 0.0));
            let wrong = container.query_items::<Value>("SELECT * FORM c", scope(), None).await;
            let error = match wrong {
                Ok(rows) => rows.try_collect::<Vec<Value>>().await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(u16::from(error.status().status_code()), 400, "{error}");
            database.delete(None).await.unwrap();
        }
    });
}
