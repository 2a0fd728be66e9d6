//! A plan as clients read it. Every member is always there: some clients do not ask first.

use partita_model::{Object, Value};

/// One query for all partitions, or several whose ranks are fused.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanKind {
    /// Anything without ORDER BY RANK.
    Query(QueryInfo),
    /// ORDER BY RANK.
    Hybrid(Box<HybridInfo>),
}

/// Which rows are repeats of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistinctType {
    /// None are.
    #[default]
    None,
    /// Those equal to the row before.
    Ordered,
    /// Those equal to any row before.
    Unordered,
}

/// The query for the partitions and the work that is left for the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryInfo {
    /// Must repeated rows be dropped?
    pub distinct: DistinctType,
    /// How many rows to keep.
    pub top: Option<u64>,
    /// How many rows to skip.
    pub offset: Option<u64>,
    /// How many rows to keep behind those.
    pub limit: Option<u64>,
    /// What rows are merged by.
    pub order_by: Vec<OrderColumn>,
    /// The expressions that make a group.
    pub group_by: Vec<String>,
    /// The names of the projected values, and the aggregates among them, such as `Average`.
    pub aliases: Vec<(String, Option<&'static str>)>,
    /// The aggregate that is the only result.
    pub aggregates: Vec<&'static str>,
    /// What to send to the partitions; empty: the query itself.
    pub rewritten: String,
    /// Is a row a bare value?
    pub has_select_value: bool,
    /// The name under which the number of distinct rows is returned; empty: as a bare value.
    pub counts_rows_as: Option<String>,
    /// Do partitions answer in no useful order, so that all of it must be sorted?
    pub has_non_streaming_order_by: bool,
}

/// One value that rows are merged by.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderColumn {
    /// The expression as printed.
    pub expression: String,
    /// Greatest first?
    pub descending: bool,
}

/// What is fused: one query per scoring function.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridInfo {
    /// Counts over the whole container that scores depend on.
    pub statistics_query: String,
    /// Does any score depend on them?
    pub needs_statistics: bool,
    /// One query per scoring function.
    pub components: Vec<QueryInfo>,
    /// How much each counts; empty: all the same.
    pub weights: Vec<f64>,
    /// How many fused rows to skip.
    pub skip: Option<u64>,
    /// How many of them to keep.
    pub take: Option<u64>,
}

impl QueryInfo {
    pub(super) fn to_value(&self) -> Value {
        let distinct = match self.distinct {
            DistinctType::None => "None",
            DistinctType::Ordered => "Ordered",
            DistinctType::Unordered => "Unordered",
        };
        let orders = self
            .order_by
            .iter()
            .map(|column| if column.descending { "Descending" } else { "Ascending" });
        let columns = self.order_by.iter().map(|column| column.expression.as_str());
        let kinds = self.aliases.iter().fold(Object::new(), |kinds, (alias, aggregate)| {
            kinds.with(alias.as_str(), aggregate.map_or(Value::Null, Value::from))
        });
        let dcount = self.counts_rows_as.as_ref().map_or(Value::Null, |alias| {
            Value::from(Object::new().with("dCountAlias", Value::from(alias.as_str())))
        });
        let info = Object::new()
            .with("distinctType", Value::from(distinct))
            .with("top", count(self.top))
            .with("offset", count(self.offset))
            .with("limit", count(self.limit))
            .with("orderBy", texts(orders))
            .with("orderByExpressions", texts(columns))
            .with("groupByExpressions", texts(self.group_by.iter().map(String::as_str)))
            .with("groupByAliases", texts(self.aliases.iter().map(|(alias, _)| alias.as_str())))
            .with("aggregates", texts(self.aggregates.iter().copied()))
            .with("groupByAliasToAggregateType", Value::from(kinds))
            .with("rewrittenQuery", Value::from(self.rewritten.as_str()))
            .with("hasSelectValue", self.has_select_value)
            .with("dCountInfo", dcount)
            .with("hasNonStreamingOrderBy", self.has_non_streaming_order_by);
        Value::from(info)
    }
}

impl HybridInfo {
    pub(super) fn to_value(&self) -> Value {
        let components: Vec<Value> = self.components.iter().map(QueryInfo::to_value).collect();
        let weights: Vec<Value> = self.weights.iter().map(|weight| Value::from(*weight)).collect();
        let info = Object::new()
            .with("globalStatisticsQuery", Value::from(self.statistics_query.as_str()))
            .with("componentQueryInfos", components)
            .with("componentWithoutPayloadQueryInfos", Vec::<Value>::new())
            .with("projectionQueryInfo", Value::Null)
            .with("componentWeights", weights)
            .with("skip", count(self.skip))
            .with("take", count(self.take))
            .with("requiresGlobalStatistics", self.needs_statistics);
        Value::from(info)
    }
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Value> {
    texts.map(Value::from).collect()
}

fn count(count: Option<u64>) -> Value {
    count.and_then(|count| i64::try_from(count).ok()).map_or(Value::Null, Value::from)
}
