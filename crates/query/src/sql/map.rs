//! Changing parts of expressions.

use super::ast::{Expr, PathStep};

/// The expression with every part replaced by what `change` makes of it, inner parts first.
pub(crate) fn map(expr: Expr, change: &mut dyn FnMut(Expr) -> Expr) -> Expr {
    let expr = match expr {
        plain @ (Expr::Undefined
        | Expr::Literal(_)
        | Expr::Name { .. }
        | Expr::Parameter { .. }
        | Expr::Subquery { .. }) => plain,
        Expr::Path { base, steps, span } => {
            let steps = steps.into_iter().map(|step| match step {
                PathStep::Member(name) => PathStep::Member(name),
                PathStep::Index { index, span } => {
                    PathStep::Index { index: map(index, change), span }
                }
            });
            let steps = steps.collect();
            Expr::Path { base: boxed(*base, change), steps, span }
        }
        Expr::Array(exprs) => Expr::Array(all(exprs, change)),
        Expr::Coalesce(exprs) => Expr::Coalesce(all(exprs, change)),
        Expr::Call { name, name_span, span, arguments } => {
            Expr::Call { name, name_span, span, arguments: all(arguments, change) }
        }
        Expr::Udf { name, span, arguments } => {
            Expr::Udf { name, span, arguments: all(arguments, change) }
        }
        Expr::Object(members) => {
            let members = members.into_iter().map(|(name, expr)| (name, map(expr, change)));
            Expr::Object(members.collect())
        }
        Expr::Unary { operator, operand } => {
            Expr::Unary { operator, operand: boxed(*operand, change) }
        }
        Expr::Chain { first, rest } => {
            let first = boxed(*first, change);
            let rest = rest.into_iter().map(|(operator, expr)| (operator, map(expr, change)));
            Expr::Chain { first, rest: rest.collect() }
        }
        Expr::In { negated, operand, list } => {
            Expr::In { negated, operand: boxed(*operand, change), list: all(list, change) }
        }
        Expr::Between { negated, operand, low, high } => {
            let (operand, low) = (boxed(*operand, change), boxed(*low, change));
            Expr::Between { negated, operand, low, high: boxed(*high, change) }
        }
        Expr::Like { negated, operand, pattern, escape } => {
            let operand = boxed(*operand, change);
            Expr::Like { negated, operand, pattern: boxed(*pattern, change), escape }
        }
        Expr::Conditional { condition, then, otherwise } => {
            let (condition, then) = (boxed(*condition, change), boxed(*then, change));
            Expr::Conditional { condition, then, otherwise: boxed(*otherwise, change) }
        }
        Expr::Let { name, value, body } => {
            let value = boxed(*value, change);
            Expr::Let { name, value, body: boxed(*body, change) }
        }
    };
    change(expr)
}

fn boxed(expr: Expr, change: &mut dyn FnMut(Expr) -> Expr) -> Box<Expr> {
    Box::new(map(expr, change))
}

fn all(exprs: Vec<Expr>, change: &mut dyn FnMut(Expr) -> Expr) -> Vec<Expr> {
    exprs.into_iter().map(|expr| map(expr, change)).collect()
}
