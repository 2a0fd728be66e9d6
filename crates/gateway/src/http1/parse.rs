//! From bytes to the head of a request, or the reason why they are none.
//!
//! Lines are found and checked by `httparse`; what a head means for the connection is decided here:
//! how long the body is, and whether another request may follow. Wherever two readers could
//! understand a request differently it is refused, since one of the two may be a proxy that checks
//! what passes through it: lines that end in a mere line feed, more than one length, a length
//! beside chunks, transfer codings other than chunks.

use std::mem::MaybeUninit;

use ::http::Method;
use bytes::BytesMut;

use crate::authority::{BadHost, is_authority};
use crate::head::{Field, Head, Place, Target};
use crate::settings::limits;

/// A head, and what it says about what follows.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) method: Method,
    pub(super) head: Head,
    pub(super) version: Version,
    pub(super) body: Framing,
    /// The client waits to be told to go on.
    pub(super) expects_continue: bool,
    /// Another request may follow.
    pub(super) keep_alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

/// How a body's end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunks,
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHead {
    Malformed,
    Host(BadHost),
    /// Too many bytes, or too many headers.
    TooLarge,
}

/// Takes the head of the next request out of what has arrived; None while it is not all there.
pub(super) fn parse(arrived: &mut BytesMut) -> Result<Option<Parsed>, BadHead> {
    let mut space = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let bytes_max = limits::HEAD_BYTES_MAX as usize;
    let end = match request.parse_with_uninit_headers(arrived, &mut space) {
        Ok(httparse::Status::Complete(end)) if end <= bytes_max => end,
        Ok(httparse::Status::Partial) if arrived.len() <= bytes_max => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLarge),
        Err(_) => return Err(BadHead::Malformed),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(BadHead::Malformed);
    };
    let version = match request.version {
        Some(1) => Version::Http11,
        _ => Version::Http10,
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| BadHead::Malformed)?;
    let target = Target::parse(target, place(arrived, target.as_bytes()).start)?;
    let mut meaning = Meaning::new(version);
    let mut fields = Vec::with_capacity(request.headers.len());
    for header in request.headers.iter() {
        let name = place(arrived, header.name.as_bytes());
        is_line_start(arrived, name.start)?;
        meaning.take(header.name.as_bytes(), header.value)?;
        let value = place(arrived, header.value);
        fields.push(Field { name: Place::new(name), value: Place::new(value) });
    }
    is_line_start(arrived, end)?;
    is_line_start(arrived, end - 2)?;
    meaning.check_host()?;
    for field in &fields {
        if let Some(name) = arrived.get_mut(field.name.range()) {
            name.make_ascii_lowercase();
        }
    }
    let head = Head::of_places(arrived.split_to(end).freeze(), target, fields);
    let Meaning { body, expects_continue, keep_alive, .. } = meaning;
    let body = body.unwrap_or(Framing::Length(0));
    Ok(Some(Parsed { method, head, version, body, expects_continue, keep_alive }))
}

/// Where a part of a text is.
fn place(text: &[u8], part: &[u8]) -> std::ops::Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    start..start + part.len()
}

/// What begins here must follow a carriage return and a line feed.
fn is_line_start(text: &[u8], start: usize) -> Result<(), BadHead> {
    match start.checked_sub(2).and_then(|end| text.get(end..start)) {
        Some(b"\r\n") => Ok(()),
        _ => Err(BadHead::Malformed),
    }
}

/// What headers mean for the connection.
struct Meaning {
    version: Version,
    names_host: bool,
    body: Option<Framing>,
    expects_continue: bool,
    keep_alive: bool,
    closes: bool,
}

impl Meaning {
    fn new(version: Version) -> Meaning {
        let keep_alive = version == Version::Http11;
        Meaning {
            version,
            names_host: false,
            body: None,
            expects_continue: false,
            keep_alive,
            closes: false,
        }
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadHead> {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        match name.len() {
            4 if is(b"host") => self.host(value)?,
            6 if is(b"expect") => {
                let expected = value.eq_ignore_ascii_case(b"100-continue");
                self.expects_continue = expected && self.version == Version::Http11;
            }
            10 if is(b"connection") => self.connection(value),
            14 if is(b"content-length") => {
                self.body(Framing::Length(length(value).ok_or(BadHead::Malformed)?))?;
            }
            17 if is(b"transfer-encoding") => {
                if self.version == Version::Http10 || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(BadHead::Malformed);
                }
                self.body(Framing::Chunks)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn host(&mut self, value: &[u8]) -> Result<(), BadHead> {
        if std::mem::replace(&mut self.names_host, true) {
            return Err(BadHead::Host(BadHost::Twice));
        }
        if is_authority(value) { Ok(()) } else { Err(BadHead::Host(BadHost::Invalid)) }
    }

    /// Also beside a target that names one: proxies of HTTP/1.0 change the one and not the other.
    fn check_host(&self) -> Result<(), BadHead> {
        match self.names_host || self.version == Version::Http10 {
            true => Ok(()),
            false => Err(BadHead::Host(BadHost::Missing)),
        }
    }

    fn body(&mut self, body: Framing) -> Result<(), BadHead> {
        match self.body.replace(body) {
            None => Ok(()),
            Some(_) => Err(BadHead::Malformed),
        }
    }

    /// Once a line asks to close, no other undoes it.
    fn connection(&mut self, value: &[u8]) {
        for word in value.split(|byte| *byte == b',') {
            let word = word.trim_ascii();
            self.closes |= word.eq_ignore_ascii_case(b"close");
            self.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
        }
        self.keep_alive &= !self.closes;
    }
}

/// Digits and nothing else.
fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

impl Target {
    /// Reads a target that begins at a place of the head: `/path?query`, the same behind scheme and
    /// authority, or `*`.
    fn parse(text: &str, start: usize) -> Result<Target, BadHead> {
        // What must be percent-encoded in any part; spaces and control characters never get here.
        if text.bytes().any(|byte| matches!(byte, b'#' | b'<' | b'>' | b'`')) {
            return Err(BadHead::Malformed);
        }
        let whole = Place::new(start..start + text.len());
        if text == "*" {
            return Ok(Target { path: whole, ..Target::default() });
        }
        let path_start = match text.starts_with('/') {
            true => 0,
            false => behind_authority(text)?,
        };
        let authority_start = text.get(..path_start).and_then(|before| before.find("://"));
        let authority = authority_start.map(|at| Place::new(start + at + 3..start + path_start));
        let query =
            text.get(path_start..).and_then(|path| path.find('?')).map(|at| path_start + at);
        let path_end = query.unwrap_or(text.len());
        Ok(Target {
            authority,
            path: Place::new(start + path_start..start + path_end),
            query: query.map(|at| Place::new(start + at + 1..start + text.len())),
        })
    }
}

/// Where the path begins in `http://host:port/path`.
fn behind_authority(text: &str) -> Result<usize, BadHead> {
    let (scheme, rest) = text.split_once("://").ok_or(BadHead::Malformed)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(BadHead::Malformed);
    }
    let length = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = rest.get(..length).unwrap_or_default();
    if authority.is_empty() || !is_authority(authority.as_bytes()) {
        return Err(BadHead::Host(BadHost::Invalid));
    }
    Ok(scheme.len() + 3 + length)
}

#[cfg(test)]
mod tests {
    use ::http::header::{CONTENT_TYPE, HOST};

    use super::*;

    fn read(text: &str) -> Result<Option<Parsed>, BadHead> {
        parse(&mut BytesMut::from(text))
    }

    fn whole(text: &str) -> Parsed {
        read(text).unwrap().unwrap()
    }

    #[test]
    fn a_head_is_taken_and_the_rest_is_left() {
        let mut bytes = BytesMut::from(
            "\r\nPOST /dbs/%20?q HTTP/1.1\r\nHost:  a \r\nContent-TYPE:x\r\ncontent-length: 3\r\n\r\nabc",
        );
        let parsed = parse(&mut bytes).unwrap().unwrap();
        assert_eq!(bytes, "abc");
        assert_eq!(parsed.method, Method::POST);
        assert_eq!((parsed.head.path(), parsed.head.query()), ("/dbs/%20", Some("q")));
        assert_eq!(parsed.head.get(&HOST), Some(&b"a"[..]));
        assert_eq!(parsed.head.get(&CONTENT_TYPE), Some(&b"x"[..]));
        assert_eq!(parsed.body, Framing::Length(3));
        assert!(parsed.keep_alive && !parsed.expects_continue);
    }

    #[test]
    fn no_beginning_of_a_head_is_one() {
        let text = "GET /x HTTP/1.1\r\nhost: a\r\nb: c\r\n\r\n";
        for end in 0..text.len() {
            assert!(read(&text[..end]).unwrap().is_none(), "{end}");
        }
        assert!(read(text).unwrap().is_some());
    }

    #[test]
    fn connections_are_kept_as_the_client_wants() {
        let kept = |version: &str, headers: &str| {
            whole(&format!("GET / HTTP/{version}\r\nhost: a\r\n{headers}\r\n")).keep_alive
        };
        for (version, headers, expected) in [
            ("1.1", "", true),
            ("1.1", "connection: close\r\n", false),
            ("1.1", "Connection: x , CLOSE\r\n", false),
            ("1.1", "connection: close\r\nconnection: keep-alive\r\n", false),
            ("1.1", "connection: closed\r\n", true),
            ("1.0", "", false),
            ("1.0", "connection: Keep-Alive\r\n", true),
            ("1.0", "connection: keep-alive, close\r\n", false),
        ] {
            assert_eq!(kept(version, headers), expected, "{version} {headers}");
        }
    }

    #[test]
    fn what_could_be_understood_in_two_ways_is_refused() {
        for headers in [
            "content-length: 1\r\ncontent-length: 2\r\n",
            "content-length: 1\r\ncontent-length: 1\r\n",
            "content-length: 1, 1\r\n",
            "content-length: +1\r\n",
            "content-length: 0x1\r\n",
            "content-length:\r\n",
            "content-length: 18446744073709551616\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 1\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding : chunked\r\n",
            "folded: a\r\n b\r\n",
            "bare: a\nline: b\r\n",
            "bare: a\n",
            "no colon\r\n",
            ": no name\r\n",
            "n@me: a\r\n",
            "value: \0\r\n",
        ] {
            let read = read(&format!("POST / HTTP/1.1\r\nhost: a\r\n{headers}\r\n"));
            assert_eq!(read.map(|_| ()), Err(BadHead::Malformed), "{headers:?}");
        }
        for text in
            ["GET / HTTP/1.1\n\n", "GET / HTTP/1.1\nhost: a\r\n\r\n", "GET / HTTP/1.1\r\n\n"]
        {
            assert_eq!(read(text).map(|_| ()), Err(BadHead::Malformed), "{text:?}");
        }
        let old = read("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n");
        assert_eq!(old.map(|_| ()), Err(BadHead::Malformed));
    }

    #[test]
    fn targets_come_in_three_forms() {
        let parts = |target: &str| {
            let head = whole(&format!("GET {target} HTTP/1.1\r\nhost: h\r\n\r\n")).head;
            let owned = |text: Option<&str>| text.map(str::to_owned);
            (owned(head.host()), head.path().to_owned(), owned(head.query()))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("/"), (some("h"), "/".into(), None));
        assert_eq!(parts("/a?"), (some("h"), "/a".into(), some("")));
        assert_eq!(parts("//a/?b?c"), (some("h"), "//a/".into(), some("b?c")));
        assert_eq!(parts("/é%zz\"{}"), (some("h"), "/é%zz\"{}".into(), None));
        assert_eq!(parts("*"), (some("h"), "*".into(), None));
        assert_eq!(parts("HTTP://a:1/b?c"), (some("a:1"), "/b".into(), some("c")));
        assert_eq!(parts("https://[::1]:8"), (some("[::1]:8"), String::new(), None));
        assert_eq!(parts("http://a?b"), (some("a"), String::new(), some("b")));
        let refused = |target: &str| {
            read(&format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n")).map(|_| ()).unwrap_err()
        };
        for bad in ["a", "a:80", "ftp://a/", "/#a", "/<", "/`", "**"] {
            assert_eq!(refused(bad), BadHead::Malformed, "{bad}");
        }
        for bad in ["http:///", "http://u@a/", "http://:80/", "http://a:b/"] {
            assert_eq!(refused(bad), BadHead::Host(BadHost::Invalid), "{bad}");
        }
    }

    #[test]
    fn a_request_names_exactly_one_host() {
        for (version, headers, expected) in [
            ("1.1", "", Err(BadHost::Missing)),
            ("1.1", "hosts: a\r\n", Err(BadHost::Missing)),
            ("1.1", "host: a\r\nHOST: a\r\n", Err(BadHost::Twice)),
            ("1.0", "host: a\r\nhost: b\r\n", Err(BadHost::Twice)),
            ("1.1", "host: a b\r\n", Err(BadHost::Invalid)),
            ("1.1", "host: a, b\r\n", Err(BadHost::Invalid)),
            ("1.1", "host: http://a/\r\n", Err(BadHost::Invalid)),
            ("1.0", "host: u@a\r\n", Err(BadHost::Invalid)),
            ("1.0", "", Ok(())),
            ("1.1", "host:\r\n", Ok(())),
            ("1.1", "Host: a.example:8081\r\n", Ok(())),
        ] {
            for target in ["/x", "http://a/x"] {
                let read = read(&format!("GET {target} HTTP/{version}\r\n{headers}\r\n"));
                let read = read.map(|_| ());
                assert_eq!(read, expected.map_err(BadHead::Host), "{version} {headers:?} {target}");
            }
        }
    }

    #[test]
    fn heads_have_limits() {
        let many =
            |count| format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "a: b\r\n".repeat(count - 1));
        assert!(read(&many(limits::HEADERS_MAX)).is_ok());
        assert_eq!(read(&many(limits::HEADERS_MAX + 1)).map(|_| ()), Err(BadHead::TooLarge));
        let long = |count| format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(count));
        let rest = limits::HEAD_BYTES_MAX as usize - long(0).len();
        assert!(read(&long(rest)).is_ok());
        assert_eq!(read(&long(rest + 1)).map(|_| ()), Err(BadHead::TooLarge));
        let partial = "GET /".to_owned() + &"x".repeat(limits::HEAD_BYTES_MAX as usize);
        assert_eq!(read(&partial).map(|_| ()), Err(BadHead::TooLarge));
    }
}
