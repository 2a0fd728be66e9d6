//! What can be set about the edge, and every limit it keeps.
//!
//! A limit is a constant in [`limits`] with its unit in the name and its reason beside it.
//! [`ServerSettings`] starts from them; the binary exposes the few an operator may want to change,
//! and tests shorten the rest so that nobody waits for a real timeout.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Limits of the edge.
pub mod limits {
    /// The largest request body. The service's own limits are 2 MB for an item and a batch; twice
    /// that leaves room for JSON that shrinks when compacted, so that the door can answer with the
    /// protocol's own message instead of a cut connection.
    pub const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024 + 64 * 1024;

    /// All bodies in memory at once, over all connections: of requests, and of answers that wait
    /// for their clients. Bounds what 10 000 connections that each send a large body, or read
    /// nothing, can make us hold.
    pub const BODIES_BYTES_MAX: u64 = 512 * 1024 * 1024;

    /// A longer body is not read before the door knows from the head who sends it. Most items are
    /// shorter, and theirs need not be looked at twice.
    pub const UNKNOWN_BODY_BYTES_MAX: u64 = 64 * 1024;

    /// A request's head. Continuation and session tokens travel in headers and may be 16 KB each.
    pub const HEAD_BYTES_MAX: u32 = 64 * 1024;

    /// Headers of one request. The SDKs send 15 to 25.
    pub const HEADERS_MAX: usize = 100;

    /// Trailers behind a body in chunks, and what stands beside the size of one chunk. No client of
    /// ours sends any.
    pub const TRAILER_BYTES_MAX: usize = 8 * 1024;

    /// Open connections. Each costs a descriptor and 10 to 20 KB; SDKs pool 10 to 100.
    pub const CONNECTIONS_MAX: usize = 10_000;

    /// Connections the kernel may hold for us until we accept them.
    pub const BACKLOG: u32 = 4096;

    /// Time to the first byte. Browsers and pools open connections ahead of use; half a minute
    /// suits them and still frees the slot of a client that never speaks.
    pub const FIRST_BYTE_SECONDS: u64 = 30;

    /// Time for a TLS handshake: two round trips and some arithmetic, even on a bad link.
    pub const HANDSHAKE_SECONDS: u64 = 10;

    /// Time from the first byte of a request's head to its last. The head is one packet; this only
    /// ever ends clients that drip it on purpose.
    pub const HEAD_SECONDS: u64 = 20;

    /// Time for a request's body. 4 MB in 60 s is 70 KB/s.
    pub const BODY_SECONDS: u64 = 60;

    /// Time a client may leave our answer unread before we stop holding it.
    pub const WRITE_STALL_SECONDS: u64 = 60;

    /// Bytes of answers that the kernel takes ahead of what it may send to a client. It would take
    /// several MB for each client that does not read, which nobody counts. For a client that reads
    /// it is enough to have always something to send.
    pub const UNSENT_BYTES_MAX: u32 = 128 * 1024;

    /// Time a connection may lie idle. SDKs refresh the account every 5 minutes: twice that keeps
    /// their pooled connections alive between two refreshes.
    pub const IDLE_SECONDS: u64 = 600;

    /// Time we go on reading (and discarding) after refusing a body, so that the client can finish
    /// sending and then read the refusal. Closing at once would reset the connection and lose it.
    pub const LINGER_SECONDS: u64 = 5;

    /// Bytes discarded at most while lingering.
    pub const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// Time for running requests to finish when the server stops. Shorter than the 10 s after
    /// which container runtimes kill.
    pub const DRAIN_SECONDS: u64 = 8;

    /// Requests at once on one HTTP/2 connection: what RFC 9113 recommends as the least, doubled.
    pub const H2_STREAMS_MAX: u32 = 200;

    /// Streams a client may reset before we took them up (CVE-2023-44487, rapid reset).
    pub const H2_PENDING_RESETS_MAX: usize = 20;

    /// Streams we may have to reset because of a client's errors before we drop the connection.
    pub const H2_ERROR_RESETS_MAX: usize = 100;

    /// Bytes a stream may send ahead of us. Covers a typical item at once.
    pub const H2_STREAM_WINDOW_BYTES: u32 = 256 * 1024;

    /// Bytes a connection may send ahead of us.
    pub const H2_CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

    /// How often a silent HTTP/2 peer is asked whether it still lives, and how long it has to say.
    pub const H2_PING_SECONDS: u64 = 120;
    /// See [`H2_PING_SECONDS`].
    pub const H2_PING_ANSWER_SECONDS: u64 = 20;
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `127.0.0.1` and `::1` on one port, so that `localhost` works whichever way it resolves. A
    /// machine without IPv6 listens on IPv4 only.
    Loopback { port: u16 },
    /// Exactly this address.
    Address(SocketAddr),
}

/// The port of Microsoft's emulators.
pub const DEFAULT_PORT: u16 = 8081;

impl Listen {
    /// Reads `8081`, `localhost:8081`, `127.0.0.1:8081`, `[::]:8081` or `0.0.0.0`.
    pub fn parse(text: &str) -> Result<Listen, String> {
        let port = match text.strip_prefix("localhost") {
            Some("") => Some(DEFAULT_PORT),
            Some(rest) => rest.strip_prefix(':').and_then(|port| port.parse().ok()),
            None => text.parse().ok(),
        };
        if let Some(port) = port {
            return Ok(Listen::Loopback { port });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Listen::Address(address));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(ip) => Ok(Listen::Address(SocketAddr::new(ip, DEFAULT_PORT))),
            Err(_) => Err(format!(
                "{text:?} is no address: use PORT, IP:PORT, IP or localhost:PORT, for example 8081, \
                 0.0.0.0:8081 or [::]:8081"
            )),
        }
    }

    /// Can only this machine connect?
    pub fn is_loopback(&self) -> bool {
        match self {
            Listen::Loopback { .. } => true,
            Listen::Address(address) => address.ip().is_loopback(),
        }
    }

    /// The addresses to bind; the second one may be missing on this machine.
    pub(crate) fn addresses(&self) -> (SocketAddr, Option<SocketAddr>) {
        match *self {
            Listen::Loopback { port } => (
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
                Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)),
            ),
            Listen::Address(address) => (address, None),
        }
    }
}

/// Everything that can be set about the server's edge.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub listen: Vec<Listen>,
    pub connections_max: usize,
    /// What whoever reads the log can do where these do not suffice.
    pub connections_advice: String,
    pub body_bytes_max: u64,
    pub bodies_bytes_max: u64,
    pub first_byte: Duration,
    pub handshake: Duration,
    pub head: Duration,
    pub body: Duration,
    pub write_stall: Duration,
    pub idle: Duration,
    pub linger: Duration,
    pub drain: Duration,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            listen: vec![Listen::Loopback { port: 8081 }],
            connections_max: limits::CONNECTIONS_MAX,
            connections_advice: "raise the limit on connections".to_owned(),
            body_bytes_max: limits::BODY_BYTES_MAX,
            bodies_bytes_max: limits::BODIES_BYTES_MAX,
            first_byte: Duration::from_secs(limits::FIRST_BYTE_SECONDS),
            handshake: Duration::from_secs(limits::HANDSHAKE_SECONDS),
            head: Duration::from_secs(limits::HEAD_SECONDS),
            body: Duration::from_secs(limits::BODY_SECONDS),
            write_stall: Duration::from_secs(limits::WRITE_STALL_SECONDS),
            idle: Duration::from_secs(limits::IDLE_SECONDS),
            linger: Duration::from_secs(limits::LINGER_SECONDS),
            drain: Duration::from_secs(limits::DRAIN_SECONDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        let address = |text: &str| Listen::Address(text.parse().unwrap());
        for (text, expected) in [
            ("9000", Listen::Loopback { port: 9000 }),
            ("localhost", Listen::Loopback { port: 8081 }),
            ("localhost:0", Listen::Loopback { port: 0 }),
            ("127.0.0.1:81", address("127.0.0.1:81")),
            ("0.0.0.0", address("0.0.0.0:8081")),
            ("::1", address("[::1]:8081")),
            ("[::]", address("[::]:8081")),
            ("[::]:82", address("[::]:82")),
        ] {
            assert_eq!(Listen::parse(text), Ok(expected), "{text}");
        }
        for text in ["", "70000", "localhost:x", "localhosts:1", "example.org:1", ":8081", "[::1"] {
            let why = Listen::parse(text).unwrap_err();
            assert!(why.contains("is no address"), "{text}: {why}");
        }
    }
}
