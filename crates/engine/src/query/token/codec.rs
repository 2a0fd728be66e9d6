//! Numbers and byte strings, as short as may be: what continuations and names of cached things are
//! made of.

use partita_model::Epk;

/// Bytes being read. Every method is None once they end or make no sense.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The inverse of [`put_number`].
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn row(&mut self) -> Option<u32> {
        self.number().and_then(|row| u32::try_from(row).ok())
    }

    /// The inverse of [`put_blob`].
    pub(crate) fn blob(&mut self) -> Option<Vec<u8>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (blob, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(blob.to_vec())
    }

    /// The inverse of [`put_blobs`].
    pub(crate) fn blobs(&mut self) -> Option<Vec<Vec<u8>>> {
        let count = self.number()?;
        (0..count).map(|_| self.blob()).collect()
    }

    pub(crate) fn epk(&mut self) -> Option<Epk> {
        self.blob().map(Epk::from_bytes)
    }
}

/// A number in groups of seven bits, the low ones first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Bytes with their number before them.
pub(crate) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_blobs(out: &mut Vec<u8>, blobs: &[Vec<u8>]) {
    put_number(out, blobs.len() as u64);
    blobs.iter().for_each(|blob| put_blob(out, blob));
}

pub(crate) fn put_epk(out: &mut Vec<u8>, epk: &Epk) {
    put_blob(out, epk.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let blobs = vec![vec![], vec![0, 1, 2], vec![7; 300]];
        let mut out = Vec::new();
        numbers.iter().for_each(|number| put_number(&mut out, *number));
        put_blobs(&mut out, &blobs);
        let mut input = Input::new(&out);
        for number in numbers {
            assert_eq!(input.number(), Some(number));
        }
        assert_eq!(input.blobs(), Some(blobs));
        assert!(input.is_empty());
    }

    #[test]
    fn what_ends_early_is_none() {
        let mut out = Vec::new();
        put_number(&mut out, 300);
        put_blob(&mut out, &[1, 2, 3]);
        for end in 0..out.len() {
            let mut input = Input::new(&out[..end]);
            assert_eq!(input.number().and_then(|_| input.blob()), None);
        }
        assert_eq!(Input::new(&[0xFF; 20]).number(), None);
    }
}
