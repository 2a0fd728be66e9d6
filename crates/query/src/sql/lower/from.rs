//! FROM: which values a row is made of, and what they are called.

use super::{Lowering, Sight, Sources};
use crate::ir::{Expr, Source, Step};
use crate::sql::ast::SourceKind;
use crate::sql::ast::{Collection, Expr as Written, From, PathStep, Source as WrittenSource};
use crate::sql::error::{SqlError, SqlResult};

impl Lowering<'_> {
    /// Makes the names of the clause known.
    pub(super) fn from(&mut self, from: Option<&From>, sight: Sight) -> SqlResult<Sources> {
        let Some(from) = from else {
            return Ok(Sources { first_slot: self.next_slot, sources: Vec::new(), star: None });
        };
        let first_slot = self.take_slots(1 + from.joins.len());
        let mut sources = Vec::with_capacity(1 + from.joins.len());
        sources.push(self.source(&from.first, first_slot, sight)?);
        for (slot, join) in (first_slot + 1..).zip(&from.joins) {
            sources.push(self.source(join, slot, Sight::Aliases)?);
        }
        let star = match sources.as_slice() {
            [Source::Value(expr)] if expr.item_path().is_some() => Some(expr.clone()),
            [_] => Some(Expr::Slot(first_slot)),
            _ => None,
        };
        Ok(Sources { first_slot, sources, star })
    }

    fn source(&mut self, written: &WrittenSource, slot: usize, sight: Sight) -> SqlResult<Source> {
        let (source, name) = match &written.kind {
            SourceKind::Iterate { name, collection } => {
                let source = match collection {
                    Collection::Path { .. } | Collection::Call(_) => {
                        Source::Elements(self.collection(collection, sight)?)
                    }
                    Collection::Subquery(query) => {
                        Source::SubqueryElements(Box::new(self.query(query, sight)?))
                    }
                };
                (source, Some(name.clone()))
            }
            SourceKind::Whole { collection, alias } => {
                let source = match collection {
                    Collection::Path { .. } | Collection::Call(_) => {
                        Source::Value(self.collection(collection, sight)?)
                    }
                    Collection::Subquery(query) => {
                        Source::Subquery(Box::new(self.query(query, sight)?))
                    }
                };
                (source, alias.clone().or_else(|| name_of(collection)))
            }
        };
        if let Some(name) = name {
            let value = match &source {
                Source::Value(expr) if expr.item_path().is_some() => expr.clone(),
                _ => Expr::Slot(slot),
            };
            self.names.push((name, value));
        }
        Ok(source)
    }

    fn collection(&mut self, collection: &Collection, sight: Sight) -> SqlResult<Expr> {
        match collection {
            Collection::Path { root, root_span, steps } => {
                let base = match sight {
                    Sight::Container => Expr::Item,
                    Sight::Aliases => {
                        let known = self.alias(root);
                        known.ok_or_else(|| SqlError::unresolved(root, *root_span))?
                    }
                };
                let steps: Vec<Step> =
                    steps.iter().map(|step| self.step(step)).collect::<SqlResult<_>>()?;
                self.path(base, steps)
            }
            Collection::Call(call) => self.expr(call),
            // Both callers have dealt with subqueries.
            Collection::Subquery(_) => Ok(Expr::Undefined),
        }
    }

    /// What a name in scope stands for.
    pub(super) fn alias(&self, name: &str) -> Option<Expr> {
        let known = self.names.iter().rev().find(|(known, _)| known == name);
        known.map(|(_, value)| value.clone())
    }
}

/// What a source is called that has no alias: by the last step of its path.
fn name_of(collection: &Collection) -> Option<String> {
    let Collection::Path { root, steps, .. } = collection else { return None };
    match steps.last() {
        None => Some(root.clone()),
        Some(step) => member_name(step),
    }
}

/// The name of the member that a step leads to, if it leads to one.
pub(super) fn member_name(step: &PathStep) -> Option<String> {
    match step {
        PathStep::Member(name) => Some(name.clone()),
        PathStep::Index { index: Written::Literal(value), .. } => value.as_str().map(str::to_owned),
        PathStep::Index { .. } => None,
    }
}
