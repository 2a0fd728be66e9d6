//! Addresses, the cap on connections, and very many connections.

use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, TcpListener as StdListener};
use std::sync::Arc;

use partita_gateway::{
    BindError, Certificate, CertificateSource, Listen, Server, ServerSettings, ServiceStatus,
    Services, Shutdown, Telemetry,
};
use tokio::net::TcpStream;

use crate::support::{Client, TestDoor, start, unix_seconds};

fn bind(listen: Vec<Listen>) -> Result<Server, BindError> {
    let certificate = Certificate::open(&CertificateSource::Memory, &[], unix_seconds()).unwrap();
    let services = Services {
        door: Arc::new(TestDoor::new()),
        telemetry: Arc::new(Telemetry::new("test")),
        certificate,
        status: Arc::new(|| ServiceStatus {
            ready: true,
            trouble: None,
            details: "{}".to_string(),
        }),
        version: "test",
        compat: Bytes::from_static(b"{}"),
    };
    let settings = ServerSettings { listen, ..ServerSettings::default() };
    Server::bind(settings, services, Shutdown::new())
}

#[tokio::test]
async fn loopback_means_both_families_on_one_port() {
    let server = bind(vec![Listen::Loopback { port: 0 }]).unwrap();
    let addresses = server.addresses().to_vec();
    assert_eq!(addresses[0].ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    // A machine without IPv6 has only the first.
    assert!(addresses[1..].iter().all(|a| a.ip().is_loopback() && a.is_ipv6()));
    assert!(addresses.iter().all(|a| a.port() == addresses[0].port() && a.port() != 0));
    tokio::spawn(server.serve());
    for address in addresses {
        let mut client = Client::new(TcpStream::connect(address).await.unwrap());
        let text = client.get("/x").await.text().to_string();
        assert!(text.ends_with(&format!("local={address}\n")), "{text}");
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = StdListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused = bind(vec![Listen::Address(address)]);
    let Err(error) = refused else { panic!("bound to a port in use") };
    assert!(matches!(error, BindError::InUse { .. }));
    assert!(error.to_string().starts_with(&format!("{address} is in use")), "{error}");
}

#[tokio::test]
async fn an_address_of_another_machine_is_refused() {
    let refused = bind(vec![Listen::Address("192.0.2.1:0".parse().unwrap())]);
    let Err(error) = refused else { panic!("bound to an address that is not ours") };
    assert!(error.to_string().starts_with("cannot listen on 192.0.2.1:0"), "{error}");
    assert!(matches!(bind(Vec::new()), Err(BindError::Nowhere)));
}

#[tokio::test]
async fn connections_over_the_cap_are_closed_at_once() {
    let server = start(|settings| settings.connections_max = 2);
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    assert_eq!(first.get("/1").await.status, 200);
    assert_eq!(second.get("/2").await.status, 200);
    let mut third = server.connect().await;
    assert_eq!(third.closed().await, b"");
    server.metric(r#"partita_refused_total{reason="connections_max"} 1"#).await;
    drop(first);
    server.metric("partita_connections_open 1").await;
    assert_eq!(server.connect().await.get("/3").await.status, 200);
}

/// How many connections to open and drop; `PARTITA_TEST_CONNECTIONS=100000` for the long run.
fn connections() -> usize {
    match std::env::var("PARTITA_TEST_CONNECTIONS") {
        Ok(count) => count.parse().unwrap(),
        Err(_) => 3000,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_opened_and_dropped_leave_nothing_behind() {
    let server = start(|_| {});
    let count = connections();
    for number in 0..count {
        let mut client = server.connect().await;
        // Silent, half a head, half a preface, half a handshake, half a body, or a whole request.
        match number % 6 {
            0 => {}
            1 => client.send("GET / HTT").await,
            2 => client.send("PRI * HTTP/2.0").await,
            3 => client.send([0x16, 3, 1]).await,
            4 => client.send("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 9\r\n\r\nabc").await,
            _ => client.send("GET /x HTTP/1.1\r\nhost: t\r\n\r\n").await,
        }
    }
    server.metric(&format!("partita_connections_total {count}")).await;
    server.metric("partita_connections_open 0").await;
    assert_eq!(server.connect().await.get("/after").await.status, 200);
}
