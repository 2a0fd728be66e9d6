//! Clients that stall, each in another place.

use std::time::Duration;

use crate::support::start;

const SHORT: Duration = Duration::from_millis(60);

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let server = start(|settings| settings.first_byte = SHORT);
    let mut client = server.connect().await;
    assert_eq!(client.closed().await, b"");
    server.metric(r#"partita_refused_total{reason="first_byte_timeout"} 1"#).await;
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_closed() {
    let server = start(|settings| settings.head = SHORT);
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: ").await;
    assert_eq!(client.closed().await, b"");
    server.metric(r#"partita_refused_total{reason="head_timeout"} 1"#).await;
}

#[tokio::test]
async fn dripping_a_head_does_not_prolong_it() {
    let server = start(|settings| settings.head = SHORT);
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\n").await;
    let mut drips = 0;
    while client.try_send("a: b\r\n").await {
        drips += 1;
        assert!(drips < 5000, "the server still listens");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.metric(r#"partita_refused_total{reason="head_timeout"} 1"#).await;
}

#[tokio::test]
async fn a_second_head_has_its_time_too() {
    let server = start(|settings| settings.head = SHORT);
    let mut client = server.connect().await;
    assert_eq!(client.get("/first").await.status, 200);
    client.send("GET / HTTP/1.1\r\nhost: ").await;
    assert_eq!(client.closed().await, b"");
    server.metric(r#"partita_refused_total{reason="head_timeout"} 1"#).await;
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_limit() {
    let server = start(|settings| settings.head = SHORT);
    let mut client = server.connect().await;
    assert_eq!(client.get("/first").await.status, 200);
    tokio::time::sleep(SHORT * 4).await;
    assert_eq!(client.get("/second").await.status, 200);
}

#[tokio::test]
async fn a_connection_idle_for_too_long_is_closed() {
    let server = start(|settings| settings.idle = SHORT);
    let mut client = server.connect().await;
    assert_eq!(client.get("/first").await.status, 200);
    assert_eq!(client.closed().await, b"");
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn a_request_may_run_longer_than_every_connection_limit() {
    let server = start(|settings| {
        settings.idle = SHORT;
        settings.head = SHORT;
        settings.write_stall = SHORT;
    });
    let mut client = server.connect().await;
    client.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n").await;
    server.door.arrived.acquire().await.unwrap().forget();
    tokio::time::sleep(SHORT * 4).await;
    server.door.gate.add_permits(1);
    assert_eq!(client.reply().await.text(), "waited");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let server = start(|settings| settings.write_stall = SHORT);
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await;
    server.metric(r#"partita_refused_total{reason="write_timeout"} 1"#).await;
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn a_slow_tls_handshake_is_closed() {
    let server = start(|settings| settings.handshake = SHORT);
    let mut client = server.connect().await;
    client.send([0x16, 0x03, 0x01]).await;
    assert_eq!(client.closed().await, b"");
    server.metric("partita_tls_handshake_failures_total 1").await;
    server.metric(r#"partita_refused_total{reason="handshake_timeout"} 1"#).await;
}

#[tokio::test]
async fn half_an_http2_preface_is_closed() {
    let server = start(|settings| settings.first_byte = SHORT);
    let mut client = server.connect().await;
    client.send("PRI * HTTP/2.0\r\n").await;
    assert_eq!(client.closed().await, b"");
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn lingering_after_a_refusal_has_an_end() {
    let server = start(|settings| {
        settings.body_bytes_max = 10;
        settings.linger = SHORT;
    });
    let mut client = server.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 11\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 413);
    // The client keeps its side open; the server lets go all the same.
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_not_cut_off() {
    let server = start(|settings| settings.write_stall = Duration::from_secs(1));
    let mut client = server.connect().await;
    client.send("GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await;
    let mut bytes = 0;
    // The whole takes longer than the client may read nothing.
    while bytes < 32 << 20 {
        let some = client.some(1 << 20).await;
        assert!(some > 0, "closed after {bytes} bytes");
        bytes += some;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// Else the kernel would take all of it, and nobody would know how much that is.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_answer_that_nobody_reads_counts_and_the_kernel_has_little_of_it() {
    let server = start(|_| {});
    let mut silent = Vec::new();
    for count in 1..=3 {
        let mut client = server.connect().await;
        client.send("GET /megabyte HTTP/1.1\r\nhost: test\r\n\r\n").await;
        server.bodies_at_least(count << 20).await;
        silent.push(client);
    }
    for mut client in silent {
        assert_eq!(client.reply().await.body.len(), 1 << 20);
    }
    server.bodies_at_most(0).await;
}

/// Of every answer of 32 MB, the kernel takes a few.
const BODIES_BYTES_MAX: u64 = 200 << 20;

#[tokio::test]
async fn clients_that_read_nothing_make_room_for_others() {
    let server = start(|settings| settings.bodies_bytes_max = BODIES_BYTES_MAX);
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut client = server.connect().await;
        client.send("GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await;
        silent.push(client);
    }
    server.metric_at_least(r#"partita_refused_total{reason="slow_reader"}"#, 14).await;
    server.bodies_at_most(BODIES_BYTES_MAX).await;

    let mut reader = server.connect().await;
    assert_eq!(reader.get("/large").await.body.len(), 32 << 20, "who reads gets everything");
    assert_eq!(reader.get("/small").await.status, 200);
    drop(silent);
    server.metric("partita_connections_open 1").await;
    server.bodies_at_most(0).await;
}
