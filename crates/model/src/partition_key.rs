//! Partition keys: how a container names them, how requests carry them, where they lead.
//!
//! A container's *definition* lists one to three property paths. An item's *partition key* is the
//! value at those paths; all items with one key form a logical partition. A request names the key
//! in a *header*, a JSON array with one element per path:
//!
//! ```text
//! ["a"]  [5.5]  [true]  [null]     one value
//! [{}]                             the property is absent (undefined)
//! ["tenant","user"]                a hierarchical key, all of it
//! ["tenant"]                       … or a prefix of it: queries and feeds only
//! []                               no key: everything, for queries; "none", on system keys
//! ```
//!
//! Undefined, `null` and `""` are three different keys. What a header means depends on the
//! definition, so parsing it ([`PartitionKeyHeader::parse`]) and resolving it
//! ([`PartitionKeyDefinition::resolve`]) are two steps.
//!
//! The definition refuses what the service refuses: wildcards, array steps, trailing slashes, too
//! many paths, system properties. The bytes behind a key are in [`crate::Epk`].

use std::fmt;

use crate::document::{Document, SYSTEM_NAMES, Scalar};
use crate::epk::{self, Epk, EpkRange, Portion};
use crate::error::{Error, Result};
use crate::json;
use crate::limits;
use crate::path::PropertyPath;
use crate::policy::shape;
use crate::value::{Object, Value};

/// The service's text for a key that does not fit; clients look for it.
pub const KEY_MISMATCH: &str = "Partition key provided either doesn't correspond to definition in \
    the collection or doesn't match partition key field values specified in the document.";

/// One component of a partition key.
///
/// Numbers compare as numbers: 0 equals -0, although the two hash differently.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    /// The property is absent, or no scalar.
    Undefined,
    /// JSON null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number; all numbers are doubles here.
    Number(f64),
    /// A string.
    String(String),
}

impl From<Scalar<'_>> for KeyPart {
    fn from(scalar: Scalar<'_>) -> KeyPart {
        match scalar {
            Scalar::Null => KeyPart::Null,
            Scalar::Bool(value) => KeyPart::Bool(value),
            Scalar::Number(value) => KeyPart::Number(value),
            Scalar::String(text) => KeyPart::String(text.into_owned()),
        }
    }
}

/// A complete partition key: one component per path of its definition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionKey(pub Vec<KeyPart>);

impl PartitionKey {
    /// The key as a request header carries it: a JSON array in ASCII.
    pub fn to_header_json(&self) -> String {
        header_json(&self.0)
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_header_json())
    }
}

/// The partition key of a request as it was sent: possibly empty, possibly a prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionKeyHeader(pub Vec<KeyPart>);

impl PartitionKeyHeader {
    /// Reads the JSON array of the header.
    pub fn parse(text: &str) -> Result<PartitionKeyHeader> {
        if let Some(text) = plain_text(text) {
            return Ok(PartitionKeyHeader(vec![KeyPart::String(text.to_owned())]));
        }
        let value = json::parse(text.as_bytes())
            .map_err(|error| Error::bad_request(format!("The partition key {text}: {error}")))?;
        let Value::Array(parts) = value else {
            return Err(Error::bad_request(format!(
                "The partition key {text} must be a JSON array with one element per path"
            )));
        };
        parts.into_iter().map(|part| header_part(part, text)).collect::<Result<_>>().map(Self)
    }

    /// The header as it would be sent again.
    pub fn to_header_json(&self) -> String {
        header_json(&self.0)
    }
}

impl From<PartitionKey> for PartitionKeyHeader {
    fn from(key: PartitionKey) -> PartitionKeyHeader {
        PartitionKeyHeader(key.0)
    }
}

/// How keys are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One path, hashed.
    Hash,
    /// A hierarchy of one to three paths, each hashed alone.
    MultiHash,
    /// One path, in the order of its values (legacy; never more than one physical partition).
    Range,
}

/// The version of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashVersion {
    /// 32 bits over the first 100 characters.
    V1,
    /// 128 bits over everything.
    V2,
}

/// The partition key of a container: where it stands in an item and how it is spread.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionKeyDefinition {
    /// Where the components stand, outermost first.
    pub paths: Vec<PropertyPath>,
    /// How they are spread.
    pub kind: KeyKind,
    /// The version of the hash.
    pub version: HashVersion,
    /// Is the key called the system's, so that items normally have none and `[]` stands for that?
    /// See [`PartitionKeyDefinition::is_keyless`].
    pub system_key: bool,
    /// How the definition was written.
    pub written: KeyWriting,
}

/// What a definition may say or leave out without another meaning; it is shown as it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyWriting {
    /// It names no version, which means version 1.
    pub without_version: bool,
    /// It calls a hierarchical key a system key, which no such key can be.
    pub says_system_key: bool,
}

impl PartitionKeyDefinition {
    /// Reads the member `partitionKey` of a container.
    pub fn parse(body: &Value) -> Result<PartitionKeyDefinition> {
        let object = shape::object(body, "partitionKey")?;
        let kind = parse_kind(object)?;
        let version = parse_version(object, kind)?;
        let paths = parse_paths(object, kind)?;
        let says_system_key = shape::present(object, "systemKey")
            .map_or(Ok(false), |value| shape::boolean(value, "partitionKey.systemKey"))?;
        let system_key = says_system_key && kind != KeyKind::MultiHash;
        let written = KeyWriting {
            without_version: !(system_key && is_system_path(&paths))
                && version == HashVersion::V1
                && shape::present(object, "version").is_none(),
            says_system_key: says_system_key && !system_key,
        };
        Ok(PartitionKeyDefinition { paths, kind, version, system_key, written })
    }

    /// Refuses what only containers of former days may have: white space outside of quotes.
    pub(crate) fn check_new(&self) -> Result<()> {
        match self.paths.iter().find(|path| path.has_plain_white_space()) {
            None => Ok(()),
            Some(path) => {
                Err(not_accepted(path.text(), "put a segment with white space in quotes"))
            }
        }
    }

    /// The definition as clients see it.
    pub fn to_value(&self) -> Value {
        let paths: Vec<Value> = self.paths.iter().map(|path| Value::from(path.text())).collect();
        let kind = match self.kind {
            KeyKind::Hash => "Hash",
            KeyKind::MultiHash => "MultiHash",
            KeyKind::Range => "Range",
        };
        let object = Object::new().with("paths", paths).with("kind", Value::from(kind));
        // The service shows a system key without a version, and an absent version means 1.
        let is_silent = self.is_keyless() || self.written.without_version;
        let object = match (is_silent, self.version) {
            (true, HashVersion::V1) => object,
            (_, HashVersion::V1) => object.with("version", Value::from(1_i64)),
            (_, HashVersion::V2) => object.with("version", Value::from(2_i64)),
        };
        let says = self.system_key || self.written.says_system_key;
        Value::from(if says { object.with("systemKey", true) } else { object })
    }

    /// The key of a container that was made without one.
    pub fn system() -> PartitionKeyDefinition {
        PartitionKeyDefinition {
            paths: vec![PropertyPath::parse(SYSTEM_PATH).expect("a plain path")],
            kind: KeyKind::Hash,
            version: HashVersion::V1,
            system_key: true,
            written: KeyWriting::default(),
        }
    }

    /// Was the container made without a key, so that all of its items lie together? A path of the
    /// user's own spreads them, also where it is called a system key.
    pub fn is_keyless(&self) -> bool {
        self.system_key && is_system_path(&self.paths)
    }

    /// The key of an item. An absent property, a path through a scalar, and an object or array at
    /// the end of the path all give undefined.
    pub fn extract(&self, document: Document<'_>) -> PartitionKey {
        let part = |path| document.get(path).and_then(|raw| raw.scalar());
        PartitionKey(
            self.paths
                .iter()
                .map(|path| part(path).map_or(KeyPart::Undefined, KeyPart::from))
                .collect(),
        )
    }

    /// The key a point operation names: every component has to be there.
    pub fn resolve(&self, header: &PartitionKeyHeader) -> Result<PartitionKey> {
        let key = match header.0.as_slice() {
            [] if self.system_key => PartitionKey(vec![KeyPart::Undefined]),
            parts if parts.len() == self.paths.len() => PartitionKey(parts.to_vec()),
            _ => return Err(Error::key_mismatch(KEY_MISMATCH)),
        };
        self.check_size(&key)?;
        Ok(key)
    }

    /// Refuses a key with a string that is too long.
    ///
    /// Version 1 is documented with 101 bytes, but the service does not refuse more: it hashes
    /// the beginning. So one limit serves both.
    pub fn check_size(&self, key: &PartitionKey) -> Result<()> {
        check_parts(&key.0)
    }

    /// Where the key leads.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        self.epk_of(&key.0)
    }

    /// The range a query or feed is restricted to by its header: a full key's own, a prefix's, or
    /// everything for the empty header.
    pub fn range_of(&self, header: &PartitionKeyHeader) -> Result<EpkRange> {
        let parts = header.0.as_slice();
        check_parts(parts)?;
        if parts.is_empty() {
            return Ok(EpkRange::all());
        }
        let min = self.epk_of(parts);
        if parts.len() == self.paths.len() {
            let max = min.followed_by(0x00);
            return Ok(EpkRange { min, max });
        }
        if parts.len() < self.paths.len() && self.kind == KeyKind::MultiHash {
            let max = min.followed_by(0xFF);
            return Ok(EpkRange { min, max });
        }
        Err(Error::key_mismatch(KEY_MISMATCH))
    }

    /// The ranges of a new container's partitions: equal parts of the hash space.
    ///
    /// A Range key has no hash to divide, so it gets one partition whatever is asked.
    pub fn initial_ranges(&self, partitions: usize) -> Vec<EpkRange> {
        let n = match self.kind {
            KeyKind::Range => 1,
            KeyKind::Hash | KeyKind::MultiHash => partitions.max(1) as u64,
        };
        let boundary = |index: u64| match (index, self.version) {
            (0, _) => Epk::min(),
            (index, _) if index == n => Epk::max(),
            (index, HashVersion::V1) => epk::boundary_v1(index, n),
            (index, HashVersion::V2) => epk::boundary_v2(index.into(), n.into()),
        };
        (0..n).map(|index| EpkRange { min: boundary(index), max: boundary(index + 1) }).collect()
    }

    /// The point that divides a range in the hash space, if something is on both sides of it. A
    /// Range key has no hash, so it has no such point that one could know without its values.
    pub fn dividing_point(&self, range: &EpkRange, portion: Portion) -> Option<Epk> {
        match (self.kind, self.version) {
            (KeyKind::Range, _) => None,
            (KeyKind::Hash, HashVersion::V1) => epk::division::v1(range, portion),
            (KeyKind::Hash, HashVersion::V2) => epk::division::v2(range, portion, 1),
            (KeyKind::MultiHash, _) => epk::division::v2(range, portion, self.paths.len()),
        }
    }

    /// A bound that a client sent, in our own form. Clients may fill the bound of a hierarchical
    /// range up to full width with zero bytes and take both forms as equal; ours is the short one.
    pub fn unpadded(&self, bound: Epk) -> Epk {
        if self.kind != KeyKind::MultiHash {
            return bound;
        }
        let mut bytes = bound.as_bytes();
        while let Some((head, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])) =
            bytes.split_last_chunk::<16>()
            && !head.is_empty()
        {
            bytes = head;
        }
        bytes.iter().copied().collect()
    }

    /// Does the other definition mean the same? Paths may be quoted differently.
    pub(crate) fn is_same(&self, other: &PartitionKeyDefinition) -> bool {
        let segments = |definition: &PartitionKeyDefinition| -> Vec<Vec<String>> {
            definition.paths.iter().map(|path| path.segments().to_vec()).collect()
        };
        segments(self) == segments(other)
            && self.kind == other.kind
            && self.version == other.version
            && self.is_keyless() == other.is_keyless()
    }

    fn epk_of(&self, parts: &[KeyPart]) -> Epk {
        match (self.kind, self.version) {
            (KeyKind::Hash, HashVersion::V1) => epk::hash_v1(parts),
            (KeyKind::Hash, HashVersion::V2) => epk::hash_v2(parts),
            (KeyKind::MultiHash, _) => epk::multi_hash(parts),
            (KeyKind::Range, _) => epk::range_kind(parts),
        }
    }
}

/// Where the key of a container without one would stand.
const SYSTEM_PATH: &str = "/_partitionKey";

fn is_system_path(paths: &[PropertyPath]) -> bool {
    matches!(paths, [path] if path.text() == SYSTEM_PATH)
}

fn parse_kind(object: &Object) -> Result<KeyKind> {
    const WORDS: &[(&str, KeyKind)] =
        &[("Hash", KeyKind::Hash), ("MultiHash", KeyKind::MultiHash), ("Range", KeyKind::Range)];
    let Some(value) = shape::present(object, "kind") else { return Ok(KeyKind::Hash) };
    let text = shape::string(value, "partitionKey.kind")?;
    shape::one_of(text, WORDS).ok_or_else(|| {
        Error::bad_request(format!(
            "'partitionKey.kind' is '{text}'; it must be Hash, MultiHash or Range"
        ))
    })
}

fn parse_version(object: &Object, kind: KeyKind) -> Result<HashVersion> {
    let Some(value) = shape::present(object, "version") else {
        // A hierarchical key exists in version 2 only.
        let multi = kind == KeyKind::MultiHash;
        return Ok(if multi { HashVersion::V2 } else { HashVersion::V1 });
    };
    // The Java SDK writes the name of its constant.
    let version = match value.as_str() {
        Some("V1") => 1,
        Some("V2") => 2,
        Some(_) | None => shape::integer(value, "partitionKey.version")?,
    };
    match version {
        1 if kind == KeyKind::MultiHash => Err(Error::bad_request(
            "'partitionKey.version' must be 2 for the kind MultiHash, it is 1",
        )),
        1 => Ok(HashVersion::V1),
        2 => Ok(HashVersion::V2),
        other => {
            Err(Error::bad_request(format!("'partitionKey.version' must be 1 or 2, it is {other}")))
        }
    }
}

fn parse_paths(object: &Object, kind: KeyKind) -> Result<Vec<PropertyPath>> {
    let values = shape::required(object, "paths", "'partitionKey'")?;
    let values = shape::array(values, "partitionKey.paths")?;
    let (max, count) = match kind {
        KeyKind::Hash | KeyKind::Range => (1, "exactly one path"),
        KeyKind::MultiHash => (limits::PARTITION_KEY_PATHS_MAX, "one to three paths"),
    };
    if values.is_empty() || values.len() > max {
        let given = values.len();
        let service = match given {
            0 => "No partition key paths specified.".to_owned(),
            _ => format!(
                "Too many partition key paths ({given}) specified. A maximum of {max} is allowed."
            ),
        };
        return Err(Error::bad_request(format!(
            "{service} 'partitionKey.paths' has {given}; a key of kind {kind:?} has {count}"
        )));
    }
    let mut paths: Vec<PropertyPath> = Vec::new();
    for value in values {
        let path = parse_path(shape::string(value, "partitionKey.paths")?)?;
        if paths.iter().any(|other| other.segments() == path.segments()) {
            return Err(Error::bad_request(format!(
                "'partitionKey.paths' names {} twice; every path must be different",
                path.text()
            )));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn parse_path(text: &str) -> Result<PropertyPath> {
    let path = PropertyPath::parse(text).map_err(|error| not_accepted(text, &error.message))?;
    match path.segments() {
        [name] if SYSTEM_NAMES.contains(&name.as_str()) => Err(Error::bad_request(format!(
            "The partition key path '{text}' names a system property, which the server sets; use \
             a property of your items"
        ))),
        _ => Ok(path),
    }
}

/// The service's texts for a path that cannot be a partition key's; clients look for both.
fn not_accepted(path: &str, why: &str) -> Error {
    Error::bad_request(format!(
        "The partition key component definition path '{path}' could not be accepted: {why}. \
         Partition key paths must contain only valid characters and not contain a trailing slash \
         or wildcard character."
    ))
}

fn check_parts(parts: &[KeyPart]) -> Result<()> {
    for part in parts {
        if let KeyPart::String(text) = part
            && text.len() > limits::PARTITION_KEY_BYTES_MAX
        {
            return Err(Error::bad_request(format!(
                "A partition key string of {} bytes is longer than the limit of {} bytes; \
                 use a shorter value",
                text.len(),
                limits::PARTITION_KEY_BYTES_MAX
            )));
        }
    }
    Ok(())
}

/// The text of a key that is one string without escapes: most are, and need no grammar.
fn plain_text(header: &str) -> Option<&str> {
    let text = header.strip_prefix("[\"")?.strip_suffix("\"]")?;
    let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    is_plain.then_some(text)
}

fn header_part(value: Value, text: &str) -> Result<KeyPart> {
    match value {
        Value::Null => Ok(KeyPart::Null),
        Value::Bool(value) => Ok(KeyPart::Bool(value)),
        Value::Number(number) => Ok(KeyPart::Number(number.as_f64())),
        Value::String(text) => Ok(KeyPart::String(text)),
        Value::Object(object) if object.is_empty() => Ok(KeyPart::Undefined),
        Value::Object(_) | Value::Array(_) => Err(Error::bad_request(format!(
            "The partition key {text} holds an object or an array; a component is a string, a \
             number, true, false, null, or {{}} for an absent property"
        ))),
    }
}

fn header_json(parts: &[KeyPart]) -> String {
    let parts: Vec<String> = parts.iter().map(part_json).collect();
    format!("[{}]", parts.join(","))
}

fn part_json(part: &KeyPart) -> String {
    match part {
        KeyPart::Undefined => "{}".to_owned(),
        KeyPart::Null => "null".to_owned(),
        KeyPart::Bool(value) => value.to_string(),
        // Without an exponent, a large number would be written with all its digits.
        KeyPart::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => value.to_string(),
        KeyPart::Number(value) => format!("{value:?}"),
        KeyPart::String(text) => ascii_json(text),
    }
}

/// A JSON string in ASCII: headers carry nothing else.
fn ascii_json(text: &str) -> String {
    let mut quoted = String::new();
    json::write_string(&mut quoted, text);
    let mut ascii = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        if matches!(character, ' '..='~') {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}
