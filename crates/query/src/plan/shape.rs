//! What kind of query it is: the projection, the aggregates in it, and the counts of TOP, OFFSET
//! and LIMIT with parameters resolved.

use crate::aggregate::Aggregate;
use crate::sql::ast::{Collection, Count, Expr, OffsetLimit, Query, Selection, SourceKind};
use crate::sql::error::{SqlError, SqlResult};
use crate::sql::lower::Parameters;
use crate::sql::naming::select_names;

/// The service's words for a projection that cannot be put together from partial aggregates.
const COMPOSITION: &str = "Compositions of aggregates and other expressions are not allowed.";

pub(super) struct Shape<'a> {
    pub(super) query: &'a Query,
    pub(super) projection: Projection<'a>,
    pub(super) top: Option<u64>,
    pub(super) offset_limit: Option<(u64, u64)>,
}

pub(super) enum Projection<'a> {
    /// `SELECT *`
    Everything,
    /// `SELECT VALUE item`
    Value(Item<'a>),
    /// `SELECT item AS name, …`
    List(Vec<(String, Item<'a>)>),
}

/// A projected expression.
pub(super) enum Item<'a> {
    Plain(&'a Expr),
    Aggregate { aggregate: Aggregate, call: &'a Expr, argument: &'a Expr },
}

impl<'a> Shape<'a> {
    pub(super) fn of(query: &'a Query, parameters: &Parameters) -> SqlResult<Shape<'a>> {
        let projection = match &query.select.selection {
            Selection::Everything(_) => Projection::Everything,
            Selection::Value(expr) => Projection::Value(Item::of(expr)?),
            Selection::List(items) => {
                let named = items.iter().zip(select_names(items));
                let named = named.map(|(item, name)| Ok((name, Item::of(&item.expr)?)));
                Projection::List(named.collect::<SqlResult<_>>()?)
            }
        };
        let top = query.select.top.as_ref().map(|top| resolved(top, parameters)).transpose()?;
        let offset_limit = match &query.offset_limit {
            None => None,
            Some(OffsetLimit { offset, limit }) => {
                Some((resolved(offset, parameters)?, resolved(limit, parameters)?))
            }
        };
        Ok(Shape { query, projection, top, offset_limit })
    }

    pub(super) fn is_select_value(&self) -> bool {
        matches!(self.projection, Projection::Value(_))
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item<'a>> {
        let (value, list) = match &self.projection {
            Projection::Everything => (None, [].as_slice()),
            Projection::Value(item) => (Some(item), [].as_slice()),
            Projection::List(items) => (None, items.as_slice()),
        };
        value.into_iter().chain(list.iter().map(|(_, item)| item))
    }

    pub(super) fn has_aggregates(&self) -> bool {
        self.items().any(|item| matches!(item, Item::Aggregate { .. }))
    }

    /// The name that the container's items have in the query.
    pub(super) fn root(&self) -> &'a str {
        self.query.from.as_ref().and_then(|from| from.first.name()).unwrap_or("root")
    }

    /// The subquery whose rows are counted, in `SELECT COUNT(1) FROM (SELECT DISTINCT …)`.
    ///
    /// Counts of the partitions cannot be added up, for two may have the same row: the client
    /// gathers the rows themselves and counts them.
    pub(super) fn counted_rows(&self) -> Option<&'a Query> {
        let query = self.query;
        let mut items = self.items();
        let counts = match (items.next(), items.next()) {
            (Some(Item::Aggregate { aggregate: Aggregate::Count, argument, .. }), None) => {
                matches!(argument, Expr::Literal(_))
            }
            _ => false,
        };
        let from = query.from.as_ref().filter(|from| from.joins.is_empty())?;
        let plain =
            query.condition.is_none() && query.group_by.is_empty() && !query.select.distinct;
        match &from.first.kind {
            SourceKind::Whole { collection: Collection::Subquery(rows), .. }
                if counts && plain && query.order_by.is_none() && rows.select.distinct =>
            {
                Some(rows)
            }
            _ => None,
        }
    }
}

impl<'a> Item<'a> {
    fn of(expr: &'a Expr) -> SqlResult<Item<'a>> {
        if let Some(aggregate) = aggregate_of(expr)
            && let Expr::Call { arguments, .. } = expr
            && let [argument] = arguments.as_slice()
        {
            return Ok(Item::Aggregate { aggregate, call: expr, argument });
        }
        if expr.any(&|part| aggregate_of(part).is_some()) {
            Err(SqlError::Plain(COMPOSITION.to_owned()))
        } else {
            Ok(Item::Plain(expr))
        }
    }
}

pub(super) fn aggregate_of(expr: &Expr) -> Option<Aggregate> {
    match expr {
        Expr::Call { name, .. } => Aggregate::by_name(name),
        _ => None,
    }
}

fn resolved(count: &Count, parameters: &Parameters) -> SqlResult<u64> {
    let number = match count {
        Count::Literal { number, .. } => number.as_i64(),
        Count::Parameter { name, .. } => {
            let value = parameters.iter().find(|(known, _)| known == name);
            value.and_then(|(_, value)| value.as_i64())
        }
    };
    number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| {
        SqlError::Plain("TOP, OFFSET and LIMIT need counts that are not negative.".to_owned())
    })
}
