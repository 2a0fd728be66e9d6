//! Effective partition keys: the byte strings that order logical partitions, and ranges of them.
//!
//! A container's items are spread by the hash of their partition key. What is compared, split and
//! shown to clients is not the bare hash but an *effective partition key*, in one of four forms:
//!
//! | kind, version | bytes |
//! |---|---|
//! | Hash, 2 | 128-bit hash of all components, the two top bits cleared |
//! | MultiHash, 2 | one such hash per component, one after the other |
//! | Hash, 1 | the 32-bit hash as an order-preserving number, then the components themselves |
//! | Range | the components themselves |
//!
//! Clients print them as upper-case hexadecimal and compare the text; comparing the bytes gives
//! the same order. The whole space is `[]` (nothing) up to `FF`, exclusive.
//!
//! Two different version 1 keys may share an effective partition key (strings are cut to 100
//! UTF-16 units), and two different version 2 keys may in theory: it routes, it does not identify.

use std::fmt;

use crate::murmur::{murmur3_32, murmur3_128};
use crate::partition_key::KeyPart;

/// An effective partition key, or a bound of a range of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epk(Vec<u8>);

impl Epk {
    /// The inclusive lower end of the whole space: no bytes.
    pub fn min() -> Epk {
        Epk(Vec::new())
    }

    /// The exclusive upper end of the whole space: `FF`.
    pub fn max() -> Epk {
        Epk(vec![0xFF])
    }

    /// Reads hexadecimal text in either case; `None` when it is anything else.
    pub fn parse_hex(text: &str) -> Option<Epk> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
    }

    /// An EPK of these bytes, as [`Epk::as_bytes`] gave them.
    pub fn from_bytes(bytes: Vec<u8>) -> Epk {
        Epk(bytes)
    }

    /// The bytes that are compared.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// This key followed by one more byte: with 0x00 the next key in order, with 0xFF an end
    /// behind everything that starts with this key (no component's hash starts with 0xFF).
    pub(crate) fn followed_by(&self, byte: u8) -> Epk {
        let mut bytes = Vec::with_capacity(self.0.len() + 1);
        bytes.extend_from_slice(&self.0);
        bytes.push(byte);
        Epk(bytes)
    }
}

impl FromIterator<u8> for Epk {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Epk {
        Epk(bytes.into_iter().collect())
    }
}

impl From<Vec<u8>> for Epk {
    fn from(bytes: Vec<u8>) -> Epk {
        Epk(bytes)
    }
}

/// Upper-case hexadecimal, as clients write it.
impl fmt::Display for Epk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// A half-open range of effective partition keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpkRange {
    /// The first key inside.
    pub min: Epk,
    /// The first key behind.
    pub max: Epk,
}

impl EpkRange {
    /// The range from `min` up to, but without, `max`.
    pub fn new(min: Epk, max: Epk) -> EpkRange {
        EpkRange { min, max }
    }

    /// The whole space.
    pub fn all() -> EpkRange {
        EpkRange { min: Epk::min(), max: Epk::max() }
    }

    /// Is this key inside?
    pub fn contains(&self, epk: &Epk) -> bool {
        self.min <= *epk && *epk < self.max
    }

    /// Is there room for a key that is in both?
    pub fn overlaps(&self, other: &EpkRange) -> bool {
        (&self.min).max(&other.min) < (&self.max).min(&other.max)
    }

    /// What is in both, unless that is nothing.
    pub fn intersect(&self, other: &EpkRange) -> Option<EpkRange> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(EpkRange { min, max })
    }

    /// Does it hold no key at all?
    pub fn is_empty(&self) -> bool {
        self.min >= self.max
    }
}

/// `[min, max)` in hexadecimal, for messages.
impl fmt::Display for EpkRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.min, self.max)
    }
}

/// Kind Hash, version 2: one hash over all components. No components: the minimum.
pub(crate) fn hash_v2(parts: &[KeyPart]) -> Epk {
    if parts.is_empty() {
        return Epk::min();
    }
    let mut input = Vec::new();
    parts.iter().for_each(|part| put_hash_input(&mut input, part, STRING_END_V2));
    Epk(masked_hash(&input).to_vec())
}

/// Kind MultiHash: each component's own hash, in order.
pub(crate) fn multi_hash(parts: &[KeyPart]) -> Epk {
    let mut input = Vec::new();
    parts
        .iter()
        .flat_map(|part| {
            input.clear();
            put_hash_input(&mut input, part, STRING_END_V2);
            masked_hash(&input)
        })
        .collect()
}

/// Kind Hash, version 1: the hash as a number, then the components, strings cut short.
pub(crate) fn hash_v1(parts: &[KeyPart]) -> Epk {
    if parts.is_empty() {
        return Epk::min();
    }
    let parts: Vec<KeyPart> = parts.iter().map(cut_v1).collect();
    let mut input = Vec::new();
    parts.iter().for_each(|part| put_hash_input(&mut input, part, STRING_END_V1));
    let mut bytes = Vec::new();
    put_ordered_number(&mut bytes, f64::from(murmur3_32(&input)));
    parts.iter().for_each(|part| put_ordered(&mut bytes, part));
    Epk(bytes)
}

/// Kind Range: the components themselves, in an order-preserving form.
pub(crate) fn range_kind(parts: &[KeyPart]) -> Epk {
    let mut bytes = Vec::new();
    parts.iter().for_each(|part| put_ordered(&mut bytes, part));
    Epk(bytes)
}

/// Where the `index`-th of `n` equal parts of the version 2 hash space starts.
pub(crate) fn boundary_v2(index: u128, n: u128) -> Epk {
    let space = (1_u128 << 126) - 1;
    Epk((index * (space / n)).to_be_bytes().to_vec())
}

/// The same for version 1, whose hashes are 32-bit numbers.
pub(crate) fn boundary_v1(index: u64, n: u64) -> Epk {
    let mut bytes = Vec::new();
    // Below 2^32, so the conversion is exact.
    put_ordered_number(&mut bytes, (index * (u64::from(u32::MAX) / n)) as f64);
    Epk(bytes)
}

/// The markers that start each component, as the service numbers its types.
mod marker {
    pub(super) const UNDEFINED: u8 = 0x00;
    pub(super) const NULL: u8 = 0x01;
    pub(super) const FALSE: u8 = 0x02;
    pub(super) const TRUE: u8 = 0x03;
    pub(super) const NUMBER: u8 = 0x05;
    pub(super) const STRING: u8 = 0x08;
}

const STRING_END_V1: u8 = 0x00;
const STRING_END_V2: u8 = 0xFF;

/// Version 1 looks at this much of a string.
const V1_STRING_UTF16_UNITS_MAX: usize = 100;
/// The order-preserving form of a string holds this many bytes and its end …
const ORDERED_STRING_BYTES_MAX: usize = 100;
/// … or, when it is longer, so many and no end.
const ORDERED_STRING_CUT_BYTES: usize = 101;

/// What the hash functions are fed for one component.
fn put_hash_input(out: &mut Vec<u8>, part: &KeyPart, string_end: u8) {
    match part {
        KeyPart::Undefined => out.push(marker::UNDEFINED),
        KeyPart::Null => out.push(marker::NULL),
        KeyPart::Bool(false) => out.push(marker::FALSE),
        KeyPart::Bool(true) => out.push(marker::TRUE),
        KeyPart::Number(number) => {
            out.push(marker::NUMBER);
            out.extend_from_slice(&number.to_le_bytes());
        }
        KeyPart::String(text) => {
            out.push(marker::STRING);
            out.extend_from_slice(text.as_bytes());
            out.push(string_end);
        }
    }
}

fn masked_hash(input: &[u8]) -> [u8; 16] {
    // Two bits short of the full width: `FF` stays free as the end of the space.
    (murmur3_128(input) & (u128::MAX >> 2)).to_be_bytes()
}

/// A string cut to 100 UTF-16 units. A cut through a surrogate pair leaves half a character,
/// which the service's encoder writes as U+FFFD.
fn cut_v1(part: &KeyPart) -> KeyPart {
    let KeyPart::String(text) = part else { return part.clone() };
    let mut cut = String::new();
    let mut units = 0;
    for character in text.chars() {
        units += character.len_utf16();
        if units > V1_STRING_UTF16_UNITS_MAX {
            if units - V1_STRING_UTF16_UNITS_MAX < character.len_utf16() {
                cut.push(char::REPLACEMENT_CHARACTER);
            }
            break;
        }
        cut.push(character);
    }
    KeyPart::String(cut)
}

/// The order-preserving form of one component.
fn put_ordered(out: &mut Vec<u8>, part: &KeyPart) {
    match part {
        KeyPart::Undefined => out.push(marker::UNDEFINED),
        KeyPart::Null => out.push(marker::NULL),
        KeyPart::Bool(false) => out.push(marker::FALSE),
        KeyPart::Bool(true) => out.push(marker::TRUE),
        KeyPart::Number(number) => put_ordered_number(out, *number),
        KeyPart::String(text) => {
            out.push(marker::STRING);
            // One is added so that 0x00 is free to end the string. UTF-8 has no byte 0xFF.
            let raised = text.bytes().map(|byte| byte.saturating_add(1));
            if text.len() <= ORDERED_STRING_BYTES_MAX {
                out.extend(raised);
                out.push(0x00);
            } else {
                out.extend(raised.take(ORDERED_STRING_CUT_BYTES));
            }
        }
    }
}

/// A number in order: the top 8 bits, then groups of 7 bits, each followed by a set bit while more
/// follow; trailing zero groups are left out.
fn put_ordered_number(out: &mut Vec<u8>, number: f64) {
    const SIGN: u64 = 1 << 63;
    let bits = number.to_bits();
    let mut rest = if bits & SIGN == 0 { bits ^ SIGN } else { bits.wrapping_neg() };
    out.push(marker::NUMBER);
    out.push((rest >> 56) as u8);
    rest <<= 8;
    loop {
        let group = (rest >> 56) as u8 & 0xFE;
        rest <<= 7;
        if rest == 0 {
            out.push(group);
            return;
        }
        out.push(group | 1);
    }
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

pub(crate) mod division;

pub use division::Portion;

#[cfg(test)]
mod baselines;

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Epk {
        Epk::parse_hex(text).unwrap()
    }

    fn range(min: &str, max: &str) -> EpkRange {
        EpkRange::new(hex(min), hex(max))
    }

    #[test]
    fn hexadecimal_is_read_in_either_case_and_written_in_upper_case() {
        assert_eq!(hex("0aFf").to_string(), "0AFF");
        assert_eq!(hex(""), Epk::min());
        assert_eq!(hex("ff"), Epk::max());
        for bad in ["0", "0g", "+1", " 1", "1 ", "é"] {
            assert_eq!(Epk::parse_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn ranges_are_half_open() {
        let r = range("10", "20");
        assert!(r.contains(&hex("10")) && r.contains(&hex("1FFF")));
        assert!(!r.contains(&hex("20")) && !r.contains(&hex("0FFF")));
        assert!(EpkRange::all().contains(&Epk::min()) && !EpkRange::all().contains(&Epk::max()));
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!range("", "10").overlaps(&range("10", "FF")));
        assert_eq!(range("", "20").intersect(&range("10", "FF")), Some(range("10", "20")));
        assert_eq!(range("20", "30").intersect(&range("10", "20")), None);
        assert!(range("20", "20").is_empty() && range("30", "20").is_empty());
        assert!(!range("20", "20").overlaps(&EpkRange::all()), "nothing overlaps an empty range");
        assert!(!EpkRange::all().is_empty());
    }

    #[test]
    fn a_cut_through_a_surrogate_pair_becomes_the_replacement_character() {
        let odd = KeyPart::String(format!("{}😀tail", "a".repeat(99)));
        assert_eq!(cut_v1(&odd), KeyPart::String(format!("{}\u{FFFD}", "a".repeat(99))));
        let even = KeyPart::String(format!("{}😀tail", "a".repeat(98)));
        assert_eq!(cut_v1(&even), KeyPart::String(format!("{}😀", "a".repeat(98))));
        let exact = KeyPart::String("a".repeat(100));
        assert_eq!(cut_v1(&exact), exact);
    }

    #[test]
    fn ordered_numbers_sort_like_the_numbers() {
        let numbers = [
            f64::MIN,
            -2.5,
            -1.0,
            -5e-324,
            0.0,
            5e-324,
            0.5,
            1.0,
            1.5,
            2.0,
            4294967295.0,
            f64::MAX,
        ];
        let encoded: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| {
                let mut out = Vec::new();
                put_ordered_number(&mut out, *number);
                out
            })
            .collect();
        assert!(encoded.is_sorted_by(|a, b| a < b), "{encoded:02X?}");
    }
}
