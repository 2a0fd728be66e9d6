//! Walking an expression without naming all its kinds.
//!
//! Passes over expressions care for a few kinds and want to go through the rest. The children of an
//! expression are the expressions that are evaluated with it in the same row; a subquery is reached
//! through its clauses.

use super::{Expr, Projection, Query, Source};

impl Expr {
    /// Calls `f` for every child, those inside subqueries included.
    pub(crate) fn for_each_child<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        match self {
            Expr::Undefined | Expr::Constant(_) | Expr::Item | Expr::Slot(_) => {}
            Expr::Path { base: child, .. }
            | Expr::Computed { meaning: child, .. }
            | Expr::Unary { operand: child, .. }
            | Expr::InConstants { operand: child, .. }
            | Expr::Like { operand: child, .. }
            | Expr::Aggregate(_, child) => f(child),
            Expr::Array(list)
            | Expr::Coalesce(list)
            | Expr::Call { arguments: list, .. }
            | Expr::Udf { arguments: list, .. } => list.iter().for_each(f),
            Expr::Object(members) => members.iter().for_each(|(_, member)| f(member)),
            Expr::Chain { first, rest } => {
                f(first);
                rest.iter().for_each(|(_, operand)| f(operand));
            }
            Expr::In { operand, list } => {
                f(operand);
                list.iter().for_each(f);
            }
            Expr::Between { operand: a, low: b, high: c }
            | Expr::Conditional { condition: a, then: b, otherwise: c } => {
                [a, b, c].into_iter().for_each(|child| f(child));
            }
            Expr::LikeComputed { operand: a, pattern: b, .. }
            | Expr::Let { value: a, body: b, .. } => [a, b].into_iter().for_each(|child| f(child)),
            Expr::Subquery { query, .. } => query.for_each_expr(f),
        }
    }

    /// [`for_each_child`](Expr::for_each_child), to change them; stops at the first error.
    pub(crate) fn try_for_each_child_mut<E>(
        &mut self,
        f: &mut dyn FnMut(&mut Expr) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Expr::Undefined | Expr::Constant(_) | Expr::Item | Expr::Slot(_) => Ok(()),
            Expr::Path { base: child, .. }
            | Expr::Computed { meaning: child, .. }
            | Expr::Unary { operand: child, .. }
            | Expr::InConstants { operand: child, .. }
            | Expr::Like { operand: child, .. }
            | Expr::Aggregate(_, child) => f(child),
            Expr::Array(list)
            | Expr::Coalesce(list)
            | Expr::Call { arguments: list, .. }
            | Expr::Udf { arguments: list, .. } => list.iter_mut().try_for_each(f),
            Expr::Object(members) => members.iter_mut().try_for_each(|(_, member)| f(member)),
            Expr::Chain { first, rest } => {
                f(first)?;
                rest.iter_mut().try_for_each(|(_, operand)| f(operand))
            }
            Expr::In { operand, list } => {
                f(operand)?;
                list.iter_mut().try_for_each(f)
            }
            Expr::Between { operand: a, low: b, high: c }
            | Expr::Conditional { condition: a, then: b, otherwise: c } => {
                [a, b, c].into_iter().try_for_each(|child| f(child))
            }
            Expr::LikeComputed { operand: a, pattern: b, .. }
            | Expr::Let { value: a, body: b, .. } => {
                [a, b].into_iter().try_for_each(|child| f(child))
            }
            Expr::Subquery { query, .. } => query.try_for_each_expr_mut(f),
        }
    }

    /// Does `test` hold for the expression or for anything inside it?
    pub(crate) fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_child(&mut |child| found = found || child.any(test));
        found
    }
}

impl Query {
    /// Calls `f` for the expressions of all clauses, those of subqueries in FROM included. A
    /// source that is nothing but the item is none: it makes the item known and looks at nothing.
    pub(crate) fn for_each_expr<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        for source in &self.sources {
            match source {
                Source::Value(Expr::Item) => {}
                Source::Value(expr) | Source::Elements(expr) => f(expr),
                Source::Subquery(query) | Source::SubqueryElements(query) => {
                    query.for_each_expr(f);
                }
            }
        }
        self.filter.iter().for_each(&mut *f);
        if let Some(grouping) = &self.grouping {
            grouping.keys.iter().for_each(&mut *f);
            grouping.aggregates.iter().for_each(|(_, operand)| f(operand));
        }
        match &self.projection {
            Projection::Value(expr) => f(expr),
            Projection::Members(members) => members.iter().for_each(|(_, member)| f(member)),
        }
        self.order_by.iter().for_each(|column| f(&column.expr));
    }

    fn try_for_each_expr_mut<E>(
        &mut self,
        f: &mut dyn FnMut(&mut Expr) -> Result<(), E>,
    ) -> Result<(), E> {
        for source in &mut self.sources {
            match source {
                Source::Value(expr) | Source::Elements(expr) => f(expr)?,
                Source::Subquery(query) | Source::SubqueryElements(query) => {
                    query.try_for_each_expr_mut(f)?;
                }
            }
        }
        self.filter.iter_mut().try_for_each(&mut *f)?;
        if let Some(grouping) = &mut self.grouping {
            grouping.keys.iter_mut().try_for_each(&mut *f)?;
            grouping.aggregates.iter_mut().try_for_each(|(_, operand)| f(operand))?;
        }
        match &mut self.projection {
            Projection::Value(expr) => f(expr)?,
            Projection::Members(members) => {
                members.iter_mut().try_for_each(|(_, member)| f(member))?;
            }
        }
        self.order_by.iter_mut().try_for_each(|column| f(&mut column.expr))
    }
}
