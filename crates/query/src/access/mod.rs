//! What indexes can do for a query: from its FROM and WHERE to a set of index lookups. Pure.
//!
//! An [`Access`] describes a set of items that contains every item with a row in the answer. It is
//! a *superset*: whoever uses it evaluates the query on the items that remain, unless the access
//! says that it is exact. It knows no container: whether a path is indexed, and which of several
//! lookups pays, is decided by who executes it (`engine::query::leaf`).
//!
//! ```text
//! c.type = "a" AND c.n > 5 AND f(c.x, c.y)   And[ /type in {"a"}, /n in (5, …), Unknown ]
//! JOIN t IN c.tags WHERE t.name = "x"        /tags/[]/name in {"x"}
//! LOWER(c.name) = "bob"                      /name, each value tested
//! NOT IS_DEFINED(c.x)                        /x is undefined, exact
//! ```
//!
//! A predicate is analysed for two questions: which items make it true, and which make it false?
//! The second is not the complement of the first, for there is undefined between them. NOT
//! exchanges the questions, AND and OR combine the answers.

mod analyze;
mod calls;
mod each;
mod interval;
mod place;
#[cfg(test)]
mod tests;
mod values;

use partita_model::IndexStep;

pub(crate) use analyze::access;
pub use each::ValueTest;
pub use interval::Interval;
use interval::ValueSet;
pub use values::{WHOLE_STRING_BYTES, encode};

/// A set of items that contains all that a query needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// Every item, and every one counts.
    All,
    /// No item.
    Nothing,
    /// Any item: no index can tell.
    Unknown,
    /// The items that pass one test.
    Condition(Condition),
    /// The items in all of these sets.
    And(Vec<Access>),
    /// The items in any of these sets.
    Or(Vec<Access>),
}

/// A test on what an item has at a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// From the item to the value; a step to an element means any element.
    pub path: Vec<IndexStep>,
    /// What the value has to be.
    pub test: Test,
    /// True if an item passes the test exactly when the predicate is true for it.
    pub exact: bool,
}

/// What a value has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// One of these scalars: in order, disjoint.
    Values(Vec<Interval>),
    /// A scalar that passes a predicate, asked for every distinct one.
    Each(ValueTest),
    /// Of one of these kinds.
    Kinds(Kinds),
}

/// Which kinds of value a path may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// There is no value.
    pub undefined: bool,
    /// Null, a boolean, a number or a string.
    pub scalar: bool,
    /// An array, also an empty one.
    pub array: bool,
    /// An object, also an empty one.
    pub object: bool,
}

impl Kinds {
    /// No kind at all.
    pub const NONE: Kinds = Kinds { undefined: false, scalar: false, array: false, object: false };
    /// There is no value.
    pub const UNDEFINED: Kinds = Kinds { undefined: true, ..Kinds::NONE };
    /// There is a value.
    pub const DEFINED: Kinds = Kinds { undefined: false, scalar: true, array: true, object: true };

    fn union(self, other: Kinds) -> Kinds {
        Kinds {
            undefined: self.undefined || other.undefined,
            scalar: self.scalar || other.scalar,
            array: self.array || other.array,
            object: self.object || other.object,
        }
    }
}

impl Access {
    /// Does the set hold exactly the items for which the predicate is true?
    pub fn is_exact(&self) -> bool {
        match self {
            Access::All | Access::Nothing => true,
            Access::Unknown => false,
            Access::Condition(condition) => condition.exact,
            Access::And(parts) | Access::Or(parts) => parts.iter().all(Access::is_exact),
        }
    }

    /// Calls `f` for every condition.
    pub fn visit(&self, f: &mut dyn FnMut(&Condition)) {
        match self {
            Access::All | Access::Nothing | Access::Unknown => {}
            Access::Condition(condition) => f(condition),
            Access::And(parts) | Access::Or(parts) => parts.iter().for_each(|part| part.visit(f)),
        }
    }

    fn condition(path: Vec<IndexStep>, test: Test, exact: bool) -> Access {
        Access::Condition(Condition { path, test, exact })
    }

    /// The intersection. Intervals at one path meet, so that `x > 1 AND x < 5` is one lookup.
    fn and(parts: Vec<Access>) -> Access {
        let mut joined: Vec<Access> = Vec::with_capacity(parts.len());
        for part in flatten(parts, |part| match part {
            Access::And(inner) => Ok(inner),
            other => Err(other),
        }) {
            match part {
                Access::All => {}
                Access::Nothing => return Access::Nothing,
                Access::Condition(condition) => {
                    if !meet(&mut joined, condition) {
                        return Access::Nothing;
                    }
                }
                // One doubt is as good as many.
                Access::Unknown if joined.contains(&Access::Unknown) => {}
                other => joined.push(other),
            }
        }
        match joined.len() {
            0 => Access::All,
            1 => joined.swap_remove(0),
            _ => Access::And(joined),
        }
    }

    /// The union. Intervals at one path join, so that `x = 1 OR x = 5` is one lookup.
    fn or(parts: Vec<Access>) -> Access {
        let mut joined: Vec<Access> = Vec::with_capacity(parts.len());
        for part in flatten(parts, |part| match part {
            Access::Or(inner) => Ok(inner),
            other => Err(other),
        }) {
            match part {
                Access::Nothing => {}
                Access::All => return Access::All,
                Access::Unknown => return Access::Unknown,
                Access::Condition(condition) => join(&mut joined, condition),
                other @ (Access::And(_) | Access::Or(_)) => joined.push(other),
            }
        }
        match joined.len() {
            0 => Access::Nothing,
            1 => joined.swap_remove(0),
            _ => Access::Or(joined),
        }
    }
}

/// The parts with nested lists of the same operator laid open.
fn flatten(
    parts: Vec<Access>,
    open: impl Fn(Access) -> Result<Vec<Access>, Access>,
) -> impl Iterator<Item = Access> {
    parts.into_iter().flat_map(move |part| match open(part) {
        Ok(inner) => inner,
        Err(other) => vec![other],
    })
}

/// Adds a condition to an intersection; false if nothing can pass any more.
fn meet(joined: &mut Vec<Access>, condition: Condition) -> bool {
    let one_value = condition.path.iter().all(|step| matches!(step, IndexStep::Member(_)));
    let Test::Values(values) = &condition.test else {
        joined.push(Access::Condition(condition));
        return true;
    };
    // Two elements of an array may each pass one of two tests: only single values can be joined.
    let same = joined.iter_mut().find_map(|part| match part {
        Access::Condition(other) if one_value && other.path == condition.path => match other {
            Condition { test: Test::Values(held), exact, .. } => Some((held, exact)),
            _ => None,
        },
        _ => None,
    });
    let Some((held, exact)) = same else {
        joined.push(Access::Condition(condition));
        return true;
    };
    let common =
        ValueSet::from_list(std::mem::take(held)).intersect(&ValueSet::from_list(values.clone()));
    *exact &= condition.exact;
    let possible = !common.is_empty();
    *held = common.into_list();
    possible
}

/// Adds a condition to a union.
fn join(joined: &mut Vec<Access>, condition: Condition) {
    for part in joined.iter_mut() {
        let Access::Condition(other) = part else { continue };
        if other.path != condition.path {
            continue;
        }
        match (&mut other.test, &condition.test) {
            (Test::Values(held), Test::Values(values)) => {
                held.extend(values.iter().cloned());
                *held = ValueSet::from_list(std::mem::take(held)).into_list();
            }
            (Test::Kinds(held), Test::Kinds(kinds)) => *held = held.union(*kinds),
            _ => continue,
        }
        other.exact &= condition.exact;
        return;
    }
    joined.push(Access::Condition(condition));
}
