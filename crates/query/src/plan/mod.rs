//! Query plans: how a client runs a query that concerns several partitions.
//!
//! A client that cannot get an answer in one piece asks for a plan. The plan says which ranges of
//! partition keys to ask, which query to send to each of them, and what to do with the answers:
//! merge them by the ORDER BY values, add the partial aggregates, drop duplicates, skip and stop.
//!
//! - `shape` finds out what kind of query it is: what is selected, what is aggregated.
//! - `rewrite` writes the query for the partitions.
//! - `hybrid` does both for ORDER BY RANK, which is several queries at once.
//! - `ranges` says where to ask, `features` what the client must be able to do.
//! - `info` is the plan as clients read it.
//! - `metrics` is about indexes, which clients may ask of any query; `names` finds its paths.
//!
//! Nothing here looks at data. A query is planned even if Partita cannot run it.

mod features;
mod hybrid;
mod info;
mod metrics;
mod names;
mod ranges;
mod rewrite;
mod shape;
mod vector;

use crate::partition_filter::condition::regions;
use crate::partition_filter::region::Regions;
use crate::sql::error::SqlResult;
use crate::sql::{ast, check, lower, parser};
use partita_model::{
    Geospatial, Object, PartitionKeyDefinition, Result, Value, VectorEmbeddingPolicy,
};
use shape::Shape;

pub use info::{DistinctType, HybridInfo, OrderColumn, PlanKind, QueryInfo};
pub use metrics::{IndexMetrics, IndexSpec, index_metrics};
pub use ranges::PlanRange;

/// A question for a plan.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// The query.
    pub text: &'a str,
    /// The values of its parameters.
    pub parameters: &'a [(String, Value)],
    /// The partition key of the container.
    pub partition_key: &'a PartitionKeyDefinition,
    /// The features that the client has, as its header lists them. `None`: all.
    pub features: Option<&'a str>,
    /// Will the client ask for one logical partition only?
    pub has_logical_partition_key: bool,
    /// The vectors of the container.
    pub vector: Option<&'a VectorEmbeddingPolicy>,
    /// The meaning of coordinates in the container.
    pub geospatial: Geospatial,
}

/// The plan of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// What to send, and what to do with the answers.
    pub kind: PlanKind,
    /// Whom to send it, in the order of the ranges.
    pub ranges: Vec<PlanRange>,
}

impl QueryPlan {
    /// The plan as clients read it.
    pub fn to_value(&self) -> Value {
        let ranges: Vec<Value> = self.ranges.iter().map(PlanRange::to_value).collect();
        let plan = Object::new().with("partitionedQueryExecutionInfoVersion", 2_i64);
        let plan = match &self.kind {
            PlanKind::Query(info) => plan.with("queryInfo", info.to_value()),
            PlanKind::Hybrid(info) => plan.with("hybridSearchQueryInfo", info.to_value()),
        };
        Value::from(plan.with("queryRanges", ranges))
    }
}

/// Plans a query, or says what is wrong with it.
pub fn plan(request: &PlanRequest<'_>) -> Result<QueryPlan> {
    let query = parser::parse_query(request.text, request.parameters)
        .and_then(|query| {
            check::check(&query, request.text, request.parameters)?;
            Ok(query)
        })
        .map_err(|error| error.into_error(request.text))?;
    let planned = planned(&query, request).map_err(|error| error.into_error(request.text))?;
    features::check(&planned.kind, request.features)?;
    Ok(planned)
}

fn planned(query: &ast::Query, request: &PlanRequest<'_>) -> SqlResult<QueryPlan> {
    let parameters = request.parameters;
    let shape = Shape::of(query, parameters)?;
    let regions = regions_of(shape.counted_rows().unwrap_or(query), request);
    let ranges = ranges::ranges(&regions, request.partition_key);
    let kind = match &query.order_by {
        Some(ast::OrderBy::Rank { functions, .. }) => {
            let skip_rewrite = features::skips_order_by_rewrite(request.features);
            let hybrid = hybrid::plan(&shape, functions, parameters, request.vector, skip_rewrite);
            PlanKind::Hybrid(Box::new(hybrid?))
        }
        _ => {
            let one_key = request.has_logical_partition_key
                || matches!(ranges.as_slice(), [range] if range.is_key());
            PlanKind::Query(rewrite::plan(&shape, parameters, request.vector, one_key))
        }
    };
    Ok(QueryPlan { kind, ranges })
}

/// Where the keys of the items that a query looks at may be. A condition that has no meaning for
/// Partita says nothing.
fn regions_of(query: &ast::Query, request: &PlanRequest<'_>) -> Regions {
    if query.from.is_none() {
        return Regions::nothing();
    }
    match lower::planned_filter(query, request.parameters, request.geospatial) {
        Ok(filter) => regions(filter.as_ref(), request.partition_key),
        Err(_) => Regions::All,
    }
}
