//! The clauses of a query, in the order in which the service looks at them.

use super::{Checker, JOINS_MAX, Standing};
use crate::sql::ast::{
    Collection, Count, Expr, From, OffsetLimit, OrderBy, Query, Selection, Source, SourceKind,
    SubqueryKind,
};
use crate::sql::error::Span;
use crate::sql::lexer::Lexer;
use crate::sql::naming::select_names;
use partita_model::{Number, Value};
use std::collections::HashSet;

impl<'a> Checker<'a> {
    pub(super) fn query(&mut self, query: &'a Query, standing: Standing) {
        self.depth += 1;
        let outer = self.names.len();
        let outermost = standing == Standing::Outermost;
        if let Some(from) = &query.from {
            let ranked = outermost && matches!(query.order_by, Some(OrderBy::Rank { .. }));
            self.from(from, standing, ranked);
        }
        self.condition(query.condition.as_ref());
        self.group_by(&query.group_by);
        self.select(query);
        self.order_by(query, outermost);
        if outermost {
            self.counts(query);
        } else {
            self.clauses_of_subquery(query);
        }
        self.names.truncate(outer);
        self.depth -= 1;
    }

    pub(super) fn from(&mut self, from: &'a From, standing: Standing, ranked: bool) {
        let outer = self.names.len();
        self.joins = self.joins.max(from.joins.len());
        if from.joins.len() > JOINS_MAX {
            return;
        }
        if let (true, Some(last)) = (ranked, from.joins.last()) {
            let span = Span::new(from.first.span.start, last.span.end);
            let message = "The JOIN operator is not allowed with the ORDER BY RANK clause.";
            self.complain("SC2224", span, message);
        }
        self.source(&from.first, standing, ranked);
        for source in &from.joins {
            self.source(source, Standing::Nested, ranked);
        }
        let mut seen = HashSet::new();
        let mut aliases = self.names.iter().skip(outer);
        if let Some(twice) = aliases.find(|name| !seen.insert(**name)) {
            let message = format!(
                "The input alias '{twice}' is specified more than once in the FROM clause."
            );
            self.complain_plainly(message);
        }
    }

    /// `standing` is that of the query for its first source, and nested for the others.
    fn source(&mut self, source: &'a Source, standing: Standing, ranked: bool) {
        let (SourceKind::Iterate { collection, .. } | SourceKind::Whole { collection, .. }) =
            &source.kind;
        if ranked && matches!(source.kind, SourceKind::Iterate { .. }) {
            let message = "The FROM clause with the IN operator is not allowed with the ORDER BY \
                           RANK clause.";
            self.complain("SC2223", source.span, message);
        }
        match collection {
            Collection::Path { root, root_span, .. } => {
                if standing == Standing::Nested && !self.is_in_scope(root) {
                    let message = format!("Identifier '{root}' could not be resolved.");
                    self.complain("SC2001", *root_span, message);
                }
            }
            Collection::Subquery(query) => {
                if ranked {
                    let message = "Subqueries in the FROM clause are not allowed with the ORDER \
                                   BY RANK clause.";
                    self.complain("SC2225", self.brackets_around(source, query), message);
                }
                self.query(
                    query,
                    match standing {
                        Standing::Outermost | Standing::FirstSource => Standing::FirstSource,
                        Standing::Nested => Standing::Nested,
                    },
                );
            }
            Collection::Call(call) => {
                self.expr(call);
                self.refuse_aggregates(call, "FROM");
            }
        }
        self.names.extend(source.name());
    }

    /// From the opening bracket of a subquery in FROM to the closing one.
    fn brackets_around(&self, source: &Source, query: &Query) -> Span {
        let inside = query.span.whole;
        let before = self.written(Span::new(source.span.start, inside.start));
        let start = source.span.start + before.rfind('(').unwrap_or_default();
        let behind = self.written(Span::new(inside.end, source.span.end));
        let length = Lexer::new(behind, &[]).next_token().map_or(0, |bracket| bracket.span.end);
        Span::new(start, inside.end + length)
    }

    pub(super) fn condition(&mut self, condition: Option<&'a Expr>) {
        if let Some(condition) = condition {
            self.expr(condition);
            self.refuse_aggregates(condition, "WHERE");
        }
    }

    fn select(&mut self, query: &'a Query) {
        match &query.select.selection {
            Selection::Everything(star) => self.select_everything(query, *star),
            Selection::Value(expr) => {
                self.expr(expr);
                self.grouped(&query.group_by, &[expr]);
            }
            Selection::List(items) => {
                items.iter().for_each(|item| self.expr(&item.expr));
                let exprs: Vec<&Expr> = items.iter().map(|item| &item.expr).collect();
                self.grouped(&query.group_by, &exprs);
                let names = select_names(items);
                let mut seen = HashSet::new();
                if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                    self.complain_plainly(format!(
                        "The name '{twice}' is specified more than once in the SELECT list."
                    ));
                }
            }
        }
    }

    fn select_everything(&mut self, query: &Query, star: Span) {
        if !query.group_by.is_empty() {
            self.complain("SC2041", star, "'SELECT *' is not allowed with GROUP BY.");
            return;
        }
        match &query.from {
            None => {
                self.complain_plainly("'SELECT *' is not valid if FROM clause is omitted.");
            }
            Some(from) if !from.joins.is_empty() => {
                self.complain_plainly("'SELECT *' is only valid with a single input set.");
            }
            Some(_) => {}
        }
    }

    fn order_by(&mut self, query: &'a Query, outermost: bool) {
        match &query.order_by {
            Some(OrderBy::Items(items)) => items.iter().for_each(|item| self.expr(&item.expr)),
            Some(OrderBy::Rank { functions, .. }) if outermost => {
                self.rank(functions, query.span.order_by);
            }
            Some(OrderBy::Rank { .. }) | None => {}
        }
    }

    fn clauses_of_subquery(&mut self, query: &Query) {
        match query.order_by {
            Some(OrderBy::Items(_)) => self.complain(
                "SC2202",
                query.span.order_by,
                "'ORDER BY' is not supported in subqueries.",
            ),
            Some(OrderBy::Rank { .. }) => self.complain(
                "SC2228",
                query.span.order_by,
                "The ORDER BY RANK clause is not supported in subqueries.",
            ),
            None => {}
        }
        if query.select.top.is_some() {
            self.complain("SC2203", query.span.top, "'TOP' is not supported in subqueries.");
        }
        if query.offset_limit.is_some() {
            let message = "'OFFSET LIMIT' clause is not supported in subqueries.";
            self.complain("SC2204", query.span.offset_limit, message);
        }
    }

    fn counts(&mut self, query: &Query) {
        if let Some(top) = &query.select.top
            && self.count(top) != Counted::Fits
        {
            let message = "The count value provided for a TOP clause must be an integer.";
            self.complain("SC2060", span(top), message);
        }
        let Some(OffsetLimit { offset, limit }) = &query.offset_limit else { return };
        for (code, name, count) in [("SC2062", "OFFSET", offset), ("SC2061", "LIMIT", limit)] {
            let rule = match self.count(count) {
                Counted::Fits => continue,
                Counted::TooLarge => "exceeds the maximum allowed value",
                Counted::NoCount => "must be a non-negative integer",
            };
            self.complain(code, span(count), format!("The {name} count value {rule}."));
        }
        if query.select.top.is_some() {
            self.complain_plainly("TOP and OFFSET LIMIT cannot be used in the same query.");
        }
    }

    fn count(&self, count: &Count) -> Counted {
        let number = match count {
            Count::Literal { number, .. } => number,
            Count::Parameter { name, .. } => {
                match self.parameters.iter().find(|(known, _)| known == name) {
                    Some((_, Value::Number(number))) => number,
                    Some(_) | None => return Counted::NoCount,
                }
            }
        };
        let value = match number {
            Number::Int(integer) => *integer as f64,
            Number::Double(double) => *double,
        };
        match value {
            _ if value < 0.0 || value.fract() != 0.0 || value.is_nan() => Counted::NoCount,
            _ if value > f64::from(u32::MAX) => Counted::TooLarge,
            _ => Counted::Fits,
        }
    }

    /// A subquery inside an expression. Without a word in front it stands for its only row, so it
    /// must not be able to have two.
    pub(super) fn expression_subquery(&mut self, kind: SubqueryKind, query: &'a Query) {
        self.query(query, Standing::Nested);
        if kind == SubqueryKind::Scalar && multiplies(query) {
            self.complain_plainly(
                "The cardinality of a scalar subquery result set cannot be greater than one.",
            );
        }
    }
}

/// Is this the number of TOP, OFFSET or LIMIT? They have 32 bits.
#[derive(PartialEq)]
enum Counted {
    Fits,
    TooLarge,
    NoCount,
}

fn span(count: &Count) -> Span {
    match count {
        Count::Literal { span, .. } | Count::Parameter { span, .. } => *span,
    }
}

/// Can this query have more than one row for one row around it?
fn multiplies(query: &Query) -> bool {
    let aggregates = match &query.select.selection {
        Selection::Everything(_) => false,
        Selection::Value(expr) => super::group::has_aggregate(expr),
        Selection::List(items) => items.iter().any(|item| super::group::has_aggregate(&item.expr)),
    };
    let source_multiplies = |source: &Source| match &source.kind {
        SourceKind::Iterate { .. } => true,
        SourceKind::Whole { collection: Collection::Subquery(inner), .. } => multiplies(inner),
        SourceKind::Whole { .. } => false,
    };
    let from_multiplies = query.from.as_ref().is_some_and(|from| {
        source_multiplies(&from.first) || from.joins.iter().any(source_multiplies)
    });
    from_multiplies && (!aggregates || !query.group_by.is_empty())
}
