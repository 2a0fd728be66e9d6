//! The certificate: the user's own, or one we make.
//!
//! A certificate of our own is made once and kept in the data directory, so that a client that
//! chose to trust it can go on doing so. It is made anew only if it has to be: it expires soon, it
//! lacks a name that is wanted, or it does not fit its key. Whether it still serves is asked of the
//! very code that a client would check it with.
//!
//! The private key never leaves its file (mode 0600) or this process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use ring::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// The user's own files (PEM): the chain, and the private key.
    Files { certificate: PathBuf, key: PathBuf },
    /// Made by us and kept in this directory as `cert.pem` and `key.pem`.
    Kept { directory: PathBuf },
    /// The same in a place that other servers use at the same time, with other names as well: those
    /// with names beyond the usual ones have a directory beside this one for each set of them. It
    /// may not be writable: then the certificate is for this run only.
    Shared { directory: PathBuf },
    /// Made by us for this run only.
    Memory,
}

/// A certificate with its key, ready to serve.
#[derive(Clone, Debug)]
pub struct Certificate {
    pem: Bytes,
    config: Arc<ServerConfig>,
    path: Option<PathBuf>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} holds no {what} in PEM form: {reason}", path = path.display())]
    Pem { path: PathBuf, what: &'static str, reason: String },
    #[error("{name:?} is neither a host name nor an IP address")]
    Name { name: String },
    #[error("the certificate {path} cannot be used: {reason}", path = path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// How long a certificate of ours is valid: just below the 825 days that Apple's systems accept.
const VALID_DAYS: u64 = 820;
/// It is made anew when fewer days than this are left.
const RENEW_DAYS: u64 = 30;
const DAY_SECONDS: u64 = 86_400;

impl Certificate {
    /// Loads or makes the certificate. `names` are host names and IP addresses that a certificate
    /// of ours must cover beside `localhost` and the loopback addresses.
    pub fn open(
        source: &CertificateSource,
        names: &[String],
        now_unix_seconds: u64,
    ) -> Result<Certificate, TlsError> {
        for name in names {
            check_name(name)?;
        }
        match source {
            CertificateSource::Files { certificate, key } => open_files(certificate, key),
            CertificateSource::Kept { directory } => open_kept(directory, names, now_unix_seconds),
            CertificateSource::Shared { directory } => {
                match open_shared(directory, names, now_unix_seconds) {
                    Err(error) => {
                        tracing::warn!("the certificate is for this run only: {error}");
                        open_in_memory(names, now_unix_seconds)
                    }
                    opened => opened,
                }
            }
            CertificateSource::Memory => open_in_memory(names, now_unix_seconds),
        }
    }

    /// The certificate (never the key) as PEM text.
    pub fn pem(&self) -> Bytes {
        self.pem.clone()
    }

    /// The file that holds it, if one does.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The TLS settings that serve it: HTTP/2 and HTTP/1.1, TLS 1.2 and 1.3.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn open_files(certificate: &Path, key: &Path) -> Result<Certificate, TlsError> {
    let pair = Pair { certificate: read(certificate)?, key: read(key)? };
    if let Err(reason) = pair.key_der() {
        return Err(TlsError::Pem { path: key.to_path_buf(), what: "private key", reason });
    }
    pair.certificate(Some(certificate.to_path_buf()))
        .map_err(|reason| TlsError::Unusable { path: certificate.to_path_buf(), reason })
}

fn open_in_memory(names: &[String], now: u64) -> Result<Certificate, TlsError> {
    Pair::make(names, now)?.certificate(None).map_err(TlsError::Make)
}

fn open_kept(directory: &Path, names: &[String], now: u64) -> Result<Certificate, TlsError> {
    match find_kept(directory, names, now) {
        Some(kept) => Ok(kept),
        None => make_kept(directory, names, now),
    }
}

/// A new pair is made beside its place and moved there whole: of servers that start at the same
/// time one is first, and the others take what that has left.
fn open_shared(directory: &Path, names: &[String], now: u64) -> Result<Certificate, TlsError> {
    let directory = &directory_for(directory, names);
    if let Some(kept) = find_kept(directory, names, now) {
        return Ok(kept);
    }
    let own = directory.with_extension(format!("{}.new", std::process::id()));
    let moved = make_kept(&own, names, now).map(|_| {
        if fs::rename(&own, directory).is_err() && find_kept(directory, names, now).is_none() {
            // What is there serves no more.
            drop(fs::remove_dir_all(directory));
            drop(fs::rename(&own, directory));
        }
        // Who cannot do so has the certificate all the same, until the power fails.
        drop(sync_names_beside(directory));
    });
    drop(fs::remove_dir_all(&own));
    moved?;
    find_kept(directory, names, now).ok_or_else(|| TlsError::Unusable {
        path: directory.to_path_buf(),
        reason: "other servers change it all the time".to_owned(),
    })
}

/// Where the certificate for a set of names is: who has trusted one shall not lose it to a server
/// that wants other names.
fn directory_for(directory: &Path, names: &[String]) -> PathBuf {
    let usual = base_names();
    let mut more: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    more.retain(|name| !usual.contains(name));
    more.sort();
    more.dedup();
    if more.is_empty() {
        return directory.to_path_buf();
    }
    // Names can be longer than the name of a directory may be.
    let digest = digest(&SHA256, more.join("\n").as_bytes());
    let mark: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let mut name = directory.file_name().unwrap_or_default().to_os_string();
    name.push(format!("-{mark}"));
    directory.with_file_name(name)
}

/// The certificate in a directory, if it is one that serves.
fn find_kept(directory: &Path, names: &[String], now: u64) -> Option<Certificate> {
    let (certificate_path, key_path) = (directory.join("cert.pem"), directory.join("key.pem"));
    let (Ok(certificate), Ok(key)) = (fs::read(&certificate_path), fs::read(&key_path)) else {
        return None;
    };
    let pair = Pair { certificate, key };
    if let Err(reason) = pair.still_serves(names, now) {
        tracing::info!("the kept certificate no longer serves ({reason}): making a new one");
        return None;
    }
    let kept = pair.certificate(Some(certificate_path)).ok();
    if kept.is_none() {
        tracing::warn!("the kept certificate does not fit its key: making a new one");
    }
    kept
}

fn make_kept(directory: &Path, names: &[String], now: u64) -> Result<Certificate, TlsError> {
    let (certificate_path, key_path) = (directory.join("cert.pem"), directory.join("key.pem"));
    let pair = Pair::make(names, now)?;
    let failed = |source| TlsError::Write { path: directory.to_path_buf(), source };
    fs::create_dir_all(directory).map_err(failed)?;
    sync_names_beside(directory).map_err(failed)?;
    // The key first: a crash in between leaves a pair that does not fit, and is made anew.
    write_file(&key_path, &pair.key, 0o600)?;
    write_file(&certificate_path, &pair.certificate, 0o644)?;
    pair.certificate(Some(certificate_path)).map_err(TlsError::Make)
}

/// A certificate chain and its private key, both PEM.
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn make(names: &[String], now: u64) -> Result<Pair, TlsError> {
        let failed = |error: rcgen::Error| TlsError::Make(error.to_string());
        let mut all = base_names();
        all.extend(host_name().filter(|name| check_name(name).is_ok()));
        all.extend(names.iter().cloned());
        let mut seen = std::collections::HashSet::new();
        all.retain(|name| seen.insert(name.to_ascii_lowercase()));

        let mut params = CertificateParams::new(all).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.distinguished_name.push(DnType::OrganizationName, "Partita self-signed");
        // Not an authority: who trusts it trusts this server and nothing else.
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        // A day back, for clients whose clock is behind.
        params.not_before = epoch + Duration::from_secs(now.saturating_sub(DAY_SECONDS));
        params.not_after = epoch + Duration::from_secs(now + VALID_DAYS * DAY_SECONDS);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Pair {
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        })
    }

    fn certificate(self, path: Option<PathBuf>) -> Result<Certificate, String> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(self.chain()?, self.key_der()?);
        let mut config = config.map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Certificate { pem: self.certificate.into(), config: Arc::new(config), path })
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        match chain {
            Ok(chain) if chain.is_empty() => Err("it holds no certificate in PEM form".into()),
            Ok(chain) => Ok(chain),
            Err(error) => Err(error.to_string()),
        }
    }

    fn key_der(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| error.to_string())
    }

    /// Would a client that trusts this certificate accept it for all names, and for a while yet?
    fn still_serves(&self, names: &[String], now: u64) -> Result<(), String> {
        let chain = self.chain()?;
        let leaf = chain.first().ok_or("it is empty")?;
        let mut roots = RootCertStore::empty();
        roots.add(leaf.clone()).map_err(|error| error.to_string())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| error.to_string())?;
        let soon = UnixTime::since_unix_epoch(Duration::from_secs(now + RENEW_DAYS * DAY_SECONDS));
        for name in base_names().iter().chain(names) {
            let server = ServerName::try_from(name.as_str()).map_err(|error| error.to_string())?;
            verifier
                .verify_server_cert(leaf, &[], &server, &[], soon)
                .map_err(|error| format!("for {name}: {error}"))?;
        }
        Ok(())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn base_names() -> Vec<String> {
    vec![
        "localhost".to_string(),
        IpAddr::V4(Ipv4Addr::LOCALHOST).to_string(),
        IpAddr::V6(Ipv6Addr::LOCALHOST).to_string(),
    ]
}

/// This machine's name, where the system tells it in a file. It is covered when a certificate is
/// made, but its change is no reason to make another: containers get a new name with every start.
fn host_name() -> Option<String> {
    let name = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .find_map(|path| fs::read_to_string(path).ok())?;
    Some(name.trim().to_string()).filter(|name| !name.is_empty())
}

fn check_name(name: &str) -> Result<(), TlsError> {
    match ServerName::try_from(name) {
        Ok(_) => Ok(()),
        Err(_) => Err(TlsError::Name { name: name.to_string() }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_path_buf(), source })
}

/// Makes the names in a file's directory outlast a loss of power: clients trust a certificate that
/// they were shown, and shall not be shown another one afterwards.
fn sync_names_beside(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if cfg!(unix) => fs::File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

/// Writes a file beside its place, then moves it there: it is never seen half-written.
fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let beside = path.with_extension("new");
    let write = || {
        // A left-over of an earlier crash may have another mode.
        if beside.exists() {
            fs::remove_file(&beside)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        let mut file = options.open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_names_beside(path)
    };
    write().map_err(|source| TlsError::Write { path: path.to_path_buf(), source })
}
