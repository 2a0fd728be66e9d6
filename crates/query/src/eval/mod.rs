//! An expression and a row in, a value out; `None` is the language's `undefined`.
//!
//! Whatever does not fit is undefined, and undefined spreads, except where logic, `??`, `?:` and
//! the `IS_…` functions stop it. Values of the row are borrowed, not copied; only what an operator
//! makes is new. Undefined never enters an array or object: its element or member is left out.
//!
//! An evaluation fails only when it does or builds more than its [`Scope`] allows, when a scalar
//! subquery has several rows, or when a user-defined function cannot be called.

mod arithmetic;
mod logic;
mod subquery;

pub(crate) use arithmetic::negate;

use std::borrow::Cow;

use partita_model::{Error, Number, Object, Result, Value};

use crate::cell::{self, Cell};
use crate::compare;
use crate::ir::{BinaryOperator, Expr, Step, UnaryOperator};
use crate::like::Pattern;
use crate::scope::Scope;

/// A value or undefined.
pub(crate) type Evaluated<'a> = Result<Option<Cell<'a>>>;

/// A row: the item, and what the sources so far have put into their slots.
pub(crate) struct Frame<'a> {
    pub(crate) item: Option<Cell<'a>>,
    slots: Vec<Option<Cell<'a>>>,
    pub(crate) scope: &'a Scope,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(item: Option<Cell<'a>>, scope: &'a Scope) -> Frame<'a> {
        Frame { item, slots: Vec::new(), scope }
    }

    pub(crate) fn slot(&self, slot: usize) -> Option<&Cell<'a>> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn bind(&mut self, slot: usize, value: Option<Cell<'a>>) {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }
}

/// Does the expression hold, in the sense of WHERE? Only the boolean true does.
pub(crate) fn is_true<'a>(expr: &'a Expr, frame: &mut Frame<'a>) -> Result<bool> {
    Ok(eval(expr, frame)?.is_some_and(|cell| cell.as_bool() == Some(true)))
}

pub(crate) fn eval<'a>(expr: &'a Expr, frame: &mut Frame<'a>) -> Evaluated<'a> {
    match expr {
        Expr::Undefined => Ok(None),
        Expr::Constant(value) => Ok(Some(Cell::from_ref(value))),
        Expr::Item => Ok(frame.item.clone()),
        Expr::Slot(slot) => Ok(frame.slot(*slot).cloned()),
        Expr::Path { base, steps } => path(base, steps, frame),
        Expr::Computed { meaning, .. } => eval(meaning, frame),
        other => {
            frame.scope.step()?;
            compute(other, frame)
        }
    }
}

/// The expressions that are not mere places.
fn compute<'a>(expr: &'a Expr, frame: &mut Frame<'a>) -> Evaluated<'a> {
    match expr {
        Expr::Chain { first, rest } => chain(first, rest, frame),
        Expr::Unary { operator, operand } => Ok(match eval(operand, frame)? {
            Some(operand) => unary(*operator, operand),
            None => None,
        }),
        Expr::Array(elements) => array(elements, frame),
        Expr::Object(members) => object(members, frame),
        Expr::In { .. } | Expr::InConstants { .. } | Expr::Between { .. } => {
            logic::predicate(expr, frame)
        }
        Expr::Like { operand, pattern, .. } => {
            let operand = eval(operand, frame)?;
            let text = operand.as_ref().and_then(Cell::as_str);
            Ok(truth(text.map(|text| pattern.matches(text))))
        }
        Expr::LikeComputed { operand, pattern, escape } => {
            let operand = eval(operand, frame)?;
            let pattern = eval(pattern, frame)?;
            let text = operand.as_ref().and_then(Cell::as_str);
            let pattern = pattern.as_ref().and_then(Cell::as_str);
            Ok(truth(text.zip(pattern).map(|(text, p)| Pattern::new(p, *escape).matches(text))))
        }
        Expr::Coalesce(choices) => coalesce(choices, frame),
        Expr::Conditional { condition, then, otherwise } => {
            let chosen = if is_true(condition, frame)? { then } else { otherwise };
            eval(chosen, frame)
        }
        Expr::Call { function, arguments } => {
            let arguments = list(arguments, frame)?;
            function.apply(arguments, frame.scope)
        }
        Expr::Udf { name, arguments } => udf(name, arguments, frame),
        Expr::Subquery { kind, query } => subquery::value(*kind, query, frame),
        Expr::Let { slot, value, body } => {
            let value = eval(value, frame)?;
            frame.bind(*slot, value);
            eval(body, frame)
        }
        // Places were dealt with before; an aggregate has become a slot when it was lowered.
        Expr::Undefined
        | Expr::Constant(_)
        | Expr::Item
        | Expr::Slot(_)
        | Expr::Path { .. }
        | Expr::Computed { .. }
        | Expr::Aggregate(..) => Ok(None),
    }
}

fn path<'a>(base: &'a Expr, steps: &[Step], frame: &mut Frame<'a>) -> Evaluated<'a> {
    Ok(match base {
        Expr::Item => frame.item.as_ref().and_then(|item| item.walk(steps)),
        Expr::Slot(slot) => frame.slot(*slot).and_then(|cell| cell.walk(steps)),
        computed => eval(computed, frame)?.and_then(|cell| cell.walk(steps)),
    })
}

pub(super) fn truth<'a>(value: Option<bool>) -> Option<Cell<'a>> {
    value.map(Cell::Bool)
}

fn list<'a>(exprs: &'a [Expr], frame: &mut Frame<'a>) -> Result<Vec<Option<Cell<'a>>>> {
    let mut cells = Vec::with_capacity(exprs.len());
    for expr in exprs {
        cells.push(eval(expr, frame)?);
    }
    Ok(cells)
}

fn array<'a>(elements: &'a [Expr], frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut array = Vec::with_capacity(elements.len());
    for element in elements {
        if let Some(cell) = eval(element, frame)? {
            frame.scope.reserve(cell.footprint())?;
            array.push(cell.into_value());
        }
    }
    Ok(Some(Cell::from_value(Value::Array(array))))
}

pub(crate) fn object<'a>(members: &'a [(String, Expr)], frame: &mut Frame<'a>) -> Evaluated<'a> {
    let mut object = Object::new();
    for (name, member) in members {
        if let Some(cell) = eval(member, frame)? {
            frame.scope.reserve(name.len() + cell.footprint())?;
            object.insert(name.as_str(), cell.into_value());
        }
    }
    Ok(Some(Cell::from_value(Value::Object(object))))
}

fn coalesce<'a>(choices: &'a [Expr], frame: &mut Frame<'a>) -> Evaluated<'a> {
    for choice in choices {
        if let Some(cell) = eval(choice, frame)? {
            return Ok(Some(cell));
        }
    }
    Ok(None)
}

fn unary(operator: UnaryOperator, operand: Cell<'_>) -> Option<Cell<'_>> {
    match operator {
        UnaryOperator::Not => truth(operand.as_bool().map(|value| !value)),
        UnaryOperator::Minus => operand.as_number().map(|number| Cell::Number(negate(number))),
        UnaryOperator::BitNot => operand.as_f64().map(arithmetic::bit_not).map(Cell::Number),
        UnaryOperator::Plus => operand.as_number().map(Cell::Number),
    }
}

fn chain<'a>(
    first: &'a Expr,
    rest: &'a [(BinaryOperator, Expr)],
    frame: &mut Frame<'a>,
) -> Evaluated<'a> {
    if arithmetic::is_arithmetic(rest) {
        return Ok(calculate(first, rest, frame)?.map(Cell::Number));
    }
    let mut left = eval(first, frame)?;
    for (operator, right) in rest {
        let decided = left.as_ref().and_then(Cell::as_bool);
        // Decided already: the rest of the chain is the same operator and cannot change it.
        match (operator, decided) {
            (BinaryOperator::And, Some(false)) | (BinaryOperator::Or, Some(true)) => {
                return Ok(left);
            }
            _ => {}
        }
        let right = eval(right, frame)?;
        left = match operator {
            BinaryOperator::Concat => concat(left, right, frame.scope)?,
            operator => binary(*operator, left.as_ref(), right.as_ref()),
        };
    }
    Ok(left)
}

/// A chain of arithmetic: numbers all the way, so no cells are made in between.
fn calculate<'a>(
    first: &'a Expr,
    rest: &'a [(BinaryOperator, Expr)],
    frame: &mut Frame<'a>,
) -> Result<Option<Number>> {
    let mut left = number(first, frame)?;
    for (operator, right) in rest {
        let right = number(right, frame)?;
        let both = left.zip(right);
        left = both.and_then(|(left, right)| arithmetic::binary(*operator, left, right));
    }
    Ok(left)
}

/// The value of an expression where only a number counts.
fn number<'a>(expr: &'a Expr, frame: &mut Frame<'a>) -> Result<Option<Number>> {
    match (expr, &frame.item) {
        (Expr::Constant(Value::Number(number)), _) => Ok(Some(*number)),
        (Expr::Path { base, steps }, Some(Cell::Text(item))) if **base == Expr::Item => {
            Ok(cell::walk_text(*item, steps).and_then(cell::number_of))
        }
        (Expr::Chain { first, rest }, _) if arithmetic::is_arithmetic(rest) => {
            frame.scope.step()?;
            calculate(first, rest, frame)
        }
        _ => Ok(eval(expr, frame)?.and_then(|cell| cell.as_number())),
    }
}

/// Appends to what is there, so that a long chain of `||` copies nothing twice.
fn concat<'a>(left: Option<Cell<'a>>, right: Option<Cell<'a>>, scope: &Scope) -> Evaluated<'a> {
    let (Some(Cell::String(left)), Some(Cell::String(right))) = (left, right) else {
        return Ok(None);
    };
    if let Cow::Borrowed(text) = left {
        scope.reserve(text.len())?;
    }
    scope.reserve(right.len())?;
    let mut text = left.into_owned();
    text.push_str(&right);
    Ok(Some(Cell::String(Cow::Owned(text))))
}

fn binary<'a>(
    operator: BinaryOperator,
    left: Option<&Cell<'_>>,
    right: Option<&Cell<'_>>,
) -> Option<Cell<'a>> {
    use BinaryOperator as Op;
    match operator {
        Op::And => truth(logic::and(boolean(left), boolean(right))),
        Op::Or => truth(logic::or(boolean(left), boolean(right))),
        Op::Equal => truth(Some(compare::equal(left?, right?))),
        Op::NotEqual => truth(Some(!compare::equal(left?, right?))),
        Op::Less => truth(logic::compared(left, right, std::cmp::Ordering::is_lt)),
        Op::LessOrEqual => truth(logic::compared(left, right, std::cmp::Ordering::is_le)),
        Op::Greater => truth(logic::compared(left, right, std::cmp::Ordering::is_gt)),
        Op::GreaterOrEqual => truth(logic::compared(left, right, std::cmp::Ordering::is_ge)),
        _ => {
            let (left, right) = (left?.as_number()?, right?.as_number()?);
            arithmetic::binary(operator, left, right).map(Cell::Number)
        }
    }
}

/// An operand of AND, OR, NOT: whatever is not a boolean counts as undefined.
fn boolean(cell: Option<&Cell<'_>>) -> Option<bool> {
    cell.and_then(Cell::as_bool)
}

fn udf<'a>(name: &str, arguments: &'a [Expr], frame: &mut Frame<'a>) -> Evaluated<'a> {
    let Some(functions) = frame.scope.functions.clone() else {
        return Err(Error::unsupported(format!(
            "the query calls udf.{name}: user-defined functions are not supported here"
        )));
    };
    let arguments = list(arguments, frame)?;
    let arguments: Vec<Option<Value>> =
        arguments.into_iter().map(|cell| cell.map(Cell::into_value)).collect();
    let called = functions.call(name, &arguments);
    let may_go_on = frame.scope.worked(functions.take_millis());
    let value = called?;
    may_go_on?;
    Ok(value.map(Cell::from_value))
}
