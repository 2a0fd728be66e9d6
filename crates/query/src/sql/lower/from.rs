//! FROM: which values a row is made of, and what they are called.

use super::{Lowering, Sight, Sources};
use crate::ir::{Expr, Source, Step};
use crate::sql::ast::{Collection, From, Source as WrittenSource, SourceKind};
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
        let source = match &written.kind {
            SourceKind::Iterate { collection: Collection::Subquery(query), .. } => {
                Source::SubqueryElements(Box::new(self.query(query, sight)?))
            }
            SourceKind::Iterate { collection, .. } => {
                Source::Elements(self.collection(collection, sight)?)
            }
            SourceKind::Whole { collection: Collection::Subquery(query), .. } => {
                Source::Subquery(Box::new(self.query(query, sight)?))
            }
            SourceKind::Whole { collection, .. } => {
                Source::Value(self.collection(collection, sight)?)
            }
        };
        if let Some(name) = written.name() {
            let value = match &source {
                Source::Value(expr) if expr.item_path().is_some() => expr.clone(),
                _ => Expr::Slot(slot),
            };
            self.names.push((name.to_owned(), value));
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
