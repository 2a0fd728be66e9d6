//! What is constant is computed when the query is read, not for every row.

use partita_model::Value;

use crate::cell::Cell;
use crate::eval::{self, Frame};
use crate::ir::Expr;
use crate::scope::Scope;

/// The value of an expression that depends on nothing; any other expression as it is.
pub(super) fn fold(expr: Expr) -> Expr {
    match known_value(&expr) {
        Some(Some(value)) => Expr::Constant(value),
        Some(None) => Expr::Undefined,
        None => expr,
    }
}

/// Is the expression a constant already?
pub(super) fn is_known(expr: &Expr) -> bool {
    matches!(expr, Expr::Constant(_) | Expr::Undefined)
}

/// None: not known yet. Some(None): undefined.
fn known_value(expr: &Expr) -> Option<Option<Value>> {
    let depends = match expr {
        Expr::Constant(_)
        | Expr::Undefined
        | Expr::Item
        | Expr::Slot(_)
        | Expr::Udf { .. }
        | Expr::Subquery { .. }
        | Expr::Let { .. }
        | Expr::Aggregate(..) => true,
        Expr::Call { function, .. } => !function.is_deterministic(),
        _ => false,
    };
    let mut children_known = true;
    expr.for_each_child(&mut |child| children_known = children_known && is_known(child));
    if depends || !children_known {
        return None;
    }
    let scope = Scope::new(0, 0);
    // What fails now fails when the query runs, if it gets there at all.
    let value = eval::eval(expr, &mut Frame::new(None, &scope)).ok()?;
    Some(value.map(Cell::into_value))
}
