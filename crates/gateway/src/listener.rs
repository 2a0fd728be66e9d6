//! Listening, accepting, and stopping.
//!
//! One task per listening address accepts; each connection gets a task of its own. A connection
//! over the cap is closed at once, which tells a client more than a hang would. If the process runs
//! out of descriptors the accept loop waits a moment and tries again. Both are logged, not too
//! often, with what to do about it.
//!
//! Stopping: the listeners close, connections wind down, and after the drain time whatever is left
//! is cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::body::BodyLimits;
use crate::budget::BodyBudget;
use crate::connection::{Host, http2_builder, serve};
use crate::door::Door;
use crate::endpoints::{Endpoints, ServiceStatus};
use crate::http::Site;
use crate::settings::{Listen, ServerSettings, limits};
use crate::shutdown::{Phase, Shutdown, reached};
use crate::telemetry::Telemetry;
use crate::tls::Certificate;

/// What the server needs from the rest of the program.
pub struct Services {
    pub door: Arc<dyn Door>,
    pub telemetry: Arc<Telemetry>,
    pub certificate: Certificate,
    /// Asked for each `/ready` and `/status`; must be quick.
    pub status: Arc<dyn Fn() -> ServiceStatus + Send + Sync>,
    /// Shown in `/status`.
    pub version: &'static str,
    /// The JSON of `/_compat`: what of the service's API is there.
    pub compat: Bytes,
}

/// A server that has its addresses and is ready to serve.
pub struct Server {
    host: Arc<Host>,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    open: Arc<AtomicUsize>,
    shutdown: Shutdown,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still open when the drain time was over.
    pub cut: usize,
}

/// Why an address could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{address} is in use by another process; stop that one or listen elsewhere")]
    InUse { address: SocketAddr },
    #[error("no permission to listen on {address}: ports below 1024 need privileges")]
    Forbidden { address: SocketAddr },
    #[error("cannot listen on {address}: {source}")]
    Other { address: SocketAddr, source: io::Error },
    #[error("no address to listen on")]
    Nowhere,
}

impl Server {
    /// Takes the addresses. Clients may connect from here on; they are answered once
    /// [`serve`](Server::serve) runs.
    #[allow(clippy::disallowed_methods, reason = "the server's uptime is real time")]
    pub fn bind(
        settings: ServerSettings,
        services: Services,
        shutdown: Shutdown,
    ) -> Result<Server, BindError> {
        let listeners = bind_all(&settings.listen)?;
        let addresses = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
        let bodies = BodyBudget::new(settings.bodies_bytes_max);
        let site = Arc::new(Site {
            door: services.door,
            endpoints: Endpoints {
                version: services.version,
                started: Instant::now(),
                certificate_pem: services.certificate.pem(),
                telemetry: Arc::clone(&services.telemetry),
                status: services.status,
                compat: services.compat,
                shutdown: shutdown.clone(),
                bodies: Arc::clone(&bodies),
            },
            bodies: BodyLimits {
                bytes_max: settings.body_bytes_max,
                time_max: settings.body,
                budget: Arc::clone(&bodies),
            },
            telemetry: services.telemetry,
        });
        let host = Arc::new(Host {
            site,
            settings,
            tls: TlsAcceptor::from(services.certificate.config()),
            http2: http2_builder(),
        });
        Ok(Server { host, listeners, addresses, open: Arc::default(), shutdown })
    }

    /// Where the server listens, with real port numbers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until the shutdown handle says drain, then drains.
    pub async fn serve(self) -> Drained {
        let mut loops = JoinSet::new();
        for listener in self.listeners {
            let (host, open) = (Arc::clone(&self.host), Arc::clone(&self.open));
            loops.spawn(accept(listener, host, open, self.shutdown.clone()));
        }
        while loops.join_next().await.is_some() {}
        drain(&self.shutdown, &self.open, self.host.settings.drain).await
    }
}

/// After a cut, tasks end at their next step; this is only not to hang on one that does not.
const CUT_SECONDS: u64 = 1;

async fn drain(shutdown: &Shutdown, open: &AtomicUsize, limit: Duration) -> Drained {
    if timeout(limit, shutdown.all_gone()).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = open.load(Ordering::Relaxed);
    shutdown.stop();
    // Nothing is left to do about one that remains.
    drop(timeout(Duration::from_secs(CUT_SECONDS), shutdown.all_gone()).await);
    Drained { cut }
}

fn bind_all(listen: &[Listen]) -> Result<Vec<TcpListener>, BindError> {
    let mut listeners = Vec::new();
    for listen in listen {
        let (first, second) = listen.addresses();
        let listener = bind(first)?;
        // Port 0 asks for any free port: the second address takes the same one.
        let port = listener.local_addr().map_or(first.port(), |address| address.port());
        listeners.push(listener);
        let Some(mut second) = second else { continue };
        second.set_port(port);
        match bind(second) {
            Ok(listener) => listeners.push(listener),
            Err(BindError::Other { address, source }) => {
                tracing::info!("not listening on {address}: {source} (no IPv6 on this machine?)");
            }
            Err(error) => return Err(error),
        }
    }
    if listeners.is_empty() { Err(BindError::Nowhere) } else { Ok(listeners) }
}

fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the old connections' TIME_WAIT.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        // Connections inherit it. A system that has no such limit takes what it likes.
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(limits::UNSENT_BYTES_MAX);
        socket.bind(address)?;
        socket.listen(limits::BACKLOG)
    };
    listen().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        io::ErrorKind::PermissionDenied => BindError::Forbidden { address },
        _ => BindError::Other { address, source },
    })
}

/// How long the accept loop rests after an error that is not about one connection: out of
/// descriptors, out of memory. Those end when other connections do.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Trouble like that comes in bursts: one line about it per minute will do.
const WARN_REST: Duration = Duration::from_secs(60);

#[allow(clippy::disallowed_methods, reason = "when to repeat a warning is real time")]
async fn accept(
    listener: TcpListener,
    host: Arc<Host>,
    open: Arc<AtomicUsize>,
    shutdown: Shutdown,
) {
    let mut watch = shutdown.watch();
    let (mut turned_away, mut failed) = (Trouble::default(), Trouble::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reached(&mut watch, Phase::Draining) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                if !take(stream, peer, &host, &open, &shutdown)
                    && let Some(times) = turned_away.tell(Instant::now())
                {
                    let ServerSettings { connections_max, connections_advice, .. } = &host.settings;
                    tracing::warn!(
                        "closed {times} new connections unanswered: {connections_max} are open, and \
                         no more are accepted; {connections_advice}"
                    );
                }
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                host.site.telemetry.refused("accept_error");
                if failed.tell(Instant::now()).is_some() {
                    tracing::warn!("cannot accept connections for the moment: {error}");
                }
                sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// Trouble that comes in bursts.
#[derive(Debug, Default)]
struct Trouble {
    told: Option<Instant>,
    /// How often it was there since then.
    times: u64,
}

impl Trouble {
    /// It is there again. How often since somebody was told, if it is time to tell.
    fn tell(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        if self.told.is_some_and(|told| now.duration_since(told) < WARN_REST) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.times))
    }
}

/// False: there is no place for the connection.
fn take(
    stream: TcpStream,
    peer: SocketAddr,
    host: &Arc<Host>,
    open: &Arc<AtomicUsize>,
    shutdown: &Shutdown,
) -> bool {
    let Some(slot) = Slot::take(open, host) else {
        host.site.telemetry.refused("connections_max");
        return false;
    };
    // Responses are written whole: waiting for more to send would only delay them.
    if stream.set_nodelay(true).is_err() {
        return true;
    }
    let (host, watch) = (Arc::clone(host), shutdown.watch());
    tokio::spawn(async move {
        serve(host, stream, peer, watch).await;
        drop(slot);
    });
    true
}

/// The client went away between its connect and our accept.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// A place among the open connections.
struct Slot {
    open: Arc<AtomicUsize>,
    telemetry: Arc<Telemetry>,
}

impl Slot {
    /// None if all places are taken.
    fn take(open: &Arc<AtomicUsize>, host: &Host) -> Option<Slot> {
        let connections_max = host.settings.connections_max;
        if open.fetch_add(1, Ordering::Relaxed) >= connections_max {
            open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let telemetry = Arc::clone(&host.site.telemetry);
        telemetry.connection_opened();
        Some(Slot { open: Arc::clone(open), telemetry })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.telemetry.connection_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "an instant to count from")]
    fn trouble_is_told_at_once_then_once_a_minute_with_how_often_it_was_there() {
        let mut trouble = Trouble::default();
        let begun = Instant::now();
        let tell =
            |trouble: &mut Trouble, seconds| trouble.tell(begun + Duration::from_secs(seconds));
        assert_eq!(tell(&mut trouble, 0), Some(1));
        assert_eq!(tell(&mut trouble, 1), None);
        assert_eq!(tell(&mut trouble, 59), None);
        assert_eq!(tell(&mut trouble, 60), Some(3));
        assert_eq!(tell(&mut trouble, 61), None);
    }
}
