//! What the members of a result and the sources of a query are called when the query does not say.

use super::ast::{Collection, Expr, PathStep, SelectItem, Source, SourceKind};
use partita_model::Value;

/// The names of a select list: the alias, else the last step of a path, else `$1`, `$2` and so on,
/// where only the nameless are counted.
pub(crate) fn select_names(items: &[SelectItem]) -> Vec<String> {
    let mut nameless = 0;
    let mut name = |item: &SelectItem| match item.alias.as_deref().or(own_name(&item.expr)) {
        Some(name) => name.to_owned(),
        None => {
            nameless += 1;
            format!("${nameless}")
        }
    };
    items.iter().map(&mut name).collect()
}

fn own_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name { name, .. } => Some(name),
        Expr::Path { steps, .. } => steps.last().and_then(step_name),
        _ => None,
    }
}

/// The member a step leads to, if it is written down: `.name` or `["name"]`.
pub(crate) fn step_name(step: &PathStep) -> Option<&str> {
    match step {
        PathStep::Member(name) => Some(name),
        PathStep::Index { index: Expr::Literal(Value::String(name)), .. } => Some(name),
        PathStep::Index { .. } => None,
    }
}

impl Source {
    /// The name a source is known by: its alias, or else the last step of its path. A subquery, a
    /// call and an element without alias have none.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.kind {
            SourceKind::Iterate { name, .. } => Some(name),
            SourceKind::Whole { alias: Some(alias), .. } => Some(alias),
            SourceKind::Whole { collection: Collection::Path { root, steps, .. }, alias: None } => {
                steps.last().map_or(Some(root), step_name)
            }
            SourceKind::Whole { .. } => None,
        }
    }
}
