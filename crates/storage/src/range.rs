//! The small arithmetic of key ranges and pages that all stores share.

use std::ops::Bound;

use crate::contract::{Entry, KeyRange, Page, ScanLimit};

impl KeyRange {
    /// The whole space.
    pub fn all() -> KeyRange {
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { start: Bound::Included(prefix.to_vec()), end: after_prefix(prefix) }
    }

    /// Does the key lie in the range?
    pub fn contains(&self, key: &[u8]) -> bool {
        let after_start = match &self.start {
            Bound::Included(start) => start.as_slice() <= key,
            Bound::Excluded(start) => start.as_slice() < key,
            Bound::Unbounded => true,
        };
        let before_end = match &self.end {
            Bound::Included(end) => key <= end.as_slice(),
            Bound::Excluded(end) => key < end.as_slice(),
            Bound::Unbounded => true,
        };
        after_start && before_end
    }

    /// True if no key can lie in the range; engines may panic or loop on such a range.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
        }
    }
}

/// The end of the range of keys that begin with `prefix`.
fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if let Some(next) = last.checked_add(1) {
            *last = next;
            return Bound::Excluded(end);
        }
        end.pop();
    }
    Bound::Unbounded
}

/// Collects entries until the limit is reached.
pub(crate) struct PageBuilder {
    limit: ScanLimit,
    bytes: usize,
    page: Page,
}

impl PageBuilder {
    pub(crate) fn new(limit: ScanLimit) -> PageBuilder {
        PageBuilder { limit, bytes: 0, page: Page { entries: Vec::new(), more: false } }
    }

    /// Takes the entry if it fits; false means that the page is complete without it.
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        let bytes = entry.key.len() + entry.record.value.len();
        let full = self.page.entries.len() >= self.limit.entries_max
            || self.bytes.saturating_add(bytes) > self.limit.bytes_max;
        if full && !self.page.entries.is_empty() {
            self.page.more = true;
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.page.entries.push(entry);
        true
    }

    pub(crate) fn finish(self) -> Page {
        self.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(kind: char, key: &[u8]) -> Bound<Vec<u8>> {
        match kind {
            'i' => Bound::Included(key.to_vec()),
            'e' => Bound::Excluded(key.to_vec()),
            _ => Bound::Unbounded,
        }
    }

    #[test]
    fn empty_ranges_are_recognised() {
        for (start, end, empty) in [
            (bound('i', b"a"), bound('i', b"a"), false),
            (bound('i', b"a"), bound('e', b"a"), true),
            (bound('e', b"a"), bound('i', b"a"), true),
            (bound('e', b"a"), bound('e', b"a"), true),
            (bound('e', b"a"), bound('e', b"b"), false),
            (bound('i', b"b"), bound('i', b"a"), true),
            (bound('u', b""), bound('e', b""), true),
            (bound('u', b""), bound('i', b""), false),
            (bound('i', b"a"), bound('u', b""), false),
        ] {
            let range = KeyRange { start, end };
            assert_eq!(range.is_empty(), empty, "{range:?}");
        }
    }

    #[test]
    fn a_prefix_ends_before_the_next_prefix() {
        assert_eq!(KeyRange::prefix(b"ab").end, Bound::Excluded(b"ac".to_vec()));
        assert_eq!(KeyRange::prefix(b"a\xff\xff").end, Bound::Excluded(b"b".to_vec()));
        assert_eq!(KeyRange::prefix(b"\xff").end, Bound::Unbounded);
        assert_eq!(KeyRange::prefix(b"").end, Bound::Unbounded);
    }
}
