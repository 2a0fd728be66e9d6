//! Which certificates are trusted over https.
//!
//! Certificates are checked against those that the system trusts, which are in one of a few well
//! known files, or against a file of the user's. There is no switch to check nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Where systems keep the certificates that they trust, in one file: Debian and Alpine, Red Hat,
/// SUSE, macOS and the BSDs.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Trusted certificate authorities: the system's, or those in a file.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// The setting that names a file of them, for messages.
    pub(crate) setting: &'static str,
    pem: Option<Arc<[u8]>>,
}

impl Authorities {
    /// Those in this file, or the system's. The system's are not read yet.
    pub fn read(setting: &'static str, file: Option<&Path>) -> Result<Authorities, String> {
        let Some(file) = file else { return Ok(Authorities { setting, pem: None }) };
        let failed = |why: String| format!("{setting} {}: {why}", file.display());
        let pem = fs::read(file).map_err(|error| failed(error.to_string()))?;
        roots_of(&pem).map_err(failed)?;
        Ok(Authorities { setting, pem: Some(pem.into()) })
    }

    /// Makes TLS connections that trust them.
    pub(crate) fn tls_connector(&self) -> Result<TlsConnector, String> {
        let roots = match &self.pem {
            Some(pem) => roots_of(pem)?,
            None => self.system_roots()?,
        };
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn system_roots(&self) -> Result<RootCertStore, String> {
        let named = std::env::var("SSL_CERT_FILE").ok();
        let files = named.into_iter().chain(SYSTEM_AUTHORITIES.map(str::to_owned));
        let mut read = files.filter_map(|file| fs::read(file).ok());
        read.find_map(|pem| roots_of(&pem).ok()).ok_or_else(|| {
            format!(
                "the system's trusted certificates were not found, so no server can be trusted over \
                 https: name a file of them (PEM) with {}",
                self.setting
            )
        })
    }
}

/// Certificates that cannot be read are skipped, as long as there are others.
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
    fn a_file_without_certificates_is_refused() {
        let refused = Authorities::read("--ca-file", Some(Path::new("Cargo.toml"))).unwrap_err();
        assert!(refused.contains("--ca-file Cargo.toml: it has no certificate"), "{refused}");
        let refused = Authorities::read("--ca-file", Some(Path::new("/nowhere"))).unwrap_err();
        assert!(refused.contains("--ca-file /nowhere"), "{refused}");
    }
}
