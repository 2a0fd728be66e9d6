//! A connection, requests on it one after the other, responses, and why there are none.
//!
//! A connection that breaks or times out must not be used again. Errors of rustls about a
//! certificate become messages that say what the user can do.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, Error as TlsError};

use super::{Authorities, Endpoint};

/// Makes connections to one server.
pub struct Connector {
    endpoint: Endpoint,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The setting that names trusted certificates, for messages.
    setting: &'static str,
    limits: Limits,
}

/// How much time and memory a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until a connection is made, and again until a response is complete.
    pub timeout: Duration,
    /// Of the body of a response.
    pub response_bytes_max: usize,
}

/// A connection that stays open.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    limits: Limits,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    Connection(String),
    Timeout(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (RequestError::Connection(why) | RequestError::Timeout(why)) = self;
        f.write_str(why)
    }
}

impl RequestError {
    pub(crate) fn connection(why: impl ToString) -> RequestError {
        RequestError::Connection(why.to_string())
    }
}

impl Limits {
    async fn apply<T>(
        self,
        what: &str,
        work: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        timeout(self.timeout, work).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs();
            Err(RequestError::Timeout(format!("{what} took more than {seconds} seconds")))
        })
    }
}

impl Connector {
    /// For https the trusted certificates are read here.
    pub fn new(
        endpoint: Endpoint,
        authorities: &Authorities,
        limits: Limits,
    ) -> Result<Connector, String> {
        let tls = if endpoint.is_https {
            let name = ServerName::try_from(endpoint.host.clone());
            let name = name.map_err(|_| format!("{:?} is not a host name", endpoint.host))?;
            Some((authorities.tls_connector()?, name))
        } else {
            None
        };
        Ok(Connector { endpoint, tls, setting: authorities.setting, limits })
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub async fn connect(&self) -> Result<Connection, RequestError> {
        self.limits.apply("the connection", self.open()).await
    }

    async fn open(&self) -> Result<Connection, RequestError> {
        let address = (self.endpoint.host.as_str(), self.endpoint.port);
        let stream = TcpStream::connect(address).await.map_err(RequestError::connection)?;
        // Requests are written whole, so Nagle's algorithm would only delay them.
        drop(stream.set_nodelay(true));
        let Some((tls, name)) = &self.tls else { return self.handshake(stream).await };
        match tls.connect(name.clone(), stream).await {
            Ok(stream) => self.handshake(stream).await,
            Err(error) => Err(RequestError::Connection(self.tls_failure(&error))),
        }
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Connection, RequestError> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(RequestError::connection)?;
        // Its errors are reported by the requests that meet them.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, limits: self.limits })
    }

    /// Why there is no TLS, and what to do about it.
    fn tls_failure(&self, error: &io::Error) -> String {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        match tls {
            Some(TlsError::InvalidCertificate(wrong)) => self.certificate_failure(wrong),
            Some(TlsError::InvalidMessage(_)) => {
                "it does not speak TLS: is the port right, or do you mean http://?".to_owned()
            }
            _ => format!("no TLS: {error}"),
        }
    }

    fn certificate_failure(&self, wrong: &CertificateError) -> String {
        match wrong {
            CertificateError::UnknownIssuer => format!(
                "its certificate is signed by an authority that is not trusted here: name a file \
                 with the authority's certificate (PEM) with {}",
                self.setting
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it, or correct this machine's clock".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: correct this machine's clock".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate is not valid for {:?}: use a host name in the URL that the \
                     certificate names",
                    self.endpoint.host
                )
            }
            other => format!(
                "its certificate cannot be trusted: {}",
                TlsError::InvalidCertificate(other.clone())
            ),
        }
    }
}

impl Connection {
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Bytes>, RequestError> {
        let limits = self.limits;
        let exchange = async {
            self.sender.ready().await.map_err(RequestError::connection)?;
            let response = self.sender.send_request(request).await;
            read(response.map_err(RequestError::connection)?, limits.response_bytes_max).await
        };
        limits.apply("the answer", exchange).await
    }
}

async fn read(
    response: http::Response<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<http::Response<Bytes>, RequestError> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            RequestError::Connection(format!("its answer has more than {bytes_max} bytes"))
        } else {
            RequestError::Connection(error.to_string())
        }
    })?;
    Ok(http::Response::from_parts(head, body.to_bytes()))
}
