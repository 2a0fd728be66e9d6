//! Patches: small changes to an item, sent instead of the whole item.
//!
//! A patch is a list of operations that are applied in order, all or none. Each names its target by
//! a JSON pointer (`/address/lines/0`, `/tags/-`). It works on texts: the target is found in the
//! stored text and the new literal spliced in, so that everything a patch does not name stays
//! letter for letter as it was written, and what it brings is kept as the client wrote it.
//!
//! | operation | target is there | target is not there |
//! |---|---|---|
//! | `add` | member: replaced; element: inserted before | created; `-` or past the end: appended |
//! | `set` | replaced | as `add` |
//! | `replace` | replaced | refused |
//! | `remove` | taken out | refused |
//! | `incr` | the number is added; no number: refused | member: created; element: refused |
//! | `move` | `from` is taken out, then `add` | the same |
//!
//! The parent of a target must be there. A condition, if the patch has one, is only carried: who
//! applies the patch evaluates it.

use crate::document::{Raw, SYSTEM_NAMES, Scalar, element_texts, member_texts};
use crate::error::{Error, Result};
use crate::json;
use crate::limits::PATCH_OPERATIONS_MAX;
use crate::partition_key::PartitionKeyDefinition;
use crate::value::Number;

mod pointer;
mod splice;

pub use self::pointer::Pointer;

/// What to change, and on which condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// In order; at least one.
    pub operations: Vec<PatchOperation>,
    /// A filter such as `from c where c.n > 1` that the item must pass.
    pub condition: Option<String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchOperation {
    /// The target.
    pub path: Pointer,
    /// What to do with it.
    pub action: PatchAction,
}

/// What to do with a target. Values are compact JSON texts.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchAction {
    /// `add`: set a member, or insert an element.
    Add(String),
    /// `set`: set a member or an element.
    Set(String),
    /// `replace`: set what is there already.
    Replace(String),
    /// `remove`: take out what is there.
    Remove,
    /// `incr`: add to the number that is there.
    Incr(String),
    /// `move`: take out what is at another place and put it here.
    Move(Pointer),
}

impl PatchAction {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            PatchAction::Add(_) => "add",
            PatchAction::Set(_) => "set",
            PatchAction::Replace(_) => "replace",
            PatchAction::Remove => "remove",
            PatchAction::Incr(_) => "incr",
            PatchAction::Move(_) => "move",
        }
    }
}

impl Patch {
    /// Reads the body of a patch request: `{"operations":[…],"condition":"…"}` or only the array.
    pub fn parse(body: &[u8]) -> Result<Patch> {
        let text = json::compact_value(body)?;
        let (operations, condition) = match text.as_bytes().first() {
            Some(b'[') => (text.as_str(), None),
            _ => parse_envelope(&text)?,
        };
        let texts: Vec<&str> = element_texts(operations).map(|element| element.text).collect();
        if texts.is_empty() || texts.len() > PATCH_OPERATIONS_MAX {
            return Err(Error::bad_request(format!(
                "a patch must have 1 to {PATCH_OPERATIONS_MAX} operations: this one has {}",
                texts.len()
            )));
        }
        let operations = texts.iter().enumerate().map(|(at, text)| parse_operation(at, text));
        Ok(Patch { operations: operations.collect::<Result<_>>()?, condition })
    }

    /// Refuses operations on what a patch may not change: the id, the partition key, and the
    /// system's properties.
    pub fn check_targets(&self, key: &PartitionKeyDefinition) -> Result<()> {
        for (at, operation) in self.operations.iter().enumerate() {
            operation.check_target(&operation.path, key).map_err(|e| operation.blame(at, e))?;
            if let PatchAction::Move(from) = &operation.action {
                operation.check_target(from, key).map_err(|e| operation.blame(at, e))?;
            }
        }
        Ok(())
    }

    /// Applies all operations to an item's compact text.
    pub fn apply(&self, text: &str) -> Result<String> {
        let mut patched = text.to_owned();
        for (at, operation) in self.operations.iter().enumerate() {
            patched = splice::apply(&patched, operation).map_err(|e| operation.blame(at, e))?;
        }
        Ok(patched)
    }
}

impl PatchOperation {
    fn check_target(&self, target: &Pointer, key: &PartitionKeyDefinition) -> Result<(), String> {
        let names = target.tokens();
        let first = names.first().map(String::as_str).unwrap_or_default();
        if first == "id" {
            return Err("the id of an item cannot be patched".to_owned());
        }
        if SYSTEM_NAMES.contains(&first) {
            return Err(format!("the system property {first} cannot be patched"));
        }
        // A target above the key would change the key with it.
        match key.paths.iter().find(|path| path.segments().starts_with(names)) {
            Some(path) => Err(format!("the partition key path {} cannot be patched", path.text())),
            None => Ok(()),
        }
    }

    /// Puts the operation's place, name and path before a problem.
    fn blame(&self, at: usize, problem: impl AsRef<str>) -> Error {
        blame(at, self.action.name(), self.path.text(), problem.as_ref())
    }
}

fn blame(at: usize, op: &str, path: &str, problem: &str) -> Error {
    Error::bad_request(format!("patch operation {at} ({op} '{path}'): {problem}"))
}

/// The operations' text and the condition of a patch that is an object.
fn parse_envelope(text: &str) -> Result<(&str, Option<String>)> {
    let (mut operations, mut condition) = (None, None);
    for member in member_texts(text) {
        match (member.name.decode().as_ref(), member.value.as_bytes().first()) {
            ("operations", Some(b'[')) => operations = Some(member.value),
            ("condition", Some(b'"')) => condition = string_of(member.value),
            ("condition", Some(b'n')) => {}
            ("operations", _) => {
                return Err(Error::bad_request("the 'operations' of a patch must be an array"));
            }
            ("condition", _) => {
                return Err(Error::bad_request("the 'condition' of a patch must be a string"));
            }
            (name, _) => {
                return Err(Error::bad_request(format!(
                    "a patch has no member '{name}': it has 'operations' and 'condition'"
                )));
            }
        }
    }
    let missing = || Error::bad_request("a patch must be an array or an object with 'operations'");
    Ok((operations.ok_or_else(missing)?, condition))
}

fn parse_operation(at: usize, text: &str) -> Result<PatchOperation> {
    let member = |name: &str| member_texts(text).find(|m| m.name.means(name)).map(|m| m.value);
    let string = |name: &str| member(name).and_then(string_of);
    let op = string("op");
    let path = string("path");
    let (shown_op, shown_path) = (op.as_deref().unwrap_or("?"), path.as_deref().unwrap_or("?"));
    let fail = |problem: String| blame(at, shown_op, shown_path, &problem);
    let must = |found: Option<String>, name: &str| {
        found.ok_or_else(|| fail(format!("must have the string '{name}'")))
    };
    let op = must(op.clone(), "op")?;
    let path = Pointer::parse(&must(path.clone(), "path")?).map_err(&fail)?;
    let value = || member("value").ok_or_else(|| fail("must have a 'value'".to_owned()));
    let action = match op.as_str() {
        "add" => PatchAction::Add(value()?.to_owned()),
        "set" => PatchAction::Set(value()?.to_owned()),
        "replace" => PatchAction::Replace(value()?.to_owned()),
        "remove" => PatchAction::Remove,
        "incr" => {
            let literal = value()?;
            if Number::parse(literal).is_none() {
                return Err(fail("the value must be a number".to_owned()));
            }
            PatchAction::Incr(literal.to_owned())
        }
        "move" => {
            let from = Pointer::parse(&must(string("from"), "from")?).map_err(&fail)?;
            if path.is_below(&from) {
                return Err(fail(format!("the path lies inside 'from' ('{}')", from.text())));
            }
            PatchAction::Move(from)
        }
        _ => {
            let known = "use add, set, replace, remove, incr or move";
            return Err(fail(format!("there is no such operation: {known}")));
        }
    };
    Ok(PatchOperation { path, action })
}

/// What a string literal means.
fn string_of(text: &str) -> Option<String> {
    match Raw::new(text).scalar() {
        Some(Scalar::String(text)) => Some(text.into_owned()),
        _ => None,
    }
}
