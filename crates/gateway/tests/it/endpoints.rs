//! The paths that answer without a key.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::support::start;

#[tokio::test]
async fn health_follows_the_store_and_the_shutdown() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    assert_eq!(client.get("/alive").await.text(), "alive\n");
    assert_eq!(client.get("/ready").await.text(), "ready\n");
    server.healthy.store(false, Ordering::Relaxed);
    assert_eq!(client.get("/alive").await.status, 200);
    let reply = client.get("/ready").await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.text(), "the store is not healthy: see /status\n");
}

#[tokio::test]
async fn a_draining_server_is_not_ready() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client
        .send("GET /wait HTTP/1.1\r\nhost: t\r\n\r\nGET /ready HTTP/1.1\r\nhost: t\r\n\r\n")
        .await;
    server.door.arrived.acquire().await.unwrap().forget();
    server.shutdown.drain();
    server.door.gate.add_permits(1);
    assert_eq!(client.reply().await.text(), "waited");
    // The request behind it is answered if it was read before the connection wound down.
    let rest = client.closed().await;
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 503"), "{rest}");
    assert!(rest.is_empty() || rest.ends_with("draining\n"), "{rest}");
}

#[tokio::test]
async fn the_status_is_json() {
    let server = start(|_| {});
    let reply = server.connect().await.get("/status").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let status: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(status["version"], "test");
    assert_eq!(status["ready"], true);
    assert_eq!(status["draining"], false);
    assert_eq!(status["connections"], 1);
    assert_eq!(status["database"]["store"], "test");
    assert!(status["uptime_seconds"].is_u64());
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let server = start(|_| {});
    let reply = server.connect().await.get("/metrics").await;
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(reply.text().contains("partita_connections_open 1\n"));
    assert!(reply.text().ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_door_says_who_sees_which_metrics() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    let named = "partita_named{container=\"c\"} 1.0\n";
    assert!(!client.get("/metrics").await.text().contains("named"));
    assert!(client.get("/metrics?all").await.text().contains(named));
    let refused = client.get("/metrics?wrong").await;
    assert_eq!((refused.status, refused.text()), (401, "who are you?"));
    let broken = client.get("/metrics?panic").await;
    let broken = broken.text();
    assert!(!broken.contains("named") && broken.contains("partita_panics_total 1\n"), "{broken}");
}

#[tokio::test]
async fn other_methods_and_paths_belong_to_the_door() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("POST /alive HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n").await;
    assert!(client.reply().await.text().starts_with("POST /alive http"));
    assert!(client.get("/alive/").await.text().starts_with("GET /alive/ http"));
    assert!(client.get("/_explorer/").await.text().starts_with("GET /_explorer/ http"));
}
