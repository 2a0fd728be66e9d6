//! Objects in which names repeat: only the last member of each name stays.
//!
//! Few texts have such objects, so nobody looks for them twice: the grammar tells in passing, and
//! the text is then read again by a maker that puts it together anew, from the innermost values
//! outwards. Literals stay as they were written.

use std::collections::HashSet;
use std::hash::Hash;

use super::scan::Quoted;
use super::{Make, Name};

/// Makes the same text without whitespace and without repeated names.
pub(super) struct KeepLast;

/// A member in the making.
#[derive(Default)]
pub(super) struct Member {
    meant: String,
    /// Name and value, as they are written.
    text: String,
}

impl<'a> Make<'a> for KeepLast {
    type Value = String;
    type Elements = Vec<String>;
    type Members = Vec<Member>;

    fn null(&mut self) -> String {
        "null".to_owned()
    }

    fn bool(&mut self, value: bool) -> String {
        value.to_string()
    }

    fn number(&mut self, literal: &'a str) -> String {
        literal.to_owned()
    }

    fn string(&mut self, quoted: Quoted<'a>) -> String {
        format!("\"{}\"", quoted.raw)
    }

    fn element(&mut self, elements: &mut Vec<String>, value: String) {
        elements.push(value);
    }

    fn member(&mut self, members: &mut Vec<Member>, name: Name<'a, '_>, value: String) {
        let text = format!("\"{}\":{value}", name.raw);
        members.push(Member { meant: name.meant.to_owned(), text });
    }

    fn array(&mut self, elements: Vec<String>) -> String {
        format!("[{}]", elements.join(","))
    }

    fn object(&mut self, members: Vec<Member>) -> String {
        let texts: Vec<String> = members.into_iter().map(|member| member.text).collect();
        format!("{{{}}}", texts.join(","))
    }

    fn object_with_repeated(&mut self, members: Vec<Member>) -> String {
        let distinct = of_each(members, |member| &member.meant);
        self.object(distinct)
    }

    fn space(&mut self, _start: usize, _end: usize) {}
}

/// The last of those with equal names, each where it is.
pub(super) fn of_each<T, N: Hash + Eq>(members: Vec<T>, name: fn(&T) -> &N) -> Vec<T> {
    let mut seen = HashSet::with_capacity(members.len());
    let is_last: Vec<bool> = members.iter().rev().map(|member| seen.insert(name(member))).collect();
    let kept = members.into_iter().zip(is_last.into_iter().rev()).filter(|(_, is_last)| *is_last);
    kept.map(|(member, _)| member).collect()
}
