//! Grouped queries: what a select list may refer to when there is one row per group.
//!
//! Everything it says about an item must be a group expression, part of one, or inside an
//! aggregate. An aggregate without GROUP BY makes one group of everything.

use super::Checker;
use super::call::is_aggregate;
use crate::sql::ast::{Collection, Expr, OrderBy, PathStep, Query, Selection, Source, SourceKind};
use crate::sql::error::Span;
use crate::sql::identity;
use std::collections::{BTreeSet, HashSet};

/// Is there an aggregate of this query in the expression?
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    expr.any(&|part| matches!(part, Expr::Call { name, .. } if is_aggregate(name)))
}

impl<'a> Checker<'a> {
    pub(super) fn refuse_aggregates(&mut self, expr: &Expr, clause: &str) {
        if has_aggregate(expr) {
            self.complain_plainly(format!(
                "An aggregate function is not allowed in the {clause} clause."
            ));
        }
    }

    pub(super) fn group_by(&mut self, keys: &'a [Expr]) {
        for key in keys {
            self.expr(key);
            self.refuse_aggregates(key, "GROUP BY");
            if key.any(&|part| matches!(part, Expr::Subquery { .. })) {
                self.complain_plainly("A subquery is not allowed in the GROUP BY clause.");
            } else if !key.any(&|part| matches!(part, Expr::Name { .. })) {
                self.complain_plainly(
                    "An expression of the GROUP BY clause must have a property reference.",
                );
            }
        }
    }

    /// Checks the select list of a query, if its rows are grouped.
    pub(super) fn grouped(&mut self, keys: &[Expr], selected: &[&'a Expr]) {
        if keys.is_empty() && !selected.iter().any(|expr| has_aggregate(expr)) {
            return;
        }
        let keys = Keys::new(keys);
        for expr in selected {
            let mut references =
                References { checker: self, keys: &keys, own: Vec::new(), inside_subquery: false };
            references.expr(expr);
        }
    }
}

/// The group expressions, by identity.
struct Keys {
    identities: HashSet<String>,
    /// How many steps those that are paths have: only paths this long are looked for.
    lengths: BTreeSet<usize>,
}

impl Keys {
    fn new(keys: &[Expr]) -> Keys {
        let length = |key: &Expr| match key {
            Expr::Name { .. } => Some(0),
            Expr::Path { steps, .. } => Some(steps.len()),
            _ => None,
        };
        Keys {
            identities: keys.iter().filter_map(Expr::identity).collect(),
            lengths: keys.iter().filter_map(length).collect(),
        }
    }

    fn have(&self, expr: &Expr) -> bool {
        !self.identities.is_empty()
            && expr.identity().is_some_and(|identity| self.identities.contains(&identity))
    }

    /// Is the path, or a beginning of it, a group expression?
    fn have_path(&self, root: &str, steps: &[PathStep]) -> bool {
        self.lengths.iter().filter_map(|length| steps.get(..*length)).any(|beginning| {
            let identity = identity::of_path(root, beginning);
            identity.is_some_and(|identity| self.identities.contains(&identity))
        })
    }
}

/// Looks for references to what is not grouped.
struct References<'c, 'a> {
    checker: &'c mut Checker<'a>,
    keys: &'c Keys,
    /// Names that the select list itself brings up, in subqueries and LET.
    own: Vec<&'a str>,
    inside_subquery: bool,
}

impl<'a> References<'_, 'a> {
    fn expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name { name, span } => self.reference(name, &[], *span),
            Expr::Path { base, steps, span } => match base.as_ref() {
                Expr::Name { name, .. } => self.reference(name, steps, *span),
                other => self.expr(other),
            },
            Expr::Call { name, .. } if is_aggregate(name) && !self.inside_subquery => {}
            Expr::Subquery { query, .. } => self.subquery(query),
            Expr::Literal(_) | Expr::Undefined | Expr::Parameter { .. } => {}
            _ if self.keys.have(expr) => {}
            Expr::Let { name, value, body } => {
                self.expr(value);
                self.own.push(name);
                self.expr(body);
                self.own.pop();
            }
            _ => expr.for_each_part(&mut |part| self.expr(part)),
        }
    }

    /// A name that is not in scope has been complained about already.
    fn reference(&mut self, name: &str, steps: &[PathStep], span: Span) {
        let grouped = self.own.contains(&name)
            || !self.checker.is_in_scope(name)
            || self.keys.have_path(name, steps);
        if !grouped {
            let written = self.checker.written(span);
            let message = format!(
                "Property reference '{written}' is invalid in the select list because it is not \
                 contained in either an aggregate function or the GROUP BY clause."
            );
            self.checker.complain("SC2102", span, message);
        }
    }

    fn subquery(&mut self, query: &'a Query) {
        let (own, inside) = (self.own.len(), self.inside_subquery);
        self.inside_subquery = true;
        if let Some(from) = &query.from {
            self.source(&from.first);
            from.joins.iter().for_each(|source| self.source(source));
        }
        let order = match &query.order_by {
            Some(OrderBy::Items(items)) => items.as_slice(),
            Some(OrderBy::Rank { .. }) | None => &[],
        };
        query.condition.iter().for_each(|condition| self.expr(condition));
        query.group_by.iter().for_each(|key| self.expr(key));
        match &query.select.selection {
            Selection::Everything(_) => {}
            Selection::Value(value) => self.expr(value),
            Selection::List(items) => items.iter().for_each(|item| self.expr(&item.expr)),
        }
        order.iter().for_each(|item| self.expr(&item.expr));
        self.own.truncate(own);
        self.inside_subquery = inside;
    }

    fn source(&mut self, source: &'a Source) {
        let (SourceKind::Iterate { collection, .. } | SourceKind::Whole { collection, .. }) =
            &source.kind;
        match collection {
            Collection::Path { root, root_span, steps } => {
                let end = match steps.last() {
                    Some(PathStep::Index { span, .. }) => span.end,
                    Some(PathStep::Member(_)) => source.span.end,
                    None => root_span.end,
                };
                self.reference(root, steps, Span::new(root_span.start, end));
            }
            Collection::Subquery(query) => self.subquery(query),
            Collection::Call(call) => self.expr(call),
        }
        self.own.extend(source.name());
    }
}
