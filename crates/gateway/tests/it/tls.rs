//! TLS on the same port, and where the certificate comes from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use partita_gateway::{Certificate, CertificateSource, TlsError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http2::{exchange, speak};
use crate::leaving::{happens, reset};
use crate::support::{Client, TestServer, start, start_with, unix_seconds};

/// A client that trusts the server's certificate and nothing else.
async fn connect(server: &TestServer, name: &str, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    connect_trusting(&server.certificate.pem(), server, name, alpn).await
}

async fn connect_trusting(
    pem: &[u8],
    server: &TestServer,
    name: &str,
    alpn: &[&[u8]],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from(name.to_string()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn http_and_https_share_the_port() {
    let server = start(|_| {});
    let mut plain = server.connect().await;
    assert!(plain.get("/p").await.text().starts_with("GET /p http host=test"));
    for name in ["localhost", "127.0.0.1", "::1"] {
        let mut secure = Client::new(connect(&server, name, &[]).await);
        assert!(secure.get("/s").await.text().starts_with("GET /s https host=test"));
        assert_eq!(secure.get("/again").await.status, 200);
    }
}

#[tokio::test]
async fn alpn_chooses_the_version() {
    let server = start(|_| {});
    let one = connect(&server, "localhost", &[b"http/1.1"]).await;
    assert_eq!(one.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    assert_eq!(Client::new(one).get("/one").await.status, 200);

    let two = connect(&server, "localhost", &[b"h2", b"http/1.1"]).await;
    assert_eq!(two.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (parts, text) = exchange(&mut speak(two).await, "GET", "/two", "").await;
    assert_eq!(parts.version, http::Version::HTTP_2);
    assert!(text.starts_with("GET /two https host=example:8081"), "{text}");

    // Prior knowledge also works where the client did not negotiate.
    let unnamed = connect(&server, "localhost", &[]).await;
    let (parts, _) = exchange(&mut speak(unnamed).await, "GET", "/three", "").await;
    assert_eq!(parts.version, http::Version::HTTP_2);
}

/// A request within TLS that has reached the door.
async fn asked(server: &TestServer, path: &str) -> TlsStream<TcpStream> {
    let mut stream = connect(server, "localhost", &[]).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    happens(&server.door.arrived).await;
    stream
}

#[tokio::test]
async fn the_end_of_a_client_is_seen_through_tls_with_and_without_its_notice() {
    let server = start(|_| {});
    for says_so in [true, false] {
        for path in ["/wait", "/wait/answer"] {
            let mut stream = asked(&server, path).await;
            match says_so {
                true => stream.shutdown().await.unwrap(),
                false => stream.get_mut().0.shutdown().await.unwrap(),
            }
            if path == "/wait" {
                happens(&server.door.dropped).await;
                continue;
            }
            // The end has been seen when this has been answered: both are of one thread.
            assert_eq!(server.connect().await.get("/now").await.status, 200);
            server.door.gate.add_permits(1);
            assert_eq!(Client::new(stream).reply().await.text(), "waited");
            happens(&server.door.done).await;
        }
    }
}

#[tokio::test]
async fn a_reset_is_seen_through_tls() {
    let server = start(|_| {});
    for path in ["/wait", "/wait/answer"] {
        reset(asked(&server, path).await.into_inner().0);
        happens(&server.door.dropped).await;
    }
}

#[tokio::test]
async fn a_refused_upload_is_heard_through_tls_too() {
    let server = start(|_| {});
    let mut client = Client::new(connect(&server, "localhost", &[]).await);
    let length = 8 * 1024 * 1024;
    client.send(format!("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n")).await;
    client.send(vec![b'x'; length]).await;
    assert_eq!(client.reply().await.status, 413);
}

#[tokio::test]
async fn a_handshake_of_rubbish_is_counted() {
    let server = start(|_| {});
    let mut client = server.connect().await;
    client.send([0x16, 0x03, 0x01, 0x00, 0x05, 1, 2, 3, 4, 5]).await;
    client.closed().await;
    server.metric("partita_tls_handshake_failures_total 1").await;
    assert_eq!(server.connect().await.get("/after").await.status, 200);
}

#[tokio::test]
async fn the_certificate_can_be_downloaded_without_a_key() {
    let server = start(|_| {});
    let reply = server.connect().await.get("/_explorer/emulator.pem").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body, server.certificate.pem());
    assert!(reply.text().starts_with("-----BEGIN CERTIFICATE-----"));
    assert!(!reply.text().contains("PRIVATE"));
}

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

/// A fresh directory under the build's own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn kept(&self, names: &[&str], now: u64) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let directory = self.0.join("tls");
        Certificate::open(&CertificateSource::Kept { directory }, &names, now).unwrap()
    }

    fn shared(&self, names: &[&str], now: u64) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let directory = self.0.join("tls");
        Certificate::open(&CertificateSource::Shared { directory }, &names, now).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_kept_certificate_is_made_once_and_renewed_in_time() {
    let directory = Directory::new("kept_once");
    let first = directory.kept(&[], NOW);
    assert_eq!(first.path(), Some(directory.0.join("tls/cert.pem").as_path()));
    assert_eq!(directory.kept(&[], NOW + 1).pem(), first.pem());
    assert_eq!(directory.kept(&[], NOW + 789 * DAY).pem(), first.pem());
    let renewed = directory.kept(&[], NOW + 791 * DAY);
    assert_ne!(renewed.pem(), first.pem());
    assert_eq!(directory.kept(&[], NOW + 792 * DAY).pem(), renewed.pem());
}

#[test]
fn a_new_name_makes_a_new_certificate() {
    let directory = Directory::new("kept_names");
    let first = directory.kept(&[], NOW);
    let wider = directory.kept(&["db.example.org", "10.1.2.3"], NOW);
    assert_ne!(wider.pem(), first.pem());
    assert_eq!(directory.kept(&["10.1.2.3"], NOW).pem(), wider.pem());
}

#[test]
fn servers_with_other_names_leave_a_shared_certificate_alone() {
    let directory = Directory::new("shared_names");
    let plain = directory.shared(&[], NOW);
    assert_eq!(plain.path(), Some(directory.0.join("tls/cert.pem").as_path()));
    let wider = directory.shared(&["db.example.org", "10.1.2.3"], NOW);
    let other = directory.shared(&["db.example.org"], NOW);
    let long: Vec<String> = (0..40).map(|n| format!("a-rather-long-name-{n}.example")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let all = [plain, wider, other, directory.shared(&long, NOW)];
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|before| before.pem() != one.pem()), "{:?}", one.path());
        assert_eq!(fs::read(one.path().unwrap()).unwrap(), one.pem());
    }
    assert_eq!(directory.shared(&["localhost", "127.0.0.1"], NOW).pem(), all[0].pem());
    let same = ["10.1.2.3", "DB.example.org", "db.example.org"];
    assert_eq!(directory.shared(&same, NOW).pem(), all[1].pem());
    assert_eq!(directory.shared(&["db.example.org"], NOW).pem(), all[2].pem());
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 4, "nothing is left beside them");
    // Each is renewed in its own time and place.
    let renewed = directory.shared(&[], NOW + 791 * DAY);
    assert_ne!(renewed.pem(), all[0].pem());
    assert_eq!(fs::read(all[2].path().unwrap()).unwrap(), all[2].pem());
}

#[tokio::test]
async fn who_trusts_a_shared_certificate_trusts_the_next_server() {
    let directory = Directory::new("shared_trust");
    let now = unix_seconds();
    let trusted = directory.shared(&["db.example.org"], now).pem();
    directory.shared(&["another.example.org"], now);
    let server = start_with(directory.shared(&["db.example.org"], now), |_| {});
    for name in ["localhost", "db.example.org"] {
        let mut client = Client::new(connect_trusting(&trusted, &server, name, &[]).await);
        assert_eq!(client.get("/again").await.status, 200);
    }
}

#[test]
fn a_kept_pair_that_is_broken_is_made_anew() {
    let directory = Directory::new("kept_broken");
    let first = directory.kept(&[], NOW);
    fs::write(directory.0.join("tls/cert.pem"), "rubbish").unwrap();
    let second = directory.kept(&[], NOW);
    assert_ne!(second.pem(), first.pem());

    let other = Directory::new("kept_broken_other");
    other.kept(&[], NOW);
    fs::copy(other.0.join("tls/key.pem"), directory.0.join("tls/key.pem")).unwrap();
    assert_ne!(directory.kept(&[], NOW).pem(), second.pem());
}

#[cfg(unix)]
#[test]
fn the_key_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("kept_mode");
    directory.kept(&[], NOW);
    let mode = fs::metadata(directory.0.join("tls/key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_users_own_files_are_used_as_they_are() {
    let directory = Directory::new("own_files");
    let made = directory.kept(&[], unix_seconds());
    let (certificate, key) = (directory.0.join("tls/cert.pem"), directory.0.join("tls/key.pem"));
    let open = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_path_buf(), key.to_path_buf());
        Certificate::open(&CertificateSource::Files { certificate, key }, &[], 0)
    };
    assert_eq!(open(&certificate, &key).unwrap().pem(), made.pem());

    let absent = directory.0.join("absent.pem");
    assert!(matches!(open(&absent, &key), Err(TlsError::Read { path, .. }) if path == absent));
    assert!(matches!(open(&certificate, &certificate), Err(TlsError::Pem { .. })));
    assert!(matches!(open(&key, &key), Err(TlsError::Unusable { .. })));
    let other = Directory::new("own_files_other");
    other.kept(&[], NOW);
    let mixed = open(&certificate, &other.0.join("tls/key.pem"));
    assert!(matches!(mixed, Err(TlsError::Unusable { .. })), "{mixed:?}");
}

#[test]
fn a_name_that_is_none_is_refused() {
    let names = ["no host".to_string()];
    let refused = Certificate::open(&CertificateSource::Memory, &names, NOW);
    assert!(matches!(refused, Err(TlsError::Name { name }) if name == "no host"));
}
