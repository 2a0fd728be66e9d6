//! Host and port, as a request names them.
//!
//! Who passes requests on decides by this text where they go, so one that two readers could
//! understand differently is refused: RFC 9112, 3.2, and RFC 9113, 8.3.1. Nothing is looked up.

use std::net::Ipv6Addr;

/// What is wrong with the host that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHost {
    #[error("The request has no Host header; send exactly one.")]
    Missing,
    #[error("The request names no host; send :authority.")]
    NoAuthority,
    #[error("The request has more than one Host header; send exactly one.")]
    Twice,
    #[error("The request's host is not of the form HOST or HOST:PORT.")]
    Invalid,
    #[error("The Host header and :authority name different hosts; send one of them.")]
    Ambiguous,
}

/// The host of a request of HTTP/2.
pub(crate) fn check_http2(
    authority: Option<&str>,
    mut hosts: impl Iterator<Item = impl AsRef<[u8]>>,
) -> Result<(), BadHost> {
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(BadHost::Twice);
    }
    let host = host.as_ref().map(AsRef::as_ref);
    let named = match (authority.map(str::as_bytes), host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            return Err(BadHost::Ambiguous);
        }
        (Some(named), _) | (None, Some(named)) => named,
        (None, None) => return Err(BadHost::NoAuthority),
    };
    if is_authority(named) { Ok(()) } else { Err(BadHost::Invalid) }
}

/// Is this `host`, `host:port`, or nothing? A client whose target has no host sends nothing.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    let (is_host, port) = match text.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (address, port) = rest.split_at(end);
            let address = std::str::from_utf8(address).ok();
            let is_address = address.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
            (is_address, port.get(1..).unwrap_or_default())
        }
        None => {
            let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            let (name, port) = text.split_at(end);
            (is_name(name) && (port.is_empty() || !name.is_empty()), port)
        }
    };
    is_host && is_port(port)
}

/// A registered name or an IPv4 address.
fn is_name(mut name: &[u8]) -> bool {
    while let [first, rest @ ..] = name {
        name = match (first, rest) {
            (b'%', [high, low, rest @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest
            }
            (byte, rest) if is_plain(*byte) => rest,
            _ => return false,
        };
    }
    true
}

/// What may stand in a name as it is: "unreserved" and "sub-delims" of RFC 3986.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// Nothing, or a colon with a number behind it, which may be missing.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] | [b':'] => true,
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u16>().is_ok())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_and_without_a_port() {
        for good in [
            "",
            "a",
            "localhost:8081",
            "a.example",
            "my_db-1.svc:80",
            "127.0.0.1",
            "127.0.0.1:",
            "[::1]",
            "[::1]:8081",
            "[fe80::1]",
            "a%20b",
            "x,y",
        ] {
            assert!(is_authority(good.as_bytes()), "{good:?}");
        }
        for bad in [
            ":80", "a b", "a/b", "a?b", "a#b", "u@a", "a:b", "a:1:2", "a:65536", "a:-1", "a:+1",
            "[::1", "::1", "[a]", "[]", "[::1]x", "[::1]:x", "a%2", "a%zz", "a\tb", "é", "a\\b",
            "<a>", "a\"b",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn a_request_of_http2_names_one_host() {
        let check = |authority, hosts: &[&str]| check_http2(authority, hosts.iter());
        assert_eq!(check(Some("a:1"), &[]), Ok(()));
        assert_eq!(check(None, &["a:1"]), Ok(()));
        assert_eq!(check(Some("A:1"), &["a:1"]), Ok(()));
        assert_eq!(check(None, &[]), Err(BadHost::NoAuthority));
        assert_eq!(check(Some("a"), &["a", "a"]), Err(BadHost::Twice));
        assert_eq!(check(Some("a"), &["b"]), Err(BadHost::Ambiguous));
        assert_eq!(check(Some("u@a"), &[]), Err(BadHost::Invalid));
        assert_eq!(check(None, &["a b"]), Err(BadHost::Invalid));
    }
}
