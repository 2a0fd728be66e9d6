//! Items: their life, their conditions, what their responses carry.

use crate::account::{VARIATIONS, Variation, container, on_one_runtime};
use azure_data_cosmos::PartitionKey;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::models::{ItemResponse, PartitionKeyDefinition, PartitionKeyVersion};
use azure_data_cosmos::options::{
    ContentResponseOnWrite, ItemWriteOptions, OperationOptions, Precondition,
};
use serde_json::{Value, json};

/// Enough keys that each of five partitions gets some.
const COUNT: usize = 40;

fn body(n: usize) -> Value {
    json!({
        "id": format!("item-{n}"), "pk": format!("key-{n}"), "n": n, "negative": -1.5e-7,
        "large": 9007199254740991i64, "text": "ä€😀\u{2028}\"\\", "none": null, "yes": true,
        "list": [1, "two", [], {}], "deep": {"er": {"est": "x".repeat(300)}}
    })
}

#[track_caller]
fn check_headers(response: &ItemResponse, variation: Variation) {
    let headers = response.headers();
    assert!(headers.request_charge().is_some_and(|charge| charge.value() > 0.0), "{variation:?}");
    assert!(headers.session_token().is_some(), "{variation:?}");
    assert!(headers.activity_id().is_some(), "{variation:?}");
    assert!(headers.server_duration().is_some(), "{variation:?}");
}

async fn read(container: &ContainerClient, key: impl Into<PartitionKey>, id: &str) -> Value {
    container.read_item(key, id, None).await.unwrap().into_model().unwrap()
}

#[test]
fn items_are_created_read_replaced_upserted_and_deleted() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            for n in 0..COUNT {
                let (key, id) = (format!("key-{n}"), format!("item-{n}"));
                let created = container.create_item(&key, &id, body(n), None).await.unwrap();
                check_headers(&created, variation);
                let error = container.create_item(&key, &id, body(n), None).await.unwrap_err();
                assert!(error.status().is_conflict(), "{error}");
            }
            for n in 0..COUNT {
                let (key, id) = (format!("key-{n}"), format!("item-{n}"));
                let response = container.read_item(&key, &id, None).await.unwrap();
                check_headers(&response, variation);
                assert!(response.headers().etag().is_some());
                assert!(response.headers().lsn() >= response.headers().item_lsn());
                let mut item: Value = response.into_model().unwrap();
                let expected = body(n);
                for (name, value) in expected.as_object().unwrap() {
                    assert_eq!(&item[name], value, "{name}, {variation:?}");
                }
                item["n"] = json!(n + 1000);
                container.replace_item(&key, &id, &item, None).await.unwrap();
                assert_eq!(read(&container, &key, &id).await["n"], json!(n + 1000));
                item["n"] = json!(n + 2000);
                container.upsert_item(&key, &id, &item, None).await.unwrap();
                assert_eq!(read(&container, &key, &id).await["n"], json!(n + 2000));
                container.delete_item(&key, &id, None).await.unwrap();
                let error = container.read_item(&key, &id, None).await.unwrap_err();
                assert!(error.status().is_not_found(), "{error}");
            }
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn a_write_can_return_the_item() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            let mut operation = OperationOptions::default();
            operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
            let options = ItemWriteOptions::default().with_operation_options(operation);
            let created =
                container.create_item("key-1", "item-1", body(1), Some(options)).await.unwrap();
            let item: Value = created.into_model().unwrap();
            assert_eq!(item["text"], body(1)["text"]);
            assert!(item["_etag"].is_string());
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn a_stale_etag_is_refused() {
    on_one_runtime(async {
        for variation in VARIATIONS {
            let (database, container) = container(variation, "/pk".into()).await;
            container.create_item("key-1", "item-1", body(1), None).await.unwrap();
            let response = container.read_item("key-1", "item-1", None).await.unwrap();
            let etag = response.headers().etag().unwrap().clone();
            let options = || {
                Some(
                    ItemWriteOptions::default()
                        .with_precondition(Precondition::if_match(etag.clone())),
                )
            };
            container.replace_item("key-1", "item-1", body(1), options()).await.unwrap();
            let error =
                container.replace_item("key-1", "item-1", body(1), options()).await.unwrap_err();
            assert!(error.status().is_precondition_failed(), "{error}");
            let error = container.delete_item("key-1", "item-1", options()).await.unwrap_err();
            assert!(error.status().is_precondition_failed(), "{error}");
            database.delete(None).await.unwrap();
        }
    });
}

#[test]
fn hierarchical_keys_and_old_hashes_find_their_items() {
    on_one_runtime(async {
        let old = PartitionKeyDefinition::from("/pk").with_version(PartitionKeyVersion::V1);
        for variation in VARIATIONS {
            let (database, container) = container(variation, ("/pk", "/n").into()).await;
            for n in 0..COUNT {
                let (key, id) = (format!("key-{n}"), format!("item-{n}"));
                let key = PartitionKey::from((key, n as i64));
                container.create_item(key.clone(), &id, body(n), None).await.unwrap();
                assert_eq!(read(&container, key, &id).await["n"], json!(n));
            }
            database.delete(None).await.unwrap();

            let (database, container) = self::container(variation, old.clone()).await;
            for n in 0..COUNT {
                let (key, id) = (format!("key-{n}"), format!("item-{n}"));
                container.create_item(&key, &id, body(n), None).await.unwrap();
                assert_eq!(read(&container, &key, &id).await["n"], json!(n));
            }
            database.delete(None).await.unwrap();
        }
    });
}
