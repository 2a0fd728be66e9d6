//! An expression and a row in, a value out; `None` is the language's `undefined`.
//!
//! Evaluation cannot fail: whatever does not fit is undefined, and undefined spreads, except where
//! logic, `??`, `?:` and the `IS_…` functions stop it. Values of the row are borrowed, not copied;
//! only what an operator makes is new. Undefined never enters an array or object: its element or
//! member is left out.
//!
//! What one evaluation builds is limited to [`BUILD_BYTES_MAX`]: a value that would not fit is
//! undefined, as the language has it for strings that its own functions would make too long.
//! Without the limit `[c, c, c, …]` could copy a large row a hundred thousand times.

mod arithmetic;

pub(crate) use arithmetic::negate;

use crate::compare::{self, Order};
use crate::ir::{BinaryOperator, Expr, Step, UnaryOperator};
use crate::like::Pattern;
use partita_model::{Object, Value};
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

/// Several times the largest item: no honest expression builds as much.
const BUILD_BYTES_MAX: usize = 16 << 20;

type Evaluated<'a> = Option<Cow<'a, Value>>;

/// Does the expression hold for the row, in the sense of WHERE? Only the boolean true does.
pub(crate) fn holds(expr: &Expr, row: &Value) -> bool {
    is_true(expr, &Scope { row, bytes_left: Cell::new(BUILD_BYTES_MAX) })
}

/// What an evaluation can see, and what it may still build.
struct Scope<'a> {
    row: &'a Value,
    bytes_left: Cell<usize>,
}

impl Scope<'_> {
    /// Takes room for that many bytes more, if there is any.
    fn reserve(&self, bytes: usize) -> Option<()> {
        self.bytes_left.set(self.bytes_left.get().checked_sub(bytes)?);
        Some(())
    }
}

fn is_true(expr: &Expr, scope: &Scope<'_>) -> bool {
    boolean(&eval(expr, scope)) == Some(true)
}

fn eval<'a>(expr: &'a Expr, scope: &Scope<'a>) -> Evaluated<'a> {
    match expr {
        Expr::Undefined => None,
        Expr::Constant(value) => Some(Cow::Borrowed(value)),
        Expr::Row => Some(Cow::Borrowed(scope.row)),
        Expr::Path { base, steps } => path(eval(base, scope)?, steps),
        Expr::Array(elements) => array(elements, scope),
        Expr::Object(members) => object(members, scope),
        Expr::Unary { operator, operand } => unary(*operator, eval(operand, scope)?),
        Expr::Chain { first, rest } => chain(first, rest, scope),
        Expr::In { operand, list } => {
            let operand = eval(operand, scope)?;
            let mut found = list.iter().filter_map(|choice| eval(choice, scope));
            truth(Some(found.any(|choice| compare::equal(&operand, &choice))))
        }
        Expr::Between { operand, low, high } => {
            let operand = eval(operand, scope);
            let above = compared(&operand, &eval(low, scope), Ordering::is_ge);
            truth(and(above, compared(&operand, &eval(high, scope), Ordering::is_le)))
        }
        Expr::Like { operand, pattern } => {
            truth(Some(pattern.matches(eval(operand, scope)?.as_str()?)))
        }
        Expr::LikeComputed { operand, pattern, escape } => {
            let pattern = Pattern::new(eval(pattern, scope)?.as_str()?, *escape);
            truth(Some(pattern.matches(eval(operand, scope)?.as_str()?)))
        }
        Expr::Coalesce(choices) => choices.iter().find_map(|choice| eval(choice, scope)),
        Expr::Conditional { condition, then, otherwise } => {
            let chosen = if is_true(condition, scope) { then } else { otherwise };
            eval(chosen, scope)
        }
        Expr::Call { function, arguments } => {
            let cell = |value: Cow<'a, Value>| match value {
                Cow::Borrowed(value) => crate::cell::Cell::from_ref(value),
                Cow::Owned(value) => crate::cell::Cell::from_value(value),
            };
            let arguments =
                arguments.iter().map(|argument| eval(argument, scope).map(cell)).collect();
            // What a function cannot build is undefined here, as it is for operators.
            let result = function.apply(arguments, &crate::scope::Scope::new(0, 0)).ok()??;
            owned(result.into_value())
        }
    }
}

fn owned<'a>(value: Value) -> Evaluated<'a> {
    Some(Cow::Owned(value))
}

fn truth<'a>(value: Option<bool>) -> Evaluated<'a> {
    owned(Value::Bool(value?))
}

/// An operand of AND, OR, NOT: whatever is not a boolean counts as undefined.
fn boolean(value: &Evaluated<'_>) -> Option<bool> {
    value.as_deref().and_then(Value::as_bool)
}

fn array<'a>(elements: &'a [Expr], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut array = Vec::new();
    for value in elements.iter().filter_map(|element| eval(element, scope)) {
        scope.reserve(footprint(&value))?;
        array.push(value.into_owned());
    }
    owned(Value::Array(array))
}

fn object<'a>(members: &'a [(String, Expr)], scope: &Scope<'a>) -> Evaluated<'a> {
    let mut object = Object::new();
    for (name, member) in members {
        if let Some(value) = eval(member, scope) {
            scope.reserve(name.len() + footprint(&value))?;
            object.insert(name.clone(), value.into_owned());
        }
    }
    owned(Value::Object(object))
}

/// Roughly the memory that a copy of the value takes.
fn footprint(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(footprint).sum(),
        Value::Object(members) => members.iter().map(|(n, v)| n.len() + footprint(v)).sum(),
    };
    size_of::<Value>() + inside
}

fn path<'a>(base: Cow<'a, Value>, steps: &[Step]) -> Evaluated<'a> {
    match base {
        Cow::Borrowed(value) => walk(value, steps).map(Cow::Borrowed),
        Cow::Owned(value) => walk(&value, steps).cloned().map(Cow::Owned),
    }
}

fn walk<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match (step, value) {
        (Step::Member(name), Value::Object(object)) => object.get(name),
        (Step::Element(at), Value::Array(array)) => array.get(*at),
        _ => None,
    })
}

fn unary<'a>(operator: UnaryOperator, operand: Cow<'a, Value>) -> Evaluated<'a> {
    match operator {
        UnaryOperator::Not => truth(operand.as_bool().map(|value| !value)),
        UnaryOperator::Minus => owned(negate(&operand)?),
        UnaryOperator::BitNot => owned(arithmetic::bit_not(&operand)?),
        UnaryOperator::Plus => matches!(*operand, Value::Number(_)).then_some(operand),
    }
}

fn chain<'a>(
    first: &'a Expr,
    rest: &'a [(BinaryOperator, Expr)],
    scope: &Scope<'a>,
) -> Evaluated<'a> {
    let mut left = eval(first, scope);
    for (operator, right) in rest {
        // Decided already: the rest of the chain is the same operator and cannot change it.
        match (operator, boolean(&left)) {
            (BinaryOperator::And, Some(false)) | (BinaryOperator::Or, Some(true)) => return left,
            (BinaryOperator::Concat, _) => left = concat(left?, eval(right, scope)?, scope),
            _ => left = binary(*operator, &left, &eval(right, scope)),
        }
    }
    left
}

/// Appends to what is there, so that a long chain of `||` copies nothing twice.
fn concat<'a>(left: Cow<'a, Value>, right: Cow<'a, Value>, scope: &Scope<'a>) -> Evaluated<'a> {
    let right = right.as_str()?;
    if let Cow::Borrowed(text) = left {
        scope.reserve(text.as_str()?.len())?;
    }
    scope.reserve(right.len())?;
    let Value::String(mut text) = left.into_owned() else { return None };
    text.push_str(right);
    owned(Value::String(text))
}

fn binary<'a>(
    operator: BinaryOperator,
    left: &Evaluated<'_>,
    right: &Evaluated<'_>,
) -> Evaluated<'a> {
    use BinaryOperator as Op;
    match operator {
        Op::And => truth(and(boolean(left), boolean(right))),
        Op::Or => truth(or(boolean(left), boolean(right))),
        Op::Equal => truth(Some(compare::equal(left.as_deref()?, right.as_deref()?))),
        Op::NotEqual => truth(Some(!compare::equal(left.as_deref()?, right.as_deref()?))),
        Op::Less => truth(compared(left, right, Ordering::is_lt)),
        Op::LessOrEqual => truth(compared(left, right, Ordering::is_le)),
        Op::Greater => truth(compared(left, right, Ordering::is_gt)),
        Op::GreaterOrEqual => truth(compared(left, right, Ordering::is_ge)),
        _ => owned(arithmetic::binary(operator, left.as_deref()?, right.as_deref()?)?),
    }
}

fn compared(
    left: &Evaluated<'_>,
    right: &Evaluated<'_>,
    holds: fn(Ordering) -> bool,
) -> Option<bool> {
    match compare::order(left.as_deref()?, right.as_deref()?) {
        Order::Is(ordering) => Some(holds(ordering)),
        Order::Unordered => Some(false),
        Order::Undefined => None,
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
