//! When two written expressions are the same expression.
//!
//! `c.a` and `c["a"]` are, wherever they stand in the text. Each expression has an *identity*, a
//! text that two expressions share exactly if they are the same; so a clause with thousands of
//! expressions can be searched by hash instead of by comparing pairs.

use super::ast::{Expr, PathStep};
use super::naming::step_name;
use std::fmt::Write;

impl Expr {
    /// `None` for an expression with a subquery in it, which is never taken for another one.
    pub(crate) fn identity(&self) -> Option<String> {
        let mut text = String::new();
        write(&mut text, self)?;
        Some(text)
    }
}

/// The identity of the path that starts at this name.
pub(crate) fn of_path(root: &str, steps: &[PathStep]) -> Option<String> {
    let mut text = String::new();
    tagged(&mut text, "name", &root);
    for step in steps {
        write_step(&mut text, step)?;
    }
    Some(text)
}

fn write(text: &mut String, expr: &Expr) -> Option<()> {
    match expr {
        Expr::Undefined => text.push_str("undefined;"),
        Expr::Literal(value) => tagged(text, "literal", value),
        Expr::Name { name, .. } => tagged(text, "name", name),
        Expr::Parameter { name, .. } => tagged(text, "parameter", name),
        Expr::Path { base, steps, .. } => {
            write(text, base)?;
            for step in steps {
                write_step(text, step)?;
            }
        }
        Expr::Object(members) => {
            let names: Vec<&String> = members.iter().map(|(name, _)| name).collect();
            tagged(text, "object", &names);
        }
        Expr::Unary { operator, .. } => tagged(text, "unary", operator),
        Expr::Chain { rest, .. } => {
            let operators: Vec<_> = rest.iter().map(|(operator, _)| operator).collect();
            tagged(text, "chain", &operators);
        }
        Expr::In { negated, .. } => tagged(text, "in", negated),
        Expr::Between { negated, .. } => tagged(text, "between", negated),
        Expr::Like { negated, escape, .. } => tagged(text, "like", &(negated, escape)),
        Expr::Array(_) => text.push_str("array;"),
        Expr::Coalesce(_) => text.push_str("coalesce;"),
        Expr::Conditional { .. } => text.push_str("conditional;"),
        Expr::Call { name, .. } => tagged(text, "call", &name.to_ascii_uppercase()),
        Expr::Udf { name, .. } => tagged(text, "udf", name),
        Expr::Let { name, .. } => tagged(text, "let", name),
        Expr::Subquery { .. } => return None,
    }
    match expr {
        Expr::Path { .. } | Expr::Name { .. } => Some(()),
        _ => write_parts(text, expr),
    }
}

fn write_parts(text: &mut String, expr: &Expr) -> Option<()> {
    let mut complete = Some(());
    text.push('(');
    expr.for_each_part(&mut |part| {
        if complete.is_some() {
            complete = write(text, part);
        }
    });
    text.push(')');
    complete
}

fn write_step(text: &mut String, step: &PathStep) -> Option<()> {
    match (step_name(step), step) {
        (Some(name), _) => tagged(text, "step", &name),
        (None, PathStep::Index { index, .. }) => {
            text.push_str("index(");
            write(text, index)?;
            text.push(')');
        }
        (None, PathStep::Member(name)) => tagged(text, "step", name),
    }
    Some(())
}

/// The debug form quotes strings, so no name can be mistaken for what surrounds it.
fn tagged(text: &mut String, tag: &str, value: &dyn std::fmt::Debug) {
    // Writing to a string does not fail.
    let _ = write!(text, "{tag}:{value:?};");
}
