//! Predicates that no interval describes, asked of every value the index has at a path.
//!
//! `LOWER(c.name) = "bob"` or `c.n % 2 = 0` look at one value of the item. The index has all values
//! of a path, each once and far smaller than the items, so the predicate is evaluated on them. That
//! works for predicates over one place whose outcome is undefined unless a scalar is there: what
//! has no term could not be found.

use partita_model::{IndexStep, Number, Result, Scalar};

use super::place::{Slots, is_single};
use super::values::is_exact;
use super::{Access, Test};
use crate::cell::Cell;
use crate::function::Function;
use crate::ir::{BinaryOperator, Expr, UnaryOperator};
use crate::query::Run;

/// A predicate over one scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueTest {
    /// The value under test is [`Expr::Slot`] 0.
    expr: Expr,
    wanted: bool,
}

impl ValueTest {
    /// Does the value pass? None: only the item can tell, for the index has the value as a double,
    /// and several integers may be that double.
    pub fn passes(&self, run: &mut Run<'_>, value: Scalar<'_>) -> Result<Option<bool>> {
        if matches!(value, Scalar::Number(double) if !is_exact(Number::Double(double))) {
            return Ok(None);
        }
        let found = run.truth_of(&self.expr, Cell::from_scalar(value))?;
        Ok(Some(found == Some(self.wanted)))
    }
}

/// The items for which the expression has the wanted truth value, found value by value.
pub(super) fn test(slots: &Slots, expr: &Expr, wanted: bool) -> Access {
    let mut only = Only { slots, place: None, possible: true };
    only.look(expr);
    let Only { place: Some(place), possible: true, .. } = only else { return Access::Unknown };
    let mut expr = expr.clone();
    if !needs_scalar(&expr, slots) || replace(&mut expr, slots).is_err() {
        return Access::Unknown;
    }
    let exact = is_single(&place);
    Access::condition(place, Test::Each(ValueTest { expr, wanted }), exact)
}

/// Looks for the only place of an expression.
struct Only<'s> {
    slots: &'s Slots,
    place: Option<Vec<IndexStep>>,
    possible: bool,
}

impl Only<'_> {
    fn look(&mut self, expr: &Expr) {
        if let Some(place) = self.slots.place(expr) {
            let known = self.place.get_or_insert_with(|| place.clone());
            // Two looks through an array may see two elements.
            self.possible &= !place.is_empty() && *known == place;
            return;
        }
        self.possible &= match expr {
            Expr::Item | Expr::Slot(_) | Expr::Subquery { .. } | Expr::Udf { .. } => false,
            Expr::Let { .. } | Expr::Aggregate(..) => false,
            Expr::Call { function, .. } => {
                function.is_deterministic() && function.refusal().is_none()
            }
            _ => true,
        };
        if self.possible {
            expr.for_each_child(&mut |child| self.look(child));
        }
    }
}

/// Puts slot 0 for the place.
fn replace(expr: &mut Expr, slots: &Slots) -> std::result::Result<(), ()> {
    if slots.place(expr).is_some() {
        *expr = Expr::Slot(0);
        return Ok(());
    }
    expr.try_for_each_child_mut(&mut |child| replace(child, slots))
}

/// Is the expression undefined whenever there is no scalar at its place?
fn needs_scalar(expr: &Expr, slots: &Slots) -> bool {
    let is_place = |expr: &Expr| slots.place(expr).is_some();
    let direct = |expr: &Expr| is_place(expr) || needs_scalar(expr, slots);
    match expr {
        Expr::Like { operand, .. } => direct(operand),
        Expr::Unary { operator: UnaryOperator::Not, operand } => needs_scalar(operand, slots),
        Expr::Unary { operand, .. } => direct(operand),
        Expr::Between { operand, .. } => direct(operand),
        Expr::In { operand, .. } | Expr::InConstants { operand, .. } => {
            needs_scalar(operand, slots)
        }
        Expr::Chain { first, rest } => {
            let strict = |operator: &BinaryOperator, operand: &Expr| match operator {
                BinaryOperator::And | BinaryOperator::Or => false,
                // Arrays and objects can be compared for equality.
                BinaryOperator::Equal | BinaryOperator::NotEqual => needs_scalar(operand, slots),
                _ => direct(operand),
            };
            let operators = rest.iter().map(|(operator, _)| operator);
            let operands = std::iter::once(&**first).chain(rest.iter().map(|(_, e)| e));
            rest.first().is_some_and(|(operator, _)| {
                operators.clone().all(|o| !matches!(o, BinaryOperator::And | BinaryOperator::Or))
                    && operands.clone().any(|operand| strict(operator, operand))
                    && (rest.len() == 1 || operators.clone().all(|other| is_arithmetic(*other)))
            })
        }
        Expr::Call { function, arguments } => {
            takes_scalars(*function) && arguments.iter().any(direct)
        }
        _ => false,
    }
}

fn is_arithmetic(operator: BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(
        operator,
        Op::Add
            | Op::Subtract
            | Op::Multiply
            | Op::Divide
            | Op::Remainder
            | Op::Concat
            | Op::BitAnd
            | Op::BitOr
            | Op::BitXor
            | Op::ShiftLeft
            | Op::ShiftRight
            | Op::ShiftRightUnsigned
    )
}

/// Is a call undefined as soon as one of the arguments is undefined, an array or an object?
fn takes_scalars(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Contains
            | F::StartsWith
            | F::EndsWith
            | F::StringEquals
            | F::RegexMatch
            | F::Concat
            | F::IndexOf
            | F::Left
            | F::Right
            | F::Length
            | F::Lower
            | F::Upper
            | F::LeftTrim
            | F::RightTrim
            | F::Trim
            | F::Replace
            | F::Replicate
            | F::Reverse
            | F::Substring
            | F::Abs
            | F::Ceiling
            | F::Floor
            | F::Round
            | F::Trunc
            | F::Sign
            | F::Sqrt
            | F::Square
            | F::Power
    )
}
