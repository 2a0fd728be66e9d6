//! ORDER BY must name a origin in the item.
//!
//! The service sorts by what an index has, so every sort expression must lead to a path of the
//! item: through aliases, through the elements of arrays, and through subqueries in FROM that only
//! hand parts of the item on. Computing something to sort by is refused, except for one vector
//! distance or score. The complaint comes only when there is no other, and names no origin.

use crate::sql::ast::{
    Collection, Expr, From, OrderBy, OrderItem, PathStep, Query, Selection, Source, SourceKind,
};
use crate::sql::error::{SqlError, SqlResult};
use crate::sql::naming::{select_names, step_name};
use std::rc::Rc;

/// Functions whose value a query may be ordered by. Two of them are written by query plans.
const SCORES: [&str; 3] = ["VectorDistance", "_VectorScore", "_FullTextScore"];

pub(super) fn check(query: &Query) -> SqlResult<()> {
    let Some(OrderBy::Items(items)) = &query.order_by else { return Ok(()) };
    if let [OrderItem { expr: Expr::Call { name, .. }, .. }] = items.as_slice()
        && SCORES.iter().any(|score| score.eq_ignore_ascii_case(name))
    {
        return Ok(());
    }
    let mut origins = Origins { names: Vec::new() };
    if let Some(from) = &query.from {
        origins.enter(from);
    }
    let is_in_item = |item: &OrderItem| matches!(*origins.of(&item.expr), Origin::InItem);
    if items.iter().all(is_in_item) {
        return Ok(());
    }
    let message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a \
                   document path.";
    Err(SqlError::Numbered { code: 2206, message: message.to_owned() })
}

/// What an expression stands for.
enum Origin {
    InItem,
    /// An object made by the query, with the origins of its members.
    Made(Vec<(String, Rc<Origin>)>),
    Computed,
}

/// The origins of the names in scope, the innermost last.
struct Origins<'a> {
    names: Vec<(&'a str, Rc<Origin>)>,
}

impl<'a> Origins<'a> {
    /// Brings the sources into scope and gives the origin of the first.
    fn enter(&mut self, from: &'a From) -> Rc<Origin> {
        let first = self.source(&from.first);
        for source in &from.joins {
            self.source(source);
        }
        first
    }

    fn source(&mut self, source: &'a Source) -> Rc<Origin> {
        let origin = self.of_source(source);
        if let Some(name) = source.name() {
            self.names.push((name, Rc::clone(&origin)));
        }
        origin
    }

    fn of_source(&mut self, source: &'a Source) -> Rc<Origin> {
        match &source.kind {
            SourceKind::Whole { collection, .. } => self.of_collection(collection),
            SourceKind::Iterate { collection, .. } => {
                let array = self.of_collection(collection);
                match *array {
                    Origin::InItem => array,
                    Origin::Made(_) | Origin::Computed => Rc::new(Origin::Computed),
                }
            }
        }
    }

    fn of_collection(&mut self, collection: &'a Collection) -> Rc<Origin> {
        match collection {
            // A name that is no alias is the container.
            Collection::Path { root, steps, .. } => {
                let start = self.of_name(root).unwrap_or_else(|| Rc::new(Origin::InItem));
                follow(start, steps)
            }
            Collection::Subquery(query) => self.of_query(query),
            Collection::Call(_) => Rc::new(Origin::Computed),
        }
    }

    /// The origin of a row of a subquery.
    fn of_query(&mut self, query: &'a Query) -> Rc<Origin> {
        let outer = self.names.len();
        let only_source = query.from.as_ref().map(|from| self.enter(from));
        let origin = match &query.select.selection {
            Selection::Everything(_) => only_source.unwrap_or_else(|| Rc::new(Origin::Computed)),
            Selection::Value(expr) => self.of(expr),
            Selection::List(items) => {
                let origins = items.iter().map(|item| self.of(&item.expr));
                Rc::new(Origin::Made(select_names(items).into_iter().zip(origins).collect()))
            }
        };
        self.names.truncate(outer);
        origin
    }

    fn of(&self, expr: &Expr) -> Rc<Origin> {
        let known = match expr {
            Expr::Name { name, .. } => self.of_name(name),
            Expr::Path { base, steps, .. } => Some(follow(self.of(base), steps)),
            Expr::Object(members) => {
                let member = |(name, value): &(String, Expr)| (name.clone(), self.of(value));
                Some(Rc::new(Origin::Made(members.iter().map(member).collect())))
            }
            _ => None,
        };
        known.unwrap_or_else(|| Rc::new(Origin::Computed))
    }

    fn of_name(&self, name: &str) -> Option<Rc<Origin>> {
        let found = self.names.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, origin)| Rc::clone(origin))
    }
}

fn follow(mut origin: Rc<Origin>, steps: &[PathStep]) -> Rc<Origin> {
    for step in steps {
        origin = match origin.as_ref() {
            Origin::InItem => return origin,
            Origin::Made(members) => {
                let wanted = step_name(step);
                let member = members.iter().find(|(name, _)| Some(name.as_str()) == wanted);
                member.map_or_else(|| Rc::new(Origin::Computed), |(_, origin)| Rc::clone(origin))
            }
            Origin::Computed => return origin,
        };
    }
    origin
}
