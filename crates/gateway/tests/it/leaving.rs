//! Clients that leave before they have their answer: by ending their side, or for good. What that
//! means for a request is the door's to say; here it says it by the path (`support.rs`).

use bytes::Bytes;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::http2::speak;
use crate::support::{Client, PATIENCE, TestServer, start};

/// Waits until this has happened.
pub(crate) async fn happens(what: &Semaphore) {
    timeout(PATIENCE, what.acquire()).await.expect("it did not happen").unwrap().forget();
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

/// A client whose request has reached the door.
async fn asked(server: &TestServer, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(get(path).as_bytes()).await.unwrap();
    happens(&server.door.arrived).await;
    stream
}

/// Closes a connection without the usual politeness.
#[allow(deprecated, reason = "zero lets nobody wait")]
pub(crate) fn reset(stream: TcpStream) {
    stream.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}

#[tokio::test]
async fn after_a_half_close_a_request_is_answered_if_the_door_says_so() {
    let server = start(|_| {});
    for path in ["/wait/answer", "/wait/finish"] {
        let mut stream = asked(&server, path).await;
        stream.shutdown().await.unwrap();
        // The end has been seen when this has been answered: both are of one thread.
        assert_eq!(server.connect().await.get("/now").await.status, 200);
        server.door.gate.add_permits(1);
        let mut client = Client::new(stream);
        assert_eq!(client.reply().await.text(), "waited");
        assert_eq!(client.closed().await, b"", "nothing more can come");
        happens(&server.door.done).await;
    }
}

#[tokio::test]
async fn a_half_close_cancels_what_may_take_long() {
    let server = start(|_| {});
    let mut stream = asked(&server, "/wait").await;
    stream.shutdown().await.unwrap();
    happens(&server.door.dropped).await;
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).await.unwrap(), 0, "{rest:?}");
}

#[tokio::test]
async fn a_reset_cancels_what_changes_nothing_and_nothing_else() {
    let server = start(|_| {});
    for path in ["/wait", "/wait/answer"] {
        reset(asked(&server, path).await);
        happens(&server.door.dropped).await;
    }
    reset(asked(&server, "/wait/finish").await);
    server.metric("partita_connections_open 0").await;
    server.door.gate.add_permits(1);
    happens(&server.door.done).await;
}

#[tokio::test]
async fn the_next_request_may_come_while_the_first_waits_and_its_end_is_seen_behind_it() {
    let server = start(|_| {});
    let mut stream = asked(&server, "/wait").await;
    stream.write_all(get("/now").as_bytes()).await.unwrap();
    assert_eq!(server.connect().await.get("/now").await.status, 200);
    server.door.gate.add_permits(1);
    let mut client = Client::new(stream);
    assert_eq!(client.reply().await.text(), "waited");
    assert_eq!(client.reply().await.status, 200);
    happens(&server.door.done).await;

    let mut stream = asked(&server, "/wait").await;
    stream.write_all(get("/now").as_bytes()).await.unwrap();
    drop(stream);
    happens(&server.door.dropped).await;
}

#[tokio::test]
async fn who_sends_much_behind_what_may_take_long_cannot_hide_the_end_with_it() {
    let server = start(|_| {});
    let much = "x".repeat(40_000);
    let mut stream = asked(&server, "/wait").await;
    stream.write_all(much.as_bytes()).await.unwrap();
    happens(&server.door.dropped).await;
    let mut client = Client::new(stream);
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (400, Some("close")));
    assert!(reply.text().contains("16384 bytes were sent behind"), "{}", reply.text());
    server.metric(r#"partita_refused_total{reason="sent_ahead"} 1"#).await;

    let mut stream = asked(&server, "/wait").await;
    stream.write_all(much.as_bytes()).await.unwrap();
    drop(stream);
    happens(&server.door.dropped).await;

    // What is done in any case is done, and answered.
    let mut stream = asked(&server, "/wait/finish").await;
    stream.write_all(much.as_bytes()).await.unwrap();
    server.door.gate.add_permits(1);
    assert_eq!(Client::new(stream).reply().await.text(), "waited");
}

#[tokio::test]
async fn requests_that_came_together_with_the_end_are_answered_in_order() {
    let server = start(|_| {});
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let requests = [get("/wait/finish"), get("/now"), get("/wait/answer"), get("/wait")].concat();
    stream.write_all(requests.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    server.door.gate.add_permits(2);
    let mut client = Client::new(stream);
    for _ in 0..3 {
        assert_eq!(client.reply().await.status, 200);
    }
    assert_eq!(client.closed().await, b"", "the last one is not begun");
    assert_eq!(server.door.gate.available_permits(), 0);
}

#[tokio::test]
async fn the_body_of_what_goes_on_without_its_client_counts_until_it_is_done() {
    const LENGTH: usize = 300_000;
    let server = start(|_| {});
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        format!("POST /wait/finish HTTP/1.1\r\nhost: test\r\ncontent-length: {LENGTH}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; LENGTH]).await.unwrap();
    happens(&server.door.arrived).await;
    reset(stream);
    server.metric("partita_connections_open 0").await;
    assert_eq!(server.bodies_bytes().await, LENGTH as u64);
    server.door.gate.add_permits(1);
    happens(&server.door.done).await;
    server.bodies_at_most(0).await;

    // The same over HTTP/2.
    let mut sender = speak(TcpStream::connect(server.address).await.unwrap()).await;
    let request = hyper::Request::post("http://test/wait/finish");
    let request = request.body(Full::new(Bytes::from(vec![b'x'; LENGTH]))).unwrap();
    let exchange = tokio::spawn(async move { drop(sender.send_request(request).await) });
    happens(&server.door.arrived).await;
    exchange.abort();
    server.metric("partita_connections_open 0").await;
    assert_eq!(server.bodies_bytes().await, LENGTH as u64);
    server.door.gate.add_permits(1);
    happens(&server.door.done).await;
    server.bodies_at_most(0).await;
}

/// A request of HTTP/2 that has reached the door; dropped, its stream is reset.
async fn streaming(server: &TestServer, path: &str) -> tokio::task::JoinHandle<()> {
    let mut sender = speak(TcpStream::connect(server.address).await.unwrap()).await;
    let request = hyper::Request::get(format!("http://test{path}"));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let exchange = tokio::spawn(async move { drop(sender.send_request(request).await) });
    happens(&server.door.arrived).await;
    exchange
}

#[tokio::test]
async fn a_reset_stream_cancels_what_changes_nothing_and_nothing_else() {
    let server = start(|_| {});
    for path in ["/wait", "/wait/answer"] {
        streaming(&server, path).await.abort();
        happens(&server.door.dropped).await;
    }
    streaming(&server, "/wait/finish").await.abort();
    server.metric("partita_connections_open 0").await;
    server.door.gate.add_permits(1);
    happens(&server.door.done).await;
}
