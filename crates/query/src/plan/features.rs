//! What a client must be able to do to carry out a plan.
//!
//! A client lists what it can do. A plan that needs more is not given out, because the client would
//! take partial answers for answers; the refusal names what is missing.

use super::info::{DistinctType, PlanKind, QueryInfo};
use partita_model::{Error, Result};

/// The names of features, in the order in which the service lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    Aggregate,
    Distinct,
    GroupBy,
    MultipleAggregates,
    MultipleOrderBy,
    OffsetAndLimit,
    OrderBy,
    Top,
    NonValueAggregate,
    DCount,
    NonStreamingOrderBy,
    ListAndSetAggregate,
    CountIf,
    HybridSearch,
    WeightedRankFusion,
}

impl Feature {
    fn name(self) -> &'static str {
        match self {
            Feature::Aggregate => "Aggregate",
            Feature::Distinct => "Distinct",
            Feature::GroupBy => "GroupBy",
            Feature::MultipleAggregates => "MultipleAggregates",
            Feature::MultipleOrderBy => "MultipleOrderBy",
            Feature::OffsetAndLimit => "OffsetAndLimit",
            Feature::OrderBy => "OrderBy",
            Feature::Top => "Top",
            Feature::NonValueAggregate => "NonValueAggregate",
            Feature::DCount => "DCount",
            Feature::NonStreamingOrderBy => "NonStreamingOrderBy",
            Feature::ListAndSetAggregate => "ListAndSetAggregate",
            Feature::CountIf => "CountIf",
            Feature::HybridSearch => "HybridSearch",
            Feature::WeightedRankFusion => "WeightedRankFusion",
        }
    }
}

/// The feature that asks for the shorter form of hybrid queries.
const SKIP_ORDER_BY_REWRITE: &str = "HybridSearchSkipOrderByRewrite";

/// Does the client take hybrid queries without the ORDER BY rewrite? Only if it says so.
pub(super) fn skips_order_by_rewrite(features: Option<&str>) -> bool {
    features.is_some_and(|features| lists(features, SKIP_ORDER_BY_REWRITE))
}

/// Refuses a plan that is beyond the client.
pub(super) fn check(plan: &PlanKind, features: Option<&str>) -> Result<()> {
    let Some(features) = features else { return Ok(()) };
    let mut missing = needed(plan);
    missing.retain(|feature| !has(features, *feature));
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    let names: Vec<&str> = missing.into_iter().map(Feature::name).collect();
    Err(Error::plan_not_supported(format!(
        "Query contains the following features, which the calling client does not support:\nNone {}",
        names.join(" ")
    )))
}

/// Clients that merge several aggregates merge lists and sets as well; some do not say so.
fn has(features: &str, feature: Feature) -> bool {
    lists(features, feature.name())
        || feature == Feature::ListAndSetAggregate
            && lists(features, Feature::MultipleAggregates.name())
}

fn lists(features: &str, name: &str) -> bool {
    features.split(',').any(|feature| feature.trim().eq_ignore_ascii_case(name))
}

fn needed(plan: &PlanKind) -> Vec<Feature> {
    match plan {
        PlanKind::Query(info) => of_query(info),
        PlanKind::Hybrid(info) => {
            let weights = !info.weights.is_empty();
            std::iter::once(Feature::HybridSearch)
                .chain(weights.then_some(Feature::WeightedRankFusion))
                .collect()
        }
    }
}

fn of_query(info: &QueryInfo) -> Vec<Feature> {
    let named: Vec<&str> = info.aliases.iter().filter_map(|(_, aggregate)| *aggregate).collect();
    let all: Vec<&str> = named.iter().chain(&info.aggregates).copied().collect();
    let counts_rows = info.counts_rows_as.is_some();
    let table = [
        (!all.is_empty() || counts_rows, Feature::Aggregate),
        (info.distinct != DistinctType::None, Feature::Distinct),
        (!info.group_by.is_empty(), Feature::GroupBy),
        (all.len() > 1, Feature::MultipleAggregates),
        (info.order_by.len() > 1, Feature::MultipleOrderBy),
        (info.offset.is_some() || info.limit.is_some(), Feature::OffsetAndLimit),
        (!info.order_by.is_empty(), Feature::OrderBy),
        (info.top.is_some(), Feature::Top),
        (!named.is_empty(), Feature::NonValueAggregate),
        (counts_rows, Feature::DCount),
        (info.has_non_streaming_order_by, Feature::NonStreamingOrderBy),
        (all.iter().any(|name| name.starts_with("Make")), Feature::ListAndSetAggregate),
        (all.contains(&"CountIf"), Feature::CountIf),
    ];
    table.into_iter().filter(|(needed, _)| *needed).map(|(_, feature)| feature).collect()
}
