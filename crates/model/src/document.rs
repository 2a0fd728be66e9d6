//! Looking into an item's text without building a tree of it.
//!
//! An item is stored and served as one compact JSON text. What the database must know of it (its
//! id, its partition key, the terms of its index) is found by skipping through the bytes: names and
//! strings are borrowed from the text, and only those with escapes are copied.
//!
//! The text is trusted to be what [`crate::json::compact_object`] or [`stamp`] returned. Any other
//! text gives answers without meaning (mostly None), never a panic. That it is UTF-8 is trusted as
//! well: only the pieces that are taken out as strings are checked, since a query looks at a few
//! properties of very many items.

use std::borrow::Cow;

use memchr::memchr;

use crate::id::{Etag, Lsn};
use crate::json::scan::Quoted;
use crate::json::{self, write_string};
use crate::limits::DEPTH_MAX;
use crate::path::PropertyPath;
use crate::value::Value;

mod cursor;
mod name;

pub use self::name::MemberName;

pub(crate) use self::cursor::{depth_of, element_texts, member_texts};

use self::cursor::{Cursor, Member, element_ranges, member_value, parse_number, short_integer};

/// An item's text, to be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a>(&'a [u8]);

/// A value inside a document, as its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

/// The types of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// One step down into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// To the member of this name.
    Member(Cow<'a, str>),
    /// To an element of an array, whichever.
    Element,
}

/// Where a walk cannot go deeper.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf<'a> {
    /// A value without parts.
    Scalar(Scalar<'a>),
    /// `[]`.
    EmptyArray,
    /// `{}`.
    EmptyObject,
}

/// What a walk comes by.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<'a> {
    /// Where it cannot go deeper.
    Leaf(Leaf<'a>),
    /// An array with elements; they follow.
    Array,
    /// An object with members; they follow.
    Object,
}

/// A value without parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as the nearest double.
    Number(f64),
    /// A string.
    String(Cow<'a, str>),
}

impl<'a> Document<'a> {
    /// The text came out of `compact_object` or `stamp`.
    pub fn new(text: &'a str) -> Document<'a> {
        Document(text.as_bytes())
    }

    /// The same for a text that was stored: the bytes are UTF-8 if they are what was written.
    pub fn stored(bytes: &'a [u8]) -> Document<'a> {
        Document(bytes)
    }

    /// The whole text; an empty one if it is no text.
    pub fn text(&self) -> &'a str {
        self.raw().text()
    }

    /// The whole document as a value.
    pub fn raw(&self) -> Raw<'a> {
        Raw(self.0)
    }

    /// The value at a path. None where a name is missing, or the path runs through an array or a
    /// scalar.
    pub fn get(&self, path: &PropertyPath) -> Option<Raw<'a>> {
        self.at(path.segments().iter().map(String::as_str))
    }

    /// The same for a path of these names.
    pub fn at<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<Raw<'a>> {
        let mut value = self.0;
        for name in names {
            value = member_value(value, name)?;
        }
        Some(Raw(value))
    }

    /// The value of a top-level member.
    pub fn member(&self, name: &str) -> Option<Raw<'a>> {
        member_value(self.0, name).map(Raw)
    }

    /// The same for a name that is looked up often.
    pub fn member_named(&self, name: &MemberName) -> Option<Raw<'a>> {
        name.find(self.0).map(Raw)
    }

    /// The top-level members in order.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, Raw<'a>)> + use<'a> {
        member_texts(self.text()).map(|member| (member.name.decode(), Raw::new(member.value)))
    }

    /// The elements in order, if the text is an array and no object.
    pub fn elements(&self) -> impl Iterator<Item = Raw<'a>> + use<'a> {
        let bytes = self.0;
        element_ranges(bytes).map_while(|range| bytes.get(range).map(Raw))
    }

    /// Visits every leaf, in the order of the text.
    pub fn walk(&self, f: &mut dyn FnMut(&[Step<'a>], Leaf<'a>)) {
        self.visit(&mut |path, node| {
            if let Node::Leaf(leaf) = node {
                f(path, leaf);
            }
        });
    }

    /// Visits every value, in the order of the text: what holds others before them, and the
    /// document itself, at the empty path, first.
    pub fn visit(&self, f: &mut dyn FnMut(&[Step<'a>], Node<'a>)) {
        let text = self.text();
        let cursor = Cursor::new(text.as_bytes());
        let mut walk = Walk { text, cursor, path: Vec::with_capacity(8), f };
        // None means that the text ended or broke off: there is nobody to tell.
        let _visited = walk.value();
    }

    /// The document as a tree; null if the text is no JSON.
    pub fn to_value(&self) -> Value {
        Raw(self.0).to_value()
    }
}

impl<'a> Raw<'a> {
    /// The text is one value of a document.
    pub(crate) fn new(text: &'a str) -> Raw<'a> {
        Raw(text.as_bytes())
    }

    /// The value's text; an empty one if it is no text.
    pub fn text(&self) -> &'a str {
        std::str::from_utf8(self.0).unwrap_or_default()
    }

    /// The value's text, unchecked.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The value, to be looked into.
    pub fn document(&self) -> Document<'a> {
        Document(self.0)
    }

    /// The value, if it has no parts.
    pub fn scalar(&self) -> Option<Scalar<'a>> {
        match self.kind() {
            RawKind::Null => Some(Scalar::Null),
            RawKind::Bool => Some(Scalar::Bool(self.0 == b"true")),
            RawKind::Number => parse_number(self.0).map(Scalar::Number),
            RawKind::String => {
                // A value ends where its string does: its end need not be looked for again.
                let raw = self.text().strip_prefix('"')?.strip_suffix('"')?;
                let escaped = memchr(b'\\', raw.as_bytes()).is_some();
                Some(Scalar::String(Quoted { raw, escaped }.decode()))
            }
            RawKind::Array | RawKind::Object => None,
        }
    }

    /// The number, if it is written with a few digits and nothing else, as most numbers are.
    pub fn short_integer(&self) -> Option<i64> {
        short_integer(self.0)
    }

    /// The value's type.
    pub fn kind(&self) -> RawKind {
        match self.0.first() {
            Some(b'"') => RawKind::String,
            Some(b'{') => RawKind::Object,
            Some(b'[') => RawKind::Array,
            Some(b't' | b'f') => RawKind::Bool,
            Some(b'-' | b'0'..=b'9') => RawKind::Number,
            _ => RawKind::Null,
        }
    }

    /// The value as a tree; null if the text is no JSON.
    pub fn to_value(&self) -> Value {
        json::parse_str(self.text()).unwrap_or(Value::Null)
    }
}

/// A walk in progress. Each method returns None when the text breaks off.
struct Walk<'a, 'f> {
    text: &'a str,
    cursor: Cursor<'a>,
    path: Vec<Step<'a>>,
    f: &'f mut dyn FnMut(&[Step<'a>], Node<'a>),
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self) -> Option<()> {
        match self.cursor.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            _ => {
                let scalar = Raw::new(self.text.get(self.cursor.value()?)?).scalar()?;
                self.leaf(Leaf::Scalar(scalar));
                Some(())
            }
        }
    }

    fn object(&mut self) -> Option<()> {
        self.cursor.eat(b'{')?;
        if self.cursor.eat(b'}').is_some() {
            self.leaf(Leaf::EmptyObject);
            return Some(());
        }
        (self.f)(&self.path, Node::Object);
        loop {
            let name = self.cursor.name()?.of(self.text)?;
            self.descend(Step::Member(name.decode()))?;
            if self.cursor.eat(b',').is_none() {
                return self.cursor.eat(b'}');
            }
        }
    }

    fn array(&mut self) -> Option<()> {
        self.cursor.eat(b'[')?;
        if self.cursor.eat(b']').is_some() {
            self.leaf(Leaf::EmptyArray);
            return Some(());
        }
        (self.f)(&self.path, Node::Array);
        loop {
            self.descend(Step::Element)?;
            if self.cursor.eat(b',').is_none() {
                return self.cursor.eat(b']');
            }
        }
    }

    fn descend(&mut self, step: Step<'a>) -> Option<()> {
        if self.path.len() == DEPTH_MAX {
            return None;
        }
        self.path.push(step);
        self.value()?;
        self.path.pop();
        Some(())
    }

    fn leaf(&mut self, leaf: Leaf<'a>) {
        (self.f)(&self.path, Node::Leaf(leaf));
    }
}

/// The names that belong to the system. A client's values for them are ignored.
pub const SYSTEM_NAMES: [&str; 5] = ["_rid", "_self", "_etag", "_ts", "_attachments"];

/// Those of them that have no entries in an index. The time of the last write is indexed like a
/// property of the user. The resource id has a family of keys of its own, and nobody searches by
/// the rest.
pub const UNINDEXED_NAMES: [&str; 4] = ["_rid", "_self", "_etag", "_attachments"];

/// What the system tells of an item: `_rid _self _etag _ts _attachments`, in this order after the
/// user's members.
#[derive(Clone, Copy, Debug)]
pub struct SystemProperties<'s> {
    /// `_rid`.
    pub rid: &'s str,
    /// `_self`.
    pub self_link: &'s str,
    /// `_etag`.
    pub etag: Etag,
    /// `_ts`, in seconds.
    pub ts: u64,
}

/// The user's members without the system's names, then the system's: the text that is stored and
/// served.
pub fn stamp(compact: &str, system: &SystemProperties<'_>) -> String {
    /// Names, quotes and the values of fixed length: about 150 bytes.
    const SYSTEM_BYTES: usize = 160;
    let links_len = system.rid.len() + system.self_link.len();
    let mut out = user_members(compact, SYSTEM_BYTES + links_len);
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str("\"_rid\":");
    write_string(&mut out, system.rid);
    out.push_str(",\"_self\":");
    write_string(&mut out, system.self_link);
    out.push_str(",\"_etag\":");
    write_string(&mut out, &system.etag.quoted());
    out.push_str(",\"_ts\":");
    out.push_str(&system.ts.to_string());
    out.push_str(",\"_attachments\":\"attachments/\"}");
    out
}

/// The inverse of [`stamp`]: the text without the system's members.
pub fn unstamp(text: &str) -> String {
    let mut out = user_members(text, 1);
    out.push('}');
    out
}

/// An item as the change feed shows it: its text with the member `_lsn`.
pub fn with_lsn(text: &str, lsn: Lsn) -> String {
    let mut out = String::with_capacity(text.len() + 28);
    out.push('{');
    // A user may have written back what the feed showed: the name is not the system's elsewhere.
    for member in member_texts(text).filter(|member| !member.name.means("_lsn")) {
        out.push_str(member.text);
        out.push(',');
    }
    out.push_str("\"_lsn\":");
    out.push_str(&lsn.0.to_string());
    out.push('}');
    out
}

/// An object of the user's members only, not yet closed.
fn user_members(text: &str, spare_bytes: usize) -> String {
    let mut out = String::with_capacity(text.len() + spare_bytes);
    out.push('{');
    for member in member_texts(text).filter(|member| !is_system(member)) {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(member.text);
    }
    out
}

fn is_system(member: &Member<'_>) -> bool {
    // All five begin with an underscore, written so or as an escape.
    let may_be = member.name.escaped || member.name.raw.starts_with('_');
    may_be && SYSTEM_NAMES.iter().any(|name| member.name.means(name))
}
