//! Short texts for headers: numbers and GUIDs, written digit by digit.
//!
//! A point read answers with half a dozen of them. The standard formatting machinery would take
//! more time than looking up the item, and a `String` with room to spare costs a second allocation
//! when it becomes a header; here a text grows on the stack and is copied once.

use partita_model::{Charge, Etag};

/// A byte in hexadecimal.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        hex[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    hex
};

/// A text in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    bytes: [u8; Text::BYTES_MAX],
    len: usize,
}

impl Text {
    /// The longest text is a quoted GUID of 38 characters, or a session token of 34.
    pub(crate) const BYTES_MAX: usize = 48;

    pub(crate) fn new() -> Text {
        Text { bytes: [0; Text::BYTES_MAX], len: 0 }
    }

    pub(crate) fn str(self, text: &str) -> Text {
        self.ascii(text.as_bytes())
    }

    pub(crate) fn number(self, number: u64) -> Text {
        self.digits(number, 1)
    }

    /// A number with leading zeros up to this many digits.
    pub(crate) fn digits(self, mut number: u64, digits_min: usize) -> Text {
        let mut digits = [b'0'; 20];
        let mut len = 0;
        for digit in digits.iter_mut().rev() {
            if number == 0 && len >= digits_min {
                break;
            }
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            len += 1;
        }
        self.ascii(digits.get(digits.len() - len..).unwrap_or_default())
    }

    /// Sixteen bytes as a GUID.
    pub(crate) fn guid(self, bytes: &[u8; 16]) -> Text {
        /// Where each byte is written; what is left between them are the dashes.
        const AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
        let mut text = [b'-'; 36];
        for (byte, at) in bytes.iter().zip(AT) {
            let [high, low] = HEX[usize::from(*byte)];
            (text[at], text[at + 1]) = (high, low);
        }
        self.ascii(&text)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Adds as much as there is room for.
    fn ascii(mut self, text: &[u8]) -> Text {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let len = text.len().min(room.len());
        if let (Some(room), Some(text)) = (room.get_mut(..len), text.get(..len)) {
            room.copy_from_slice(text);
            self.len += len;
        }
        self
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// A number.
pub(crate) fn number(number: impl Into<u64>) -> Text {
    Text::new().number(number.into())
}

/// An ETag in its quotes.
pub(crate) fn etag(etag: &Etag) -> Text {
    Text::new().str("\"").guid(&etag.0).str("\"")
}

/// A charge with two decimals at most.
pub(crate) fn charge(charge: Charge) -> Text {
    let hundredths = (charge.0 * 100.0).round_ties_even() as u64;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let text = Text::new().number(whole);
    match rest {
        0 => text,
        tenths if tenths % 10 == 0 => text.str(".").number(tenths / 10),
        rest => text.str(".").digits(rest, 2),
    }
}

/// A duration in milliseconds with three decimals.
pub(crate) fn millis(nanos: u64) -> Text {
    let micros = nanos / 1_000;
    Text::new().number(micros / 1_000).str(".").digits(micros % 1_000, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(Text::new().number(number).as_bytes(), number.to_string().as_bytes());
        }
        assert_eq!(Text::new().digits(7, 3).as_bytes(), "007".as_bytes());
        assert_eq!(Text::new().digits(1_234, 3).as_bytes(), "1234".as_bytes());
    }

    #[test]
    fn etags_are_written_as_the_model_writes_them() {
        let tag = Etag([0, 1, 0x7f, 0x80, 0xff, 5, 6, 7, 8, 9, 0xab, 11, 12, 13, 14, 0xf0]);
        assert_eq!(etag(&tag).as_bytes(), tag.quoted().as_bytes());
    }

    #[test]
    fn charges_are_written_as_the_model_writes_them() {
        for ru in [0.0, 1.0, 1.1, 5.71, 2.999, 10.05, 0.125, 400.5, 1_234.56, 100.0] {
            assert_eq!(charge(Charge(ru)).as_bytes(), Charge(ru).to_string().as_bytes());
        }
    }

    #[test]
    fn durations_are_decimal_milliseconds() {
        assert_eq!(millis(0).as_bytes(), "0.000".as_bytes());
        assert_eq!(millis(1_234_567).as_bytes(), "1.234".as_bytes());
        assert_eq!(millis(2_000_000_999).as_bytes(), "2000.000".as_bytes());
    }

    #[test]
    fn a_text_that_is_too_long_is_cut() {
        assert_eq!(Text::new().str(&"x".repeat(100)).as_bytes().len(), Text::BYTES_MAX);
    }
}
