//! Computed properties: names at the top of every item that stand for expressions.
//!
//! A path that starts with such a name becomes the property's expression, followed by the rest of
//! the path. The item itself stays what is stored, so `SELECT *` does not show them. A computed
//! property is read only when a query uses it. One that the index has values of keeps its name, so
//! that it can be looked up there ([`Expr::Computed`]).

use super::{Lowering, Sight};
use crate::ir::{Expr, Projection, Source, Step};
use crate::sql::error::{SqlError, SqlResult};
use crate::sql::parser;

impl Lowering<'_> {
    /// A path behind a base.
    pub(super) fn path(&mut self, base: Expr, steps: Vec<Step>) -> SqlResult<Expr> {
        let computed = match (&base, steps.first()) {
            (Expr::Item, Some(Step::Member(name))) => {
                self.computed.iter().find(|property| property.name == **name)
            }
            _ => None,
        };
        let Some(property) = computed else { return Ok(Expr::path(base, steps)) };
        let meaning = self.computed_property(&property.query).map_err(|error| {
            let reason = error.into_error(&property.query).message;
            SqlError::Plain(format!("The computed property '{}': {reason}", property.name))
        })?;
        let meaning = if self.indexed.contains(&property.name) {
            Expr::Computed { name: property.name.clone(), meaning: Box::new(meaning) }
        } else {
            meaning
        };
        Ok(Expr::path(meaning, steps.into_iter().skip(1).collect()))
    }

    fn computed_property(&mut self, text: &str) -> SqlResult<Expr> {
        let written = parser::parse_query(text, &[])?;
        // Neither the query's names nor other computed properties mean anything inside.
        let names = std::mem::take(&mut self.names);
        let computed = std::mem::take(&mut self.computed);
        let query = self.query(&written, Sight::Container);
        (self.names, self.computed) = (names, computed);
        let query = query?;
        match (query.sources.as_slice(), query.projection) {
            ([Source::Value(Expr::Item)], Projection::Value(expr))
                if query.filter.is_none() && query.grouping.is_none() =>
            {
                Ok(expr)
            }
            _ => Err(SqlError::Plain("it must be 'SELECT VALUE … FROM c'.".to_owned())),
        }
    }
}
