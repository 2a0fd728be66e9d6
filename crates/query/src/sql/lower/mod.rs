//! From what was written to what it means.
//!
//! Names are resolved here: an alias of the container, or of a path into it, becomes that path;
//! any other alias becomes the slot of its source. Parameters get their values, function names
//! become functions, computed properties their expressions, and what is constant is computed once
//! and for all. A parameter that nobody supplied is undefined: the service plans and runs such
//! queries, and a comparison with undefined selects nothing.
//!
//! `check` has looked at the query before, so most complaints here are for what it lets pass.

mod computed;
mod expr;
mod fold;
mod from;
mod group;
mod select;

use std::collections::HashMap;

use partita_model::{ComputedProperty, Geospatial, Number, Value};

use super::ast::{self, Condition, Count, OrderBy};
use super::error::{SqlError, SqlResult};
use super::print;
use crate::ir::{Expr, OrderColumn, Projection, Query, Source};

/// Parameters by name, the `@` included.
pub(crate) type Parameters = [(String, Value)];

/// What a whole query means.
pub(crate) fn query(
    written: &ast::Query,
    parameters: &Parameters,
    computed: &[ComputedProperty],
    indexed: &[String],
) -> SqlResult<Query> {
    let mut lowering = Lowering::new(parameters, computed);
    lowering.indexed = indexed;
    let mut query = lowering.query(written, Sight::Container)?;
    query.joined = written.from.as_ref().filter(|_| query.joins()).map(print::from);
    Ok(query)
}

/// The query that the condition of a patch stands for: all of the item where it holds.
pub(crate) fn condition(written: &Condition) -> SqlResult<Query> {
    let mut lowering = Lowering::new(&[], &[]);
    let from = lowering.from(Some(&written.from), Sight::Container)?;
    let filter = lowering.filter(written.condition.as_ref())?;
    Ok(Query {
        first_slot: from.first_slot,
        sources: from.sources,
        joined: None,
        filter,
        grouping: None,
        projection: Projection::Value(Expr::Item),
        distinct: false,
        order_by: Vec::new(),
        top: None,
        offset_limit: None,
    })
}

/// The WHERE clause for a plan. Queries that cannot be run are planned, too: a function that is
/// refused, unless its value is beyond doubt, and a parameter without a value tell nothing.
pub(crate) fn planned_filter(
    written: &ast::Query,
    parameters: &Parameters,
    geospatial: Geospatial,
) -> SqlResult<Option<Expr>> {
    let mut lowering = Lowering::new(parameters, &[]);
    lowering.planned_in = Some(geospatial);
    lowering.from(written.from.as_ref(), Sight::Container)?;
    lowering.filter(written.condition.as_ref())
}

/// The value of an expression that depends on no item; none if it does, or is undefined.
pub(crate) fn constant(written: &ast::Expr, parameters: &Parameters) -> Option<Value> {
    match Lowering::new(parameters, &[]).expr(written) {
        Ok(Expr::Constant(value)) => Some(value),
        _ => None,
    }
}

/// What the first name of a FROM clause can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// The container, whatever it is called.
    Container,
    /// Only an alias of a query around it.
    Aliases,
}

/// A FROM clause with its names known.
struct Sources {
    first_slot: usize,
    sources: Vec<Source>,
    /// What `*` means, if there is one source.
    star: Option<Expr>,
}

struct Lowering<'q> {
    parameters: HashMap<&'q str, &'q Value>,
    computed: &'q [ComputedProperty],
    /// The names of those that the index knows.
    indexed: &'q [String],
    /// The meaning of coordinates, if the query is planned and not run.
    planned_in: Option<Geospatial>,
    /// What each alias stands for, the innermost last.
    names: Vec<(String, Expr)>,
    next_slot: usize,
}

impl<'q> Lowering<'q> {
    fn new(parameters: &'q Parameters, computed: &'q [ComputedProperty]) -> Lowering<'q> {
        let parameters = parameters.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let (indexed, planned_in) = (&[][..], None);
        Lowering { parameters, computed, indexed, planned_in, names: Vec::new(), next_slot: 0 }
    }

    fn take_slots(&mut self, count: usize) -> usize {
        let first = self.next_slot;
        self.next_slot += count;
        first
    }

    fn query(&mut self, written: &ast::Query, sight: Sight) -> SqlResult<Query> {
        let names_before = self.names.len();
        let from = self.from(written.from.as_ref(), sight)?;
        let filter = self.filter(written.condition.as_ref())?;
        let keys = self.list(&written.group_by)?;
        let mut projection = self.projection(&written.select.selection, from.star)?;
        let mut order_by = self.order_by(written.order_by.as_ref())?;
        let own = group::Own {
            item: sight == Sight::Container && written.from.is_some(),
            slots: from.first_slot..from.first_slot + from.sources.len(),
        };
        let grouping = self.group(own, keys, &mut projection, &mut order_by)?;
        self.names.truncate(names_before);
        let select = &written.select;
        let offset_limit = match &written.offset_limit {
            Some(both) => Some((self.count(&both.offset)?, self.count(&both.limit)?)),
            None => None,
        };
        Ok(Query {
            first_slot: from.first_slot,
            sources: from.sources,
            joined: None,
            filter,
            grouping,
            projection,
            distinct: select.distinct,
            order_by,
            top: select.top.as_ref().map(|top| self.count(top)).transpose()?,
            offset_limit,
        })
    }

    fn filter(&mut self, condition: Option<&ast::Expr>) -> SqlResult<Option<Expr>> {
        let Some(condition) = condition else { return Ok(None) };
        let filter = self.expr(condition)?;
        if filter.any(&|expr| matches!(expr, Expr::Aggregate(..))) {
            Err(SqlError::Plain(
                "An aggregate function is not allowed in the WHERE clause.".to_owned(),
            ))
        } else {
            Ok(Some(filter))
        }
    }

    fn order_by(&mut self, order_by: Option<&OrderBy>) -> SqlResult<Vec<OrderColumn>> {
        let items = match order_by {
            None => return Ok(Vec::new()),
            Some(OrderBy::Rank { .. }) => return Err(SqlError::unsupported("ORDER BY RANK")),
            Some(OrderBy::Items(items)) => items,
        };
        let column = |item: &ast::OrderItem| {
            let descending = item.direction == Some(ast::Direction::Descending);
            Ok(OrderColumn {
                expr: self.expr(&item.expr)?,
                descending,
                text: print::expr(&item.expr),
            })
        };
        items.iter().map(column).collect()
    }

    /// The number of TOP, OFFSET or LIMIT.
    fn count(&self, count: &Count) -> SqlResult<u64> {
        let number = match count {
            Count::Literal { number, .. } => Some(*number),
            Count::Parameter { name, .. } => match self.parameters.get(name.as_str()) {
                Some(Value::Number(number)) => Some(*number),
                _ => None,
            },
        };
        let integer = number.and_then(Number::as_i64).and_then(|int| u64::try_from(int).ok());
        integer.ok_or_else(|| {
            SqlError::Plain("TOP, OFFSET and LIMIT need a non-negative integer.".to_owned())
        })
    }
}
