//! A path cut at its slashes.

/// The deepest resource is an attachment: four kinds with an id each.
const SEGMENTS_MAX: usize = 8;

/// The non-empty pieces of a path and where they end in it; no allocation for a point read.
#[derive(Clone, Debug)]
pub(super) struct Segments<'a> {
    pieces: [&'a str; SEGMENTS_MAX],
    ends: [usize; SEGMENTS_MAX],
    len: usize,
    /// Where the first piece starts.
    start: usize,
    /// No slash is doubled between the pieces, so a prefix of them is one slice of the path.
    contiguous: bool,
    /// There were more pieces than any resource has.
    pub(super) cut: bool,
}

impl<'a> Segments<'a> {
    pub(super) fn split(path: &'a str) -> Segments<'a> {
        let mut all = Segments {
            pieces: [""; SEGMENTS_MAX],
            ends: [0; SEGMENTS_MAX],
            len: 0,
            start: 0,
            contiguous: true,
            cut: false,
        };
        let mut start = 0;
        for (end, byte) in path.bytes().enumerate() {
            if byte == b'/' {
                all.push(path, start, end);
                start = end + 1;
            }
        }
        all.push(path, start, path.len());
        all
    }

    /// Adds what is between two slashes, if there is anything.
    fn push(&mut self, path: &'a str, start: usize, end: usize) {
        let Some(piece) = path.get(start..end).filter(|piece| !piece.is_empty()) else { return };
        let (Some(slot), Some(slot_end)) =
            (self.pieces.get_mut(self.len), self.ends.get_mut(self.len))
        else {
            self.cut = true;
            return;
        };
        *slot = piece;
        *slot_end = end;
        match self.len.checked_sub(1).and_then(|before| self.ends.get(before)) {
            None => self.start = start,
            Some(before) => self.contiguous &= start == before + 1,
        }
        self.len += 1;
    }

    pub(super) fn as_slice(&self) -> &[&'a str] {
        self.pieces.get(..self.len).unwrap_or_default()
    }

    /// The first `count` pieces as they stand in the path, unless a doubled slash is in between.
    pub(super) fn raw_prefix(&self, path: &'a str, count: usize) -> Option<&'a str> {
        match count.checked_sub(1) {
            None => Some(""),
            Some(last) if self.contiguous => path.get(self.start..*self.ends.get(last)?),
            Some(_) => None,
        }
    }
}
