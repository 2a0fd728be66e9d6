//! Request bodies: of a known length, or in chunks.
//!
//! A body that has arrived with its head is passed on as it lies in memory. Any other one is
//! gathered, and what is set aside for it grows with what has arrived, never with what was
//! announced. Chunks are read strictly: sizes are hexadecimal digits, lines end with CR and LF.
//! Extensions of chunks and trailers mean nothing to us; they are bounded, all those of a body
//! together and however they arrive, and forgotten.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::body::{BodyLimits, Held};
use crate::door::Refusal;
use crate::settings::limits;

use super::parse::Framing;

/// Set aside for a body at first, and at least added each time.
const STEP_BYTES: usize = 64 * 1024;

/// What has arrived and was not read yet, and where more comes from.
pub(super) struct Source<'a, S> {
    pub(super) stream: &'a mut S,
    pub(super) inbox: &'a mut BytesMut,
}

impl BodyLimits {
    /// The body, if all of it is there.
    pub(super) fn take(&self, inbox: &mut BytesMut, length: u64) -> Option<(Bytes, Held)> {
        let length = usize::try_from(length).ok().filter(|length| *length <= inbox.len())?;
        let mut held = self.hold();
        held.grow(length as u64).ok()?;
        Some((inbox.split_to(length).freeze(), held))
    }

    /// The length that a body was announced with, if that is accepted.
    pub(super) fn check_announced(&self, framing: Framing) -> Result<Option<u64>, Refusal> {
        match framing {
            Framing::Length(announced) if announced > self.bytes_max => {
                let announced = Some(announced);
                Err(Refusal::BodyTooLarge { announced, bytes_max: self.bytes_max })
            }
            Framing::Length(announced) => Ok(Some(announced)),
            Framing::Chunks => Ok(None),
        }
    }

    /// Reads a body to its end.
    pub(super) async fn gather<S: AsyncRead + Unpin>(
        &self,
        mut source: Source<'_, S>,
        framing: Framing,
    ) -> Result<(Bytes, Held), Refusal> {
        let mut held = self.hold();
        let gathering = async {
            let mut body = BytesMut::new();
            match framing {
                Framing::Length(length) => source.take(length, &mut body, &mut held).await?,
                Framing::Chunks => source.take_chunks(&mut body, &mut held).await?,
            }
            Ok(body.freeze())
        };
        match tokio::time::timeout(self.time_max, gathering).await {
            Ok(body) => Ok((body?, held)),
            Err(_) => Err(Refusal::BodyTimeout { seconds: self.time_max.as_secs() }),
        }
    }
}

impl<S: AsyncRead + Unpin> Source<'_, S> {
    /// Adds so many bytes to a body.
    async fn take(
        &mut self,
        length: u64,
        body: &mut BytesMut,
        held: &mut Held,
    ) -> Result<(), Refusal> {
        let mut missing = usize::try_from(length).map_err(|_| held.too_large())?;
        let arrived = missing.min(self.inbox.len());
        held.grow(arrived as u64)?;
        body.extend_from_slice(&self.inbox.split_to(arrived));
        missing -= arrived;
        while missing > 0 {
            body.reserve(missing.min(body.len().max(STEP_BYTES)));
            let read = self.stream.read_buf(&mut (&mut *body).limit(missing)).await;
            let read = ended_early(read)?;
            held.grow(read as u64)?;
            missing -= read;
        }
        Ok(())
    }

    async fn take_chunks(&mut self, body: &mut BytesMut, held: &mut Held) -> Result<(), Refusal> {
        let mut beside_bytes = 0;
        loop {
            let line = self.take_line().await?;
            let (digits, extension_bytes) = chunk_line(&line);
            beside_bytes += extension_bytes;
            if beside_bytes > limits::TRAILER_BYTES_MAX {
                return Err(broken("the extensions of its chunks are too long"));
            }
            match chunk_size(digits).ok_or_else(|| broken("a chunk's size is not a number"))? {
                0 => break,
                size if !held.has_room(size) => return Err(held.too_large()),
                size => self.take(size, body, held).await?,
            }
            if !self.take_line().await?.is_empty() {
                return Err(broken("a chunk is longer than its size"));
            }
        }
        loop {
            let line = self.take_line().await?;
            beside_bytes += line.len();
            match line.len() {
                0 => return Ok(()),
                _ if beside_bytes > limits::TRAILER_BYTES_MAX => {
                    return Err(broken("the trailers are too long"));
                }
                _ if !line.contains(&b':') => return Err(broken("a trailer has no colon")),
                _ => {}
            }
        }
    }

    /// The next line without its end. A line that is too long is refused alike whether its end has
    /// arrived with it or not.
    async fn take_line(&mut self) -> Result<Bytes, Refusal> {
        loop {
            let within = self.inbox.get(..=limits::TRAILER_BYTES_MAX).unwrap_or(self.inbox);
            if let Some(end) = within.iter().position(|byte| *byte == b'\n') {
                let mut line = self.inbox.split_to(end).freeze();
                self.inbox.advance(1);
                let text = line.strip_suffix(b"\r").filter(|text| !text.contains(&b'\r'));
                let length = text.ok_or_else(|| broken("a line does not end with CR LF"))?.len();
                line.truncate(length);
                return Ok(line);
            }
            if self.inbox.len() > limits::TRAILER_BYTES_MAX {
                return Err(broken("a line between chunks is too long"));
            }
            self.inbox.reserve(super::INBOX_BYTES);
            ended_early(self.stream.read_buf(self.inbox).await)?;
        }
    }
}

/// The number in front of a chunk, and how much stands beside it: what follows a semicolon is an
/// extension.
fn chunk_line(line: &[u8]) -> (&[u8], usize) {
    let end = line.iter().position(|byte| *byte == b';').unwrap_or(line.len());
    let digits = line.get(..end).unwrap_or_default().trim_ascii_end();
    (digits, line.len() - digits.len())
}

fn chunk_size(digits: &[u8]) -> Option<u64> {
    // Sixteen digits would do; more could only hide something.
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |size, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(size << 4 | u64::from(digit))
    })
}

/// How many bytes came; none is an end in the middle.
fn ended_early(read: io::Result<usize>) -> Result<usize, Refusal> {
    match read {
        Ok(0) => Err(broken("the connection ended inside it")),
        Ok(read) => Ok(read),
        Err(error) => Err(broken(&error.to_string())),
    }
}

fn broken(reason: &str) -> Refusal {
    Refusal::BodyBroken { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_chunks_are_hexadecimal_digits() {
        for (line, size) in [
            ("0", Some(0)),
            ("1f", Some(31)),
            ("1F;name=value", Some(31)),
            ("a ;x", Some(10)),
            ("ffffffffffffffff", Some(u64::MAX)),
            ("0ffffffffffffffff", None),
            ("", None),
            (";x", None),
            ("+1", None),
            ("0x1", None),
            (" 1", None),
            ("1 1", None),
        ] {
            let (digits, _) = chunk_line(line.as_bytes());
            assert_eq!(chunk_size(digits), size, "{line:?}");
        }
    }
}
