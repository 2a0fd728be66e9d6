//! A connection, requests on it one after the other, answers, and why there are none.
//!
//! A connection that breaks or does not answer in time is not used again. What rustls has to say
//! about a certificate is turned into what somebody can do about it.

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
pub(crate) struct Dialer {
    endpoint: Endpoint,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The setting that names trusted certificates, for messages.
    setting: &'static str,
    /// How long a connection may take until it is made, and an answer until it is whole.
    timeout: Duration,
}

/// A connection that stays open.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    timeout: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    Connection(String),
    Timeout(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unanswered::Connection(why) | Unanswered::Timeout(why)) = self;
        f.write_str(why)
    }
}

impl Unanswered {
    pub(crate) fn connection(why: impl ToString) -> Unanswered {
        Unanswered::Connection(why.to_string())
    }

    fn timeout(what: &str, limit: Duration) -> Unanswered {
        Unanswered::Timeout(format!("{what} took more than {} seconds", limit.as_secs()))
    }
}

impl Dialer {
    /// For https the trusted certificates are read here.
    pub(crate) fn new(
        endpoint: Endpoint,
        authorities: &Authorities,
        timeout: Duration,
    ) -> Result<Dialer, String> {
        let tls = match endpoint.is_https {
            true => {
                let name = ServerName::try_from(endpoint.host.clone());
                let name =
                    name.map_err(|_| format!("{:?} is not the name of a host", endpoint.host))?;
                Some((authorities.connector()?, name))
            }
            false => None,
        };
        Ok(Dialer { endpoint, tls, setting: authorities.setting, timeout })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Unanswered> {
        match timeout(self.timeout, self.open()).await {
            Ok(opened) => opened,
            Err(_) => Err(Unanswered::timeout("the connection", self.timeout)),
        }
    }

    async fn open(&self) -> Result<Connection, Unanswered> {
        let address = (self.endpoint.host.as_str(), self.endpoint.port);
        let stream = TcpStream::connect(address).await.map_err(Unanswered::connection)?;
        // It only delays: requests are written whole.
        drop(stream.set_nodelay(true));
        let Some((tls, name)) = &self.tls else { return self.speak(stream).await };
        match tls.connect(name.clone(), stream).await {
            Ok(stream) => self.speak(stream).await,
            Err(error) => Err(Unanswered::Connection(self.distrust(&error))),
        }
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Connection, Unanswered> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(Unanswered::connection)?;
        // Its errors come out of the requests that meet them.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, timeout: self.timeout })
    }

    /// Why there is no TLS, and what to do about it.
    fn distrust(&self, error: &io::Error) -> String {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
        match tls {
            Some(TlsError::InvalidCertificate(wrong)) => self.distrust_certificate(wrong),
            Some(TlsError::InvalidMessage(_)) => {
                "it does not speak TLS there: is it the right port, or is http:// meant?".to_owned()
            }
            _ => format!("no TLS: {error}"),
        }
    }

    fn distrust_certificate(&self, wrong: &CertificateError) -> String {
        match wrong {
            CertificateError::UnknownIssuer => format!(
                "its certificate is signed by nobody who is trusted here: name a file with the \
                 certificate of its authority (PEM) with {}",
                self.setting
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has ended: renew it, or put this machine's clock right".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: put this machine's clock right".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate is not for {:?}: write the URL with a name that the \
                     certificate has",
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
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<http::Response<Bytes>, Unanswered> {
        let exchange = async {
            self.sender.ready().await.map_err(Unanswered::connection)?;
            let answer = self.sender.send_request(request).await;
            read(answer.map_err(Unanswered::connection)?, bytes_max).await
        };
        match timeout(self.timeout, exchange).await {
            Ok(answered) => answered,
            Err(_) => Err(Unanswered::timeout("the answer", self.timeout)),
        }
    }
}

async fn read(
    answer: http::Response<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<http::Response<Bytes>, Unanswered> {
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
        match error.is::<http_body_util::LengthLimitError>() {
            true => Unanswered::Connection(format!("its answer has more than {bytes_max} bytes")),
            false => Unanswered::Connection(error.to_string()),
        }
    })?;
    Ok(http::Response::from_parts(head, body.to_bytes()))
}
