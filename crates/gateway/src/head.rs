//! The head of a request: its target and its headers, as one piece of text.
//!
//! A request of an SDK has some twenty headers, of which the door reads a few. So a head is kept as
//! it arrived, with the places of its parts beside it: nothing is copied, hashed or allocated for
//! each header. Names are in lower case, whoever wrote them.
//!
//! A door asks for some twenty headers, too, and most of them are not there. A sieve, filled once,
//! knows most of these without a look at the names.

use std::fmt;
use std::ops::Range;

use ::http::{HeaderMap, HeaderName, Uri};
use bytes::Bytes;

/// Target and headers of a request. See the module's text.
#[derive(Clone)]
pub struct Head {
    text: Bytes,
    target: Target,
    fields: Vec<Field>,
    sieve: [u64; SIEVE_WORDS],
}

const SIEVE_WORDS: usize = 4;

/// A part of a head: heads are far shorter than 4 GB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    start: u32,
    end: u32,
}

impl Place {
    pub(crate) fn new(range: Range<usize>) -> Place {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Place { start: place(range.start), end: place(range.end) }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.range()).unwrap_or_default()
    }

    fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// Where the parts of a target are. All of them are UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port, where the target names them.
    pub(crate) authority: Option<Place>,
    pub(crate) path: Place,
    /// What follows the question mark.
    pub(crate) query: Option<Place>,
}

/// Where a header is. Its name is a token in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Place,
    pub(crate) value: Place,
}

impl Head {
    /// A head of parts that are somewhere in a text.
    pub(crate) fn of_places(text: Bytes, target: Target, fields: Vec<Field>) -> Head {
        let mut sieve = [0; SIEVE_WORDS];
        for field in &fields {
            let (word, bit) = sieve_place(field.name.of(&text));
            sieve[word] |= bit;
        }
        Head { text, target, fields, sieve }
    }

    /// A head of parts that were read by others.
    pub fn new(uri: &Uri, headers: &HeaderMap) -> Head {
        let mut text = Vec::with_capacity(1024);
        let mut put = |part: &[u8]| {
            let start = text.len();
            text.extend_from_slice(part);
            Place::new(start..text.len())
        };
        let authority = uri.authority().map(|authority| put(authority.as_str().as_bytes()));
        let path = put(uri.path().as_bytes());
        // Its place is right behind the path's, with the question mark between them.
        let query = uri.query().map(|query| {
            put(b"?");
            put(query.as_bytes())
        });
        let field = |(name, value): (&HeaderName, &::http::HeaderValue)| Field {
            name: put(name.as_str().as_bytes()),
            value: put(value.as_bytes()),
        };
        let fields = headers.iter().map(field).collect();
        Head::of_places(text.into(), Target { authority, path, query }, fields)
    }

    /// The path as it was written.
    pub fn path(&self) -> &str {
        self.str(self.target.path)
    }

    /// What follows the path's question mark.
    pub fn query(&self) -> Option<&str> {
        self.target.query.map(|query| self.str(query))
    }

    /// Path, question mark and query.
    pub fn path_and_query(&self) -> &str {
        let Place { start, end } = self.target.path;
        self.str(Place { start, end: self.target.query.map_or(end, |query| query.end) })
    }

    /// Host and port as the client names them: in the target, which counts more, or in the `host`
    /// header.
    pub fn host(&self) -> Option<&str> {
        match self.target.authority {
            Some(authority) => Some(self.str(authority)),
            None => self.text(&::http::header::HOST).filter(|host| !host.is_empty()),
        }
    }

    /// The first header of this name.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        let name = name.as_str().as_bytes();
        let (word, bit) = sieve_place(name);
        if self.sieve[word] & bit == 0 {
            return None;
        }
        let is_it =
            |field: &&Field| field.name.len() == name.len() && field.name.of(&self.text) == name;
        self.fields.iter().find(is_it).map(|field| field.value.of(&self.text))
    }

    /// The first header of this name, if it is made of printable ASCII characters and tabs.
    pub fn text(&self, name: &HeaderName) -> Option<&str> {
        let value = self.get(name)?;
        // Without an early end: this is done many bytes at a time.
        let broken = |byte: u8| (byte < b' ' && byte != b'\t') | (byte > b'~');
        match value.iter().fold(false, |found, byte| found | broken(*byte)) {
            true => None,
            false => std::str::from_utf8(value).ok(),
        }
    }

    /// All headers, in the order in which they came.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|field| (self.str(field.name), field.value.of(&self.text)))
    }

    fn str(&self, place: Place) -> &str {
        std::str::from_utf8(place.of(&self.text)).unwrap_or_default()
    }
}

impl fmt::Debug for Head {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fields().map(|(name, _)| name).collect();
        f.debug_struct("Head").field("path", &self.path()).field("headers", &names).finish()
    }
}

/// Where a name falls in the sieve: the length and two letters tell most names apart.
fn sieve_place(name: &[u8]) -> (usize, u64) {
    let letter = |at: usize| name.get(at).copied().map_or(0, usize::from);
    let mark = name.len() * 13 + letter(name.len() / 2) * 5 + letter(name.len().wrapping_sub(2));
    (mark / 64 % SIEVE_WORDS, 1 << (mark % 64))
}

#[cfg(test)]
mod tests {
    use ::http::header::{ACCEPT, AUTHORIZATION, HOST};
    use ::http::{HeaderName, HeaderValue};

    use super::*;

    fn head(uri: &str, headers: &[(&'static str, &str)]) -> Head {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        Head::new(&uri.parse().unwrap(), &headers.iter().map(pair).collect())
    }

    #[test]
    fn every_header_is_found_and_no_other() {
        let names: Vec<HeaderName> =
            (0..90).map(|n| format!("x-{}-{n}", "y".repeat(n)).parse().unwrap()).collect();
        let value = |name: &HeaderName| HeaderValue::from_str(&name.as_str()[2..]).unwrap();
        let map = names.iter().map(|name| (name.clone(), value(name))).collect();
        let head = Head::new(&Uri::from_static("/"), &map);
        for name in &names {
            assert_eq!(head.get(name), Some(value(name).as_bytes()));
            let other: HeaderName = name.as_str().replace('x', "z").parse().unwrap();
            assert_eq!(head.get(&other), None);
        }
        assert_eq!(head.fields().count(), names.len());
    }

    #[test]
    fn a_target_is_told_in_parts() {
        let whole = head("http://a.example:8/dbs/x?y=1?z", &[]);
        assert_eq!((whole.path(), whole.query()), ("/dbs/x", Some("y=1?z")));
        assert_eq!(whole.path_and_query(), "/dbs/x?y=1?z");
        assert_eq!(whole.host(), Some("a.example:8"));
        let short = head("/dbs", &[]);
        assert_eq!((short.path_and_query(), short.query(), short.host()), ("/dbs", None, None));
    }

    #[test]
    fn the_target_wins_over_the_host_header() {
        assert_eq!(head("http://a/", &[("host", "b")]).host(), Some("a"));
        assert_eq!(head("http://a/", &[("host", "")]).host(), Some("a"));
        assert_eq!(head("/", &[("host", "b")]).host(), Some("b"));
        assert_eq!(head("/", &[("host", "")]).host(), None);
    }

    #[test]
    fn a_value_that_is_no_text_is_none() {
        let mut map = HeaderMap::new();
        map.insert(ACCEPT, HeaderValue::from_bytes(b"\xff").unwrap());
        map.insert(HOST, HeaderValue::from_static("a"));
        let head = Head::new(&Uri::from_static("/"), &map);
        assert_eq!((head.text(&ACCEPT), head.text(&HOST)), (None, Some("a")));
        assert_eq!((head.get(&ACCEPT), head.get(&AUTHORIZATION)), (Some(&b"\xff"[..]), None));
    }

    #[test]
    fn what_is_logged_of_a_head_has_no_credentials() {
        let logged = format!("{:?}", head("/x", &[("authorization", "secret")]));
        assert!(logged.contains("authorization") && !logged.contains("secret"), "{logged}");
    }
}
