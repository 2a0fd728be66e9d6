//! One connection, from its first byte to its last.
//!
//! Find out what it speaks (`sniff.rs`), shake hands if that is TLS, then serve it in the version
//! that the client chose, by ALPN within TLS, by the preface without: HTTP/1.1 in `http1/`, HTTP/2
//! with hyper. Beside that two more things are watched in the same task: the clock (`progress.rs`)
//! and the shutdown.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use crate::budget::Unread;
use crate::door::Scheme;
use crate::http::{Origin, Site, answer};
use crate::http1;
use crate::progress::{Deadlines, Heads, Overdue, Progress, Watched};
use crate::settings::{ServerSettings, limits};
use crate::shutdown::{Phase, reached};
use crate::sniff::{HttpVersion, Speaks, sniff, sniff_version};

/// What all connections share.
pub(crate) struct Host {
    pub(crate) site: Arc<Site>,
    pub(crate) settings: ServerSettings,
    pub(crate) tls: TlsAcceptor,
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
    let unread = site.bodies.budget.open();
    let origin = |scheme| Origin { site, progress, unread, scheme, local, peer };
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
    let stream = Watched::new(stream, early, Arc::clone(&progress));
    match version {
        HttpVersion::Http1 => {
            let unread = &origin.unread;
            let deadlines = Deadlines::new((&progress, unread), &host.settings, Heads::Timed);
            let connection = pin!(http1::Connection::new(&origin, stream).serve());
            drive((host, unread), connection, |_| progress.wind_down(), deadlines, watch).await;
        }
        HttpVersion::Http2 => {
            let origin = Arc::new(origin);
            let unread = &origin.unread;
            let deadlines = Deadlines::new((&progress, unread), &host.settings, Heads::Untimed);
            let serving = Arc::clone(&origin);
            let service = service_fn(move |request| answer(Arc::clone(&serving), request));
            let connection = host.http2.serve_connection(TokioIo::new(stream), service);
            let connection = pin!(Served(connection));
            drive((host, unread), connection, Served::wind_down, deadlines, watch).await;
        }
    }
}

/// A connection that hyper serves.
struct Served<C>(C);

impl<C: Future<Output = hyper::Result<()>> + Unpin> Future for Served<C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ended = ready!(Pin::new(&mut self.0).poll(cx));
        if let Err(error) = ended {
            tracing::debug!("a connection ended: {error}");
        }
        Poll::Ready(())
    }
}

impl<I, S, B, E> Served<http2::Connection<I, S, E>>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, B> + Unpin,
{
    fn wind_down(mut self: Pin<&mut Self>) {
        Pin::new(&mut self.0).graceful_shutdown();
    }
}

/// Runs a connection until it ends, is overdue, keeps memory that others need, or the server stops.
/// `wind_down` asks it to finish what runs, then to end.
async fn drive<C: Future<Output = ()>>(
    (host, unread): (&Host, &Unread),
    mut connection: Pin<&mut C>,
    wind_down: impl Fn(Pin<&mut C>),
    mut deadlines: Deadlines<'_>,
    mut watch: watch::Receiver<Phase>,
) {
    let (mut stop_watch, unseen) = (watch.clone(), watch.clone());
    let mut drain = pin!(reached(&mut watch, Phase::Draining));
    let mut stop = pin!(reached(&mut stop_watch, Phase::Stopped));
    let (mut watching, mut winding_down) = (false, false);
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            if connection.as_mut().poll(cx).is_ready() {
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
                    wind_down(connection.as_mut());
                    continue;
                }
            }
            if unread.must_end(cx) {
                refused(host, "slow_reader");
                return Poll::Ready(());
            }
            match deadlines.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Overdue::Idle) if !winding_down => {
                    winding_down = true;
                    wind_down(connection.as_mut());
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
        Overdue::Strict(Strict::Write | Strict::Unread) => refused(host, "write_timeout"),
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
