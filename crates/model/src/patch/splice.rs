//! Applies one operation to a text, by cutting and inserting.
//!
//! Errors are sentences; the caller says which operation they are about.

use std::ops::Range;

use crate::document::{depth_of, element_texts, member_texts};
use crate::json::write_string;
use crate::limits::DEPTH_MAX;
use crate::value::Number;

use super::{PatchAction, PatchOperation, Pointer};

type Result<T> = std::result::Result<T, String>;

pub(super) fn apply(text: &str, operation: &PatchOperation) -> Result<String> {
    let path = &operation.path;
    match &operation.action {
        PatchAction::Add(value) => put(text, path, value, AtElement::Insert),
        PatchAction::Set(value) => put(text, path, value, AtElement::Replace),
        PatchAction::Replace(value) => {
            check_depth(path, value)?;
            let part = find(text, path)?.must_exist()?;
            Ok(splice(text, part.value, value))
        }
        PatchAction::Remove => {
            let part = find(text, path)?.must_exist()?;
            Ok(cut(text, part.whole))
        }
        PatchAction::Incr(literal) => incr(text, path, literal),
        PatchAction::Move(from) => {
            let missing = |problem| format!("'from' ('{}'): {problem}", from.text());
            let part = find(text, from).and_then(Target::must_exist).map_err(missing)?;
            let value = text.get(part.value).unwrap_or_default();
            put(&cut(text, part.whole), path, value, AtElement::Insert)
        }
    }
}

/// What putting a value at an index does to the element that is there.
#[derive(Clone, Copy)]
enum AtElement {
    Insert,
    Replace,
}

/// A member or an element, as ranges of the text.
struct Part {
    /// With the name, if it is a member.
    whole: Range<usize>,
    value: Range<usize>,
}

/// What a pointer leads to.
enum Target {
    Member(Part),
    Element(Part),
    /// The place for a member that its parent does not have, and its name.
    NoMember {
        at: usize,
        first: bool,
        name: String,
    },
    /// The place after an array's last element.
    NoElement {
        at: usize,
        first: bool,
    },
}

impl Target {
    fn must_exist(self) -> Result<Part> {
        match self {
            Target::Member(part) | Target::Element(part) => Ok(part),
            // In the service's words: clients look for them.
            Target::NoMember { name, .. } => Err(no_path(&name)),
            Target::NoElement { .. } => Err("there is no element at this index".to_owned()),
        }
    }
}

fn no_path(token: &str) -> String {
    format!("there is no member '{token}', no path found beyond: '{token}'")
}

/// Follows a pointer. Fails where the parent of the target is missing, or cannot have such a part.
fn find(text: &str, pointer: &Pointer) -> Result<Target> {
    let (last, parents) = pointer.tokens().split_last().ok_or("the path is empty")?;
    let mut here = 0..text.len();
    for token in parents {
        here = find_part(text, here, token)?.must_exist()?.value;
    }
    find_part(text, here, last)
}

/// Follows one token into the value that lies in a range of the text.
fn find_part(text: &str, range: Range<usize>, token: &str) -> Result<Target> {
    let value = text.get(range.clone()).unwrap_or_default();
    match value.as_bytes().first() {
        Some(b'{') => Ok(find_member(value, &range, token)),
        Some(b'[') => find_element(value, &range, token),
        _ => Err(format!("the value is no object or array, {}", no_path(token))),
    }
}

fn find_member(object: &str, range: &Range<usize>, token: &str) -> Target {
    match member_texts(object).find(|member| member.name.means(token)) {
        Some(member) => {
            let start = range.start + member.start;
            let end = start + member.text.len();
            Target::Member(Part { whole: start..end, value: end - member.value.len()..end })
        }
        None => {
            let (at, first) = (range.end - 1, object == "{}");
            Target::NoMember { at, first, name: token.to_owned() }
        }
    }
}

fn find_element(array: &str, range: &Range<usize>, token: &str) -> Result<Target> {
    let after_last = Target::NoElement { at: range.end - 1, first: array == "[]" };
    if token == "-" {
        return Ok(after_last);
    }
    let index = parse_index(token)?;
    let mut elements_len = 0;
    for element in element_texts(array) {
        if elements_len == index {
            let start = range.start + element.start;
            let value = start..start + element.text.len();
            return Ok(Target::Element(Part { whole: value.clone(), value }));
        }
        elements_len += 1;
    }
    if index == elements_len {
        return Ok(after_last);
    }
    Err(format!("the index {index} is beyond the array's end: its length is {elements_len}"))
}

fn parse_index(token: &str) -> Result<usize> {
    let is_canonical = token == "0" || !token.starts_with(['0', '+']);
    let index = token.parse().ok().filter(|_| is_canonical);
    index.ok_or_else(|| format!("'{token}' is no index of an array: use 0, 1, 2, … or '-'"))
}

/// Puts a value where a pointer leads, creating what is missing.
fn put(text: &str, path: &Pointer, value: &str, at_element: AtElement) -> Result<String> {
    check_depth(path, value)?;
    Ok(match (find(text, path)?, at_element) {
        (Target::Member(part), _) | (Target::Element(part), AtElement::Replace) => {
            splice(text, part.value, value)
        }
        (Target::Element(part), AtElement::Insert) => {
            splice(text, part.whole.start..part.whole.start, &format!("{value},"))
        }
        (Target::NoMember { at, first, name }, _) => {
            let mut member = String::from(if first { "" } else { "," });
            write_string(&mut member, &name);
            member.push(':');
            member.push_str(value);
            splice(text, at..at, &member)
        }
        (Target::NoElement { at, first }, _) => {
            let comma = if first { "" } else { "," };
            splice(text, at..at, &format!("{comma}{value}"))
        }
    })
}

fn incr(text: &str, path: &Pointer, literal: &str) -> Result<String> {
    let number = Number::parse(literal).ok_or("the value must be a number")?;
    let part = match find(text, path)? {
        Target::NoMember { .. } => return put(text, path, literal, AtElement::Replace),
        target => target.must_exist()?,
    };
    let old = text.get(part.value.clone()).and_then(Number::parse);
    let old = old.ok_or("what is there is no number")?;
    let sum = add(old, number).ok_or("the sum is too large for a double")?;
    Ok(splice(text, part.value, &sum.to_string()))
}

/// Integers stay integers as long as they fit.
fn add(a: Number, b: Number) -> Option<Number> {
    let ints = match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.checked_add(b),
        _ => None,
    };
    let sum = ints.map_or_else(|| Number::Double(a.as_f64() + b.as_f64()), Number::Int);
    sum.as_f64().is_finite().then_some(sum)
}

/// Replaces a range of the text.
fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    let mut out = String::with_capacity(text.len() + with.len());
    out.push_str(text.get(..range.start).unwrap_or_default());
    out.push_str(with);
    out.push_str(text.get(range.end..).unwrap_or_default());
    out
}

/// Takes out a member or an element, and one of the commas beside it.
fn cut(text: &str, part: Range<usize>) -> String {
    let before = text.get(..part.start).unwrap_or_default();
    let after = text.get(part.end..).unwrap_or_default();
    match (after.strip_prefix(','), before.strip_suffix(',')) {
        (Some(after), _) => [before, after].concat(),
        (None, Some(before)) => [before, after].concat(),
        (None, None) => [before, after].concat(),
    }
}

/// Refuses a value that would lie too deep at this place.
fn check_depth(path: &Pointer, value: &str) -> Result<()> {
    let depth = path.tokens().len() + depth_of(value);
    if depth > DEPTH_MAX {
        return Err(format!("the item would have {depth} levels: the limit is {DEPTH_MAX}"));
    }
    Ok(())
}
