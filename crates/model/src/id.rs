//! Names for things: sequence numbers, resource ids, ETags, and what users may call a resource.
//!
//! A *resource id* (rid) names a resource for its whole life: a replaced resource keeps it, a
//! re-created one gets another. Clients see it as base64 in which `-` stands for `/`, and take it
//! apart again, so the bytes are part of the protocol:
//!
//! ```text
//!   offer      3 bytes   number, big-endian
//!   database   4 bytes   number, big-endian
//!   container  8 bytes   database, then number, big-endian, with its top bit set
//!   item      16 bytes   container, then number, little-endian; the top nibble of the last byte
//!                        tells the kind: 0 item, 5 partition key range, 6 to 8 scripts
//! ```
//!
//! `parse` is exact: it accepts what `Display` prints, and nothing else.

use std::fmt;

use crate::error::{Error, Result};
use crate::limits;

mod base64;
mod script;
mod user;

pub use script::{ScriptKind, ScriptRid};
pub use user::{EncryptionKeyRid, PermissionRid, UserRid};

/// A position in a partition's line of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position after this one.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Counts the changes of a container's set of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A database's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatabaseRid(pub u32);

/// A container's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerRid {
    /// The database it is in.
    pub database: DatabaseRid,
    /// Its number there: 31 bits.
    pub container: u32,
}

/// An item's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRid {
    /// The container it is in.
    pub container: ContainerRid,
    /// Its number there: 60 bits.
    pub item: u64,
}

/// A partition key range's resource id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RangeRid {
    /// The container it is in.
    pub container: ContainerRid,
    /// Its number there: 60 bits.
    pub range: u64,
}

/// An offer's resource id: 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OfferRid(pub u32);

/// The bit that tells a container's number from a user's.
const CONTAINER_BIT: u32 = 0x8000_0000;
/// The bits of an item's or range's number; the rest is the kind.
const CHILD_MASK: u64 = (1 << 60) - 1;
const KIND_ITEM: u64 = 0;
const KIND_RANGE: u64 = 5;

impl DatabaseRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<DatabaseRid> {
        Some(DatabaseRid(u32::from_be_bytes(base64::decode(text)?)))
    }
}

impl fmt::Display for DatabaseRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64::encode(&self.0.to_be_bytes()))
    }
}

impl ContainerRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<ContainerRid> {
        ContainerRid::from_bytes(base64::decode(text)?)
    }

    /// The same text as `Display`, without the formatter: every answer about an item has it.
    pub fn to_text(self) -> String {
        base64::encode(&self.to_bytes())
    }

    fn from_bytes(bytes: [u8; 8]) -> Option<ContainerRid> {
        let both = u64::from_be_bytes(bytes);
        let (database, marked) = ((both >> 32) as u32, both as u32);
        let is_container = marked & CONTAINER_BIT != 0;
        is_container.then_some(ContainerRid {
            database: DatabaseRid(database),
            container: marked & !CONTAINER_BIT,
        })
    }

    fn to_bytes(self) -> [u8; 8] {
        let marked = self.container | CONTAINER_BIT;
        (u64::from(self.database.0) << 32 | u64::from(marked)).to_be_bytes()
    }
}

impl fmt::Display for ContainerRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl ItemRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<ItemRid> {
        let (container, item) = parse_child(text, KIND_ITEM)?;
        Some(ItemRid { container, item })
    }

    /// The same text as `Display`, without the formatter.
    pub fn to_text(self) -> String {
        child_text(self.container, self.item, KIND_ITEM)
    }
}

impl fmt::Display for ItemRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl RangeRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<RangeRid> {
        let (container, range) = parse_child(text, KIND_RANGE)?;
        Some(RangeRid { container, range })
    }
}

impl fmt::Display for RangeRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&child_text(self.container, self.range, KIND_RANGE))
    }
}

fn child_text(container: ContainerRid, number: u64, kind: u64) -> String {
    debug_assert!(number <= CHILD_MASK, "the number of an item or range has 60 bits");
    let word = (number & CHILD_MASK) | (kind << 60);
    let both = u128::from(u64::from_be_bytes(container.to_bytes())) << 64;
    base64::encode(&(both | u128::from(word.swap_bytes())).to_be_bytes())
}

fn parse_child(text: &str, kind: u64) -> Option<(ContainerRid, u64)> {
    let both = u128::from_be_bytes(base64::decode(text)?);
    let container = ContainerRid::from_bytes(((both >> 64) as u64).to_be_bytes())?;
    let word = (both as u64).swap_bytes();
    (word >> 60 == kind).then_some((container, word & CHILD_MASK))
}

impl OfferRid {
    /// The inverse of `Display`.
    pub fn parse(text: &str) -> Option<OfferRid> {
        let [a, b, c] = base64::decode(text)?;
        Some(OfferRid(u32::from_be_bytes([0, a, b, c])))
    }
}

impl fmt::Display for OfferRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0 < 1 << 24, "the number of an offer has 24 bits");
        let [_, a, b, c] = self.0.to_be_bytes();
        f.write_str(&base64::encode(&[a, b, c]))
    }
}

/// Names one version of a resource. Shown as a GUID, without quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Etag(pub [u8; 16]);

impl Etag {
    /// With the two quote characters, as headers and `_etag` have it.
    pub fn quoted(&self) -> String {
        ["\"", &self.to_text(), "\""].concat()
    }

    /// The same text as `Display`, without the formatter: every write of an item makes one.
    fn to_text(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0xF)]);
        let mut text = String::with_capacity(36);
        for (at, byte) in self.0.into_iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push(digit(byte >> 4));
            text.push(digit(byte));
        }
        text
    }

    /// The inverse of `Display`; the hexadecimal digits may be of any case.
    pub fn parse(text: &str) -> Option<Etag> {
        let mut digits = String::with_capacity(32);
        for (at, c) in text.chars().enumerate() {
            match (at, c) {
                (8 | 13 | 18 | 23, '-') => {}
                (8 | 13 | 18 | 23, _) => return None,
                (_, c) if c.is_ascii_hexdigit() => digits.push(c),
                (_, _) => return None,
            }
        }
        let is_whole = digits.len() == 32;
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_whole)?;
        Some(Etag(number.to_be_bytes()))
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// May a database or container (`kind` says which, for the message) have this name?
pub fn check_resource_name(kind: &str, name: &str) -> Result<()> {
    let chars_max = limits::RESOURCE_NAME_CHARS_MAX;
    let chars_len = name.chars().count();
    if chars_len == 0 {
        return Err(Error::bad_request(format!("the {kind} id is empty. {}", ensure(chars_max))));
    }
    if chars_len > chars_max {
        return Err(Error::bad_request(format!(
            "the {kind} id has {chars_len} characters. {}",
            ensure(chars_max)
        )));
    }
    if let Some(c) = name.chars().find(|c| matches!(c, '/' | '\\' | '?' | '#')) {
        return Err(Error::bad_request(format!(
            "the {kind} id '{name}' contains '{c}': the characters / \\ ? # are not allowed in it"
        )));
    }
    if name.ends_with(' ') {
        return Err(Error::bad_request(format!(
            "the {kind} id '{name}' ends with a space: remove it"
        )));
    }
    Ok(())
}

/// The service's advice on the length of ids, which clients look for.
fn ensure(limit: usize) -> String {
    format!("Ensure to provide a unique non-empty string less than '{limit}' characters.")
}

/// May an item have this id? With a slash or backslash in it, it can be stored, but no path leads
/// to it by name.
pub fn check_item_id(id: &str) -> Result<()> {
    let bytes_max = limits::ITEM_ID_BYTES_MAX;
    if id.is_empty() {
        return Err(Error::bad_request(format!("the item id is empty. {}", ensure(bytes_max + 1))));
    }
    if id.len() > bytes_max {
        return Err(Error::bad_request(format!(
            "the item id has {} bytes. {}",
            id.len(),
            ensure(bytes_max + 1)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINER: ContainerRid =
        ContainerRid { database: DatabaseRid(0x0102_0304), container: 5 };

    #[test]
    fn resource_ids_have_the_lengths_and_letters_of_the_protocol() {
        assert_eq!(DatabaseRid(1).to_string(), "AAAAAQ==");
        assert_eq!(DatabaseRid(u32::MAX).to_string(), "-----w==");
        assert_eq!(CONTAINER.to_string(), "AQIDBIAAAAU=");
        assert_eq!(
            ItemRid { container: CONTAINER, item: 1 }.to_string(),
            "AQIDBIAAAAUBAAAAAAAAAA=="
        );
        assert_eq!(
            RangeRid { container: CONTAINER, range: 2 }.to_string(),
            "AQIDBIAAAAUCAAAAAAAAUA=="
        );
        assert_eq!(OfferRid(0x00FF_FFFB).to_string(), "---7");
    }

    #[test]
    fn resource_ids_read_back() {
        for number in [0, 1, 0x7FFF_FFFF] {
            let database = DatabaseRid(number * 2 + 1);
            let container = ContainerRid { database, container: number };
            let item = ItemRid { container, item: (u64::from(number) << 29) | 7 };
            let range = RangeRid { container, range: u64::from(number) };
            let offer = OfferRid(number & 0x00FF_FFFF);
            assert_eq!(DatabaseRid::parse(&database.to_string()), Some(database));
            assert_eq!(ContainerRid::parse(&container.to_string()), Some(container));
            assert_eq!(ItemRid::parse(&item.to_string()), Some(item));
            assert_eq!(RangeRid::parse(&range.to_string()), Some(range));
            assert_eq!(OfferRid::parse(&offer.to_string()), Some(offer));
        }
    }

    #[test]
    fn a_resource_id_of_another_kind_is_none() {
        let item = ItemRid { container: CONTAINER, item: 1 }.to_string();
        let range = RangeRid { container: CONTAINER, range: 1 }.to_string();
        assert_eq!(ItemRid::parse(&range), None);
        assert_eq!(RangeRid::parse(&item), None);
        assert_eq!(ContainerRid::parse(&item), None);
        assert_eq!(DatabaseRid::parse(&CONTAINER.to_string()), None);
        assert_eq!(ContainerRid::parse("AQIDBAAAAAU="), None, "this is a user's");
        for text in ["", "AAAAAQ", "AAAAAQ=", "AAAAA/==", "AAAAAR==", "orders", "ÄÄÄÄ"] {
            assert_eq!(DatabaseRid::parse(text), None, "{text}");
        }
    }

    #[test]
    fn etags_look_like_guids_and_read_back() {
        let etag = Etag([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(etag.to_string(), "00010203-0405-0607-0809-0a0b0c0d0eff");
        assert_eq!(etag.quoted(), "\"00010203-0405-0607-0809-0a0b0c0d0eff\"");
        assert_eq!(Etag::parse(&etag.to_string()), Some(etag));
        assert_eq!(Etag::parse(&etag.to_string().to_uppercase()), Some(etag));
        for text in ["", "00010203", "00010203-0405-0607-0809-0a0b0c0d0eff0", &etag.quoted()] {
            assert_eq!(Etag::parse(text), None, "{text}");
        }
    }

    #[test]
    fn resource_names_are_checked() {
        for name in ["a", "with space", "colls", "ümläut", "a+b%20", &"x".repeat(255)] {
            assert_eq!(check_resource_name("database", name), Ok(()), "{name}");
        }
        for name in ["", "a/b", "a\\b", "a?", "#a", "a ", &"x".repeat(256)] {
            let error = check_resource_name("container", name).unwrap_err();
            assert!(error.message.contains("container"), "{error}");
        }
    }

    #[test]
    fn item_ids_are_checked() {
        for id in ["a", "a ", "?", "#", "a\tb\r\n", "%20", "a/b", "\\", &"x".repeat(1023)] {
            assert_eq!(check_item_id(id), Ok(()), "{id}");
        }
        for id in ["", &"x".repeat(1024), &"ü".repeat(512)] {
            assert!(check_item_id(id).is_err(), "{id}");
        }
    }
}
