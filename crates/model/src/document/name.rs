//! Names of members that are looked up in very many objects.
//!
//! Passing over an object member by member costs as much as everything else that a filter does. A
//! prepared name is searched for as bytes, `"name":`, and most often what is found is the member:
//! in a compact text a quote after `{` or `,` that is followed by neither punctuation nor another
//! quote begins a string, and a string with a colon after it is a name. Whose name it is remains to
//! be told: it is one of the object's own if every brace and bracket that was opened before it is
//! closed again. Those in strings do not count; whether one is in a string is told by the number of
//! quotes before it. Where there are escapes, or where the name belongs to something inside, the
//! object is passed over member by member after all.

use std::ops::Deref;

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memchr2};

use super::cursor::{member_value, nested_len, value_at};

/// A name, prepared for being looked up.
#[derive(Clone, Debug)]
pub struct MemberName {
    name: String,
    /// How the name is usually written, with what is around it; none if that would not tell it from
    /// other things.
    written: Option<Box<Finder<'static>>>,
}

impl MemberName {
    /// Prepares a name.
    pub fn new(name: &str) -> MemberName {
        let is_plain = |byte: u8| byte >= b' ' && !br#"",:{}[]\"#.contains(&byte);
        let plain = !name.is_empty() && name.bytes().all(is_plain);
        let written = plain.then(|| Box::new(Finder::new(&format!("\"{name}\":")).into_owned()));
        MemberName { name: name.to_owned(), written }
    }

    /// The value of the member of this name in an object's text.
    pub(super) fn find<'a>(&self, object: &'a [u8]) -> Option<&'a [u8]> {
        match self.glance(object) {
            Glance::Found(start) => value_at(object, start),
            Glance::Absent => None,
            Glance::Unclear => member_value(object, &self.name),
        }
    }

    fn glance(&self, object: &[u8]) -> Glance {
        let Some(written) = &self.written else { return Glance::Unclear };
        let Some(at) = written.find(object) else {
            let is_unclear = may_spell_otherwise(object);
            return if is_unclear { Glance::Unclear } else { Glance::Absent };
        };
        match object.get(..at) {
            Some([b'{']) => {}
            Some([b'{', before @ .., b',']) if all_is_closed(before) => {}
            _ => return Glance::Unclear,
        }
        Glance::Found(at + written.needle().len())
    }
}

/// May a name without quotes, backslashes and control characters be written with an escape here?
/// That takes `\u`, or `\/`. Most documents have other ones: those of the quotes in `_etag`.
fn may_spell_otherwise(object: &[u8]) -> bool {
    memchr_iter(b'\\', object).any(|at| matches!(object.get(at + 1), Some(b'u' | b'/')))
}

/// Is nothing open behind these members of an object? False also where that is hard to tell.
fn all_is_closed(members: &[u8]) -> bool {
    let mut rest = members;
    while let Some(at) = memchr2(b'{', b'[', rest) {
        let (before, from) = rest.split_at(at);
        if memchr(b'\\', before).is_some() {
            return false;
        }
        let is_in_string = memchr_iter(b'"', before).count() % 2 == 1;
        let len = match is_in_string {
            true => memchr2(b'"', b'\\', from).filter(|end| from.get(*end) == Some(&b'"')),
            false => nested_len(from),
        };
        let after = len.and_then(|len| from.get(len + usize::from(is_in_string)..));
        let Some(after) = after else { return false };
        rest = after;
    }
    true
}

/// What the bytes of an object tell at first sight.
enum Glance {
    /// The value begins here.
    Found(usize),
    Absent,
    Unclear,
}

impl Deref for MemberName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq for MemberName {
    fn eq(&self, other: &MemberName) -> bool {
        self.name == other.name
    }
}

impl Eq for MemberName {}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(object: &str, name: &str) -> Option<String> {
        let prepared = MemberName::new(name).find(object.as_bytes());
        assert_eq!(prepared, member_value(object.as_bytes(), name), "{name:?} in {object}");
        prepared.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    #[test]
    fn a_member_is_found_wherever_it_stands() {
        assert_eq!(both(r#"{"a":1,"b":"x","c":[2]}"#, "a").unwrap(), "1");
        assert_eq!(both(r#"{"a":1,"b":"x","c":[2]}"#, "b").unwrap(), r#""x""#);
        assert_eq!(both(r#"{"a":1,"b":"x","c":[2]}"#, "c").unwrap(), "[2]");
        assert_eq!(both(r#"{"a":[1],"b":{"c":2},"c":3}"#, "c").unwrap(), "3");
        assert_eq!(both(r#"{"a":[{"x":[]}],"b":{"y":2},"c":3}"#, "c").unwrap(), "3");
        assert_eq!(both(r#"{"a":"[","b":"}","c":3,"d":{}}"#, "c").unwrap(), "3");
        assert_eq!(both(r#"{"a":["]"],"b":"{","c":3}"#, "c").unwrap(), "3");
        assert_eq!(both(r#"{"a b":1,"ä":2}"#, "ä").unwrap(), "2");
        assert_eq!(both(r#"{"a b":1,"ä":2}"#, "a b").unwrap(), "1");
    }

    #[test]
    fn what_only_looks_like_the_member_is_none() {
        for object in [
            r#"{"b":{"a":1}}"#,
            r#"{"b":[{"a":1}],"c":2}"#,
            r#"{"b":"}","c":{"d":0,"a":1}}"#,
            r#"{"b":"]","c":[{"d":"}"},{"e":0,"a":1}]}"#,
            r#"{"b":"\"}","c":{"d":0,"a":1}}"#,
            r#"{"b":{"x":"\"}"},"c":{"d":"}","a":1}}"#,
            r#"{"b":"a","c":"\"a\":1"}"#,
            r#"{"b":",\"a\":1","c":0}"#,
            r#"{"x\"a":1}"#,
            r#"{"b":",","c":"a"}"#,
            r#"{"aa":1,"ba":2}"#,
            r#"["a"]"#,
            r#""a""#,
            "{}",
            "",
        ] {
            assert_eq!(both(object, "a"), None, "{object}");
        }
    }

    #[test]
    fn whatever_stands_around_a_member_it_is_found_as_by_going_through_all() {
        let values =
            ["0", "\"\"", "\"{\"", "\"]}\"", "\"\\\\\"", "\"\\\"{\"", "[]", "[\"}\",{\"a\":[1]}]"];
        let pieces = values.len() as u64;
        for number in 0..pieces.pow(3) {
            let value = |at: u32| values[(number / pieces.pow(at) % pieces) as usize];
            let inner = format!(r#"{{"x":{},"a":{}}}"#, value(0), value(1));
            both(&format!(r#"{{"b":{},"c":{inner},"a":{}}}"#, value(1), value(2)), "a");
            both(&format!(r#"{{"b":{},"c":[{inner},{}],"d":0}}"#, value(1), value(2)), "a");
        }
    }

    #[test]
    fn a_name_in_another_spelling_is_found() {
        assert_eq!(both(r#"{"b":0,"\u0061":1}"#, "a").unwrap(), "1");
        assert_eq!(both(r#"{"\"":1}"#, "\"").unwrap(), "1");
        assert_eq!(both(r#"{"b":"\"","x\/y":1}"#, "x/y").unwrap(), "1");
        assert_eq!(both(r#"{"b":"\\u","c":"\"","\u0061":1}"#, "a").unwrap(), "1");
        assert_eq!(both(r#"{"b":"\\u","c":"\"","_etag":"\"0\""}"#, "a"), None);
        assert_eq!(both(r#"{"b":{"a":0},"\u0061":1}"#, "a").unwrap(), "1");
    }

    #[test]
    fn names_of_punctuation_are_told_from_what_is_around_strings() {
        for name in [":1,", ",", "}", "", ":", "[", "{", "\\", "\"", ",\"a\":"] {
            for object in [
                r#"{"k,":1,":x":2}"#,
                r#"{"a":",","b":"}","c":":"}"#,
                r#"{"":1,",":2,"}":3}"#,
                r#"{":1,":1}"#,
                r#"{"[":1,"{":2,"\\":3}"#,
            ] {
                both(object, name);
            }
        }
    }
}
