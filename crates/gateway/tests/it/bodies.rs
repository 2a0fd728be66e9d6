//! Bodies: whole, in pieces, too large, half-sent, never sent.

use std::time::Duration;

use crate::support::start;

fn post(length: usize) -> String {
    format!("POST /body HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_body_up_to_the_limit_reaches_the_door() {
    let server = start(|settings| settings.body_bytes_max = 1_000_000);
    let mut client = server.connect().await;
    for length in [0, 1, 1000, 100_000, 1_000_000] {
        client.send(post(length)).await;
        client.send(vec![b'x'; length]).await;
        let reply = client.reply().await;
        assert!(reply.text().contains(&format!(" body={length} ")), "{}", reply.text());
    }
}

#[tokio::test]
async fn a_chunked_body_is_put_together() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("POST /c HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for _ in 0..10 {
        client.send("3\r\nabc\r\n").await;
    }
    client.send("0\r\n\r\n").await;
    assert!(client.reply().await.text().contains(" body=30 "));
    assert_eq!(client.get("/after").await.status, 200);
}

#[tokio::test]
async fn an_announced_length_over_the_limit_is_refused_before_the_body_arrives() {
    let server = start(|settings| settings.body_bytes_max = 1000);
    let mut client = server.connect().await;
    client.send(post(1001)).await;
    let reply = client.reply().await;
    assert_eq!(reply.status, 413);
    let text = "refused: the request body of 1001 bytes exceeds the limit of 1000 bytes";
    assert_eq!(reply.text(), text);
    assert_eq!(reply.header("connection"), Some("close"));
    server.metric(r#"partita_refused_total{reason="body_too_large"} 1"#).await;
}

#[tokio::test]
async fn a_client_that_sends_everything_first_still_hears_the_refusal() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    let length = 20 * 1024 * 1024;
    client.send(post(length)).await;
    let chunk = vec![b'x'; 1024 * 1024];
    for _ in 0..20 {
        client.send(&chunk).await;
    }
    assert_eq!(client.reply().await.status, 413);
    assert_eq!(client.closed().await, b"");
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_cut_off() {
    let server = start(|settings| settings.body_bytes_max = 1000);
    let mut client = server.connect().await;
    client.send("POST /c HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for _ in 0..11 {
        client.send(format!("64\r\n{}\r\n", "x".repeat(100))).await;
    }
    let reply = client.reply().await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.text(), "refused: the request body exceeds the limit of 1000 bytes");
}

#[tokio::test]
async fn an_expecting_client_is_told_to_go_on_or_not() {
    let server = start(|settings| settings.body_bytes_max = 1000);
    let expect =
        |length: usize| post(length).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let mut client = server.connect().await;
    client.send(expect(3)).await;
    assert_eq!(client.reply().await.status, 100);
    client.send("abc").await;
    assert_eq!(client.reply().await.status, 200);
    client.send(expect(5000)).await;
    assert_eq!(client.reply().await.status, 413);
}

#[tokio::test]
async fn a_half_sent_body_times_out_and_is_answered() {
    let server = start(|settings| settings.body = Duration::from_millis(50));
    let mut client = server.connect().await;
    client.send(post(10)).await;
    client.send("half").await;
    let reply = client.reply().await;
    assert_eq!(reply.status, 408);
    assert!(reply.text().starts_with("refused: the request body did not arrive"));
    assert_eq!(reply.header("connection"), Some("close"));
    drop(client);
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn a_client_that_leaves_inside_its_body_leaves_nothing_behind() {
    let server = start(|_| {});
    for _ in 0..50 {
        let mut client = server.connect().await;
        client.send(post(10)).await;
        client.send("half").await;
    }
    server.metric("partita_connections_open 0").await;
    server.metric("partita_connections_total 50").await;
    assert_eq!(server.connect().await.get("/after").await.status, 200);
}

#[tokio::test]
async fn broken_chunks_are_refused() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("POST /c HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.send("zz\r\nabc\r\n").await;
    let answer = client.closed().await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 400") || text.is_empty(), "{text}");
}

#[tokio::test]
async fn bodies_in_memory_are_bounded_over_all_connections() {
    let server = start(|settings| {
        settings.bodies_bytes_max = 100_000;
        settings.body = Duration::from_secs(60);
    });
    let mut holding = server.connect().await;
    holding.send(post(90_001)).await;
    holding.send(vec![b'x'; 90_000]).await;
    // The first connection's bytes are counted once the server has read them.
    let mut refused = None;
    for _ in 0..200 {
        let mut client = server.connect().await;
        client.send(post(50_000)).await;
        client.send(vec![b'x'; 50_000]).await;
        let reply = client.reply().await;
        if reply.status == 503 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("150 000 bytes were held");
    assert!(refused.text().contains("100000 bytes of requests and answers"), "{}", refused.text());

    holding.send("x").await;
    assert_eq!(holding.reply().await.status, 200);
    let mut client = server.connect().await;
    client.send(post(50_000)).await;
    client.send(vec![b'x'; 50_000]).await;
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn nobody_unknown_has_a_large_body_read() {
    let server = start(|_| {});
    for path in ["/unknown", "/unknown-later"] {
        for framing in ["content-length: 70000", "transfer-encoding: chunked"] {
            let mut client = server.connect().await;
            client.send(format!("POST {path} HTTP/1.1\r\nhost: test\r\n{framing}\r\n\r\n")).await;
            let reply = client.reply().await;
            assert_eq!((reply.status, reply.text()), (401, "who are you?"), "{framing}");
            assert_eq!(reply.header("connection"), Some("close"));
        }
    }
    let mut client = server.connect().await;
    client.send(post(70_000).replace("/body", "/panic-early")).await;
    assert_eq!(client.reply().await.status, 500);
    server.bodies_at_most(0).await;
}

#[tokio::test]
async fn known_clients_and_small_bodies_are_not_asked_twice() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    for (path, length) in [("/unknown", 60_000), ("/known-later", 300_000), ("/body", 300_000)] {
        client.send(post(length).replace("/body", path)).await;
        client.send(vec![b'x'; length]).await;
        let reply = client.reply().await;
        assert!(reply.text().contains(&format!(" body={length} ")), "{}", reply.text());
    }
}

#[tokio::test]
async fn where_memory_is_short_every_body_needs_a_known_client() {
    let server = start(|settings| settings.bodies_bytes_max = 100_000);
    let mut holding = server.connect().await;
    holding.send(post(60_001)).await;
    holding.send(vec![b'x'; 60_000]).await;
    while server.bodies_bytes().await < 60_000 {
        tokio::task::yield_now().await;
    }
    let mut client = server.connect().await;
    client.send(post(10).replace("/body", "/unknown")).await;
    assert_eq!(client.reply().await.status, 401);
    let mut client = server.connect().await;
    client.send(post(10)).await;
    client.send("0123456789").await;
    assert_eq!(client.reply().await.status, 200);
}
