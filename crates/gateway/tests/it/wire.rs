//! HTTP/1.1 byte by byte: what clients get wrong, and what few of them know. Where hyper has an
//! opinion it is asked, too.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Client, TestServer, start};

/// A server of hyper's that reads bodies and says yes.
async fn hyper_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| async {
                    let status = match request.into_body().collect().await {
                        Ok(_) => 200,
                        Err(_) => 400,
                    };
                    let response = hyper::Response::builder().status(status);
                    Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
                });
                let mut builder = hyper::server::conn::http1::Builder::new();
                let _ = builder
                    .max_buf_size(65_536)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// The statuses of all that a server says to these bytes until it closes.
async fn statuses(address: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut client = Client::new(TcpStream::connect(address).await.unwrap());
    client.try_send(bytes).await;
    let answers = client.closed().await;
    let text = String::from_utf8_lossy(&answers).into_owned();
    let starts = text.match_indices("HTTP/1.").map(|(at, _)| at + "HTTP/1.1 ".len());
    starts.map(|at| text[at..at + 3].parse().unwrap()).collect()
}

/// Ends every connection that is still good.
const LAST: &str = "GET /now HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn what_hyper_accepts_and_refuses_is_accepted_and_refused() {
    let (server, hyper) = (start(|_| {}), hyper_server().await);
    let many = "a: b\r\n".repeat(101);
    for request in [
        "GET /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "\r\n\r\nGET /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nno-host: a\r\n\r\n",
        "GET /now HTTP/1.0\r\n\r\n",
        "GET /now HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        "GET /now HTTP/1.2\r\n\r\n",
        "GET /now HTTP/2.0\r\n\r\n",
        "GET /now\r\n\r\n",
        "GET  /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /no w HTTP/1.1\r\nhost: a\r\n\r\n",
        "get /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "PROPFIND /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "G@T /now HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET http://b:81/now HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /n%6fw?%zz HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /é HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /a\"{}|^\\ HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /< HTTP/1.1\r\nhost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\na : b\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\n a: b\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\na: b\r\n c\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nn\u{e4}me: b\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nname: \u{e4}\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nname: a\0b\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nname: a\rb\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nname\r\n\r\n",
        "GET /now HTTP/1.1\r\nhost: a\r\nname:\r\n\r\n",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 03\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: -3\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 3 3\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\nabc",
        "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, gzip\r\n\r\nabc",
        "POST /now HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: CHUNKED\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\na: b\r\n\r\n",
        "POST /now HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab",
        "GET /now HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        &format!("GET /now HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
    ] {
        let bytes = format!("{request}{LAST}");
        let ours = statuses(server.address, bytes.as_bytes()).await;
        let hypers = statuses(hyper, bytes.as_bytes()).await;
        assert_eq!(ours, hypers, "{request:?}");
        assert!(!ours.is_empty(), "{request:?}");
    }
}

#[tokio::test]
async fn what_two_readers_could_understand_differently_is_refused() {
    let server = start(|_| {});
    let chunked = "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n";
    for request in [
        "GET /now HTTP/1.1\nhost: a\n\n",
        "GET /now HTTP/1.1\r\nhost: a\nb: c\r\n\r\n",
        "POST /now HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
        &format!("{chunked}content-length: 3\r\n\r\n0\r\n\r\n"),
        &format!("{chunked}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n3\nabc\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n3\r\nabcd\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n3\r\nabc\n0\r\n\r\n"),
        &format!("{chunked}\r\n 3\r\nabc\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n0x3\r\nabc\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n10000000000000003\r\nabc\r\n0\r\n\r\n"),
        &format!("{chunked}\r\n3\r\nabc\r\n0\r\nno colon\r\n\r\n"),
        &format!("{chunked}\r\n3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(20_000)),
        &format!("{chunked}\r\n{}0\r\n\r\n", "1;extension\r\na\r\n".repeat(1_000)),
        &format!("{chunked}\r\n0\r\n{}\r\n", "a: b\r\n".repeat(4_000)),
        "GET /#fragment HTTP/1.1\r\nhost: a\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET now HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let bytes = format!("{request}{LAST}");
        assert_eq!(statuses(server.address, bytes.as_bytes()).await, [400], "{request:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_good_host_is_told_what_is_wrong() {
    let server = start(|_| {});
    for (headers, told) in [
        ("", "no Host header"),
        ("host: a\r\nhost: a\r\n", "more than one Host header"),
        ("host: a/b\r\n", "not of the form HOST or HOST:PORT"),
    ] {
        let answer = raw(&server, &format!("GET /now HTTP/1.1\r\n{headers}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains(told), "{answer}");
    }
    server.metric(r#"partita_refused_total{reason="host"} 3"#).await;
}

/// However a chunk's extension arrives: what is too long in pieces is too long at once.
#[tokio::test]
async fn a_long_extension_is_refused_also_if_it_arrives_with_its_end() {
    let server = start(|_| {});
    let head = "POST /now HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    for (length, expected) in [(8_000, 200), (9_000, 400)] {
        let body = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length));
        let mut at_once = server.connect().await;
        at_once.send(format!("{head}{body}")).await;
        assert_eq!(at_once.reply().await.status, expected);
        let mut in_pieces = server.connect().await;
        in_pieces.send(head).await;
        for piece in body.as_bytes().chunks(1_000) {
            in_pieces.try_send(piece).await;
        }
        assert_eq!(in_pieces.reply().await.status, expected);
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_before_it_ends() {
    let server = start(|_| {});
    let bytes = format!("GET /now HTTP/1.1\r\nhost: a\r\na: {}", "x".repeat(70_000));
    assert_eq!(statuses(server.address, bytes.as_bytes()).await, [431]);
    server.metric(r#"partita_refused_total{reason="head_too_large"} 1"#).await;
    assert_eq!(statuses(server.address, b"rubbish\r\n\r\n").await, [400]);
    server.metric(r#"partita_refused_total{reason="head_malformed"} 1"#).await;
}

async fn raw(server: &TestServer, request: &str) -> String {
    let mut client = server.connect().await;
    client.send(request).await;
    String::from_utf8(client.closed().await).unwrap()
}

#[tokio::test]
async fn an_answer_says_what_becomes_of_the_connection() {
    let server = start(|_| {});
    let old = raw(&server, "GET /now HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200 OK\r\n") && old.contains("\r\nconnection: close\r\n"));
    let closed = raw(&server, LAST).await;
    assert!(closed.starts_with("HTTP/1.1 200 OK\r\n"), "{closed}");
    assert!(closed.contains("\r\nconnection: close\r\n"), "{closed}");
    let mut client = server.connect().await;
    assert_eq!(client.get("/now").await.header("connection"), None);
    client.send("GET /now HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
    let kept = client.reply().await;
    assert_eq!(kept.header("connection"), Some("keep-alive"));
    assert!(kept.head.starts_with("http/1.0 200"), "{}", kept.head);
    assert_eq!(client.get("/now").await.status, 200);
}

#[tokio::test]
async fn headers_are_in_the_doors_order_and_ours_follow() {
    let server = start(|_| {});
    let answer = raw(&server, LAST).await;
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    let names: Vec<&str> = head.lines().skip(1).map(|l| l.split(':').next().unwrap()).collect();
    assert_eq!(names, ["content-type", "connection", "content-length", "date"]);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_what_it_waited_for() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n").await;
    server.door.arrived.acquire().await.unwrap().forget();
    drop(client);
    server.metric("partita_connections_open 0").await;
    // The request was dropped, so nobody takes the permit.
    server.door.gate.add_permits(1);
    assert_eq!(server.door.gate.available_permits(), 1);
}

#[tokio::test]
async fn requests_behind_one_that_waits_are_answered_after_it() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client
        .send("GET /now HTTP/1.1\r\nhost: a\r\n\r\nGET /wait HTTP/1.1\r\nhost: a\r\n\r\nGET /now HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    // The first answer does not wait for the second.
    assert!(client.reply().await.text().starts_with("GET /now"));
    server.door.arrived.acquire().await.unwrap().forget();
    server.door.gate.add_permits(1);
    assert_eq!(client.reply().await.text(), "waited");
    assert!(client.reply().await.text().starts_with("GET /now"));
}

#[tokio::test]
async fn an_expecting_client_that_has_sent_its_body_is_not_told_to_go_on() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    let expect = "POST /now HTTP/1.1\r\nhost: a\r\nexpect: 100-Continue\r\n";
    client.send(format!("{expect}content-length: 3\r\n\r\nabc")).await;
    assert_eq!(client.reply().await.status, 200);
    client.send(format!("{expect}transfer-encoding: chunked\r\n\r\n")).await;
    assert_eq!(client.reply().await.status, 100);
    client.send("3\r\nabc\r\n0\r\n\r\n").await;
    assert!(client.reply().await.text().contains(" body=3 "));
    client.send(format!("{expect}content-length: 0\r\n\r\n")).await;
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn a_body_that_nobody_wants_is_read_all_the_same() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("GET /alive HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nGET").await;
    assert_eq!(client.reply().await.text(), "alive\n");
    assert_eq!(client.get("/now").await.status, 200);
}

#[tokio::test]
async fn large_answers_and_small_ones_follow_each_other() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client
        .send("GET /now HTTP/1.1\r\nhost: a\r\n\r\nGET /large HTTP/1.1\r\nhost: a\r\n\r\nGET /now HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    for length in [None, Some(32 * 1024 * 1024), None] {
        let reply = client.reply().await;
        assert_eq!(reply.status, 200);
        assert!(length.is_none_or(|length| reply.body.len() == length));
    }
}

#[tokio::test]
async fn a_request_that_is_running_when_the_server_stops_is_told_of_the_end() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\nGET /now HTTP/1.1\r\nhost: a\r\n\r\n").await;
    server.door.arrived.acquire().await.unwrap().forget();
    server.shutdown.drain();
    // The connection looks at the shutdown when it is woken.
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.door.gate.add_permits(1);
    let reply = client.reply().await;
    assert_eq!((reply.text(), reply.header("connection")), ("waited", Some("close")));
    assert_eq!(client.closed().await, b"");
}

#[tokio::test]
async fn a_head_behind_an_answered_request_has_its_time() {
    let server = start(|settings| settings.head = Duration::from_millis(60));
    let mut client = server.connect().await;
    client.send("GET /now HTTP/1.1\r\nhost: a\r\n\r\nGET /now HTTP/1.1\r\nhost: a\r\nhalf: ").await;
    assert_eq!(client.reply().await.status, 200);
    assert_eq!(client.closed().await, b"");
    server.metric(r#"partita_refused_total{reason="head_timeout"} 1"#).await;
}
