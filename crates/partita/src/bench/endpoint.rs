//! Where the account is: a URL taken apart, and for https whom to believe.
//!
//! Certificates are checked against those that the system trusts, which are in one of a few well
//! known files, or against a file of the user's. There is no switch to check nothing: a server of
//! ours speaks plain HTTP on the same port, and serves its certificate for those who want to trust
//! it.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::failure::Failure;

/// Where systems keep the certificates that they trust, in one file: Debian and Alpine, Red Hat,
/// SUSE, macOS and the BSDs.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// An account's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_https: bool,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Endpoint, Failure> {
        let wrong = || {
            Failure::usage(format!(
                "--endpoint {text:?}: write http://HOST:PORT or https://HOST:PORT, for example \
                 http://localhost:8081"
            ))
        };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_https = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Endpoint { host, port, is_https })
    }

    /// What requests name as their host.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Is it on this machine?
    pub(crate) fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// The name that its certificate must have.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, Failure> {
        ServerName::try_from(self.host.clone()).map_err(|_| {
            Failure::usage(format!("--endpoint: {:?} is not the name of a host", self.host))
        })
    }
}

/// Makes TLS connections that believe these authorities (PEM), or the system's.
pub(crate) fn connector(authorities: Option<&[u8]>) -> Result<TlsConnector, Failure> {
    let roots = match authorities {
        Some(pem) => roots_of(pem).map_err(|why| Failure::usage(format!("--ca-file: {why}")))?,
        None => system_roots()?,
    };
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::other(format!("TLS cannot be used: {error}")))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn system_roots() -> Result<RootCertStore, Failure> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let files = named.into_iter().chain(SYSTEM_AUTHORITIES.map(str::to_owned));
    let found = files.filter_map(|file| fs::read(file).ok()).find_map(|pem| roots_of(&pem).ok());
    found.ok_or_else(|| {
        Failure::other(
            "the system's trusted certificates were not found, so nobody can be trusted over \
             https: name a file of them (PEM) with --ca-file",
        )
    })
}

/// Certificates that cannot be read are passed over, as long as there are others.
fn roots_of(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
        drop(roots.add(certificate));
    }
    if roots.is_empty() {
        return Err("it has no certificate in PEM form".to_owned());
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let parse = |text| Endpoint::parse(text).unwrap();
        let service = parse("https://account.documents.example:443/");
        assert_eq!((service.port, service.is_https), (443, true));
        assert_eq!(service.authority(), "account.documents.example:443");
        assert!(!service.is_loopback());
        assert_eq!(parse("http://h").port, 80);
        assert_eq!(parse("https://h").port, 443);
        let six = parse("http://[::1]:8081");
        assert_eq!((six.url().as_str(), six.is_loopback()), ("http://[::1]:8081", true));
        assert!(parse("http://LOCALHOST:1").is_loopback());
    }

    #[test]
    fn what_is_no_url_of_an_account_is_refused_with_an_example() {
        for text in ["", "localhost:8081", "ftp://h", "http://", "http://h/dbs", "http://h/?a=b"] {
            let refused = Endpoint::parse(text).unwrap_err().to_string();
            assert!(refused.contains("http://localhost:8081"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let refused = connector(Some(b"no certificate")).err().unwrap().to_string();
        assert!(refused.contains("--ca-file"), "{refused}");
    }
}
