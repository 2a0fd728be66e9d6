//! A container's computed properties: which are allowed, and what one is of an item.
//!
//! The index keeps their values, so those must depend on the item alone: not on the time, on
//! chance, on functions that users may change, or on each other.

use std::ops::ControlFlow;

use partita_model::{ComputedProperty, Document, Error, Result};

use crate::ir::{Expr, Projection, Source, Step};
use crate::query::Query;
use crate::scope::ScopeSettings;

/// A computed property that is allowed.
#[derive(Clone, Debug)]
pub struct Computed {
    name: String,
    query: Query,
}

impl Computed {
    /// Reads one of a container's computed properties.
    pub fn parse(property: &ComputedProperty, all: &[ComputedProperty]) -> Result<Computed> {
        let refused = |reason: &str| {
            Error::bad_request(format!(
                "One of the specified inputs is invalid: the computed property '{}': {reason}",
                property.name
            ))
        };
        let query = Query::parse(&property.query, &[], &[]);
        let query = query.map_err(|error| refused(&error.message))?;
        let meaning = query.meaning();
        let is_plain = matches!(meaning.sources.as_slice(), [Source::Value(Expr::Item)])
            && meaning.filter.is_none()
            && meaning.grouping.is_none()
            && meaning.order_by.is_empty()
            && meaning.top.is_none()
            && meaning.offset_limit.is_none()
            && !meaning.distinct;
        let Projection::Value(value) = &meaning.projection else {
            return Err(refused(PLAIN));
        };
        if !is_plain {
            return Err(refused(PLAIN));
        }
        if value.any(&|expr| matches!(expr, Expr::Subquery { .. } | Expr::Let { .. })) {
            return Err(refused("it must not have subqueries"));
        }
        if value.any(&depends_on_more) {
            return Err(refused(
                "it must not call user-defined functions, or functions of the time or of chance",
            ));
        }
        if value.any(&|expr| is_computed(expr, all)) {
            return Err(refused("it must not use other computed properties"));
        }
        Ok(Computed { name: property.name.clone(), query })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value in an item, as JSON; None: undefined. What a query would fail on is undefined,
    /// too: the item can be written all the same.
    pub fn of(&self, item: Document<'_>) -> Option<String> {
        let mut value = None;
        let mut run = self.query.start(&ScopeSettings::default());
        let found = run.rows(item, &mut |row| {
            value = Some(row.text);
            ControlFlow::Break(())
        });
        value.filter(|_| found.is_ok())
    }
}

const PLAIN: &str = "it must be 'SELECT VALUE … FROM c' and nothing more";

fn depends_on_more(expr: &Expr) -> bool {
    match expr {
        Expr::Udf { .. } => true,
        Expr::Call { function, .. } => !function.is_deterministic() || function.refusal().is_some(),
        _ => false,
    }
}

fn is_computed(expr: &Expr, all: &[ComputedProperty]) -> bool {
    match expr.item_path() {
        Some([Step::Member(name), ..]) => all.iter().any(|other| other.name == **name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(name: &str, query: &str) -> ComputedProperty {
        ComputedProperty { name: name.to_owned(), query: query.to_owned() }
    }

    #[test]
    fn a_value_is_what_the_query_says_of_the_item() {
        let lower = property("lower", "SELECT VALUE LOWER(x.name) FROM x");
        let lower = Computed::parse(&lower, &[]).unwrap();
        assert_eq!(lower.of(Document::new(r#"{"name":"Ada"}"#)).as_deref(), Some(r#""ada""#));
        assert_eq!(lower.of(Document::new(r#"{"name":7}"#)), None);
        let parts = property("parts", "SELECT VALUE {a: c.a, b: [c.b, c.c]} FROM c");
        let parts = Computed::parse(&parts, &[]).unwrap();
        assert_eq!(parts.of(Document::new(r#"{"a":1,"c":2}"#)).unwrap(), r#"{"a":1,"b":[2]}"#);
    }

    #[test]
    fn what_depends_on_more_than_the_item_is_refused() {
        let all = [property("x", "SELECT VALUE c.a FROM c"), property("y", "")];
        for (query, reason) in [
            ("SELECT VALUE c.a FROM c WHERE c.b", "nothing more"),
            ("SELECT VALUE t FROM c JOIN t IN c.tags", "nothing more"),
            ("SELECT VALUE t FROM t IN c.tags", "nothing more"),
            ("SELECT TOP 1 VALUE c.a FROM c", "nothing more"),
            ("SELECT DISTINCT VALUE c.a FROM c", "nothing more"),
            ("SELECT VALUE c.a FROM c ORDER BY c.a", "nothing more"),
            ("SELECT VALUE COUNT(c.a) FROM c", "nothing more"),
            ("SELECT VALUE c.a FROM c GROUP BY c.a", "nothing more"),
            ("SELECT VALUE 1", "nothing more"),
            ("SELECT c.a FROM c", "nothing more"),
            ("SELECT VALUE EXISTS(SELECT 1 FROM t IN c.tags) FROM c", "subqueries"),
            ("SELECT VALUE ARRAY(SELECT 1 FROM t IN c.tags) FROM c", "subqueries"),
            ("SELECT VALUE udf.f(c.a) FROM c", "user-defined"),
            ("SELECT VALUE GetCurrentTimestamp() - c.a FROM c", "time"),
            ("SELECT VALUE RAND() FROM c", "chance"),
            ("SELECT VALUE ST_DISTANCE(c.a, c.b) FROM c", "ST_DISTANCE"),
            ("SELECT VALUE c.y FROM c", "other computed"),
            ("SELECT VALUE LOWER(c.x.z) FROM c", "other computed"),
            ("SELECT VALUE LOWER(c.a FROM c", "Syntax error"),
        ] {
            let error = Computed::parse(&property("x", query), &all).unwrap_err();
            assert!(error.message.contains(reason), "{query}: {error}");
        }
    }
}
