//! Frames: four bytes of length, then fields one behind the other. Both ends are the same program,
//! so there are no versions.

use std::io::{self, ErrorKind, Read, Write};

/// Bytes of one frame at most: more than anything that may be sent, and little enough that a worker
/// gone mad cannot take the server's memory.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// Writes the fields of a frame.
#[derive(Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub(super) fn byte(mut self, byte: u8) -> Encoder {
        self.0.push(byte);
        self
    }

    pub(super) fn number(mut self, number: u64) -> Encoder {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(super) fn text(self, text: &str) -> Encoder {
        let mut encoder = self.number(text.len() as u64);
        encoder.0.extend_from_slice(text.as_bytes());
        encoder
    }

    pub(super) fn optional(self, text: Option<&str>) -> Encoder {
        match text {
            None => self.byte(0),
            Some(text) => self.byte(1).text(text),
        }
    }

    /// Sends the frame.
    pub(super) fn send(&self, output: &mut dyn Write) -> io::Result<()> {
        let length = u32::try_from(self.0.len()).ok().filter(|n| *n as usize <= FRAME_BYTES_MAX);
        let length = length.ok_or_else(broken)?;
        // In one piece: the other end wakes up once.
        let mut frame = Vec::with_capacity(self.0.len() + 4);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&self.0);
        output.write_all(&frame)?;
        output.flush()
    }
}

/// Reads the fields of a frame.
pub(super) struct Decoder {
    frame: Vec<u8>,
    at: usize,
}

impl Decoder {
    /// Waits for a frame. None: the other end has gone.
    pub(super) fn receive(input: &mut dyn Read) -> io::Result<Option<Decoder>> {
        let mut length = [0; 4];
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(broken());
        }
        let mut frame = vec![0; length];
        input.read_exact(&mut frame)?;
        Ok(Some(Decoder { frame, at: 0 }))
    }

    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let until = self.at.checked_add(count).ok_or_else(broken)?;
        let bytes = self.frame.get(self.at..until).ok_or_else(broken)?;
        self.at = until;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> io::Result<u8> {
        self.take(1)?.first().copied().ok_or_else(broken)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| broken())?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number of things that each take a byte at least.
    pub(super) fn count(&mut self) -> io::Result<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| broken())?;
        if count > self.frame.len() { Err(broken()) } else { Ok(count) }
    }

    pub(super) fn text(&mut self) -> io::Result<String> {
        let length = self.count()?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| broken())
    }

    pub(super) fn optional(&mut self) -> io::Result<Option<String>> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.text().map(Some),
            _ => Err(broken()),
        }
    }
}

/// A frame that cannot be.
pub(super) fn broken() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the script worker sent something unreadable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_out_as_they_went_in() {
        let mut sent = Vec::new();
        let frame = Encoder::default().byte(7).number(u64::MAX).text("é\0").optional(None);
        frame.optional(Some("")).send(&mut sent).unwrap();
        let mut input = sent.as_slice();
        let mut frame = Decoder::receive(&mut input).unwrap().unwrap();
        assert_eq!((frame.byte().unwrap(), frame.number().unwrap()), (7, u64::MAX));
        assert_eq!(frame.text().unwrap(), "é\0");
        assert_eq!(
            (frame.optional().unwrap(), frame.optional().unwrap()),
            (None, Some(String::new()))
        );
        assert!(frame.byte().is_err());
        assert!(Decoder::receive(&mut input).unwrap().is_none());
    }

    #[test]
    fn a_frame_that_promises_too_much_is_refused() {
        assert!(Decoder::receive(&mut [0xFF; 64].as_slice()).is_err());
        assert!(Decoder::receive(&mut [9, 0, 0, 0, 1].as_slice()).is_err());
        let mut frame = Encoder::default().number(1 << 40);
        frame = frame.byte(1);
        let mut sent = Vec::new();
        frame.send(&mut sent).unwrap();
        assert!(Decoder::receive(&mut sent.as_slice()).unwrap().unwrap().text().is_err());
    }
}
