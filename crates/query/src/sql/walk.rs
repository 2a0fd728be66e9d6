//! Looking into expressions without caring what each kind of them is.

use super::ast::{Expr, PathStep};

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
