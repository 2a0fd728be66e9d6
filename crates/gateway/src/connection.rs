//! One connection, from its first byte to its last.
//!
//! Find out what it speaks (`sniff.rs`), shake hands if that is TLS, then let hyper serve it in the
//! version the client chose: by ALPN within TLS, by the preface without. Beside hyper two more
//! things are watched in the same task: the clock (`progress.rs`) and the shutdown.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use crate::door::Scheme;
use crate::http::{Origin, Site, answer};
use crate::progress::{Deadlines, Heads, Overdue, Progress, Watched};
use crate::settings::{ServerSettings, limits};
use crate::shutdown::{Phase, reached};
use crate::sniff::{HttpVersion, Speaks, sniff, sniff_version};

/// What all connections share.
pub(crate) struct Host {
    pub(crate) site: Arc<Site>,
    pub(crate) settings: ServerSettings,
    pub(crate) tls: TlsAcceptor,
    pub(crate) http1: http1::Builder,
    pub(crate) http2: http2::Builder<TokioExecutor>,
}

/// Serves a connection until it ends. Nothing that happens to it is an error of ours, so there is
/// nothing to return; what an operator may want to know is counted, and logged at debug level.
pub(crate) async fn serve(
    host: Arc<Host>,
    mut stream: TcpStream,
    peer: SocketAddr,
    mut watch: watch::Receiver<Phase>,
) {
    let Ok(local) = stream.local_addr() else { return };
    let speaks = tokio::select! {
        speaks = within(host.settings.first_byte, sniff(&mut stream)) => speaks,
        // It has asked for nothing yet.
        () = reached(&mut watch, Phase::Draining) => return,
    };
    let speaks = match speaks {
        Ok(Some(speaks)) => speaks,
        Ok(None) => return refused(&host, "first_byte_timeout"),
        Err(_) => return,
    };
    let progress = Arc::new(Progress::new(Instant::now()));
    let site = Arc::clone(&host.site);
    let origin = |scheme| Origin { site, progress, scheme, local, peer };
    match speaks {
        Speaks::Nothing => {}
        Speaks::Plain { version, early } => {
            let origin = origin(Scheme::Http);
            Box::pin(serve_http(&host, stream, early, version, origin, watch)).await;
        }
        Speaks::Tls => {
            Box::pin(serve_tls(&host, stream, origin(Scheme::Https), watch)).await;
        }
    }
}

async fn serve_tls(host: &Host, stream: TcpStream, origin: Origin, watch: watch::Receiver<Phase>) {
    let mut stream = match within(host.settings.handshake, host.tls.accept(stream)).await {
        Ok(Some(stream)) => stream,
        Ok(None) => {
            host.site.telemetry.tls_handshake_failed();
            return refused(host, "handshake_timeout");
        }
        Err(error) => {
            // Often a client that does not trust our certificate.
            tracing::debug!(peer = %origin.peer, "TLS handshake failed: {error}");
            host.site.telemetry.tls_handshake_failed();
            return;
        }
    };
    let (version, early) = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => (HttpVersion::Http2, Bytes::new()),
        Some(_) => (HttpVersion::Http1, Bytes::new()),
        None => match within(host.settings.head, sniff_version(&mut stream)).await {
            Ok(Some(found)) => found,
            Ok(None) => return refused(host, "head_timeout"),
            Err(_) => return,
        },
    };
    serve_http(host, stream, early, version, origin, watch).await;
}

async fn serve_http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    host: &Host,
    stream: S,
    early: Bytes,
    version: HttpVersion,
    origin: Origin,
    watch: watch::Receiver<Phase>,
) {
    let progress = Arc::clone(&origin.progress);
    let io = TokioIo::new(Watched::new(stream, early, Arc::clone(&progress)));
    let origin = Arc::new(origin);
    let service = service_fn(move |request| answer(Arc::clone(&origin), request));
    match version {
        HttpVersion::Http1 => {
            let deadlines = Deadlines::new(&progress, &host.settings, Heads::Timed);
            let connection = pin!(host.http1.serve_connection(io, service));
            drive(host, connection, deadlines, watch).await;
        }
        HttpVersion::Http2 => {
            let deadlines = Deadlines::new(&progress, &host.settings, Heads::Untimed);
            let connection = pin!(host.http2.serve_connection(io, service));
            drive(host, connection, deadlines, watch).await;
        }
    }
}

/// What hyper's two kinds of connections have in common.
trait Drivable: Future<Output = hyper::Result<()>> {
    /// Finish what is running, then close.
    fn wind_down(self: Pin<&mut Self>);
}

impl<I, S, B> Drivable for http1::Connection<I, S>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B, E> Drivable for http2::Connection<I, S, E>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Runs a connection until it ends, is overdue, or the server stops.
async fn drive(
    host: &Host,
    mut connection: Pin<&mut impl Drivable>,
    mut deadlines: Deadlines<'_>,
    mut watch: watch::Receiver<Phase>,
) {
    let (mut stop_watch, unseen) = (watch.clone(), watch.clone());
    let mut drain = pin!(reached(&mut watch, Phase::Draining));
    let mut stop = pin!(reached(&mut stop_watch, Phase::Stopped));
    let (mut watching, mut winding_down) = (false, false);
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
                return Poll::Ready(());
            }
            // The shutdown is asked once, to be woken by it, and again when it has changed: a look
            // at its version is much cheaper than to ask it for every request.
            if !watching || unseen.has_changed().unwrap_or(true) {
                watching = true;
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if !winding_down && drain.as_mut().poll(cx).is_ready() {
                    winding_down = true;
                    connection.as_mut().wind_down();
                    continue;
                }
            }
            match deadlines.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Overdue::Idle) if !winding_down => {
                    winding_down = true;
                    connection.as_mut().wind_down();
                }
                Poll::Ready(overdue) => {
                    count_overdue(host, overdue);
                    return Poll::Ready(());
                }
            }
        }
    })
    .await;
}

fn count_overdue(host: &Host, overdue: Overdue) {
    use crate::progress::Strict;
    match overdue {
        Overdue::Strict(Strict::Head) => refused(host, "head_timeout"),
        Overdue::Strict(Strict::Write) => refused(host, "write_timeout"),
        // It was told, and had its time.
        Overdue::Strict(Strict::Linger) | Overdue::Idle => {}
    }
}

fn refused(host: &Host, reason: &'static str) {
    tracing::debug!("closed a connection: {reason}");
    host.site.telemetry.refused(reason);
}

/// None if it took too long.
async fn within<T>(
    limit: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<Option<T>> {
    match timeout(limit, future).await {
        Ok(result) => result.map(Some),
        Err(_) => Ok(None),
    }
}

/// HTTP/1.1 as we serve it.
pub(crate) fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .half_close(false)
        // No more headers than `HEADERS_MAX`, which is hyper's own limit: told another one, it
        // would allocate room for as many with each request.
        .max_header_size(limits::HEAD_BYTES_MAX as usize)
        // `progress.rs` times heads, without a timer for each.
        .header_read_timeout(None);
    builder
}

/// HTTP/2 as we serve it.
pub(crate) fn http2_builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::H2_STREAMS_MAX)
        .max_header_list_size(limits::HEAD_BYTES_MAX)
        .max_pending_accept_reset_streams(limits::H2_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(limits::H2_ERROR_RESETS_MAX)
        .initial_stream_window_size(limits::H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::H2_CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(Duration::from_secs(limits::H2_PING_SECONDS))
        .keep_alive_timeout(Duration::from_secs(limits::H2_PING_ANSWER_SECONDS));
    builder
}
