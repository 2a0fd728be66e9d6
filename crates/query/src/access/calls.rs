//! Functions that say something about one value.

use std::ops::Bound;

use partita_model::{IndexStep, Value};

use super::analyze::{Analysis, constant, kinds};
use super::interval::ValueSet;
use super::place::is_single;
use super::values::{self, Accepted};
use super::{Access, Kinds, Test};
use crate::function::Function;
use crate::ir::Expr;
use crate::like::{Pattern, Rest};

impl Analysis<'_> {
    /// A call whose own value is the truth value.
    pub(super) fn call(
        &self,
        whole: &Expr,
        function: Function,
        arguments: &[Expr],
        wanted: bool,
    ) -> Access {
        let found = match (function, arguments) {
            (Function::IsDefined, [operand]) => self.is_defined(operand, wanted),
            (
                Function::IsNull
                | Function::IsBool
                | Function::IsNumber
                | Function::IsString
                | Function::IsPrimitive
                | Function::IsArray
                | Function::IsObject,
                [operand],
            ) => self.is_of_kind(function, operand, wanted),
            (Function::StartsWith, [operand, prefix, rest @ ..]) if respects_case(rest) => {
                self.strings(operand, prefix, values::starting_with, wanted)
            }
            (Function::StringEquals, [operand, text, rest @ ..]) if respects_case(rest) => {
                let (operand, text) = match constant(operand) {
                    Some(_) => (text, operand),
                    None => (operand, text),
                };
                let equal = |text: &str| {
                    let whole = values::equal_to(&Value::String(text.to_owned()));
                    whole.unwrap_or_else(Accepted::nothing)
                };
                self.strings(operand, text, equal, wanted)
            }
            (Function::ArrayContains, [array, needle, rest @ ..]) if wanted => {
                self.array_contains(array, needle, rest)
            }
            _ => None,
        };
        found.unwrap_or_else(|| self.each(whole, wanted))
    }

    fn is_defined(&self, operand: &Expr, wanted: bool) -> Option<Access> {
        let place = self.slots.place(operand).filter(|place| is_single(place))?;
        Some(kinds(place, if wanted { Kinds::DEFINED } else { Kinds::UNDEFINED }))
    }

    fn is_of_kind(&self, function: Function, operand: &Expr, wanted: bool) -> Option<Access> {
        let place = self.slots.place(operand).filter(|place| !place.is_empty())?;
        let (scalars, trees) = match function {
            Function::IsNull => (values::nulls(), Kinds::NONE),
            Function::IsBool => (values::booleans(), Kinds::NONE),
            Function::IsNumber => (values::numbers(), Kinds::NONE),
            Function::IsString => (values::strings(), Kinds::NONE),
            Function::IsPrimitive => (values::all_scalars(), Kinds::NONE),
            Function::IsArray => (ValueSet::default(), Kinds { array: true, ..Kinds::NONE }),
            Function::IsObject => (ValueSet::default(), Kinds { object: true, ..Kinds::NONE }),
            _ => return None,
        };
        let (scalars, trees) = if wanted {
            (scalars, trees)
        } else {
            let others = scalars.complement_in(&values::all_scalars());
            let all = Kinds { undefined: true, scalar: false, ..Kinds::DEFINED };
            let array = all.array && !trees.array;
            (others, Kinds { array, object: !trees.object, ..all })
        };
        if trees != Kinds::NONE && !is_single(&place) {
            return None;
        }
        let mut parts = vec![self.of_scalars(place.clone(), scalars)];
        if trees != Kinds::NONE {
            parts.push(kinds(place, trees));
        }
        Some(Access::or(parts))
    }

    /// All scalars together are a kind of their own, which is cheaper than their values.
    fn of_scalars(&self, place: Vec<IndexStep>, scalars: ValueSet) -> Access {
        if scalars == values::all_scalars() && is_single(&place) {
            return kinds(place, Kinds { scalar: true, ..Kinds::NONE });
        }
        self.in_values(place, Some(Accepted { values: scalars, exact: true }))
    }

    /// A test of strings against a constant: undefined for everything that is no string.
    fn strings(
        &self,
        operand: &Expr,
        constant_text: &Expr,
        accepted: impl Fn(&str) -> Accepted,
        wanted: bool,
    ) -> Option<Access> {
        let place = self.slots.place(operand)?;
        match constant(constant_text)? {
            Value::String(text) => {
                let mut accepted = accepted(&text);
                if !wanted {
                    accepted.values = if accepted.exact {
                        accepted.values.complement_in(&values::strings())
                    } else {
                        values::strings()
                    };
                }
                Some(self.in_values(place, Some(accepted)))
            }
            _ => Some(Access::Nothing),
        }
    }

    /// The items with an element that is the needle, or may be.
    fn array_contains(&self, array: &Expr, needle: &Expr, rest: &[Expr]) -> Option<Access> {
        let place = self.slots.place(array)?;
        let is_sure = match rest {
            [] | [Expr::Undefined] => true,
            [partial] => matches!(constant(partial), Some(Value::Bool(_))),
            _ => false,
        };
        let single = is_single(&place);
        let mut elements = place;
        elements.push(IndexStep::Element);
        let needle = constant(needle)?;
        let Some(accepted) = values::equal_to(&needle) else {
            return Some(self.equal_to_tree(&elements, &needle));
        };
        let exact = accepted.exact && single && is_sure;
        let values = accepted.values.into_list();
        Some(Access::condition(elements, Test::Values(values), exact))
    }

    /// `LIKE`: a beginning that is fixed is a range; the rest of the pattern is asked value by
    /// value.
    pub(super) fn like(
        &self,
        whole: &Expr,
        operand: &Expr,
        pattern: &Pattern,
        wanted: bool,
    ) -> Access {
        let each = self.each(whole, wanted);
        let (Some(place), true) = (self.slots.place(operand), wanted) else { return each };
        let (prefix, what) = pattern.beginning();
        match what {
            _ if prefix.len() > values::WHOLE_STRING_BYTES => each,
            Rest::Nothing => self.in_values(place, values::equal_to(&Value::String(prefix))),
            Rest::Anything => self.in_values(place, Some(values::starting_with(&prefix))),
            Rest::Pattern if prefix.is_empty() => each,
            Rest::Pattern => {
                let begins = values::starting_with(&prefix);
                self.in_values(place, Some(Accepted { exact: false, ..begins }))
            }
        }
    }

    /// `f(path) = constant` as values of the path, for functions that can be turned around.
    pub(super) fn inverted(
        &self,
        function: Function,
        arguments: &[Expr],
        constant: &Value,
    ) -> Option<Access> {
        let [operand] = arguments else { return None };
        let place = self.slots.place(operand)?;
        let number = match constant {
            Value::Number(number) if values::is_exact(*number) => number.as_f64(),
            Value::Number(_) => return None,
            _ => return is_numeric(function).then_some(Access::Nothing),
        };
        let whole = number.fract() == 0.0;
        let accepted = match function {
            Function::Abs if number < 0.0 => Accepted::nothing(),
            Function::Abs => {
                let one =
                    |at: f64| values::numbers_between(Bound::Included(at), Bound::Included(at));
                let (up, down) = (one(number), one(-number));
                Accepted { values: up.values.union(down.values), exact: true }
            }
            Function::Floor | Function::Ceiling | Function::Trunc if !whole => Accepted::nothing(),
            Function::Floor => from(number),
            Function::Ceiling => up_to(number),
            Function::Trunc if number > 0.0 => from(number),
            Function::Trunc if number < 0.0 => up_to(number),
            Function::Trunc => values::numbers_between(Bound::Excluded(-1.0), Bound::Excluded(1.0)),
            _ => return None,
        };
        Some(self.in_values(place, Some(accepted)))
    }
}

fn is_numeric(function: Function) -> bool {
    matches!(function, Function::Abs | Function::Floor | Function::Ceiling | Function::Trunc)
}

/// Numbers that are rounded down to this one.
fn from(number: f64) -> Accepted {
    values::numbers_between(Bound::Included(number), Bound::Excluded(number + 1.0))
}

/// Numbers that are rounded up to this one.
fn up_to(number: f64) -> Accepted {
    values::numbers_between(Bound::Excluded(number - 1.0), Bound::Included(number))
}

/// Is the optional flag of a string function absent or false?
fn respects_case(rest: &[Expr]) -> bool {
    match rest {
        [] => true,
        [flag] => constant(flag) == Some(Value::Bool(false)),
        _ => false,
    }
}
