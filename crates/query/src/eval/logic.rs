//! Three-valued logic, and the predicates made of comparisons: `IN` and `BETWEEN`.

use std::cmp::Ordering;

use partita_model::Result;

use super::{Evaluated, Frame, eval, truth};
use crate::cell::Cell;
use crate::compare::{self, Order};
use crate::ir::Expr;

/// `IN` and `BETWEEN`.
pub(super) fn predicate<'a>(expr: &'a Expr, frame: &mut Frame<'a>) -> Evaluated<'a> {
    Ok(truth(match expr {
        Expr::In { operand, list } => match eval(operand, frame)? {
            Some(operand) => Some(is_in(&operand, list, frame)?),
            None => None,
        },
        Expr::InConstants { operand, set } => {
            eval(operand, frame)?.map(|operand| set.contains(&operand))
        }
        Expr::Between { operand, low, high } => {
            let operand = eval(operand, frame)?;
            let low = eval(low, frame)?;
            let above = compared(operand.as_ref(), low.as_ref(), Ordering::is_ge);
            let high = eval(high, frame)?;
            and(above, compared(operand.as_ref(), high.as_ref(), Ordering::is_le))
        }
        _ => None,
    }))
}

fn is_in<'a>(operand: &Cell<'a>, list: &'a [Expr], frame: &mut Frame<'a>) -> Result<bool> {
    for choice in list {
        if eval(choice, frame)?.is_some_and(|choice| compare::equal(operand, &choice)) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn compared(
    left: Option<&Cell<'_>>,
    right: Option<&Cell<'_>>,
    holds: fn(Ordering) -> bool,
) -> Option<bool> {
    match compare::order(left?, right?) {
        Order::Is(ordering) => Some(holds(ordering)),
        Order::Unordered => Some(false),
        Order::Undefined => None,
    }
}

pub(super) fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

pub(super) fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
