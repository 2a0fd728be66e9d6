//! HTTP/2 with prior knowledge on the plain port, and within TLS.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestServer, start};

pub(crate) async fn speak<S>(stream: S) -> SendRequest<Full<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn connect(server: &TestServer) -> SendRequest<Full<Bytes>> {
    speak(TcpStream::connect(server.address).await.unwrap()).await
}

fn request(method: &str, path: &str, body: Bytes) -> hyper::Request<Full<Bytes>> {
    hyper::Request::builder()
        .method(method)
        .uri(format!("http://example:8081{path}"))
        .body(Full::new(body))
        .unwrap()
}

pub(crate) async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: impl Into<Bytes>,
) -> (http::response::Parts, String) {
    let response = sender.send_request(request(method, path, body.into())).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn prior_knowledge_works_on_the_plain_port() {
    let server = start(|_| {});
    let mut sender = connect(&server).await;
    let (parts, text) = exchange(&mut sender, "POST", "/two", vec![b'x'; 300_000]).await;
    assert_eq!(parts.status, 200);
    assert_eq!(parts.version, http::Version::HTTP_2);
    assert!(text.starts_with("POST /two http host=example:8081 body=300000 "), "{text}");
    assert_eq!(parts.headers["content-length"], text.len().to_string().as_str());
    assert!(parts.headers.contains_key("date"));
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let server = start(|_| {});
    let sender = connect(&server).await;
    let requests: Vec<_> = (0..500)
        .map(|number| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                sender.ready().await.unwrap();
                let path = format!("/{number}");
                let (parts, text) = exchange(&mut sender, "GET", &path, "").await;
                assert_eq!(parts.status, 200);
                assert!(text.starts_with(&format!("GET /{number} http")), "{text}");
            })
        })
        .collect();
    for request in requests {
        request.await.unwrap();
    }
    server.metric("partita_connections_total 1").await;
}

#[tokio::test]
async fn responses_have_the_same_form_as_with_http1() {
    let server = start(|_| {});
    let mut sender = connect(&server).await;
    for (path, status) in [("/empty", 204), ("/unmodified", 304)] {
        let (parts, text) = exchange(&mut sender, "GET", path, "").await;
        assert_eq!(parts.status, status);
        assert_eq!(parts.headers.get("content-length"), None);
        assert_eq!(text, "");
    }
    let (parts, text) = exchange(&mut sender, "HEAD", "/alive", "").await;
    assert_eq!((parts.status.as_u16(), text.as_str()), (200, ""));
    assert_eq!(parts.headers["content-length"], "6");
    let (parts, _) = exchange(&mut sender, "GET", "/panic", "").await;
    assert_eq!(parts.status, 500);
    let (parts, _) = exchange(&mut sender, "GET", "/after", "").await;
    assert_eq!(parts.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_ends_its_stream_only() {
    let server = start(|settings| settings.body_bytes_max = 1000);
    let mut sender = connect(&server).await;
    let (parts, text) = exchange(&mut sender, "POST", "/x", vec![b'x'; 1001]).await;
    assert_eq!(parts.status, 413);
    assert!(text.contains("exceeds the limit of 1000 bytes"), "{text}");
    assert_eq!(parts.headers.get("connection"), None);
    let (parts, _) = exchange(&mut sender, "GET", "/after", "").await;
    assert_eq!(parts.status, 200);
}

#[tokio::test]
async fn a_preface_followed_by_rubbish_is_closed() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish that is no frame at all").await;
    client.closed().await;
    server.metric("partita_connections_open 0").await;
}

#[tokio::test]
async fn an_idle_connection_is_told_to_go_away() {
    let server = start(|settings| settings.idle = Duration::from_millis(60));
    let mut sender = connect(&server).await;
    assert_eq!(exchange(&mut sender, "GET", "/first", "").await.0.status, 200);
    server.metric("partita_connections_open 0").await;
    assert!(sender.ready().await.is_err());
}

#[tokio::test]
async fn a_request_names_one_host() {
    let server = start(|_| {});
    let mut sender = connect(&server).await;
    for (hosts, told) in [
        (&["example:8081"][..], None),
        (&["other"], Some("different hosts")),
        (&["example:8081", "example:8081"], Some("more than one Host header")),
    ] {
        let mut request = request("GET", "/now", Bytes::new());
        for host in hosts {
            request.headers_mut().append("host", host.parse().unwrap());
        }
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), if told.is_some() { 400 } else { 200 }, "{hosts:?}");
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let text = std::str::from_utf8(&text).unwrap();
        assert!(told.is_none_or(|told| text.contains(told)), "{text}");
    }
}

#[tokio::test]
async fn a_dropped_answer_ends_its_stream_and_no_other() {
    let server = start(|_| {});
    let mut sender = connect(&server).await;
    let dropped = sender.send_request(request("GET", "/dropped", Bytes::new())).await;
    assert!(dropped.is_err());
    assert_eq!(exchange(&mut sender, "GET", "/late", Bytes::new()).await.1, "delivered");
}

#[tokio::test]
async fn clients_that_read_nothing_make_room_for_others() {
    let server = start(|settings| settings.bodies_bytes_max = 200 << 20);
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut sender = connect(&server).await;
        let response = sender.send_request(request("GET", "/large", Bytes::new())).await.unwrap();
        silent.push((sender, response));
    }
    server.metric_at_least(r#"partita_refused_total{reason="slow_reader"}"#, 13).await;
    server.bodies_at_most(200 << 20).await;

    let mut reader = connect(&server).await;
    let (_, text) = exchange(&mut reader, "GET", "/large", Bytes::new()).await;
    assert_eq!(text.len(), 32 << 20, "who reads gets everything");
    drop((silent, reader));
    server.metric("partita_connections_open 0").await;
    server.bodies_at_most(0).await;
}

/// A client whose streams may be sent so much and no more.
async fn with_window(server: &TestServer, bytes: u32) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(bytes);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn an_answer_that_stays_unread_ends_its_connection_whatever_else_is_read() {
    let server = start(|settings| settings.write_stall = Duration::from_millis(200));
    // Nothing may be sent on a stream, yet the socket takes all there is: it is never stalled.
    let mut sender = with_window(&server, 0).await;
    let unread = sender.send_request(request("GET", "/small", Bytes::new())).await.unwrap();
    let others = async {
        while let Ok(response) = sender.send_request(request("GET", "/empty", Bytes::new())).await {
            assert_eq!(response.status(), 204);
        }
    };
    timeout(PATIENCE, others).await.expect("it went on for ever");
    server.metric(r#"partita_refused_total{reason="write_timeout"} 1"#).await;
    server.metric("partita_connections_open 0").await;
    server.bodies_at_most(0).await;
    drop(unread);
}

#[tokio::test]
async fn who_reads_slowly_is_not_cut() {
    let server = start(|settings| settings.write_stall = Duration::from_secs(1));
    let mut sender = with_window(&server, 64 * 1024).await;
    let response = sender.send_request(request("GET", "/megabyte", Bytes::new())).await.unwrap();
    let mut body = response.into_body();
    let mut bytes = 0;
    // For longer than a stream may stay unread.
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().unwrap().len();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(bytes, 1 << 20);
}

#[tokio::test]
async fn nobody_unknown_has_a_large_body_read() {
    let server = start(|_| {});
    let mut sender = connect(&server).await;
    for path in ["/unknown", "/unknown-later"] {
        let (parts, text) = exchange(&mut sender, "POST", path, vec![b'x'; 100_000]).await;
        assert_eq!((parts.status.as_u16(), text.as_str()), (401, "who are you?"));
    }
    let (_, text) = exchange(&mut sender, "POST", "/known-later", vec![b'x'; 100_000]).await;
    assert!(text.contains(" body=100000 "), "{text}");
}
