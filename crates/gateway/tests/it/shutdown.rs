//! Stopping: what runs may finish, what idles is closed, what hangs is cut.

use std::time::Duration;

use partita_gateway::Drained;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http2::{exchange, speak};
use crate::support::{PATIENCE, start};

#[tokio::test]
async fn a_running_request_finishes_and_new_connections_are_refused() {
    let server = start(|_| {});
    let mut running = server.connect().await;
    let mut idle = server.connect().await;
    assert_eq!(idle.get("/idle").await.status, 200);
    running.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n").await;
    server.door.arrived.acquire().await.unwrap().forget();

    server.shutdown.drain();
    assert_eq!(idle.closed().await, b"");
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    server.door.gate.add_permits(1);
    assert_eq!(running.reply().await.text(), "waited");
    assert_eq!(running.closed().await, b"");
    let ended = timeout(PATIENCE, server.ended).await.unwrap().unwrap();
    assert_eq!(ended, Drained { cut: 0 });
}

#[tokio::test]
async fn running_http2_requests_finish_too() {
    let server = start(|_| {});
    let mut sender = speak(TcpStream::connect(server.address).await.unwrap()).await;
    let running = tokio::spawn(async move { exchange(&mut sender, "GET", "/wait", "").await.1 });
    server.door.arrived.acquire().await.unwrap().forget();
    server.shutdown.drain();
    server.door.gate.add_permits(1);
    assert_eq!(running.await.unwrap(), "waited");
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap(), Drained { cut: 0 });
}

#[tokio::test]
async fn what_does_not_finish_is_cut() {
    let server = start(|settings| settings.drain = Duration::from_millis(50));
    let mut running = server.connect().await;
    running.send("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n").await;
    server.door.arrived.acquire().await.unwrap().forget();
    let mut silent = server.connect().await;
    server.metric("partita_connections_open 2").await;

    server.shutdown.drain();
    assert_eq!(running.closed().await, b"");
    assert_eq!(silent.closed().await, b"");
    let ended = timeout(PATIENCE, server.ended).await.unwrap().unwrap();
    assert_eq!(ended.cut, 1, "the silent connection was closed by the drain itself");
}
