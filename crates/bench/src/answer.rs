//! Responses as they come over a connection: where one ends, and what it says.

use std::borrow::Cow;

/// Where a response ends, and what it said about itself.
pub(crate) struct Extent {
    head: usize,
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

/// The extent of the response that begins here, once all of it is here.
pub(crate) fn extent(buffer: &[u8]) -> Option<Extent> {
    let head = find(buffer, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(buffer.get(..head)?).ok()?;
    let (mut length, mut is_chunked, mut closes) = (0, false, false);
    for line in text.split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.eq_ignore_ascii_case("close");
        }
    }
    let body = buffer.get(head..)?;
    let is_whole = if is_chunked { chunks(body).is_some() } else { body.len() >= length };
    is_whole.then_some(Extent { head, is_chunked, closes })
}

impl<'a> Answer<'a> {
    pub(crate) fn new(bytes: &'a [u8], extent: &Extent) -> Answer<'a> {
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
        match self.is_chunked {
            true => Cow::Owned(chunks(body).unwrap_or_default().concat()),
            false => Cow::Borrowed(body),
        }
    }
}

/// The chunks up to the empty one at the end, if it is here.
fn chunks(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut chunks = Vec::new();
    loop {
        let line = find(body, b"\r\n")?;
        let size = std::str::from_utf8(body.get(..line)?).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let start = line + 2;
        body.get(start..start + size + 2)?;
        if size == 0 {
            return Some(chunks);
        }
        chunks.push(body.get(start..start + size)?);
        body = body.get(start + size + 2..)?;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, bool)> {
        let extent = extent(text.as_bytes())?;
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
        let answer = Answer::new(text, &extent(text).unwrap());
        assert_eq!((answer.status(), answer.is_success()), ("404", false));
        assert_eq!(answer.header("etag"), Some("\"x\""));
    }
}
