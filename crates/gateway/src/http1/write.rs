//! Responses as they go over the wire.
//!
//! A response is a status line, the door's lines, and what the gateway says of it: length, date,
//! and what becomes of the connection. The date is made once per second and thread.

use std::cell::RefCell;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime};

use ::http::StatusCode;

use crate::lines::Lines;

use super::parse::Version;

/// What becomes of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Closed,
}

/// Writes everything of a response but its body. `length` is None for a response that cannot have
/// one.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    (version, fate): (Version, Fate),
    status: StatusCode,
    lines: &Lines,
    length: Option<usize>,
    now: Instant,
) {
    // The rest of a head is shorter than this, whatever its status.
    out.reserve(lines.as_bytes().len() + 160);
    write_status(out, version, status);
    out.extend_from_slice(lines.as_bytes());
    match (version, fate) {
        (Version::Http11, Fate::Kept) => {}
        (Version::Http10, Fate::Kept) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        (_, Fate::Closed) => out.extend_from_slice(b"connection: close\r\n"),
    }
    if let Some(length) = length {
        out.extend_from_slice(b"content-length: ");
        write_number(out, length);
        out.extend_from_slice(b"\r\n");
    }
    write_date(out, now);
}

fn write_status(out: &mut Vec<u8>, version: Version, status: StatusCode) {
    if status == StatusCode::OK && version == Version::Http11 {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(match version {
        Version::Http10 => b"HTTP/1.0 ",
        Version::Http11 => b"HTTP/1.1 ",
    });
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    // Some clients take a line without a reason for broken; 449 has none of its own.
    out.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// A date header, with the end of the head, and when the next second begins.
struct Stamp {
    line: String,
    until: Option<Instant>,
}

thread_local! {
    static STAMP: RefCell<Stamp> =
        const { RefCell::new(Stamp { line: String::new(), until: None }) };
}

/// Writes the last header and the end of the head.
fn write_date(out: &mut Vec<u8>, now: Instant) {
    STAMP.with_borrow_mut(|stamp| {
        if stamp.until.is_none_or(|until| now >= until) {
            stamp.renew(now);
        }
        out.extend_from_slice(stamp.line.as_bytes());
    });
}

impl Stamp {
    #[allow(clippy::disallowed_methods, reason = "responses tell the real time")]
    fn renew(&mut self, now: Instant) {
        let time = SystemTime::now();
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.line.clear();
        let date = httpdate::HttpDate::from(time);
        // A String takes every write.
        let _ = write!(self.line, "date: {date}\r\n\r\n");
        let rest = Duration::from_secs(1) - Duration::from_nanos(since.subsec_nanos().into());
        self.until = Some(now + rest);
    }
}

#[cfg(test)]
mod tests {
    use ::http::header::SERVER;

    use super::*;

    fn written(version: Version, fate: Fate, status: u16, length: Option<usize>) -> String {
        let mut lines = Lines::new();
        lines.push(&SERVER, "x");
        let mut out = Vec::new();
        let status = StatusCode::from_u16(status).unwrap();
        #[allow(clippy::disallowed_methods, reason = "responses tell the real time")]
        let now = Instant::now();
        write_head(&mut out, (version, fate), status, &lines, length, now);
        let text = String::from_utf8(out).unwrap();
        let (head, date) = text.split_once("date: ").unwrap();
        assert!(httpdate::parse_http_date(date.trim_end()).is_ok() && date.ends_with("\r\n\r\n"));
        head.to_owned()
    }

    #[test]
    fn heads_are_written_for_both_versions() {
        use Fate::{Closed, Kept};
        use Version::{Http10, Http11};
        assert_eq!(
            written(Http11, Kept, 200, Some(0)),
            "HTTP/1.1 200 OK\r\nserver: x\r\ncontent-length: 0\r\n"
        );
        assert_eq!(
            written(Http10, Kept, 200, Some(1_234_567_890)),
            "HTTP/1.0 200 OK\r\nserver: x\r\nconnection: keep-alive\r\ncontent-length: 1234567890\r\n"
        );
        assert_eq!(
            written(Http11, Closed, 204, None),
            "HTTP/1.1 204 No Content\r\nserver: x\r\nconnection: close\r\n"
        );
        assert_eq!(written(Http11, Kept, 449, None), "HTTP/1.1 449 <none>\r\nserver: x\r\n");
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 11, 100, 65_536, usize::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
