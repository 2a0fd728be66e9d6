//! Somebody else's server, over TLS: answers every request with the same, which can be changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

/// The server. Its thread ends with the test's process.
pub(crate) struct Https {
    pub(crate) port: u16,
    /// Of the authority that signed its certificate.
    pub(crate) authority: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Status line and headers, and body.
    answer: Mutex<(String, String)>,
    /// Bodies of what was asked.
    asked: Mutex<Vec<String>>,
}

impl Https {
    /// Its certificate is for `localhost`, and for nobody else.
    pub(crate) fn start() -> Https {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key);
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let serve = move || {
            for stream in listener.incoming() {
                // Who does not trust the certificate hangs up.
                drop(served.serve(stream.unwrap(), Arc::clone(&config)));
            }
        };
        thread::Builder::new().spawn(serve).unwrap();
        Https { port, authority: authority.pem(), shared }
    }

    /// What is answered from now on.
    pub(crate) fn answer(&self, head: &str, body: &str) {
        *self.shared.answer.lock().unwrap() = (head.to_owned(), body.to_owned());
    }

    /// The bodies of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap().clone()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
        let tls = ServerConnection::new(config).unwrap();
        let mut reader = BufReader::new(StreamOwned::new(tls, stream));
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        self.asked.lock().unwrap().push(String::from_utf8(body).unwrap());
        let (head, body) = self.answer.lock().unwrap().clone();
        let length = body.len();
        let mut stream = reader.into_inner();
        write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}")?;
        stream.flush()
    }
}
