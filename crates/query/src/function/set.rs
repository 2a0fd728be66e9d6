//! Arrays as sets: union, intersection, difference, equality, and containing any or all.
//!
//! Values are compared deeply, as `=` does. They are found by a hash that equal values share, so
//! that large arrays take linear time. The hash is keyed anew for each call: nobody can prepare
//! values that all collide.

use super::arguments::Arguments;
use super::array::{self, elements};
use super::room;
use crate::cell::Cell;
use crate::compare;
use crate::scope::Scope;
use partita_model::{Result, Value};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Distinct values.
struct Set<'c> {
    buckets: HashMap<u64, Vec<Cell<'c>>>,
    keys: Keys,
}

/// What hashes depend on.
#[derive(Default)]
struct Keys {
    state: RandomState,
    /// How many NaN were met. None is equal to another, so that each has a hash of its own:
    /// otherwise they would all meet in one bucket.
    odd: std::cell::Cell<u64>,
}

impl<'c> Set<'c> {
    fn new() -> Set<'c> {
        Set { buckets: HashMap::new(), keys: Keys::default() }
    }

    fn of(cells: impl Iterator<Item = Cell<'c>>) -> Set<'c> {
        let mut set = Set::new();
        for cell in cells {
            set.insert(cell);
        }
        set
    }

    /// Adds the value; was it missing?
    fn insert(&mut self, cell: Cell<'c>) -> bool {
        let bucket = self.buckets.entry(hash(&cell, &self.keys)).or_default();
        let is_new = !bucket.iter().any(|known| compare::equal(known, &cell));
        if is_new {
            bucket.push(cell);
        }
        is_new
    }

    fn contains(&self, cell: &Cell<'_>) -> bool {
        let bucket = self.buckets.get(&hash(cell, &self.keys));
        bucket.is_some_and(|bucket| bucket.iter().any(|known| compare::equal(known, cell)))
    }

    fn remove(&mut self, cell: &Cell<'_>) {
        let key = hash(cell, &self.keys);
        if let Some(bucket) = self.buckets.get_mut(&key) {
            bucket.retain(|known| !compare::equal(known, cell));
            if bucket.is_empty() {
                self.buckets.remove(&key);
            }
        }
    }
}

/// A number that equal values share.
fn hash(cell: &Cell<'_>, keys: &Keys) -> u64 {
    let mut hasher = keys.state.build_hasher();
    cell.kind().hash(&mut hasher);
    match cell {
        Cell::Null => {}
        Cell::Bool(value) => value.hash(&mut hasher),
        Cell::Number(number) if number.as_f64().is_nan() => {
            keys.odd.set(keys.odd.get() + 1);
            keys.odd.get().hash(&mut hasher);
        }
        // Integers are equal to doubles: both by the double. Adding zero makes -0 to 0.
        Cell::Number(number) => (number.as_f64() + 0.0).to_bits().hash(&mut hasher),
        Cell::String(text) => text.hash(&mut hasher),
        Cell::Text(_) | Cell::Tree(_) => match elements(cell) {
            Some(elements) => elements.for_each(|element| hash(&element, keys).hash(&mut hasher)),
            None => members_hash(cell, keys).hash(&mut hasher),
        },
    }
    hasher.finish()
}

/// Members have no order: their hashes are added.
fn members_hash(cell: &Cell<'_>, keys: &Keys) -> u64 {
    let member = |name: &str, value: &Cell<'_>| keys.state.hash_one((name, hash(value, keys)));
    match cell {
        Cell::Text(raw) => raw
            .document()
            .members()
            .map(|(name, value)| member(&name, &Cell::from_raw(value)))
            .fold(0, u64::wrapping_add),
        Cell::Tree(tree) => tree.as_object().map_or(0, |object| {
            let members = object.iter().map(|(name, value)| member(name, &Cell::from_ref(value)));
            members.fold(0, u64::wrapping_add)
        }),
        _ => 0,
    }
}

/// `ARRAY_CONTAINS_ANY(array, value, …)`; undefined values are contained in nothing.
pub(super) fn contains_any<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let mut elements = elements(arguments.get(0)?)?;
    let wanted = Set::of(arguments.from(1).flatten().cloned());
    if elements.any(|element| wanted.contains(&element)) {
        return Some(Cell::Bool(true));
    }
    arguments.from(1).all(|value| value.is_some()).then_some(Cell::Bool(false))
}

/// `ARRAY_CONTAINS_ALL(array, value, …)`
pub(super) fn contains_all<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let elements = elements(arguments.get(0)?)?;
    let mut missing = Set::of(arguments.from(1).flatten().cloned());
    for element in elements {
        if missing.buckets.is_empty() {
            break;
        }
        missing.remove(&element);
    }
    if !missing.buckets.is_empty() {
        return Some(Cell::Bool(false));
    }
    arguments.from(1).all(|value| value.is_some()).then_some(Cell::Bool(true))
}

pub(super) fn equal<'a>(arguments: &mut Arguments<'a>) -> Option<Cell<'a>> {
    let (a, b) = (arguments.get(0)?, arguments.get(1)?);
    let (set_of_a, set_of_b) = (Set::of(elements(a)?), Set::of(elements(b)?));
    let is_within = |mut some: Box<dyn Iterator<Item = Cell<'_>> + '_>, all: &Set<'_>| {
        some.all(|element| all.contains(&element))
    };
    Some(Cell::Bool(is_within(elements(a)?, &set_of_b) && is_within(elements(b)?, &set_of_a)))
}

/// In the order of the second array.
pub(super) fn intersection<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    selected(arguments, scope, |a, b| {
        let known = Set::of(a);
        Box::new(b.filter(move |element| known.contains(element)))
    })
}

/// The first array's elements, then what is new in the second.
pub(super) fn union<'a>(arguments: &mut Arguments<'a>, scope: &Scope) -> Result<Option<Cell<'a>>> {
    selected(arguments, scope, |a, b| Box::new(a.chain(b)))
}

/// In the order of the first array.
pub(super) fn difference<'a>(
    arguments: &mut Arguments<'a>,
    scope: &Scope,
) -> Result<Option<Cell<'a>>> {
    selected(arguments, scope, |a, b| {
        let known = Set::of(b);
        Box::new(a.filter(move |element| !known.contains(element)))
    })
}

type Elements<'c> = Box<dyn Iterator<Item = Cell<'c>> + 'c>;

/// The distinct elements of what is selected from two arrays.
fn selected<'a>(
    arguments: &Arguments<'a>,
    scope: &Scope,
    select: for<'c> fn(Elements<'c>, Elements<'c>) -> Elements<'c>,
) -> Result<Option<Cell<'a>>> {
    let a = arguments.get(0).and_then(elements);
    let Some((a, b)) = a.zip(arguments.get(1).and_then(elements)) else { return Ok(None) };
    let mut seen = Set::new();
    let mut distinct: Vec<Value> = Vec::new();
    for element in select(a, b) {
        if seen.insert(element.clone()) {
            scope.reserve(room::of(&element))?;
            distinct.push(element.into_value());
        }
    }
    Ok(Some(array::array(distinct)))
}

#[cfg(test)]
mod tests {
    use crate::function::testing::{call, expect};
    use proptest::prelude::*;

    #[test]
    fn sets_keep_the_order_that_is_published() {
        expect(&[
            (r#"SETINTERSECT [1,2,"A","B"] ["A",1]"#, r#"["A",1]"#),
            (r#"SETINTERSECT [1,1,2] [2,1,1]"#, "[2,1]"),
            (r#"SETUNION [1,2,1] [3,2.0,4]"#, "[1,2,3,4]"),
            (r#"SETDIFFERENCE [1,2,3,1,"2"] [2]"#, r#"[1,3,"2"]"#),
            (r#"SETEQUAL [1,2,2] [2,1]"#, "true"),
            (r#"SETEQUAL [1,2] [2,1,3]"#, "false"),
            (r#"SETEQUAL [] []"#, "true"),
            (r#"SETUNION [{"a":1,"b":[2]}] [{"b":[2.0],"a":1}]"#, r#"[{"a":1,"b":[2]}]"#),
            (r#"SETUNION [[1],[1,1],[[1]]] [{},[]]"#, "[[1],[1,1],[[1]],{},[]]"),
            (r#"SETUNION [null,false,0,""] []"#, r#"[null,false,0,""]"#),
            (r#"SETUNION [-0.0] [0]"#, "[-0]"),
            (r#"SETUNION [1] 1"#, "undefined"),
            (r#"SETEQUAL [1] undefined"#, "undefined"),
            (r#"SETINTERSECT {} []"#, "undefined"),
        ]);
    }

    #[test]
    fn containing_any_or_all_is_three_valued() {
        expect(&[
            (r#"ARRAY_CONTAINS_ANY [1,true,"3",[1,2,3]] [1,2,3] 9"#, "true"),
            ("ARRAY_CONTAINS_ANY [1,2,3,4] 1 undefined", "true"),
            ("ARRAY_CONTAINS_ANY [1,2,3,4] 5 undefined", "undefined"),
            ("ARRAY_CONTAINS_ANY [1,2,3,4] 5 6", "false"),
            ("ARRAY_CONTAINS_ANY [] 1", "false"),
            ("ARRAY_CONTAINS_ANY 1 1", "undefined"),
            (r#"ARRAY_CONTAINS_ALL [1,true,"3",[1,2,3]] 1 true "3" [1,2,3]"#, "true"),
            ("ARRAY_CONTAINS_ALL [1,2,3,4] 2 3 5", "false"),
            ("ARRAY_CONTAINS_ALL [1,2,3,4] 2 2 2.0", "true"),
            ("ARRAY_CONTAINS_ALL [1,2,3,4] 1 undefined", "undefined"),
            ("ARRAY_CONTAINS_ALL [1,2,3,4] 5 undefined", "false"),
            ("ARRAY_CONTAINS_ALL undefined 5", "undefined"),
        ]);
    }

    #[test]
    fn many_elements_take_no_square_of_their_number() {
        let numbers = |range: std::ops::Range<u32>| {
            format!("[{}]", range.map(|n| n.to_string()).collect::<Vec<_>>().join(","))
        };
        let (a, b) = (numbers(0..60_000), numbers(30_000..90_000));
        let common = call(&format!("SETINTERSECT {a} {b}"));
        assert_eq!(call(&format!("ARRAY_LENGTH {common}")), "30000");
        assert_eq!(call(&format!("SETEQUAL {a} {b}")), "false");
    }

    proptest! {
        #[test]
        fn sets_agree_with_sets_of_numbers(
            a in proptest::collection::vec(0_i64..8, 0..8),
            b in proptest::collection::vec(0_i64..8, 0..8),
        ) {
            let shown = |numbers: &[i64]| format!("{numbers:?}").replace(' ', "");
            let distinct = |numbers: Vec<i64>| {
                let mut kept: Vec<i64> = Vec::new();
                for number in numbers {
                    if !kept.contains(&number) {
                        kept.push(number);
                    }
                }
                kept
            };
            let (text_a, text_b) = (shown(&a), shown(&b));
            let union = distinct(a.iter().chain(&b).copied().collect());
            prop_assert_eq!(call(&format!("SETUNION {text_a} {text_b}")), shown(&union));
            let common = distinct(b.iter().copied().filter(|n| a.contains(n)).collect());
            prop_assert_eq!(call(&format!("SETINTERSECT {text_a} {text_b}")), shown(&common));
            let rest = distinct(a.iter().copied().filter(|n| !b.contains(n)).collect());
            prop_assert_eq!(call(&format!("SETDIFFERENCE {text_a} {text_b}")), shown(&rest));
            let is_equal = rest.is_empty() && b.iter().all(|n| a.contains(n));
            prop_assert_eq!(call(&format!("SETEQUAL {text_a} {text_b}")), is_equal.to_string());
        }
    }
}
