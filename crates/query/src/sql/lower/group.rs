//! GROUP BY and aggregates.
//!
//! What is selected of a group was lowered as if it were of a row. Here every place where it says
//! the same as a key becomes that key's slot, every aggregate a slot of its own, and whatever still
//! looks at a row is refused: a group has many.

use std::ops::Range;

use super::Lowering;
use crate::aggregate::Aggregate;
use crate::ir::{Expr, Grouping, OrderColumn, Projection, Step};
use crate::sql::error::{SqlError, SqlResult};

/// What belongs to the rows of the query itself, not to a query around it.
pub(super) struct Own {
    pub(super) item: bool,
    pub(super) slots: Range<usize>,
}

impl Lowering<'_> {
    pub(super) fn group(
        &mut self,
        own: Own,
        keys: Vec<Expr>,
        projection: &mut Projection,
        order_by: &mut Vec<OrderColumn>,
    ) -> SqlResult<Option<Grouping>> {
        let mut regrouping =
            Regrouping { own, first_slot: self.next_slot, keys, aggregates: Vec::new() };
        let exprs = || match &*projection {
            Projection::Value(expr) => std::slice::from_ref(expr).iter().collect::<Vec<_>>(),
            Projection::Members(members) => members.iter().map(|(_, expr)| expr).collect(),
        };
        let has_aggregate =
            exprs().into_iter().any(|expr| expr.any(&|expr| matches!(expr, Expr::Aggregate(..))));
        if regrouping.keys.is_empty() && !has_aggregate {
            return Ok(None);
        }
        match projection {
            Projection::Value(expr) => regrouping.expr(expr)?,
            Projection::Members(members) => {
                members.iter_mut().try_for_each(|(_, expr)| regrouping.expr(expr))?;
            }
        }
        match regrouping.keys.is_empty() {
            // There is one row: it has no order, whatever is written.
            true => order_by.clear(),
            false => {
                order_by.iter_mut().try_for_each(|column| regrouping.expr(&mut column.expr))?;
            }
        }
        let Regrouping { first_slot, keys, aggregates, .. } = regrouping;
        self.take_slots(keys.len() + aggregates.len());
        Ok(Some(Grouping { first_slot, keys, aggregates }))
    }
}

struct Regrouping {
    own: Own,
    first_slot: usize,
    keys: Vec<Expr>,
    aggregates: Vec<(Aggregate, Expr)>,
}

impl Regrouping {
    fn expr(&mut self, expr: &mut Expr) -> SqlResult<()> {
        if let Some(of_group) = self.of_keys(expr) {
            *expr = of_group;
            return Ok(());
        }
        match expr {
            Expr::Aggregate(aggregate, operand) => {
                let operand = std::mem::replace(&mut **operand, Expr::Undefined);
                if operand.any(&|expr| matches!(expr, Expr::Aggregate(..))) {
                    return Err(nested());
                }
                *expr = self.aggregate((*aggregate, operand));
                Ok(())
            }
            Expr::Item if self.own.item => Err(not_grouped()),
            Expr::Slot(slot) if self.own.slots.contains(slot) => Err(not_grouped()),
            other => other.try_for_each_child_mut(&mut |child| self.expr(child)),
        }
    }

    /// The expression in terms of a key, if it is one or a path behind one.
    fn of_keys(&self, expr: &Expr) -> Option<Expr> {
        let whole = self.keys.iter().position(|key| key == expr);
        if let Some(at) = whole {
            return Some(Expr::Slot(self.first_slot + at));
        }
        let Expr::Path { base, steps } = expr else { return None };
        let rest_behind = |key: &Expr| -> Option<Vec<Step>> {
            let (key_base, key_steps): (&Expr, &[Step]) = match key {
                Expr::Path { base, steps } => (base, steps),
                other => (other, &[]),
            };
            let rest = steps.strip_prefix(key_steps)?;
            (*key_base == **base).then(|| rest.to_vec())
        };
        let mut numbered = self.keys.iter().enumerate();
        numbered.find_map(|(at, key)| {
            Some(Expr::path(Expr::Slot(self.first_slot + at), rest_behind(key)?))
        })
    }

    /// The slot of an aggregate; the same one twice is computed once.
    fn aggregate(&mut self, aggregate: (Aggregate, Expr)) -> Expr {
        let known = self.aggregates.iter().position(|known| *known == aggregate);
        let at = known.unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        });
        Expr::Slot(self.first_slot + self.keys.len() + at)
    }
}

fn nested() -> SqlError {
    SqlError::Plain(
        "Cannot perform an aggregate function on an expression containing an aggregate or a \
         subquery."
            .to_owned(),
    )
}

fn not_grouped() -> SqlError {
    SqlError::Plain(
        "A property is selected or ordered by that is not contained in either an aggregate \
         function or the GROUP BY clause."
            .to_owned(),
    )
}
