//! HTTP/1.1: keep-alive, pipelining, responses without a body, panics, rubbish.

use partita_gateway::limits;

use crate::support::start;

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    for number in 0..100 {
        let reply = client.get(&format!("/{number}")).await;
        assert_eq!(reply.status, 200);
        let expected = format!("GET /{number} http host=test body=0 local={}\n", server.address);
        assert_eq!(reply.text(), expected);
        assert_eq!(reply.header("content-length"), Some(expected.len().to_string().as_str()));
        assert!(reply.header("date").is_some_and(|date| date.ends_with(" gmt")));
    }
    server.metric("partita_connections_total 1").await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    let requests: String = (0..20)
        .map(|n| format!("POST /{n} HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\nabc"))
        .collect();
    client.send(requests).await;
    for number in 0..20 {
        let reply = client.reply().await;
        assert!(reply.text().starts_with(&format!("POST /{number} http host=test body=3")));
    }
}

#[tokio::test]
async fn a_204_and_a_304_have_neither_body_nor_length() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    for (path, status) in [("/empty", 204), ("/unmodified", 304)] {
        let reply = client.get(path).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("content-length"), None, "{}", reply.head);
        assert_eq!(reply.header("transfer-encoding"), None, "{}", reply.head);
        // A body would be taken for the next response's head.
        assert_eq!(client.get("/after").await.status, 200);
    }
}

#[tokio::test]
async fn a_head_request_gets_the_length_without_the_body() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    for path in ["/any", "/alive"] {
        client.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        let length = client.reply().await.body.len();
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        let reply = client.reply_to_head().await;
        assert_eq!(reply.status, 200);
        // The echoed method is one letter longer.
        let expected = length + usize::from(path == "/any");
        assert_eq!(reply.header("content-length"), Some(expected.to_string().as_str()));
    }
    assert_eq!(client.get("/after").await.status, 200);
}

#[tokio::test]
async fn http_1_0_is_served_and_closed() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("GET /old HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 200);
    assert_eq!(client.closed().await, b"");
}

#[tokio::test]
async fn a_request_line_with_an_address_sets_the_host() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("GET http://elsewhere:81/x HTTP/1.1\r\nhost: ignored\r\n\r\n").await;
    assert!(client.reply().await.text().starts_with("GET /x http host=elsewhere:81"));
}

#[tokio::test]
async fn a_panic_in_the_door_ends_only_its_request() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    for path in ["/panic", "/panic-later", "/panic-now"] {
        let reply = client.get(path).await;
        assert_eq!(reply.status, 500);
        assert!(reply.text().starts_with("refused: an internal error"), "{}", reply.text());
    }
    assert_eq!(client.get("/after").await.status, 200);
    server.metric("partita_panics_total 3").await;
}

#[tokio::test]
async fn rubbish_is_answered_with_400_or_closed() {
    let server = start(|_| {});
    let rubbish: [&[u8]; 9] = [
        b"\0\0\0\0\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\nab",
        b"\xff\xfe\xfd\r\n\r\n",
    ];
    for bytes in rubbish {
        let mut client = server.connect().await;
        client.send(bytes).await;
        let answer = client.closed().await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{bytes:?} got {text:?}");
    }
    assert_eq!(server.connect().await.get("/after").await.status, 200);
}

#[tokio::test]
async fn a_head_beyond_its_limits_is_refused() {
    let server = start(|_| {});
    let long = format!("GET / HTTP/1.1\r\nhost: a\r\nlong: {}\r\n\r\n", "x".repeat(70_000));
    let many = |count: usize| {
        let others: String = (1..count).map(|n| format!("h{n}: v\r\n")).collect();
        format!("GET / HTTP/1.1\r\nhost: a\r\n{others}\r\n")
    };
    for head in [long, many(limits::HEADERS_MAX + 1)] {
        let mut client = server.connect().await;
        client.try_send(head).await;
        let answer = client.closed().await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1.1 431") || text.is_empty(), "{text:?}");
    }
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nlarge: {}\r\n\r\n", "x".repeat(48_000));
    for head in [large, many(limits::HEADERS_MAX)] {
        let mut client = server.connect().await;
        client.send(head).await;
        assert_eq!(client.reply().await.status, 200);
    }
}

#[tokio::test]
async fn an_answer_can_come_late_or_not_at_all() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    assert_eq!(client.get("/late").await.text(), "delivered");
    client.send("GET /dropped HTTP/1.1\r\nhost: test\r\n\r\n").await;
    assert!(client.closed().await.is_empty(), "not a byte is sent");
    assert_eq!(server.connect().await.get("/after").await.status, 200);
}
