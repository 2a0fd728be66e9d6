//! JSON text: reading it strictly, and writing it.
//!
//! One grammar (RFC 8259), read in one pass from left to right, with two uses: [`parse`] builds a
//! [`Value`], [`compact_object`] only checks and drops the whitespace between tokens. What is kept
//! of a document is its text, so strings and numbers stay letter for letter as a client wrote them.
//!
//! Refused, with the line, column and byte where it was seen: anything but UTF-8, a byte order
//! mark, more than [`DEPTH_MAX`] levels, numbers too large for a double, and everything else that
//! is not JSON. Of members of one object that have the same name (compared after decoding its
//! escapes) only the last is kept, as if the others had not been written; [`check_names`] is for
//! those who would rather know.
//! A lone surrogate escape (`\ud800`) is JSON and stays as it is in texts; in a `String`, which
//! cannot hold it, it becomes U+FFFD.

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::limits::DEPTH_MAX;
use crate::value::{Number, Object, Value};

mod last;
mod names;
pub(crate) mod scan;
pub(crate) mod write;

pub use self::write::write_string;

use self::last::KeepLast;
use self::names::Names;
use self::scan::{Quoted, Scanner};

/// Why a text is not JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct JsonError {
    /// What is wrong.
    pub message: String,
    /// Counted from 0.
    pub byte: usize,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonError { message, byte, line, column } = self;
        write!(f, "{message} at line {line}, column {column} (byte {byte})")
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Error {
        Error::bad_request(format!("invalid JSON: {error}"))
    }
}

/// Reads one JSON text.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    parse_str(scan::utf8(text)?)
}

/// [`parse`] for a text that is known to be UTF-8.
pub(crate) fn parse_str(text: &str) -> Result<Value, JsonError> {
    Grammar::new(text, BuildValue).read_text()
}

/// [`parse`] for a text that carries documents.
pub(crate) fn parse_carrier(text: &[u8]) -> Result<Value, JsonError> {
    let mut grammar = Grammar::new(scan::utf8(text)?, BuildValue);
    grammar.depth_max = DEPTH_MAX + CARRIER_LEVELS_MAX;
    grammar.read_text()
}

/// Validates one JSON *object* and returns it without the whitespace between tokens, every string
/// and number literal kept as it was written.
pub fn compact_object(text: &[u8]) -> Result<String, JsonError> {
    compact(scan::utf8(text)?, Only::Object, DEPTH_MAX)
}

/// [`compact_object`] for an *array* that carries documents: the outermost `around` levels are the
/// carrier's and do not count against the depth of what it carries.
pub fn compact_array(text: &[u8], around: usize) -> Result<String, JsonError> {
    compact(scan::utf8(text)?, Only::Array, DEPTH_MAX + around)
}

/// [`compact_object`] for a value of any type.
pub(crate) fn compact_value(text: &[u8]) -> Result<String, JsonError> {
    compact(scan::utf8(text)?, Only::Any, DEPTH_MAX)
}

/// Refuses a text in which an object has two members of the same name. What else is wrong with it
/// is left to those who read it.
pub fn check_names(text: &[u8]) -> Result<(), JsonError> {
    let Ok(text) = scan::utf8(text) else { return Ok(()) };
    let mut grammar = Grammar::new(text, DropSpace { text, kept: 0, out: String::new() });
    grammar.depth_max = DEPTH_MAX + CARRIER_LEVELS_MAX;
    match (grammar.read_text(), grammar.repeated) {
        (Ok(()), Some((name, position))) => {
            let message = format!("duplicate name '{name}' in an object");
            Err(grammar.scan.fail_at(position, message))
        }
        (Ok(()), None) | (Err(_), _) => Ok(()),
    }
}

/// Levels that any carrier of documents has around them.
const CARRIER_LEVELS_MAX: usize = 2;

/// Which type of value a text must be.
enum Only {
    Object,
    Array,
    Any,
}

fn compact(text: &str, only: Only, depth_max: usize) -> Result<String, JsonError> {
    let mut grammar = Grammar::new(text, DropSpace { text, kept: 0, out: String::new() });
    grammar.depth_max = depth_max;
    grammar.space();
    match (only, grammar.scan.peek()) {
        (Only::Object, Some(b'{')) | (Only::Array, Some(b'[')) | (Only::Any, _) => {}
        (Only::Object, _) => return Err(grammar.scan.fail("expected an object ('{')")),
        (Only::Array, _) => return Err(grammar.scan.fail("expected an array ('[')")),
    }
    grammar.read_text()?;
    if grammar.repeated.is_some() {
        let mut grammar = Grammar::new(text, KeepLast);
        grammar.depth_max = depth_max;
        return grammar.read_text();
    }
    Ok(grammar.make.finish())
}

/// What to make of a text while it is read. The grammar calls, a maker makes.
trait Make<'a> {
    type Value;
    type Elements: Default;
    type Members: Default;

    fn null(&mut self) -> Self::Value;
    fn bool(&mut self, value: bool) -> Self::Value;
    fn number(&mut self, literal: &'a str) -> Self::Value;
    fn string(&mut self, quoted: Quoted<'a>) -> Self::Value;
    fn element(&mut self, elements: &mut Self::Elements, value: Self::Value);
    fn member(&mut self, members: &mut Self::Members, name: Name<'a, '_>, value: Self::Value);
    fn array(&mut self, elements: Self::Elements) -> Self::Value;
    /// All names are different.
    fn object(&mut self, members: Self::Members) -> Self::Value;
    /// Some are not: of those the last counts.
    fn object_with_repeated(&mut self, members: Self::Members) -> Self::Value;
    /// Whitespace between tokens lies between these two bytes.
    fn space(&mut self, start: usize, end: usize);
}

/// The name of a member: as it was written, without its quotes, and what that means.
#[derive(Clone, Copy)]
struct Name<'a, 'n> {
    raw: &'a str,
    meant: &'n str,
}

/// The grammar of JSON, by recursive descent; `depth_max` bounds the recursion.
struct Grammar<'a, M> {
    scan: Scanner<'a>,
    names: Names<'a>,
    /// The first name that an object has twice, and where.
    repeated: Option<(Cow<'a, str>, usize)>,
    depth: usize,
    depth_max: usize,
    make: M,
}

impl<'a, M: Make<'a>> Grammar<'a, M> {
    fn new(text: &'a str, make: M) -> Self {
        Grammar {
            scan: Scanner::new(text),
            names: Names::default(),
            repeated: None,
            depth: 0,
            depth_max: DEPTH_MAX,
            make,
        }
    }

    fn read_text(&mut self) -> Result<M::Value, JsonError> {
        self.space();
        let value = self.value()?;
        self.space();
        match self.scan.peek() {
            None => Ok(value),
            Some(_) => Err(self.scan.fail("expected the end of the text after the value")),
        }
    }

    fn space(&mut self) {
        let start = self.scan.position();
        self.scan.space();
        let end = self.scan.position();
        if end > start {
            self.make.space(start, end);
        }
    }

    fn value(&mut self) -> Result<M::Value, JsonError> {
        match self.scan.peek() {
            Some(b'"') => {
                let quoted = self.scan.string()?;
                Ok(self.make.string(quoted))
            }
            Some(b'-' | b'0'..=b'9') => {
                let literal = self.scan.number()?;
                Ok(self.make.number(literal))
            }
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b't') => self.scan.word("true").map(|()| self.make.bool(true)),
            Some(b'f') => self.scan.word("false").map(|()| self.make.bool(false)),
            Some(b'n') => self.scan.word("null").map(|()| self.make.null()),
            Some(_) => Err(self.scan.fail("expected a value")),
            None => Err(self.scan.fail("expected a value, found the end of the text")),
        }
    }

    /// Steps over the bracket under the cursor and reads what it opens, one level deeper.
    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<M::Value, JsonError>,
    ) -> Result<M::Value, JsonError> {
        if self.depth == self.depth_max {
            let levels = self.depth_max;
            let message = format!("arrays and objects are nested deeper than {levels} levels");
            return Err(self.scan.fail(message));
        }
        self.depth += 1;
        self.scan.step();
        self.space();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<M::Value, JsonError> {
        let mut elements = M::Elements::default();
        if !self.scan.eat(b']') {
            loop {
                let value = self.value()?;
                self.make.element(&mut elements, value);
                self.space();
                if self.scan.eat(b']') {
                    break;
                }
                self.scan.must_eat(b',', "expected ',' or ']' after an array's element")?;
                self.space();
            }
        }
        Ok(self.make.array(elements))
    }

    fn object(&mut self) -> Result<M::Value, JsonError> {
        let mut members = M::Members::default();
        let opened = self.names.open();
        if !self.scan.eat(b'}') {
            loop {
                self.member(&mut members)?;
                self.space();
                if self.scan.eat(b'}') {
                    break;
                }
                self.scan.must_eat(b',', "expected ',' or '}' after an object's member")?;
                self.space();
            }
        }
        if let Some(repeated) = self.names.close(opened) {
            self.repeated.get_or_insert(repeated);
            return Ok(self.make.object_with_repeated(members));
        }
        Ok(self.make.object(members))
    }

    fn member(&mut self, members: &mut M::Members) -> Result<(), JsonError> {
        let position = self.scan.position();
        if self.scan.peek() != Some(b'"') {
            return Err(self.scan.fail("expected a member's name ('\"')"));
        }
        let quoted = self.scan.string()?;
        let name = quoted.decode();
        self.names.add(name.clone(), position);
        self.space();
        self.scan.must_eat(b':', "expected ':' after a member's name")?;
        self.space();
        let value = self.value()?;
        self.make.member(members, Name { raw: quoted.raw, meant: &name }, value);
        Ok(())
    }
}

/// Makes a tree.
struct BuildValue;

impl<'a> Make<'a> for BuildValue {
    type Value = Value;
    type Elements = Vec<Value>;
    type Members = Vec<(String, Value)>;

    fn null(&mut self) -> Value {
        Value::Null
    }

    fn bool(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }

    fn number(&mut self, literal: &'a str) -> Value {
        let number = Number::parse(literal).expect("the scanner checked the literal");
        Value::Number(number)
    }

    fn string(&mut self, quoted: Quoted<'a>) -> Value {
        Value::String(quoted.decode().into_owned())
    }

    fn element(&mut self, elements: &mut Vec<Value>, value: Value) {
        elements.push(value);
    }

    fn member(&mut self, members: &mut Self::Members, name: Name<'a, '_>, value: Value) {
        members.push((name.meant.to_owned(), value));
    }

    fn array(&mut self, elements: Vec<Value>) -> Value {
        Value::Array(elements)
    }

    fn object(&mut self, members: Self::Members) -> Value {
        Value::Object(Object::from_distinct(members))
    }

    fn object_with_repeated(&mut self, members: Self::Members) -> Value {
        let distinct = last::of_each(members, |(name, _)| name);
        Value::Object(Object::from_distinct(distinct))
    }

    fn space(&mut self, _start: usize, _end: usize) {}
}

/// Makes the same text without its whitespace: what lies between two gaps is copied in one piece.
struct DropSpace<'a> {
    text: &'a str,
    /// Everything before this byte is in `out`, or was whitespace.
    kept: usize,
    out: String,
}

impl<'a> DropSpace<'a> {
    fn finish(mut self) -> String {
        if self.kept == 0 {
            return self.text.to_owned();
        }
        self.keep_until(self.text.len());
        self.out
    }

    fn keep_until(&mut self, end: usize) {
        if self.out.capacity() == 0 {
            self.out.reserve(self.text.len());
        }
        let piece = self.text.get(self.kept..end);
        self.out.push_str(piece.expect("whitespace is ASCII, so both ends are between characters"));
    }
}

impl<'a> Make<'a> for DropSpace<'a> {
    type Value = ();
    type Elements = ();
    type Members = ();

    fn null(&mut self) {}
    fn bool(&mut self, _value: bool) {}
    fn number(&mut self, _literal: &'a str) {}
    fn string(&mut self, _quoted: Quoted<'a>) {}
    fn element(&mut self, _elements: &mut (), _value: ()) {}
    fn member(&mut self, _members: &mut (), _name: Name<'a, '_>, _value: ()) {}
    fn array(&mut self, _elements: ()) {}
    fn object(&mut self, _members: ()) {}
    // The grammar remembers it, and the text is written anew.
    fn object_with_repeated(&mut self, _members: ()) {}

    fn space(&mut self, start: usize, end: usize) {
        self.keep_until(start);
        self.kept = end;
    }
}
