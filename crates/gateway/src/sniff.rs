//! What does the client speak? Its first bytes tell.
//!
//! A TLS connection begins with a handshake record, whose first byte is `0x16`; no HTTP method
//! begins with that. HTTP/2 without TLS begins with a fixed preface of 24 bytes, `PRI * HTTP/2.0…`;
//! everything else is HTTP/1.1, or rubbish that its parser will refuse.
//!
//! The bytes are looked at in place where the socket allows that, so that the usual connection pays
//! one system call for this and is then read as if nothing had happened.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;

/// The first byte of a TLS record that carries a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a client sends first when it knows that we speak HTTP/2 (RFC 9113, section 3.4).
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

/// What a fresh connection speaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// It closed before it said anything.
    Nothing,
    Tls,
    /// HTTP without TLS; `early` has been read from the socket already.
    Plain {
        version: HttpVersion,
        early: Bytes,
    },
}

/// Waits for a connection's first byte, and for more if that does not suffice.
pub(crate) async fn sniff(stream: &mut TcpStream) -> io::Result<Speaks> {
    let mut first = [0; H2_PREFACE.len()];
    let count = stream.peek(&mut first).await?;
    let first = first.get(..count).unwrap_or_default();
    match (first.first(), judge(first)) {
        (None, _) => Ok(Speaks::Nothing),
        (Some(&TLS_HANDSHAKE), _) => Ok(Speaks::Tls),
        (_, Some(version)) => Ok(Speaks::Plain { version, early: Bytes::new() }),
        (_, None) => {
            let (version, early) = sniff_version(stream).await?;
            Ok(Speaks::Plain { version, early })
        }
    }
}

/// Reads until the version is clear, and returns what was read. For streams that cannot be peeked
/// at, and for a preface that arrives in pieces.
pub(crate) async fn sniff_version(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<(HttpVersion, Bytes)> {
    let mut early = BytesMut::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut early).await?;
        match judge(&early) {
            Some(version) => return Ok((version, early.freeze())),
            // It ended inside the preface: the HTTP/1.1 parser will say what it thinks of that.
            None if read == 0 => return Ok((HttpVersion::Http1, early.freeze())),
            None => {}
        }
    }
}

/// None while it could become either.
fn judge(first: &[u8]) -> Option<HttpVersion> {
    if first.starts_with(H2_PREFACE) {
        return Some(HttpVersion::Http2);
    }
    (!H2_PREFACE.starts_with(first)).then_some(HttpVersion::Http1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preface_is_told_from_methods_that_begin_like_it() {
        assert_eq!(judge(b"P"), None);
        assert_eq!(judge(b"PR"), None);
        assert_eq!(judge(b"PO"), Some(HttpVersion::Http1));
        assert_eq!(judge(b"PRI * HTTP/1.1\r\n"), Some(HttpVersion::Http1));
        assert_eq!(judge(b"GET / HTTP/1.1\r\n"), Some(HttpVersion::Http1));
        assert_eq!(judge(H2_PREFACE), Some(HttpVersion::Http2));
    }

    #[tokio::test]
    async fn a_preface_in_pieces_is_recognised_and_kept() {
        let (mut client, mut server) = tokio::io::duplex(4);
        let send = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut client, H2_PREFACE).await.unwrap();
        });
        let (version, early) = sniff_version(&mut server).await.unwrap();
        send.await.unwrap();
        assert_eq!(version, HttpVersion::Http2);
        assert_eq!(early, H2_PREFACE.as_slice());
    }

    #[tokio::test]
    async fn a_preface_that_ends_early_is_left_to_http1() {
        let (mut client, mut server) = tokio::io::duplex(64);
        tokio::io::AsyncWriteExt::write_all(&mut client, b"PRI * HT").await.unwrap();
        drop(client);
        let (version, early) = sniff_version(&mut server).await.unwrap();
        assert_eq!((version, early.as_ref()), (HttpVersion::Http1, b"PRI * HT".as_slice()));
    }
}
