//! Responses as they come over a connection: where one ends, and what it says.
//!
//! A buffer may hold a part of a response, or several of them. A head is gone through once, line by
//! line, and of its lines only those are looked into that say where the response ends: whoever
//! measures shares the processors with whom he measures.

use std::borrow::Cow;

use anyhow::{Context, Result, ensure};
use memchr::memchr;

/// Where a response ends, and what it said about itself.
#[derive(Default)]
pub(crate) struct Extent {
    head: usize,
    /// The next response may begin here.
    pub(crate) end: usize,
    is_chunked: bool,
    /// The server closes the connection after it.
    pub(crate) closes: bool,
}

/// A whole response.
pub(crate) struct Answer<'a> {
    pub(crate) bytes: &'a [u8],
    head: usize,
    is_chunked: bool,
}

/// The extent of the response that begins here, once all of it is here. Fails if what is here is no
/// response, as nobody can say where it ends.
pub(crate) fn extent(buffer: &[u8]) -> Result<Option<Extent>> {
    let (mut extent, mut length) = (Extent::default(), 0);
    loop {
        let rest = buffer.get(extent.head..).unwrap_or_default();
        let Some(end) = memchr(b'\n', rest) else { return Ok(None) };
        let line = rest.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_first = extent.head == 0;
        extent.head += end + 1;
        match line {
            line if is_first => {
                ensure!(line.starts_with(b"HTTP/1."), "not a response: {}", text(line))
            }
            [] => break,
            [b'c' | b'C' | b't' | b'T', ..] => extent.read(line, &mut length)?,
            _ => (),
        }
    }
    let body = buffer.get(extent.head..).unwrap_or_default();
    let length = if extent.is_chunked { chunks(body, |_| ())? } else { Some(length) };
    Ok(length.filter(|length| body.len() >= *length).map(|length| {
        extent.end = extent.head + length;
        extent
    }))
}

impl Extent {
    /// A header that may tell how long the response is, or what becomes of the connection.
    fn read(&mut self, line: &[u8], length: &mut usize) -> Result<()> {
        let Some(colon) = memchr(b':', line) else { return Ok(()) };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            *length = text(value).parse().with_context(|| format!("a length {}", text(value)))?;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.closes = value.eq_ignore_ascii_case(b"close");
        }
        Ok(())
    }
}

impl<'a> Answer<'a> {
    /// The response that these bytes begin with.
    pub(crate) fn new(bytes: &'a [u8], extent: &Extent) -> Answer<'a> {
        let bytes = bytes.get(..extent.end).unwrap_or(bytes);
        Answer { bytes, head: extent.head, is_chunked: extent.is_chunked }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.bytes.starts_with(b"HTTP/1.1 2")
    }

    /// The three digits.
    pub(crate) fn status(&self) -> &'a str {
        self.bytes.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or("?")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let head = std::str::from_utf8(self.bytes.get(..self.head)?).ok()?;
        head.split("\r\n").skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// What it carries, joined if it came in chunks.
    pub(crate) fn body(&self) -> Cow<'a, [u8]> {
        let body = self.bytes.get(self.head..).unwrap_or_default();
        if !self.is_chunked {
            return Cow::Borrowed(body);
        }
        let mut joined = Vec::with_capacity(body.len());
        // That they are whole was seen when the response's end was looked for.
        let _ = chunks(body, |chunk| joined.extend_from_slice(chunk));
        Cow::Owned(joined)
    }
}

/// Goes through the chunks up to the empty one at the end; where they end, if they are all here.
fn chunks(body: &[u8], mut each: impl FnMut(&[u8])) -> Result<Option<usize>> {
    let mut at = 0;
    loop {
        let rest = body.get(at..).unwrap_or_default();
        let Some(line) = memchr(b'\n', rest) else { return Ok(None) };
        let told = rest.get(..line).unwrap_or_default();
        let size = told.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = usize::from_str_radix(&text(size), 16)
            .with_context(|| format!("a chunk of {} bytes", text(told)))?;
        let start = line + 1;
        if size == 0 {
            // Trailers may follow; an empty line is the end of all.
            let end = find(rest.get(start - 2..).unwrap_or_default(), b"\r\n\r\n");
            return Ok(end.map(|end| at + start + 2 + end));
        }
        let Some(chunk) = rest.get(start..start.saturating_add(size)) else { return Ok(None) };
        if rest.len() < start + size + 2 {
            return Ok(None);
        }
        each(chunk);
        at += start + size + 2;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, bool)> {
        let extent = extent(text.as_bytes()).unwrap()?;
        let answer = Answer::new(text.as_bytes(), &extent);
        Some((String::from_utf8(answer.body().into_owned()).unwrap(), extent.closes))
    }

    #[test]
    fn a_response_with_a_length_ends_there() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
        assert_eq!(read(whole), Some(("body".to_owned(), false)));
        assert_eq!(read(&whole[..whole.len() - 1]), None);
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Le"), None);
    }

    #[test]
    fn chunks_are_joined_and_the_last_is_awaited() {
        let whole = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
                     3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n";
        assert_eq!(read(whole), Some(("body".to_owned(), true)));
        for cut in 1..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn status_and_headers_are_found_in_any_case() {
        let text = b"HTTP/1.1 404 Not Found\r\nETag: \"x\"\r\n\r\n";
        let answer = Answer::new(text, &extent(text).unwrap().unwrap());
        assert_eq!((answer.status(), answer.is_success()), ("404", false));
        assert_eq!(answer.header("etag"), Some("\"x\""));
    }

    #[test]
    fn what_follows_a_response_is_none_of_it() {
        let one = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
        let two =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\na: b\r\n\r\n";
        for (first, body) in [(one, "body"), (two, "ok")] {
            for second in [one, two, "HTT"] {
                let both = format!("{first}{second}");
                let extent = extent(both.as_bytes()).unwrap().unwrap();
                assert_eq!(extent.end, first.len());
                let answer = Answer::new(both.as_bytes(), &extent);
                assert_eq!((answer.bytes, &*answer.body()), (first.as_bytes(), body.as_bytes()));
            }
        }
    }

    #[test]
    fn what_is_no_response_is_not_waited_for() {
        for bad in [
            "{\"id\":1}\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(extent(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
