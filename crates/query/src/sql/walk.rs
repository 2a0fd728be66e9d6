//! Looking into queries and expressions without caring what each kind of them is.

use super::ast::{
    Collection, Condition, Expr, From, OrderBy, PathStep, Query, Selection, SourceKind,
};

impl Expr {
    /// Calls `visit` for every expression directly inside this one. The query of a subquery is not
    /// entered: it has names and aggregates of its own.
    pub(crate) fn for_each_part<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Undefined
            | Expr::Literal(_)
            | Expr::Name { .. }
            | Expr::Parameter { .. }
            | Expr::Subquery { .. } => {}
            Expr::Path { base, steps, .. } => {
                visit(base);
                for step in steps {
                    if let PathStep::Index { index, .. } = step {
                        visit(index);
                    }
                }
            }
            Expr::Array(list) | Expr::Coalesce(list) => list.iter().for_each(visit),
            Expr::Object(members) => members.iter().for_each(|(_, value)| visit(value)),
            Expr::Unary { operand, .. } => visit(operand),
            Expr::Chain { first, rest } => {
                visit(first);
                rest.iter().for_each(|(_, operand)| visit(operand));
            }
            Expr::In { operand, list, .. } => {
                visit(operand);
                list.iter().for_each(visit);
            }
            Expr::Between { operand: a, low: b, high: c, .. }
            | Expr::Conditional { condition: a, then: b, otherwise: c } => {
                visit(a);
                visit(b);
                visit(c);
            }
            Expr::Like { operand, pattern, .. } => {
                visit(operand);
                visit(pattern);
            }
            Expr::Call { arguments, .. } | Expr::Udf { arguments, .. } => {
                arguments.iter().for_each(visit);
            }
            Expr::Let { value, body, .. } => {
                visit(value);
                visit(body);
            }
        }
    }

    /// Is `test` true of this expression or of one inside it, subqueries aside?
    pub(crate) fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(test));
        found
    }
}

impl Expr {
    /// The levels of the tree, subqueries included.
    pub(crate) fn depth(&self) -> usize {
        let mut deepest = match self {
            Expr::Subquery { query, .. } => query.depth(),
            _ => 0,
        };
        self.for_each_part(&mut |part| deepest = deepest.max(part.depth()));
        deepest + 1
    }

    /// The levels at the left end of the tree, counted without going into the rest of it.
    pub(crate) fn left_depth(&self) -> usize {
        let (mut levels, mut next) = (0, Some(self));
        while let Some(expr) = next {
            levels += 1;
            next = match expr {
                Expr::Path { base: left, .. }
                | Expr::Chain { first: left, .. }
                | Expr::In { operand: left, .. }
                | Expr::Between { operand: left, .. }
                | Expr::Like { operand: left, .. }
                | Expr::Conditional { condition: left, .. } => Some(left),
                Expr::Coalesce(choices) => choices.first(),
                _ => None,
            };
        }
        levels
    }
}

impl Query {
    /// Calls `visit` for every expression directly inside the clauses behind FROM, and SELECT.
    fn for_each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.select.selection {
            Selection::Everything(_) => {}
            Selection::Value(expr) => visit(expr),
            Selection::List(items) => items.iter().for_each(|item| visit(&item.expr)),
        }
        self.condition.iter().for_each(&mut *visit);
        self.group_by.iter().for_each(&mut *visit);
        match &self.order_by {
            Some(OrderBy::Items(items)) => items.iter().for_each(|item| visit(&item.expr)),
            Some(OrderBy::Rank { functions, .. }) => functions.iter().for_each(visit),
            None => {}
        }
    }

    pub(crate) fn depth(&self) -> usize {
        let mut deepest = self.from.as_ref().map_or(0, From::depth);
        self.for_each_expr(&mut |expr| deepest = deepest.max(expr.depth()));
        deepest + 1
    }
}

impl Condition {
    pub(crate) fn depth(&self) -> usize {
        self.from.depth().max(self.condition.as_ref().map_or(0, Expr::depth))
    }
}

impl From {
    fn depth(&self) -> usize {
        let sources = std::iter::once(&self.first).chain(&self.joins);
        let depths = sources.map(|source| {
            let (SourceKind::Iterate { collection, .. } | SourceKind::Whole { collection, .. }) =
                &source.kind;
            match collection {
                Collection::Path { .. } => 0,
                Collection::Subquery(query) => query.depth(),
                Collection::Call(call) => call.depth(),
            }
        });
        depths.max().unwrap_or_default()
    }
}
